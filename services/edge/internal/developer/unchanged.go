package developer

import (
	"strconv"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/headers"
)

// A conditional read that ends in 304 is free, so it is not admitted and appends nothing to the billing journal. The document
// is looked up first, and a query confirms the key. Anything but a 304 becomes a metered read, as if the client had set no
// condition.

// unchanged answers 304 if the client already has the text, and reports whether it did.
func (r *reading) unchanged() (bool, error) {
	if !r.c.Conditional() { // nearly always
		return false, nil
	}
	doc, err := r.s.look(r.k.Domain, r.read())
	if err != nil || doc == nil || !r.known(doc) {
		return false, err
	}
	if confirmed, err := r.s.confirmReader(r.c); !confirmed || err != nil {
		return false, err
	}
	if r.checkPassword(doc) != nil {
		return false, nil // the metered read fails with this, as a failed call
	}
	return true, headers.NotModified(r.c.Ctx, strconv.FormatUint(doc.Version, 10))
}

// known reports whether the client already has the document. The metered read reports a failed condition.
func (r *reading) known(doc *event.Document) bool {
	known, err := r.conditions.Check(ValidatorsOf(r.k.Domain, doc))
	return known && err == nil
}

// burns reports whether this read is the document's last.
func (r *reading) burns(doc *event.Document) bool {
	return doc.BurnAfterRead && !Owns(doc, uint64(r.c.Who.Account))
}

// fileUnchanged is unchanged for a file.
func (s *API) fileUnchanged(c *endpoint.Call, id string, conditions headers.Conditions) (bool, error) {
	if !c.Conditional() {
		return false, nil
	}
	doc, err := s.look(event.File, &event.Read{Item: id, Requester: uint64(c.Who.Account)})
	if err != nil || doc == nil {
		return false, err
	}
	if known, err := conditions.Check(ValidatorsOf(event.File, doc)); err != nil || !known {
		return false, nil // the metered read fails with this
	}
	if confirmed, err := s.confirmReader(c); !confirmed || err != nil {
		return false, err
	}
	return true, headers.NotModified(c.Ctx, fileTag(doc))
}

// look reads a document before the admission. It returns nil if the requester may not know of it.
func (s *API) look(d event.Domain, read *event.Read) (*event.Document, error) {
	if !event.ValidItemID(read.Item) {
		return nil, nil
	}
	doc, err := s.ReadDocument(s.bus.StartRead(d, read))
	if fault.KindOf(err) == fault.NotFound {
		return nil, nil
	}
	return doc, err
}

// confirmReader has billing confirm the key of an unmetered call, and sets the headers. It returns false if the plan lacks
// the quota key, for which the metered read is then refused.
func (s *API) confirmReader(c *endpoint.Call) (bool, error) {
	usage, err := s.UsageForKey(c, c.Row.Key)
	if err != nil {
		return false, err
	}
	for _, u := range usage.Usage {
		if plan.QuotaKey(u.QuotaKey) == c.Row.Key && u.Limit == 0 {
			return false, nil
		}
	}
	receipt := endpoint.FreeReceipt()
	receipt.Quota = s.usedQuota(c, usage)
	receipt.SetHeaders(&c.Response().Header)
	return true, nil
}
