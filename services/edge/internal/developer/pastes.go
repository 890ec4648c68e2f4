package developer

import (
	"strconv"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/headers"
	"quire.dev/services/edge/internal/kind"
)

func (s *API) createText(c *endpoint.Call, k *kind.Kind) error {
	n := s.NewCreation(c, k)
	if err := n.open(); err != nil {
		return err
	}
	done, err := s.Create(n)
	if err != nil {
		return err
	}
	done.Receipt.SetHeaders(&c.Response().Header)
	s.SetLocation(c.Ctx, k.API, "/get/", done.Outcome.Item)
	return endpoint.SendCopy(c.Ctx, fiber.StatusCreated, s.createdText(endpoint.AnswerIn(make([]byte, 0, 512)), k, &c.Who, done))
}

// ManageToken returns the management token of a document created without a key. For a replayed call it finds the original
// token, even if the edge that answered first signs with another secret.
func (s *API) ManageToken(d event.Domain, made *Written) string {
	item := made.Outcome.Item
	if made.Receipt.Replayed && s.secret.Several() {
		found, err := s.bus.StartRead(d, &event.Read{Item: item, WithoutContent: true}, nil).Wait(s.ctx)
		if err == nil && found.Document != nil {
			return s.secret.StoredManageToken(item, found.Document.ManageTokenHash)
		}
	}
	return s.secret.ManageToken(item)
}

// newItemID draws an id in the partition of the idempotency id, so that the idempotency id alone locates the outcome.
func (s *API) newItemID(idem []byte) string {
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

// createdText adds the result of a creation to the answer.
func (s *API) createdText(answer endpoint.Object, k *kind.Kind, who *endpoint.Caller, done *Written) endpoint.Object {
	out := done.Outcome
	o := s.pageURLs(answer.Str("id", out.Item), k, out.Item).Int("version", num.Int64(out.Version)).
		Time("createdAt", out.CreatedMs).Time("expiresAt", out.ExpiresMs)
	if who.Anonymous {
		o = o.Str("manageToken", s.ManageToken(k.Domain, done))
	}
	return o.Receipt(&done.Receipt)
}

func (s *API) pageURLs(o endpoint.Object, k *kind.Kind, id string) endpoint.Object {
	return o.StrOf("url", s.PublicURL(), k.Page, id).StrOf("rawUrl", s.ContentBase(), k.Page, id, "/raw")
}

func (s *API) updateText(c *endpoint.Call, k *kind.Kind) error {
	conditions, err := headers.ReadConditions(c.Ctx)
	if err != nil {
		return err
	}
	u := s.NewUpdate(c, k)
	u.conditions = conditions
	if u.rules.keyless {
		u.draft.MaxLifetimeMs = endpoint.KeylessLifetime.Milliseconds()
	}
	u.body = bodyJSON
	done, err := s.Update(u)
	if err != nil {
		return err
	}
	out := done.Outcome
	done.Receipt.SetHeaders(&c.Response().Header)
	headers.SetETag(c.Ctx, strconv.FormatUint(out.Version, 10))
	return endpoint.SendCopy(c.Ctx, fiber.StatusOK, endpoint.AnswerIn(make([]byte, 0, 256)).Str("id", out.Item).Int("version", num.Int64(out.Version)).
		Time("updatedAt", out.UpdatedMs).Receipt(&done.Receipt))
}

// changes sets the item to change: an id, or what a client sent as one.
func (w *writing) changes(item string) {
	w.item, w.gone, w.hash = item, !event.ValidItemID(item), w.Call.Hash
}

// A change with a management token is not metered, so failed ones are limited by source: checkSource comes before the change,
// and countFailure after.

func (s *API) checkSource(c *endpoint.Call) error {
	if !c.Who.Free() {
		return nil
	}
	return s.CheckFailures(s.http.Source(c.Ctx))
}

func (s *API) countFailure(c *endpoint.Call, err error) error {
	if err == nil || !c.Who.Free() || fault.KindOf(err).Status() >= fiber.StatusInternalServerError {
		return err
	}
	s.Failures.Add(s.http.Source(c.Ctx), s.Now())
	return endpoint.Receipt{Source: endpoint.SourceNone}.Fail(err)
}

// admitChange is admit for a change. A token that was never issued for the item does not reach the journal.
func (s *API) admitChange(w *writing) (*endpoint.Metered, error) {
	if w.Call.Who.Free() {
		if err := s.checkToken(w); err != nil {
			return nil, err
		}
	}
	return s.admit(w)
}

// checkToken rejects a token of another item, with 404 if the caller may not know of the item.
func (s *API) checkToken(w *writing) error {
	if w.gone {
		return endpoint.NotFound()
	}
	if s.secret.CheckManageToken(w.item, w.Call.Who.Token) {
		return nil
	}
	if _, err := s.ReadDocument(s.bus.StartRead(w.domain, &event.Read{Item: w.item, WithoutContent: true}, &w.Call.Timing)); err != nil {
		return err
	}
	return invalidManageToken()
}

func (s *API) deleteText(c *endpoint.Call, k *kind.Kind) error {
	return s.deleteItem(c, k.Domain, "ref")
}

func (s *API) deleteItem(c *endpoint.Call, d event.Domain, param string) error {
	conditions, err := headers.ReadConditions(c.Ctx)
	if err != nil {
		return err
	}
	done, err := s.Remove(c, d, c.Param(param), conditions)
	if err != nil {
		return err
	}
	done.Receipt.SetHeaders(&c.Response().Header)
	return endpoint.SendCopy(c.Ctx, fiber.StatusOK, endpoint.AnswerIn(make([]byte, 0, 128)).Str("id", done.Outcome.Item).Receipt(&done.Receipt))
}

// Remove deletes an item if the conditions hold.
func (s *API) Remove(c *endpoint.Call, d event.Domain, item string, conditions headers.Conditions) (*Written, error) {
	if err := s.checkSource(c); err != nil {
		return nil, err
	}
	w := &writing{Call: c, domain: d, conditions: conditions}
	w.changes(item)
	done, err := s.remove(w)
	return done, s.countFailure(c, err)
}

func (s *API) remove(w *writing) (*Written, error) {
	m, err := s.admitChange(w)
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return s.replay(w, nil)
	}
	versions, err := s.allowedVersions(w)
	w.toBus.Request.Action = &event.Request_Delete{Delete: &event.Delete{IfMatch: versions, ManageTokenHash: w.Call.Who.TokenHash()}}
	return s.execute(w, m, err)
}
