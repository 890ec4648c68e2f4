package web

import (
	"context"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
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

func (s *Server) createText(c *endpoint.Call, k *textKind) error {
	n := s.newCreation(c, k)
	if err := n.open(); err != nil {
		return err
	}
	done, err := s.create(n)
	if err != nil {
		return err
	}
	s.SetLocation(c.Ctx, k.api, "/get/", done.outcome.Item)
	return endpoint.SendCopy(c.Ctx, fiber.StatusCreated, s.createdText(endpoint.AnswerIn(make([]byte, 0, 512)), k, &c.Who, done))
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
	want := event.Partition(idem, s.partitions)
	for event.ItemPartition(id, s.partitions) != want {
		id = event.NewItemID()
	}
	return id
}

// createdText adds what a creation has made to the answer.
func (s *Server) createdText(answer endpoint.Object, k *textKind, who *endpoint.Caller, done *written) endpoint.Object {
	out := done.outcome
	o := s.pageURLs(answer.Str("id", out.Item), k, out.Item).Int("version", int64(out.Version)).
		Time("createdAt", out.CreatedMs).Time("expiresAt", out.ExpiresMs)
	if who.Anonymous {
		o = o.Str("manageToken", s.manageToken(k.domain, done))
	}
	return o.Remaining(done.remaining)
}

func (s *Server) pageURLs(o endpoint.Object, k *textKind, id string) endpoint.Object {
	return o.StrOf("url", s.PublicURL(), k.page, id).StrOf("rawUrl", s.ContentBase(), k.page, id, "/raw")
}

func (s *Server) updateText(c *endpoint.Call, k *textKind) error {
	conditions, err := httpin.ReadConditions(c.Ctx)
	if err != nil {
		return err
	}
	u := s.newUpdate(c, k)
	u.conditions = conditions
	if u.rules.keyless {
		u.draft.MaxLifetimeMs = endpoint.KeylessLifetime.Milliseconds()
	}
	u.receiveJSON()
	done, err := s.update(u)
	if err != nil {
		return err
	}
	out := done.outcome
	httpin.SetETag(c.Ctx, strconv.FormatUint(out.Version, 10))
	return endpoint.SendCopy(c.Ctx, fiber.StatusOK, endpoint.AnswerIn(make([]byte, 0, 256)).Str("id", out.Item).Int("version", int64(out.Version)).
		Time("updatedAt", out.UpdatedMs).Remaining(done.remaining))
}

// changes says which item the writing is of: an id, or what a client gave for one.
func (w *writing) changes(item string) {
	w.item, w.gone, w.hash = item, !event.ValidItemID(item), w.call.Hash
}

// change carries out an update or a delete. A call with a management token is limited by its source, since it is not
// metered, and a token that was never made for the item does not reach the journal.
func (s *Server) change(w *writing) (*written, error) {
	c := w.call
	if !c.Who.Free() {
		return s.write(w)
	}
	source := s.http.Source(c.Ctx)
	if err := s.CheckFailures(source); err != nil {
		return nil, err
	}
	err := s.checkToken(w)
	var done *written
	if err == nil {
		done, err = s.write(w)
	}
	if status := fault.KindOf(err).Status(); err != nil && status < fiber.StatusInternalServerError {
		c.Set(endpoint.HeaderChargeSource, "none")
		s.Failures.Add(source, s.Now())
	}
	return done, err
}

// checkToken refuses a token that is not the item's. It is 404 where the caller may not know of the item.
func (s *Server) checkToken(w *writing) error {
	if w.gone {
		return endpoint.NotFound()
	}
	if s.secret.CheckManageToken(w.item, w.call.Who.Token) {
		return nil
	}
	if _, err := s.readDocument(s.bus.StartRead(w.domain, &event.Read{Item: w.item, WithoutContent: true})); err != nil {
		return err
	}
	return invalidManageToken()
}

func (s *Server) deleteText(c *endpoint.Call, k *textKind) error {
	return s.deleteItem(c, k.domain, "ref")
}

func (s *Server) deleteItem(c *endpoint.Call, d event.Domain, param string) error {
	conditions, err := httpin.ReadConditions(c.Ctx)
	if err != nil {
		return err
	}
	done, err := s.remove(c, d, c.Param(param), conditions)
	if err != nil {
		return err
	}
	return endpoint.SendCopy(c.Ctx, fiber.StatusOK, endpoint.AnswerIn(make([]byte, 0, 128)).Str("id", done.outcome.Item).Remaining(done.remaining))
}

// deletion is the writing that deletes an item.
type deletion struct {
	writing
	s *Server
}

// remove deletes an item where the conditions hold for it.
func (s *Server) remove(c *endpoint.Call, d event.Domain, item string, conditions httpin.Conditions) (*written, error) {
	del := &deletion{writing: writing{call: c, domain: d, conditions: conditions}, s: s}
	del.changes(item)
	del.action = del
	return s.change(&del.writing)
}

func (d *deletion) readHash() (uint64, error) { return d.hash, nil }

func (d *deletion) prepare(_ context.Context, r *event.Request) error {
	versions, err := d.s.allowedVersions(&d.writing)
	r.Action = &event.Request_Delete{Delete: &event.Delete{IfMatch: versions, ManageTokenHash: d.call.Who.TokenHash()}}
	return err
}

func (d *deletion) discard() {}
