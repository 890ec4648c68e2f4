// Package pages makes what people see: pages in HTML with the policies that protect them, and the description of the
// API. A handler decides what may be shown; nothing here asks another part of the system.
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

	"quire.dev/pkg/event"
)

//go:embed templates
var files embed.FS

// Pages renders pages. Anybody may have written what they show: html/template escapes it, and the
// Content-Security-Policy allows one style sheet, no script, and nothing from elsewhere.
type Pages struct {
	templates *template.Template
	style     template.CSS
	policy    string
	reference func() (*reference, error)

	openapiTag string
}

// New reads the templates.
func New() *Pages {
	style, err := files.ReadFile("templates/style.css")
	if err != nil {
		panic(err) // it is embedded in the program
	}
	sum := sha256.Sum256(style)
	p := &Pages{
		templates: template.Must(template.ParseFS(files, "templates/*.html")), style: template.CSS(style),
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		openapiTag: tagOf(openapi),
	}
	p.reference = sync.OnceValues(func() (*reference, error) { return newReference(openapi, p.page) })
	return p
}

// page is what every page needs.
type page struct {
	Heading string
	Style   template.CSS
}

func (p *Pages) page(heading string) page { return page{Heading: heading, Style: p.style} }

// render answers with a page. No cache keeps it: what it shows may be deleted.
func (p *Pages) render(c *fiber.Ctx, status int, name string, data any) error {
	var out bytes.Buffer
	if err := p.templates.ExecuteTemplate(&out, name, data); err != nil {
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
	return p.render(c, f.Status, "failure", struct {
		page
		Failure
	}{p.page(http.StatusText(f.Status)), f})
}

// Ask is a page that asks for what it takes to see a document: its password, or the click that makes this its last
// read. A program that follows links does not click.
type Ask struct {
	Document *event.Document
	Action   string // path that the form is posted to
	Wrong    bool   // the password that was sent is not the document's
}

type askPage struct {
	page
	Action                string
	Burn, Password, Wrong bool
}

// Ask shows nothing else of the document.
func (p *Pages) Ask(c *fiber.Ctx, a Ask) error {
	shown := askPage{
		page: p.page("This paste has a password"), Action: a.Action,
		Burn: a.Document.BurnAfterRead, Password: len(a.Document.PasswordHash) > 0, Wrong: a.Wrong,
	}
	if !shown.Password {
		shown.Heading = "This paste burns after reading"
	}
	SetRobots(c, a.Document)
	status := fiber.StatusOK
	if a.Wrong {
		status = fiber.StatusForbidden
	}
	return p.render(c, status, "ask", shown)
}

// Text is a page that shows a text.
type Text struct {
	Document  *event.Document
	Content   []byte
	Truncated bool   // Content is only the beginning
	Burned    bool   // nobody can read the text again
	Raw       string // path of the whole content; empty where it has none
}

type textPage struct {
	page
	Language, Size, Created, Expires string
	Tags                             []string
	Raw, Content                     string
	Truncated, Burned                bool
}

// Text shows a text.
func (p *Pages) Text(c *fiber.Ctx, t Text) error {
	doc := t.Document
	heading := doc.Title
	if strings.TrimSpace(heading) == "" {
		heading = "Untitled"
	}
	shown := textPage{
		page: p.page(heading), Language: doc.Language, Size: sizeText(doc.GetContent().GetSizeBytes()),
		Created: dateText(doc.CreatedMs), Expires: dateText(doc.ExpiresMs), Tags: doc.Tags, Content: string(t.Content),
		Raw: t.Raw, Truncated: t.Truncated, Burned: t.Burned,
	}
	if t.Burned {
		shown.Expires = ""
	}
	SetRobots(c, doc)
	return p.render(c, fiber.StatusOK, "text", shown)
}

type filePage struct {
	page
	Size, Type, SHA256, Created, Expires, Raw string
}

// File shows what is known of a file. raw is the path of its bytes.
func (p *Pages) File(c *fiber.Ctx, doc *event.Document, raw string) error {
	SetRobots(c, doc)
	return p.render(c, fiber.StatusOK, "file", filePage{
		page: p.page(doc.Title), Size: sizeText(doc.GetContent().GetSizeBytes()), Type: doc.ContentType,
		SHA256: hex.EncodeToString(doc.GetContent().GetSha256()), Created: dateText(doc.CreatedMs),
		Expires: dateText(doc.ExpiresMs), Raw: raw,
	})
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
