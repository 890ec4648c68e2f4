package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/telemetry"
	"quire.dev/services/edge/internal/fault"
)

// reporter is an instance of a service that says which of its journals take no writes.
type reporter struct {
	mu sync.Mutex
	is event.Instance
}

func (w *world) reporter(t *testing.T, domain event.Domain, is event.Instance) *reporter {
	t.Helper()
	is.Partitions = w.partitions
	r := &reporter{is: is}
	s, err := rpc.Serve(w.nc, domain.InstancesSubject(), is.Name, 1, func(context.Context, []byte) ([]byte, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return json.Marshal(r.is)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Drain(context.Background()) })
	return r
}

func (r *reporter) stall(partitions ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.is.Stalled = partitions
}

// accountIn returns an account of the partition.
func accountIn(partition, count int) event.AccountID {
	for id := event.AccountID(1); ; id++ {
		if event.AccountPartition(id, count) == partition {
			return id
		}
	}
}

// journalOf returns what the bus knows of a journal.
func (b *Bus) journalOf(domain event.Domain, partition int) *journalWatch {
	return b.journals[slices.IndexFunc(b.journals, func(j *journalWatch) bool { return j.domain == domain && j.partition == partition })]
}

// TestAJournalThatTakesNoWritesRefusesAtOnce: neither other partitions nor settlements are affected, and requests go on once
// it takes writes.
func TestAJournalThatTakesNoWritesRefusesAtOnce(t *testing.T) {
	w := newWorld(t, 2)
	newFakeBilling(t, w.nc, 2)
	metrics := telemetry.NewMetrics()
	b := w.bus(t, func(c *Config) { c.Metrics = metrics })
	closed, open := accountIn(0, 2), accountIn(1, 2)
	served := admission(closed)
	verdict, err := b.StartAdmit(served, nil).Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := w.reporter(t, event.Billing, event.Instance{Name: "a", Live: []string{"a"}, Serves: []int{0, 1}, Stalled: []int{0}})

	eventually.True(t, "the journal is closed", b.journalOf(event.Billing, 0).closed.Load)
	_, err = b.StartAdmit(admission(closed), nil).Wait(t.Context())
	if f := new(fault.Error); !errors.Is(err, errClosed) || !errors.As(err, &f) || f.Kind != fault.Unavailable || f.RetryAfter == 0 {
		t.Errorf("%v", err)
	}
	if _, err := b.Command(t.Context(), &event.Command{Account: uint64(closed)}); !errors.Is(err, errClosed) {
		t.Errorf("a command: %v", err)
	}
	if _, err := b.StartAdmit(admission(open), nil).Wait(t.Context()); err != nil {
		t.Errorf("another partition: %v", err)
	}
	if err := b.Unready(); err != nil {
		t.Errorf("the edge is unready though one journal takes writes: %v", err)
	}
	page := httptest.NewRecorder()
	telemetry.Handler(metrics, telemetry.NewHealth()).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{`quire_bus_journals_closed{journal="billing"} 1`, `quire_bus_journals_closed{journal="paste"} 0`} {
		if !strings.Contains(page.Body.String(), "\n"+want+"\n") {
			t.Errorf("not %s", want)
		}
	}
	b.Served(served, verdict)
	eventually.True(t, "the settlement is stored", func() bool {
		for _, batch := range w.usageBatches(t) {
			if len(batch.Served)+len(batch.Settlements) > 0 {
				return true
			}
		}
		return false
	})

	r.stall(0, 1)
	eventually.NoError(t, "the edge is unready", func() error {
		err := b.Unready()
		if err == nil || !strings.Contains(err.Error(), "BILLING_1 takes no writes, says instance a") {
			return fmt.Errorf("another reason: %w", err)
		}
		return nil
	})
	r.stall()
	eventually.NoError(t, "the edge is ready", b.Unready)
	eventually.True(t, "requests are admitted again", func() bool {
		_, err := b.StartAdmit(admission(closed), nil).Wait(t.Context())
		return err == nil
	})
}

// TestAWriteToAClosedJournalIsRefusedAtOnce, and other documents are written.
func TestAWriteToAClosedJournalIsRefusedAtOnce(t *testing.T) {
	w := newWorld(t, 1)
	newFakeDomain(t, w.nc, event.Lite, 1)
	b := w.bus(t, nil)
	w.reporter(t, event.Paste, event.Instance{Name: "a", Live: []string{"a"}, Stalled: []int{0, 7}}) // which no instance serves
	write := func(d event.Domain) error {
		id := event.NewRequestID()
		_, err := b.Write(t.Context(), d, &Write{Request: event.Request{RequestId: id[:], Item: "x"}})
		return err
	}
	eventually.True(t, "the journal is closed", b.journalOf(event.Paste, 0).closed.Load)
	if err := write(event.Paste); !errors.Is(err, errClosed) {
		t.Errorf("a paste: %v", err)
	}
	if err := write(event.Lite); err != nil {
		t.Errorf("a quick paste: %v", err)
	}
}

// TestASilentServerClosesAllJournals, also for questions, and they open once the instances say that the journals take writes.
func TestASilentServerClosesAllJournals(t *testing.T) {
	w := newWorld(t, 1)
	newFakeBilling(t, w.nc, 1)
	for _, d := range append([]event.Domain{event.Billing}, event.Documents()...) {
		w.reporter(t, d, event.Instance{Name: "a", Live: []string{"a"}, Serves: []int{0}})
	}
	b := w.bus(t, nil)
	w.server.Stop()
	eventually.True(t, "the journal is closed", b.journalOf(event.Billing, 0).closed.Load)
	if _, err := b.StartAdmit(admission(1), nil).Wait(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("admission: %v", err)
	}
	if err := b.Unready(); !errors.Is(err, errSilent) {
		t.Errorf("unready: %v", err)
	}
	for _, d := range event.Documents() {
		if !b.journalOf(d, 0).closed.Load() {
			t.Errorf("the journal of %s is not closed", d)
		}
	}
	w.server.Restart(t)
	eventually.NoError(t, "the edge is ready", b.Unready)
	eventually.True(t, "requests are admitted again", func() bool {
		_, err := b.StartAdmit(admission(1), nil).Wait(t.Context())
		return err == nil
	})
}

// TestAnUnknownJournalStaysOpen: no instance answers, while services are replaced for example.
func TestAnUnknownJournalStaysOpen(t *testing.T) {
	j := &journalWatch{partition: 1}
	full := errors.New("full")
	at := func(writes bool, stalled error) journalReport {
		return journalReport{writes: []bool{false, writes}, stalled: []error{nil, stalled}}
	}
	for name, c := range map[string]struct {
		silent  error
		report  journalReport
		stored  bool
		known   bool
		failure error
	}{
		"nobody answers":                         {},
		"no instance has the partition":          {report: at(false, nil)},
		"an instance has no trouble":             {report: at(true, nil), known: true},
		"an instance has trouble":                {report: at(false, full), known: true, failure: full},
		"an instance is cut off, another is not": {report: at(true, full), known: true},
		"this edge has just stored a batch":      {report: at(false, full), stored: true, known: true},
		"the server is silent":                   {silent: errSilent, known: true, failure: errSilent},
		"the server is silent after a batch":     {silent: errSilent, stored: true, known: true, failure: errSilent},
	} {
		j.stored.Store(c.stored)
		if known, failure := j.judge(c.silent, c.report); known != c.known || !errors.Is(failure, c.failure) {
			t.Errorf("%s: %t, %v", name, known, failure)
		}
		if j.stored.Load() {
			t.Errorf("%s: the batch counts again", name)
		}
	}
}

func TestASilenceHasToLast(t *testing.T) {
	var s silence
	now := time.Now()
	for i, c := range []struct {
		answers bool
		after   time.Duration
		silent  bool
	}{
		{true, 0, false},
		{false, time.Second, false},
		{false, silentAfter - time.Millisecond, false},
		{true, time.Millisecond, false},
		{false, time.Hour, false}, // begins now
		{false, silentAfter, true},
		{false, time.Hour, true},
		{true, 0, false},
	} {
		now = now.Add(c.after)
		if err := s.observe(c.answers, now); (err != nil) != c.silent {
			t.Errorf("look %d: %v", i, err)
		}
	}
}

// TestAQuestionIsNotRepeatedInAnOutage: its callers learn at once that the service is unavailable.
func TestAQuestionIsNotRepeatedInAnOutage(t *testing.T) {
	w := newBareWorld(t, 1)
	b := w.idle(t, nil)
	begun := time.Now()
	again := b.newBudget(begun, begun.Add(time.Hour))
	if !again.spend(t.Context(), silent) {
		t.Fatal("not repeated")
	}
	reason := errSilent
	b.unready.Store(&reason)
	if again.spend(t.Context(), silent) || again.spend(t.Context(), moving) {
		t.Error("repeated")
	}
}
