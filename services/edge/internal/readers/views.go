package readers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/contents"
	"quire.dev/services/edge/internal/developer"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/headers"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/kind"
	"quire.dev/services/edge/internal/pages"
	"quire.dev/services/edge/internal/render"
)

// pageBytes is how much of a text its page shows. It links to the raw text for the rest.
const pageBytes = 512 << 10

// visible reads a document that the reader may see: a public or unlisted one, or their own. Others are 404.
func (s *Readers) visible(c *endpoint.Call, d event.Domain, read *event.Read) (*event.Document, error) {
	var pending *bus.PendingRead
	if event.ValidItemID(read.Item) {
		pending = s.bus.StartRead(d, read, &c.Timing)
	}
	doc, err := s.developer.ReadDocument(pending)
	if err != nil {
		return nil, err
	}
	if v := event.Visibility(doc.Visibility); v != event.Public && v != event.Unlisted && !developer.Owns(doc, read.Requester) {
		return nil, endpoint.NotFound()
	}
	return doc, nil
}

// viewing has the parameters of a text page.
type viewing struct {
	read *event.Read
	view string // of the text, if it has several views
}

// viewing parses the query of a page. It ignores unknown parameters, which other sites add to links. Earlier versions are for
// the owner, so they require a session: docs/api.md, Pages for people.
func (s *Readers) viewing(c *endpoint.Call) (*viewing, error) {
	account, err := s.SessionAccount(c.Ctx)
	v := &viewing{read: &event.Read{Item: c.Param("ref"), Requester: uint64(account)}, view: strings.Clone(c.Query("view"))}
	if number := c.Query("version"); number != "" && err == nil {
		if v.read.Version, err = strconv.ParseUint(number, 10, 63); err != nil || v.read.Version == 0 {
			return nil, endpoint.NotFound()
		}
	}
	return v, err
}

// address is the path and query of the requested page, without its view.
func (v *viewing) address(k *kind.Kind) string {
	path := k.Page + v.read.Item
	if v.read.Version != 0 {
		path += "?version=" + strconv.FormatUint(v.read.Version, 10)
	}
	return path
}

func (s *Readers) showText(c *endpoint.Call, k *kind.Kind) error {
	v, err := s.viewing(c)
	if err != nil {
		return err
	}
	doc, err := s.visible(c, k.Domain, v.read)
	if err != nil {
		return err
	}
	if burns(doc, v.read.Requester) || len(doc.PasswordHash) > 0 {
		return s.ask(c, k, doc, v, false)
	}
	return s.showContent(c, k, doc, v, v.address(k))
}

// ask asks for the password of a text, or to confirm that it burns. Its owner can manage it without.
func (s *Readers) ask(c *endpoint.Call, k *kind.Kind, doc *event.Document, v *viewing, wrong bool) (err error) {
	shown := pages.Ask{Document: doc, Action: v.address(k), Wrong: wrong}
	if v.read.Version == 0 {
		if shown.Own, err = s.ownPart(c, k, doc, v.read.Requester); err != nil {
			return err
		}
	}
	return s.pages.Ask(c.Ctx, shown)
}

// burns reports whether this reader's first read of a document is its last.
func burns(doc *event.Document, account uint64) bool {
	return doc.BurnAfterRead && !developer.Owns(doc, account)
}

// revealText shows a text that requires a password or a confirmation. No other page burns.
func (s *Readers) revealText(c *endpoint.Call, k *kind.Kind) error {
	password, err := ParseReveal(c.Form)
	if err != nil {
		return err
	}
	v, err := s.viewing(c)
	if err != nil {
		return err
	}
	for range developer.ReadTries {
		doc, err := s.visible(c, k.Domain, v.read)
		if err != nil {
			return err
		}
		if err := s.AdmitPassword(c, doc, password); err != nil {
			if fault.KindOf(err) == fault.WrongPassword && pages.WantsHTML(c.Ctx) {
				return s.ask(c, k, doc, v, true)
			}
			return err
		}
		if !burns(doc, v.read.Requester) {
			return s.showContent(c, k, doc, v, "")
		}
		content, err := s.developer.Burn(c, k.Domain, doc, 0)
		if err == nil {
			return s.renderText(c, string(content), &pages.Text{Document: doc, Burned: true}, v, "")
		}
		if fault.KindOf(err) != fault.VersionMismatch && !errors.Is(err, blob.ErrNotFound) {
			return err
		}
	}
	return endpoint.Unavailable(developer.ErrReadRace)
}

// ParseReveal parses the form of pages.Ask.
func ParseReveal(body []byte) (password string, err error) {
	err = input.ParseForm(body, input.Fields{"password": input.To(&password, input.StringField)})
	return password, err
}

// AdmitPassword is RequirePassword with a limit for the guesses of a source.
func (s *Readers) AdmitPassword(c *endpoint.Call, doc *event.Document, password string) error {
	if len(doc.PasswordHash) == 0 {
		return nil
	}
	if err := s.CheckFailures(s.http.Source(c.Ctx)); err != nil {
		return err
	}
	err := s.developer.RequirePassword(c, doc, password)
	if fault.KindOf(err) == fault.WrongPassword && password != "" {
		return s.SourceFailed(c.Ctx, err)
	}
	return err
}

// showContent shows the beginning of a text, which is all of most texts. address is the page's address for switching views;
// empty for the response to a form.
func (s *Readers) showContent(c *endpoint.Call, k *kind.Kind, doc *event.Document, v *viewing, address string) error {
	content, truncated, err := s.excerpt(c, doc.GetContent())
	if err != nil {
		return err
	}
	path, old := k.Page+doc.Id, v.read.Version
	shown := &pages.Text{Document: doc, Version: old, Truncated: truncated, URL: s.URL(path)}
	if len(doc.PasswordHash) == 0 && old == 0 && !doc.BurnAfterRead && event.Visibility(doc.Visibility) != event.Private {
		shown.Raw, shown.Download = s.ContentURL(path+"/raw"), s.ContentURL(path+"/download")
	}
	if developer.Owns(doc, v.read.Requester) {
		shown.More = []pages.Link{{Name: "Versions", Path: path + "/versions"}}
		if old != 0 {
			shown.More = append(shown.More, pages.Link{Name: "Current version", Path: path})
		} else if shown.Own, err = s.ownPart(c, k, doc, v.read.Requester); err != nil {
			return err
		}
	}
	return s.renderText(c, string(content), shown, v, address)
}

const (
	renderBudget = 8 << 20         // bytes of text being rendered at a time; a page takes some ten times its text
	renderWait   = 5 * time.Second // for a share of it
)

// Rendered runs render for a page with so many bytes of text, within renderBudget.
func (s *Readers) Rendered(size int, render func() error) error {
	weight := min(int64(size), renderBudget)
	ctx, cancel := context.WithTimeout(s.ctx, renderWait)
	defer cancel()
	if err := s.rendering.Acquire(ctx, weight); err != nil {
		return endpoint.Unavailable(fmt.Errorf("wait for memory to render in: %w", err))
	}
	defer s.rendering.Release(weight)
	return render()
}

// Renderer returns the renderer for these documents. Texts that burn or have a password are not cached, so that no copy stays
// in memory.
func (s *Readers) Renderer(docs ...*event.Document) *render.Renderer {
	for _, doc := range docs {
		if doc.BurnAfterRead || len(doc.PasswordHash) > 0 {
			return s.forgetful
		}
	}
	return s.render
}

// renderText shows a text: highlighted, or rendered if it is Markdown or separated values. The response to a form can't
// switch views, so it has both.
func (s *Readers) renderText(c *endpoint.Call, content string, shown *pages.Text, v *viewing, address string) error {
	renderer := s.Renderer(shown.Document)
	shown.LanguageName = renderer.Languages().Name(shown.Document.Language)
	return s.Rendered(len(content), func() error {
		rendered := s.renderView(renderer, content, shown)
		shown.Both = rendered && address == ""
		if rendered && address != "" {
			shown.Tabs = tabs(address, v.view)
			if v.view == viewSource {
				shown.View, shown.Kind, shown.Notice = "", "", ""
			}
		}
		if shown.View != "" && !shown.Both {
			shown.Lines = renderer.Text(s.ctx, content, "") // to count them
		} else {
			shown.Lines = renderer.Text(s.ctx, content, shown.Document.Language)
		}
		if shown.Burned && shown.Lines.Cut {
			shown.Whole = content
		}
		return s.pages.Text(c.Ctx, shown)
	})
}

// Views of a text that can be rendered: ?view=<view>.
const (
	viewRendered = "rendered"
	viewSource   = "source"
)

func tabs(address, current string) []pages.Link {
	separator := "?"
	if strings.Contains(address, "?") {
		separator = "&"
	}
	return []pages.Link{
		{Name: "Rendered", Path: address + separator + "view=" + viewRendered, Current: current != viewSource},
		{Name: "Source", Path: address + separator + "view=" + viewSource, Current: current == viewSource},
	}
}

// renderView renders Markdown or separated values. It reports whether it could.
func (s *Readers) renderView(renderer *render.Renderer, content string, shown *pages.Text) bool {
	switch strings.ToLower(shown.Document.Language) {
	case "markdown", "md", "mkd":
		shown.Kind = "markdown"
		if doc := renderer.Markdown(s.ctx, content); doc != nil {
			shown.View = doc.HTML
		}
	case "csv", "tsv":
		shown.Kind = "table"
		if table := renderer.Table(s.ctx, content); table != nil {
			shown.View = table.HTML
			if table.Cut {
				shown.Notice = "Only part of the table is shown. View the source to see all of it."
			}
		}
	default:
		return false
	}
	if shown.View == "" {
		shown.Kind, shown.Notice = "", "Too large or too complex to render. The source is shown instead."
	}
	return shown.View != ""
}

// excerpt is the first pageBytes of a content, cut at a character.
func (s *Readers) excerpt(c *endpoint.Call, content *event.Content) (text []byte, truncated bool, err error) {
	size := min(content.Length(), pageBytes)
	if content.GetBlob() == "" {
		return content.GetInline(), false, nil
	}
	if err := s.http.Reserve(c.Ctx, size); err != nil {
		return nil, false, err
	}
	truncated = content.Length() > size
	if truncated { // only the whole content has a hash
		if err := s.contents.Check(content, c.HungUp); err != nil {
			return nil, false, contents.DeletedSince(err)
		}
	}
	if text, err = s.contents.LoadBeginning(s.ctx, content, size); err != nil {
		return nil, false, contents.DeletedSince(err)
	}
	if !truncated {
		return text, false, nil
	}
	return text[:contents.WholeRunes(text)], true, nil
}

// downloadText is rawText as a download.
func (s *Readers) downloadText(c *endpoint.Call, k *kind.Kind) error {
	c.Download = true
	return s.rawText(c, k)
}

// rawText answers with the content alone. A GET must not burn, so a text that burns after reading is refused.
func (s *Readers) rawText(c *endpoint.Call, k *kind.Kind) error {
	if c.Context().QueryArgs().Has("version") { // the current text would be the wrong one
		return httperr.InvalidField("version", "is not supported here: this is always the current version. Read earlier versions through the API")
	}
	conditions, err := headers.ReadConditions(c.Ctx)
	if err != nil {
		return err
	}
	doc, err := s.visible(c, k.Domain, &event.Read{Item: c.Param("ref")})
	if err != nil {
		return err
	}
	if doc.BurnAfterRead {
		return fault.New(fault.ConfirmationRequired, "The paste burns after reading: open %s to read it, or use the API.", s.URL(k.Page+doc.Id))
	}
	if err := s.AdmitPassword(c, doc, strings.Clone(c.Get(endpoint.HeaderPassword))); err != nil {
		return err
	}
	v := developer.ValidatorsOf(k.Domain, doc)
	known, err := conditions.Check(v)
	if err != nil {
		return err
	}
	pages.ProtectRaw(c.Ctx, doc)
	if known {
		return headers.NotModified(c.Ctx, v.ETag)
	}
	c.Set(fiber.HeaderContentType, fiber.MIMETextPlainCharsetUTF8)
	if c.Download {
		c.Set(fiber.HeaderContentDisposition, headers.ContentDisposition(s.fileName(doc)))
	}
	return s.developer.SendContent(c, doc, v)
}

func (s *Readers) rawFile(c *endpoint.Call) error {
	conditions, err := headers.ReadConditions(c.Ctx)
	if err != nil {
		return err
	}
	doc, err := s.visible(c, event.File, &event.Read{Item: c.Param("id")})
	if err != nil {
		return err
	}
	pages.SetRobots(c.Ctx, doc)
	return s.developer.SendFile(c, doc, conditions)
}
