package web

import (
	"quire.dev/services/edge/internal/httpin"

	"errors"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/credit"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/fault"
)

const (
	headerRateLimit       = "RateLimit"
	headerRateLimitPolicy = "RateLimit-Policy"
	headerChargeSource    = "X-Charge-Source"
	headerCreditsCost     = "X-Credits-Cost"
	headerCreditsBalance  = "X-Credits-Balance"
	headerQuotaRemaining  = "X-Quota-Remaining"
)

// metered is a request that is counted. It is asked for, admitted, and then served or given back.
type metered struct {
	s         *Server
	c         *call
	admission bus.Admission
	pending   *bus.PendingVerdict
	verdict   *bus.Verdict // of an admitted one
	started   time.Time
	open      bool // admitted, and neither served nor given back
}

// defaultAdmissionAge is well within the 2 minutes of journal time after which billing voids the hold of a write by
// itself.
const defaultAdmissionAge = 60 * time.Second

// meter describes the call to billing, without asking yet.
func (s *Server) meter(c *call) *metered {
	c.metered = metered{s: s, c: c, admission: bus.Admission{
		RequestID: c.id(), Account: c.who.payer(), Key: c.route.key, Anonymous: c.who.anonymous,
	}}
	m := &c.metered
	if !c.who.anonymous {
		m.admission.KeyVersion, m.admission.KeyFingerprint = c.who.key.Version, c.who.key.Fingerprint()
	}
	return m
}

// start asks for the admission; wait must follow.
func (m *metered) start() *metered {
	m.started = time.Now()
	m.pending = m.s.bus.StartAdmit(m.admission)
	return m
}

// wait returns nil once the request is admitted, and the refusal otherwise.
func (m *metered) wait() error {
	v, err := m.pending.Wait(m.s.ctx)
	if err != nil {
		return err
	}
	if !v.Admitted() {
		return m.refused(v)
	}
	m.verdict, m.open = v, true
	return nil
}

// renew gives the admission back and asks for another, for a request that took long to arrive. The request gets a new id.
func (m *metered) renew(r *event.Request) error {
	if err := m.s.bus.Void(m.s.ctx, m.admission, false); err != nil {
		return unavailable(err)
	}
	m.open = false
	id := event.NewRequestID()
	m.admission.RequestID = id
	httpin.SetRequestID(m.c.Ctx, id.String())
	r.RequestId = id[:]
	if err := m.start().wait(); err != nil {
		if errors.Is(err, errServedBefore) {
			return idempotencyInFlight()
		}
		return err
	}
	r.Charge.Remaining = m.remaining()
	return nil
}

// served makes the admission final and tells the client what paid for it. Called before the answer.
func (m *metered) served() {
	m.s.bus.Served(m.admission)
	m.setCharge()
}

// setCharge writes the headers of a request that was counted.
func (m *metered) setCharge() {
	v := m.verdict
	m.setQuota(v.Limit, v.Remaining, v.ResetSeconds)
	source := "none"
	switch {
	case v.Charge == event.ChargeSource_CHARGE_CREDITS:
		source = "credits"
		m.c.Set(headerCreditsCost, credit.Micros(v.CostMicros).String())
		m.c.Set(headerCreditsBalance, credit.Micros(v.BalanceMicros).String())
	case v.Charge == event.ChargeSource_CHARGE_QUOTA && v.Limit != plan.Unlimited:
		source = "quota"
	}
	m.c.Set(headerChargeSource, source)
}

// remaining is what the body of a success says.
func (m *metered) remaining() int64 { return m.verdict.Remaining }

// void gives the admission back and returns failure once that is stored. Where it can't be stored the answer is 503: it
// must not say that nothing was charged. The client's failures count towards too_many_failures; our own and a 304 don't.
func (m *metered) void(failure error) error {
	if !m.open {
		return failure
	}
	m.open = false
	failed := failure != nil && failedInExecution(fault.KindOf(failure).Status())
	if err := m.s.bus.Void(m.s.ctx, m.admission, failed); err != nil {
		return unavailable(err)
	}
	m.setVoided()
	return failure
}

// failedInExecution tells failures of step 5 (docs/api.md, Order of checks) from our own, and from faults of the request
// that only the end of its body showed.
func failedInExecution(status int) bool {
	switch status {
	case fiber.StatusBadRequest, fiber.StatusRequestTimeout, fiber.StatusRequestEntityTooLarge, fiber.StatusUnsupportedMediaType:
		return false
	}
	return status < fiber.StatusInternalServerError
}

// setVoided writes the headers of a request that was given back.
func (m *metered) setVoided() {
	v := m.verdict
	remaining := v.Remaining
	if v.Charge == event.ChargeSource_CHARGE_QUOTA && v.Limit != plan.Unlimited {
		remaining++
	}
	m.setQuota(v.Limit, remaining, v.ResetSeconds)
	m.c.Set(headerChargeSource, "none")
}

// setQuota writes the IETF draft's headers; an unlimited key has none.
func (m *metered) setQuota(limit, remaining int64, resetSeconds uint32) {
	setQuota(m.c.Ctx, m.admission.Key, limit, remaining, int64(resetSeconds))
}

func setQuota(c *fiber.Ctx, key plan.QuotaKey, limit, remaining, resetSeconds int64) {
	if limit == plan.Unlimited {
		return
	}
	var buf [96]byte
	b := quotaItem(buf[:0], key)
	b = appendInt(append(b, ";q="...), limit)
	c.Response().Header.SetCanonical([]byte(headerRateLimitPolicy), b)
	b = quotaItem(buf[:0], key)
	b = appendInt(append(b, ";r="...), remaining)
	b = appendInt(append(b, ";t="...), resetSeconds)
	c.Response().Header.SetCanonical([]byte(headerRateLimit), b)
}

func quotaItem(dst []byte, key plan.QuotaKey) []byte {
	return append(append(append(dst, '"'), key.String()...), '"')
}

// refused is the answer to a refusal by billing. It sets the headers.
func (m *metered) refused(v *bus.Verdict) error {
	key := m.admission.Key
	e := &fault.Error{RetryAfter: int(v.RetryAfterSeconds)}
	switch v.Decision {
	case event.Decision_INVALID_KEY:
		return m.s.badKey(m.c.Ctx)
	case event.Decision_IDEMPOTENCY_IN_FLIGHT:
		m.setQuota(v.Limit, v.Remaining, v.ResetSeconds)
		m.c.Set(headerChargeSource, "none")
		return idempotencyInFlight()
	case event.Decision_IDEMPOTENCY_SERVED:
		return errServedBefore
	case event.Decision_QUOTA_EXHAUSTED:
		e.Kind = fault.QuotaExhausted
		e.Message = "Monthly limit of " + strconv.FormatInt(v.Limit, 10) + " requests reached for " + key.String() +
			". Upgrade your plan to continue."
	case event.Decision_PLAN_UPGRADE_REQUIRED:
		e.Kind = fault.PlanUpgradeRequired
		e.Message = key.String() + " is not available on the " + plan.Tier(v.Tier).Title() +
			" plan. Upgrade your plan to continue."
	case event.Decision_ANONYMOUS_LIMIT:
		e.Kind = fault.AnonymousLimit
		e.Message = "Anonymous limit of " + strconv.FormatInt(v.Limit, 10) +
			" quick pastes per 24 hours reached. Use an API key to continue."
	case event.Decision_TOO_MANY_FAILURES:
		e.Kind = fault.TooManyFailures
		e.Message = "Too many failed calls in the last minute. Try again later."
		e.RetryAfter = max(e.RetryAfter, 1)
	default: // billing has no price book yet
		return unavailable(errUnknownDecision)
	}
	m.setQuota(v.Limit, v.Remaining, v.ResetSeconds)
	m.c.Set(headerChargeSource, "none")
	return e
}
