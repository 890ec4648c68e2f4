package developer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/headers"
)

// writing is a request that changes a document. Most actions embed it together with the rest of their state, so that a call
// allocates one object. It is for one call, though the bus may keep it longer.
type writing struct {
	Call   *endpoint.Call
	domain event.Domain
	item   string
	gone   bool   // the item can't exist: 404 after the admission
	hash   uint64 // of the request, see BodyHash; readHash returns it if the body is not read yet
	late   bool   // the text's body is read after the admission: see textWriting.receive
	action action

	conditions headers.Conditions // of a change
	mismatch   error              // the error if the conditions exclude a version; nil: If-Match names no current one

	id     event.RequestID
	charge event.Charge
	toBus  bus.Write
	done   Written
}

// action is what a writing does.
type action interface {
	// readHash returns the hash of the request. It reads the rest of the body if necessary.
	readHash() (uint64, error)
	// prepare fills in the request's action. It runs after the admission, and may take time.
	prepare(ctx context.Context, r *event.Request) error
	// discard undoes prepare if the request changed nothing.
	discard()
}

// Written is the outcome of a writing: the decision of the document's service.
type Written struct {
	Outcome   *event.Outcome
	Remaining int64
	replayed  bool // the outcome of an earlier call
}

// write executes a writing: it finds the stored outcome of the Idempotency-Key, or has the request admitted and executed. An
// outcome other than OK is returned as an error. It sets all headers.
func (s *API) write(w *writing) (*Written, error) {
	if len(w.Call.Idem) > 0 {
		if done, err := s.kept(w, s.keptOutcome); done != nil || err != nil {
			return done, err
		}
	}
	done, err := s.admitted(w)
	if !errors.Is(err, endpoint.ErrServedBefore) {
		return done, err
	}
	if done, err = s.kept(w, s.servedOutcome); done == nil && err == nil {
		err = endpoint.IdempotencyInFlight(1)
	}
	return done, err
}

// kept returns the outcome of the Idempotency-Key that find finds; nil without one. Since nothing is admitted, billing
// confirms here that the API key is still the account's.
func (s *API) kept(w *writing, find func(*writing) (*event.Outcome, error)) (*Written, error) {
	c := w.Call
	outcome, err := find(w)
	if err != nil || outcome == nil {
		return nil, err
	}
	if c.Who.Anonymous {
		if err := s.AdmitReplay(c); err != nil {
			return nil, err
		}
		s.setQuotaNow(c)
		return s.replay(w, outcome)
	}
	usage, err := s.UsageForKey(c, c.Row.Key)
	if err == nil {
		err = s.AdmitReplay(c)
	}
	if err != nil {
		return nil, err
	}
	s.setUsedQuota(c, usage)
	return s.replay(w, outcome)
}

func (s *API) keptOutcome(w *writing) (*event.Outcome, error) {
	for _, id := range append([][]byte{w.Call.Idem}, w.Call.OtherIdems...) {
		found, err := s.bus.StartRead(w.domain, &event.Read{Item: w.item, IdempotencyId: id}).Wait(s.ctx)
		if err != nil || found.Outcome != nil {
			return found.Outcome, err
		}
	}
	return nil, nil
}

// servedOutcome returns the outcome of a writing that was served before, according to billing.
func (s *API) servedOutcome(w *writing) (*event.Outcome, error) {
	return s.bus.StartRead(w.domain, &event.Read{Item: w.item, IdempotencyId: w.Call.Idem}).WaitStored(s.ctx)
}

// replay answers a writing whose Idempotency-Key has an outcome.
func (s *API) replay(w *writing, o *event.Outcome) (*Written, error) {
	c := w.Call
	hash, err := w.action.readHash()
	if err != nil {
		return nil, err
	}
	c.Set(endpoint.HeaderChargeSource, "none")
	if o.BodyHash != hash {
		return nil, endpoint.IdempotencyMismatch()
	}
	c.Set(endpoint.HeaderReplayed, "true")
	if err := outcomeError(o.Status); err != nil {
		return nil, err
	}
	w.done = Written{Outcome: o, Remaining: o.Remaining, replayed: true}
	if c.Who.Free() {
		w.done.Remaining = plan.Unlimited
	}
	return &w.done, nil
}

// setQuotaNow sets the rate-limit headers of a replayed call, which is not admitted. It omits them if billing can't be asked,
// since the answer does not depend on them.
func (s *API) setQuotaNow(c *endpoint.Call) {
	switch {
	case c.Who.Free():
		return
	case c.Who.Anonymous:
		if a := s.Allowance(c); a != nil {
			endpoint.SetQuota(c.Ctx, c.Row.Key, int64(a.Limit), int64(a.Remaining), int64(a.ResetSeconds))
		}
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, endpoint.QuotaNowWait)
	defer cancel()
	answer, err := s.bus.Query(ctx, c.Who.Account, &event.Query{Query: &event.Query_Usage{Usage: &event.UsageQuery{}}})
	if err == nil && answer.GetUsage() != nil {
		s.setUsedQuota(c, answer.GetUsage())
	}
}

// setUsedQuota sets the rate-limit headers from an account's usage.
func (s *API) setUsedQuota(c *endpoint.Call, usage *event.UsageAnswer) {
	for _, u := range usage.Usage {
		if plan.QuotaKey(u.QuotaKey) == c.Row.Key {
			reset := max(0, usage.PeriodEndMs-s.Now().UnixMilli()) / 1000
			endpoint.SetQuota(c.Ctx, c.Row.Key, u.Limit, u.Remaining, reset)
		}
	}
}

// admitted admits a writing, unless it is free, and executes it. After ErrServedBefore it has not reached the bus.
func (s *API) admitted(w *writing) (*Written, error) {
	c := w.Call
	m := s.Meter(c)
	w.id = m.Admission.RequestID
	r := &w.toBus.Request
	r.RequestId, r.Item, r.Account, r.IdempotencyId, r.BodyHash = w.id[:], w.item, uint64(c.Who.Account), c.Idem, w.hash
	if !c.Who.Free() {
		m.Admission.Write, m.Admission.IdempotencyID = true, c.Idem
		var err error
		if c.Who.Anonymous {
			err = m.AdmitKeyless()
		} else {
			err = m.Start().Wait()
		}
		if err != nil {
			return nil, err
		}
		r.Charge = &w.charge
		r.Charge.Account, r.Charge.QuotaKey = uint64(m.Admission.Account), uint32(m.Admission.Key)
		r.Charge.Anonymous, r.Charge.Remaining = m.Admission.Anonymous, m.Remaining()
	}
	if w.gone {
		return nil, m.Void(endpoint.NotFound())
	}
	return s.execute(w, m)
}

// execute executes an admitted or free write. A failure before the request is published is voided here, a later one by the
// service.
func (s *API) execute(w *writing, m *endpoint.Metered) (*Written, error) {
	r := &w.toBus.Request
	err := w.action.prepare(s.ctx, r)
	if err == nil && m.Open && time.Since(m.Started) > s.admissionAge {
		err = m.Renew(r)
	}
	if err != nil {
		w.action.discard()
		return nil, w.void(m, err)
	}
	o, err := s.bus.Write(s.ctx, w.domain, &w.toBus)
	switch {
	case err != nil && fault.KindOf(err) == fault.OutcomeUnknown:
		m.SetQuota(m.Remaining())
		return nil, err // it may still happen, so nothing is undone
	case err != nil:
		w.action.discard()
		return nil, m.Void(err)
	case o.Replayed:
		w.action.discard()
		s.setQuotaNow(w.Call)
		return s.replay(w, o)
	}
	if err := outcomeError(o.Status); err != nil {
		w.action.discard()
		m.SetVoided()
		if o.Status == event.OutcomeStatus_VERSION_MISMATCH && w.mismatch != nil {
			err = w.mismatch
		}
		return nil, err
	}
	m.SetCharge()
	if m.Admission.Anonymous && m.Verdict != nil {
		s.Keyless.Count(s.http.Source(w.Call.Ctx), m.Verdict.Limit, s.Now())
	}
	w.done = Written{Outcome: o, Remaining: m.Remaining()}
	return &w.done, nil
}

// fileVersion is the version of every file, which clients may use instead of its tag.
const fileVersion = 1

// noVersion matches no document: versions start at 1.
const noVersion = 0

// allowedVersions are the versions that the conditions of a change allow; empty: any. Conditions that the fold can't evaluate
// by number are evaluated on the current document, and the result holds for that version. The fold also makes the refusal,
// since it must first check who may change the document, and whether this is a repetition.
func (s *API) allowedVersions(w *writing) ([]uint64, error) {
	versions, decided := w.conditions.Versions()
	if decided && (w.domain != event.File || versions == nil || slices.Contains(versions, fileVersion)) {
		return versions, nil
	}
	doc, err := s.ReadDocument(s.bus.StartRead(w.domain, &event.Read{
		Item: w.item, Requester: uint64(w.Call.Who.Account), WithoutContent: w.domain != event.File, // their tag is in the content
	}))
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return []uint64{noVersion}, nil
	case err != nil:
		return nil, err
	}
	if _, w.mismatch = w.conditions.Check(ValidatorsOf(w.domain, doc)); w.mismatch != nil {
		return []uint64{noVersion}, nil
	}
	w.mismatch = fault.New(fault.VersionMismatch, "It was changed while this request ran. Read it again, and then change it.")
	return []uint64{doc.Version}, nil
}

// void voids an admission. An error in a late body counts as a failed call: it uses no quota, but adds two entries to a
// journal that is kept forever.
func (w *writing) void(m *endpoint.Metered, failure error) error {
	if w.late && fault.KindOf(failure).Status() < fiber.StatusInternalServerError {
		return m.GiveBack(failure, true)
	}
	return m.Void(failure)
}

// outcomeError maps a fold's status to an error; nil for OK.
func outcomeError(status event.OutcomeStatus) error {
	switch status {
	case event.OutcomeStatus_OK:
		return nil
	case event.OutcomeStatus_NOT_FOUND:
		return endpoint.NotFound()
	case event.OutcomeStatus_NOT_OWNER:
		return fault.New(fault.NotOwner, "Only the owner may do this, and it does not belong to the account of the API key.")
	case event.OutcomeStatus_INVALID_MANAGE_TOKEN:
		return invalidManageToken()
	case event.OutcomeStatus_VERSION_MISMATCH:
		return endpoint.FailedAt(fiber.HeaderIfMatch, fault.VersionMismatch, "The current version is not one that If-Match names. Read it again, and then change it.")
	case event.OutcomeStatus_IDEMPOTENCY_MISMATCH:
		return endpoint.IdempotencyMismatch()
	case event.OutcomeStatus_DEADLINE_EXCEEDED, event.OutcomeStatus_ID_TAKEN:
		return endpoint.Unavailable(errors.New(status.String()))
	}
	return endpoint.ErrUnknownOutcome
}

func invalidManageToken() error {
	return fault.New(fault.InvalidManageToken, "Invalid management token")
}
