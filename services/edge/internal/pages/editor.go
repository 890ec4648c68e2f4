package pages

import (
	"bytes"
	"html/template"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/kind"
	"quire.dev/services/edge/internal/render"
)

// PreviewPath is where a form with an Editor is posted to see its text rendered, and LanguagePath where its script asks for
// the language of a text.
const (
	PreviewPath  = "/editor/preview"
	LanguagePath = "/editor/language"
)

// Editor is the field for a text, the same in every form with one. Without scripts it is a plain text area. The form's fields
// title and language belong to it too. Its page calls UseEditor.
type Editor struct {
	ID          string // of the text area, whose name is content
	Value       string
	Rows        int
	DescribedBy string // ids of texts about the field
	Invalid     bool
	Focus       bool
	MaxBytes    int64  // of the text
	Account     string // id of the account that pasted images are uploaded to; empty if there is no session
	Fresh       bool   // Value is not what the reader has just sent, so that an unsaved text may be restored
}

// UseEditor adds what a page with an Editor needs.
func (page *Page) UseEditor() {
	page.Styles = append(page.Styles, "document", "editor")
	page.Scripts = append(page.Scripts, "editor.js")
	page.Fetches = true
}

// SentScript is the script of a page that confirms what an Editor has sent: the browser forgets the unsaved text.
const SentScript = "sent.js"

// Editor renders the field for templates of other packages.
func (p *Pages) Editor(e *Editor) (template.HTML, error) {
	return p.part("editor", e)
}

// PreviewHTML renders a text for the script of an Editor. Only the fields about the text itself are used.
func (p *Pages) PreviewHTML(t *Text) (template.HTML, error) {
	return p.part("preview-text", t)
}

func (p *Pages) part(name string, data any) (template.HTML, error) {
	var out bytes.Buffer
	err := p.templates.ExecuteTemplate(&out, name, data)
	return template.HTML(out.String()), err //nolint:gosec // a template made it
}

// Preview shows how a text would look, to readers without scripts.
func (p *Pages) Preview(c *fiber.Ctx, t *Text) error {
	return p.Render(c, &Page{
		Template: "preview", Title: "Preview of " + render.VisibleText(t.Heading()), Wide: true, Styles: []string{"document"},
		Scripts: []string{"copy.js", "lines.js"}, Data: t,
	})
}

// PreviewOf is the text of a form for Preview and PreviewHTML.
func PreviewOf(title, language string) *Text {
	return &Text{Document: &event.Document{Title: title, Language: language}}
}

// Languages are the choices of a form for the language of a text. The API accepts any name.
func Languages(selected string) []option {
	return options(selected,
		kind.AutoLanguage, "Auto-detect", "plaintext", "Plain text", "bash", "Bash", "c", "C", "c++", "C++", "c#", "C#", "css", "CSS", "csv", "CSV", "diff", "Diff",
		"docker", "Dockerfile", "elixir", "Elixir", "erlang", "Erlang", "fsharp", "F#", "go", "Go", "graphql", "GraphQL", "groovy", "Groovy", "haskell", "Haskell",
		"hcl", "HCL", "html", "HTML", "ini", "INI", "java", "Java", "javascript", "JavaScript", "json", "JSON", "julia", "Julia",
		"kotlin", "Kotlin", "tex", "LaTeX", "lua", "Lua", "makefile", "Makefile", "markdown", "Markdown", "nginx", "nginx", "nix", "Nix",
		"ocaml", "OCaml", "perl", "Perl", "php", "PHP", "powershell", "PowerShell", "protobuf", "Protocol Buffers", "python", "Python",
		"r", "R", "ruby", "Ruby", "rust", "Rust", "scala", "Scala", "sql", "SQL", "swift", "Swift", "terraform", "Terraform", "toml", "TOML", "tsv", "TSV",
		"typescript", "TypeScript", "verilog", "Verilog", "xml", "XML", "yaml", "YAML", "zig", "Zig")
}
