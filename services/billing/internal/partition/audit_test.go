package partition

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/plan"
	"quire.dev/services/billing/internal/account"
)

// TestAuditShowsAChangedHistory: an audit folds the journal, and finds a live state that was folded from anything else.
func TestAuditShowsAChangedHistory(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	stream := journal.Stream{
		Domain: "billing", Name: event.Billing.Stream(0), Subjects: event.Billing.Subjects(0), KeepForever: true,
	}
	if err := journal.Ensure(t.Context(), nc, []journal.Stream{stream}, 1); err != nil {
		t.Fatal(err)
	}
	blobs, err := disk.Open(filepath.Join(t.TempDir(), "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = blobs.Close() })
	p := New(Config{Progress: func(string, uint64, uint64) {}}, Deps{
		NC: nc, Blobs: blobs, Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Metrics: NewMetrics(nil),
	})
	now := time.Now().UnixMilli()
	prices := account.PriceEvent(plan.Published(10))
	prices.StampMs = now
	request := event.NewRequestID()
	for subject, m := range map[string]event.Message{
		event.PricesSubject(0): prices,
		event.UsageSubject(0): &event.UsageBatch{Source: "edge", Number: 1, StampMs: now, Admissions: []*event.Admission{
			{RequestId: request[:], Account: 1, QuotaKey: uint32(plan.LiteCreate), Anonymous: true},
		}},
		event.AccountSubject(0): &event.CommandBatch{Source: "edge", Number: 1, StampMs: now, Commands: []*event.Command{
			{Account: 5, Action: &event.Command_Create{Create: &event.CreateAccount{Tier: uint32(plan.Pro)}}},
		}},
	} {
		data, err := event.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := nc.Request(subject, data, 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		tamper func(*account.Message)
		match  bool
	}{
		{"as it is", func(*account.Message) {}, true},
		{"a byte of the second message", func(m *account.Message) {
			if m.Sequence == 2 {
				m.Data[len(m.Data)-1] ^= 1
			}
		}, false},
		{"the time of the first message", func(m *account.Message) {
			if m.Sequence == 1 {
				m.TimeMillis++
			}
		}, false},
		{"the subject of the last message", func(m *account.Message) {
			if m.Sequence == 3 {
				m.Kind = account.Unknown
			}
		}, false},
	} {
		p.fold = account.New()
		err := p.journal.Replay(t.Context(), 0, 3, func(m journal.Message) error {
			message := p.message(m)
			c.tamper(&message)
			_, _ = p.fold.Apply(message) // a message that can't be decoded is in the chain all the same
			return nil
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := p.auditOnce(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if a.Match != c.match || a.LastSequence != 3 {
			t.Errorf("%s: %v", c.name, a)
		}
	}
}

// TestAnAuditThatNobodyTookIsFoundFinished: the result of an audit that all callers gave up is for the next caller, once.
func TestAnAuditThatNobodyTookIsFoundFinished(t *testing.T) {
	var a audits
	runs := 0
	audit := func(context.Context) (*event.AuditAnswer, error) {
		runs++
		return &event.AuditAnswer{LastSequence: uint64(runs)}, nil
	}
	first := a.join(audit)
	<-first.done
	if again := a.join(audit); again != first {
		t.Fatal("it was begun anew")
	}
	a.take(first)
	second := a.join(audit)
	<-second.done
	if second == first || second.answer.LastSequence != 2 {
		t.Fatalf("an answer was given twice: %v", second.answer)
	}
	a.wait()
}
