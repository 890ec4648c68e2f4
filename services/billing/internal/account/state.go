package account

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
)

// CodeVersion is part of a snapshot's name. It grows whenever the fold makes other decisions, or keeps other state, for the
// same messages. A start uses snapshots of this and the previous version, an explanation of every earlier one, too:
// snapshots are kept permanently, and Restore reads them all.
const CodeVersion = 1

// globalState is the state without accounts and networks.
func (f *Fold) globalState() *event.BillingState {
	s := &event.BillingState{
		Sequence: f.sequence, TimeMs: f.time, Chain: slices.Clone(f.chain[:]), LastDigest: slices.Clone(f.digest[:]), Entries: f.entries,
		Rules: f.rules, OffsetMs: f.offset, Terms: f.prices.terms, Losses: f.losses.list,
	}
	if f.peak > f.time {
		s.PeakMs = f.peak
	}
	s.Books, s.Upcoming = f.prices.states()
	s.Sources, s.Commands = f.sources.states(), f.kept.states()
	return s
}

func (a *account) state() *event.AccountState {
	s := &event.AccountState{
		Account: a.id, Tier: uint32(a.tier), CreatedMs: a.created,
		KeyVersion: a.keyVersion, KeyFingerprint: a.fingerprint, KeyPrefix: a.keyPrefix, KeyCreatedMs: a.keyCreated,
		Holds: a.open.states(), Closed: a.closed.states(), FailuresMs: slices.Clone(a.failures),
		StorageBytes: a.storageBytes, StorageSinceMs: a.storageSince,
		SettledBalanceMicros: a.settled, LedgerCount: a.entries, Terms: a.terms, Paid: a.paidStates(),
		OwedMicros: num.Uint64(a.owed), Payments: a.purchases.states(), Subscriptions: slices.Clone(a.subscriptions), TopUp: copyTopUp(a.topUp),
		SuspendedMs: a.suspended, SuspensionReason: a.suspensionReason, DeletesMs: a.deletes, ErasedMs: a.erased, Alerts: a.alerts.state(),
		Keyring: a.keys.state(), Spending: a.spending.state(), Cap: a.cap().event(), KeyUsedMs: a.keyUsed,
		ReceiptNumber: a.receipt.number, Receipt: a.receipt.state(),
		NextTier: uint32(a.nextTier), Late: lateStates(a.late), QuarantinedMs: a.quarantined, QuarantineReason: a.quarantineReason,
	}
	s.Months = append(s.Months, a.current.state(a.month, a.tier))
	if a.month > monthOf(a.created).number {
		c := a.previous
		if c == nil {
			c = &counters{}
		}
		then := c.state(a.month-1, a.tierThen)
		then.Terms = a.termsThen
		s.Months = append(s.Months, then)
	}
	for _, g := range a.grants {
		s.Grants = append(s.Grants, &event.GrantState{
			Grant: g.id, AmountMicros: g.amount, LeftMicros: g.left, ExpiresMs: g.expires, CreatedMs: g.created, Reason: g.reason,
			Over: g.early,
		})
	}
	return s
}

func (c *counters) state(month uint32, tier plan.Tier) *event.MonthState {
	s := &event.MonthState{Month: month, Tier: uint32(tier), ByteMsHigh: c.byteMillis.high, ByteMsLow: c.byteMillis.low}
	c.days.state(s)
	c.bill.state(s)
	s.Refunds = c.charges.states()
	for key := range plan.KeyCount {
		overage, paid, spent, waived := c.charged(plan.QuotaKey(key))
		if paid != 0 {
			s.Paid = append(s.Paid, &event.KeyUsage{QuotaKey: uint32(key), Overage: paid})
		}
		if c.used[key]|overage|waived|spent == 0 {
			continue
		}
		s.SpentMicros += spent
		s.Usage = append(s.Usage, &event.KeyUsage{
			QuotaKey: uint32(key), Used: c.used[key], Overage: overage, Waived: waived, SpentMicros: spent, RefundedMicros: c.refunded(plan.QuotaKey(key)),
		})
	}
	return s
}

func (n *network) state() *event.NetworkState {
	return &event.NetworkState{
		Network: n.id, AdmittedMs: slices.Clone(n.admitted), FailuresMs: slices.Clone(n.failures),
		Holds: n.open.states(), Closed: n.closed.states(), Late: lateStates(n.late),
	}
}

func lateStates(late []lateWrite) (list []*event.LateState) {
	for _, l := range late {
		list = append(list, &event.LateState{RequestId: slices.Clone(l.request[:]), QuotaKey: uint32(l.key), TimeMs: l.time, Key: l.keyNumber, Line: l.lineage})
	}
	return list
}

// states returns the holds of a principal's list.
func (l *holdList) states() []*event.HoldState {
	if l.count == 0 {
		return nil
	}
	list := make([]*event.HoldState, 0, l.count)
	for h := l.head; h != nil; h = h.after() {
		s := &event.HoldState{
			RequestId: slices.Clone(h.request[:]), QuotaKey: uint32(h.key), TimeMs: h.time, Month: h.month, Charge: h.charge,
			CostMicros: h.cost, Write: h.write, Result: h.result, ClosedMs: h.closedAt,
			Sequence: h.sequence, Index: h.index, TimedOut: h.timedOut, Terms: h.terms, ReturnedMicros: h.returned,
			Grants: useStates(h.use), Key: h.keyNumber, Line: h.lineage, Day: h.day, ReadHash: h.readHash, Repeats: uint32(h.repeats),
		}
		if h.hasIdempotency {
			s.IdempotencyId = slices.Clone(h.idempotency[:])
		}
		list = append(list, s)
	}
	return list
}

func useStates(use []grantUse) (list []*event.GrantUse) {
	for _, u := range use {
		list = append(list, &event.GrantUse{Grant: u.grant.id, AmountMicros: u.amount})
	}
	return list
}

func (a *account) paidStates() (list []*event.PaidState) {
	for _, l := range a.paid {
		for _, p := range l.items {
			list = append(list, &event.PaidState{
				RequestId: slices.Clone(p.request[:]), QuotaKey: uint32(l.key), Month: l.month, Sequence: p.sequence, Index: p.index,
				CostMicros: p.cost, Grants: useStates(p.use), Key: p.keyNumber, Line: p.lineage, Day: p.day, TimeMs: p.time,
			})
		}
	}
	return list
}

// errSnapshot means that a snapshot was not made by Image.
var errSnapshot = errors.New("snapshot is damaged")

// Restore returns the fold that an Image was taken of. It keeps the answers, books and outcomes of s. To verify the snapshot,
// the caller compares StateHash with the image's.
func Restore(s *event.BillingState) (*Fold, error) {
	f := New()
	if len(s.Chain) != len(f.chain) || len(s.LastDigest) != len(f.digest) || s.Rules < Rules1 {
		return nil, fmt.Errorf("%w: chain of %d bytes, digest of %d, rules %d", errSnapshot, len(s.Chain), len(s.LastDigest), s.Rules)
	}
	f.sequence, f.time, f.entries = s.Sequence, s.TimeMs, s.Entries
	f.chain, f.digest = [32]byte(s.Chain), [32]byte(s.LastDigest)
	f.month = monthOf(f.time)
	f.peak, f.offset = max(s.PeakMs, f.time), s.OffsetMs
	f.rules, f.prices.terms, f.losses.list = s.Rules, s.Terms, s.Losses
	f.prices.restore(s.Books, s.Upcoming)
	f.sources.restore(s.Sources)
	if err := f.kept.restore(s.Commands); err != nil {
		return nil, err
	}
	r := restorer{principals: &f.principals}
	for _, a := range s.Accounts {
		if err := f.restoreAccount(a, &r); err != nil {
			return nil, err
		}
	}
	for _, n := range s.Networks {
		if err := r.network(n); err != nil {
			return nil, err
		}
	}
	f.relink(&r)
	return f, nil
}

// restorer restores networks and what accounts share with them, and gathers what is ordered across all principals.
type restorer struct {
	principals   *principals
	open, closed []*hold
	admitted     []networkTime
	failures     []principalTime
	late         []principalTime
}

func (f *Fold) restoreAccount(s *event.AccountState, r *restorer) error {
	a := &account{
		principal: newPrincipal(s.Account), tier: plan.Tier(s.Tier), created: s.CreatedMs, keyVersion: s.KeyVersion,
		fingerprint: s.KeyFingerprint, keyPrefix: s.KeyPrefix, keyCreated: s.KeyCreatedMs,
		storageBytes: s.StorageBytes, storageSince: s.StorageSinceMs, settled: s.SettledBalanceMicros, entries: s.LedgerCount,
		terms: s.Terms, suspended: s.SuspendedMs, suspensionReason: s.SuspensionReason,
		deletes: s.DeletesMs, erased: s.ErasedMs, quarantined: s.QuarantinedMs, quarantineReason: s.QuarantineReason,
		keys: restoreKeyring(s.Keyring), spending: restoreSpending(s.Spending), keyUsed: s.KeyUsedMs,
		nextTier: plan.Tier(s.NextTier), owed: num.Int64(s.OwedMicros), purchases: restorePurchases(s.Payments),
		subscriptions: s.Subscriptions,
	}
	a.principal.account = a
	if a.quarantined != 0 {
		f.quarantines++
	}
	if a.keys != nil {
		a.keys.cap = capOf(s.Cap)
	}
	if len(s.Months) == 0 || !a.tier.Valid() {
		return fmt.Errorf("%w: account %d", errSnapshot, s.Account)
	}
	var err error
	if a.receipt, err = restoreReceipt(s); err != nil {
		return err
	}
	if a.listed = a.receipt.number > 0; a.listed {
		f.listed = append(f.listed, a)
	}
	a.month, a.tierThen = s.Months[0].Month, a.tier
	if err := a.current.restore(s.Months[0]); err != nil {
		return err
	}
	if len(s.Months) > 1 {
		a.tierThen, a.termsThen = plan.Tier(s.Months[1].Tier), s.Months[1].Terms
		var c counters
		if err := c.restore(s.Months[1]); err != nil {
			return err
		}
		if !c.zero() {
			a.previous = &c
		}
	}
	for _, g := range s.Grants {
		grant := &grant{
			id: g.Grant, amount: g.AmountMicros, left: g.LeftMicros, expires: g.ExpiresMs, created: g.CreatedMs,
			reason: g.Reason, account: a, over: g.Over || g.ExpiresMs != 0 && g.ExpiresMs <= f.time, early: g.Over,
		}
		a.available += num.Int64(grant.left)
		f.credits.addGrant(grant)
	}
	if err := a.restorePaid(s.Paid); err != nil {
		return err
	}
	f.principals.accounts[a.id] = a
	f.alerts.restore(a, s.Alerts)
	f.topUps.restore(a, s.TopUp)
	if err := r.lateWrites(&a.principal, s.Late); err != nil {
		return err
	}
	return r.principal(&a.principal, s.Holds, s.Closed, s.FailuresMs)
}

func (c *counters) restore(s *event.MonthState) error {
	c.byteMillis = uint128{s.ByteMsHigh, s.ByteMsLow}
	c.days = restoreDays(s)
	c.bill = restoreBill(s)
	for _, u := range s.Usage {
		if key := plan.QuotaKey(u.QuotaKey); key.Valid() {
			c.used[key] = u.Used
			if u.Overage|u.Waived|u.SpentMicros|u.RefundedMicros != 0 {
				of := c.charging()
				of.overage[key], of.waived[key], of.spent[key], of.refunded[key] = u.Overage, u.Waived, u.SpentMicros, u.RefundedMicros
			}
		}
	}
	for _, u := range s.Paid {
		if key := plan.QuotaKey(u.QuotaKey); key.Valid() {
			c.charging().paid[key] = u.Overage
		}
	}
	return c.restoreRefunds(s)
}

func (a *account) restorePaid(paid []*event.PaidState) error {
	for _, s := range paid {
		key := plan.QuotaKey(s.QuotaKey)
		if len(s.RequestId) != 16 || !key.Valid() {
			return fmt.Errorf("%w: paid request %x", errSnapshot, s.RequestId)
		}
		use, err := a.restoreUse(s.Grants, s.RequestId)
		if err != nil {
			return err
		}
		last := len(a.paid) - 1
		if last < 0 || a.paid[last].key != key || a.paid[last].month != s.Month {
			a.paid = append(a.paid, paidList{key: key, month: s.Month})
			last++
		}
		a.paid[last].items = append(a.paid[last].items, paidRequest{
			request: event.RequestID(s.RequestId), sequence: s.Sequence, index: s.Index, cost: s.CostMicros, use: use,
			keyNumber: s.Key, lineage: s.Line, day: s.Day, time: s.TimeMs,
		})
	}
	return nil
}

// restoreUse finds the grants that paid a request.
func (a *account) restoreUse(uses []*event.GrantUse, request []byte) (use []grantUse, err error) {
	for _, u := range uses {
		i := slices.IndexFunc(a.grants, func(g *grant) bool { return g.id == u.Grant })
		if i < 0 {
			return nil, fmt.Errorf("%w: request %x took from grant %d, which is gone", errSnapshot, request, u.Grant)
		}
		a.grants[i].refs++
		use = append(use, grantUse{a.grants[i], u.AmountMicros})
	}
	return use, nil
}

func (r *restorer) network(s *event.NetworkState) error {
	n := r.principals.network(s.Network)
	n.admitted = slices.Clone(s.AdmittedMs)
	for _, t := range n.admitted {
		r.admitted = append(r.admitted, networkTime{t, n})
	}
	if err := r.lateWrites(&n.principal, s.Late); err != nil {
		return err
	}
	return r.principal(&n.principal, s.Holds, s.Closed, s.FailuresMs)
}

func (r *restorer) lateWrites(p *principal, late []*event.LateState) error {
	for _, s := range late {
		key := plan.QuotaKey(s.QuotaKey)
		if len(s.RequestId) != 16 || !key.Valid() {
			return fmt.Errorf("%w: voided write %x", errSnapshot, s.RequestId)
		}
		p.late = append(p.late, lateWrite{request: event.RequestID(s.RequestId), key: key, time: s.TimeMs, keyNumber: s.Key, lineage: s.Line})
		r.late = append(r.late, principalTime{s.TimeMs, p})
	}
	return nil
}

// principal restores what accounts and networks have in common.
func (r *restorer) principal(p *principal, open, closed []*event.HoldState, failures []int64) error {
	r.principals.touch(p)
	p.failures = slices.Clone(failures)
	for _, t := range p.failures {
		r.failures = append(r.failures, principalTime{t, p})
	}
	for _, s := range open {
		h, err := restoreHold(p, s)
		if err != nil {
			return err
		}
		r.open = append(r.open, h)
	}
	for _, s := range closed {
		h, err := restoreHold(p, s)
		if err != nil {
			return err
		}
		r.closed = append(r.closed, h)
	}
	return nil
}

func restoreHold(p *principal, s *event.HoldState) (*hold, error) {
	key := plan.QuotaKey(s.QuotaKey)
	if len(s.RequestId) != 16 || !key.Valid() {
		return nil, fmt.Errorf("%w: hold %x", errSnapshot, s.RequestId)
	}
	h := &hold{
		request: event.RequestID(s.RequestId), key: key, time: s.TimeMs, month: s.Month, charge: s.Charge,
		cost: s.CostMicros, write: s.Write, result: s.Result, closedAt: s.ClosedMs, sequence: s.Sequence, index: s.Index,
		timedOut: s.TimedOut, principal: p, terms: s.Terms, returned: s.ReturnedMicros,
		keyNumber: s.Key, lineage: s.Line, day: s.Day, readHash: s.ReadHash, repeats: uint8(min(s.Repeats, MaxRepeats)),
	}
	if a := p.account; a != nil && a.terms > 0 && h.voidable() && h.charge == event.ChargeSource_CHARGE_CREDITS {
		h.movable = h.terms == a.terms
	}
	if len(s.IdempotencyId) == 16 {
		h.idempotency, h.hasIdempotency = event.IdempotencyID(s.IdempotencyId), true
	}
	if len(s.Grants) == 0 {
		return h, nil
	}
	if p.account == nil {
		return nil, fmt.Errorf("%w: hold %x of a network took credits", errSnapshot, s.RequestId)
	}
	var err error
	h.use, err = p.account.restoreUse(s.Grants, s.RequestId)
	return h, err
}

// relink sorts the gathered objects into those orders. The order of equal times has no effect.
func (f *Fold) relink(r *restorer) {
	slices.SortStableFunc(r.closed, func(a, b *hold) int { return cmp.Compare(a.closedAt, b.closedAt) })
	for _, h := range r.closed {
		f.holds.closed.push(h)
		h.principal.closed.push(h)
		f.holds.byRequest[h.request] = h
		switch {
		case h.movable:
			h.principal.latePaid++
		case h.timedOut && h.result == event.Result_SERVED:
			h.principal.holding[h.key]++
		}
		if h.timedOut {
			f.holds.index(h)
		}
		if h.hasIdempotency {
			f.holds.byIdempotency[h.idempotency] = h
		}
	}
	slices.SortFunc(r.open, compareHolds)
	for _, h := range r.open {
		f.holds.addOpen(h)
	}
	slices.SortStableFunc(r.admitted, func(a, b networkTime) int { return cmp.Compare(a.time, b.time) })
	f.principals.admitted.items = r.admitted
	slices.SortStableFunc(r.failures, func(a, b principalTime) int { return cmp.Compare(a.time, b.time) })
	f.principals.failures.items = r.failures
	slices.SortStableFunc(r.late, func(a, b principalTime) int { return cmp.Compare(a.time, b.time) })
	f.principals.late.items = r.late
	f.topUps.schedule()
}

// compareHolds is the order of admission.
func compareHolds(a, b *hold) int {
	return cmp.Or(cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.index, b.index))
}
