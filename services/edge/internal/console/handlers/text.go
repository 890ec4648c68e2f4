package handlers

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/developer"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/headers"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/kind"
	"quire.dev/services/edge/internal/pages"
	"quire.dev/services/edge/internal/readers"
	"quire.dev/services/edge/internal/render"
)

// readContentForm reads a form with the content of a text.
func (s *Handlers) readContentForm(c *endpoint.Call) (err error) {
	if name, charset, _ := headers.MediaType(c.Ctx); name != fiber.MIMEApplicationForm || !headers.UTF8(charset) {
		return httperr.UnsupportedMediaType("Content-Type must be application/x-www-form-urlencoded, in UTF-8.")
	}
	limit := c.Row.Body.Limit()
	if c.Form, err = s.developer.ReadContent(c, developer.JSONBytes(limit), limit); err != nil {
		return err
	}
	return s.http.Reserve(c.Ctx, int64(2*len(c.Form))) // for its fields
}

// keepText returns a text that was sent without a session: its reader has signed out since opening the form, and may have no
// other copy. The page sends it again after they sign in.
func (s *Handlers) keepText(c *endpoint.Call, k *collection, why error) error {
	if err := s.readContentForm(c); err != nil {
		return err
	}
	kept := console.KeptText(k.Kind, c.Param("ref"))
	if _, err := s.readConsoleForm(c, kept); err != nil {
		return err
	}
	s.Fail(c.Context(), c.Route().Path, why)
	content := ofTextarea(kept.Values["content"])
	kept.Values["content"] = content
	return s.readers.Rendered(len(content), func() error { return s.console.KeptText(c.Ctx, endpoint.AsFault(why).Kind.Status(), k.Kind, kept) })
}

func (s *Handlers) showNewText(c *endpoint.Call, k *collection) error {
	return s.showNewTextWith(c, k, fiber.StatusOK, &console.OneText{Form: console.CreateText(k.Kind, c.Who.Account.String(), rand.Text())})
}

func (s *Handlers) showNewTextWith(c *endpoint.Call, k *collection, status int, shown *console.OneText) (err error) {
	shown.Kind, shown.MaxBytes = k.Kind, k.maxBytes()
	if shown.Holder, err = s.holder(c); err != nil {
		return err
	}
	if shown.Meter, err = s.meterOf(c, k.Create, 1); err != nil {
		return err
	}
	return s.console.OneText(c.Ctx, status, shown)
}

// createTextFromPage creates a text, as createText does.
func (s *Handlers) createTextFromPage(c *endpoint.Call, k *collection) error {
	if err := s.readContentForm(c); err != nil {
		return err
	}
	form := console.CreateText(k.Kind, c.Who.Account.String(), "")
	return s.submit(c, form, submission{
		unlimited: true,
		do: func() error {
			fields := textOfForm(form, false)
			if err := s.charge(c, form.Values[console.KeyField]); err != nil {
				return err
			}
			n := s.developer.NewCreation(c, k.Kind.Kind)
			if err := n.Fill(fields, c.Hash); err != nil {
				return err
			}
			done, err := s.developer.Create(n)
			if err != nil {
				return err
			}
			return redirect(c.Ctx, console.Done(k.Page+done.Outcome.Item, "created"))
		},
		show: func(status int) error {
			return s.showNewTextWith(c, k, status, &console.OneText{Form: form})
		},
	})
}

// textOfForm are the form's fields for a text of the API. It restores the line ends of the form's content.
func textOfForm(f *console.Form, update bool) input.Source {
	content, sent := f.Values["content"]
	f.Values["content"] = ofTextarea(content)
	burn := input.Value{Kind: input.Bool, Text: strconv.AppendBool(nil, f.Values["burnAfterRead"] != "")}
	out := []input.Member{{Name: "burnAfterRead", Value: burn}}
	// Browsers change line ends, so the content is only sent if the reader has changed the text.
	if sent && (!update || textSum(content) != f.Values[console.SumField]) {
		out = append(out, textField("content", f.Values["content"]))
	}
	for _, name := range []string{"expiresIn", "language", "password", "visibility"} {
		if value := f.Values[name]; value != "" && (name != "expiresIn" || value != console.KeepExpiry) {
			out = append(out, textField(name, value))
		}
	}
	if f.Values["password"] == "" && f.Values[console.RemovePasswordField] != "" {
		out = append(out, input.Member{Name: "password"})
	}
	tags := input.Value{Kind: input.Array} // none
	if list := tagsOf(f.Values["tags"]); list != "" {
		tags = input.Value{Kind: input.Query, Text: []byte(list)}
	}
	out = append(out, input.Member{Name: "tags", Value: tags}, textField("title", f.Values["title"]))
	return input.List(out...)
}

// tagsOf drops the space around tags, and empty ones.
func tagsOf(list string) string {
	var out strings.Builder
	for tag := range strings.SplitSeq(list, ",") {
		if tag = strings.TrimSpace(tag); tag == "" {
			continue
		}
		if out.Len() > 0 {
			out.WriteByte(',')
		}
		out.WriteString(tag)
	}
	return out.String()
}

// ofTextarea restores the line ends that a browser changed.
func ofTextarea(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}

// textSum is equal for all texts that a textarea treats as equal.
func textSum(text string) string {
	sum := sha256.Sum256([]byte(ofTextarea(text)))
	return hex.EncodeToString(sum[:16])
}

// showOwnText shows a text to its owner, with the form to edit it.
func (s *Handlers) showOwnText(c *endpoint.Call, k *collection) error {
	return s.showOwnTextWith(c, k, shownText{status: fiber.StatusOK, anew: c.Query("new") != ""})
}

// openOwnText is showOwnText for a text with a password.
func (s *Handlers) openOwnText(c *endpoint.Call, k *collection) error {
	password, err := readers.ParseReveal(c.Form)
	if err != nil {
		return err
	}
	return s.showOwnTextWith(c, k, shownText{status: fiber.StatusOK, password: &password})
}

// shownText is how the form to edit a text is shown.
type shownText struct {
	status   int
	anew     bool          // without the current text, for a new one
	password *string       // of the text; nil: not sent
	refused  *console.Form // for the visibility and expiry; nil unless one was refused
}

func (s *Handlers) showOwnTextWith(c *endpoint.Call, k *collection, how shownText) error {
	doc, err := s.readers.OwnText(c, k.Kind.Kind, &event.Read{Item: c.Param("ref"), Requester: uint64(c.Who.Account)})
	if err != nil {
		return err
	}
	shown := &console.OneText{Document: doc, Form: console.UpdateText(k.Kind, c.Who.Account.String(), rand.Text(), doc), Done: doneQuery(c)}
	status := how.status
	if how.anew {
		shown.Form.Values[console.SumField] = "new" // so that every text is saved, even one that equals the current
		return s.showChange(c, k, status, shown)
	}
	if how.refused != nil {
		shown.Form.Errors = how.refused.Errors
		for _, name := range []string{"visibility", "expiresIn"} {
			shown.Form.Values[name] = how.refused.Values[name]
		}
	}
	if shown.Locked = len(doc.PasswordHash) > 0; shown.Locked && how.password != nil {
		switch err := s.readers.AdmitPassword(c, doc, *how.password); {
		case fault.KindOf(err) == fault.WrongPassword && pages.WantsHTML(c.Ctx):
			shown.Wrong, status = true, fiber.StatusForbidden
		case err != nil:
			return err
		default:
			shown.Locked = false
		}
	}
	if shown.Locked {
		return s.showChange(c, k, status, shown)
	}
	if err := s.http.Reserve(c.Ctx, 2*doc.GetContent().Length()); err != nil {
		return err
	}
	content, err := s.readers.WholeContent(doc.GetContent())
	if err != nil {
		return err
	}
	if shown.Uneditable = strings.ContainsRune(content, 0); !shown.Uneditable {
		shown.Form.Values["content"], shown.Form.Values[console.SumField] = ofTextarea(content), textSum(content)
	}
	return s.showChange(c, k, status, shown)
}

// showChange shows the form to edit a text.
func (s *Handlers) showChange(c *endpoint.Call, k *collection, status int, shown *console.OneText) (err error) {
	shown.Kind, shown.MaxBytes = k.Kind, k.maxBytes()
	if shown.Holder, err = s.holder(c); err != nil {
		return err
	}
	if shown.Meter, err = s.meterOf(c, k.Update, 1); err != nil {
		return err
	}
	return s.readers.Rendered(len(shown.Form.Values["content"]), func() error { return s.console.OneText(c.Ctx, status, shown) })
}

// changeTextFromPage updates a text, as updateText does with If-Match, so that neither a concurrent change nor this one is
// lost.
func (s *Handlers) changeTextFromPage(c *endpoint.Call, k *collection) error {
	if err := s.readContentForm(c); err != nil {
		return err
	}
	account := c.Who.Account
	doc, err := s.readers.OwnText(c, k.Kind.Kind, &event.Read{Item: c.Param("ref"), Requester: uint64(account), WithoutContent: true})
	gone := fault.KindOf(err) == fault.NotFound
	if err != nil && !gone {
		return err
	}
	if gone {
		doc = &event.Document{Id: c.Param("ref")}
	}
	form := console.UpdateText(k.Kind, account.String(), "", doc)
	return s.submit(c, form, submission{
		unlimited: true,
		do: func() error {
			s.detectLanguage(form)
			fields := textOfForm(form, true)
			if gone {
				return endpoint.NotFound()
			}
			return s.changeText(c, k, form, fields)
		},
		show: func(status int) error { return s.showRefusedChange(c, k, status, form) },
	})
}

// detectLanguage replaces kind.AutoLanguage in a form that has the text: the API gets the text only if it has changed.
func (s *Handlers) detectLanguage(f *console.Form) {
	if content, sent := f.Values["content"]; sent && f.Values["language"] == kind.AutoLanguage {
		f.Values["language"] = s.developer.DetectLanguage(f.Values["title"], []byte(ofTextarea(content)))
	}
}

func (s *Handlers) changeText(c *endpoint.Call, k *collection, form *console.Form, fields input.Source) error {
	version, err := strconv.ParseUint(form.Values[console.VersionField], 10, 63)
	if err != nil || version == 0 {
		return formChanged(console.VersionField)
	}
	if err := s.charge(c, form.Values[console.KeyField]); err != nil {
		return err
	}
	u := s.developer.NewUpdate(c, k.Kind.Kind)
	u.IfMatch(version)
	if err := u.Fill(fields, c.Hash); err != nil {
		return err
	}
	done, err := s.developer.Update(u)
	if err != nil {
		return err
	}
	return redirect(c.Ctx, console.Done(k.Page+done.Outcome.Item, "saved"))
}

// showRefusedChange shows the reader's text again. If the document has changed meanwhile, it also shows the difference, and
// the form saves a version after that one. If the document was deleted, the form creates a new one.
func (s *Handlers) showRefusedChange(c *endpoint.Call, k *collection, status int, form *console.Form) error {
	account := c.Who.Account
	doc, err := s.readers.OwnText(c, k.Kind.Kind, &event.Read{Item: c.Param("ref"), Requester: uint64(account)})
	if fault.KindOf(err) == fault.NotFound {
		anew := console.CreateText(k.Kind, account.String(), rand.Text())
		for _, name := range []string{"content", "title", "language", "visibility", "tags", "burnAfterRead"} {
			anew.Values[name] = form.Values[name]
		}
		deleted := status == fiber.StatusNotFound
		if !deleted { // it belongs to another account
			anew.Errors = form.Errors
		}
		return s.showNewTextWith(c, k, status, &console.OneText{Form: anew, Gone: deleted})
	}
	if err != nil {
		return err
	}
	shown := &console.OneText{Document: doc, Form: form}
	content, sent := form.Values["content"], form.Values[console.SumField] != ""
	shown.Locked = !sent && len(doc.PasswordHash) > 0
	shown.Uneditable = !sent && !shown.Locked
	if status == fiber.StatusPreconditionFailed {
		form.Errors = nil
		form.Values[console.VersionField] = strconv.FormatUint(doc.Version, 10)
		shown.Conflict = &console.Conflict{Newer: doc}
		if sent {
			form.Values[console.SumField] = "changed" // so that the next submission saves it, even if it equals the original
			if err := s.compareDraft(c, shown.Conflict, content); err != nil {
				return err
			}
		}
	}
	return s.showChange(c, k, status, shown)
}

// compareDraft shows what a draft changes in the newer version. If that has a password, it is not shown without it.
func (s *Handlers) compareDraft(c *endpoint.Call, conflict *console.Conflict, content string) error {
	doc := conflict.Newer
	if len(doc.PasswordHash) > 0 {
		return nil
	}
	conflict.Compared = true
	if size := doc.GetContent().GetSizeBytes(); size > render.DiffBytes || len(content) > render.DiffBytes {
		return nil
	} else if err := s.http.Reserve(c.Ctx, int64(2*size)); err != nil {
		return err
	}
	newer, err := s.readers.WholeContent(doc.GetContent())
	if err != nil {
		return err
	}
	return s.readers.Rendered(len(newer)+len(content), func() error {
		conflict.Diff = s.readers.Renderer(doc).Diff(s.ctx, newer, content, doc.Language, false)
		return nil
	})
}
