package web

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/pages"
	"quire.dev/services/edge/internal/render"
)

// contents is a kind of content in the console: its words, its list, and its endpoints if it is of text.
type contents struct {
	*console.Kind
	list *listing
	text *textKind // nil for files
}

func (s *Server) pasteContents() *contents {
	k := pasteKind()
	return &contents{console.Pastes(), s.textList(k), k}
}

func (s *Server) quickContents() *contents {
	k := quickKind()
	return &contents{console.QuickPastes(), s.textList(k), k}
}

func (s *Server) fileContents() *contents { return &contents{console.Files(), s.fileList(), nil} }

// contentPage is inConsole for a page of a kind of content. The headers of a metered answer are for programs: a page says in words
// what it costs.
func (s *Server) contentPage(k *contents, handle func(*call, *contents) error) func(*call) error {
	return s.inConsole(func(c *call) error {
		err := handle(c, k)
		if err != nil || c.Response().StatusCode() != fiber.StatusCreated {
			header := &c.Response().Header
			header.DisableNormalizing() // their names were set as they are
			for _, name := range []string{headerRateLimit, headerRateLimitPolicy, headerChargeSource, headerCreditsCost, headerCreditsBalance} {
				header.Del(name)
			}
			header.EnableNormalizing()
		}
		return err
	})
}

// showContents shows a list, as list answers it.
func (s *Server) showContents(c *call, k *contents) error {
	shown := &console.Contents{Kind: k.Kind, Filter: console.Filter(k.Kind), Done: c.done()}
	err := s.findContents(c, k, shown)
	status := fiber.StatusOK
	if e := asFault(err); err != nil {
		if e.Kind.Status() != fiber.StatusBadRequest {
			return err
		}
		s.fail(c.Context(), c.Route().Path, err)
		refuse(shown.Filter, e)
		shown.List, status = nil, e.Kind.Status()
	}
	return s.showContentsWith(c, status, shown, nil)
}

// findContents reads the query and asks for the page of the list. A browser sends the fields of a form that are empty too.
func (s *Server) findContents(c *call, k *contents, shown *console.Contents) error {
	q := &event.ListRequest{Account: uint64(c.who.account), Limit: console.ContentPage}
	var cursor string
	fields := listFields(q, &cursor)
	for _, name := range append(shown.Filter.Names(), "cursor") {
		value := strings.Clone(strings.TrimSpace(c.Query(name)))
		if value == "" {
			continue
		}
		if name != "cursor" {
			shown.Filter.Values[name] = value
		}
		if err := fields[name](name, httpin.Value{Kind: httpin.Query, Text: []byte(value)}); err != nil {
			return err
		}
	}
	if err := s.continueList(q, k.list, &c.who, cursor); err != nil {
		return err
	}
	page, err := s.bus.List(s.ctx, k.list.domain, q)
	if err != nil {
		return err
	}
	shown.List, shown.Next, shown.Later = page.Documents, s.nextCursor(k.list, &c.who, q, page), cursor != ""
	return nil
}

// showContentsWith shows a list, of files with the form of an upload that was refused; nil: a new one.
func (s *Server) showContentsWith(c *call, status int, shown *console.Contents, upload *console.Form) (err error) {
	if shown.Holder, err = s.holder(c); err != nil {
		return err
	}
	if !shown.Kind.Text {
		if shown.Meter, err = s.meterOf(c, shown.Kind.Create, 1); err != nil {
			return err
		}
		if shown.Upload = upload; upload == nil {
			shown.Upload = console.UploadFile(shown.Holder.Account, rand.Text())
		}
	}
	return s.console.Contents(c.Ctx, status, shown)
}

// meterOf is what so many requests are counted as, and the keys that they may be made with.
func (s *Server) meterOf(c *call, key plan.QuotaKey, count int) (*console.Meter, error) {
	u, err := s.usageOf(c, c.who.account, &event.UsageQuery{Keys: true})
	if err != nil {
		return nil, err
	}
	m := &console.Meter{
		Key: key, Count: count, Keys: s.chargeable(u, key), BalanceMicros: u.BalanceMicros, Tier: plan.Tier(u.Tier).Title(), UpgradeURL: s.cfg.UpgradeURL,
	}
	if i := slices.IndexFunc(u.Usage, func(k *event.KeyUsage) bool { return plan.QuotaKey(k.QuotaKey) == key }); i >= 0 {
		m.Known, m.Left, m.Limit = true, u.Usage[i].Remaining, u.Usage[i].Limit
	}
	book, err := s.prices()
	if err != nil && book == nil {
		m.Known = false
		return m, nil
	}
	for _, t := range book.Tiers {
		for _, term := range t.Terms {
			if t.Tier == u.Tier && plan.QuotaKey(term.QuotaKey) == key {
				m.Sold, m.PriceMicros = term.Overage, term.PriceMicros
			}
		}
	}
	return m, nil
}

// chargeable are the keys that a request of the console may be counted for, the default one first.
func (s *Server) chargeable(u *event.UsageAnswer, key plan.QuotaKey) []console.Key {
	return slices.DeleteFunc(s.consoleKeys(u), func(k console.Key) bool {
		return !k.Live() || k.Replaced || len(k.Scopes) > 0 && !slices.Contains(k.Scopes, uint32(key))
	})
}

// charge has the call made with one of the account's own keys: that of the id, or the first that may make it. Content is counted
// for a key wherever it is made, so that the limits of a key, its usage and the log of requests have all of it.
func (s *Server) charge(c *call, id string) error {
	u, err := s.usageOf(c, c.who.account, &event.UsageQuery{Keys: true})
	if err != nil {
		return err
	}
	keys := s.chargeable(u, c.route.key)
	if id != "" {
		keys = slices.DeleteFunc(keys, func(k console.Key) bool { return k.ID != id })
	}
	if len(keys) == 0 {
		return httpin.InvalidField(console.KeyField, "must be an API key of yours that works and may do this")
	}
	k := keys[0]
	if k.Fingerprint == 0 {
		return unavailable(errOldRules)
	}
	c.who.key.Account, c.who.key.Number, c.who.key.Version = c.who.account, k.Number, k.Version
	c.who.fingerprint = k.Fingerprint
	return nil
}

// readContentForm reads a form with the content of a text.
func (s *Server) readContentForm(c *call) (err error) {
	if name, charset, _ := httpin.MediaType(c.Ctx); name != fiber.MIMEApplicationForm || !httpin.UTF8(charset) {
		return httpin.UnsupportedMediaType("Content-Type must be application/x-www-form-urlencoded, in UTF-8.")
	}
	limit := c.route.body.limit()
	if c.form, err = s.readContent(c, jsonBytes(limit), limit); err != nil {
		return err
	}
	return s.http.Reserve(c.Ctx, int64(2*len(c.form))) // its fields, and what the API would be sent for them
}

func (s *Server) showNewText(c *call, k *contents) error {
	return s.showNewTextWith(c, k, fiber.StatusOK, &console.OneText{Form: console.CreateText(k.Kind, c.who.account.String(), rand.Text())})
}

func (s *Server) showNewTextWith(c *call, k *contents, status int, shown *console.OneText) (err error) {
	shown.Kind = k.Kind
	if shown.Holder, err = s.holder(c); err != nil {
		return err
	}
	if shown.Meter, err = s.meterOf(c, k.Create, 1); err != nil {
		return err
	}
	return s.console.OneText(c.Ctx, status, shown)
}

// createTextFromPage makes a text, as createText does.
func (s *Server) createTextFromPage(c *call, k *contents) error {
	if err := s.readContentForm(c); err != nil {
		return err
	}
	form := console.CreateText(k.Kind, c.who.account.String(), "")
	return s.submit(c, form, submission{
		unlimited: true,
		body:      func(f *console.Form) any { return textOfForm(f, false) },
		do: func() error {
			if err := s.charge(c, form.Values[console.KeyField]); err != nil {
				return err
			}
			d, rules := &draft{}, &draftRules{now: s.now(), content: c.route.body.limit()}
			if err := d.parse(rules, c.json); err != nil {
				return err
			}
			done, err := s.create(c, k.text, d, received(c.hash))
			if err != nil {
				return err
			}
			return redirect(c.Ctx, console.Done(k.Of(done.outcome.Item), "created"))
		},
		show: func(status int) error {
			return s.showNewTextWith(c, k, status, &console.OneText{Form: form})
		},
	})
}

// textOfForm is a text as the API takes it.
func textOfForm(f *console.Form, update bool) map[string]any {
	out := map[string]any{"title": f.Values["title"], "burnAfterRead": f.Values["burnAfterRead"] != ""}
	for _, name := range []string{"language", "visibility"} {
		if value := f.Values[name]; value != "" {
			out[name] = value
		}
	}
	if expiry := f.Values["expiresIn"]; expiry != "" && expiry != console.KeepExpiry {
		out["expiresIn"] = expiry
	}
	tags := []string{}
	for tag := range strings.SplitSeq(f.Values["tags"], ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			tags = append(tags, tag)
		}
	}
	out["tags"] = tags
	switch password := f.Values["password"]; {
	case password != "":
		out["password"] = password
	case f.Values[console.RemovePasswordField] != "":
		out["password"] = nil
	}
	content, sent := f.Values["content"]
	f.Values["content"] = ofTextarea(content)
	// A text whose line ends a browser writes in another way stays as it is unless its reader has changed it.
	if sent && (!update || textSum(content) != f.Values[console.SumField]) {
		out["content"] = f.Values["content"]
	}
	return out
}

// ofTextarea is a text with the line ends that it had before a browser sent it.
func ofTextarea(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}

// textSum is the same for all texts that a textarea takes for one.
func textSum(text string) string {
	sum := sha256.Sum256([]byte(ofTextarea(text)))
	return hex.EncodeToString(sum[:16])
}

// showOwnText shows a text with the form to change it, to its owner.
func (s *Server) showOwnText(c *call, k *contents) error { return s.showOwnTextWith(c, k, nil) }

// openOwnText is showOwnText for a text with a password.
func (s *Server) openOwnText(c *call, k *contents) error {
	password, err := parseReveal(c.form)
	if err != nil {
		return err
	}
	return s.showOwnTextWith(c, k, &password)
}

func (s *Server) showOwnTextWith(c *call, k *contents, password *string) error {
	doc, err := s.ownText(k.text, &event.Read{Item: c.param("ref"), Requester: uint64(c.who.account)})
	if err != nil {
		return err
	}
	shown := &console.OneText{Document: doc, Form: console.UpdateText(k.Kind, c.who.account.String(), rand.Text(), doc), Done: c.done()}
	status := fiber.StatusOK
	if shown.Locked = len(doc.PasswordHash) > 0; shown.Locked && password != nil {
		switch err := s.admitPassword(c, doc, *password); {
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
	if err := s.http.Reserve(c.Ctx, int64(2*doc.GetContent().GetSizeBytes())); err != nil {
		return err
	}
	content, err := s.wholeContent(doc.GetContent())
	if err != nil {
		return err
	}
	if shown.Uneditable = strings.ContainsRune(content, 0); !shown.Uneditable {
		shown.Form.Values["content"], shown.Form.Values[console.SumField] = ofTextarea(content), textSum(content)
	}
	return s.showChange(c, k, status, shown)
}

// showChange shows the form of a text.
func (s *Server) showChange(c *call, k *contents, status int, shown *console.OneText) (err error) {
	shown.Kind = k.Kind
	if shown.Holder, err = s.holder(c); err != nil {
		return err
	}
	if shown.Meter, err = s.meterOf(c, k.Update, 1); err != nil {
		return err
	}
	return s.rendered(len(shown.Form.Values["content"]), func() error { return s.console.OneText(c.Ctx, status, shown) })
}

// changeTextFromPage changes a text, as updateText does with If-Match: what another has written meanwhile is not lost, and neither
// is what was written here.
func (s *Server) changeTextFromPage(c *call, k *contents) error {
	if err := s.readContentForm(c); err != nil {
		return err
	}
	account := c.who.account
	doc, err := s.ownText(k.text, &event.Read{Item: c.param("ref"), Requester: uint64(account), WithoutContent: true})
	gone := fault.KindOf(err) == fault.NotFound
	if err != nil && !gone {
		return err
	}
	if gone {
		doc = &event.Document{Id: c.param("ref")}
	}
	form := console.UpdateText(k.Kind, account.String(), "", doc)
	return s.submit(c, form, submission{
		unlimited: true,
		body:      func(f *console.Form) any { return textOfForm(f, true) },
		do: func() error {
			if gone {
				return notFound()
			}
			return s.changeText(c, k, form)
		},
		show: func(status int) error { return s.showRefusedChange(c, k, status, form) },
	})
}

func (s *Server) changeText(c *call, k *contents, form *console.Form) error {
	version, err := strconv.ParseUint(form.Values[console.VersionField], 10, 63)
	if err != nil || version == 0 {
		return httpin.InvalidField(console.VersionField, "must be what the page has")
	}
	if err := s.charge(c, form.Values[console.KeyField]); err != nil {
		return err
	}
	d, rules := &draft{}, &draftRules{now: s.now(), content: c.route.body.limit(), update: true}
	d.IfMatch = []uint64{version}
	if err := d.parse(rules, c.json); err != nil {
		return err
	}
	done, err := s.update(c, k.text, d, received(c.hash))
	if err != nil {
		return err
	}
	return redirect(c.Ctx, console.Done(k.Of(done.outcome.Item), "saved"))
}

// showRefusedChange shows what was written again. Where the text has changed meanwhile, it shows the difference, and takes the
// text as the next version of that. Where it is gone, it takes it as a new one.
func (s *Server) showRefusedChange(c *call, k *contents, status int, form *console.Form) error {
	account := c.who.account
	doc, err := s.ownText(k.text, &event.Read{Item: c.param("ref"), Requester: uint64(account)})
	if fault.KindOf(err) == fault.NotFound {
		anew := console.CreateText(k.Kind, account.String(), rand.Text())
		for _, name := range []string{"content", "title", "language", "visibility", "tags", "burnAfterRead"} {
			anew.Values[name] = form.Values[name]
		}
		return s.showNewTextWith(c, k, status, &console.OneText{Form: anew, Gone: true})
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
			form.Values[console.SumField] = "changed" // what is sent next is taken, even if it is what the page once had
			if err := s.compareDraft(c, shown.Conflict, content); err != nil {
				return err
			}
		}
	}
	return s.showChange(c, k, status, shown)
}

// compareDraft shows what a draft changes in the newer version. One with a password is not shown without it.
func (s *Server) compareDraft(c *call, conflict *console.Conflict, content string) error {
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
	newer, err := s.wholeContent(doc.GetContent())
	if err != nil {
		return err
	}
	return s.rendered(len(newer)+len(content), func() error {
		conflict.Diff = s.renderer(doc).Diff(s.ctx, newer, content, doc.Language, false)
		return nil
	})
}

// uploadFromPage stores a file, as uploadFile does. A script of the page gets the answer of the API.
func (s *Server) uploadFromPage(c *call, k *contents) error {
	form, u := console.UploadFile(c.who.account.String(), ""), s.newUpload(c)
	var account, key string
	u.also = httpin.Fields{
		"account": httpin.To(&account, httpin.StringField), "once": httpin.To(&form.Once, httpin.StringField), console.KeyField: httpin.To(&key, httpin.StringField),
	}
	err := u.open()
	if err == nil && account != "" && account != c.who.account.String() {
		err = otherAccount()
	}
	if err == nil {
		err = s.readOnce(c, form.Once)
	}
	if err == nil {
		err = s.charge(c, key)
	}
	var done *written
	if err == nil {
		done, err = u.write()
	}
	switch {
	case !pages.WantsHTML(c.Ctx) && err == nil:
		return u.answer(done)
	case err == nil:
		return redirect(c.Ctx, console.Done(k.Path, "uploaded"))
	case !pages.WantsHTML(c.Ctx):
		return err
	}
	s.fail(c.Context(), c.Route().Path, err)
	e := asFault(err)
	form.Once, form.Values[console.KeyField] = onceAfter(form.Once, e.Kind), key
	refuse(form, e)
	shown := &console.Contents{Kind: k.Kind, Filter: console.Filter(k.Kind)}
	if err := s.findContents(c, k, shown); err != nil {
		return err
	}
	return s.showContentsWith(c, e.Kind.Status(), shown, form)
}

// mostDeleted is how many items a form deletes at most.
const mostDeleted = 100

// askToDelete shows what was selected, and what deleting it is counted as.
func (s *Server) askToDelete(c *call, k *contents) error {
	var refs []string
	for _, ref := range c.Context().QueryArgs().PeekMulti("ref") {
		if id := string(ref); !slices.Contains(refs, id) && len(refs) < mostDeleted {
			refs = append(refs, id)
		}
	}
	return s.showDeletion(c, k, fiber.StatusOK, console.DeleteContent(k.Kind, c.who.account.String(), rand.Text(), refs))
}

// showDeletion shows those of a form's items that are still there.
func (s *Server) showDeletion(c *call, k *contents, status int, form *console.Form) (err error) {
	shown := &console.Removal{Kind: k.Kind, Form: form}
	var refs []string
	for _, ref := range refsOf(form) {
		if !event.ValidItemID(ref) {
			continue
		}
		doc, err := s.readDocument(s.bus.StartRead(k.list.domain, &event.Read{Item: ref, Requester: uint64(c.who.account), WithoutContent: true}))
		switch {
		case fault.KindOf(err) == fault.NotFound:
		case err != nil:
			return err
		case owns(doc, uint64(c.who.account)):
			shown.List, refs = append(shown.List, doc), append(refs, ref)
		}
	}
	form.Values[console.RefsField] = strings.Join(refs, ",")
	if shown.Holder, err = s.holder(c); err != nil {
		return err
	}
	if shown.Meter, err = s.meterOf(c, k.Delete, len(refs)); err != nil {
		return err
	}
	return s.console.Removal(c.Ctx, status, shown)
}

func refsOf(form *console.Form) []string {
	refs := strings.Split(form.Values[console.RefsField], ",")
	return slices.DeleteFunc(refs, func(ref string) bool { return ref == "" })
}

// deleteFromPage deletes what a form names, each as deleteItem does. What is gone already is no failure.
func (s *Server) deleteFromPage(c *call, k *contents) error {
	form := console.DeleteContent(k.Kind, c.who.account.String(), "", nil)
	return s.submit(c, form, submission{
		unlimited: true,
		do: func() error {
			refs := refsOf(form)
			if len(refs) == 0 || len(refs) > mostDeleted {
				return httpin.InvalidField(console.RefsField, fmt.Sprintf("must have 1 to %d ids", mostDeleted))
			}
			if err := s.charge(c, form.Values[console.KeyField]); err != nil {
				return err
			}
			for n, ref := range refs {
				if err := s.deleteOne(c, k, ref, form.Once); err != nil {
					return notAll(err, n, len(refs))
				}
			}
			return redirect(c.Ctx, console.Done(k.Path, "deleted"))
		},
		show: func(status int) error { return s.showDeletion(c, k, status, form) },
	})
}

// deleteOne deletes an item by a request of its own, which the log of requests shows.
func (s *Server) deleteOne(c *call, k *contents, ref, once string) error {
	id := event.NewRequestID()
	httpin.SetRequestID(c.Ctx, id.String())
	one := &call{Ctx: c.Ctx, route: c.route, who: c.who, hash: bodyHash(c.Ctx, []byte(ref))}
	if once != "" {
		one.idem = onceID(c.who.account, c.Method(), k.Of(ref), once)
	}
	_, err := s.remove(one, k.list.domain, ref, nil)
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	return err
}

// notAll adds to an error how many were deleted before it.
func notAll(err error, deleted, all int) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || deleted == 0 {
		return err
	}
	told := *e
	told.Message = fmt.Sprintf("%d of %d are deleted. %s", deleted, all, e.Message)
	return &told
}
