package document_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
)

func TestLifeOfADocument(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	w.start()
	e := w.newEdge("edge1")

	made := create(alice, text("first"))
	o := e.want(event.OutcomeStatus_OK, made)
	if o.Version != 1 || o.Remaining != 9 || o.CreatedMs == 0 || o.Owner != alice {
		t.Errorf("created: %v", o)
	}
	if a := w.get(bob, made.Item); a.Status != event.OutcomeStatus_OK || string(a.Document.Content.Inline) != "first" || a.Document.Version != 1 {
		t.Errorf("read: %v", a)
	}
	secondText := update(alice, made.Item, &event.Update{Content: &event.Content{Inline: []byte("second"), SizeBytes: 6}})
	if o := e.want(event.OutcomeStatus_OK, secondText); o.Version != 2 {
		t.Errorf("updated: %v", o)
	}
	foreign := retitle(bob, made.Item, "x")
	e.want(event.OutcomeStatus_NOT_OWNER, foreign)
	if !slices.ContainsFunc(w.settled(), func(s *event.Settlement) bool { return string(s.RequestId) == string(foreign.RequestId) }) {
		t.Error("a failure is answered before its admission is given back")
	}

	for range 2 { // from memory, and from the read model
		answers := w.read(
			&event.Read{Item: made.Item, Requester: alice},
			&event.Read{Item: made.Item, Requester: alice, Version: 1},
			&event.Read{Item: made.Item, Requester: bob, Version: 1},
			&event.Read{Item: made.Item, Requester: bob, Version: 2},
			&event.Read{Item: made.Item, Requester: alice, Version: 3},
			&event.Read{Item: made.Item, Requester: bob, WithoutContent: true},
			&event.Read{Item: event.NewItemID(), Requester: bob},
			&event.Read{Item: "no id/at all", Requester: bob},
		)
		got := ""
		for _, a := range answers {
			got += fmt.Sprintf("%v %d %q; ", a.Status, a.Document.GetVersion(), a.Document.GetContent().GetInline())
		}
		want := `OK 2 "second"; OK 1 "first"; NOT_FOUND 0 ""; OK 2 "second"; NOT_FOUND 0 ""; OK 2 ""; NOT_FOUND 0 ""; NOT_FOUND 0 ""; `
		if got != want {
			t.Errorf("read %s\nwant %s", got, want)
		}
		w.projected()
	}

	gone := remove(alice, made.Item)
	e.want(event.OutcomeStatus_OK, gone)
	again := remove(alice, made.Item)
	e.want(event.OutcomeStatus_NOT_FOUND, again)
	w.projected()
	for _, r := range []*event.Read{{Item: made.Item, Requester: alice}, {Item: made.Item, Requester: alice, Version: 1}} {
		if a := w.read(r)[0]; a.Status != event.OutcomeStatus_NOT_FOUND {
			t.Errorf("deleted and read: %v", a)
		}
	}
	docs, err := w.views.Store.Load(t.Context(), "paste_versions", []string{made.Item + "/1"}, 0)
	if err != nil || len(docs) != 0 {
		t.Errorf("an earlier version is still there: %v, %v", docs, err)
	}
	by := w.settlementsOf(made, secondText, foreign, gone, again)
	for r, want := range map[*event.Request]event.Result{
		made: event.Result_SERVED, secondText: event.Result_SERVED, foreign: event.Result_VOID, gone: event.Result_SERVED, again: event.Result_VOID,
	} {
		if s := by[string(r.RequestId)]; s.Result != want || s.Failed != (want == event.Result_VOID) || s.Account != r.Account || s.Sequence == 0 {
			t.Errorf("%T: settled %v", r.Action, s)
		}
	}
	if strings.Contains(w.log.String(), "second") {
		t.Error("content is in the log")
	}
}

// TestOnlyCreatesAreSaidToBeNew: a read model need not look for a document that a create makes, also where the same commit
// changes it again. All tests of this package check that nothing is said to be new twice.
func TestOnlyCreatesAreSaidToBeNew(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	w.start()
	edge := w.newEdge("edge1")
	made := create(alice, text("one"))
	changed := create(alice, text("two"))
	edge.do(changed, retitle(alice, changed.Item, "changed at once"))
	edge.do(made)
	w.projected()
	edge.do(retitle(alice, made.Item, "changed later"))
	w.projected()
	w.views.set(func() {
		want := map[string]bool{
			"paste " + made.Item: true, "paste " + changed.Item: true, "paste_versions " + made.Item + "/1": false, "paste_versions " + changed.Item + "/1": false,
		}
		for id, isNew := range want {
			if got, ok := w.views.put[id]; !ok || got != isNew {
				t.Errorf("%s: put %t, said to be new %t", id, ok, got)
			}
		}
	})
}

// TestRestartAnywhere ends the engine again and again while edges write, without letting it finish anything, and compares
// the result with a naive model.
func TestRestartAnywhere(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	w.bounds.CommitMessages = 3 // so that a stop comes between commits
	e := w.newEdge("edge1")
	var requests []*event.Request
	var numbers []uint64
	send := func(rs ...*event.Request) {
		numbers = append(numbers, e.send(rs...))
		requests = append(requests, rs...)
	}
	type expected struct {
		title   string
		version uint64
	}
	want := map[string]expected{}
	for round := range 6 {
		running := w.launch(w.views)
		for i := range 12 {
			made := create(alice, text(fmt.Sprintf("%d/%d", round, i)))
			send(made)
			want[made.Item] = expected{title: "t", version: 1}
			for n := range i % 4 {
				title := fmt.Sprintf("title %d", n)
				send(retitle(alice, made.Item, title), retitle(bob, made.Item, "stolen"))
				want[made.Item] = expected{title: title, version: uint64(n + 2)}
			}
			if i%5 == 4 {
				send(remove(alice, made.Item), remove(alice, made.Item))
				delete(want, made.Item)
			}
		}
		if round%2 == 0 { // otherwise it may not even have begun
			e.wait(numbers[len(numbers)-3-round], 1)
		}
		w.stop(running)
	}
	w.start()
	for _, r := range requests {
		if r.GetCreate() == nil {
			continue
		}
		a := w.get(alice, r.Item)
		x, exists := want[r.Item]
		if exists != (a.Status == event.OutcomeStatus_OK) || exists && (a.Document.Title != x.title || a.Document.Version != x.version) {
			t.Errorf("%s: %v, want %v", r.Item, a, x)
		}
		for v := range x.version {
			if v > 0 {
				if a := w.read(&event.Read{Item: r.Item, Requester: alice, Version: v})[0]; a.Document.GetVersion() != v {
					t.Errorf("version %d of %s: %v", v, r.Item, a)
				}
			}
		}
	}
	w.settlementsOf(requests...)
	for _, n := range numbers {
		e.wait(n, 1)
	}
}

func TestRepeatedBatchIsAnsweredAgainAndFoldedOnce(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	running := w.start()
	e := w.newEdge("edge1")
	made := create(alice, text("x"))
	e.do(made)
	lost := remove(bob, made.Item)
	data := e.encode(retitle(alice, made.Item, "new"), lost)
	e.store(data)
	e.wait(e.number, 2)
	e.mu.Lock()
	repeated := e.repeated
	e.mu.Unlock()
	e.store(data)
	eventually.True(t, "both are answered again", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.repeated == repeated+2
	})
	if a := w.get(alice, made.Item); a.Document.Version != 2 {
		t.Errorf("folded twice: %v", a.Document)
	}
	w.projected()
	w.stop(running)
	w.start()
	e.store(data) // the mark is still there after a restart
	e.want(event.OutcomeStatus_OK, retitle(alice, made.Item, "newer"))
	if a := w.get(alice, made.Item); a.Document.Version != 3 {
		t.Errorf("folded twice after a restart: %v", a.Document)
	}
	w.settlementsOf(made, lost)
}

func TestIdempotencyKeyAnswersForADay(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	running := w.start()
	e := w.newEdge("edge1")
	first := keyed(create(alice, text("x")), "k", 1)
	o := e.want(event.OutcomeStatus_OK, first)
	refused := keyed(remove(bob, first.Item), "r", 1)
	e.want(event.OutcomeStatus_NOT_OWNER, refused)

	again := func() {
		t.Helper()
		second := keyed(create(alice, text("x")), "k", 1)
		second.Charge.Remaining = 3
		r := e.want(event.OutcomeStatus_OK, second)
		if !r.Replayed || r.Item != first.Item || r.CreatedMs != o.CreatedMs || r.Remaining != 9 {
			t.Errorf("replayed %v, want %v", r, o)
		}
		other := keyed(create(alice, text("y")), "k", 2)
		e.want(event.OutcomeStatus_IDEMPOTENCY_MISMATCH, other)
		denied := keyed(remove(bob, first.Item), "r", 1)
		if r := e.want(event.OutcomeStatus_NOT_OWNER, denied); !r.Replayed {
			t.Errorf("a refusal was decided anew: %v", r)
		}
		by := w.settlementsOf(first, second, other, denied)
		if s := by[string(second.RequestId)]; s.Result != event.Result_VOID || s.Failed {
			t.Errorf("the replay is settled %v", s)
		}
		a := w.read(&event.Read{IdempotencyId: first.IdempotencyId}, &event.Read{IdempotencyId: []byte("0123456789abcdef")})
		if a[0].Status != event.OutcomeStatus_OK || a[0].Outcome.GetItem() != first.Item || a[0].Outcome.BodyHash != 1 || a[1].Status != event.OutcomeStatus_NOT_FOUND {
			t.Errorf("kept: %v", a)
		}
		if a := w.get(alice, second.Item); a.Status != event.OutcomeStatus_NOT_FOUND {
			t.Errorf("executed twice: %v", a)
		}
	}
	again()
	w.projected()
	again()
	w.stop(running)
	running = w.start()
	again()

	w.stop(running)
	w.offset = 24*time.Hour + time.Minute
	w.start()
	eventually.True(t, "kept outcomes are forgotten", func() bool {
		docs, err := w.views.Store.Load(t.Context(), "paste_outcomes", []string{fmt.Sprintf("%x", first.IdempotencyId)}, 0)
		return err == nil && len(docs) == 0
	})
	fresh := keyed(create(alice, text("x")), "k", 7)
	if r := e.want(event.OutcomeStatus_OK, fresh); r.Replayed {
		t.Errorf("after a day: %v", r)
	}
}

func TestLateRequestDoesNothing(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	w.start()
	e := w.newEdge("edge1")
	late := keyed(create(alice, text("x")), "k", 1)
	late.DeadlineMs = time.Now().UnixMilli() - 1
	e.want(event.OutcomeStatus_DEADLINE_EXCEEDED, late)
	if s := w.settlementsOf(late)[string(late.RequestId)]; s.Result != event.Result_VOID || s.Failed {
		t.Errorf("settled %v", s)
	}
	retry := keyed(create(alice, text("x")), "k", 1)
	if o := e.want(event.OutcomeStatus_OK, retry); o.Replayed {
		t.Errorf("tried again: %v", o)
	}
}

func TestBurnIsWonOnce(t *testing.T) {
	w := newWorld(t, fold.QuickPastes())
	w.start()
	made := create(alice, text("secret"))
	made.GetCreate().Document.BurnAfterRead = true
	w.newEdge("edge0").want(event.OutcomeStatus_OK, made)
	if a := w.get(bob, made.Item); a.Status != event.OutcomeStatus_OK || !a.Document.BurnAfterRead || len(a.Document.Content.Inline) > 0 {
		t.Errorf("before it is burned others see %v", a)
	}
	if a := w.get(alice, made.Item); string(a.Document.GetContent().GetInline()) != "secret" {
		t.Errorf("its owner sees %v", a)
	}
	const readers = 32
	edges := make([]*edge, readers)
	requests := make([]*event.Request, readers)
	for i := range edges {
		edges[i] = w.newEdge(fmt.Sprintf("burn%d", i))
		requests[i] = burn(bob, made.Item, 1)
	}
	done := make(chan *event.Outcome, readers)
	for i := range edges {
		data := edges[i].encode(requests[i])
		go func() {
			if err := w.nc.Publish(w.policy.Domain.RequestSubject(0), data); err != nil {
				t.Error(err)
			}
		}()
	}
	for i := range edges {
		go func() { done <- edges[i].wait(1, 1)[0] }()
	}
	won := 0
	for range readers {
		switch o := <-done; {
		case o.Status == event.OutcomeStatus_OK && string(o.Document.GetContent().GetInline()) == "secret":
			won++
		case o.Status != event.OutcomeStatus_NOT_FOUND || o.Document != nil:
			t.Errorf("lost with %v", o)
		}
	}
	if won != 1 {
		t.Errorf("%d have read it", won)
	}
	served := 0
	for _, s := range w.settlementsOf(requests...) {
		if s.Result == event.Result_SERVED && string(s.RequestId) != string(made.RequestId) {
			served++
		}
	}
	if served != 1 {
		t.Errorf("%d have paid", served)
	}
	if a := w.get(alice, made.Item); a.Status != event.OutcomeStatus_NOT_FOUND {
		t.Errorf("burned and read by its owner: %v", a)
	}
}

func TestKeylessDocumentsAreChangedByToken(t *testing.T) {
	w := newWorld(t, fold.QuickPastes())
	w.start()
	e := w.newEdge("edge1")
	made := create(0, text("x"))
	made.Charge = &event.Charge{Account: 55, QuotaKey: 8, Anonymous: true, Remaining: 9}
	made.GetCreate().Document.ManageTokenHash = []byte("token")
	e.want(event.OutcomeStatus_OK, made)
	change := func(token string) *event.Request {
		r := update(0, made.Item, &event.Update{Title: new("new"), ManageTokenHash: []byte(token)})
		r.Charge = nil
		return r
	}
	e.want(event.OutcomeStatus_INVALID_MANAGE_TOKEN, change("wrong"))
	e.want(event.OutcomeStatus_NOT_OWNER, retitle(alice, made.Item, "x"))
	if o := e.want(event.OutcomeStatus_OK, change("token")); o.Version != 2 || o.Remaining != -1 {
		t.Errorf("changed by token: %v", o)
	}
	if s := w.settlementsOf(made)[string(made.RequestId)]; !s.Anonymous || s.Account != 55 || s.Result != event.Result_SERVED {
		t.Errorf("settled %v", s)
	}
}

func TestPartitionsComeAndGo(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	assigned, served := make(chan []int), make(chan bool, 100)
	w.assigned, w.served = assigned, func(_ int, serving bool) { served <- serving }
	running := w.launch(w.views)
	e := w.newEdge("edge1")
	made := create(alice, text("x"))
	number := e.send(made)
	if running.Serving() || len(served) > 0 {
		t.Error("it serves what was not assigned")
	}
	assigned <- []int{0}
	e.wait(number, 1)
	if w.await(running); !<-served {
		t.Error("it did not tell that it serves")
	}
	assigned <- nil
	if <-served {
		t.Error("it serves what was taken away")
	}
	eventually.True(t, "an engine without a partition lacks nothing", running.Serving)
	changed := retitle(alice, made.Item, "new")
	number = e.send(changed)
	assigned <- []int{0}
	e.wait(number, 1)
	if w.await(running); !<-served {
		t.Error("it did not tell that it serves again")
	}
	if a := w.get(alice, made.Item); a.Document.GetVersion() != 2 {
		t.Errorf("reads %v", a)
	}
}

func TestAnEngineIsReadyOnlyWithAllOfItsFirstPartitions(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	assigned := make(chan []int)
	w.assigned = assigned
	running := w.launch(w.views)
	w.views.set(func() { w.views.fail = true })
	assigned <- []int{0, -1, 7} // partitions that do not exist are left out
	assigned <- []int{0}        // only 0 was left of the first set
	select {
	case <-running.Ready():
		t.Error("ready before its partition was served")
	default:
	}
	w.views.set(func() { w.views.fail = false })
	eventually.True(t, "the engine is ready", func() bool {
		select {
		case <-running.Ready():
			return true
		default:
			return false
		}
	})
}
