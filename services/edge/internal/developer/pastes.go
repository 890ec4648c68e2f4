package developer

import (
	"context"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
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
		found, err := s.bus.StartRead(d, &event.Read{Item: item, WithoutContent: true}).Wait(s.ctx)
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
	o := s.pageURLs(answer.Str("id", out.Item), k, out.Item).Int("version", int64(out.Version)).
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
	if u.Rules.keyless {
		u.Draft.MaxLifetimeMs = endpoint.KeylessLifetime.Milliseconds()
	}
	u.receiveJSON()
	done, err := s.Update(u)
	if err != nil {
		return err
	}
	out := done.Outcome
	done.Receipt.SetHeaders(&c.Response().Header)
	headers.SetETag(c.Ctx, strconv.FormatUint(out.Version, 10))
	return endpoint.SendCopy(c.Ctx, fiber.StatusOK, endpoint.AnswerIn(make([]byte, 0, 256)).Str("id", out.Item).Int("version", int64(out.Version)).
		Time("updatedAt", out.UpdatedMs).Receipt(&done.Receipt))
}

// changes sets the item to change: an id, or what a client sent as one.
func (w *writing) changes(item string) {
	w.item, w.gone, w.hash = item, !event.ValidItemID(item), w.Call.Hash
}

// change executes an update or a deletion. A call with a management token is not metered, so it is limited by source, and a
// token that was never issued for the item does not reach the journal.
func (s *API) change(w *writing) (*Written, error) {
	c := w.Call
	if !c.Who.Free() {
		return s.write(w)
	}
	source := s.http.Source(c.Ctx)
	if err := s.CheckFailures(source); err != nil {
		return nil, err
	}
	err := s.checkToken(w)
	var done *Written
	if err == nil {
		done, err = s.write(w)
	}
	if status := fault.KindOf(err).Status(); err != nil && status < fiber.StatusInternalServerError {
		s.Failures.Add(source, s.Now())
		err = endpoint.Receipt{Source: endpoint.SourceNone}.Fail(err)
	}
	return done, err
}

// checkToken rejects a token of another item, with 404 if the caller may not know of the item.
func (s *API) checkToken(w *writing) error {
	if w.gone {
		return endpoint.NotFound()
	}
	if s.secret.CheckManageToken(w.item, w.Call.Who.Token) {
		return nil
	}
	if _, err := s.ReadDocument(s.bus.StartRead(w.domain, &event.Read{Item: w.item, WithoutContent: true})); err != nil {
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

// deletion is the action that deletes an item.
type deletion struct {
	writing
	s *API
}

// Remove deletes an item if the conditions hold.
func (s *API) Remove(c *endpoint.Call, d event.Domain, item string, conditions headers.Conditions) (*Written, error) {
	del := &deletion{writing: writing{Call: c, domain: d, conditions: conditions}, s: s}
	del.changes(item)
	del.action = del
	return s.change(&del.writing)
}

func (d *deletion) readHash() (uint64, error) { return d.hash, nil }

func (d *deletion) prepare(_ context.Context, r *event.Request) error {
	versions, err := d.s.allowedVersions(&d.writing)
	r.Action = &event.Request_Delete{Delete: &event.Delete{IfMatch: versions, ManageTokenHash: d.Call.Who.TokenHash()}}
	return err
}

func (d *deletion) discard() {}
