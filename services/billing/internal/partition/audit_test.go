package partition

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
	"quire.dev/pkg/views/sqlite"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/projection"
	"quire.dev/services/billing/internal/snapshots"
	"quire.dev/services/billing/internal/webhooks"
)

// TestAuditShowsAChangedHistory: an audit replays the journal, and detects a live state folded from anything else.
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
	store, err := sqlite.Open(t.Context(), sqlite.Config{
		Path:        filepath.Join(t.TempDir(), "billing.db"),
		Collections: slices.Concat(projection.Collections(), webhooks.Collections(), snapshots.Collections()),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	p := New(Config{Rules: account.NewestRules, AuditPrincipals: 1, AuditRequests: 10, Progress: func(string, uint64, uint64) {}}, Deps{
		NC: nc, Views: store, Blobs: blobs, Clock: time.Now, Turns: NewTurns(), Logger: slog.New(slog.DiscardHandler), Metrics: NewMetrics(nil),
	})
	p.projection = projection.New(store, p.stream, 0, 0, p.log)
	now := time.Now().UnixMilli()
	prices := pricebook.Configured(plan.Published(10))
	prices.StampMs = now
	request := event.NewRequestID()
	for _, stored := range []struct {
		subject string
		message event.Message
	}{
		{event.PricesSubject(0), prices},
		{event.UsageSubject(0), &event.UsageBatch{Source: "edge", Number: 1, StampMs: now, Admissions: []*event.Admission{
			{RequestId: request[:], Account: 1, QuotaKey: uint32(plan.LiteCreate), Anonymous: true},
		}}},
		{event.AccountSubject(0), &event.CommandBatch{Source: "edge", Number: 1, StampMs: now, Commands: []*event.Command{
			{Account: 5, Action: &event.Command_Create{Create: &event.CreateAccount{Tier: uint32(plan.Pro)}}},
		}}},
	} {
		data, err := event.Encode(stored.message)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := nc.Request(stored.subject, data, 10*time.Second); err != nil {
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
				m.TimeNanos++
			}
		}, false},
		{"the subject of the last message", func(m *account.Message) {
			if m.Sequence == 3 {
				m.Subject = "billing.0.settle.none"
			}
		}, false},
	} {
		p.fold = account.New()
		err := p.journal.Replay(t.Context(), 0, 3, func(m journal.Message) error {
			message := p.message(m)
			c.tamper(&message)
			_, _ = p.fold.Apply(message) // an undecodable message is in the chain too
			return nil
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		run := &auditRun{}
		progress := &run.task
		a, err := p.auditOnce(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		if a.Match != c.match || a.LastSequence != 3 {
			t.Errorf("%s: %v", c.name, a)
		}
		// The account and the network do not fit into memory at once.
		if parts := progress.total.Load() / 3; parts < 2 || a.Folded != 3*parts || progress.read.Load() != a.Folded {
			t.Errorf("%s: %d of %d messages were read, %d folded", c.name, progress.read.Load(), progress.total.Load(), a.Folded)
		}
	}
}

// TestAnAuditThatNobodyTookIsFoundFinished: if all callers gave up, the next caller gets the result, once.
func TestAnAuditThatNobodyTookIsFoundFinished(t *testing.T) {
	a := newAudits()
	runs := uint64(0)
	audit := func(_ context.Context, r *auditRun) {
		runs++
		r.answer = &event.AuditAnswer{LastSequence: runs}
	}
	first := a.join(auditOptions{}, audit)
	<-first.done
	if again := a.join(auditOptions{}, audit); again != first {
		t.Fatal("it was begun anew")
	}
	a.take(&first.task)
	second := a.join(auditOptions{}, audit)
	<-second.done
	if second == first || second.answer.LastSequence != 2 {
		t.Fatalf("an answer was given twice: %v", second.answer)
	}
	a.stop()
}

// TestAuditsAreRememberedByTheirIDs: one runs at a time, and each id leads to its result. A failed one restarts.
func TestAuditsAreRememberedByTheirIDs(t *testing.T) {
	a := newAudits()
	defer a.stop()
	runs, failing := uint64(0), true
	proceed := make(chan struct{})
	audit := func(_ context.Context, r *auditRun) {
		<-proceed
		runs++
		r.answer = &event.AuditAnswer{LastSequence: runs}
		if failing {
			r.err = errors.New("the journal does not answer")
		}
	}
	one, two := auditID{1}, auditID{2}
	failed := a.begin(one, false, auditOptions{}, audit)
	proceed <- struct{}{}
	<-failed.done
	failing = false
	first, second := a.begin(one, true, auditOptions{}, audit), a.begin(two, false, auditOptions{}, audit)
	if first.auditRun == failed.auditRun || first.auditRun != second.auditRun || !first.again || second.again {
		t.Fatalf("one is %v, the other %v", first, second)
	}
	close(proceed)
	<-first.done
	if found, ok := a.find(two); !ok || found.answer.LastSequence != 2 {
		t.Errorf("found %v", found)
	}
	if again := a.begin(one, false, auditOptions{}, audit); again.auditRun != first.auditRun || !again.again {
		t.Errorf("a result was not kept: %v", again)
	}
	for i := range byte(keptAudits) {
		<-a.begin(auditID{3, i}, false, auditOptions{}, audit).done
	}
	if _, ok := a.find(one); ok {
		t.Error("audits are remembered for ever")
	}
}

// TestARunThatResumesAnswersItsIDAlone, and a run that others have joined resumes nothing: anyone who knows an id may have forged what it resumes.
func TestARunThatResumesAnswersItsIDAlone(t *testing.T) {
	a := newAudits()
	t.Cleanup(a.cancel)
	wait := func(ctx context.Context, _ *auditRun) { <-ctx.Done() }
	one, other := auditID{1}, auditID{2}
	shared := a.begin(one, false, auditOptions{}, wait)
	if joined := a.begin(other, false, auditOptions{}, wait); joined.auditRun != shared.auditRun || a.resumes(shared.auditRun) {
		t.Error("a run with another caller resumes")
	}
	alone := a.begin(auditID{3}, false, auditOptions{deep: true}, wait)
	if !a.resumes(alone.auditRun) {
		t.Error("a run does not resume")
	}
	if same := a.begin(auditID{3}, false, auditOptions{deep: true}, wait); same.auditRun != alone.auditRun {
		t.Error("its caller does not find it")
	}
	if next := a.begin(auditID{4}, false, auditOptions{deep: true}, wait); next.auditRun == alone.auditRun {
		t.Error("another caller joins it")
	}
	for i, resumes := range []bool{true, false} {
		options := auditOptions{head: uint64(i)}
		ended := a.begin(auditID{5, byte(i)}, false, options, func(_ context.Context, r *auditRun) {
			if resumes {
				a.resumes(r)
			}
		})
		<-ended.done
		if next := a.join(options, wait); (next == ended.auditRun) == resumes {
			t.Errorf("a caller without an id is given a result that was resumed: %t, %t", resumes, next == ended.auditRun)
		}
	}
}

// TestAFailedAuditShowsItsError to those who look, unless it was restarted with other parameters than theirs: then it is lost, and restarted.
func TestAFailedAuditShowsItsError(t *testing.T) {
	for _, c := range []struct {
		name      string
		options   auditOptions
		restarted bool
		lost      bool
	}{
		{"the same parameters", auditOptions{deep: true}, false, false},
		{"other parameters", auditOptions{}, false, false},
		{"a repair", auditOptions{repair: "ledger"}, false, false},
		{"restarted", auditOptions{deep: true}, true, false},
		{"restarted with other parameters", auditOptions{}, true, true},
	} {
		p, id, run := &Partition{audits: newAudits()}, auditID{1}, &auditRun{task: newTask(), options: c.options}
		run.err = errors.New("the store is away")
		close(run.done)
		p.audits.known[id] = knownAudit{run, c.restarted}
		answer, err := p.audit(t.Context(), &event.AuditQuery{Id: id[:], Look: true, Deep: true})
		if lost := err == nil && answer.Status == event.QueryStatus_QUERY_NOT_FOUND; lost != c.lost || !lost && !errors.Is(err, run.err) {
			t.Errorf("%s: %v, %v", c.name, answer, err)
		}
		p.audits.cancel()
	}
}
