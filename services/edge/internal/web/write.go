package web

import (
	"context"
	"errors"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/fault"
)

var (
	errUnknownDecision = errors.New("unknown decision in a verdict")
	errUnknownOutcome  = errors.New("unknown status in an outcome")
	// errServedBefore says that the request's Idempotency-Key was served a moment ago.
	errServedBefore = errors.New("served before")
)

const (
	// servedTries bounds how often a kept outcome is asked for that billing says must be there.
	servedTries = 6
	servedWait  = 50 * time.Millisecond // grows with each try
	blobTimeout = 60 * time.Second
)

// writing is a request that changes a document.
type writing struct {
	domain event.Domain
	who    caller
	key    plan.QuotaKey
	free   bool // not metered: a keyless caller with a management token
	item   string
	gone   bool // item can't exist: 404 once admitted
	idem   []byte
	hash   uint64
	// readHash finds hash where that takes reading the body to its end. Nil where hash is known.
	readHash func() (uint64, error)

	// prepare fills in the request's action. It runs once the request is admitted, and may take time.
	prepare func(ctx context.Context, r *event.Request) error
	// discard undoes prepare where the request changed nothing. May be nil.
	discard func()
}

// written is how a writing ended: what its document's service decided.
type written struct {
	outcome   *event.Outcome
	remaining int64
}

// write carries a write out: the kept outcome of its Idempotency-Key, or admission, execution and
// the outcome. An outcome that is not OK is returned as an error. All headers are set.
func (s *Server) write(c *fiber.Ctx, w *writing) (*written, error) {
	for try := range servedTries {
		if len(w.idem) > 0 {
			if done, err := s.kept(c, w); done != nil || err != nil {
				return done, err
			}
		}
		done, err := s.writeOnce(c, w)
		if !errors.Is(err, errServedBefore) {
			return done, err
		}
		timer := time.NewTimer(time.Duration(try+1) * servedWait)
		select {
		case <-timer.C:
		case <-s.ctx.Done():
			timer.Stop()
			return nil, unavailable(s.ctx.Err())
		}
	}
	return nil, idempotencyInFlight()
}

// kept asks for the outcome that the Idempotency-Key already has; nil where there is none.
func (s *Server) kept(c *fiber.Ctx, w *writing) (*written, error) {
	found, err := s.bus.StartRead(w.domain, &event.Read{Item: w.item, IdempotencyId: w.idem}).Wait(s.ctx)
	if err != nil || found.Outcome == nil {
		return nil, err
	}
	return s.replay(c, w, found.Outcome)
}

func (s *Server) replay(c *fiber.Ctx, w *writing, o *event.Outcome) (*written, error) {
	if w.readHash != nil {
		var err error
		if w.hash, err = w.readHash(); err != nil {
			return nil, err
		}
		w.readHash = nil
	}
	c.Set(headerChargeSource, "none")
	if !w.free {
		s.setQuotaNow(c, w)
	}
	if o.BodyHash != w.hash {
		return nil, idempotencyMismatch()
	}
	c.Set(headerReplayed, "true")
	if err := outcomeError(o.Status); err != nil {
		return nil, err
	}
	if w.free {
		return &written{outcome: o, remaining: plan.Unlimited}, nil
	}
	return &written{outcome: o, remaining: o.Remaining}, nil
}

// quotaNowWait is how long an answer that is ready waits for its rate-limit headers.
const quotaNowWait = time.Second

// setQuotaNow writes the rate-limit headers of a call that is not admitted, since it was answered
// before. They are left out where billing can't be asked: the answer does not depend on them.
func (s *Server) setQuotaNow(c *fiber.Ctx, w *writing) {
	if w.who.anonymous {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, quotaNowWait)
	defer cancel()
	query := &event.Query{Query: &event.Query_Usage{Usage: &event.UsageQuery{}}}
	answer, err := s.bus.Query(ctx, w.who.account, query)
	if err != nil || answer.GetUsage() == nil {
		return
	}
	usage := answer.GetUsage()
	for _, u := range usage.Usage {
		if plan.QuotaKey(u.QuotaKey) == w.key {
			reset := max(0, usage.PeriodEndMs-s.now().UnixMilli()) / 1000
			setQuota(c, w.key, u.Limit, u.Remaining, reset)
		}
	}
}

func (s *Server) writeOnce(c *fiber.Ctx, w *writing) (*written, error) {
	id := requestID(c)
	r := &event.Request{RequestId: id[:], Item: w.item, Account: uint64(w.who.account), IdempotencyId: w.idem, BodyHash: w.hash}
	if w.free {
		return s.writeFree(c, w, r)
	}
	m := s.meter(c, &w.who, w.key)
	m.admission.Write, m.admission.IdempotencyID = true, w.idem
	if err := m.start().wait(); err != nil {
		return nil, err
	}
	if w.gone {
		return nil, m.void(notFound())
	}
	return s.writeAdmitted(w, m, r)
}

// writeAdmitted carries out what was admitted. Until the request is published a failure is the
// edge's to void, from then on the service's.
func (s *Server) writeAdmitted(w *writing, m *metered, r *event.Request) (*written, error) {
	r.Charge = &event.Charge{
		Account: uint64(m.admission.Account), QuotaKey: uint32(m.admission.Key), Anonymous: m.admission.Anonymous,
		Remaining: m.remaining(),
	}
	err := w.prepare(s.ctx, r)
	if err == nil && time.Since(m.started) > s.cfg.AdmissionAge {
		err = m.renew(r)
	}
	if err != nil {
		w.undo()
		return nil, m.void(err)
	}
	o, err := s.bus.Write(s.ctx, w.domain, r)
	switch {
	case err != nil && fault.KindOf(err) == fault.OutcomeUnknown:
		v := m.verdict
		m.setQuota(v.Limit, v.Remaining, v.ResetSeconds)
		return nil, err // it may still happen: nothing is undone
	case err != nil:
		w.undo()
		return nil, m.void(err)
	case o.Replayed:
		w.undo()
		return s.replay(m.c, w, o)
	}
	if err := outcomeError(o.Status); err != nil {
		w.undo()
		m.setVoided()
		return nil, err
	}
	m.setCharge()
	return &written{outcome: o, remaining: m.remaining()}, nil
}

// writeFree is for calls that consume no quota.
func (s *Server) writeFree(c *fiber.Ctx, w *writing, r *event.Request) (*written, error) {
	if w.gone {
		return nil, notFound()
	}
	if err := w.prepare(s.ctx, r); err != nil {
		w.undo()
		return nil, err
	}
	o, err := s.bus.Write(s.ctx, w.domain, r)
	switch {
	case err != nil && fault.KindOf(err) == fault.OutcomeUnknown:
		return nil, err
	case err != nil:
		w.undo()
		return nil, err
	case o.Replayed:
		w.undo()
		return s.replay(c, w, o)
	}
	c.Set(headerChargeSource, "none")
	if err := outcomeError(o.Status); err != nil {
		w.undo()
		return nil, err
	}
	return &written{outcome: o, remaining: plan.Unlimited}, nil
}

func (w *writing) undo() {
	if w.discard != nil {
		w.discard()
	}
}

// outcomeError is what a status of a fold's means to the client; nil for OK.
func outcomeError(status event.OutcomeStatus) error {
	switch status {
	case event.OutcomeStatus_OK:
		return nil
	case event.OutcomeStatus_NOT_FOUND:
		return notFound()
	case event.OutcomeStatus_NOT_OWNER:
		return fault.New(fault.NotOwner, "Only the owner may do this.")
	case event.OutcomeStatus_INVALID_MANAGE_TOKEN:
		return invalidManageToken()
	case event.OutcomeStatus_VERSION_MISMATCH:
		return fault.New(fault.VersionMismatch, "The current version is not one that If-Match names.")
	case event.OutcomeStatus_IDEMPOTENCY_MISMATCH:
		return idempotencyMismatch()
	case event.OutcomeStatus_DEADLINE_EXCEEDED, event.OutcomeStatus_ID_TAKEN:
		return unavailable(errors.New(status.String()))
	}
	return errUnknownOutcome
}

func invalidManageToken() error {
	return fault.New(fault.InvalidManageToken, "Invalid management token")
}
