package document_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/document"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
)

// rival is one of several replicas that all believe that partition 0 is theirs.
type rival struct {
	*engine
	views    *flakyViews
	assigned chan []int
}

// rival starts a replica of partition 0 and waits until it has caught up.
func (w *world) rival() *rival {
	w.t.Helper()
	r := &rival{views: &flakyViews{Store: w.views.Store}, assigned: make(chan []int, 1)}
	caughtUp := make(chan struct{})
	once := sync.OnceFunc(func() { close(caughtUp) })
	built, err := document.New(
		document.Config{Policy: w.policy, PartitionCount: w.count, Bounds: w.bounds, Assigned: r.assigned, Served: func(_ int, serving bool) {
			if serving {
				once()
			}
		}},
		document.Deps{NC: w.server.Conn(w.t), Views: r.views, Blobs: w.blobs, Logger: slog.New(slog.NewTextHandler(w.log, nil))},
	)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	r.engine = &engine{Engine: built, cancel: cancel, done: make(chan error, 1)}
	go func() { r.done <- built.Run(ctx) }()
	w.t.Cleanup(func() { w.stop(r.engine) })
	r.assigned <- []int{0}
	<-caughtUp
	return r
}

// watched is a document that one client changes while many read it.
type watched struct {
	w     *world
	item  string
	acked atomic.Uint64 // the last version whose write was answered
	shown atomic.Uint64 // the last version that a read has shown
	reads atomic.Int64
}

// read reads the document as an edge does. It fails the test if the answer is older than a write that was answered, or
// than another read that was answered, before this one began.
func (d *watched) read() {
	w := d.w
	acked, shown := d.acked.Load(), d.shown.Load()
	for {
		answers, err := w.tryRead(&event.ReadBatch{NowMs: time.Now().UnixMilli(), Reads: []*event.Read{{Item: d.item, Requester: alice}}})
		switch {
		case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrTimeout), err == nil && answers[0].Unavailable:
			if w.t.Context().Err() != nil {
				return
			}
			continue
		case err != nil:
			w.t.Errorf("read: %v", err)
			return
		}
		version := answers[0].Document.GetVersion()
		if version < acked || version < shown {
			w.t.Errorf("a read shows version %d; version %d was acknowledged and version %d was shown before it began", version, acked, shown)
		}
		for ; shown < version && !d.shown.CompareAndSwap(shown, version); shown = d.shown.Load() {
		}
		d.reads.Add(1)
		return
	}
}

// crowd reads the document until stop is called, which waits for the last reads.
func (d *watched) crowd(readers int) (stop func()) {
	var all sync.WaitGroup
	done := make(chan struct{})
	for range readers {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					d.read()
				}
			}
		})
	}
	return sync.OnceFunc(func() { close(done); all.Wait() })
}

// change updates the document and waits until the update is answered.
func (d *watched) change(e *edge) {
	d.w.t.Helper()
	o := e.want(event.OutcomeStatus_OK, retitle(alice, d.item, fmt.Sprint(d.acked.Load())))
	d.acked.Store(o.Version)
}

func (w *world) watch(e *edge) *watched {
	w.t.Helper()
	made := create(alice, text("x"))
	d := &watched{w: w, item: made.Item}
	d.acked.Store(e.want(event.OutcomeStatus_OK, made).Version)
	return d
}

// TestALateReplicaShowsNothingOld: the replica that answers reads stops folding, as if it were paused or its link were slow,
// while another one continues. It still has the document in memory, and accepts reads.
func TestALateReplicaShowsNothingOld(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	w.patience = 200 * time.Millisecond
	e := w.newEdge("edge1")
	first := w.rival()
	d := w.watch(e)
	d.read()
	d.change(e) // the first replica has it in memory

	stop := d.crowd(4)
	defer stop()
	second := w.rival()
	seen := d.reads.Load()
	eventually.True(t, "reads while both live", func() bool { return d.reads.Load() >= seen+8 })

	hang := make(chan struct{})
	first.views.set(func() { first.views.hang, first.views.hung = hang, make(chan struct{}, 100) })
	obstacle := keyed(create(alice, text("x")), "obstacle", 1) // its outcome is looked for in the read model
	e.send(obstacle)
	<-first.views.hung
	for range 3 {
		d.change(e)
		seen := d.reads.Load()
		eventually.True(t, "reads go on", func() bool { return d.reads.Load() >= seen+8 })
	}
	close(hang)
	for range 3 {
		d.change(e)
	}
	stop()
	w.stop(second.engine)
	d.change(e)
	d.read()
}
