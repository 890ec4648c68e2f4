package account

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// recordedLog has the requests of accounts, as their changes say.
type recordedLog map[event.RequestID]RequestChange

func (l recordedLog) apply(t tester, changes []RequestChange) {
	t.Helper()
	for _, c := range changes {
		r, known := l[c.Request]
		switch {
		case c.Decided:
			l[c.Request] = c
			continue
		case !known || r.Account != c.Account:
			t.Fatalf("%+v is of no request", c)
		case !c.Late && r.TimeMillis != c.TimeMillis:
			t.Fatalf("%+v does not find %+v", c, r)
		}
		if c.Settled {
			r.Status = c.Status
		}
		if c.Paid {
			r.Charge, r.CostMicros = c.Charge, c.CostMicros
		}
		l[c.Request] = r
	}
}

// TestRecordedRequestsAreAsTheyAreExplained: the list of an account's requests agrees with the explanation of each, also after
// a restart from a snapshot. A finished trace never changes.
func TestRecordedRequestsAreAsTheyAreExplained(t *testing.T) {
	shown := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		m.fold.Record()
		m.keys, m.accounts = []plan.QuotaKey{plan.FilesUpload, plan.LiteCreate}, []uint64{alice}
		m.commandOf(t, create(alice, plan.Pro))
		m.commandOf(t, grantOf(alice, 12_000, 0))
		var tail *Fold
		var tailLog recordedLog
		since := 0
		for range rapid.IntRange(5, 40).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 10).Draw(t, "step"); {
			case step < 4:
				m.admissions(t)
			case step < 8:
				m.settlements(t)
			case step == 8:
				m.step(t)
			case step == 9:
				m.pass(t)
			default:
				tail, tailLog, since = restored(t, m.fold), maps.Clone(m.recorded), len(m.messages)
				tail.Record()
			}
		}
		for _, r := range m.recorded {
			m.explains(t, &r)
			shown[r.Status]++
		}
		if tail == nil {
			return
		}
		if tailLog == nil {
			tailLog = recordedLog{}
		}
		for _, msg := range m.messages[since:] {
			effects, err := tail.Apply(msg)
			if err != nil {
				t.Fatalf("%v", err)
			}
			tailLog.apply(t, effects.Requests)
		}
		if !maps.Equal(tailLog, m.recorded) {
			t.Fatalf("after a snapshot:\n%+v\nwant\n%+v", tailLog, m.recorded)
		}
	})
	for _, status := range []string{"", SettlementOpen, SettlementServed, SettlementVoid, SettlementServedUnsettled} {
		if shown[status] == 0 {
			t.Errorf("no request had status %q", status)
		}
	}
}

// explains compares a record with the trace of its request.
func (m *machine) explains(t *rapid.T, r *RequestChange) {
	f := New()
	_ = f.Know(m.newest) // no rules reached yet
	trace := f.Watch(r.Request)
	done := ""
	for _, msg := range m.messages {
		if _, err := f.Apply(msg); err != nil {
			t.Fatalf("%v", err)
		}
		if done == "" && trace.Done(f) {
			done = trace.Answer().String()
		}
	}
	e := trace.Answer()
	if e == nil {
		t.Fatalf("%+v is not explained", r)
	}
	twice := e.ChargedLate || e.Settlement == SettlementWaived // the machine settles some twice, and no document service does
	if done != "" && !twice && e.String() != done {
		t.Fatalf("done as\n%s\nand in the end\n%s", done, e)
	}
	if e.Settlement != r.Status || e.Charge != event.ChargeSource(r.Charge) || e.CostMicros != r.CostMicros || e.TimeMs != r.TimeMillis ||
		e.Verdict.Decision != event.Decision(r.Decision) || e.Verdict.Held != r.Held || e.Verdict.Remaining != r.Remaining ||
		e.QuotaKey != uint32(r.QuotaKey) || e.Key != r.Key {
		t.Fatalf("recorded as %+v, explained as %v", r, e)
	}
}

// TestKeylessRequestsAndThoseOfNobodyAreNotRecorded: nobody may query their list.
func TestKeylessRequestsAndThoseOfNobodyAreNotRecorded(t *testing.T) {
	h := historyOf(t)
	h.fold.Record()
	h.want(h.anonymous(), event.Decision_ADMITTED)
	h.want(h.admission(bob, plan.LiteGet), event.Decision_INVALID_KEY)
	if len(h.recorded) != 0 {
		t.Errorf("recorded: %+v", h.recorded)
	}
	h.account(bob, plan.Pro)
	h.want(h.admission(bob, plan.LiteGet), event.Decision_ADMITTED)
	if len(h.recorded) != 1 {
		t.Errorf("of one request: %+v", h.recorded)
	}
}

// TestARetryAfterAKillIsDecidedAgain: the edge of the first request was killed. The second one is refused, the first one voided,
// and the second one admitted under the same id.
func TestARetryAfterAKillIsDecidedAgain(t *testing.T) {
	h := historyOf(t)
	h.fold.Record()
	h.account(alice, plan.Pro)
	first, second := h.admission(alice, plan.LiteGet), h.admission(alice, plan.LiteGet)
	first.IdempotencyId = h.requestID()
	second.IdempotencyId = first.IdempotencyId
	h.want(first, admitted)
	h.want(second, event.Decision_IDEMPOTENCY_IN_FLIGHT)
	h.voided(first)
	h.want(second, admitted)
	h.served(second)
	if r := h.recorded[event.RequestID(second.RequestId)]; len(h.recorded) != 2 || r.Status != SettlementServed || r.Decision != uint8(admitted) {
		t.Errorf("recorded: %+v", h.recorded)
	}
}
