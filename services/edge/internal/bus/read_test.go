package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/rpc"
	"quire.dev/services/edge/internal/fault"
)

// serve answers one subject until the test ends.
func (w *world) serve(t *testing.T, subject string, handle func(payload []byte) (event.Message, error)) {
	t.Helper()
	s, err := rpc.Serve(w.nc, subject, "q", 4, func(_ context.Context, payload []byte) ([]byte, error) {
		m, err := handle(payload)
		if err != nil {
			return nil, err
		}
		return event.Encode(m)
	})
	if err != nil {
		t.Fatalf("serve %s: %v", subject, err)
	}
	t.Cleanup(func() { _ = s.Drain(context.Background()) }) // the connection may be gone
	if err := w.nc.Flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
}

// serveReads answers the reads of quick pastes, the last one of a batch first.
func (w *world) serveReads(t *testing.T, partitions int, answer func(partition int, r *event.Read) *event.ReadAnswer) {
	t.Helper()
	for p := range partitions {
		w.serve(t, event.Lite.ReadSubject(p), func(payload []byte) (event.Message, error) {
			var batch event.ReadBatch
			if err := event.Decode(payload, &batch); err != nil {
				return nil, err
			}
			answers := &event.ReadAnswerBatch{}
			for i, r := range slices.Backward(batch.Reads) {
				a := answer(p, r)
				a.Index = uint32(i)
				answers.Answers = append(answers.Answers, a)
			}
			return answers, nil
		})
	}
}

func TestReadsGoToThePartitionOfTheItemOrOfTheIdempotencyID(t *testing.T) {
	const partitions = 4
	w := newBareWorld(t, partitions)
	w.serveReads(t, partitions, func(p int, r *event.Read) *event.ReadAnswer {
		return &event.ReadAnswer{
			Status: event.OutcomeStatus_OK, Unavailable: r.Version == 13, Document: &event.Document{Id: r.Item, Title: fmt.Sprint(p)},
		}
	})
	b := w.bus(t, nil)
	var items []string
	var pending []*PendingRead
	for range 200 {
		items = append(items, event.NewItemID())
		pending = append(pending, b.StartRead(event.Lite, &event.Read{Item: items[len(items)-1]}, nil))
	}
	for i, p := range pending {
		a, err := p.Wait(t.Context())
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		if want := fmt.Sprint(event.ItemPartition(items[i], partitions)); a.Document.Id != items[i] || a.Document.Title != want {
			t.Fatalf("read of %s answered with %s by partition %s, want %s", items[i], a.Document.Id, a.Document.Title, want)
		}
	}
	id := event.NewIdempotencyID([]byte("a"), "POST", "/", "k")
	a, err := b.StartRead(event.Lite, &event.Read{IdempotencyId: id[:]}, nil).Wait(t.Context())
	if want := fmt.Sprint(event.Partition(id[:], partitions)); err != nil || a.Document.Title != want {
		t.Fatalf("outcome asked of partition %v, want %s: %v", a, want, err)
	}
	_, err = b.StartRead(event.Lite, &event.Read{Item: "x", Version: 13}, nil).Wait(t.Context())
	if fault.KindOf(err) != fault.Unavailable {
		t.Errorf("read without its read model: %v, want unavailable", err)
	}
}

// TestReadsOfTheSameProcessNeedNoMessage: a read that Shared.Reads does not answer is sent, as is one that it could not answer after all.
func TestReadsOfTheSameProcessNeedNoMessage(t *testing.T) {
	const partitions = 4
	w := newBareWorld(t, partitions)
	w.serveReads(t, partitions, func(_ int, r *event.Read) *event.ReadAnswer {
		return &event.ReadAnswer{Status: event.OutcomeStatus_OK, Document: &event.Document{Id: r.Item, Title: "sent"}}
	})
	b := w.bus(t, func(c *Config) {
		c.Offset = time.Hour
		c.Shared.Reads = func(d event.Domain, partition int, read *event.Read, after uint64, nowMS int64) *event.ReadAnswer {
			if d != event.Lite || partition != event.ItemPartition(read.Item, partitions) || after != 0 || nowMS < time.Now().Add(59*time.Minute).UnixMilli() {
				t.Errorf("asked for %v in %v, %d, after %d at %d", read, d, partition, after, nowMS)
			}
			answer := &event.ReadAnswer{Status: event.OutcomeStatus_OK, Document: &event.Document{Id: read.Item, Title: "at once"}}
			switch read.Version {
			case 1:
				return nil
			case 2:
				answer.Unavailable = true
			}
			return answer
		}
	})
	for version, want := range []string{"at once", "sent", "sent"} {
		a, err := b.StartRead(event.Lite, &event.Read{Item: event.NewItemID(), Version: uint64(version)}, nil).Wait(t.Context())
		if err != nil || a.Document.Title != want {
			t.Errorf("version %d is read as %v, %v; want it %s", version, a.Document, err, want)
		}
	}
}

func TestReadThatNobodyAnswersIsUnavailable(t *testing.T) {
	w := newBareWorld(t, 1)
	b := w.bus(t, func(c *Config) { c.ReadTimeout, c.AwayTimeout = 50*time.Millisecond, 200*time.Millisecond })
	if _, err := b.StartRead(event.File, &event.Read{Item: "x"}, nil).Wait(t.Context()); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("read: %v, want unavailable", err)
	}
	if _, err := b.List(t.Context(), event.File, &event.ListRequest{}); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("list: %v, want unavailable", err)
	}
}

// handing serves reads, lists and queries, and refuses the first ones.
func (w *world) handing(t *testing.T, refuse int64) (asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	w.serve(t, event.Paste.ReadSubject(0), func(payload []byte) (event.Message, error) {
		var batch event.ReadBatch
		if err := event.Decode(payload, &batch); err != nil {
			return nil, err
		}
		switch n := asked.Add(1); {
		case n > refuse:
		case n%2 == 0:
			return nil, &rpc.Error{Code: rpc.CodeUnavailable, Message: "it is behind"}
		default:
			return &event.ReadAnswerBatch{Answers: []*event.ReadAnswer{{Unavailable: true}}}, nil
		}
		return &event.ReadAnswerBatch{Answers: []*event.ReadAnswer{{Status: event.OutcomeStatus_OK, Document: &event.Document{Id: batch.Reads[0].Item}}}}, nil
	})
	w.serve(t, event.Paste.ListSubject(0), func([]byte) (event.Message, error) {
		if asked.Add(1) <= refuse {
			return nil, &rpc.Error{Code: rpc.CodeUnavailable, Message: "it is behind"}
		}
		return &event.ListAnswer{Documents: []*event.Document{{Id: "x"}}}, nil
	})
	w.serve(t, event.QuerySubject(0), func([]byte) (event.Message, error) {
		if asked.Add(1) <= refuse {
			return nil, &rpc.Error{Code: rpc.CodeUnavailable, Message: "no leader"}
		}
		return &event.QueryAnswer{Status: event.QueryStatus_QUERY_OK}, nil
	})
	return asked
}

// TestReadIsAskedAgainWhileItsPartitionMoves: an instance that can't answer any more, or not yet, refuses.
func TestReadIsAskedAgainWhileItsPartitionMoves(t *testing.T) {
	w := newBareWorld(t, 1)
	asked := w.handing(t, 3)
	b := w.bus(t, func(c *Config) { c.ReadTimeout = time.Minute })
	a, err := b.StartRead(event.Paste, &event.Read{Item: "x"}, nil).Wait(t.Context())
	if err != nil || a.Document.GetId() != "x" {
		t.Errorf("read: %v, %v", a, err)
	}
	asked.Store(0)
	if page, err := b.List(t.Context(), event.Paste, &event.ListRequest{}); err != nil || len(page.Documents) != 1 {
		t.Errorf("list: %v, %v", page, err)
	}
	asked.Store(0)
	if _, err := b.Query(t.Context(), 1, &event.Query{Query: &event.Query_Usage{Usage: &event.UsageQuery{}}}); err != nil {
		t.Errorf("query: %v", err)
	}
}

// TestReadThatIsRefusedToTheEndIsUnavailable: an instance that refuses for long has lost its store.
func TestReadThatIsRefusedToTheEndIsUnavailable(t *testing.T) {
	w := newBareWorld(t, 1)
	asked := w.handing(t, math.MaxInt64)
	b := w.bus(t, func(c *Config) {
		c.ReadTimeout, c.AwayTimeout, c.QueryTimeout = 200*time.Millisecond, time.Hour, time.Hour
	})
	if _, err := b.StartRead(event.Paste, &event.Read{Item: "x"}, nil).Wait(t.Context()); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("read: %v, want unavailable", err)
	}
	if n := asked.Load(); n < 2 {
		t.Errorf("asked %d times", n)
	}
	if _, err := b.List(t.Context(), event.Paste, &event.ListRequest{}); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("list: %v, want unavailable", err)
	}
	if _, err := b.Query(t.Context(), 1, &event.Query{}); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("query: %v, want unavailable", err)
	}
}

// silent takes the questions on a subject and never answers.
func (w *world) silent(t *testing.T, subject string) *nats.Subscription {
	t.Helper()
	sub, err := w.nc.Subscribe(subject, func(*nats.Msg) {})
	if err := errors.Join(err, w.nc.Flush()); err != nil {
		t.Fatal(err)
	}
	return sub
}

// TestReadWaitsForAPartitionToBeTakenOver: while nobody serves the partition, the bus waits longer than for one
// answer.
func TestReadWaitsForAPartitionToBeTakenOver(t *testing.T) {
	w := newBareWorld(t, 1)
	reads, lists := w.silent(t, event.Paste.ReadSubject(0)), w.silent(t, event.Paste.ListSubject(0))
	b := w.bus(t, func(c *Config) { c.ReadTimeout, c.AwayTimeout = 50*time.Millisecond, time.Minute })
	read, listed := make(chan error, 1), make(chan error, 1)
	go func() {
		a, err := b.StartRead(event.Paste, &event.Read{Item: "x"}, nil).Wait(t.Context())
		if err == nil && a.Document.GetId() != "x" {
			err = fmt.Errorf("answer %v", a)
		}
		read <- err
	}()
	go func() {
		_, err := b.List(t.Context(), event.Paste, &event.ListRequest{})
		listed <- err
	}()
	for _, asked := range []*nats.Subscription{reads, lists} {
		eventually.NoError(t, asked.Subject+" is asked again and again", func() error {
			n, err := asked.Delivered()
			if err == nil && n < 3 {
				err = fmt.Errorf("asked %d times", n)
			}
			return err
		})
		if err := asked.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
	}
	w.handing(t, 0)
	if err := <-read; err != nil {
		t.Errorf("read: %v", err)
	}
	if err := <-listed; err != nil {
		t.Errorf("list: %v", err)
	}
}

func TestReadEndsWithItsCaller(t *testing.T) {
	w := newBareWorld(t, 1)
	asked := w.handing(t, math.MaxInt64)
	b := w.bus(t, func(c *Config) { c.ReadTimeout = time.Hour })
	ctx, cancel := context.WithCancel(t.Context())
	pending := b.StartRead(event.Paste, &event.Read{Item: "x"}, nil)
	go func() {
		eventually.True(t, "it is asked again", func() bool { return asked.Load() > 1 })
		cancel()
	}()
	if _, err := pending.Wait(ctx); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("read: %v, want unavailable", err)
	}
}

// listed answers a page of docs, which are in ascending order. It looks at no more than scan of them.
func listed(docs []*event.Document, q *event.ListRequest, scan int) *event.ListAnswer {
	inOrder := slices.Clone(docs)
	if !q.Ascending {
		slices.Reverse(inOrder)
	}
	from := position{q.AfterPosition, q.AfterId}
	answer := &event.ListAnswer{}
	for _, d := range inOrder {
		c := positionOf(d).compare(from)
		if q.AfterId != "" && (c == 0 || (c > 0) != q.Ascending) {
			continue
		}
		if scan == 0 || len(answer.Documents) == int(q.Limit) {
			answer.More = true
			return answer
		}
		scan--
		answer.ScannedPosition, answer.ScannedId = d.ListPosition(), d.Id
		if q.Tag == "" || slices.Contains(d.Tags, q.Tag) {
			answer.Documents = append(answer.Documents, d)
		}
	}
	return answer
}

func TestPagesOfAllPartitionsMergeWithoutGapOrRepeat(t *testing.T) {
	const partitions = 4
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := newBareWorld(t, partitions)
		shelves := make([][]*event.Document, partitions)
		var want []string
		tag := []string{"", "odd"}[seed%2]
		ascending := seed%3 == 0
		for range 120 {
			// Few creation times, so that ids decide often.
			d := &event.Document{Id: event.NewItemID(), CreatedMs: 1 + random.Int64N(20)}
			if random.IntN(3) == 0 {
				d.Tags = []string{"odd"}
			}
			p := event.ItemPartition(d.Id, partitions)
			shelves[p] = append(shelves[p], d)
		}
		byPosition := func(a, b *event.Document) int {
			return cmp.Or(cmp.Compare(a.CreatedMs, b.CreatedMs), strings.Compare(a.Id, b.Id))
		}
		all := slices.Concat(shelves...)
		slices.SortFunc(all, byPosition)
		for _, d := range all {
			if tag == "" || len(d.Tags) > 0 {
				want = append(want, d.Id)
			}
		}
		if !ascending {
			slices.Reverse(want)
		}
		for p, shelf := range shelves {
			slices.SortFunc(shelf, byPosition)
			scan := 5 + random.IntN(20)
			w.serve(t, event.Paste.ListSubject(p), func(payload []byte) (event.Message, error) {
				var q event.ListRequest
				if err := event.Decode(payload, &q); err != nil {
					return nil, err
				}
				return listed(shelf, &q, scan), nil
			})
		}
		b := w.bus(t, nil)
		limit := 1 + random.IntN(15)
		if got := allPages(t, b.Bus, limit, ascending, tag); !slices.Equal(got, want) {
			t.Fatalf("seed %d, limit %d: %d documents, want %d\n%v\n%v", seed, limit, len(got), len(want), got, want)
		}
	}
}

func allPages(t *testing.T, b *Bus, limit int, ascending bool, tag string) (ids []string) {
	t.Helper()
	var after position
	for range 1000 {
		page, err := b.List(t.Context(), event.Paste, &event.ListRequest{
			Limit: uint32(limit), Ascending: ascending, AfterPosition: after.listed, AfterId: after.id, Tag: tag,
		})
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		if len(page.Documents) > limit {
			t.Fatalf("%d documents, limit %d", len(page.Documents), limit)
		}
		for _, d := range page.Documents {
			ids = append(ids, d.Id)
		}
		if !page.More {
			return ids
		}
		next := position{page.ScannedPosition, page.ScannedId}
		if next == after {
			t.Fatalf("the scan does not move on from %v", after)
		}
		after = next
	}
	t.Fatal("the list never ends")
	return nil
}
