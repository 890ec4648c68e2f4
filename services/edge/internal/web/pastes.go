package web

import (
	"quire.dev/services/edge/internal/httpin"

	"context"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/fault"
)

// textKind is what pastes and quick pastes differ in.
type textKind struct {
	domain                   event.Domain
	api                      string // path of its endpoints
	page                     string // path of its page for people
	content                  httpin.Limit
	keyless                  bool // may be made without a key, and changed with a management token
	create, get, update, del plan.QuotaKey
}

func pasteKind() *textKind {
	return &textKind{
		domain: event.Paste, api: "/api/dev/pastes", page: "/p/", content: httpin.Limit{Bytes: 4 << 20, Name: "4 MiB"},
		create: plan.PastesCreate, get: plan.PastesGet, update: plan.PastesUpdate, del: plan.PastesDelete,
	}
}

func liteKind() *textKind {
	return &textKind{
		domain: event.Lite, api: "/api/dev/paste-lite", page: "/q/", content: httpin.Limit{Bytes: 256 << 10, Name: "256 KiB"}, keyless: true,
		create: plan.LiteCreate, get: plan.LiteGet, update: plan.LiteUpdate, del: plan.LiteDelete,
	}
}

func (s *Server) registerDocuments() {
	for _, k := range []*textKind{pasteKind(), liteKind()} {
		s.http.Handle(fiber.MethodPost, k.api+"/create", func(c *fiber.Ctx) error { return s.createText(c, k) })
		s.http.Handle(fiber.MethodGet, k.api+"/get/:ref", func(c *fiber.Ctx) error { return s.getText(c, k) })
		s.http.Handle(fiber.MethodPut, k.api+"/update/:ref", func(c *fiber.Ctx) error { return s.updateText(c, k) })
		s.http.Handle(fiber.MethodDelete, k.api+"/delete/:ref", func(c *fiber.Ctx) error { return s.deleteText(c, k) })
	}
}

func (s *Server) createText(c *fiber.Ctx, k *textKind) error {
	who, err := s.maker(c, k)
	if err != nil {
		return err
	}
	idem, err := idempotencyID(c, who.scope())
	if err != nil {
		return err
	}
	rules := &draftRules{now: s.now(), content: k.content, keyless: who.anonymous}
	d, hash, err := s.readCreate(c, rules)
	if err != nil {
		return err
	}
	doc := &event.Document{Id: s.newItemID(idem), Owner: uint64(who.account)}
	if who.anonymous {
		doc.ManageTokenHash = apikey.HashToken(s.secret.ManageToken(doc.Id))
	}
	w := &writing{domain: k.domain, who: who, key: k.create, idem: idem, hash: hash}
	w.prepare = func(ctx context.Context, r *event.Request) error {
		if err := d.store(ctx, s, k.domain, doc.Id); err != nil {
			return err
		}
		r.Item = doc.Id
		r.Action = &event.Request_Create{Create: fold.Create(doc, &d.Update)}
		return nil
	}
	w.discard = func() { s.dropBlob(d.Content.GetBlob()) }
	done, err := s.write(c, w)
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderLocation, s.url(k.api+"/get/"+done.outcome.Item))
	return send(c, fiber.StatusCreated, s.appendCreated(make([]byte, 0, 384), k, &who, done))
}

// maker is who may create: a key's account, or of quick pastes anybody.
func (s *Server) maker(c *fiber.Ctx, k *textKind) (caller, error) {
	if k.keyless {
		return s.keyOrNetwork(c)
	}
	return s.requireKey(c)
}

// newItemID draws an id. With an idempotency id the two must share a partition, so that the outcome
// is found again by the latter alone.
func (s *Server) newItemID(idem []byte) string {
	id := event.NewItemID()
	if len(idem) == 0 {
		return id
	}
	want := event.Partition(idem, s.cfg.Partitions)
	for event.ItemPartition(id, s.cfg.Partitions) != want {
		id = event.NewItemID()
	}
	return id
}

func (s *Server) appendCreated(b []byte, k *textKind, who *caller, done *written) []byte {
	o := done.outcome
	b = append(b, `{"success":true,"id":`...)
	b = appendString(b, o.Item)
	b = s.appendPageURLs(b, k, o.Item)
	b = append(b, `,"version":`...)
	b = appendInt(b, int64(o.Version))
	b = append(b, `,"createdAt":`...)
	b = appendTime(b, o.CreatedMs)
	b = append(b, `,"expiresAt":`...)
	b = appendTime(b, o.ExpiresMs)
	if who.anonymous {
		b = append(b, `,"manageToken":`...)
		b = appendString(b, s.secret.ManageToken(o.Item))
	}
	return appendRemaining(b, done.remaining)
}

func (s *Server) appendPageURLs(b []byte, k *textKind, id string) []byte {
	url := s.url(k.page + id)
	b = append(b, `,"url":`...)
	b = appendString(b, url)
	b = append(b, `,"rawUrl":`...)
	return appendString(b, url+"/raw")
}

// appendRemaining ends a success body.
func appendRemaining(b []byte, remaining int64) []byte {
	b = append(b, `,"remaining":`...)
	return append(appendInt(b, remaining), '}')
}

// manager is who may update or delete: a key's account, or for quick pastes the holder of a
// management token. free says that the call is not metered.
func (s *Server) manager(c *fiber.Ctx, k *textKind) (who caller, token string, free bool, err error) {
	if !k.keyless {
		who, err = s.requireKey(c)
		return who, "", false, err
	}
	who, err = s.keyOrNetwork(c)
	if err != nil || !who.anonymous {
		return who, "", false, err
	}
	token = strings.Clone(c.Get(headerManageToken))
	if token == "" {
		return who, "", true, fault.New(fault.ManageTokenRequired, "Management token required")
	}
	return who, token, true, nil
}

func (s *Server) updateText(c *fiber.Ctx, k *textKind) error {
	who, token, free, err := s.manager(c, k)
	if err != nil {
		return err
	}
	w, match, err := s.changing(c, k.domain, who, free)
	if err != nil {
		return err
	}
	rules := &draftRules{now: s.now(), content: k.content, keyless: who.anonymous, update: true}
	d, hash, err := s.readUpdate(c, rules)
	if err != nil {
		return err
	}
	w.key, w.hash = k.update, hash
	d.IfMatch = match.Numbers()
	w.prepare = func(ctx context.Context, r *event.Request) error {
		if free {
			d.ManageTokenHash = apikey.HashToken(token)
		}
		if err := d.store(ctx, s, k.domain, w.item); err != nil {
			return err
		}
		r.Action = &event.Request_Update{Update: &d.Update}
		return nil
	}
	w.discard = func() { s.dropBlob(d.Content.GetBlob()) }
	done, err := s.change(c, w, token)
	if err != nil {
		return err
	}
	o := done.outcome
	b := append(make([]byte, 0, 160), `{"success":true,"id":`...)
	b = appendString(b, o.Item)
	b = append(b, `,"version":`...)
	b = appendInt(b, int64(o.Version))
	b = append(b, `,"updatedAt":`...)
	b = appendTime(b, o.UpdatedMs)
	httpin.SetETag(c, strconv.FormatUint(o.Version, 10))
	return send(c, fiber.StatusOK, appendRemaining(b, done.remaining))
}

// changing is what an update and a delete have in common, with what If-Match says.
func (s *Server) changing(c *fiber.Ctx, d event.Domain, who caller, free bool) (*writing, httpin.ETags, error) {
	idem, err := idempotencyID(c, who.scope())
	if err != nil {
		return nil, httpin.ETags{}, err
	}
	match, err := httpin.ParseETags(c, fiber.HeaderIfMatch)
	if err != nil {
		return nil, httpin.ETags{}, err
	}
	if err := httpin.NoQuery(c); err != nil {
		return nil, httpin.ETags{}, err
	}
	ref := strings.Clone(c.Params("ref", c.Params("id")))
	return &writing{domain: d, who: who, free: free, item: ref, gone: !event.ValidItemID(ref), idem: idem}, match, nil
}

// readUpdate reads a change: always JSON.
func (s *Server) readUpdate(c *fiber.Ctx, r *draftRules) (*draft, uint64, error) {
	if err := httpin.RequireJSON(c); err != nil {
		return nil, 0, err
	}
	data, err := s.http.ReadBody(c, jsonLimit(r.content))
	if err != nil {
		return nil, 0, err
	}
	hash := bodyHash(c, data)
	d := &draft{}
	if err := httpin.ParseObject(data, func(name string, v httpin.Value) error { return d.set(r, name, v) }); err != nil {
		return nil, 0, err
	}
	return d, hash, d.check(r)
}

// change carries out an update or a delete. A keyless one is limited per source instead of being
// metered, and a token that was never made for the item does not get as far as the journal.
func (s *Server) change(c *fiber.Ctx, w *writing, token string) (*written, error) {
	if !w.free {
		return s.write(c, w)
	}
	source := s.http.Source(c)
	if err := s.failures.refused(source, s.now()); err != nil {
		return nil, err
	}
	err := s.checkToken(w, token)
	var done *written
	if err == nil {
		done, err = s.write(c, w)
	}
	if status := fault.KindOf(err).Status(); err != nil && status < fiber.StatusInternalServerError {
		c.Set(headerChargeSource, "none")
		s.failures.add(source, s.now())
	}
	return done, err
}

// checkToken refuses a token that is not the item's: 404 where the caller may not know of the item.
func (s *Server) checkToken(w *writing, token string) error {
	if w.gone {
		return notFound()
	}
	if s.secret.ManageToken(w.item) == token {
		return nil
	}
	if _, err := s.readDocument(s.bus.StartRead(w.domain, &event.Read{Item: w.item, WithoutContent: true})); err != nil {
		return err
	}
	return invalidManageToken()
}

func (s *Server) deleteText(c *fiber.Ctx, k *textKind) error {
	who, token, free, err := s.manager(c, k)
	if err != nil {
		return err
	}
	w, match, err := s.changing(c, k.domain, who, free)
	if err != nil {
		return err
	}
	var tokenHash []byte
	if free {
		tokenHash = apikey.HashToken(token)
	}
	w.key, w.hash, w.prepare = k.del, bodyHash(c, nil), deletion(match, tokenHash)
	done, err := s.change(c, w, token)
	if err != nil {
		return err
	}
	return sendDeleted(c, done)
}

// deletion is a writing's prepare for a delete.
func deletion(match httpin.ETags, tokenHash []byte) func(context.Context, *event.Request) error {
	return func(_ context.Context, r *event.Request) error {
		r.Action = &event.Request_Delete{Delete: &event.Delete{IfMatch: match.Numbers(), ManageTokenHash: tokenHash}}
		return nil
	}
}

func sendDeleted(c *fiber.Ctx, done *written) error {
	b := append(make([]byte, 0, 96), `{"success":true,"id":`...)
	b = appendString(b, done.outcome.Item)
	return send(c, fiber.StatusOK, appendRemaining(b, done.remaining))
}
