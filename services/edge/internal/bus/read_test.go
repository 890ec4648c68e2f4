package bus

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/fault"
	"quire.dev/pkg/rpc"
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

func TestReadsGoToThePartitionOfTheItemOrOfTheIdempotencyID(t *testing.T) {
	const partitions = 4
	w := newBareWorld(t, partitions)
	for p := range partitions {
		w.serve(t, event.Lite.ReadSubject(p), func(payload []byte) (event.Message, error) {
			var batch event.ReadBatch
			if err := event.Decode(payload, &batch); err != nil {
				return nil, err
			}
			answers := &event.ReadAnswerBatch{}
			for i, r := range slices.Backward(batch.Reads) {
				answers.Answers = append(answers.Answers, &event.ReadAnswer{
					Index: uint32(i), Status: event.OutcomeStatus_OK, Unavailable: r.Version == 13,
					Document: &event.Document{Id: r.Item, Title: fmt.Sprint(p)},
				})
			}
			return answers, nil
		})
	}
	b := w.bus(t, nil)
	var items []string
	var pending []*PendingRead
	for range 200 {
		items = append(items, event.NewItemID())
		pending = append(pending, b.StartRead(event.Lite, &event.Read{Item: items[len(items)-1]}))
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
	a, err := b.StartRead(event.Lite, &event.Read{IdempotencyId: id[:]}).Wait(t.Context())
	if want := fmt.Sprint(event.Partition(id[:], partitions)); err != nil || a.Document.Title != want {
		t.Fatalf("outcome asked of partition %v, want %s: %v", a, want, err)
	}
	_, err = b.StartRead(event.Lite, &event.Read{Item: "x", Version: 13}).Wait(t.Context())
	if fault.KindOf(err) != fault.Unavailable {
		t.Errorf("read without its read model: %v, want unavailable", err)
	}
}

func TestReadThatNobodyAnswersIsUnavailable(t *testing.T) {
	w := newBareWorld(t, 1)
	b := w.bus(t, func(c *Config) { c.ReadTimeout = 100 * time.Millisecond })
	if _, err := b.StartRead(event.File, &event.Read{Item: "x"}).Wait(t.Context()); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("read: %v, want unavailable", err)
	}
	if _, err := b.List(t.Context(), event.File, &event.ListRequest{}); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("list: %v, want unavailable", err)
	}
}

// listed answers a page of docs, which are in ascending order, looking at no more than scan of them.
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
