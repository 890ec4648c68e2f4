// Package pages renders HTML pages under a strict Content-Security-Policy, and serves the OpenAPI documents. Handlers
// decide whether a document may be shown; nothing here calls another part of the system.
//
// A page is a template in the folder templates, which Render puts into the shared layout. Its style sheets, from the
// folder styles, are inlined. Its scripts are files in the folder assets. Each page lists the sheets and scripts it needs
// beside the base sheet, and works without scripts.
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

// Pages renders pages. They show untrusted text: html/template escapes it, and the Content-Security-Policy allows only
// the page's own style sheets and scripts.
type Pages struct {
	templates *template.Template
	sheets    map[string]sheet
	assets    *assets
	visitor   func(*fiber.Ctx) *Visitor // see ShowVisitors
	head      headScript

	openapi, pagesOpenAPI *Kept
}

// New parses the templates, style sheets and assets.
func New() *Pages {
	const yaml = "application/yaml; charset=utf-8"
	p := &Pages{openapi: KeepText(yaml, docs.API()), pagesOpenAPI: KeepText(yaml, docs.Pages())}
	var err error
	if p.assets, err = loadAssets(); err == nil {
		p.sheets, err = loadSheets()
	}
	if err == nil {
		p.head, err = loadHead()
	}
	if err != nil {
		panic(err) // the files are embedded
	}
	functions := Functions()
	functions["visible"], functions["hex"], functions["asset"], functions["qr"] = render.Visible, hex.EncodeToString, p.assets.address, qrCode
	p.templates = template.Must(template.New("").Funcs(functions).ParseFS(files, "templates/*.html"))
	return p
}

// Page is a page to render. Template and Title are required. By default search engines don't index a page.
type Page struct {
	// Template names a template in the folder templates. It renders the contents of <main>, including <h1>, from Data.
	Template string
	Title    string // of the browser tab
	Data     any

	Status       int      // 0 is fiber.StatusOK
	Description  string   // for search engines; "" for none
	Index        bool     // search engines may index the page
	Social       *Social  // for link previews on other sites; nil for none
	Styles       []string // sheets in the folder styles beside "base", without extension: "code"
	Scripts      []string // deferred scripts in the folder assets beside "site.js": "paste.js"
	Modules      []string // assets that the scripts of a kept page import: "verify.mjs"
	Embeds       []string // CSP sources of frames and images on other origins; 'self' for own frames
	Fetches      bool     // its scripts make requests to this server
	Wide         bool     // for code and tables
	Site         string   // origin of the links in the header and footer; empty for the page's own
	Section      string   // path of the current link in the header
	Sections     []Link   // a second navigation below the header
	SectionsName string   // label of that navigation for screen readers
	Path         string   // that signing in leads back to; empty: Render sets it for a page that GET shows again
	Visitor      *Visitor // the signed-in visitor; nil: Render looks it up
	ForAdmins    bool     // the header has no user
	Secret       bool     // never compressed, so that its size can't reveal a secret beside the request's input
}

// Social is the preview of a page on other sites. It must not reveal anything that the page itself hides.
type Social struct {
	Title, Description string
	URL                string // absolute
}

// scripts are all deferred scripts of the page.
func (page *Page) scripts() []string { return append([]string{"site.js"}, page.Scripts...) }

// Link is a link in a navigation.
type Link struct {
	Name, Path string
	Current    bool   // the link of this page
	Keys       string // its keyboard shortcut: "n", or "g d" for one key after the other; empty for none
}

// links are the links in the header.
func links(section string) []Link {
	out := []Link{{Name: "New paste", Path: "/", Keys: "n"}, {Name: "Docs", Path: "/docs", Keys: "g d"}, {Name: "Console", Path: "/console", Keys: "g o"}}
	for i := range out {
		out[i].Current = out[i].Path == section
	}
	return out
}

// layout is the data of the shared layout.
type layout struct {
	*Page
	Sheets  []template.CSS
	Head    template.JS
	Scripts []string
	Nonce   string
	Links   []Link
	SignIn  string // query of the link to sign in
}

// minCompressBytes is the size from which pages are compressed. Smaller ones fit the first packets anyway.
const minCompressBytes = 1400

// execute renders a page and returns its inlined sheets. Its scripts get the nonce, unless it is empty.
func (p *Pages) execute(page *Page, nonce string) ([]byte, []sheet, error) {
	sheets := []sheet{p.sheets["base"]}
	for _, name := range page.Styles {
		s, ok := p.sheets[name]
		if !ok {
			return nil, nil, fmt.Errorf("render page %s: there is no style sheet %q", page.Template, name)
		}
		sheets = append(sheets, s)
	}
	around := layout{Page: page, Head: p.head.text, Scripts: page.scripts(), Nonce: nonce, Links: links(page.Section), SignIn: signInQuery(page.Path)}
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

// Render answers with a page that must not be cached: its document may be deleted, and its nonce is for one response.
func (p *Pages) Render(c *fiber.Ctx, page *Page) error {
	nonce := rand.Text()
	shown := *page
	page = &shown
	page.Visitor = p.visitorOf(c, page)
	if page.Path == "" && (c.Method() == fiber.MethodGet || c.Method() == fiber.MethodHead) && page.Status < fiber.StatusBadRequest {
		page.Path = c.Path()
	}
	body, sheets, err := p.execute(page, nonce)
	if err != nil {
		return err
	}
	protectPage(c, page.policy(sheets, p.head.source, "'nonce-"+nonce+"'"))
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

// Fragment answers with a part of a page, which the page's script swaps in.
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

// WantsHTML reports whether the client prefers HTML, as browsers do.
func WantsHTML(c *fiber.Ctx) bool {
	return headers.Prefers(c.Context(), fiber.MIMETextHTML, fiber.MIMEApplicationJSON)
}

// Failure is the page of a failed request.
type Failure struct {
	Status                  int
	Reason, Code, RequestID string
}

// Title names the kind of failure.
func (f Failure) Title() string {
	switch f.Status {
	case fiber.StatusNotFound:
		return "Not found"
	case fiber.StatusForbidden:
		return "Not allowed"
	case fiber.StatusTooManyRequests:
		return "Too many requests"
	case fiber.StatusServiceUnavailable, fiber.StatusGatewayTimeout:
		return "Temporarily unavailable"
	case fiber.StatusInternalServerError:
		return "Something went wrong"
	}
	return http.StatusText(f.Status)
}

// Failure answers with an error page.
func (p *Pages) Failure(c *fiber.Ctx, f Failure) error {
	if f.Status == fiber.StatusNotFound {
		f.Reason = "The URL may be mistyped, or the content was deleted, has expired or could only be read once."
	}
	return p.Render(c, &Page{Template: "failure", Title: f.Title(), Status: f.Status, Data: f})
}

// Size formats a size.
func Size(n uint64) string {
	switch {
	case n == 1:
		return "1 byte"
	case n < 1<<10:
		return strconv.FormatUint(n, 10) + " bytes"
	case n < 1<<20:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
}

// dateText formats Unix milliseconds; "" for 0.
func dateText(ms int64) string {
	if ms == 0 {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format("2 January 2006, 15:04 UTC")
}

// timeTag is a <time> element of Unix milliseconds.
func timeTag(ms int64) template.HTML {
	instant := time.UnixMilli(ms).UTC().Format(time.RFC3339)
	return template.HTML(`<time datetime="` + instant + `">` + dateText(ms) + "</time>") //nolint:gosec // of a number
}

// exactTag is timeTag with milliseconds.
func exactTag(ms int64) template.HTML {
	at := time.UnixMilli(ms).UTC()
	return template.HTML(`<time data-exact datetime="` + at.Format("2006-01-02T15:04:05.000Z07:00") + `">` + //nolint:gosec // of a number
		at.Format("2 January 2006, 15:04:05.000 UTC") + "</time>")
}
