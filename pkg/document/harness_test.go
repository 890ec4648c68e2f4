package document_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/document"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/document/sweep"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/views"
	"quire.dev/pkg/views/sqlite"
)

const (
	alice = uint64(1001)
	bob   = uint64(2002)
)

// world is a journal, a read model and a blob store, with engines that come and go.
type world struct {
	t        testing.TB
	server   *journaltest.Server
	nc       *nats.Conn // of the edges
	folder   string
	views    *flakyViews
	blobs    blob.Store
	clock    func() time.Time // of the engines; nil: the time of day
	policy   fold.Policy
	count    int // partitions
	bounds   document.Bounds
	offset   time.Duration
	assigned <-chan []int
	served   func(partition int, serving bool)
	log      *logBuffer
	patience time.Duration // of one read
}

func newWorld(t testing.TB, policy fold.Policy) *world {
	t.Helper()
	return newWorldOf(t, policy, 1)
}

func newWorldOf(t testing.TB, policy fold.Policy, count int) *world {
	t.Helper()
	w := newWorldWithoutBilling(t, policy, count)
	w.startBilling()
	return w
}

// startBilling creates the journals that settlements go to.
func (w *world) startBilling() { w.ensure(event.Billing) }

func (w *world) ensure(domain event.Domain) {
	w.t.Helper()
	var streams []journal.Stream
	for p := range w.count {
		streams = append(streams, journal.Stream{
			Domain: string(domain), Partition: p, Name: domain.Stream(p), Subjects: domain.Subjects(p), KeepForever: domain == event.Billing,
		})
	}
	if err := journal.Ensure(w.t.Context(), w.nc, streams, w.count); err != nil {
		w.t.Fatal(err)
	}
}

func newWorldWithoutBilling(t testing.TB, policy fold.Policy, count int) *world {
	t.Helper()
	w := &world{t: t, server: journaltest.Start(t), folder: t.TempDir(), policy: policy, count: count, log: &logBuffer{}, patience: 20 * time.Second}
	w.nc = w.server.Conn(t)
	w.bounds = document.Bounds{
		CommitDelay: time.Millisecond,
		Sweep: sweep.Bounds{
			Poll: 5 * time.Millisecond, ExpiryEvery: 10 * time.Millisecond, OutcomesEvery: 10 * time.Millisecond,
			OrphansEvery: 20 * time.Millisecond, PurgeEvery: 20 * time.Millisecond,
		},
	}
	w.ensure(policy.Domain)
	w.views = &flakyViews{Store: w.openViews(filepath.Join(w.folder, "views.db"))}
	blobs, err := disk.Open(filepath.Join(w.folder, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	w.blobs = blobs
	t.Cleanup(func() {
		if w.views.twice != nil {
			t.Errorf("said to be new more than once: %v", w.views.twice)
		}
		if t.Failed() {
			t.Logf("log of the engines:\n%s", w.log.String())
		}
	})
	return w
}

func (w *world) openViews(path string) views.Store {
	w.t.Helper()
	store, err := sqlite.Open(context.WithoutCancel(w.t.Context()), sqlite.Config{Path: path, Collections: document.Collections(w.policy.Domain), Synchronous: sqlite.Normal})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := store.Close(); err != nil {
			w.t.Errorf("close views: %v", err)
		}
	})
	return store
}

// engine is a running engine.
type engine struct {
	*document.Engine
	cancel context.CancelFunc
	done   chan error
}

// start runs an engine and waits until it serves.
func (w *world) start() *engine {
	w.t.Helper()
	e := w.launch(w.views)
	w.await(e)
	return e
}

func (w *world) await(e *engine) {
	w.t.Helper()
	eventually.True(w.t, "the engine serves", e.Serving)
}

func (w *world) launch(store views.Store) *engine {
	w.t.Helper()
	built, err := document.New(
		document.Config{Policy: w.policy, PartitionCount: w.count, Bounds: w.bounds, Offset: w.offset, Assigned: w.assigned, Served: w.served},
		document.Deps{NC: w.server.Conn(w.t), Views: store, Blobs: w.blobs, Clock: w.clock, Logger: slog.New(slog.NewTextHandler(w.log, nil))},
	)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	e := &engine{Engine: built, cancel: cancel, done: make(chan error, 1)}
	go func() { e.done <- built.Run(ctx) }()
	w.t.Cleanup(func() { w.stop(e) })
	return e
}

// stop ends an engine wherever it is. Decisions that it has not committed are lost.
func (w *world) stop(e *engine) {
	w.t.Helper()
	e.cancel()
	if err := <-e.done; err != nil {
		w.t.Errorf("the engine ended with %v", err)
	}
	e.done <- nil
}

// edge is one source of requests.
type edge struct {
	w      *world
	source string
	number uint64

	mu       sync.Mutex
	answers  map[[2]uint64]*event.Outcome // by number and index
	repeated int
	sequence uint64 // highest of an answer
}

func (w *world) newEdge(source string) *edge {
	w.t.Helper()
	e := &edge{w: w, source: source, answers: map[[2]uint64]*event.Outcome{}}
	_, err := w.nc.Subscribe(event.AnswerSubjects(source), func(m *nats.Msg) {
		batch := &event.OutcomeBatch{}
		if err := event.Decode(m.Data, batch); err != nil {
			w.t.Error(err)
			return
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.sequence = max(e.sequence, batch.Sequence)
		for _, o := range batch.Outcomes {
			key := [2]uint64{batch.Number, uint64(o.Index)}
			first := e.answers[key]
			if first == nil {
				e.answers[key] = o
				continue
			}
			e.repeated++
			if o.Status != first.Status || o.Version != first.Version || o.Replayed != first.Replayed {
				w.t.Errorf("one request is answered %v and %v", first, o)
			}
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// encode makes the next batch.
func (e *edge) encode(requests ...*event.Request) []byte {
	e.w.t.Helper()
	e.number++
	data, err := event.Encode(&event.RequestBatch{
		Source: e.source, Number: e.number, StampMs: time.Now().Add(e.w.offset).UnixMilli(),
		OffsetMs: e.w.offset.Milliseconds(), Requests: requests,
	})
	if err != nil {
		e.w.t.Fatal(err)
	}
	return data
}

// store appends a batch to the journal and waits until it is stored.
func (e *edge) store(data []byte) {
	e.w.t.Helper()
	e.storeAt(0, data)
}

func (e *edge) storeAt(partition int, data []byte) {
	e.w.t.Helper()
	m, err := e.w.nc.Request(e.w.policy.Domain.RequestSubject(partition), data, 10*time.Second)
	if err != nil {
		e.w.t.Fatalf("store a batch: %v", err)
	}
	if !strings.Contains(string(m.Data), `"seq"`) {
		e.w.t.Fatalf("store a batch: %s", m.Data)
	}
}

// send stores requests on items of one partition.
func (e *edge) send(requests ...*event.Request) uint64 {
	e.w.t.Helper()
	e.storeAt(event.ItemPartition(requests[0].Item, e.w.count), e.encode(requests...))
	return e.number
}

func (e *edge) outcome(number uint64, index int) *event.Outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.answers[[2]uint64{number, uint64(index)}]
}

// wait returns the outcomes of a batch of so many requests.
func (e *edge) wait(number uint64, count int) []*event.Outcome {
	e.w.t.Helper()
	outcomes := make([]*event.Outcome, count)
	for i := range outcomes {
		eventually.True(e.w.t, fmt.Sprintf("outcome %d of batch %d of %s", i, number, e.source), func() bool {
			outcomes[i] = e.outcome(number, i)
			return outcomes[i] != nil
		})
	}
	return outcomes
}

func (e *edge) do(requests ...*event.Request) []*event.Outcome {
	e.w.t.Helper()
	return e.wait(e.send(requests...), len(requests))
}

func (e *edge) want(status event.OutcomeStatus, r *event.Request) *event.Outcome {
	e.w.t.Helper()
	o := e.do(r)[0]
	if o.Status != status {
		e.w.t.Fatalf("%T of %s: %v, want %v", r.Action, r.Item, o.Status, status)
	}
	return o
}

// asked is a metered request by an account.
func asked(account uint64, item string) *event.Request {
	id := event.NewRequestID()
	return &event.Request{RequestId: id[:], Item: item, Account: account, Charge: &event.Charge{Account: account, QuotaKey: 1, Remaining: 9}}
}

func create(account uint64, d *event.Document) *event.Request {
	r := asked(account, event.NewItemID())
	d.Owner = account
	if d.Visibility == 0 {
		d.Visibility = uint32(event.Unlisted)
	}
	r.Action = &event.Request_Create{Create: &event.Create{Document: d}}
	return r
}

func text(s string) *event.Document {
	return &event.Document{Title: "t", Language: "go", Content: &event.Content{Inline: []byte(s), SizeBytes: uint64(len(s))}}
}

func update(account uint64, item string, u *event.Update) *event.Request {
	r := asked(account, item)
	r.Action = &event.Request_Update{Update: u}
	return r
}

func retitle(account uint64, item, title string) *event.Request {
	return update(account, item, &event.Update{Title: &title})
}

func remove(account uint64, item string) *event.Request {
	r := asked(account, item)
	r.Action = &event.Request_Delete{Delete: &event.Delete{}}
	return r
}

func burn(account uint64, item string, version uint64) *event.Request {
	r := asked(account, item)
	r.Action = &event.Request_Burn{Burn: &event.Burn{Version: version}}
	return r
}

func keyed(r *event.Request, key string, body uint64) *event.Request {
	id := event.NewIdempotencyID([]byte("scope"), "POST", "/", key)
	r.IdempotencyId, r.BodyHash = id[:], body
	return r
}

// read sends all reads in one batch and returns the answers by position.
func (w *world) read(reads ...*event.Read) []*event.ReadAnswer {
	w.t.Helper()
	return w.readAfter(0, reads...)
}

func (w *world) readAfter(sequence uint64, reads ...*event.Read) []*event.ReadAnswer {
	w.t.Helper()
	answers, err := w.tryRead(&event.ReadBatch{NowMs: time.Now().Add(w.offset).UnixMilli(), Reads: reads, AfterSequence: sequence})
	if err != nil {
		w.t.Fatalf("read: %v", err)
	}
	return answers
}

func (w *world) tryRead(request *event.ReadBatch) ([]*event.ReadAnswer, error) {
	w.t.Helper()
	reads := request.Reads
	inbox := w.nc.NewInbox()
	sub, err := w.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	data, err := event.Encode(request)
	if err != nil {
		return nil, err
	}
	partition := event.ItemPartition(reads[0].Item, w.count)
	if err := w.nc.PublishRequest(w.policy.Domain.ReadSubject(partition), inbox, data); err != nil {
		return nil, err
	}
	answers := make([]*event.ReadAnswer, len(reads))
	for left := len(reads); left > 0; {
		m, err := sub.NextMsg(w.patience)
		if err != nil {
			return nil, err
		}
		if len(m.Data) > 900<<10 {
			w.t.Errorf("an answer of %d bytes", len(m.Data))
		}
		batch := &event.ReadAnswerBatch{}
		if err := event.Decode(m.Data, batch); err != nil {
			return nil, err
		}
		for _, a := range batch.Answers {
			if answers[a.Index] == nil {
				left--
			}
			answers[a.Index] = a
		}
	}
	return answers, nil
}

func (w *world) get(account uint64, item string) *event.ReadAnswer {
	w.t.Helper()
	return w.read(&event.Read{Item: item, Requester: account})[0]
}

func (w *world) list(r *event.ListRequest) *event.ListAnswer {
	w.t.Helper()
	if r.NowMs == 0 {
		r.NowMs = time.Now().Add(w.offset).UnixMilli()
	}
	data, err := event.Encode(r)
	if err != nil {
		w.t.Fatal(err)
	}
	reply, err := rpc.Call(w.t.Context(), w.nc, w.policy.Domain.ListSubject(0), data)
	if err != nil {
		w.t.Fatal(err)
	}
	answer := &event.ListAnswer{}
	if err := event.Decode(reply, answer); err != nil {
		w.t.Fatal(err)
	}
	return answer
}

// settled are the settlements in the billing journals, each one once, by source and sequence.
func (w *world) settled() []*event.Settlement {
	w.t.Helper()
	var all []*event.Settlement
	for p := range w.count {
		all = append(all, w.settledIn(p)...)
	}
	return all
}

func (w *world) settledIn(partition int) []*event.Settlement {
	w.t.Helper()
	billing := journal.Open(w.nc, event.Billing.Stream(partition))
	last, err := billing.LastSequence(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	var all []*event.Settlement
	marks := map[string]uint64{}
	err = billing.Replay(w.t.Context(), 0, last, func(m journal.Message) error {
		if m.Subject == event.PricesSubject(partition) {
			return nil
		}
		batch := &event.UsageBatch{}
		if err := event.Decode(m.Data, batch); err != nil {
			return err
		}
		mark := marks[batch.Source]
		for _, s := range batch.Settlements {
			if s.Sequence > mark {
				all = append(all, s)
				marks[batch.Source] = max(marks[batch.Source], s.Sequence)
			}
		}
		return nil
	}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// settlementsOf waits until each of the requests is settled, and fails if one is settled twice.
func (w *world) settlementsOf(requests ...*event.Request) map[string]*event.Settlement {
	w.t.Helper()
	var by map[string]*event.Settlement
	eventually.True(w.t, "all requests are settled", func() bool {
		by = map[string]*event.Settlement{}
		for _, s := range w.settled() {
			if len(s.RequestId) == 0 {
				continue
			}
			if by[string(s.RequestId)] != nil {
				w.t.Fatalf("settled twice: %v and %v", by[string(s.RequestId)], s)
			}
			by[string(s.RequestId)] = s
		}
		for _, r := range requests {
			if by[string(r.RequestId)] == nil {
				return false
			}
		}
		return true
	})
	return by
}

// projected waits until the read model holds the decisions on all messages.
func (w *world) projected() {
	w.t.Helper()
	j := journal.Open(w.nc, w.policy.Domain.Stream(0))
	eventually.True(w.t, "the read model has caught up", func() bool {
		last, err := j.LastSequence(w.t.Context())
		if err != nil {
			return false
		}
		checkpoint, err := w.views.Store.Checkpoint(w.t.Context(), w.policy.Domain.Stream(0))
		return err == nil && checkpoint >= last
	})
}

func (w *world) putBlob(item, name, content string) string {
	w.t.Helper()
	key := fmt.Sprintf("%s/0/%s/%s", w.policy.Domain, item, name)
	if _, err := w.blobs.Put(w.t.Context(), key, strings.NewReader(content), int64(len(content))); err != nil {
		w.t.Fatal(err)
	}
	return key
}

func (w *world) hasBlob(key string) bool {
	w.t.Helper()
	r, _, err := w.blobs.Get(w.t.Context(), key, 0, -1)
	if err != nil {
		return false
	}
	defer func() { _ = r.Close() }()
	_, err = io.ReadAll(r)
	return err == nil
}
