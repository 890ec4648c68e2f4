package endpoint

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
)

// CapPeriodName is the period of a spending cap as the API writes it.
func CapPeriodName(p event.CapPeriod) string {
	return strings.ToLower(strings.TrimPrefix(p.String(), "CAP_"))
}

// Metered is a request counted by billing: submitted, admitted, then served or voided.
type Metered struct {
	s         *Base
	c         *Call
	Admission bus.Admission
	Pending   *bus.PendingVerdict
	Verdict   *bus.Verdict // nil before the decision, and for a free call
	Started   time.Time
	Open      bool // admitted, and neither served nor voided
	replayed  bool // a read served under its Idempotency-Key before: answered without a charge
}

// Meter prepares the admission of the call, without asking billing yet.
func (s *Base) Meter(c *Call) *Metered {
	c.metered = Metered{s: s, c: c, Admission: bus.Admission{
		RequestID: c.ID(), Account: c.Who.Payer(), Key: c.Row.Key, Anonymous: c.Who.Anonymous,
	}}
	m := &c.metered
	if !c.Who.Anonymous {
		key := &c.Who.Key
		m.Admission.KeyNumber, m.Admission.KeyVersion, m.Admission.KeyFingerprint = key.Number, key.Version, c.Who.keyFingerprint()
	}
	return m
}

// Repeatable lets the Idempotency-Key of a read repeat it without a charge while the document has this version; 0: there is
// no document. Call it before Start.
func (m *Metered) Repeatable(version uint64) {
	m.Admission.IdempotencyID = m.c.Idem
	m.Admission.ReadHash = event.ReadHash([]byte(m.c.Path()), CanonicalQuery(m.c.Ctx), version)
}

// Start asks for the admission. Wait must follow.
func (m *Metered) Start() *Metered {
	m.Started = time.Now()
	m.Pending = m.s.bus.StartAdmit(m.Admission, &m.c.Timing)
	return m
}

// Wait returns nil once the request is admitted, and the error of a refusal. It also returns nil for a repeated read.
func (m *Metered) Wait() error {
	v, err := m.Pending.Wait(m.s.ctx)
	if err != nil {
		return err
	}
	if v.Decision == event.Decision_IDEMPOTENCY_SERVED && m.Admission.ReadHash != 0 {
		m.Verdict, m.replayed = v, true
		return nil
	}
	if !v.Admitted() {
		return m.refused(v)
	}
	m.Verdict, m.Open = v, true
	return nil
}

// Renew voids the admission and asks for another under a new request id, for a request that took long to arrive.
func (m *Metered) Renew(r *event.Request) error {
	if err := m.s.bus.Void(m.s.ctx, m.Admission, false); err != nil {
		return Unavailable(err)
	}
	m.Open = false
	id := event.NewRequestID()
	m.Admission.RequestID = id
	httpin.SetRequestID(m.c.Ctx, id.String())
	r.RequestId = id[:]
	if err := m.Start().Wait(); err != nil {
		if errors.Is(err, ErrServedBefore) {
			return IdempotencyInFlight(1)
		}
		return err
	}
	m.Tell(r.Charge)
	return nil
}

// Tell writes into a charge what the document's service has to know of the verdict.
func (m *Metered) Tell(charge *event.Charge) {
	charge.Remaining, charge.Announce = m.Receipt().Remaining, m.Verdict.GetAnnounce()
}

// Served makes the admission final. Call it once the answer is ready.
func (m *Metered) Served() {
	if m.Open {
		m.Open = false
		m.s.bus.Served(m.Admission, m.Verdict)
	}
}

// Receipt is the receipt of an admitted or free call.
func (m *Metered) Receipt() Receipt {
	r := receiptOf(&m.Admission, m.Verdict)
	r.Replayed = m.replayed
	return r
}

// Voided is the receipt of a call that its service has voided.
func (m *Metered) Voided() Receipt { return m.Receipt().voided() }

// Void voids the admission and returns failure with its receipt once that is stored. If it can't be stored, the answer is 503:
// it must not claim that nothing was charged. Failures caused by the client count towards too_many_failures; ours don't.
func (m *Metered) Void(failure error) error {
	return m.VoidAs(failure, FailedInExecution(fault.KindOf(failure).Status()))
}

// VoidAs is Void; failed says whether the failure counts.
func (m *Metered) VoidAs(failure error, failed bool) error {
	if !m.Open && !m.replayed {
		return failure
	}
	r, err := m.Cancel(failed)
	if err != nil {
		return err
	}
	return r.Fail(failure)
}

// Cancel voids the admission of a call without a result; failed says whether it counts towards too_many_failures. It fails as
// Void does.
func (m *Metered) Cancel(failed bool) (Receipt, error) {
	if m.Open {
		m.Open = false
		if err := m.s.bus.Void(m.s.ctx, m.Admission, failed); err != nil {
			return Receipt{}, Unavailable(err)
		}
	}
	return m.Voided(), nil
}

// abort voids the admission of a read whose handler panicked. A write may have been published: its service settles it, or
// billing voids it.
func (m *Metered) abort() {
	if m.s == nil || m.Admission.Write || m.Pending == nil {
		return
	}
	if m.Verdict == nil {
		if v, err := m.Pending.Wait(m.s.ctx); err != nil || !v.Admitted() {
			return
		}
		m.Open = true
	}
	if m.Open {
		_, _ = m.Cancel(false) // the answer is 500 either way, and the bus keeps trying
	}
}

// FailedInExecution reports whether a status means a failure of step 5 (docs/api.md, Order of checks), rather than one of
// ours or an error of the request that only the end of its body revealed.
func FailedInExecution(status int) bool {
	switch status {
	case fiber.StatusBadRequest, fiber.StatusRequestTimeout, fiber.StatusRequestEntityTooLarge, fiber.StatusUnsupportedMediaType:
		return false
	}
	return status < fiber.StatusInternalServerError
}

// refused is the error of a refusal by billing, with its receipt.
func (m *Metered) refused(v *bus.Verdict) error {
	key, receipt := m.Admission.Key, receiptOf(&m.Admission, v)
	var e *fault.Error
	switch v.Decision {
	case event.Decision_INVALID_KEY:
		return m.s.badKey(m.c.Ctx)
	case event.Decision_ACCOUNT_SUSPENDED:
		return accountSuspended()
	case event.Decision_ACCOUNT_QUARANTINED:
		return accountQuarantined()
	case event.Decision_KEY_SCOPE:
		return keyScope(key)
	case event.Decision_IDEMPOTENCY_IN_FLIGHT:
		return receipt.Fail(IdempotencyInFlight(max(1, int(v.RetryAfterSeconds))))
	case event.Decision_IDEMPOTENCY_SERVED:
		return ErrServedBefore
	case event.Decision_IDEMPOTENCY_OTHER:
		return receipt.Fail(IdempotencyMismatch())
	case event.Decision_QUOTA_EXHAUSTED:
		if v.Held {
			e = fault.New(fault.QuotaHeld, "Calls in flight hold the last requests of this month for %s. Try again.", key)
			break
		}
		e = fault.New(fault.QuotaExhausted, "Monthly limit of %d requests reached for %s. Upgrade your plan to continue.", v.Limit, key)
	case event.Decision_KEY_QUOTA_EXHAUSTED:
		if v.Held {
			e = fault.New(fault.QuotaHeld, "Calls in flight hold the last requests of this month for %s. Try again.", key)
			break
		}
		e = fault.New(fault.KeyQuotaExhausted, "This API key's monthly limit of %d requests reached for %s.", v.KeyLimit, key)
		e.Limit = &v.KeyLimit
	case event.Decision_SPENDING_CAP_REACHED:
		e = capReached(v)
	case event.Decision_PLAN_UPGRADE_REQUIRED:
		e = fault.New(fault.PlanUpgradeRequired, "%s is not available on the %s plan. Upgrade your plan to continue.", key, plan.Tier(v.Tier).Title(v.Plan))
	case event.Decision_ANONYMOUS_LIMIT:
		e = fault.New(fault.AnonymousLimit, "Anonymous limit of %d quick pastes per 24 hours reached. Use an API key to continue.", v.Limit).
			InForm(fmt.Sprintf("You have created %d quick pastes in 24 hours, the most without an account. Sign up or sign in to create more.", v.Limit))
	case event.Decision_TOO_MANY_FAILURES:
		return receipt.Fail(TooManyFailures(max(int(v.RetryAfterSeconds), 1), m.s.Now()))
	default: // billing has no price book yet
		return Unavailable(errUnknownDecision)
	}
	e.RetryAfter = int(v.RetryAfterSeconds)
	e.QuotaKey = key.String()
	if e.Limit == nil && v.Decision != event.Decision_SPENDING_CAP_REACHED {
		e.Limit = &v.Limit
	}
	if v.RetryAfterSeconds > 0 && !v.Held {
		e.ResetMs = resetMs(v)
	}
	return receipt.Fail(e)
}

// capReached is the error for a call whose price would exceed a spending cap.
func capReached(v *bus.Verdict) *fault.Error {
	if v.Held {
		return fault.New(fault.QuotaHeld, "Calls in flight hold what is left under the spending cap. Try again.")
	}
	whose, period := "The account's", "in all"
	if v.KeyCap {
		whose = "The API key's"
	}
	if p := v.Cap.GetPeriod(); p != event.CapPeriod_CAP_TOTAL {
		period = "a " + CapPeriodName(p)
	}
	return fault.New(fault.SpendingCapReached, "%s spending cap of %s credits %s is reached.", whose, plan.Credits(v.Cap.GetAmountMicros()), period)
}

// resetMs is when a refusal ends, as a whole second. Billing rounded the wait up to whole seconds from now, so the end of a day
// or a month, a full second, is rounded down here, and any other time up.
func resetMs(v *bus.Verdict) int64 {
	at := v.TimeMs + 1000*int64(v.RetryAfterSeconds)
	switch v.Decision {
	case event.Decision_QUOTA_EXHAUSTED, event.Decision_KEY_QUOTA_EXHAUSTED, event.Decision_SPENDING_CAP_REACHED:
	default:
		at += 999
	}
	return at - at%1000
}
