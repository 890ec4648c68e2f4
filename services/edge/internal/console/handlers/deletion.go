package handlers

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/developer"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/httpin/headers"
	"quire.dev/services/edge/internal/httpin/httperr"
)

// mostDeleted is the maximum number of items per form.
const mostDeleted = 100

// askToDelete shows the selected items, and what deleting them costs.
func (s *Handlers) askToDelete(c *endpoint.Call, k *collection) error {
	var refs []string
	for _, ref := range c.Context().QueryArgs().PeekMulti("ref") {
		if id := string(ref); !slices.Contains(refs, id) && len(refs) < mostDeleted {
			refs = append(refs, id)
		}
	}
	return s.showDeletion(c, k, fiber.StatusOK, console.DeleteContent(k.Kind, c.Who.Account.String(), rand.Text(), refs))
}

// showDeletion shows the items of a form that still exist.
func (s *Handlers) showDeletion(c *endpoint.Call, k *collection, status int, form *console.Form) (err error) {
	shown := &console.Removal{Kind: k.Kind, Form: form}
	var refs []string
	for _, ref := range refsOf(form) {
		if !event.ValidItemID(ref) {
			continue
		}
		doc, err := s.developer.ReadDocument(s.bus.StartRead(k.list.Domain, &event.Read{Item: ref, Requester: uint64(c.Who.Account), WithoutContent: true}, &c.Timing))
		switch {
		case fault.KindOf(err) == fault.NotFound:
		case err != nil:
			return err
		case developer.Owns(doc, uint64(c.Who.Account)):
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

// deleteFromPage deletes the items of a form, each as deleteItem does. Items already deleted are no failure.
func (s *Handlers) deleteFromPage(c *endpoint.Call, k *collection) error {
	form := console.DeleteContent(k.Kind, c.Who.Account.String(), "", nil)
	return s.submit(c, form, submission{
		unlimited: true,
		do: func() error {
			refs := refsOf(form)
			if len(refs) == 0 || len(refs) > mostDeleted {
				return httperr.InvalidField(console.RefsField, fmt.Sprintf("must have 1 to %d ids", mostDeleted))
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

// deleteOne deletes an item in a separate request, which the log of requests shows.
func (s *Handlers) deleteOne(c *endpoint.Call, k *collection, ref, once string) error {
	id := event.NewRequestID()
	httpin.SetRequestID(c.Ctx, id.String())
	one := &endpoint.Call{Ctx: c.Ctx, Row: c.Row, Who: c.Who, Hash: endpoint.BodyHash(c.Ctx, []byte(ref))}
	if once != "" {
		one.Idem = onceID(c.Who.Account, c.Method(), k.Of(ref), once)
	}
	_, err := s.developer.Remove(one, k.list.Domain, ref, headers.Conditions{})
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	return err
}

// notAll adds to an error how many items were deleted before it.
func notAll(err error, deleted, all int) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || deleted == 0 {
		return err
	}
	told := *e
	told.Message = fmt.Sprintf("Deleted %d of %d. %s", deleted, all, e.Message)
	return &told
}
