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

// writing is a request that changes a document. The requests of operations embed it, so that a call allocates one object. It is
// for one call, though the bus may keep it longer.
//
// An operation reads its request, has it admitted, prepares the change, and executes it. If the Idempotency-Key has an outcome,
// it replays that instead.
type writing struct {
	Call   *endpoint.Call
	domain event.Domain
	item   string
	gone   bool   // the item can't exist: 404 after the admission
	hash   uint64 // of the request, see BodyHash; of one whose body is read late, known then
	late   bool   // the text's body is read after the admission: see textWriting.receive
	blob   string // stored for the request, and dropped if it changes nothing; empty: none

	conditions headers.Conditions // of a change
	mismatch   error              // the error if the conditions exclude a version; nil: If-Match names no current one

	id     event.RequestID
	charge event.Charge
	toBus  bus.Write
	done   Written

	kept      *event.Outcome // of the Idempotency-Key
	keptQuota endpoint.Quota // now
}

// Written is the result of a writing: the decision of the document's service.
type Written struct {
	Outcome *event.Outcome
	Receipt endpoint.Receipt
}

// admit has a writing admitted. The result is nil if it was executed before, under its Idempotency-Key: see replay.
func (s *API) admit(w *writing) (*endpoint.Metered, error) {
	if len(w.Call.Idem) > 0 {
		if err := s.findKept(w, s.keptOutcome); err != nil || w.kept != nil {
			return nil, err
		}
	}
	m, err := s.admitOnce(w)
	if !errors.Is(err, endpoint.ErrServedBefore) {
		return m, err
	}
	if err := s.findKept(w, s.servedOutcome); err != nil || w.kept != nil {
		return nil, err
	}
	return nil, endpoint.IdempotencyInFlight(1)
}

// findKept finds the outcome of the Idempotency-Key, if any. Since nothing is admitted, billing confirms here that the API key is
// still the account's.
func (s *API) findKept(w *writing, find func(*writing) (*event.Outcome, error)) error {
	c := w.Call
	outcome, err := find(w)
	if err != nil || outcome == nil {
		return err
	}
	w.kept = outcome
	if c.Who.Anonymous {
		if err := s.AdmitReplay(c); err != nil {
			return err
		}
		w.keptQuota = s.quotaNow(c)
		return nil
	}
	usage, err := s.UsageForKey(c, c.Row.Key)
	if err != nil {
		return err
	}
	w.keptQuota = s.usedQuota(c, usage)
	return s.AdmitReplay(c)
}

func (s *API) keptOutcome(w *writing) (*event.Outcome, error) {
	for _, id := range append([][]byte{w.Call.Idem}, w.Call.OtherIdems...) {
		found, err := s.bus.StartRead(w.domain, &event.Read{Item: w.item, IdempotencyId: id}, &w.Call.Timing).Wait(s.ctx)
		if err != nil || found.Outcome != nil {
			return found.Outcome, err
		}
	}
	return nil, nil
}

// servedOutcome returns the outcome of a writing that was served before, according to billing.
func (s *API) servedOutcome(w *writing) (*event.Outcome, error) {
	return s.bus.StartRead(w.domain, &event.Read{Item: w.item, IdempotencyId: w.Call.Idem}, &w.Call.Timing).WaitStored(s.ctx)
}

// replay is the result of a writing whose Idempotency-Key has an outcome. unread is the error of reading the rest of the
// request, which must have the same hash.
func (s *API) replay(w *writing, unread error) (*Written, error) {
	o, receipt := w.kept, endpoint.Receipt{RequestID: w.Call.ID(), Quota: w.keptQuota}
	if unread != nil {
		return nil, receipt.Fail(unread)
	}
	receipt.Source = endpoint.SourceNone
	if o.BodyHash != w.hash {
		return nil, receipt.Fail(endpoint.IdempotencyMismatch())
	}
	receipt.Replayed, receipt.Remaining = true, o.Remaining
	if err := outcomeError(o.Status); err != nil {
		return nil, receipt.Fail(err)
	}
	if w.Call.Who.Free() {
		receipt.Remaining = plan.Unlimited
	}
	w.done = Written{Outcome: o, Receipt: receipt}
	return &w.done, nil
}

// quotaNow is the quota at the time of a replayed call, which is not admitted. It is unknown if billing can't be asked, since
// the answer does not depend on it.
func (s *API) quotaNow(c *endpoint.Call) endpoint.Quota {
	switch {
	case c.Who.Free():
		return endpoint.Quota{}
	case c.Who.Anonymous:
		if a := s.Allowance(c); a != nil {
			return endpoint.Quota{Key: c.Row.Key, Limit: int64(a.Limit), Remaining: int64(a.Remaining), ResetSeconds: int64(a.ResetSeconds)}
		}
		return endpoint.Quota{}
	}
	ctx, cancel := context.WithTimeout(s.ctx, endpoint.QuotaNowWait)
	defer cancel()
	answer, err := s.bus.Query(ctx, c.Who.Account, &event.Query{Query: &event.Query_Usage{Usage: &event.UsageQuery{}}})
	if err != nil {
		return endpoint.Quota{}
	}
	return s.usedQuota(c, answer.GetUsage())
}

// usedQuota is the call's quota in an account's usage.
func (s *API) usedQuota(c *endpoint.Call, usage *event.UsageAnswer) endpoint.Quota {
	for _, u := range usage.GetUsage() {
		if plan.QuotaKey(u.QuotaKey) == c.Row.Key {
			reset := max(0, usage.PeriodEndMs-s.Now().UnixMilli()) / 1000
			return endpoint.Quota{Key: c.Row.Key, Limit: u.Limit, Remaining: u.Remaining, ResetSeconds: reset}
		}
	}
	return endpoint.Quota{}
}

// admitOnce admits a writing, unless it is free. After ErrServedBefore it has not reached the bus.
func (s *API) admitOnce(w *writing) (*endpoint.Metered, error) {
	c := w.Call
	m := s.Meter(c)
	w.id = m.Admission.RequestID
	r := &w.toBus.Request
	r.RequestId, r.Item, r.Account, r.IdempotencyId = w.id[:], w.item, uint64(c.Who.Account), c.Idem
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
		r.Charge.Anonymous = m.Admission.Anonymous
		m.Tell(r.Charge)
	}
	if w.gone {
		return nil, m.Void(endpoint.NotFound())
	}
	return m, nil
}

// execute executes an admitted or free write. unprepared is the error of preparing it. A failure before the request is published
// is voided here, a later one by the service. An outcome other than OK is an error.
func (s *API) execute(w *writing, m *endpoint.Metered, unprepared error) (*Written, error) {
	r, err := &w.toBus.Request, unprepared
	r.BodyHash = w.hash
	if err == nil && m.Open && time.Since(m.Started) > s.admissionAge {
		err = m.Renew(r)
	}
	if err != nil {
		s.contents.Drop(w.blob)
		return nil, w.void(m, err)
	}
	w.toBus.Timing = &w.Call.Timing
	o, err := s.bus.Write(s.ctx, w.domain, &w.toBus)
	switch {
	case err != nil && fault.KindOf(err) == fault.OutcomeUnknown:
		return nil, endpoint.Receipt{RequestID: m.Admission.RequestID, Quota: m.Receipt().Quota}.Fail(err) // it may still happen, so nothing is undone
	case err != nil:
		s.contents.Drop(w.blob)
		return nil, m.Void(err)
	case o.Replayed:
		s.contents.Drop(w.blob)
		w.kept, w.keptQuota = o, s.quotaNow(w.Call)
		return s.replay(w, nil)
	}
	if err := outcomeError(o.Status); err != nil {
		s.contents.Drop(w.blob)
		if o.Status == event.OutcomeStatus_VERSION_MISMATCH && w.mismatch != nil {
			err = w.mismatch
		}
		return nil, m.Voided().Fail(err)
	}
	if m.Admission.Anonymous && m.Verdict != nil {
		s.Keyless.Count(s.http.Source(w.Call.Ctx), m.Verdict.Limit, s.Now())
	}
	w.done = Written{Outcome: o, Receipt: m.Receipt()}
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
	}, &w.Call.Timing))
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return []uint64{noVersion}, nil
	case err != nil:
		return nil, err
	}
	if _, w.mismatch = w.conditions.Check(ValidatorsOf(w.domain, doc)); w.mismatch != nil {
		return []uint64{noVersion}, nil
	}
	w.mismatch = fault.New(fault.VersionMismatch, "It was edited while this request ran. Read it again and retry.")
	return []uint64{doc.Version}, nil
}

// void voids an admission. An error in a late body counts as a failed call: it uses no quota, but adds two entries to a
// journal that is kept forever.
func (w *writing) void(m *endpoint.Metered, failure error) error {
	if w.late && fault.KindOf(failure).Status() < fiber.StatusInternalServerError {
		return m.VoidAs(failure, true)
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
		return fault.New(fault.NotOwner, "Only the owner can do this, and the API key belongs to another account.")
	case event.OutcomeStatus_INVALID_MANAGE_TOKEN:
		return invalidManageToken()
	case event.OutcomeStatus_VERSION_MISMATCH:
		return endpoint.FailedAt(fiber.HeaderIfMatch, fault.VersionMismatch, "The current version does not match If-Match. Read it again and retry.")
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
