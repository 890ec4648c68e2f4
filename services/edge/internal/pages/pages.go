// Package pages renders the pages for people, with the policies that protect them, and serves the description of the
// API. A handler decides whether a document may be shown; nothing here asks another part of the system.
//
// A page is a template of the folder templates, which Render puts into the layout that all pages share. Its style sheets
// are files of the folder styles; they stand in the page itself. Its scripts are files of the folder assets. Each page
// names those that it needs beside the base sheet, and works without its scripts.
package pages

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"quire.dev/docs"
	"quire.dev/services/edge/internal/httpin/headers"
	"quire.dev/services/edge/internal/render"
)

// Pages renders pages. Anybody may have written the text that they show: html/template escapes it, and the
// Content-Security-Policy allows the page's own style sheets and scripts, and nothing else that runs.
type Pages struct {
	templates *template.Template
	sheets    map[string]sheet
	assets    *assets

	openapi, pagesOpenAPI *Kept
}

// New reads the templates, the style sheets and the assets.
func New() *Pages {
	const yaml = "application/yaml; charset=utf-8"
	p := &Pages{openapi: KeepText(yaml, docs.API()), pagesOpenAPI: KeepText(yaml, docs.Pages())}
	var err error
	if p.assets, err = loadAssets(); err == nil {
		p.sheets, err = loadSheets()
	}
	if err != nil {
		panic(err) // they are embedded in the program
	}
	functions := Functions()
	functions["visible"], functions["hex"], functions["asset"] = render.Visible, hex.EncodeToString, p.assets.address
	p.templates = template.Must(template.New("").Funcs(functions).ParseFS(files, "templates/*.html"))
	return p
}

// Page is a page to render. Template and Title must be set; the zero value of the rest is a page for itself, which search
// engines leave out.
type Page struct {
	// Template is the name of a template in the folder templates. It renders what stands inside of <main>, <h1> included,
	// from Data.
	Template string
	Title    string // of the window
	Data     any

	Status       int      // fiber.StatusOK where 0
	Description  string   // for search engines; "" is none
	Index        bool     // search engines may keep the page
	Social       *Social  // for sites that show a card in place of a link; nil is none
	Styles       []string // sheets of the folder styles beside "base", without their extension: "code"
	Scripts      []string // files of the folder assets, which are run once the page is there: "paste.js"
	Embeds       []string // CSP sources of frames and images that are not ours; 'self' for frames of our own
	Fetches      bool     // its scripts ask this server for more
	Wide         bool     // for code and tables
	Site         string   // origin that the header and the footer lead to; empty: the page's own
	Section      string   // path of the header's link that the page belongs to
	Sections     []Link   // a navigation of its own, below the header's
	SectionsName string   // of that navigation, for people with a screen reader
	Secret       bool     // shows what was made for one reader: it is not compressed together with what they sent
}

// Social is a page as other sites show it. It must have nothing that a reader of the page could not see.
type Social struct {
	Title, Description string
	URL                string // absolute
}

// Link leads to another page.
type Link struct {
	Name, Path string
	Current    bool // it is the page itself
}

// links are in the header of each page.
func links(section string) []Link {
	out := []Link{{Name: "New paste", Path: "/"}, {Name: "Docs", Path: "/docs"}, {Name: "Console", Path: "/console"}}
	for i := range out {
		out[i].Current = out[i].Path == section
	}
	return out
}

// layout is the data of the template that all pages have in common.
type layout struct {
	*Page
	Sheets []template.CSS
	Nonce  string
	Links  []Link
}

// minCompressBytes is the size from which a page is compressed. A smaller one fits the first packets as it is.
const minCompressBytes = 1400

// execute renders a page, and says which sheets stand in it. Its scripts have the nonce, if it is not empty.
func (p *Pages) execute(page *Page, nonce string) ([]byte, []sheet, error) {
	sheets := []sheet{p.sheets["base"]}
	for _, name := range page.Styles {
		s, ok := p.sheets[name]
		if !ok {
			return nil, nil, fmt.Errorf("render page %s: there is no style sheet %q", page.Template, name)
		}
		sheets = append(sheets, s)
	}
	around := layout{Page: page, Nonce: nonce, Links: links(page.Section)}
	for _, s := range sheets {
		around.Sheets = append(around.Sheets, s.text)
	}
	var out bytes.Buffer
	for _, part := range []struct {
		template string
		data     any
	}{{"layout-top", &around}, {page.Template, page.Data}, {"layout-bottom", &around}} {
		if err := p.templates.ExecuteTemplate(&out, part.template, part.data); err != nil {
			return nil, nil, fmt.Errorf("render page %s: %w", page.Template, err)
		}
	}
	return out.Bytes(), sheets, nil
}

// Render answers with a page. No cache keeps it: a document may be deleted, and the nonce of its scripts is for one answer.
func (p *Pages) Render(c *fiber.Ctx, page *Page) error {
	nonce := rand.Text()
	body, sheets, err := p.execute(page, nonce)
	if err != nil {
		return err
	}
	protectPage(c, page.policy(sheets, nonce))
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderContentType, fiber.MIMETextHTMLCharsetUTF8)
	c.Vary(fiber.HeaderAcceptEncoding)
	c.Status(cmp.Or(page.Status, fiber.StatusOK))
	if !page.Secret && len(body) >= minCompressBytes && accepts(c.Get(fiber.HeaderAcceptEncoding), "gzip") {
		body = fasthttp.AppendGzipBytesLevel(nil, body, fasthttp.CompressBestSpeed)
		c.Set(fiber.HeaderContentEncoding, "gzip")
	}
	c.Response().SetBodyRaw(body)
	return nil
}

// Fragment answers with a part of a page, for a script of a page of ours that puts it in its place.
func (p *Pages) Fragment(c *fiber.Ctx, part template.HTML) error {
	protectPage(c, "default-src 'none'; frame-ancestors 'none'")
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderContentType, fiber.MIMETextHTMLCharsetUTF8)
	c.Vary(fiber.HeaderAcceptEncoding)
	body := []byte(part)
	if len(body) >= minCompressBytes && accepts(c.Get(fiber.HeaderAcceptEncoding), "gzip") {
		body = fasthttp.AppendGzipBytesLevel(nil, body, fasthttp.CompressBestSpeed)
		c.Set(fiber.HeaderContentEncoding, "gzip")
	}
	c.Response().SetBodyRaw(body)
	return nil
}

// WantsHTML tells whether a browser asks.
func WantsHTML(c *fiber.Ctx) bool {
	return headers.Prefers(c.Context(), fiber.MIMETextHTML, fiber.MIMEApplicationJSON)
}

// Failure is a request that failed.
type Failure struct {
	Status                  int
	Reason, Code, RequestID string
}

// Title says in a few words which kind of failure it is.
func (f Failure) Title() string {
	switch f.Status {
	case fiber.StatusNotFound:
		return "There is nothing here"
	case fiber.StatusForbidden:
		return "This is not allowed"
	case fiber.StatusTooManyRequests:
		return "Too much at once"
	case fiber.StatusServiceUnavailable, fiber.StatusGatewayTimeout:
		return "Not available at the moment"
	case fiber.StatusInternalServerError:
		return "Something went wrong"
	}
	return http.StatusText(f.Status)
}

// Failure answers with a page that says why there is no other.
func (p *Pages) Failure(c *fiber.Ctx, f Failure) error {
	if f.Status == fiber.StatusNotFound {
		f.Reason = "The address may be mistyped, or what was there has expired, was deleted or was read for its last time."
	}
	return p.Render(c, &Page{Template: "failure", Title: f.Title(), Status: f.Status, Data: f})
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
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// dateText is Unix milliseconds as people read them, "" for 0.
func dateText(ms int64) string {
	if ms == 0 {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format("2 January 2006, 15:04 UTC")
}

// timeTag is Unix milliseconds for people and for programs.
func timeTag(ms int64) template.HTML {
	instant := time.UnixMilli(ms).UTC().Format(time.RFC3339)
	return template.HTML(`<time datetime="` + instant + `">` + dateText(ms) + "</time>") //nolint:gosec // of a number
}
