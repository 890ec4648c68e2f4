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

// replayedRequests are the latest requests of a replay, as the read model should have them. What changes them is queued, and joined at the
// end: a long replay drops most of it before, and a look-up for each change would take as long as the fold.
type replayedRequests struct {
	maxHeld int   // decisions
	oldest  int64 // earlier requests are not held, in Unix milliseconds
	queue   []changesRun
	decided int // in the queue
	byID    map[event.RequestID]*replayedRequest
}

// changesRun are consecutive changes.
type changesRun struct {
	changes []replayedRequest
	decided int
	latest  int64 // time of a decision, in Unix milliseconds
}

// runChanges is how many changes are dropped from the queue at a time.
const runChanges = 4096

type replayedRequest struct {
	account.RequestChange
	decided, changed uint64 // sequences
}

func newReplayedRequests(maxHeld int, oldest int64) *replayedRequests {
	return &replayedRequests{maxHeld: maxHeld, oldest: oldest}
}

// apply queues changes by a message. A settlement has the time of its hold, which a later decision about the same request may follow; a late
// charge has any time.
func (l *replayedRequests) apply(sequence uint64, changes []account.RequestChange) {
	for i := range changes {
		oldest := l.oldest
		if !changes[i].Decided {
			oldest -= account.HoldMillis
		}
		if changes[i].TimeMillis < oldest && !changes[i].Late {
			continue
		}
		run := l.run()
		run.changes = append(run.changes, replayedRequest{changes[i], sequence, sequence})
		if changes[i].Decided {
			run.decided, run.latest = run.decided+1, max(run.latest, changes[i].TimeMillis)
			l.decided++
		}
	}
}

// run returns the run that the next change belongs to. If it is a new one, the first run is dropped once the others have enough decisions.
func (l *replayedRequests) run() *changesRun {
	if n := len(l.queue); n > 0 && len(l.queue[n-1].changes) < runChanges {
		return &l.queue[n-1]
	}
	next := changesRun{}
	if len(l.queue) > 0 && l.decided-l.queue[0].decided >= l.maxHeld {
		first := l.queue[0]
		l.queue, l.decided = l.queue[1:], l.decided-first.decided
		l.oldest = max(l.oldest, first.latest+1)
		next.changes = first.changes[:0] // its memory is used again
	}
	l.queue = append(l.queue, next)
	return &l.queue[len(l.queue)-1]
}

// join applies the queued changes to the latest requests.
func (l *replayedRequests) join() {
	l.byID = make(map[event.RequestID]*replayedRequest, min(l.decided, l.maxHeld))
	surplus := l.decided - l.maxHeld
	for _, run := range l.queue {
		for i := range run.changes {
			c := &run.changes[i]
			switch r := l.byID[c.Request]; {
			case c.Decided && surplus > 0:
				surplus--
				l.oldest = max(l.oldest, c.TimeMillis+1)
			case c.Decided && c.TimeMillis < l.oldest: // another one of that millisecond
			case c.Decided:
				l.byID[c.Request] = c
			case r != nil:
				r.change(c)
			}
		}
	}
}

// change applies a later change.
func (r *replayedRequest) change(c *replayedRequest) {
	if c.Settled {
		r.Status = c.Status
	}
	if c.Paid {
		r.Charge, r.CostMicros = c.Charge, c.CostMicros
	}
	r.changed = c.changed
}

// compareRequests compares the stored requests of each account with the replayed ones, from the first stored request on: an earlier
// version stored none. It does not compare the reports of edges, which no journal has.
func (a *auditing) compareRequests(ctx context.Context, fold *account.Fold, live position, replayed *replayedRequests) error {
	names, err := a.projection.RequestAccounts(ctx)
	if err != nil {
		return err
	}
	replayed.join()
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
		stored := storedRequests{
			auditing: a, id: id, replayed: replayed.byID, oldest: oldest, complete: live.stored, at: live.at, first: math.MaxInt64,
			sequences: map[event.RequestID]uint64{},
		}
		stored.read(blocks)
		stored.compare(expected[id])
	}
	return nil
}

// storedRequests are the requests of an account in the read model.
type storedRequests struct {
	*auditing
	id         event.AccountID
	replayed   map[event.RequestID]*replayedRequest
	oldest     int64                                    // earlier ones are not compared, in Unix milliseconds
	complete   uint64                                   // all changes by messages up to this sequence must be stored
	at         uint64                                   // end of the replay
	requests   map[event.RequestID]*event.RecentRequest // that may have to be compared
	sequences  map[event.RequestID]uint64               // of their last blocks
	first      int64                                    // time of the first decision, in Unix milliseconds
	entries    int                                      // of all blocks; a request may be in several
	start      uint64                                   // sequence of the first block
	newest     int64                                    // time of the block being read, in Unix milliseconds
	unreadable bool                                     // a block is
}

func (s *storedRequests) read(blocks []views.Doc) {
	if len(blocks) > 0 {
		s.start = blocks[0].Seq
	}
	requests, sequence := projection.JoinBlocks(blocks, s.wants, func(doc views.Doc, err error) {
		row := &event.AuditDifference{Table: tableRequests, Account: uint64(s.id), Row: doc.ID}
		switch indexed := doc.Keys.Get("time"); {
		case err != nil:
			s.unreadable, row.Expected, row.Found = true, "as billing wrote it", err.Error()
		case indexed != views.Int(s.newest): // a list of later requests would leave it out
			row.Field, row.Expected, row.Found = "index time", fmt.Sprint(s.newest), indexed.String()
		default:
			row = nil
		}
		if s.newest = 0; row != nil {
			s.part = append(s.part, found{table: tableRequests, list: []*event.AuditDifference{row}})
		}
	})
	s.requests, s.complete = requests, max(s.complete, sequence)
}

// wants counts an entry of a block, and reports whether its request may have to be compared.
func (s *storedRequests) wants(doc views.Doc, entry *event.RecentRequest) bool {
	s.entries++
	s.newest = max(s.newest, entry.TimeMs)
	if projection.Decided(entry) {
		s.first = min(s.first, entry.TimeMs)
	}
	id, err := event.RequestIDFrom(entry.RequestId)
	sequence, known := s.sequences[id]
	if err != nil || entry.TimeMs < s.oldest && s.replayed[id] == nil && !known {
		return false
	}
	s.sequences[id] = max(sequence, doc.Seq)
	return true
}

func (s *storedRequests) compare(expected []*replayedRequest) {
	for id, have := range s.requests {
		want := s.replayed[id]
		switch {
		case !projection.Decided(have), s.sequences[id] > s.at,
			have.TimeMs < s.oldest && (want == nil || want.TimeMillis < s.oldest):
			continue
		case want == nil || want.Account != s.id:
			s.differs(id, requestField{"", "missing"}, requestField{"", "present"})
			continue
		}
		s.auditing.requests++
		if want.changed > s.complete {
			continue
		}
		right, stored := replayedValues(want), storedValues(have)
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
	if s.unreadable {
		return // it may have those that are missing
	}
	for _, want := range expected {
		have := s.requests[want.Request]
		stored := have != nil && projection.Decided(have)
		// Of a full list the first blocks were deleted, so the sequence of the first one left may be there in part.
		trimmed := s.entries >= projection.RequestsKept && want.decided <= s.start
		if !stored && want.TimeMillis >= max(s.first, s.oldest) && want.decided <= s.complete && !trimmed {
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
