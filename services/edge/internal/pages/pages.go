// Package pages renders the pages for people, with the policies that protect them, and serves the description of the
// API. A handler decides whether a document may be shown; nothing here asks another part of the system.
package pages

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/docs"
	"quire.dev/pkg/event"
)

//go:embed templates
var files embed.FS

// Pages renders pages. Anybody may have written the text that they show: html/template escapes it, and the
// Content-Security-Policy allows one style sheet, no script, and nothing from elsewhere.
type Pages struct {
	templates *template.Template
	style     template.CSS
	policy    string
	reference func() (*reference, error)

	openapi    []byte
	openapiTag string
}

// New reads the templates.
func New() *Pages {
	style, err := files.ReadFile("templates/style.css")
	if err != nil {
		panic(err) // it is embedded in the program
	}
	sum := sha256.Sum256(style)
	functions := template.FuncMap{"size": sizeText, "date": dateText, "hex": hex.EncodeToString}
	p := &Pages{
		templates: template.Must(template.New("").Funcs(functions).ParseFS(files, "templates/*.html")),
		style:     template.CSS(style),
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		openapi: docs.API(),
	}
	p.openapiTag = tagOf(p.openapi)
	p.reference = sync.OnceValues(func() (*reference, error) { return newReference(p.openapi) })
	return p
}

// page is the data of a template.
type page struct {
	Heading string
	Style   template.CSS
	Shown   any
}

// render answers with a page. No cache keeps it: the document may be deleted.
func (p *Pages) render(c *fiber.Ctx, status int, name, heading string, shown any) error {
	var out bytes.Buffer
	if err := p.templates.ExecuteTemplate(&out, name, page{Heading: heading, Style: p.style, Shown: shown}); err != nil {
		return fmt.Errorf("render page %s: %w", name, err)
	}
	protect(c, p.policy)
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderContentType, fiber.MIMETextHTMLCharsetUTF8)
	c.Status(status)
	c.Response().SetBodyRaw(out.Bytes())
	return nil
}

// WantsHTML tells whether a browser asks.
func WantsHTML(c *fiber.Ctx) bool {
	return strings.Contains(strings.ToLower(c.Get(fiber.HeaderAccept)), fiber.MIMETextHTML)
}

// Failure is a request that failed.
type Failure struct {
	Status                  int
	Reason, Code, RequestID string
}

// Failure answers with a page that says why there is no other.
func (p *Pages) Failure(c *fiber.Ctx, f Failure) error {
	if f.Status == fiber.StatusNotFound {
		f.Reason = "There is nothing here. It may have expired, been deleted or been read for its last time."
	}
	return p.render(c, f.Status, "failure", http.StatusText(f.Status), f)
}

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
	return p.render(c, status, "ask", heading, a)
}

// Text is a page that shows a text.
type Text struct {
	Document  *event.Document
	Content   string
	Truncated bool   // Content is only the beginning
	Burned    bool   // nobody can read the text again
	Raw       string // path of the whole content; empty where it has none
}

// Text shows a text.
func (p *Pages) Text(c *fiber.Ctx, t Text) error {
	heading := t.Document.Title
	if strings.TrimSpace(heading) == "" {
		heading = "Untitled"
	}
	SetRobots(c, t.Document)
	return p.render(c, fiber.StatusOK, "text", heading, t)
}

// File shows the facts about a file. raw is the path of its bytes.
func (p *Pages) File(c *fiber.Ctx, doc *event.Document, raw string) error {
	SetRobots(c, doc)
	return p.render(c, fiber.StatusOK, "file", doc.Title, struct {
		Document *event.Document
		Raw      string
	}{doc, raw})
}

// sizeText is a size as people read it.
func sizeText(n uint64) string {
	switch {
	case n == 1:
		return "1 byte"
	case n < 1<<10:
		return strconv.FormatUint(n, 10) + " bytes"
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// dateText is Unix milliseconds as people read them, "" for 0.
func dateText(ms int64) string {
	if ms == 0 {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format("2 January 2006, 15:04 UTC")
}
