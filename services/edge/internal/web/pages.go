package web

import (
	"quire.dev/services/edge/internal/httpin"

	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/fault"
)

// pageBytes is how much of a text its page shows; the rest is behind the link to the raw text.
const pageBytes = 512 << 10

//go:embed pages
var pageFiles embed.FS

// pages answers people. What it shows was written by anybody: it is escaped by html/template, and
// the Content-Security-Policy allows one style sheet, no script and nothing from elsewhere.
type pages struct {
	s         *Server
	templates *template.Template
	style     template.CSS
	policy    string
	views     *viewLimit
}

func newPages(s *Server) *pages {
	style, err := pageFiles.ReadFile("pages/style.css")
	if err != nil {
		panic(err) // it is in the program
	}
	sum := sha256.Sum256(style)
	return &pages{
		s: s, templates: template.Must(template.ParseFS(pageFiles, "pages/*.html")), style: template.CSS(style),
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		views: newViewLimit(),
	}
}

func (s *Server) registerPages() {
	p := newPages(s)
	for _, k := range []*textKind{pasteKind(), liteKind()} {
		s.http.Handle(fiber.MethodGet, k.page+":ref", p.people(func(c *fiber.Ctx) error { return p.showText(c, k) }))
		s.http.Handle(fiber.MethodPost, k.page+":ref", p.people(func(c *fiber.Ctx) error { return p.revealText(c, k) }))
		s.http.Handle(fiber.MethodGet, k.page+":ref/raw", p.programs(func(c *fiber.Ctx) error { return p.rawText(c, k) }))
	}
	s.http.Handle(fiber.MethodGet, "/f/:id", p.people(p.showFile))
	s.http.Handle(fiber.MethodGet, "/f/:id/raw", p.programs(p.rawFile))
}

// people limits a page's views by source, and turns failures into a page where a browser asks.
func (p *pages) people(h fiber.Handler) fiber.Handler {
	limited := p.programs(h)
	return func(c *fiber.Ctx) error {
		err := limited(c)
		if err == nil || !wantsHTML(c) {
			return err
		}
		return p.failure(c, err)
	}
}

// programs limits the views by source; failures stay JSON.
func (p *pages) programs(h fiber.Handler) fiber.Handler {
	return func(c *fiber.Ctx) error {
		if err := p.views.admit(p.s.http.Source(c), p.s.now()); err != nil {
			return err
		}
		return h(c)
	}
}

func wantsHTML(c *fiber.Ctx) bool {
	return strings.Contains(strings.ToLower(c.Get(fiber.HeaderAccept)), fiber.MIMETextHTML)
}

// pageHead is what every page needs.
type pageHead struct {
	Heading string
	Style   template.CSS
}

func (p *pages) head(heading string) pageHead { return pageHead{Heading: heading, Style: p.style} }

// render answers with a page. Pages are never kept by a cache: what they show may be deleted.
func (p *pages) render(c *fiber.Ctx, status int, name string, data any) error {
	var out bytes.Buffer
	if err := p.templates.ExecuteTemplate(&out, name, data); err != nil {
		return fmt.Errorf("render page %s: %w", name, err)
	}
	p.protect(c, p.policy)
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderContentType, fiber.MIMETextHTMLCharsetUTF8)
	c.Status(status)
	c.Response().SetBodyRaw(out.Bytes())
	return nil
}

// protect sets what keeps a browser from making more of an answer than it is.
func (p *pages) protect(c *fiber.Ctx, policy string) {
	c.Set(fiber.HeaderContentSecurityPolicy, policy)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	c.Set(fiber.HeaderXFrameOptions, "DENY")
}

// protectRaw is protect for content itself, of a document in the given visibility.
func (p *pages) protectRaw(c *fiber.Ctx, doc *event.Document) {
	p.protect(c, "sandbox; default-src 'none'; frame-ancestors 'none'")
	setRobots(c, doc)
}

// setRobots keeps what is not public out of search engines.
func setRobots(c *fiber.Ctx, doc *event.Document) {
	if event.Visibility(doc.Visibility) != event.Public {
		c.Set("X-Robots-Tag", "noindex, nofollow")
	}
}

type failurePage struct {
	pageHead
	Status                  int
	Reason, Code, RequestID string
}

// failure has onError answer, and puts a page in place of its JSON.
func (p *pages) failure(c *fiber.Ctx, err error) error {
	p.s.fail(c.Context(), c.Route().Path, err)
	e, status := asFault(err), c.Response().StatusCode()
	shown := failurePage{
		pageHead: p.head(http.StatusText(status)), Status: status,
		Reason: e.Message, Code: string(e.Kind), RequestID: httpin.RequestID(c),
	}
	if e.Kind == fault.NotFound {
		shown.Reason = "There is nothing here. It may have expired, been deleted or been read for its last time."
	}
	return p.render(c, status, "failure", shown)
}

// visible reads a document that anybody may see; 404 for all others.
func (p *pages) visible(d event.Domain, id string) (*event.Document, error) {
	var pending *bus.PendingRead
	if event.ValidItemID(id) {
		pending = p.s.bus.StartRead(d, &event.Read{Item: id})
	}
	doc, err := p.s.readDocument(pending)
	if err != nil {
		return nil, err
	}
	if v := event.Visibility(doc.Visibility); v != event.Public && v != event.Unlisted {
		return nil, notFound()
	}
	return doc, nil
}

type askPage struct {
	pageHead
	Action                string
	Burn, Password, Wrong bool
}

// ask shows nothing of the document but what it takes to see it: a password, or the click that makes
// this its last read. A program that follows links does not click.
func (p *pages) ask(c *fiber.Ctx, k *textKind, doc *event.Document, wrong bool) error {
	shown := askPage{
		pageHead: p.head("This paste has a password"), Action: k.page + doc.Id,
		Burn: doc.BurnAfterRead, Password: len(doc.PasswordHash) > 0, Wrong: wrong,
	}
	if !shown.Password {
		shown.Heading = "This paste burns after reading"
	}
	setRobots(c, doc)
	status := fiber.StatusOK
	if wrong {
		status = fault.WrongPassword.Status()
	}
	return p.render(c, status, "ask", shown)
}

func (p *pages) showText(c *fiber.Ctx, k *textKind) error {
	doc, err := p.visible(k.domain, strings.Clone(c.Params("ref")))
	if err != nil {
		return err
	}
	if doc.BurnAfterRead || len(doc.PasswordHash) > 0 {
		return p.ask(c, k, doc, false)
	}
	return p.showContent(c, k, doc)
}

// revealText shows what asks for a password or a click. Only this burns.
func (p *pages) revealText(c *fiber.Ctx, k *textKind) error {
	if err := p.s.sameOrigin(c); err != nil {
		return err
	}
	password, err := p.readReveal(c)
	if err != nil {
		return err
	}
	ref := strings.Clone(c.Params("ref"))
	for range readTries {
		doc, err := p.visible(k.domain, ref)
		if err != nil {
			return err
		}
		if err := p.checkPassword(c, doc, password); err != nil {
			if fault.KindOf(err) == fault.WrongPassword && wantsHTML(c) {
				return p.ask(c, k, doc, true)
			}
			return err
		}
		if !doc.BurnAfterRead {
			return p.showContent(c, k, doc)
		}
		content, err := p.s.burn(c, k.domain, doc, 0)
		if err == nil {
			return p.showBurned(c, doc, content)
		}
		if fault.KindOf(err) != fault.VersionMismatch && !errors.Is(err, blob.ErrNotFound) {
			return err
		}
	}
	return unavailable(errReadRace)
}

// readReveal reads the form of ask.
func (p *pages) readReveal(c *fiber.Ctx) (password string, err error) {
	body, err := p.s.http.ReadBody(c, accountBody())
	if err != nil || len(body) == 0 {
		return "", err
	}
	if name, _, _ := httpin.MediaType(c); name != fiber.MIMEApplicationForm {
		return "", httpin.UnsupportedMediaType("Content-Type must be application/x-www-form-urlencoded.")
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return "", httpin.Malformed("The body is not a valid form.")
	}
	for name, values := range form {
		switch {
		case name != "password":
			return "", httpin.UnknownField(name)
		case len(values) != 1:
			return "", httpin.InvalidField(name, "must be given once")
		}
		password = values[0]
	}
	return password, nil
}

// checkPassword is requirePassword, where a source that guesses is stopped.
func (p *pages) checkPassword(c *fiber.Ctx, doc *event.Document, password string) error {
	if len(doc.PasswordHash) == 0 {
		return nil
	}
	if err := p.s.failures.refused(p.s.http.Source(c), p.s.now()); err != nil {
		return err
	}
	err := p.s.requirePassword(doc, password)
	if fault.KindOf(err) == fault.WrongPassword && password != "" {
		return p.s.sourceFailed(c, err)
	}
	return err
}

type textPage struct {
	pageHead
	Language, Size, Created, Expires string
	Tags                             []string
	Raw                              string // path of all of it; "" where it has none
	Content                          string
	Truncated, Burned                bool
}

func (p *pages) textPage(doc *event.Document, content []byte) textPage {
	heading := doc.Title
	if strings.TrimSpace(heading) == "" {
		heading = "Untitled"
	}
	return textPage{
		pageHead: p.head(heading), Language: doc.Language, Size: sizeText(doc.GetContent().GetSizeBytes()),
		Created: dateText(doc.CreatedMs), Expires: dateText(doc.ExpiresMs), Tags: doc.Tags, Content: string(content),
	}
}

// showContent shows the beginning of a text, and of most texts that is all.
func (p *pages) showContent(c *fiber.Ctx, k *textKind, doc *event.Document) error {
	content, truncated, err := p.excerpt(c, doc.GetContent())
	if err != nil {
		return err
	}
	shown := p.textPage(doc, content)
	shown.Truncated = truncated
	if len(doc.PasswordHash) == 0 {
		shown.Raw = k.page + doc.Id + "/raw"
	}
	setRobots(c, doc)
	return p.render(c, fiber.StatusOK, "text", shown)
}

// showBurned shows all of a text, for it can't be had again.
func (p *pages) showBurned(c *fiber.Ctx, doc *event.Document, content []byte) error {
	shown := p.textPage(doc, content)
	shown.Burned, shown.Expires = true, ""
	setRobots(c, doc)
	return p.render(c, fiber.StatusOK, "text", shown)
}

// excerpt is the first pageBytes of a content, of whole characters.
func (p *pages) excerpt(c *fiber.Ctx, content *event.Content) (text []byte, truncated bool, err error) {
	size := min(int64(content.GetSizeBytes()), pageBytes)
	if content.GetBlob() == "" {
		return content.GetInline(), false, nil
	}
	if err := p.s.http.Reserve(c, 2*size); err != nil { // once as it is, once as a page
		return nil, false, err
	}
	r, err := p.s.openContent(p.s.ctx, content, 0, size)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, false, notFound() // deleted since it was read
	}
	if err != nil {
		return nil, false, err
	}
	defer r.Close()
	text = make([]byte, size)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, false, unavailable(fmt.Errorf("read content: %w", err))
	}
	if int64(content.GetSizeBytes()) == size {
		return text, false, nil
	}
	return text[:wholeRunes(text)], true, nil
}

// rawText is the content alone. A GET burns nothing: what burns after reading is refused here.
func (p *pages) rawText(c *fiber.Ctx, k *textKind) error {
	noneOf, err := httpin.ParseETags(c, fiber.HeaderIfNoneMatch)
	if err != nil {
		return err
	}
	doc, err := p.visible(k.domain, strings.Clone(c.Params("ref")))
	if err != nil {
		return err
	}
	if doc.BurnAfterRead {
		return fault.New(fault.ConfirmationRequired, "The paste burns after reading: open %s to read it, or use the API.", p.s.url(k.page+doc.Id))
	}
	if err := p.checkPassword(c, doc, strings.Clone(c.Get(headerPassword))); err != nil {
		return err
	}
	tag := strconv.FormatUint(doc.Version, 10)
	p.protectRaw(c, doc)
	c.Set(fiber.HeaderCacheControl, rawCache(doc))
	if noneOf.Matches(tag) {
		return httpin.NotModified(c, tag)
	}
	c.Set(fiber.HeaderContentType, fiber.MIMETextPlainCharsetUTF8)
	err = httpin.WriteRange(c, &httpin.Ranged{
		Size: int64(doc.GetContent().GetSizeBytes()), ETag: tag,
		Open: func(offset, length int64) (io.ReadCloser, error) {
			return p.s.openContent(p.s.ctx, doc.GetContent(), offset, length)
		},
	})
	if errors.Is(err, blob.ErrNotFound) {
		return notFound() // deleted since it was read
	}
	return err
}

// rawCache lets a browser keep a text but ask each time, since it may be gone.
func rawCache(doc *event.Document) string {
	if len(doc.PasswordHash) > 0 {
		return "no-store"
	}
	return "no-cache"
}

type filePage struct {
	pageHead
	Size, Type, SHA256, Created, Expires, Raw string
}

func (p *pages) showFile(c *fiber.Ctx) error {
	doc, err := p.visible(event.File, strings.Clone(c.Params("id")))
	if err != nil {
		return err
	}
	setRobots(c, doc)
	return p.render(c, fiber.StatusOK, "file", filePage{
		pageHead: p.head(doc.Title), Size: sizeText(doc.GetContent().GetSizeBytes()), Type: doc.ContentType,
		SHA256: hex.EncodeToString(doc.GetContent().GetSha256()), Created: dateText(doc.CreatedMs),
		Expires: dateText(doc.ExpiresMs), Raw: "/f/" + doc.Id + "/raw",
	})
}

func (p *pages) rawFile(c *fiber.Ctx) error {
	noneOf, err := httpin.ParseETags(c, fiber.HeaderIfNoneMatch)
	if err != nil {
		return err
	}
	doc, err := p.visible(event.File, strings.Clone(c.Params("id")))
	if err != nil {
		return err
	}
	setRobots(c, doc)
	if noneOf.Matches(fileTag(doc)) {
		return httpin.NotModified(c, fileTag(doc))
	}
	return p.s.sendFile(c, doc)
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
