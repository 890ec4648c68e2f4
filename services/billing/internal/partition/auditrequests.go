package partition

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/views"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/projection"
)

// replayedRequests are the latest requests of a replay, as the read model should have them.
type replayedRequests struct {
	maxHeld int   // are held at a time
	oldest  int64 // earlier requests are not held, in Unix milliseconds
	byID    map[event.RequestID]*replayedRequest
	order   []event.RequestID
}

type replayedRequest struct {
	account.RequestChange
	decided, changed uint64 // sequences
}

func newReplayedRequests(maxHeld int, oldest int64) *replayedRequests {
	return &replayedRequests{maxHeld: maxHeld, oldest: oldest, byID: map[event.RequestID]*replayedRequest{}}
}

func (l *replayedRequests) apply(sequence uint64, changes []account.RequestChange) {
	for i := range changes {
		c := &changes[i]
		r := l.byID[c.Request]
		switch {
		case c.Decided && c.TimeMillis >= l.oldest:
			if r == nil {
				l.order = append(l.order, c.Request)
			}
			r = &replayedRequest{RequestChange: *c, decided: sequence}
			l.byID[c.Request] = r
		case r == nil:
			continue
		}
		if c.Settled {
			r.Status = c.Status
		}
		if c.Paid {
			r.Charge, r.CostMicros = c.Charge, c.CostMicros
		}
		r.changed = sequence
	}
	for len(l.order) > l.maxHeld {
		l.oldest = max(l.oldest, l.byID[l.order[0]].TimeMillis+1)
		delete(l.byID, l.order[0])
		l.order = l.order[1:]
	}
}

// compareRequests compares the stored requests of each account with the replayed ones, from the first stored request on: an earlier
// version stored none. It does not compare the reports of edges, which no journal has.
func (a *auditing) compareRequests(ctx context.Context, fold *account.Fold, live position, replayed *replayedRequests) error {
	names, err := a.projection.RequestAccounts(ctx)
	if err != nil {
		return err
	}
	expected := map[event.AccountID][]*replayedRequest{}
	for _, r := range replayed.byID {
		expected[r.Account] = append(expected[r.Account], r)
	}
	for name := range names {
		if id, err := event.ParseAccountID(name); err == nil && expected[id] == nil {
			expected[id] = []*replayedRequest{}
		}
	}
	// What may be deleted meanwhile is not compared.
	oldest := max(replayed.oldest, a.now().Add(time.Minute-a.cfg.RequestRetention).UnixMilli())
	for _, id := range slices.Sorted(maps.Keys(expected)) {
		if !fold.Keeps(uint64(id)) || a.options.account != 0 && a.options.account != id || !a.exists(id) {
			continue
		}
		blocks, err := a.projection.Blocks(ctx, id, 0)
		if err == nil {
			err = a.ofJournal(ctx, tableRequests, id, blocks, live.stored)
		}
		if err != nil {
			return err
		}
		stored := storedRequests{auditing: a, id: id, oldest: oldest, complete: live.stored, at: live.at, found: map[event.RequestID]storedRequest{}}
		stored.read(blocks)
		stored.compare(expected[id], replayed)
	}
	return nil
}

// storedRequests are the requests of an account in the read model.
type storedRequests struct {
	*auditing
	id       event.AccountID
	oldest   int64  // earlier ones are not compared, in Unix milliseconds
	complete uint64 // all changes by messages up to this sequence must be stored
	at       uint64 // end of the replay
	found    map[event.RequestID]storedRequest
	entries  int    // of all blocks; a request may be in several
	first    uint64 // sequence of the first block
}

type storedRequest struct {
	*event.RecentRequest
	sequence uint64 // of its last block
}

func (s *storedRequests) read(blocks []views.Doc) {
	sequences := map[event.RequestID]uint64{}
	if len(blocks) > 0 {
		s.first = blocks[0].Seq
	}
	requests, sequence := projection.JoinBlocks(blocks, func(doc views.Doc, entries []*event.RecentRequest, err error) {
		if err != nil {
			s.part = append(s.part, found{table: tableRequests, list: []*event.AuditDifference{{
				Table: tableRequests, Account: uint64(s.id), Row: doc.ID, Expected: "as billing wrote it", Found: err.Error(),
			}}})
			return
		}
		s.entries += len(entries)
		indexed, newest := doc.Keys.Get("time"), int64(0)
		for _, r := range entries {
			newest = max(newest, r.TimeMs)
			if id, err := event.RequestIDFrom(r.RequestId); err == nil {
				sequences[id] = max(sequences[id], doc.Seq)
			}
		}
		if indexed != views.Int(newest) { // who looks for later requests would not read it
			s.part = append(s.part, found{table: tableRequests, list: []*event.AuditDifference{{
				Table: tableRequests, Account: uint64(s.id), Row: doc.ID, Field: "index time", Expected: fmt.Sprint(newest), Found: indexed.String(),
			}}})
		}
	})
	s.complete = max(s.complete, sequence)
	for id, r := range requests {
		if projection.Decided(r) {
			s.found[id] = storedRequest{r, sequences[id]}
		}
	}
}

func (s *storedRequests) compare(expected []*replayedRequest, replayed *replayedRequests) {
	first := int64(math.MaxInt64)
	for id, have := range s.found {
		first = min(first, have.TimeMs)
		want := replayed.byID[id]
		switch {
		case have.TimeMs < s.oldest && (want == nil || want.TimeMillis < s.oldest), have.sequence > s.at:
			continue
		case want == nil || want.Account != s.id:
			s.differs(id, requestField{"", "missing"}, requestField{"", "present"})
			continue
		}
		s.requests++
		if want.changed > s.complete {
			continue
		}
		right, stored := replayedValues(want), storedValues(have.RecentRequest)
		if right == stored {
			continue
		}
		wanted := right.fields()
		for i, field := range stored.fields() {
			if wanted[i] != field {
				s.differs(id, wanted[i], field)
			}
		}
	}
	for _, want := range expected {
		_, stored := s.found[want.Request]
		// Of a full list the first blocks were deleted, so the sequence of the first one left may be there in part.
		trimmed := s.entries >= projection.RequestsKept && want.decided <= s.first
		if !stored && want.TimeMillis >= max(first, s.oldest) && want.decided <= s.complete && !trimmed {
			s.differs(want.Request, requestField{"", "present"}, requestField{"", "missing"})
		}
	}
}

func (s *storedRequests) differs(request event.RequestID, expected, have requestField) {
	s.part = append(s.part, found{table: tableRequests, list: []*event.AuditDifference{{
		Table: tableRequests, Account: uint64(s.id), Row: request.String(), Field: have.name, Expected: expected.value, Found: have.value,
	}}})
}

type requestField struct{ name, value string }

// requestValues are what is compared of a request.
type requestValues struct {
	timeMs     int64
	quotaKey   plan.QuotaKey
	key        uint32
	decision   event.Decision
	status     string
	held       bool
	charge     event.ChargeSource
	costMicros uint64
	remaining  int64
}

func storedValues(r *event.RecentRequest) requestValues {
	return requestValues{r.TimeMs, plan.QuotaKey(r.QuotaKey), r.Key, r.Decision, r.Status, r.Held, r.Charge, r.CostMicros, r.Remaining}
}

func replayedValues(r *replayedRequest) requestValues {
	return requestValues{
		r.TimeMillis, plan.QuotaKey(r.QuotaKey), r.Key, event.Decision(r.Decision), r.Status, r.Held, event.ChargeSource(r.Charge), r.CostMicros, r.Remaining,
	}
}

func (v *requestValues) fields() []requestField {
	return []requestField{
		{"timeMs", fmt.Sprint(v.timeMs)},
		{"quotaKey", v.quotaKey.String()},
		{"key", fmt.Sprint(v.key)},
		{"decision", v.decision.String()},
		{"status", v.status},
		{"held", fmt.Sprint(v.held)},
		{"charge", v.charge.String()},
		{"costMicros", fmt.Sprint(v.costMicros)},
		{"remaining", fmt.Sprint(v.remaining)},
	}
}
