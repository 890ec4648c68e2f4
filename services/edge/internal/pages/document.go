package pages

import (
	"fmt"
	"html/template"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/render"
)

// Ask is a page that asks for a document's password, or to confirm a read that deletes it: link previews and crawlers
// don't confirm.
type Ask struct {
	Document *event.Document
	Action   string // path the form is posted to
	Own      *Own   // nil unless the reader owns it
	Wrong    bool   // the submitted password was wrong
}

// Ask shows the form, and nothing else of the document.
func (p *Pages) Ask(c *fiber.Ctx, a Ask) error {
	heading, status := "This paste has a password", fiber.StatusOK
	if len(a.Document.PasswordHash) == 0 {
		heading = "This paste burns after reading"
	}
	if a.Wrong {
		status = fiber.StatusForbidden
	}
	SetRobots(c, a.Document)
	page := &Page{Template: "ask", Title: heading, Status: status, Styles: []string{"document"}, Data: struct {
		Ask
		Heading string
	}{a, heading}}
	if a.Own != nil {
		page.Scripts = []string{"copy.js", "times.js"}
		a.Own.add(page)
	}
	return p.Render(c, page)
}

// Own is what the page of a document has for its owner.
type Own struct {
	Share  Share
	Notice string        // what a form has done; empty for none
	Manage template.HTML // links and forms to change the document
}

// add adds what the owner's part of a page needs, if it has one.
func (o *Own) add(page *Page) {
	if o == nil {
		return
	}
	page.Styles = append(page.Styles, "own")
	if o.Notice != "" {
		page.Scripts = append(page.Scripts, SentScript)
	}
}

// Share is a link to copy.
type Share struct {
	URL      string // absolute
	Selected bool   // from the start, to be copied at once
}

// Text is the page of a paste or quick paste.
type Text struct {
	Own      *Own // nil unless the reader owns it, and for an earlier version
	Document *event.Document
	Lines    *render.Text // the text, or its beginning
	Version  uint64       // 0 for the current version
	URL      string       // absolute, for link previews on other sites and the QR code

	LanguageName string // of the document's language: see render.Languages.Name

	View template.HTML // rendered by package render, shown in place of the lines
	Kind string        // class of the view: "markdown", "table"
	Tabs []Link        // the views, if there are several
	More []Link        // other pages of the document: its versions

	Both   bool   // the lines are shown as well as View
	Notice string // about the view
	Whole  string // the full text, if Lines is truncated and no other page has the rest

	Truncated     bool   // only the beginning is shown
	Burned        bool   // this was the only read
	Raw, Download string // addresses of the full content; empty if it has none
}

// Heading is the title, or a default.
func (t *Text) Heading() string { return titleOf(t.Document) }

// Language is the display name of the language.
func (t *Text) Language() string {
	if t.LanguageName != "" {
		return t.LanguageName
	}
	if l := t.Document.Language; l != "plaintext" {
		return l
	}
	return "Plain text"
}

// public reports whether anyone can read the text, now and later.
func (t *Text) public() bool {
	d := t.Document
	return event.Visibility(d.Visibility) == event.Public && len(d.PasswordHash) == 0 && !d.BurnAfterRead
}

// Text shows a text page.
func (p *Pages) Text(c *fiber.Ctx, t *Text) error {
	SetRobots(c, t.Document)
	page := &Page{
		Template: "text", Title: render.VisibleText(t.Heading()), Wide: true, Index: t.public() && t.Version == 0,
		Styles: []string{"document"}, Scripts: []string{"copy.js", "times.js", "lines.js"}, Data: t,
	}
	if t.public() && t.URL != "" {
		page.Description = fmt.Sprintf("%s, %s", t.Language(), Size(t.Document.GetContent().GetSizeBytes()))
		page.Social = &Social{Title: page.Title, Description: page.Description, URL: t.URL}
	}
	t.Own.add(page)
	return p.Render(c, page)
}

// File is the page of a file.
type File struct {
	Own      *Own // nil unless the reader owns it
	Document *event.Document
	URL      string       // absolute, for the QR code
	Raw      string       // address of its bytes
	Image    string       // address of an image; empty for other files
	Frame    string       // address of a PDF, loaded on demand, since a PDF may open dialogs
	Lines    *render.Text // of a text file; else nil
	Embeds   []string     // see Page
	Notice   string       // why there is no preview, if that needs an explanation
}

func (f *File) scripts() []string {
	if f.Lines != nil {
		return []string{"copy.js", "times.js", "lines.js"}
	}
	return []string{"copy.js", "times.js"}
}

// File shows a file's page.
func (p *Pages) File(c *fiber.Ctx, f *File) error {
	SetRobots(c, f.Document)
	page := &Page{
		Template: "file", Title: render.VisibleText(f.Document.Title), Embeds: f.Embeds, Styles: []string{"document"},
		Scripts: f.scripts(), Data: f, Wide: f.Image != "" || f.Frame != "" || f.Lines != nil,
	}
	f.Own.add(page)
	return p.Render(c, page)
}
