package web

import (
	"errors"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
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
	verdict   *bus.Verdict // nil before it is decided, and for a free call
	started   time.Time
	open      bool // admitted, and neither served nor given back
	replayed  bool // a read that was served under its Idempotency-Key before: it is answered, and not charged
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
		key := &c.who.key
		m.admission.KeyNumber, m.admission.KeyVersion, m.admission.KeyFingerprint = key.Number, key.Version, c.who.keyFingerprint()
	}
	return m
}

// repeatable makes a read under an Idempotency-Key one that may be repeated, as long as the document has the version that it has
// now. waitRead must follow.
func (m *metered) repeatable(d event.Domain, read *event.Read) error {
	version := uint64(0)
	if event.ValidItemID(read.Item) {
		doc, err := m.s.readDocument(m.s.bus.StartRead(d, read))
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return err
		}
		version = doc.GetVersion()
	}
	m.admission.IdempotencyID = m.c.idem
	m.admission.ReadHash = event.ReadHash([]byte(m.c.Path()), canonicalQuery(m.c.Ctx), version)
	return nil
}

// waitRead is wait for a read. A call that has ended without a charge does not stand in the way of its repetition.
func (m *metered) waitRead() error {
	err := m.wait()
	for try := 1; fault.KindOf(err) == fault.IdempotencyInFlight; try++ {
		if err = m.s.inFlight(m); !errors.Is(err, errHoldClosed) {
			return err
		}
		if try == servedTries {
			return idempotencyInFlight(1)
		}
		err = m.start().wait()
	}
	return err
}

// start asks for the admission; wait must follow.
func (m *metered) start() *metered {
	m.started = time.Now()
	m.pending = m.s.bus.StartAdmit(m.admission)
	return m
}

// wait returns nil once the request is admitted, and the refusal otherwise. It also returns nil for the repetition of a read.
func (m *metered) wait() error {
	v, err := m.pending.Wait(m.s.ctx)
	if err != nil {
		return err
	}
	if v.Decision == event.Decision_IDEMPOTENCY_SERVED && m.admission.ReadHash != 0 {
		m.verdict, m.replayed = v, true
		m.c.Set(headerReplayed, "true")
		return nil
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
			return idempotencyInFlight(1)
		}
		return err
	}
	r.Charge.Remaining = m.remaining()
	return nil
}

// served makes the admission final and writes the headers that say how it was paid. Called once the answer is made.
func (m *metered) served() {
	if m.open {
		m.open = false
		m.s.bus.Served(m.admission, m.verdict)
	}
	m.setCharge()
}

// setCharge writes the headers of a request that succeeded.
func (m *metered) setCharge() {
	m.setQuota(m.remaining())
	source := "none"
	switch v := m.verdict; {
	case v == nil:
	case v.Charge == event.ChargeSource_CHARGE_CREDITS:
		source = "credits"
		m.c.Set(headerCreditsCost, plan.Micros(v.CostMicros).String())
		m.c.Set(headerCreditsBalance, plan.Micros(v.BalanceMicros).String())
	case v.Charge == event.ChargeSource_CHARGE_QUOTA && v.Limit != plan.Unlimited:
		source = "quota"
	}
	m.c.Set(headerChargeSource, source)
}

// remaining is the number in the body of a success.
func (m *metered) remaining() int64 {
	if m.verdict == nil {
		return plan.Unlimited
	}
	return m.verdict.Remaining
}

// void gives the admission back and returns failure once that is stored. Where it can't be stored the answer is 503: it
// must not say that nothing was charged. The client's failures count towards too_many_failures; our own and a 304 don't.
func (m *metered) void(failure error) error {
	return m.giveBack(failure, failure != nil && failedInExecution(fault.KindOf(failure).Status()))
}

// giveBack is void; failed says whether the failure counts.
func (m *metered) giveBack(failure error, failed bool) error {
	if !m.open {
		if m.replayed {
			m.setVoided()
		}
		return failure
	}
	m.open = false
	if err := m.s.bus.Void(m.s.ctx, m.admission, failed); err != nil {
		return unavailable(err)
	}
	m.setVoided()
	return failure
}

// abort gives the admission of a read back whose handler panicked. A write may be on its way: its service settles it, and
// billing voids it otherwise.
func (m *metered) abort() {
	if m.s == nil || m.admission.Write || m.pending == nil {
		return
	}
	if m.verdict == nil {
		if v, err := m.pending.Wait(m.s.ctx); err != nil || !v.Admitted() {
			return
		}
		m.open = true
	}
	if m.open {
		_ = m.void(nil) // the answer is 500 either way, and the bus goes on trying
	}
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
	remaining := m.remaining()
	if v := m.verdict; v != nil && v.Charge == event.ChargeSource_CHARGE_QUOTA && v.Limit != plan.Unlimited {
		remaining++
	}
	m.setQuota(remaining)
	m.c.Set(headerChargeSource, "none")
}

// setQuota writes the headers of the IETF draft.
func (m *metered) setQuota(remaining int64) {
	if v := m.verdict; v != nil {
		setQuota(m.c.Ctx, m.admission.Key, v.Limit, remaining, int64(v.ResetSeconds))
	}
}

// setQuota leaves the headers out for an unlimited key.
func setQuota(c *fiber.Ctx, key plan.QuotaKey, limit, remaining, resetSeconds int64) {
	if limit == plan.Unlimited {
		return
	}
	var buf [96]byte
	b := quotaItem(buf[:0], key)
	b = strconv.AppendInt(append(b, ";q="...), limit, 10)
	c.Response().Header.SetCanonical([]byte(headerRateLimitPolicy), b)
	b = quotaItem(buf[:0], key)
	b = strconv.AppendInt(append(b, ";r="...), remaining, 10)
	b = strconv.AppendInt(append(b, ";t="...), resetSeconds, 10)
	c.Response().Header.SetCanonical([]byte(headerRateLimit), b)
}

func quotaItem(dst []byte, key plan.QuotaKey) []byte {
	return append(append(append(dst, '"'), key.String()...), '"')
}

// refused is the answer to a refusal by billing. It sets the headers.
func (m *metered) refused(v *bus.Verdict) error {
	key := m.admission.Key
	var e *fault.Error
	switch v.Decision {
	case event.Decision_INVALID_KEY:
		return m.s.badKey(m.c.Ctx)
	case event.Decision_ACCOUNT_SUSPENDED:
		return accountSuspended()
	case event.Decision_KEY_SCOPE:
		return keyScope(key)
	case event.Decision_IDEMPOTENCY_IN_FLIGHT:
		m.setRefused(v)
		return idempotencyInFlight(1)
	case event.Decision_IDEMPOTENCY_SERVED:
		return errServedBefore
	case event.Decision_IDEMPOTENCY_OTHER:
		m.setRefused(v)
		return idempotencyMismatch()
	case event.Decision_QUOTA_EXHAUSTED:
		if v.Held {
			e = fault.New(fault.QuotaHeld, "The last requests of this month for %s are still being decided. Try again.", key)
			break
		}
		e = fault.New(fault.QuotaExhausted, "Monthly limit of %d requests reached for %s. Upgrade your plan to continue.", v.Limit, key)
	case event.Decision_KEY_QUOTA_EXHAUSTED:
		if v.Held {
			e = fault.New(fault.QuotaHeld, "The last requests of this month for %s are still being decided. Try again.", key)
			break
		}
		e = fault.New(fault.KeyQuotaExhausted, "This API key's limit of %d requests a month reached for %s.", v.KeyLimit, key)
		e.Limit = &v.KeyLimit
	case event.Decision_SPENDING_CAP_REACHED:
		e = capReached(v)
	case event.Decision_PLAN_UPGRADE_REQUIRED:
		e = fault.New(fault.PlanUpgradeRequired, "%s is not available on the %s plan. Upgrade your plan to continue.", key, plan.Tier(v.Tier).Title())
	case event.Decision_ANONYMOUS_LIMIT:
		e = fault.New(fault.AnonymousLimit, "Anonymous limit of %d quick pastes per 24 hours reached. Use an API key to continue.", v.Limit)
	case event.Decision_TOO_MANY_FAILURES:
		m.setRefused(v)
		return tooManyFailures(max(int(v.RetryAfterSeconds), 1), m.s.now())
	default: // billing has no price book yet
		return unavailable(errUnknownDecision)
	}
	m.setRefused(v)
	e.RetryAfter = int(v.RetryAfterSeconds)
	e.QuotaKey = key.String()
	if e.Limit == nil && v.Decision != event.Decision_SPENDING_CAP_REACHED {
		e.Limit = &v.Limit
	}
	if v.RetryAfterSeconds > 0 && !v.Held {
		e.ResetMs = resetMs(v)
	}
	return e
}

// capReached is the answer to a call whose price would pass a spending cap.
func capReached(v *bus.Verdict) *fault.Error {
	if v.Held {
		return fault.New(fault.QuotaHeld, "Calls in flight hold what is left under the spending cap. Try again.")
	}
	whose, period := "The account's", "in all"
	if v.KeyCap {
		whose = "The API key's"
	}
	if p := v.Cap.GetPeriod(); p != event.CapPeriod_CAP_TOTAL {
		period = "a " + capPeriodName(p)
	}
	return fault.New(fault.SpendingCapReached, "%s spending cap of %s credits %s is reached.", whose, credits(v.Cap.GetAmountMicros()), period)
}

// resetMs is when waiting ends a refusal, as a whole second: billing rounded up to seconds from now, so that the fraction
// is that of now. A day and a month end with a second, to which billing rounded up.
func resetMs(v *bus.Verdict) int64 {
	at := v.TimeMs + 1000*int64(v.RetryAfterSeconds)
	switch v.Decision {
	case event.Decision_QUOTA_EXHAUSTED, event.Decision_KEY_QUOTA_EXHAUSTED, event.Decision_SPENDING_CAP_REACHED:
	default:
		at += 999
	}
	return at - at%1000
}

// setRefused writes the headers of a request that was not admitted.
func (m *metered) setRefused(v *bus.Verdict) {
	setQuota(m.c.Ctx, m.admission.Key, v.Limit, v.Remaining, int64(v.ResetSeconds))
	m.c.Set(headerChargeSource, "none")
}
