package document_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/document"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/members"
	"quire.dev/pkg/rpc"
)

// sharing is an engine that folds its share, like a separate process.
type sharing struct {
	w        *world
	instance string
	engine   *document.Engine
	nc       *nats.Conn
	views    *flakyViews
	leave    context.CancelFunc
	ended    chan struct{}
	err      error // once ended is closed

	mu     sync.Mutex
	served map[int]bool
}

func (w *world) share(instance string) *sharing {
	w.t.Helper()
	s := &sharing{
		w: w, instance: instance, nc: w.server.Conn(w.t), views: &flakyViews{Store: w.views.Store},
		ended: make(chan struct{}), served: map[int]bool{},
	}
	if err := members.Ensure(w.t.Context(), s.nc, members.Config{}); err != nil {
		w.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(w.log, nil)).With("instance", instance)
	member := members.New(s.nc, members.Config{
		Service: string(w.policy.Domain), Instance: instance, Partitions: w.count,
		TTL: 1500 * time.Millisecond, Heartbeat: 200 * time.Millisecond, Logger: log,
	})
	var err error
	s.engine, err = document.New(
		document.Config{Policy: w.policy, PartitionCount: w.count, Bounds: w.bounds, Assigned: member.Assigned(), Served: func(p int, serving bool) {
			s.note(p, serving)
			member.Serving(p, serving)
		}},
		document.Deps{NC: s.nc, Views: s.views, Blobs: w.blobs, Logger: log},
	)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	s.leave = cancel
	go func() {
		defer close(s.ended)
		s.err = member.Host(ctx, s.engine.Run)
	}()
	w.t.Cleanup(func() {
		cancel()
		<-s.ended
	})
	return s
}

func (s *sharing) note(partition int, serving bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if serving {
		s.served[partition] = true
	} else {
		delete(s.served, partition)
	}
}

func (s *sharing) serves() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.served))
}

// kill ends it without telling the others, and without committing the rest.
func (s *sharing) kill() {
	s.w.t.Helper()
	s.views.set(func() { s.views.fail = true })
	s.nc.Close()
	<-s.ended
	if !errors.Is(s.err, nats.ErrConnectionClosed) {
		s.w.t.Fatalf("ended with %v", s.err)
	}
}

// waitShared waits until each partition is served by its owner among these, and by no other.
func (w *world) waitShared(all ...*sharing) {
	w.t.Helper()
	var names []string
	for _, s := range all {
		names = append(names, s.instance)
	}
	want := map[string][]int{}
	for p := range w.count {
		owner := members.Owners(names, p, 1)[0]
		want[owner] = append(want[owner], p)
	}
	eventually.True(w.t, fmt.Sprintf("partitions are shared as %v", want), func() bool {
		for _, s := range all {
			if !slices.Equal(s.serves(), want[s.instance]) || !s.engine.Serving() {
				return false
			}
		}
		return true
	})
}

// sent are requests that wait for their outcomes.
type sent map[uint64]*event.Request

func (s sent) add(e *edge, r *event.Request) { s[e.send(r)] = r }

func (s sent) wait(e *edge) {
	e.w.t.Helper()
	for number, r := range s {
		if o := e.wait(number, 1)[0]; o.Status != event.OutcomeStatus_OK {
			e.w.t.Fatalf("%T of %s: %v", r.Action, r.Item, o)
		}
	}
}

// TestSharedPartitionsAreTakenOver: each request is decided once and answered while instances join, die and leave.
func TestSharedPartitionsAreTakenOver(t *testing.T) {
	w := newWorldOf(t, fold.Pastes(), 4)
	// These instances are named so that any two of them have two of the four partitions each.
	a, b := w.share("i-1"), w.share("i-2")
	w.waitShared(a, b)
	e := w.newEdge("edge1")
	const batch = 30
	made := sent{}
	create30 := func() {
		for range batch {
			made.add(e, create(alice, text("x")))
		}
	}
	create30()
	made.wait(e)

	create30() // some of them are folded by b and not projected
	b.kill()
	create30()
	w.waitShared(a)
	made.wait(e)

	c := w.share("i-3")
	create30()
	w.waitShared(a, c)
	made.wait(e)

	var requests []*event.Request
	c.leave()
	for left := false; !left; {
		select {
		case <-c.ended:
			left = true
		default:
		}
		d := create(alice, text("x"))
		e := w.newEdge("edge-" + d.Item) // that knows of this partition only
		e.want(event.OutcomeStatus_OK, d)
		requests = append(requests, d)
		w.mustRead(d.Item, e.known())
	}
	if c.err != nil {
		t.Fatalf("left with %v", c.err)
	}
	w.waitShared(a)

	changed := sent{}
	for _, r := range made {
		requests = append(requests, r)
		changed.add(e, retitle(alice, r.Item, "new"))
	}
	changed.wait(e)
	for _, r := range made {
		if d := w.get(alice, r.Item).Document; d.GetVersion() != 2 || d.GetTitle() != "new" {
			t.Errorf("%s is %v after one change", r.Item, d)
		}
	}
	for _, r := range changed {
		requests = append(requests, r)
	}
	w.settlementsOf(requests...) // each once
}

// known is the sequence up to which the edge knows the journal to be folded.
func (e *edge) known() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sequence
}

// mustRead reads as an edge does: it asks again while no replica listens, or one refuses that begins again or stops.
func (w *world) mustRead(item string, after uint64) {
	w.t.Helper()
	eventually.True(w.t, "an answer about "+item, func() bool {
		answers, err := w.tryRead(&event.ReadBatch{NowMs: time.Now().UnixMilli(), Reads: []*event.Read{{Item: item, Requester: alice}}, AfterSequence: after})
		if errors.Is(err, nats.ErrNoResponders) || err == nil && answers[0].Unavailable {
			return false
		}
		if err != nil || answers[0].Status != event.OutcomeStatus_OK {
			w.t.Fatalf("read %s: %v, %v", item, answers, err)
		}
		return true
	})
}

// TestAReplicaThatBeginsAgainRefusesItsReads holds that an edge need not wait until its time is over to ask again.
func TestAReplicaThatBeginsAgainRefusesItsReads(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	w.bounds.ReadWait = time.Hour
	slow := w.share("i-1")
	w.waitShared(slow)
	hang, commits := make(chan struct{}), make(chan struct{}, 1)
	slow.views.set(func() { slow.views.hang, slow.views.commits = hang, commits })
	e := w.newEdge("edge1")
	made := create(alice, text("x"))
	e.want(event.OutcomeStatus_OK, made) // it is folded, but can't be projected
	<-commits
	j := journal.Open(w.nc, w.policy.Domain.Stream(0))
	end := func() uint64 {
		last, err := j.LastSequence(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return last
	}
	before := end()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	answered := make(chan error, 1)
	batch := &event.ReadAnswerBatch{}
	go func() {
		data, err := event.Encode(&event.ReadBatch{
			NowMs: time.Now().UnixMilli(), AfterSequence: before + 1000, Reads: []*event.Read{{Item: made.Item, Requester: alice}},
		})
		if err == nil {
			data, err = rpc.Call(ctx, w.nc, w.policy.Domain.ReadSubject(0), data)
		}
		if err == nil {
			err = event.Decode(data, batch)
		}
		answered <- err
	}()
	eventually.True(t, "the read waits for its message", func() bool { return end() > before }) // it has asked for a lease
	w.start()
	e.want(event.OutcomeStatus_OK, create(alice, text("y")))
	w.projected()
	close(hang)
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	if len(batch.Answers) != 1 || !batch.Answers[0].Unavailable {
		t.Errorf("answered with %v", batch.Answers)
	}
}

// TestAStopAnswersTheReadsItHasTaken has them wait for the read model.
func TestAStopAnswersTheReadsItHasTaken(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	first := w.start()
	made := create(alice, text("x"))
	w.newEdge("edge1").want(event.OutcomeStatus_OK, made)
	w.projected()
	w.stop(first)

	served := make(chan bool, 10)
	w.served = func(_ int, serving bool) { served <- serving }
	second := w.start() // it has nothing in memory
	<-served
	hang := make(chan struct{})
	w.views.set(func() { w.views.hang, w.views.hung = hang, make(chan struct{}, 100) })
	inbox := w.nc.NewInbox()
	sub, err := w.nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	data, err := event.Encode(&event.ReadBatch{NowMs: time.Now().UnixMilli(), Reads: []*event.Read{{Item: made.Item, Requester: alice}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.nc.PublishRequest(w.policy.Domain.ReadSubject(0), inbox, data); err != nil {
		t.Fatal(err)
	}
	<-w.views.hung
	second.cancel()
	if <-served {
		t.Fatal("it serves while it stops")
	}
	close(hang)
	m, err := sub.NextMsg(20 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	batch := &event.ReadAnswerBatch{}
	if err := event.Decode(m.Data, batch); err != nil {
		t.Fatal(err)
	}
	if a := batch.Answers[0]; a.Unavailable || a.Status != event.OutcomeStatus_OK || a.Document == nil {
		t.Errorf("answered with %v", a)
	}
}
