package account

import (
	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
)

// admit decides one request and writes the decision into the empty v. The order of the rules is visible: a client gets the
// first refusal (docs/api.md, Metering).
func (f *Fold) admit(item *event.Admission, index uint32, v *event.Verdict) {
	key := plan.QuotaKey(item.QuotaKey)
	// Without prices, or for a malformed admission, no decision is possible. It stays unspecified, which the edge understands.
	if f.prices.current == nil || len(item.RequestId) != 16 || !f.counts(key) || item.Anonymous && key != plan.LiteCreate {
		return
	}
	h := f.holds.newHold()
	h.request = event.RequestID(item.RequestId)
	if id := idempotencyOf(item); len(id) == 16 {
		h.idempotency, h.hasIdempotency = event.IdempotencyID(id), true
		if len(item.IdempotencyId) == 0 {
			h.readHash = item.ReadHash
		}
	}
	h.key, h.write, h.time, h.sequence, h.index = key, item.Write, f.time, f.sequence, index
	h.month = f.month.number
	trace := f.traced(h, item)
	if item.Anonymous {
		f.admitNetwork(item, h, v)
	} else {
		h.keyNumber = item.Key
		f.admitAccount(item, h, v)
	}
	number := h.keyNumber
	if trace {
		f.records.trace.answer.Key = number
	}
	if v.Decision != event.Decision_ADMITTED {
		h.principal = nil
		f.holds.freeHold(h)
		h = nil
	} else {
		f.holds.addOpen(h)
	}
	if f.records.recording && !item.Anonymous && !f.holds.repeated(item, v) {
		f.records.decided(h, item, number, v)
	}
	if trace {
		f.traceVerdict(h, item, v)
	}
}

func (f *Fold) admitAccount(item *event.Admission, h *hold, v *event.Verdict) {
	a := f.principals.accounts[item.Account]
	if a == nil {
		v.Decision, v.Final = event.Decision_INVALID_KEY, true
		return
	}
	if a.nextTier != 0 && a.month < f.month.number {
		a = f.account(item.Account) // its tier has changed
	}
	v.Tier, v.Plan = uint32(a.tier), f.prices.given(a.tier)
	key, valid := a.sentKey(h.keyNumber, item.KeyVersion, item.KeyFingerprint, f.time)
	if !valid {
		v.Decision, v.Final, v.CurrentKeyVersion = event.Decision_INVALID_KEY, true, a.oldestVersion(f.time)
		return
	}
	if key != nil {
		h.keyNumber, h.lineage = key.number, key.lineage
	}
	lineage := a.lineageOf(h.lineage)
	if a.accountRefused(lineage, h.key, v) {
		return
	}
	term := f.prices.current.Plans[a.tier].Terms[h.key]
	v.Limit, v.Remaining = term.Limit, remaining(term.Limit, f.principals.usedBy(item))
	v.ResetSeconds = secondsUntil(a.monthOf(&f.base).end, f.time)
	if f.refused(&a.principal, h, v) {
		return
	}
	a = f.account(item.Account)
	h.principal, h.terms, h.month = &a.principal, a.terms, a.month
	used := a.current.used[h.key]
	if (term.Limit != 0 || term.Overage) && a.keyRefused(lineage, h, v) {
		return
	}
	switch {
	case term.Limit == plan.Unlimited:
		h.charge = event.ChargeSource_CHARGE_NONE
	case num.Int64(used) < term.Limit:
		h.charge = event.ChargeSource_CHARGE_QUOTA
	case !term.Overage && term.Limit == 0:
		v.Decision, v.Final = event.Decision_PLAN_UPGRADE_REQUIRED, true
		return
	case term.Overage && a.capRefused(&f.base, lineage, h, term, v):
		return
	case !term.Overage || a.available < int64(term.Price):
		v.Decision, v.RetryAfterSeconds = event.Decision_QUOTA_EXHAUSTED, v.ResetSeconds
		setHeld(v, a.held(h.key, term))
		return
	default:
		f.credits.overage(a, h, num.Uint64(term.Price))
		v.CostMicros, v.BalanceMicros = h.cost, num.Uint64(a.available)
	}
	a.current.used[h.key]++
	a.countKey(&f.base, key, lineage, h)
	f.alerts.usedMore(a, h.key, term.Limit)
	h.day = a.dayOf(&f.base)
	f.countDay(a, h.day, h.key, h.counted(1))
	v.Decision, v.Charge = event.Decision_ADMITTED, h.charge
	v.Remaining = remaining(term.Limit, a.current.used[h.key])
	v.Announce = h.write && a.alerts.wantsContent()
	f.linkHold(a, event.EntryAdmitted, h, f.time)
	f.setReceipt(a, v)
}

// accountRefused applies the rules about the account itself and the scopes of the key, and reports whether one refused the request.
func (a *account) accountRefused(l *keyLineage, key plan.QuotaKey, v *event.Verdict) bool {
	switch {
	case a.barred():
		v.Decision = event.Decision_ACCOUNT_SUSPENDED
	case a.quarantined != 0:
		v.Decision = event.Decision_ACCOUNT_QUARANTINED
	case !l.allows(key):
		v.Decision = event.Decision_KEY_SCOPE
	default:
		return false
	}
	v.Final = true
	return true
}

// setHeld records whether open holds may undo a refusal. While they may, a retry is worthwhile.
func setHeld(v *event.Verdict, held bool) {
	v.Held, v.Final = held, !held
	if held {
		v.RetryAfterSeconds = 1
	}
}

// overage charges a request over quota.
func (c *credits) overage(a *account, h *hold, price uint64) {
	before := a.available
	c.pay(a, h, price)
	c.alerts.lowered(a, before, c.time)
	h.movable = true
	c.spend(a, h, price)
	of := a.current.charging()
	of.paid[h.key]++
	of.overage[h.key]++
	of.spent[h.key] += price
}

func (f *Fold) admitNetwork(item *event.Admission, h *hold, v *event.Verdict) {
	limit, window := f.prices.current.AnonymousLimit, f.prices.current.AnonymousWindowMillis
	v.Limit = int64(limit)
	n := f.principals.networks[item.Account]
	if n == nil {
		n = &network{} // enters the state only when something is admitted
	}
	admitted := len(n.admitted)
	v.Remaining = int64(max(0, limit-admitted))
	if f.refused(&n.principal, h, v) {
		return
	}
	if admitted >= limit {
		v.Decision = event.Decision_ANONYMOUS_LIMIT
		if admitted > 0 && limit > 0 {
			// After the limit was lowered more than one must leave the window.
			v.RetryAfterSeconds = secondsUntil(n.admitted[admitted-limit]+window, f.time)
			v.ResetSeconds = v.RetryAfterSeconds
		}
		setHeld(v, limit > 0 && admitted-n.open.count < limit)
		return
	}
	n = f.principals.network(item.Account)
	h.principal, h.charge = &n.principal, event.ChargeSource_CHARGE_QUOTA
	f.principals.logAdmitted(n)
	v.Decision, v.Charge = event.Decision_ADMITTED, h.charge
	v.Remaining = int64(limit - len(n.admitted))
	v.ResetSeconds = secondsUntil(n.admitted[0]+window, f.time)
}

func (s *principals) logAdmitted(n *network) {
	s.touch(&n.principal)
	n.admitted = append(n.admitted, s.time)
	s.admitted.push(networkTime{s.time, n})
}

// repeated reports whether an admission was refused because its request is known.
func (s *holds) repeated(item *event.Admission, v *event.Verdict) bool {
	return v.Decision == event.Decision_IDEMPOTENCY_IN_FLIGHT && s.byRequest[event.RequestID(item.RequestId)] != nil
}

// refused applies the rules that precede all limits.
func (f *Fold) refused(p *principal, h *hold, v *event.Verdict) bool {
	if n := len(p.failures); n > MaxFailures {
		v.Decision, v.Final = event.Decision_TOO_MANY_FAILURES, true
		v.RetryAfterSeconds = secondsUntil(p.failures[n-1-MaxFailures]+FailureMillis, f.time)
		return true
	}
	if _, known := f.holds.byRequest[h.request]; known {
		// Every request has its own id. A known id is not admitted a second time.
		v.Decision = event.Decision_IDEMPOTENCY_IN_FLIGHT
		return true
	}
	if !h.hasIdempotency {
		return false
	}
	other := f.holds.byIdempotency[h.idempotency]
	if other == nil {
		return false
	}
	switch {
	case !event.SameRead(other.readHash, h.readHash):
		v.Decision = event.Decision_IDEMPOTENCY_OTHER
	case other.result != event.Result_SERVED:
		v.Decision = event.Decision_IDEMPOTENCY_IN_FLIGHT
	case other.readHash == 0:
		v.Decision = event.Decision_IDEMPOTENCY_SERVED
	case other.readHash == h.readHash && f.holds.repeatable(other): // of the same version
		f.touch(other.principal)
		other.repeats++
		v.Decision = event.Decision_IDEMPOTENCY_SERVED
	default:
		return false // a new read, or nobody would pay for more than one
	}
	return true
}

// idempotencyOf returns the idempotency id of a request, or nil.
func idempotencyOf(item *event.Admission) []byte {
	if len(item.IdempotencyId) == 0 && !item.Write && !item.Anonymous && item.ReadHash != 0 {
		return item.ReadId
	}
	return item.IdempotencyId
}

// secondsUntil rounds up, so that a client waits long enough.
func secondsUntil(then, now int64) uint32 {
	if then <= now {
		return 0
	}
	return num.Uint32((then - now + 999) / 1000)
}
