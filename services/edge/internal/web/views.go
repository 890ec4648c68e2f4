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
)

// pageBytes is how much of a text its page shows. The page links to the raw text for the rest.
const pageBytes = 512 << 10

func (s *Server) registerPages() {
	for _, k := range []*textKind{pasteKind(), liteKind()} {
		s.http.Handle(fiber.MethodGet, k.page+":ref", s.people(func(c *fiber.Ctx) error { return s.showText(c, k) }))
		s.http.Handle(fiber.MethodPost, k.page+":ref", s.people(func(c *fiber.Ctx) error { return s.revealText(c, k) }))
		s.http.Handle(fiber.MethodGet, k.page+":ref/raw", s.programs(func(c *fiber.Ctx) error { return s.rawText(c, k) }))
	}
	s.http.Handle(fiber.MethodGet, "/f/:id", s.people(s.showFile))
	s.http.Handle(fiber.MethodGet, "/f/:id/raw", s.programs(s.rawFile))
	s.http.Handle(fiber.MethodGet, "/docs", s.people(s.pages.Reference))
	s.http.Handle(fiber.MethodGet, "/docs/openapi.yaml", s.pages.OpenAPI)
}

// people limits a page's views by source, and turns failures into a page where a browser asks.
func (s *Server) people(h fiber.Handler) fiber.Handler {
	limited := s.programs(h)
	return func(c *fiber.Ctx) error {
		err := limited(c)
		if err == nil || !pages.WantsHTML(c) {
			return err
		}
		return s.failurePage(c, err)
	}
}

// programs limits the views by source; failures stay JSON.
func (s *Server) programs(h fiber.Handler) fiber.Handler {
	return func(c *fiber.Ctx) error {
		if err := s.views.admit(s.http.Source(c), s.now()); err != nil {
			return err
		}
		return h(c)
	}
}

// failurePage answers as fail does, with a page in place of JSON.
func (s *Server) failurePage(c *fiber.Ctx, err error) error {
	s.fail(c.Context(), c.Route().Path, err)
	e := asFault(err)
	return s.pages.Failure(c, pages.Failure{
		Status: e.Kind.Status(), Reason: e.Message, Code: string(e.Kind), RequestID: httpin.RequestID(c),
	})
}

// visible reads a document that anybody may see; 404 for all others.
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

func (s *Server) showText(c *fiber.Ctx, k *textKind) error {
	doc, err := s.visible(k.domain, strings.Clone(c.Params("ref")))
	if err != nil {
		return err
	}
	if doc.BurnAfterRead || len(doc.PasswordHash) > 0 {
		return s.pages.Ask(c, pages.Ask{Document: doc, Action: k.page + doc.Id})
	}
	return s.showContent(c, k, doc)
}

// revealText shows what asks for a password or a click. Only this burns.
func (s *Server) revealText(c *fiber.Ctx, k *textKind) error {
	if err := s.sameOrigin(c); err != nil {
		return err
	}
	password, err := s.readReveal(c)
	if err != nil {
		return err
	}
	ref := strings.Clone(c.Params("ref"))
	for range readTries {
		doc, err := s.visible(k.domain, ref)
		if err != nil {
			return err
		}
		if err := s.admitPassword(c, doc, password); err != nil {
			if fault.KindOf(err) == fault.WrongPassword && pages.WantsHTML(c) {
				return s.pages.Ask(c, pages.Ask{Document: doc, Action: k.page + doc.Id, Wrong: true})
			}
			return err
		}
		if !doc.BurnAfterRead {
			return s.showContent(c, k, doc)
		}
		content, err := s.burn(c, k.domain, doc, 0)
		if err == nil {
			return s.pages.Text(c, pages.Text{Document: doc, Content: content, Burned: true})
		}
		if fault.KindOf(err) != fault.VersionMismatch && !errors.Is(err, blob.ErrNotFound) {
			return err
		}
	}
	return unavailable(errReadRace)
}

// readReveal reads the form of ask.
func (s *Server) readReveal(c *fiber.Ctx) (password string, err error) {
	body, err := s.http.ReadBody(c, accountBody())
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

// admitPassword is requirePassword with a limit for a source that guesses.
func (s *Server) admitPassword(c *fiber.Ctx, doc *event.Document, password string) error {
	if len(doc.PasswordHash) == 0 {
		return nil
	}
	if err := s.failures.refused(s.http.Source(c), s.now()); err != nil {
		return err
	}
	err := s.requirePassword(doc, password)
	if fault.KindOf(err) == fault.WrongPassword && password != "" {
		return s.sourceFailed(c, err)
	}
	return err
}

// showContent shows the beginning of a text, and of most texts that is all.
func (s *Server) showContent(c *fiber.Ctx, k *textKind, doc *event.Document) error {
	content, truncated, err := s.excerpt(c, doc.GetContent())
	if err != nil {
		return err
	}
	shown := pages.Text{Document: doc, Content: content, Truncated: truncated}
	if len(doc.PasswordHash) == 0 {
		shown.Raw = k.page + doc.Id + "/raw"
	}
	return s.pages.Text(c, shown)
}

// excerpt is the first pageBytes of a content, of whole characters.
func (s *Server) excerpt(c *fiber.Ctx, content *event.Content) (text []byte, truncated bool, err error) {
	size := min(int64(content.GetSizeBytes()), pageBytes)
	if content.GetBlob() == "" {
		return content.GetInline(), false, nil
	}
	if err := s.http.Reserve(c, 2*size); err != nil { // once as it is, once as a page
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

// rawText is the content alone. A GET burns nothing: what burns after reading is refused here.
func (s *Server) rawText(c *fiber.Ctx, k *textKind) error {
	noneOf, err := httpin.ParseETags(c, fiber.HeaderIfNoneMatch)
	if err != nil {
		return err
	}
	doc, err := s.visible(k.domain, strings.Clone(c.Params("ref")))
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
	pages.ProtectRaw(c, doc)
	if noneOf.Matches(tag) {
		return httpin.NotModified(c, tag)
	}
	c.Set(fiber.HeaderContentType, fiber.MIMETextPlainCharsetUTF8)
	err = httpin.WriteRange(c, &httpin.Ranged{
		Size: int64(doc.GetContent().GetSizeBytes()), ETag: tag,
		Open: func(offset, length int64) (io.ReadCloser, error) {
			return s.openContent(s.ctx, doc.GetContent(), offset, length)
		},
	})
	if errors.Is(err, blob.ErrNotFound) {
		return notFound() // deleted since it was read
	}
	return err
}

func (s *Server) showFile(c *fiber.Ctx) error {
	doc, err := s.visible(event.File, strings.Clone(c.Params("id")))
	if err != nil {
		return err
	}
	return s.pages.File(c, doc, "/f/"+doc.Id+"/raw")
}

func (s *Server) rawFile(c *fiber.Ctx) error {
	noneOf, err := httpin.ParseETags(c, fiber.HeaderIfNoneMatch)
	if err != nil {
		return err
	}
	doc, err := s.visible(event.File, strings.Clone(c.Params("id")))
	if err != nil {
		return err
	}
	pages.SetRobots(c, doc)
	if noneOf.Matches(fileTag(doc)) {
		return httpin.NotModified(c, fileTag(doc))
	}
	return s.sendFile(c, doc)
}
