package developer

import (
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/headers"
)

// A conditional read that ends in 304 is free, so it is not admitted and appends nothing to the billing journal. The document
// is looked up first, and a query confirms the key. Anything but a 304 becomes a metered read, as if the client had set no
// condition.

// unchanged finds the text if the client already has it. Otherwise it is not known.
func (r *reading) unchanged() (f found, err error) {
	if !r.c.Conditional() { // nearly always
		return f, nil
	}
	doc, err := r.s.look(r.c, r.k.Domain, r.read())
	if err != nil || doc == nil || !r.known(doc) {
		return f, err
	}
	receipt, confirmed, err := r.s.confirmReader(r.c)
	if !confirmed || err != nil {
		return f, err
	}
	if r.checkPassword(doc) != nil {
		return f, nil // the metered read fails with this, as a failed call
	}
	return found{doc: doc, known: true, receipt: receipt}, nil
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
	doc, err := s.look(c, event.File, &event.Read{Item: id, Requester: uint64(c.Who.Account)})
	if err != nil || doc == nil {
		return false, err
	}
	if known, err := conditions.Check(ValidatorsOf(event.File, doc)); err != nil || !known {
		return false, nil // the metered read fails with this
	}
	receipt, confirmed, err := s.confirmReader(c)
	if !confirmed || err != nil {
		return false, err
	}
	receipt.SetHeaders(&c.Response().Header)
	return true, headers.NotModified(c.Ctx, fileTag(doc))
}

// look reads a document before the admission. It returns nil if the requester may not know of it.
func (s *API) look(c *endpoint.Call, d event.Domain, read *event.Read) (*event.Document, error) {
	if !event.ValidItemID(read.Item) {
		return nil, nil
	}
	doc, err := s.ReadDocument(s.bus.StartRead(d, read, &c.Timing))
	if fault.KindOf(err) == fault.NotFound {
		return nil, nil
	}
	return doc, err
}

// confirmReader has billing confirm the key of an unmetered call. It returns false if the plan lacks the quota key, for which the
// metered read is then refused.
func (s *API) confirmReader(c *endpoint.Call) (receipt endpoint.Receipt, confirmed bool, err error) {
	usage, err := s.UsageForKey(c, c.Row.Key)
	if err != nil {
		return receipt, false, err
	}
	receipt = endpoint.FreeReceipt()
	receipt.RequestID, receipt.Quota = c.ID(), s.usedQuota(c, usage)
	return receipt, receipt.Quota.Key == endpoint.Unmetered || receipt.Quota.Limit != 0, nil
}
