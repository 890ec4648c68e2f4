package document_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/document"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/views"
)

// TestTwoReplicasLoseAndDoubleNothing lets two engines fold one partition over one read model, as
// happens while it moves from one instance to another.
func TestTwoReplicasLoseAndDoubleNothing(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	w.bounds.CommitMessages = 2
	w.start()
	w.start()
	e := w.newEdge("edge1")
	var requests []*event.Request
	versions := map[string]uint64{}
	for i := range 40 {
		made := create(alice, text("x"))
		requests = append(requests, made)
		e.want(event.OutcomeStatus_OK, made)
		for n := range uint64(i % 4) {
			changed := keyed(retitle(alice, made.Item, fmt.Sprint(n)), fmt.Sprint(i, n), 1)
			denied := remove(bob, made.Item)
			requests = append(requests, changed, denied)
			outcomes := e.do(changed, denied)
			if outcomes[0].Status != event.OutcomeStatus_OK || outcomes[0].Version != n+2 || outcomes[0].Replayed || outcomes[1].Status != event.OutcomeStatus_NOT_OWNER {
				t.Fatalf("decided %v", outcomes)
			}
		}
		versions[made.Item] = uint64(i%4) + 1
	}
	w.projected()
	for item, version := range versions {
		if a := w.get(alice, item); a.Document.GetVersion() != version {
			t.Errorf("%s: %v, want version %d", item, a, version)
		}
	}
	for _, r := range requests {
		want := event.Result_SERVED
		if r.GetDelete() != nil {
			want = event.Result_VOID
		}
		if s := w.settlementsOf(requests...)[string(r.RequestId)]; s.Result != want {
			t.Errorf("%T: settled %v", r.Action, s)
		}
	}
}

// TestSlowReplicaDoesNotDecideOnTheFuture has one engine load a document only after another engine has projected the
// message that the first one is about to decide.
func TestSlowReplicaDoesNotDecideOnTheFuture(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	running := w.start()
	e := w.newEdge("edge1")
	made := create(alice, text("x"))
	e.want(event.OutcomeStatus_OK, made)
	w.projected()
	w.stop(running)
	w.start()
	slow := &flakyViews{Store: w.views.Store}
	late := w.launch(slow)
	w.await(late)
	hang := make(chan struct{})
	slow.set(func() { slow.hang = hang })
	changed := keyed(retitle(alice, made.Item, "new"), "k", 1)
	e.want(event.OutcomeStatus_OK, changed)
	w.projected()
	slow.set(func() { slow.hang = nil })
	close(hang)
	eventually.True(t, "the slow one begins again", func() bool { return strings.Contains(w.log.String(), "another instance projects this partition") })
	w.await(late)
	if o := e.want(event.OutcomeStatus_OK, retitle(alice, made.Item, "newer")); o.Version != 3 {
		t.Errorf("decided %v", o)
	}
	w.settlementsOf(made, changed)
}

// TestNothingIsFinalBeforeBillingKnows runs while billing's journal can't be written.
func TestNothingIsFinalBeforeBillingKnows(t *testing.T) {
	w := newWorldWithoutBilling(t, fold.Pastes(), 1)
	running := w.start()
	e := w.newEdge("edge1")
	made := create(alice, text("x"))
	e.want(event.OutcomeStatus_OK, made)
	foreign := retitle(bob, made.Item, "x")
	refused := e.send(foreign)
	requests := []*event.Request{made, foreign}
	for range 20 {
		r := create(alice, text("x"))
		e.want(event.OutcomeStatus_OK, r) // a success is answered without billing
		requests = append(requests, r)
	}
	check := func() {
		t.Helper()
		if o := e.outcome(refused, 0); o != nil {
			t.Errorf("a failure is answered before its admission is given back: %v", o)
		}
		if at, err := w.views.Store.Checkpoint(t.Context(), event.Paste.Stream(0)); err != nil || at != 0 {
			t.Errorf("the checkpoint is at %d while nothing is settled, %v", at, err)
		}
	}
	check()
	w.stop(running)
	w.start()
	check()
	w.startBilling()
	if o := e.wait(refused, 1)[0]; o.Status != event.OutcomeStatus_NOT_OWNER {
		t.Errorf("refused with %v", o)
	}
	by := w.settlementsOf(requests...)
	if s := by[string(foreign.RequestId)]; s.Result != event.Result_VOID || len(by) != len(requests) {
		t.Errorf("%d are settled of %d, the refused one %v", len(by), len(requests), s)
	}
	w.projected()
}

// TestRestoredReadModelCatchesUp starts from a copy of the read model that was taken earlier.
func TestRestoredReadModelCatchesUp(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	running := w.start()
	e := w.newEdge("edge1")
	made, other := create(alice, text("first")), create(alice, text("other"))
	e.do(made, other)
	w.projected()
	w.stop(running)
	old := filepath.Join(w.folder, "old.db")
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(filepath.Join(w.folder, "views.db"+suffix))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(old+suffix, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	running = w.start()
	changed, gone := retitle(alice, made.Item, "new"), remove(alice, other.Item)
	e.do(changed, gone)
	w.projected()
	w.stop(running)

	restored := &flakyViews{Store: w.openViews(old)}
	w.await(w.launch(restored))
	if a := w.get(alice, made.Item); a.Document.GetTitle() != "new" || a.Document.Version != 2 {
		t.Errorf("changed: %v", a)
	}
	if a := w.get(alice, other.Item); a.Status != event.OutcomeStatus_NOT_FOUND {
		t.Errorf("deleted: %v", a)
	}
	w.settlementsOf(made, other, changed, gone)
}

func TestCommitOfUnknownOutcomeIsNotDoneTwice(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	running := w.start()
	e := w.newEdge("edge1")
	made := create(alice, text("x"))
	e.do(made)
	for n := range 5 {
		w.views.set(func() { w.views.lose = 1 })
		e.want(event.OutcomeStatus_OK, retitle(alice, made.Item, fmt.Sprint(n)))
		w.projected()
		eventually.NoError(t, "the partition waits for nothing", running.Unready)
	}
	if a := w.get(alice, made.Item); a.Document.Version != 6 || a.Document.Title != "4" {
		t.Errorf("reads %v", a)
	}
}

func TestFoldGoesOnWhileTheReadModelIsDown(t *testing.T) {
	for name, broken := range map[string]func(*flakyViews) (repair func()){
		"failing": func(f *flakyViews) func() {
			f.set(func() { f.fail = true })
			return func() { f.set(func() { f.fail = false }) }
		},
		"hanging": func(f *flakyViews) func() {
			hang := make(chan struct{})
			f.set(func() { f.hang = hang })
			return func() {
				f.set(func() { f.hang = nil })
				close(hang)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fold.Pastes())
			w.bounds.ViewWait, w.bounds.ReadWait = 50*time.Millisecond, 200*time.Millisecond
			w.bounds.OverlayMessages = 8
			running := w.start()
			e := w.newEdge("edge1")
			cold := create(alice, text("cold"))
			e.do(cold)
			w.projected()
			w.stop(running)
			w.start() // the document is in the read model alone
			repair := broken(w.views)

			var made []*event.Request
			for range 4 {
				r := create(alice, text("warm"))
				e.want(event.OutcomeStatus_OK, r)
				e.want(event.OutcomeStatus_OK, retitle(alice, r.Item, "new"))
				made = append(made, r)
			}
			for _, r := range made {
				if a := w.get(bob, r.Item); a.Document.GetTitle() != "new" {
					t.Errorf("of memory: %v", a)
				}
			}
			if a := w.get(alice, cold.Item); !a.Unavailable {
				t.Errorf("of the read model: %v", a)
			}
			request, err := event.Encode(&event.ListRequest{Account: alice, Limit: 10})
			if err != nil {
				t.Fatal(err)
			}
			_, err = rpc.Call(t.Context(), w.nc, w.policy.Domain.ListSubject(0), request)
			if refused := (*rpc.Error)(nil); !errors.As(err, &refused) || refused.Code != rpc.CodeUnavailable {
				t.Errorf("the list is answered %v", err)
			}
			late := create(alice, text("late")) // beyond the bound: it waits, and is not lost
			number := e.send(late)
			if o := e.outcome(number, 0); o != nil {
				t.Errorf("beyond the bound: %v", o)
			}
			repair()
			if o := e.wait(number, 1)[0]; o.Status != event.OutcomeStatus_OK {
				t.Errorf("after it is back: %v", o)
			}
			w.projected()
			if a := w.get(alice, cold.Item); string(a.Document.GetContent().GetInline()) != "cold" {
				t.Errorf("after it is back: %v", a)
			}
		})
	}
}

// With a fixed limit for each attempt none would ever succeed.
func TestAReadModelThatIsSlowerThanTheFirstAttemptIsWaitedFor(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	w.bounds.ViewWait = 20 * time.Millisecond
	w.views.needs = 100 * time.Millisecond
	running := w.start()
	e := w.newEdge("edge1")
	made := create(alice, text("x"))
	e.want(event.OutcomeStatus_OK, made)
	w.projected()
	w.stop(running)
	w.start() // and what is not in memory is loaded
	e.want(event.OutcomeStatus_OK, retitle(alice, made.Item, "new"))
	w.projected()
	if strings.Contains(w.log.String(), "partition is restarted") {
		t.Error("it has begun again, and not gone on")
	}
}

func TestAnEngineThatWaitsForItsReadModelSaysSo(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	w.views.fail = true
	waiting := w.launch(w.views)
	says := func(e *engine, texts ...string) {
		t.Helper()
		eventually.NoError(t, fmt.Sprintf("the reason has %q", texts), func() error {
			err := e.Unready()
			for _, text := range texts {
				if err == nil || !strings.Contains(err.Error(), text) {
					return fmt.Errorf("it has no %q: %w", text, err)
				}
			}
			return nil
		})
	}
	healthy := func(e *engine) {
		t.Helper()
		eventually.NoError(t, "nothing is wrong", e.Unready)
	}
	says(waiting, "partition 0 is catching up with its journal", "the read model does not load", "read checkpoint of PASTE_0")
	w.views.set(func() { w.views.fail = false })
	healthy(waiting)
	w.views.set(func() { w.views.fail = true })
	w.newEdge("edge1").want(event.OutcomeStatus_OK, create(alice, text("x"))) // decided, and not projected
	says(waiting, "partition 0: ", "the read model does not commit")
	w.views.set(func() { w.views.fail = false })
	healthy(waiting)
}

func TestJournalServerRestarts(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	running := w.start()
	e := w.newEdge("edge1")
	made := create(alice, text("x"))
	e.do(made)
	for n := range 3 {
		w.server.Restart(t)
		eventually.True(t, "the edge is connected and the journal is up", func() bool {
			_, err := journal.Open(w.nc, event.Paste.Stream(0)).LastSequence(t.Context())
			return err == nil
		})
		// Answers that are sent while the engine reconnects are lost; the repeated batch is answered.
		changed := keyed(retitle(alice, made.Item, fmt.Sprint(n)), fmt.Sprint(n), 1)
		data := e.encode(changed)
		e.store(data)
		next := time.Now()
		eventually.True(t, "the batch is answered", func() bool {
			if time.Now().After(next) {
				e.store(data)
				next = time.Now().Add(200 * time.Millisecond)
			}
			return e.outcome(e.number, 0) != nil
		})
	}
	eventually.True(t, "it serves", running.Serving)
	if a := w.get(alice, made.Item); a.Document.GetVersion() != 4 {
		t.Errorf("reads %v", a)
	}
}

// TestMessageOfManyLargeDocumentsIsOneCommit changes many large documents by one message. One
// document of MongoDB could not hold them.
func TestMessageOfManyLargeDocumentsIsOneCommit(t *testing.T) {
	for name, lose := range map[string]int{"undisturbed": 0, "its outcome is not known": 1} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fold.Pastes())
			running := w.start()
			e := w.newEdge("edge1")
			large := strings.Repeat("x", 60<<10)
			var items []string
			for range 12 {
				var batch []*event.Request
				for range 12 {
					r := create(alice, text(large))
					batch = append(batch, r)
					items = append(items, r.Item)
				}
				e.do(batch...)
			}
			w.projected()
			w.stop(running)
			running = w.start()
			w.views.set(func() { w.views.lose = lose })
			var changes []*event.Request
			for i, item := range items {
				changes = append(changes, keyed(retitle(alice, item, fmt.Sprint(i)), fmt.Sprint(i), 1))
			}
			gone := create(alice, text("y"))
			e.do(append(changes, gone, remove(alice, gone.Item))...) // 144 documents and versions of 60 KiB
			w.projected()
			w.stop(running)
			w.views.set(func() {
				if w.views.largest < views.MaxDocBytes {
					t.Errorf("the largest commit had %d bytes", w.views.largest)
				}
			})
			w.start()
			w.checkRetitled(items, len(large))
			if a := w.get(alice, gone.Item); a.Status != event.OutcomeStatus_NOT_FOUND {
				t.Errorf("deleted: %v", a)
			}
			if o := e.want(event.OutcomeStatus_OK, keyed(retitle(alice, items[3], "3"), "3", 1)); !o.Replayed {
				t.Errorf("its outcome was not kept: %v", o)
			}
			listed := w.list(&event.ListRequest{Account: alice, Limit: 1, TitleContains: "143"})
			if len(listed.Documents) != 1 {
				t.Errorf("listed: %v", listed)
			}
		})
	}
}

// checkRetitled holds that the i-th item is titled i, and was titled t before.
func (w *world) checkRetitled(items []string, size int) {
	w.t.Helper()
	var reads []*event.Read
	for _, item := range items {
		reads = append(reads, &event.Read{Item: item, Requester: alice}, &event.Read{Item: item, Requester: alice, Version: 1})
	}
	for i, a := range w.read(reads...) {
		want := fmt.Sprint(i / 2)
		if i%2 == 1 {
			want = "t"
		}
		if a.Document.GetTitle() != want || len(a.Document.GetContent().GetInline()) != size {
			w.t.Fatalf("read %d: %q of %d bytes", i, a.Document.GetTitle(), len(a.Document.GetContent().GetInline()))
		}
	}
}

func assignment(partitions ...int) <-chan []int {
	assigned := make(chan []int, 1)
	assigned <- partitions
	return assigned
}

func TestWrongPartitionCountIsRefused(t *testing.T) {
	w := newWorldOf(t, fold.Pastes(), 3)
	for name, cfg := range map[string]document.Config{
		"fewer": {PartitionCount: 2}, "more": {PartitionCount: 16}, "those that there are not": {PartitionCount: 16, Assigned: assignment(3, 15)},
	} {
		cfg.Policy = w.policy
		engine, err := document.New(cfg, document.Deps{NC: w.nc, Views: w.views, Blobs: w.blobs})
		if err != nil {
			t.Fatal(err)
		}
		if err := engine.Run(t.Context()); !errors.Is(err, journal.ErrPartitions) {
			t.Errorf("%s: it ended with %v, want ErrPartitions", name, err)
		}
	}
	for p := range 16 {
		_, err := journal.Open(w.nc, event.Paste.Stream(p)).LastSequence(t.Context())
		if exists := !errors.Is(err, journal.ErrNoStream); exists != (p < w.count) || exists && err != nil {
			t.Errorf("partition %d of %d: there is a stream: %t, %v", p, w.count, exists, err)
		}
	}
	for _, cfg := range []document.Config{
		{Policy: w.policy}, {Policy: fold.Policy{Domain: event.Billing}, PartitionCount: 1},
	} {
		if _, err := document.New(cfg, document.Deps{NC: w.nc, Views: w.views, Blobs: w.blobs}); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
}
