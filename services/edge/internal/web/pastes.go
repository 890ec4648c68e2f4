package web

import (
	"quire.dev/services/edge/internal/httpin"

	"context"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
)

// textKind is what pastes and quick pastes differ in, beside their routes.
type textKind struct {
	domain event.Domain
	api    string // path of its endpoints
	page   string // path of its page for people
}

func pasteKind() *textKind {
	return &textKind{domain: event.Paste, api: "/api/dev/pastes", page: "/p/"}
}

func quickKind() *textKind {
	return &textKind{domain: event.Lite, api: "/api/dev/paste-lite", page: "/q/"}
}

func (s *Server) createText(c *call, k *textKind) error {
	rules := &draftRules{now: s.now(), content: c.route.body.limit(), keyless: c.who.anonymous}
	d, hash, err := s.readCreate(c, rules)
	if err != nil {
		return err
	}
	doc := &event.Document{Id: s.newItemID(c.idem), Owner: uint64(c.who.account)}
	if c.who.anonymous {
		doc.ManageTokenHash = apikey.HashToken(s.secret.ManageToken(doc.Id))
	}
	w := &writing{call: c, domain: k.domain, hash: hash}
	w.prepare = func(ctx context.Context, r *event.Request) error {
		if err := d.store(ctx, s, k.domain, doc.Id); err != nil {
			return err
		}
		r.Item = doc.Id
		r.Action = &event.Request_Create{Create: fold.Create(doc, &d.Update)}
		return nil
	}
	w.discard = func() { s.dropBlob(d.Content.GetBlob()) }
	done, err := s.write(w)
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderLocation, s.url(k.api+"/get/"+done.outcome.Item))
	return send(c.Ctx, fiber.StatusCreated, s.appendCreated(make([]byte, 0, 384), k, &c.who, done))
}

// newItemID draws an id. It shares the partition of the idempotency id, so that the outcome is found again by that alone.
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

func (s *Server) updateText(c *call, k *textKind) error {
	match, err := httpin.ParseETags(c.Ctx, fiber.HeaderIfMatch)
	if err != nil {
		return err
	}
	rules := &draftRules{now: s.now(), content: c.route.body.limit(), keyless: c.who.anonymous, update: true}
	d := &draft{}
	if err := d.parse(rules, c.json); err != nil {
		return err
	}
	d.IfMatch = match.Numbers()
	w := changing(c, k.domain, "ref")
	w.prepare = func(ctx context.Context, r *event.Request) error {
		d.ManageTokenHash = c.who.tokenHash()
		if err := d.store(ctx, s, k.domain, w.item); err != nil {
			return err
		}
		r.Action = &event.Request_Update{Update: &d.Update}
		return nil
	}
	w.discard = func() { s.dropBlob(d.Content.GetBlob()) }
	done, err := s.change(w)
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
	httpin.SetETag(c.Ctx, strconv.FormatUint(o.Version, 10))
	return send(c.Ctx, fiber.StatusOK, appendRemaining(b, done.remaining))
}

// changing is a writing of the item in the path.
func changing(c *call, d event.Domain, param string) *writing {
	item := c.param(param)
	return &writing{call: c, domain: d, item: item, gone: !event.ValidItemID(item), hash: c.hash}
}

// change carries out an update or a delete. A call with a management token is limited by its source, since it is not
// metered, and a token that was never made for the item does not reach the journal.
func (s *Server) change(w *writing) (*written, error) {
	c := w.call
	if !c.who.free() {
		return s.write(w)
	}
	source := s.http.Source(c.Ctx)
	if err := s.failures.refused(source, s.now()); err != nil {
		return nil, err
	}
	err := s.checkToken(w)
	var done *written
	if err == nil {
		done, err = s.write(w)
	}
	if status := fault.KindOf(err).Status(); err != nil && status < fiber.StatusInternalServerError {
		c.Set(headerChargeSource, "none")
		s.failures.add(source, s.now())
	}
	return done, err
}

// checkToken refuses a token that is not the item's. It is 404 where the caller may not know of the item.
func (s *Server) checkToken(w *writing) error {
	if w.gone {
		return notFound()
	}
	if s.secret.ManageToken(w.item) == w.call.who.token {
		return nil
	}
	if _, err := s.readDocument(s.bus.StartRead(w.domain, &event.Read{Item: w.item, WithoutContent: true})); err != nil {
		return err
	}
	return invalidManageToken()
}

func (s *Server) deleteText(c *call, k *textKind) error { return s.deleteItem(c, k.domain, "ref") }

func (s *Server) deleteItem(c *call, d event.Domain, param string) error {
	match, err := httpin.ParseETags(c.Ctx, fiber.HeaderIfMatch)
	if err != nil {
		return err
	}
	w := changing(c, d, param)
	w.prepare = func(_ context.Context, r *event.Request) error {
		r.Action = &event.Request_Delete{Delete: &event.Delete{IfMatch: match.Numbers(), ManageTokenHash: c.who.tokenHash()}}
		return nil
	}
	done, err := s.change(w)
	if err != nil {
		return err
	}
	b := append(make([]byte, 0, 96), `{"success":true,"id":`...)
	b = appendString(b, done.outcome.Item)
	return send(c.Ctx, fiber.StatusOK, appendRemaining(b, done.remaining))
}
