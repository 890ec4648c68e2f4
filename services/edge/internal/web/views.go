package web

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/pages"
	"quire.dev/services/edge/internal/render"
)

// pageBytes is how much of a text its page shows. The page links to the raw text for the rest.
const pageBytes = 512 << 10

// pageFactor is the memory that a page of a text takes for each byte of the text: most pages are below that.
const pageFactor = 8

// failurePage answers as fail does, with a page in place of JSON.
func (s *Server) failurePage(c *fiber.Ctx, err error) error {
	s.fail(c.Context(), c.Route().Path, err)
	e := asFault(err)
	return s.pages.Failure(c, pages.Failure{
		Status: e.Kind.Status(), Reason: e.Message, Code: string(e.Kind), RequestID: httpin.RequestID(c),
	})
}

// missingPage answers where no route has the path: with a page where a browser asks outside of the API.
func (s *Server) missingPage(c *fiber.Ctx, err error) error {
	if strings.HasPrefix(c.Path(), "/api/") || !pages.WantsHTML(c) || s.onContentHost(c) {
		return err
	}
	if err := s.views.admit(s.http.Source(c), s.now()); err != nil {
		return err
	}
	return s.failurePage(c, err)
}

// visible reads a document that anybody may see. All others are 404.
func (s *Server) visible(d event.Domain, id string) (*event.Document, error) {
	var pending *bus.PendingRead
	if event.ValidItemID(id) {
		pending = s.bus.StartRead(d, &event.Read{Item: id})
	}
	doc, err := s.readDocument(pending)
	if err != nil {
		return nil, err
	}
	if v := event.Visibility(doc.Visibility); v != event.Public && v != event.Unlisted {
		return nil, notFound()
	}
	return doc, nil
}

func (s *Server) showText(c *call, k *textKind) error {
	doc, err := s.visible(k.domain, c.param("ref"))
	if err != nil {
		return err
	}
	if doc.BurnAfterRead || len(doc.PasswordHash) > 0 {
		return s.pages.Ask(c.Ctx, pages.Ask{Document: doc, Action: k.page + doc.Id})
	}
	return s.showContent(c, k, doc)
}

// revealText shows a text that asks for a password or a click. No other page burns.
func (s *Server) revealText(c *call, k *textKind) error {
	password, err := parseReveal(c.form)
	if err != nil {
		return err
	}
	ref := c.param("ref")
	for range readTries {
		doc, err := s.visible(k.domain, ref)
		if err != nil {
			return err
		}
		if err := s.admitPassword(c, doc, password); err != nil {
			if fault.KindOf(err) == fault.WrongPassword && pages.WantsHTML(c.Ctx) {
				return s.pages.Ask(c.Ctx, pages.Ask{Document: doc, Action: k.page + doc.Id, Wrong: true})
			}
			return err
		}
		if !doc.BurnAfterRead {
			return s.showContent(c, k, doc)
		}
		content, err := s.burn(c, k.domain, doc, 0)
		if err == nil {
			return s.pages.Text(c.Ctx, &pages.Text{Document: doc, Lines: s.lines(doc, content), Burned: true})
		}
		if fault.KindOf(err) != fault.VersionMismatch && !errors.Is(err, blob.ErrNotFound) {
			return err
		}
	}
	return unavailable(errReadRace)
}

// parseReveal reads the form of pages.Ask.
func parseReveal(body []byte) (password string, err error) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return "", httpin.Malformed("The body is not a valid form.")
	}
	for name, values := range form {
		switch {
		case name != "password":
			return "", httpin.UnknownField(name, "password")
		case len(values) != 1:
			return "", httpin.InvalidField(name, "must be given once")
		}
		password = values[0]
	}
	return password, nil
}

// admitPassword is requirePassword with a limit for a source that guesses.
func (s *Server) admitPassword(c *call, doc *event.Document, password string) error {
	if len(doc.PasswordHash) == 0 {
		return nil
	}
	if err := s.failures.refused(s.http.Source(c.Ctx), s.now()); err != nil {
		return err
	}
	err := s.requirePassword(doc, password)
	if fault.KindOf(err) == fault.WrongPassword && password != "" {
		return s.sourceFailed(c.Ctx, err)
	}
	return err
}

// showContent shows the beginning of a text. Most texts are not longer.
func (s *Server) showContent(c *call, k *textKind, doc *event.Document) error {
	content, truncated, err := s.excerpt(c, doc.GetContent())
	if err != nil {
		return err
	}
	path := k.page + doc.Id
	shown := &pages.Text{Document: doc, Lines: s.lines(doc, content), Truncated: truncated, URL: s.url(path)}
	if len(doc.PasswordHash) == 0 {
		shown.Raw, shown.Download = s.contentURL(path+"/raw"), s.contentURL(path+"/download")
	}
	return s.pages.Text(c.Ctx, shown)
}

// lines are the lines of a document's text, highlighted where it is of a known language.
func (s *Server) lines(doc *event.Document, content []byte) *render.Text {
	return s.render.Text(s.ctx, string(content), doc.Language)
}

// excerpt is the first pageBytes of a content, of whole characters.
func (s *Server) excerpt(c *call, content *event.Content) (text []byte, truncated bool, err error) {
	size := min(int64(content.GetSizeBytes()), pageBytes)
	if content.GetBlob() == "" {
		return content.GetInline(), false, nil
	}
	if err := s.http.Reserve(c.Ctx, pageFactor*size); err != nil {
		return nil, false, err
	}
	r, err := s.openContent(s.ctx, content, 0, size)
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

// downloadText is rawText as a file that the browser saves.
func (s *Server) downloadText(c *call, k *textKind) error {
	c.download = true
	return s.rawText(c, k)
}

// rawText answers with the content alone. A GET must not burn, so that a text that burns after reading is refused.
func (s *Server) rawText(c *call, k *textKind) error {
	conditions, err := httpin.ReadConditions(c.Ctx)
	if err != nil {
		return err
	}
	doc, err := s.visible(k.domain, c.param("ref"))
	if err != nil {
		return err
	}
	if doc.BurnAfterRead {
		return fault.New(fault.ConfirmationRequired, "The paste burns after reading: open %s to read it, or use the API.", s.url(k.page+doc.Id))
	}
	if err := s.admitPassword(c, doc, strings.Clone(c.Get(headerPassword))); err != nil {
		return err
	}
	tag := strconv.FormatUint(doc.Version, 10)
	known, err := conditions.Check(tag)
	if err != nil {
		return err
	}
	pages.ProtectRaw(c.Ctx, doc)
	if known {
		return httpin.NotModified(c.Ctx, tag)
	}
	c.Set(fiber.HeaderContentType, fiber.MIMETextPlainCharsetUTF8)
	if c.download {
		c.Set(fiber.HeaderContentDisposition, httpin.ContentDisposition(fileName(doc)))
	}
	return s.sendContent(c, doc, tag)
}

func (s *Server) showFile(c *call) error {
	doc, err := s.visible(event.File, c.param("id"))
	if err != nil {
		return err
	}
	return s.pages.File(c.Ctx, &pages.File{Document: doc, Raw: s.contentURL("/f/" + doc.Id + "/raw")})
}

func (s *Server) rawFile(c *call) error {
	conditions, err := httpin.ReadConditions(c.Ctx)
	if err != nil {
		return err
	}
	doc, err := s.visible(event.File, c.param("id"))
	if err != nil {
		return err
	}
	pages.SetRobots(c.Ctx, doc)
	return s.sendFile(c, doc, conditions)
}

// asset answers with a file that pages load.
func (s *Server) asset(c *call) error {
	found, err := s.pages.Asset(c.Ctx, c.Params("name"))
	if err == nil && !found {
		err = notFound()
	}
	return err
}

// operate answers /livez, /readyz and /metrics.
func (s *Server) operate(c *call) error {
	s.ops(c.Context())
	return nil
}
