package account

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/billing/internal/recent"
)

// TestRecordedRequestsAreAsTheyAreExplained: the list of an account's requests agrees with the explanation of each, also after
// a restart from a snapshot and its image. A finished trace never changes.
func TestRecordedRequestsAreAsTheyAreExplained(t *testing.T) {
	shown := map[recent.Status]int{}
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		log := recent.New(1 << 20)
		m.fold.Record(log)
		m.keys, m.accounts = []plan.QuotaKey{plan.FilesUpload, plan.LiteCreate}, []uint64{alice}
		m.commandOf(t, create(alice, plan.Pro))
		m.commandOf(t, grantOf(alice, 12_000, 0))
		var tail *Fold
		var tailLog *recent.Log
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
				tail, tailLog, since = restored(t, m.fold), copied(t, log), len(m.messages)
				tail.Record(tailLog)
			}
		}
		for id := range m.model.accounts {
			log.Each(id, func(r *recent.Record) bool {
				m.explains(t, r)
				shown[r.Status]++
				return true
			})
		}
		if tail == nil {
			return
		}
		for _, msg := range m.messages[since:] {
			if _, err := tail.Apply(msg); err != nil {
				t.Fatalf("%v", err)
			}
		}
		for id := range m.model.accounts {
			if got, want := recorded(tailLog, id), recorded(log, id); got != want {
				t.Fatalf("account %x after a snapshot:\n%s\nwant\n%s", id, got, want)
			}
		}
	})
	for status := range recent.Waived {
		if shown[status] == 0 {
			t.Errorf("no request had status %d", status)
		}
	}
}

// copied is a log after a round trip through its encoding.
func copied(t tester, log *recent.Log) *recent.Log {
	var data bytes.Buffer
	if err := log.Image().Encode(&data); err != nil {
		t.Fatalf("%v", err)
	}
	again := recent.New(1 << 20)
	if err := again.Load(&data); err != nil {
		t.Fatalf("%v", err)
	}
	return again
}

func recorded(log *recent.Log, id uint64) (text string) {
	log.Each(id, func(r *recent.Record) bool {
		text += fmt.Sprintf("%+v\n", *r)
		return true
	})
	return text
}

// explains compares a record with the trace of its request.
func (m *machine) explains(t *rapid.T, r *recent.Record) {
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
	if e.Settlement != Status(r.Status) || e.Charge != event.ChargeSource(r.Charge) || e.CostMicros != r.CostMicros || e.TimeMs != r.TimeMillis ||
		e.Verdict.Decision != event.Decision(r.Decision) || e.Verdict.Held != (r.Status == recent.Held) || e.Verdict.Remaining != r.Remaining ||
		e.QuotaKey != uint32(r.QuotaKey) || e.Key != r.Key {
		t.Fatalf("recorded as %+v, explained as %v", r, e)
	}
}

// TestKeylessRequestsAndThoseOfNobodyAreNotRecorded: nobody may query their list.
func TestKeylessRequestsAndThoseOfNobodyAreNotRecorded(t *testing.T) {
	h := historyOf(t)
	log := recent.New(1 << 20)
	h.fold.Record(log)
	h.want(h.anonymous(), event.Decision_ADMITTED)
	h.want(h.admission(bob, plan.LiteGet), event.Decision_INVALID_KEY)
	if log.Len() != 0 {
		t.Errorf("%d records", log.Len())
	}
	h.account(bob, plan.Pro)
	h.want(h.admission(bob, plan.LiteGet), event.Decision_ADMITTED)
	if log.Len() != 1 {
		t.Errorf("%d records of one request", log.Len())
	}
}

// TestARetryAfterAKillIsOneRecord: the edge of the first request was killed. The second one is refused, the first one voided, and
// the second one admitted under the same id.
func TestARetryAfterAKillIsOneRecord(t *testing.T) {
	h := historyOf(t)
	log := recent.New(1 << 20)
	h.fold.Record(log)
	h.account(alice, plan.Pro)
	first, second := h.admission(alice, plan.LiteGet), h.admission(alice, plan.LiteGet)
	first.IdempotencyId = h.requestID()
	second.IdempotencyId = first.IdempotencyId
	h.want(first, admitted)
	h.want(second, event.Decision_IDEMPOTENCY_IN_FLIGHT)
	again := copied(t, log) // a restart in between
	h.voided(first)
	h.want(second, admitted)
	h.served(second)
	if log.Len() != 2 {
		t.Fatalf("%d records:\n%s", log.Len(), recorded(log, alice))
	}
	if r := log.Edit(0, alice, event.RequestID(second.RequestId)); r.Status != recent.Served || r.Decision != uint8(admitted) {
		t.Errorf("the record is %+v", r)
	}
	again.Add(alice, *log.Edit(0, alice, event.RequestID(second.RequestId)))
	if again.Len() != 2 {
		t.Errorf("after a restart:\n%s", recorded(again, alice))
	}
}
