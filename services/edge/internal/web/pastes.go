package web

import (
	"context"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/headers"
)

// textKind has the differences of pastes and quick pastes, beside their routes.
type textKind struct {
	domain event.Domain
	api    string // path of its endpoints
	page   string // path of its page for people
	read   plan.QuotaKey
}

func pasteKind() *textKind {
	return &textKind{domain: event.Paste, api: "/api/dev/pastes", page: "/p/", read: plan.PastesGet}
}

func quickKind() *textKind {
	return &textKind{domain: event.Lite, api: "/api/dev/paste-lite", page: "/q/", read: plan.LiteGet}
}

func (s *Server) createText(c *call, k *textKind) error {
	n := s.newCreation(c, k)
	if err := n.open(); err != nil {
		return err
	}
	done, err := s.create(n)
	if err != nil {
		return err
	}
	s.setLocation(c.Ctx, k.api, "/get/", done.outcome.Item)
	return sendCopy(c.Ctx, fiber.StatusCreated, s.createdText(answerIn(make([]byte, 0, 512)), k, &c.who, done))
}

// manageToken is the management token of a document that a keyless call has made. That of a call that was answered before
// is the token of then: the edge that answered may sign with another secret.
func (s *Server) manageToken(d event.Domain, made *written) string {
	item := made.outcome.Item
	if made.replayed && s.secret.Several() {
		found, err := s.bus.StartRead(d, &event.Read{Item: item, WithoutContent: true}).Wait(s.ctx)
		if err == nil && found.Document != nil {
			return s.secret.StoredManageToken(item, found.Document.ManageTokenHash)
		}
	}
	return s.secret.ManageToken(item)
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

// createdText adds what a creation has made to the answer.
func (s *Server) createdText(answer object, k *textKind, who *caller, done *written) object {
	out := done.outcome
	o := s.pageURLs(answer.str("id", out.Item), k, out.Item).int("version", int64(out.Version)).
		time("createdAt", out.CreatedMs).time("expiresAt", out.ExpiresMs)
	if who.anonymous {
		o = o.str("manageToken", s.manageToken(k.domain, done))
	}
	return o.remaining(done.remaining)
}

func (s *Server) pageURLs(o object, k *textKind, id string) object {
	return o.strOf("url", *s.publicURL.Load(), k.page, id).strOf("rawUrl", s.contentBase(), k.page, id, "/raw")
}

func (s *Server) updateText(c *call, k *textKind) error {
	conditions, err := headers.ReadConditions(c.Ctx)
	if err != nil {
		return err
	}
	u := s.newUpdate(c, k)
	u.conditions = conditions
	if u.rules.keyless {
		u.draft.MaxLifetimeMs = keylessLifetime.Milliseconds()
	}
	u.receiveJSON()
	done, err := s.update(u)
	if err != nil {
		return err
	}
	out := done.outcome
	headers.SetETag(c.Ctx, strconv.FormatUint(out.Version, 10))
	return sendCopy(c.Ctx, fiber.StatusOK, answerIn(make([]byte, 0, 256)).str("id", out.Item).int("version", int64(out.Version)).
		time("updatedAt", out.UpdatedMs).remaining(done.remaining))
}

// changes says which item the writing is of: an id, or what a client gave for one.
func (w *writing) changes(item string) {
	w.item, w.gone, w.hash = item, !event.ValidItemID(item), w.call.hash
}

// change carries out an update or a delete. A call with a management token is limited by its source, since it is not
// metered, and a token that was never made for the item does not reach the journal.
func (s *Server) change(w *writing) (*written, error) {
	c := w.call
	if !c.who.free() {
		return s.write(w)
	}
	source := s.http.Source(c.Ctx)
	if err := s.checkFailures(source); err != nil {
		return nil, err
	}
	err := s.checkToken(w)
	var done *written
	if err == nil {
		done, err = s.write(w)
	}
	if status := fault.KindOf(err).Status(); err != nil && status < fiber.StatusInternalServerError {
		c.Set(headerChargeSource, "none")
		s.failures.Add(source, s.now())
	}
	return done, err
}

// checkToken refuses a token that is not the item's. It is 404 where the caller may not know of the item.
func (s *Server) checkToken(w *writing) error {
	if w.gone {
		return notFound()
	}
	if s.secret.CheckManageToken(w.item, w.call.who.token) {
		return nil
	}
	if _, err := s.readDocument(s.bus.StartRead(w.domain, &event.Read{Item: w.item, WithoutContent: true})); err != nil {
		return err
	}
	return invalidManageToken()
}

func (s *Server) deleteText(c *call, k *textKind) error { return s.deleteItem(c, k.domain, "ref") }

func (s *Server) deleteItem(c *call, d event.Domain, param string) error {
	conditions, err := headers.ReadConditions(c.Ctx)
	if err != nil {
		return err
	}
	done, err := s.remove(c, d, c.param(param), conditions)
	if err != nil {
		return err
	}
	return sendCopy(c.Ctx, fiber.StatusOK, answerIn(make([]byte, 0, 128)).str("id", done.outcome.Item).remaining(done.remaining))
}

// deletion is the writing that deletes an item.
type deletion struct {
	writing
	s *Server
}

// remove deletes an item where the conditions hold for it.
func (s *Server) remove(c *call, d event.Domain, item string, conditions headers.Conditions) (*written, error) {
	del := &deletion{writing: writing{call: c, domain: d, conditions: conditions}, s: s}
	del.changes(item)
	del.action = del
	return s.change(&del.writing)
}

func (d *deletion) readHash() (uint64, error) { return d.hash, nil }

func (d *deletion) prepare(_ context.Context, r *event.Request) error {
	versions, err := d.s.allowedVersions(&d.writing)
	r.Action = &event.Request_Delete{Delete: &event.Delete{IfMatch: versions, ManageTokenHash: d.call.who.tokenHash()}}
	return err
}

func (d *deletion) discard() {}
