package pages

import (
	"fmt"
	"html/template"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/render"
)

// Ask is a page that asks for the password of a document, or for the click that makes this its last read. A program that
// follows links does not click.
type Ask struct {
	Document *event.Document
	Action   string // path that the form is posted to
	Wrong    bool   // the password that was sent is not the document's
}

// Ask shows nothing else of the document.
func (p *Pages) Ask(c *fiber.Ctx, a Ask) error {
	heading, status := "This paste has a password", fiber.StatusOK
	if len(a.Document.PasswordHash) == 0 {
		heading = "This paste burns after reading"
	}
	if a.Wrong {
		status = fiber.StatusForbidden
	}
	SetRobots(c, a.Document)
	return p.Render(c, &Page{Template: "ask", Title: heading, Status: status, Styles: []string{"document"}, Data: struct {
		Ask
		Heading string
	}{a, heading}})
}

// Text is a page that shows a text.
type Text struct {
	Document *event.Document
	Lines    *render.Text // the text, or its beginning
	Version  uint64       // that is shown, where that is not the current one; else 0
	URL      string       // absolute address of the page, for its card on other sites

	LanguageName string // of the document's language: see render.Languages.Name

	View template.HTML // another view of the text, which is shown in place of its lines; made by package render
	Kind string        // class of the view: "markdown", "table"
	Tabs []Link        // the views, where there are several
	More []Link        // other pages of the document: its versions

	Both   bool   // View is beside the lines
	Notice string // about the view
	Whole  string // the text, in place of lines that are not all of it, where no other page has it

	Truncated     bool   // only the beginning is shown
	Burned        bool   // nobody can read the text again
	Raw, Download string // addresses of the whole content; empty where it has none
}

// Heading is the title.
func (t *Text) Heading() string { return titleOf(t.Document) }

// Language is the language as people write it.
func (t *Text) Language() string {
	if t.LanguageName != "" {
		return t.LanguageName
	}
	if l := t.Document.Language; l != "plaintext" {
		return l
	}
	return "Plain text"
}

// public tells whether everybody may see the text, now and later.
func (t *Text) public() bool {
	d := t.Document
	return event.Visibility(d.Visibility) == event.Public && len(d.PasswordHash) == 0 && !d.BurnAfterRead
}

// Text shows a text.
func (p *Pages) Text(c *fiber.Ctx, t *Text) error {
	SetRobots(c, t.Document)
	page := &Page{
		Template: "text", Title: render.VisibleText(t.Heading()), Wide: true, Index: t.public() && t.Version == 0,
		Styles: []string{"document"}, Scripts: []string{"copy.js", "times.js", "lines.js"}, Data: t,
	}
	if t.public() && t.URL != "" {
		page.Description = fmt.Sprintf("%s, %s", t.Language(), sizeText(t.Document.GetContent().GetSizeBytes()))
		page.Social = &Social{Title: page.Title, Description: page.Description, URL: t.URL}
	}
	return p.Render(c, page)
}

// File is a page that shows a file.
type File struct {
	Document *event.Document
	Raw      string       // address of its bytes
	Image    string       // address of a picture; empty where it is none
	Frame    string       // address of a PDF, loaded once a reader asks for it: a PDF may open dialogs
	Lines    *render.Text // of a text; nil where it is none
	Embeds   []string     // see Page
	Notice   string       // why there is no preview, where that needs saying
}

func (f *File) scripts() []string {
	if f.Lines != nil {
		return []string{"copy.js", "times.js", "lines.js"}
	}
	return []string{"copy.js", "times.js"}
}

// File shows a file.
func (p *Pages) File(c *fiber.Ctx, f *File) error {
	SetRobots(c, f.Document)
	return p.Render(c, &Page{
		Template: "file", Title: render.VisibleText(f.Document.Title), Embeds: f.Embeds, Styles: []string{"document"},
		Scripts: f.scripts(), Data: f, Wide: f.Image != "" || f.Frame != "" || f.Lines != nil,
	})
}
