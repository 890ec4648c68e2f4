package account

import (
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
)

// reader shows accounts as of now or the fold's time, whichever is later. It changes nothing.
type reader struct {
	*base
	principals *principals
	prices     *prices
}

// Exists reports whether the account exists.
func (s *principals) Exists(id event.AccountID) bool { return s.accounts[uint64(id)] != nil }

// Key checks the key of a query, as of now or the fold's time, whichever is later: QUERY_OK, or why it may not ask. A key with
// scopes needs the query's scope.
func (s *principals) Key(id event.AccountID, q *event.UsageQuery, now int64) event.QueryStatus {
	a := s.accounts[uint64(id)]
	if a == nil {
		return event.QueryStatus_QUERY_INVALID_KEY
	}
	k, valid := a.sentKey(q.Key, q.KeyVersion, q.KeyFingerprint, max(now, s.time))
	switch {
	case !valid:
		return event.QueryStatus_QUERY_INVALID_KEY
	case a.barred():
		return event.QueryStatus_QUERY_ACCOUNT_SUSPENDED
	case k == nil:
		return event.QueryStatus_QUERY_OK
	}
	if l := a.lineageOf(k.lineage); l.scopes != 0 && (!plan.QuotaKey(q.Scope).IsScope() || !l.allows(plan.QuotaKey(q.Scope))) {
		return event.QueryStatus_QUERY_KEY_SCOPE
	}
	return event.QueryStatus_QUERY_OK
}

// Describe adds the requested details to an account's usage: the key it was sent with, all keys, the spending cap, the grants.
func (r *reader) Describe(u *event.UsageAnswer, q *event.UsageQuery, now int64) {
	if r.principals.accounts[u.Account].keys == nil && !q.GetKeys() && q.GetGrants() == 0 {
		return
	}
	a, _ := r.forward(event.AccountID(u.Account), now)
	at := max(now, r.time)
	if k, _ := a.sentKey(q.GetKey(), q.GetKeyVersion(), q.GetKeyFingerprint(), at); q.GetCheckKey() && k != nil && k.number != 0 {
		u.KeyPrefix, u.KeyVersion, u.KeyCreatedMs = k.prefix, k.version, k.created
	}
	if q.GetKeys() {
		u.Keys = r.keyViews(a, at)
		u.Cap = a.cap().status(a.spending, a.current.spentSum(), at)
	}
	if q.GetGrants() > 0 {
		u.Grants, u.GrantCount = a.heldGrants(at, int(q.GetGrants()))
	}
}

// heldGrants returns the grants with credits left at a time, in the order of spending and limit at most, and their total
// number.
func (a *account) heldGrants(at int64, limit int) (list []*event.HeldGrant, count uint32) {
	for _, g := range a.grants {
		if g.left == 0 || g.over || g.expires != 0 && g.expires <= at {
			continue
		}
		if count++; len(list) < limit {
			list = append(list, &event.HeldGrant{AmountMicros: g.amount, LeftMicros: g.left, ExpiresMs: g.expires, CreatedMs: g.created, Reason: g.reason})
		}
	}
	return list, count
}

// Holder names what the read model alone has of an account: its user, and the addresses of its webhooks.
type Holder struct {
	Account   event.AccountID
	CreatedMs int64
	Webhooks  []uint64
}

// Holders returns the accounts that were not erased, in no order.
func (s *principals) Holders() []Holder {
	list := make([]Holder, 0, len(s.accounts))
	for id, a := range s.accounts {
		if a.erased != 0 {
			continue
		}
		h := Holder{Account: event.AccountID(id), CreatedMs: a.created}
		if a.alerts != nil {
			for _, w := range a.alerts.webhooks {
				h.Webhooks = append(h.Webhooks, w.id)
			}
		}
		list = append(list, h)
	}
	return list
}

// AccountsByTier counts the accounts that were not erased, by the number of their tier.
func (s *principals) AccountsByTier() []uint64 {
	counts := make([]uint64, plan.MaxTiers)
	for _, a := range s.accounts {
		if a.erased == 0 {
			counts[a.tier]++
		}
	}
	return counts
}

// Summary is an account's row in a list of accounts, nil if it does not exist.
func (r *reader) Summary(id uint64) *event.AccountSummary {
	a := r.principals.accounts[id]
	if a == nil {
		return nil
	}
	return &event.AccountSummary{Account: id, Tier: uint32(a.tier), Plan: r.prices.given(a.tier), CreatedMs: a.created, SuspendedMs: a.suspended, DeletesMs: a.deletes, ErasedMs: a.erased}
}

// forward returns a copy of the account as of a later time if nothing happens until then, and the statements of the months that
// end by then. The account itself is unchanged.
func (r *reader) forward(id event.AccountID, now int64) (a *account, closed []*event.StatementAnswer) {
	original := r.principals.accounts[uint64(id)]
	if original == nil {
		return nil, nil
	}
	at := max(now, r.time)
	c := *original
	r.prices.roll(&c, monthOf(at), func(s *event.StatementAnswer) { closed = append(closed, s) })
	c.integrate(at)
	c.available = 0
	for _, g := range c.grants {
		if g.expires == 0 || g.expires > at {
			c.available += num.Int64(g.left)
		}
	}
	return &c, closed
}

// UsageAt is the account's current month as of now or the fold's time, whichever is later; nil without such an account. The
// storage average is over the whole month, as in the bill, so it grows during the month.
func (r *reader) UsageAt(id event.AccountID, now int64) *event.UsageAnswer {
	a, _ := r.forward(id, now)
	if a == nil {
		return nil
	}
	m := monthNumber(a.month)
	s := r.prices.totals(a, m)
	return &event.UsageAnswer{
		Account: a.id, Tier: uint32(a.tier), Plan: s.Plan, NextTier: uint32(a.nextTier), NextPlan: r.prices.given(a.nextTier), PeriodStartMs: m.start, PeriodEndMs: m.end, Usage: s.Usage,
		BalanceMicros: a.available - a.owed, SpentMicros: s.SpentMicros,
		StorageUsedBytes: a.storageBytes, StorageFreeBytes: s.StorageFreeBytes,
		StorageAverageBytes: s.StorageAverageBytes, StorageOverageCents: s.StorageOverageCents,
		KeyPrefix: a.keyPrefix, KeyVersion: a.keyVersion, KeyCreatedMs: a.keyCreated, CreatedMs: a.created,
		SuspendedMs: a.suspended, SuspensionReason: a.suspensionReason, DeletesMs: a.deletes, ErasedMs: a.erased,
		QuarantinedMs: a.quarantined, QuarantineReason: a.quarantineReason, Receipt: a.receipt.String(),
	}
}

// AllowanceAt is what an anonymous network may still create as of now or the fold's time, whichever is later. It is nil before
// the first price book.
func (r *reader) AllowanceAt(network event.AccountID, now int64) *event.AllowanceAnswer {
	if r.prices.current == nil {
		return nil
	}
	at, limit, window := max(now, r.time), r.prices.current.AnonymousLimit, r.prices.current.AnonymousWindowMillis
	var admitted []int64
	if n := r.principals.networks[uint64(network)]; n != nil {
		admitted = n.admittedAt(at, window)
	}
	out := &event.AllowanceAnswer{Limit: num.Uint32(limit), Remaining: num.Uint32(max(0, limit-len(admitted))), WindowMs: window}
	if len(admitted) > 0 && limit > 0 {
		// After the limit was lowered more than one must leave the window.
		out.ResetSeconds = secondsUntil(admitted[max(0, len(admitted)-limit)]+window, at)
	}
	return out
}

// admittedAt is the log of admissions as of a later time if nothing happens until then: without admissions that have left the
// window, and without writes that have timed out.
func (n *network) admittedAt(at, window int64) []int64 {
	out := slices.Clone(n.admitted)
	for h := n.open.head; h != nil && h.time+HoldMillis <= at; h = h.after() {
		if i, found := slices.BinarySearch(out, h.time); found && h.write {
			out = slices.Delete(out, i, i+1)
		}
	}
	first, _ := slices.BinarySearch(out, at-window+1)
	return out[first:]
}

// StatementAt is a month's statement as of now. If the month has left the state, held is false and the statement is in the read
// model. Without such a month, the statement is nil.
func (r *reader) StatementAt(id event.AccountID, period string, now int64) (s *event.StatementAnswer, held bool) {
	m, ok := parsePeriod(period)
	a, closed := r.forward(id, now)
	if !ok || a == nil || m.number > a.month || m.number < monthOf(a.created).number {
		return nil, true
	}
	if m.number+1 >= a.month {
		s := r.prices.statement(a, m)
		// By the fold's own time: no later message is older, so none changes the month any more.
		s.Closed = m.number < a.month && r.isClosed(m)
		return s, true
	}
	for _, s := range closed {
		if s.Period == period {
			return s, true
		}
	}
	return nil, false
}

// ValidLedgerID reports whether s has the form of a ledger entry's id.
func ValidLedgerID(s string) bool {
	if len(s) != LedgerIDChars {
		return false
	}
	_, ok1 := event.ParseBase62(s[:ledgerDigits], ledgerDigits)
	_, ok2 := event.ParseBase62(s[ledgerDigits:], ordinalDigits)
	return ok1 && ok2
}

// LedgerPosition is the position in a ledger right before the entries of a message. It sorts like their LedgerOrder.
func LedgerPosition(sequence uint64) string { return string(ledgerID(sequence, 0)) }

// LedgerSequence is the message sequence of a ledger entry. The id must be valid.
func LedgerSequence(id string) uint64 {
	sequence, _ := event.ParseBase62(id[:ledgerDigits], ledgerDigits)
	return sequence
}

// LedgerID is the id of a ledger entry by its message and its ordinal among the entries of that message.
func LedgerID(sequence uint64, ordinal uint32) string { return string(ledgerID(sequence, ordinal)) }

// LedgerOrdinal is the ordinal of a ledger entry within its message. The id must be valid.
func LedgerOrdinal(id string) uint32 {
	ordinal, _ := event.ParseBase62(id[ledgerDigits:], ordinalDigits)
	return num.Uint32(ordinal)
}

// WithoutLedgerOrdinal is the id of a ledger entry, or a text that ends with one, without its ordinal.
func WithoutLedgerOrdinal(id string) string { return id[:max(0, len(id)-ordinalDigits)] }

// Hold is an admission under an idempotency id.
type Hold struct {
	Request     event.RequestID
	Sequence    uint64 // of its message in the journal
	SinceMillis int64
	ReadHash    uint64 // event.ReadHash of a read
}

// HoldUnder returns the open hold of an account or an anonymous network under an idempotency id, or false.
func (s *holds) HoldUnder(payer event.AccountID, id event.IdempotencyID) (Hold, bool) {
	return s.under(payer, id, event.Result_RESULT_UNSPECIFIED)
}

// ServedUnder returns the payer's request served under an idempotency id, while the fold remembers it: admit refuses its repeat
// with IDEMPOTENCY_SERVED. It returns false for a read with no repeats left.
func (s *holds) ServedUnder(payer event.AccountID, id event.IdempotencyID) (Hold, bool) {
	return s.under(payer, id, event.Result_SERVED)
}

// OpenSince is the time since when a request of an account has an open hold, in Unix milliseconds, or false. Account 0 stands
// for any payer.
func (s *holds) OpenSince(id event.AccountID, request event.RequestID) (millis int64, open bool) {
	h := s.byRequest[request]
	if h == nil || h.result != event.Result_RESULT_UNSPECIFIED || id != 0 && (h.principal.account == nil || h.principal.id != uint64(id)) {
		return 0, false
	}
	return h.time, true
}

// Unsettled reports whether the account has an open hold that was admitted up to a message, and after a time in Unix
// milliseconds.
func (s *principals) Unsettled(id event.AccountID, upTo uint64, after int64) bool {
	a := s.accounts[uint64(id)]
	if a == nil {
		return false
	}
	for h := a.open.tail; h != nil && h.time > after; h = h.links[linkPrincipal].prev {
		if h.sequence <= upTo {
			return true
		}
	}
	return false
}

// repeatable reports whether a served read may be served once more without a charge.
func (s *holds) repeatable(h *hold) bool {
	return h.repeats < MaxRepeats && s.time < h.time+RepeatMillis
}

func (s *holds) under(payer event.AccountID, id event.IdempotencyID, result event.Result) (Hold, bool) {
	h := s.byIdempotency[id]
	if h == nil || h.result != result || h.principal.id != uint64(payer) || h.readHash != 0 && h.result == event.Result_SERVED && !s.repeatable(h) {
		return Hold{}, false
	}
	return Hold{Request: h.request, Sequence: h.sequence, SinceMillis: h.time, ReadHash: h.readHash}, true
}
