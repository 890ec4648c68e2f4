package projection

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
	"quire.dev/services/billing/internal/account"
)

const noon = int64(today)*dayMillis + dayMillis/2

// requestID returns the nth id created at a time.
func requestID(millis int64, n int) (id event.RequestID) {
	binary.BigEndian.PutUint16(id[:2], uint16(millis>>32))
	binary.BigEndian.PutUint32(id[2:6], uint32(millis))
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

// decided is a decision about a request that is open.
func decided(id event.AccountID, request event.RequestID, millis int64) account.RequestChange {
	return account.RequestChange{
		Account: id, Request: request, TimeMillis: millis, Decided: true, Settled: true, Paid: true, Status: account.SettlementOpen,
		QuotaKey: 2, Decision: uint8(event.Decision_ADMITTED), Charge: uint8(event.ChargeSource_CHARGE_CREDITS), CostMicros: 7, Remaining: 3,
	}
}

type shownRequest struct {
	time   int64
	status string
	cost   uint64
	http   uint32 // status reported by an edge
}

// requestsOf returns an account's requests, and checks their order.
func requestsOf(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
}, p *Projection, id event.AccountID,
) map[event.RequestID]shownRequest {
	list, err := p.AccountRequests(context.Background(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	out, last := map[event.RequestID]shownRequest{}, int64(1)<<60
	for _, r := range list {
		request, err := event.RequestIDFrom(r.RequestId)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := out[request]; twice || r.TimeMs > last {
			t.Fatalf("%v is listed twice, or after an older one", r)
		}
		out[request], last = shownRequest{r.TimeMs, r.Status, r.CostMicros, r.HttpStatus}, r.TimeMs
	}
	return out
}

// seenAfter are the requests of accounts after messages.
func seenAfter(messages []account.Effects) map[event.AccountID]map[event.RequestID]shownRequest {
	seen := map[event.AccountID]map[event.RequestID]shownRequest{1: {}, 2: {}}
	for _, e := range messages {
		for _, c := range e.Requests {
			shown := seen[c.Account][c.Request]
			if c.Decided {
				shown.time = c.TimeMillis
			}
			if c.Settled {
				shown.status = c.Status
			}
			if c.Paid {
				shown.cost = c.CostMicros
			}
			seen[c.Account][c.Request] = shown
		}
	}
	return seen
}

// TestEachRequestIsShownOnceInItsLastState: replicas of one stream are behind and ahead of each other, lose responses to commits, end
// at any moment, and restart from any message up to the checkpoint.
func TestEachRequestHasOneRowInItsLastState(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		store := open(t)
		stream := rapid.StringMatching(`BILLING_[0-9]{6}`).Draw(rt, "stream")
		var journal []account.Effects
		var known []account.RequestChange
		at := noon
		for range rapid.IntRange(1, 30).Draw(rt, "messages") {
			var e account.Effects
			at += int64(rapid.IntRange(0, 2).Draw(rt, "passed"))
			for range rapid.IntRange(0, 4).Draw(rt, "changes") {
				if len(known) == 0 || rapid.Bool().Draw(rt, "new") {
					c := decided(event.AccountID(rapid.IntRange(1, 2).Draw(rt, "account")), requestID(at, len(known)), at)
					known, e.Requests = append(known, c), append(e.Requests, c)
					continue
				}
				c := rapid.SampledFrom(known).Draw(rt, "request")
				c.Decided, c.Settled, c.Paid = false, rapid.Bool().Draw(rt, "settled"), rapid.Bool().Draw(rt, "paid")
				if c.Late = rapid.Bool().Draw(rt, "late"); c.Late {
					c.TimeMillis = at
				}
				if c.Settled {
					c.Status = rapid.SampledFrom([]string{account.SettlementServed, account.SettlementVoid}).Draw(rt, "status")
				}
				if c.Paid {
					c.CostMicros = uint64(rapid.IntRange(0, 3).Draw(rt, "cost"))
				}
				e.Requests = append(e.Requests, c)
			}
			journal = append(journal, e)
		}
		want := seenAfter(journal)
		ctx := context.Background()
		begin := func() replica { return beginReplica(rt, store, stream) }
		replicas := []replica{begin(), begin()}
		push := func(r *replica) {
			if err := r.p.Push(ctx, uint64(r.next+1), journal[r.next]); err != nil {
				rt.Fatal(err)
			}
			r.next++
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			r := &replicas[rapid.IntRange(0, 1).Draw(rt, "replica")]
			switch step := rapid.IntRange(0, 9).Draw(rt, "step"); {
			case step < 6 && r.next < len(journal):
				push(r)
			case step < 8:
				if step == 7 {
					store.lose.Store(1)
				}
				if err := r.p.write(ctx); err != nil && !errors.Is(err, views.ErrUnavailable) {
					rt.Fatal(err)
				}
				store.lose.Store(0)
			case step == 8: // before the next commit too
				if at, err := store.Checkpoint(ctx, stream); err == nil && uint64(r.next) >= at {
					seen := seenAfter(journal[:r.next])
					for id := range want {
						if got := requestsOf(rt, r.p, id); !maps.Equal(got, seen[id]) {
							rt.Fatalf("account %d after message %d:\n%v, want\n%v", id, r.next, got, seen[id])
						}
					}
				}
				if err := r.p.trimRequests(ctx, event.AccountID(rapid.IntRange(1, 2).Draw(rt, "trimmed"))); err != nil {
					rt.Fatal(err)
				}
			case step == 9: // killed
				*r = begin()
			}
		}
		for i := range replicas {
			r := &replicas[i]
			for r.next < len(journal) {
				push(r)
			}
			if err := r.p.Flush(ctx); err != nil {
				rt.Fatal(err)
			}
			for id := range want {
				if got := requestsOf(rt, r.p, id); !maps.Equal(got, want[id]) {
					rt.Fatalf("account %d:\n%v, want\n%v", id, got, want[id])
				}
			}
		}
	})
}

// TestARetriedRefusalIsOneRequest: the retry is decided under the same id, in another commit.
func TestARetriedRefusalIsOneRequest(t *testing.T) {
	p := New(open(t), "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	id := requestID(noon, 1)
	refused := decided(someone, id, noon)
	refused.Status, refused.Held, refused.Decision, refused.CostMicros = "", true, uint8(event.Decision_QUOTA_EXHAUSTED), 0
	pushed(t, p, 1, refused, decided(someone, requestID(noon, 2), noon))
	pushed(t, p, 2, decided(someone, id, noon+1500))
	got := requestsOf(t, p, someone)
	if len(got) != 2 || got[id] != (shownRequest{noon + 1500, account.SettlementOpen, 7, 0}) {
		t.Errorf("%v", got)
	}
}

// pushed pushes and commits a message with changes.
func pushed(t *testing.T, p *Projection, sequence uint64, changes ...account.RequestChange) {
	t.Helper()
	if err := errors.Join(p.Push(t.Context(), sequence, account.Effects{Requests: changes}), p.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// reported is what an edge says of a request.
func reported(id event.AccountID, request event.RequestID, millis int64, status uint32) Report {
	return Report{
		Account: id, Request: request, TimeMillis: millis, DurationMillis: 12, Status: status, QuotaKey: 2, Method: "GET",
		Path: "/api/dev/paste-lite/get/abc", Source: "192.0.2.7", Error: "invalid_api_key", Client: "order-4711", Timing: &event.RequestTiming{AdmitSyncMs: 9},
	}
}

// TestReportsJoinTheirRequests, whichever comes first, in one commit or in two. A request that billing has not decided on is shown too.
func TestReportsJoinTheirRequests(t *testing.T) {
	for _, order := range []string{"report first", "decision first", "together"} {
		t.Run(order, func(t *testing.T) {
			p := New(open(t), "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
			flush := func() {
				t.Helper()
				if err := p.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			both, refused := requestID(noon, 1), requestID(noon, 2)
			report := []Report{reported(someone, both, noon-3, 200), reported(someone, refused, noon-3, 401)}
			if order != "decision first" {
				p.Report(report)
			}
			if order == "report first" {
				flush()
			}
			if err := p.Push(t.Context(), 1, account.Effects{Requests: []account.RequestChange{decided(someone, both, noon)}}); err != nil {
				t.Fatal(err)
			}
			if order == "decision first" {
				flush()
				p.Report(report)
			}
			want := map[event.RequestID]shownRequest{both: {noon, account.SettlementOpen, 7, 200}, refused: {noon - 3, "", 0, 401}}
			for range 2 { // before the commit, and after it
				if got := requestsOf(t, p, someone); !maps.Equal(got, want) {
					t.Errorf("%v, want %v", got, want)
				}
				flush()
			}
			list, err := p.AccountRequests(t.Context(), someone, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range list {
				if r.Method != "GET" || r.Path != "/api/dev/paste-lite/get/abc" || r.SourceAddress != "192.0.2.7" || r.DurationMs != 12 || r.Error != "invalid_api_key" ||
					r.ClientRequestId != "order-4711" || r.Timing.GetAdmitSyncMs() != 9 {
					t.Errorf("%v", r)
				}
			}
		})
	}
}

// TestReportsBeyondTheQueueAreDropped, and counted.
func TestReportsBeyondTheQueueAreDropped(t *testing.T) {
	p := New(open(t), "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	if dropped := p.Report(make([]Report, maxReports-1)); dropped != 0 {
		t.Errorf("%d dropped of those that fit", dropped)
	}
	if dropped := p.Report(make([]Report, 3)); dropped != 2 {
		t.Errorf("%d dropped, want 2", dropped)
	}
}

func sweptAt(t *testing.T, p *Projection, millis int64, exists func(event.AccountID) bool) {
	t.Helper()
	if err := p.Sweep(t.Context(), time.UnixMilli(millis), time.Hour, exists); err != nil {
		t.Fatal(err)
	}
}

func all(event.AccountID) bool { return true }

// TestRequestsAreKeptUpToAnAgeAndANumber: both bounds on both sides. Whole blocks are deleted, so some more are stored.
func TestRequestsAreKeptUpToAnAgeAndANumber(t *testing.T) {
	const other, hour = someone + 1, 60 * 60 * 1000
	p := New(open(t), "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	sequence := uint64(0)
	push := func(id event.AccountID, n int, millis func(int) int64) {
		t.Helper()
		changes := make([]account.RequestChange, n)
		for i := range changes {
			changes[i] = decided(id, requestID(millis(i), i+int(sequence)*1_000_000), millis(i))
		}
		sequence++
		pushed(t, p, sequence, changes...)
	}
	stored := func(id event.AccountID) (n int) {
		t.Helper()
		blocks, err := p.Blocks(t.Context(), id, 0)
		if err != nil {
			t.Fatal(err)
		}
		j, err := join(blocks)
		if err != nil {
			t.Fatal(err)
		}
		return len(j.byID)
	}
	push(other, 3, func(i int) int64 { return noon + int64(i) })
	for i := range 10 { // of a thousand each, two in a millisecond
		push(someone, maxBlock, func(n int) int64 { return noon + int64(i*maxBlock+n)/2 })
	}
	if got := len(requestsOf(t, p, someone)); got != RequestsKept {
		t.Fatalf("%d requests, want all", got)
	}
	push(someone, maxBlock+1, func(n int) int64 { return noon + RequestsKept/2 + int64(n) })
	if got := len(requestsOf(t, p, someone)); got != RequestsKept || stored(someone) != RequestsKept+maxBlock+1 {
		t.Errorf("one block and one more: %d requests are shown, %d stored", got, stored(someone))
	}
	sweptAt(t, p, noon+hour, all)
	if got := len(requestsOf(t, p, someone)); got != RequestsKept || stored(someone) != RequestsKept+1 {
		t.Errorf("%d requests are shown, %d stored after the sweep", got, stored(someone))
	}
	list, err := p.AccountRequests(t.Context(), other, noon+2)
	if err != nil || len(list) != 1 {
		t.Errorf("%d requests since the last one, %v", len(list), err)
	}
	sweptAt(t, p, noon+2+hour, all)
	if got := stored(other); got != 3 {
		t.Errorf("%d requests stored at the end of the block's hour", got)
	}
	sweptAt(t, p, noon+2+hour+1, all)
	if got := stored(other); got != 0 {
		t.Errorf("%d requests stored after it", got)
	}
}

// TestSmallBlocksOfADayAreJoined: a quiet account does not have a block for each request, and nothing is lost by it.
func TestSmallBlocksOfADayAreJoined(t *testing.T) {
	p := New(open(t), "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	want := map[event.RequestID]shownRequest{}
	joins := 0
	for n := range 3 * joinBlocks {
		id := requestID(noon, n)
		change := decided(someone, id, noon+int64(n))
		if n == joinBlocks/2 { // the end of an earlier one
			end := change
			id = requestID(noon, 0)
			end.Request, end.TimeMillis, end.Decided, end.Paid, end.Status = id, noon, false, false, account.SettlementServed
			change = end
		}
		pushed(t, p, uint64(n+1), change)
		shown := want[id]
		want[id] = shownRequest{time: max(shown.time, change.TimeMillis), status: change.Status, cost: 7}
		blocks := func() int {
			t.Helper()
			list, err := p.Blocks(t.Context(), someone, 0)
			if err != nil {
				t.Fatal(err)
			}
			return len(list)
		}
		before := blocks()
		sweptAt(t, p, noon+1000, all)
		switch after := blocks(); {
		case after > joinBlocks+joinBlocks/2 || after < before && before < joinBlocks:
			t.Fatalf("%d blocks after %d commits, and %d after the sweep", before, n+1, after)
		case after < before:
			joins++
		}
	}
	if joins < 2 {
		t.Errorf("blocks were joined %d times", joins)
	}
	if got := requestsOf(t, p, someone); !maps.Equal(got, want) {
		t.Errorf("%v, want\n%v", got, want)
	}
}

// TestRequestsOfAnEndedAccountAreErased: those stored, and those reported before and after.
func TestRequestsOfAnEndedAccountAreErased(t *testing.T) {
	const other = someone + 1
	p := New(open(t), "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	pushed(t, p, 1, decided(someone, requestID(noon, 1), noon), decided(other, requestID(noon, 2), noon))
	p.Report([]Report{reported(someone, requestID(noon, 1), noon, 200)})
	if err := p.Erase(t.Context(), someone); err != nil {
		t.Fatal(err)
	}
	if got := requestsOf(t, p, someone); len(got) != 0 {
		t.Errorf("%v after the erasure", got)
	}
	p.Report([]Report{reported(someone, requestID(noon, 1), noon, 200)})
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	sweptAt(t, p, noon+1000, func(id event.AccountID) bool { return id != someone })
	if got := requestsOf(t, p, someone); len(got) != 0 {
		t.Errorf("%v of a late report", got)
	}
	if got := requestsOf(t, p, other); len(got) != 1 {
		t.Errorf("another account has %v", got)
	}
}

// TestMoreRequestsThanAreKeptInOneCommit: the last ones are stored, and only these.
func TestMoreRequestsThanAreKeptInOneCommit(t *testing.T) {
	s := newSurplus()
	const one, two = event.AccountID(1), event.AccountID(2)
	for range RequestsKept + 2 {
		s.count(one)
	}
	for range RequestsKept {
		s.count(two)
	}
	if s.skips(two, true) || !s.skips(one, true) || !s.skips(one, false) || !s.skips(one, true) || s.skips(one, false) || s.skips(one, true) {
		t.Error("not the first two of the first account are skipped")
	}
}

// TestACommitWithMoreThanIsKeptHidesEarlierBlocks: their ends may be among what was not stored.
func TestACommitWithMoreThanIsKeptHidesEarlierBlocks(t *testing.T) {
	p := New(open(t), "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	const id = event.AccountID(7)
	push := func(sequence uint64, n int) {
		var e account.Effects
		for i := range n {
			e.Requests = append(e.Requests, decided(id, event.NewRequestID(), noon+int64(sequence)*1000+int64(i)/50))
		}
		if err := errors.Join(p.Push(t.Context(), sequence, e), p.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	stored := func() int {
		blocks, err := p.Blocks(t.Context(), id, 0)
		if err != nil {
			t.Fatal(err)
		}
		j, err := join(blocks)
		if err != nil {
			t.Fatal(err)
		}
		return len(j.byID)
	}
	push(1, 10)
	push(2, RequestsKept)
	if n := stored(); n != RequestsKept+10 {
		t.Errorf("%d requests, with as many in a commit as are kept", n)
	}
	push(3, RequestsKept+1)
	if n := stored(); n != RequestsKept {
		t.Errorf("%d requests, after a commit with one more than are kept", n)
	}
	push(4, 10)
	if n := stored(); n != RequestsKept+10 {
		t.Errorf("%d requests, after another commit", n)
	}
}
