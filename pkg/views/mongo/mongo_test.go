package mongo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"

	"quire.dev/pkg/views"
	"quire.dev/pkg/views/viewstest"
)

const urlVariable = "QUIRE_MONGO_URL"

// serverConfig names a separate database on the server given by the
// environment.
func serverConfig(t *testing.T) Config {
	t.Helper()
	url := os.Getenv(urlVariable)
	if url == "" {
		t.Skipf("NOT TESTED AGAINST MONGODB: set %s, for example to mongodb://127.0.0.1:27017 after "+
			"docker run --rm -p 27017:27017 mongo:8", urlVariable)
	}
	return Config{
		URI:         url,
		Database:    "quire_test_" + strings.ToLower(rand.Text()[:12]),
		Collections: viewstest.Collections(),
		Timeout:     time.Minute,
	}
}

// open opens a store that the end of the test closes, and drops its database.
func open(t *testing.T, config Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), config)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func drop(t *testing.T, config Config) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		s, err := Open(ctx, config)
		if err != nil {
			t.Errorf("open to drop: %v", err)
			return
		}
		if err := errors.Join(s.db.Drop(ctx), s.Close()); err != nil {
			t.Errorf("drop %s: %v", config.Database, err)
		}
	})
}

func TestConformance(t *testing.T) {
	serverConfig(t) // skips all of it where there is no server
	viewstest.Run(t, func(t *testing.T) (views.Store, func() views.Store) {
		config := serverConfig(t)
		drop(t, config)
		store := open(t, config)
		return store, func() views.Store {
			if err := store.Close(); err != nil {
				t.Fatalf("close: %v", err)
			}
			store = open(t, config)
			return store
		}
	})
}

// cut does something after so many commands of a store, for example end its process.
type cut struct {
	mu   sync.Mutex
	left int
	then func()
}

func (c *cut) monitor() *event.CommandMonitor {
	return &event.CommandMonitor{Succeeded: func(context.Context, *event.CommandSucceededEvent) {
		c.mu.Lock()
		c.left--
		then := c.then
		if c.left != 0 {
			then = nil
		}
		c.mu.Unlock()
		if then != nil {
			then()
		}
	}}
}

func (c *cut) after(commands int, then func()) {
	c.mu.Lock()
	c.left, c.then = commands, then
	c.mu.Unlock()
}

// crash returns a context for a call that can send so many commands, at least one, as if the process
// died after them.
func (c *cut) crash(t *testing.T, commands int) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	c.after(commands, cancel)
	return ctx
}

func numbered(from, to uint64, count int) views.Batch {
	b := views.Batch{Stream: "s", From: from, To: to}
	for i := range count {
		b.Puts = append(b.Puts, views.Put{Collection: "items", Doc: views.Doc{
			ID: fmt.Sprintf("doc-%03d", i), Seq: to, Body: fmt.Appendf(nil, "at %d", to),
			Keys: views.Keys{{Name: "created", Value: views.Int(int64(i))}, {Name: "owner", Value: views.String("ann")}},
		}})
	}
	return b
}

// seqs returns how many documents of numbered stand at each sequence.
func seqs(t *testing.T, s *Store) map[uint64]int {
	t.Helper()
	docs, err := s.List(t.Context(), "items", views.Query{Index: "by_owner", Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	count := map[uint64]int{}
	for _, d := range docs {
		count[d.Seq]++
	}
	return count
}

func mustCheckpoint(t *testing.T, s *Store, want uint64) {
	t.Helper()
	if at, err := s.Checkpoint(t.Context(), "s"); err != nil || at != want {
		t.Fatalf("checkpoint is %d, %v; want %d", at, err, want)
	}
}

// smallRecords lets a document of the store record so many changes of numbered.
func smallRecords(s *Store, changes int) {
	s.recordBytes = changes * numbered(0, 10, 1).Puts[0].Doc.SizeBytes()
}

// sweepLater sweeps as another process whose clock is that far ahead.
func sweepLater(t *testing.T, config Config, ahead time.Duration) *Store {
	t.Helper()
	config.Now, config.monitor = func() time.Time { return time.Now().Add(ahead) }, nil
	s := open(t, config)
	if err := s.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	return s
}

// holdNothingLeft holds that a sweep hours later leaves no record of a batch.
func holdNothingLeft(t *testing.T, config Config) {
	t.Helper()
	s := sweepLater(t, config, 4*time.Hour)
	for _, name := range []string{looseCollection, chunkCollection} {
		if left, err := s.db.Collection(name).CountDocuments(t.Context(), bson.D{}); err != nil || left != 0 {
			t.Errorf("%d documents are left in %s, %v", left, name, err)
		}
	}
}

// TestCommitCutAnywhereIsAllOrNothing lets a process die after the first command of a commit, another
// after the second, and so on until one succeeds. The next process that reads the checkpoint, or opens
// the store, finds the batch before or all of this one.
func TestCommitCutAnywhereIsAllOrNothing(t *testing.T) {
	const count, chunk = 4*bulkLimit + 5, 2 * bulkLimit
	for name, c := range map[string]struct {
		stream string
		record int // documents
		want   []int
	}{
		"with a stream":           {"s", 2 * count, []int{0, bulkLimit, 2 * bulkLimit, 3 * bulkLimit, 4 * bulkLimit, count}},
		"without one":             {"", 2 * count, []int{0, bulkLimit, 2 * bulkLimit, 3 * bulkLimit, 4 * bulkLimit, count}},
		"large, with a stream":    {"s", chunk, []int{0, bulkLimit, chunk, 3 * bulkLimit, 2 * chunk, count}},
		"large, without a stream": {"", chunk, []int{0, bulkLimit, chunk, 3 * bulkLimit, 2 * chunk, count}},
	} {
		t.Run(name, func(t *testing.T) {
			config := serverConfig(t)
			drop(t, config)
			var half cut
			cutting := config
			cutting.monitor = half.monitor()
			s := open(t, cutting)
			if err := s.Commit(t.Context(), numbered(0, 1, count)); err != nil {
				t.Fatal(err)
			}
			smallRecords(s, c.record)
			before := uint64(1) // the sequence that all documents have
			written := map[int]bool{}
			for commands := 1; ; commands++ {
				b := numbered(before, before+1, count)
				b.Stream = c.stream
				err := s.Commit(half.crash(t, commands), b)
				if err != nil && !errors.Is(err, views.ErrUnavailable) {
					t.Fatalf("after %d commands: %v", commands, err)
				}
				written[seqs(t, s)[b.To]] = true
				other := open(t, config)
				if c.stream != "" {
					at, err := other.Checkpoint(t.Context(), c.stream)
					if err != nil {
						t.Fatal(err)
					}
					if got := seqs(t, other); got[at] != count {
						t.Fatalf("after %d commands: documents by sequence %v at checkpoint %d", commands, got, at)
					}
				}
				got := seqs(t, other)
				if got[before] != count && got[b.To] != count || err == nil && got[b.To] != count {
					t.Fatalf("after %d commands, %v: documents by sequence %v", commands, err, got)
				}
				if got[b.To] == count {
					before = b.To
				}
				if err == nil {
					break
				}
			}
			for _, n := range c.want {
				if !written[n] {
					t.Errorf("no commit was cut with %d documents written: %v", n, written)
				}
			}
			holdNothingLeft(t, config)
		})
	}
}

// TestALargeBatchThatConflictsLeavesNothing: its chunks are stored before the checkpoint is looked at.
func TestALargeBatchThatConflictsLeavesNothing(t *testing.T) {
	config := serverConfig(t)
	drop(t, config)
	s := open(t, config)
	smallRecords(s, 2)
	if err := s.Commit(t.Context(), numbered(0, 2, 5)); err != nil {
		t.Fatal(err)
	}
	for _, from := range []uint64{0, 1, 3} {
		if err := s.Commit(t.Context(), numbered(from, 4, 5)); !errors.Is(err, views.ErrConflict) {
			t.Errorf("commit from %d: %v, want ErrConflict", from, err)
		}
	}
	if left, err := s.chunks().CountDocuments(t.Context(), bson.D{}); err != nil || left != 0 {
		t.Errorf("%d chunks are left, %v", left, err)
	}
	if got := seqs(t, s); got[2] != 5 || len(got) != 1 {
		t.Errorf("documents by sequence: %v", got)
	}
}

// TestALargeBatchUnderWayIsDecidedOrGivenUp: other processes open the store and sweep while its writer pauses between two
// chunks. They leave its chunks alone for an hour, and after that while its stream can still move to it. A writer without a
// stream gives up early.
func TestALargeBatchUnderWayIsDecidedOrGivenUp(t *testing.T) {
	for _, c := range []struct {
		stream  string
		pause   time.Duration
		decided bool
	}{{"s", 20 * time.Minute, true}, {"s", 2 * time.Hour, true}, {"", 20 * time.Minute, true}, {"", 40 * time.Minute, false}, {"", 2 * time.Hour, false}} {
		t.Run(fmt.Sprintf("stream %q, %s", c.stream, c.pause), func(t *testing.T) {
			config := serverConfig(t)
			drop(t, config)
			var pause cut
			paused := config
			paused.monitor = pause.monitor()
			var ahead atomic.Int64
			paused.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			s := open(t, paused)
			smallRecords(s, 2)
			pause.after(1, func() { // a chunk is stored
				ahead.Store(int64(c.pause))
				sweepLater(t, config, c.pause)
			})
			b := numbered(0, 1, 5)
			b.Stream = c.stream
			if err := s.Commit(t.Context(), b); (err == nil) != c.decided || err != nil && !errors.Is(err, views.ErrUnavailable) {
				t.Errorf("commit: %v", err)
			}
			if got := seqs(t, s); (got[1] == 5) != c.decided || !c.decided && len(got) != 0 {
				t.Errorf("documents by sequence: %v", got)
			}
			holdNothingLeft(t, config)
		})
	}
}

// TestEveryAttemptAtALargeBatchGetsFurther, though each ends after the four commands that the look at the
// checkpoint and one chunk take.
func TestEveryAttemptAtALargeBatchGetsFurther(t *testing.T) {
	config := serverConfig(t)
	drop(t, config)
	var half cut
	config.monitor = half.monitor()
	s := open(t, config)
	smallRecords(s, 2)
	if err := s.Commit(half.crash(t, 4), numbered(0, 1, 6)); !errors.Is(err, views.ErrUnavailable) {
		t.Fatal(err) // three chunks and the checkpoint are stored
	}
	for chunks := 1; chunks <= 3; chunks++ {
		if _, err := s.Checkpoint(half.crash(t, 4), "s"); !errors.Is(err, views.ErrUnavailable) {
			t.Fatal(err)
		}
		if got := seqs(t, s); got[1] != 2*chunks {
			t.Fatalf("documents by sequence after attempt %d: %v", chunks, got)
		}
	}
	mustCheckpoint(t, s, 1)
	holdNothingLeft(t, config)
}

// TestCallsThatAreCutOffCompleteABatchTogether: with a server that answers few commands before a caller's deadline, each
// of many callers gets the batch further, and nothing is written twice.
func TestCallsThatAreCutOffCompleteABatchTogether(t *testing.T) {
	const count = 5*bulkLimit + 1
	config := serverConfig(t)
	drop(t, config)
	var half cut
	config.monitor = half.monitor()
	s := open(t, config)
	if err := s.Commit(half.crash(t, 1), numbered(0, 1, count)); !errors.Is(err, views.ErrUnavailable) {
		t.Fatal(err) // the checkpoint is moved
	}
	for parts := 1; parts <= 6; parts++ {
		// One command finds the checkpoint, one writes.
		if _, err := s.Checkpoint(half.crash(t, 2), "s"); !errors.Is(err, views.ErrUnavailable) {
			t.Fatal(err)
		}
		if got, want := seqs(t, s)[1], min(parts*bulkLimit, count); got != want {
			t.Fatalf("%d documents are written after attempt %d, want %d", got, parts, want)
		}
	}
	mustCheckpoint(t, s, 1)
	holdNothingLeft(t, config)
}

// TestCommitCompletesTheOneBefore, of which the checkpoint has moved and no document is written.
func TestCommitCompletesTheOneBefore(t *testing.T) {
	for record, commands := range map[int]int{10: 1, 1: 4} { // a large one has three chunks before
		config := serverConfig(t)
		drop(t, config)
		var half cut
		cutting := config
		cutting.monitor = half.monitor()
		s := open(t, cutting)
		smallRecords(s, record)
		if err := s.Commit(half.crash(t, commands), numbered(0, 1, 3)); !errors.Is(err, views.ErrUnavailable) {
			t.Fatal(err)
		}
		other := sweepLater(t, config, 2*time.Hour) // which keeps the chunks
		if err := other.Commit(t.Context(), numbered(0, 2, 1)); !errors.Is(err, views.ErrConflict) {
			t.Fatalf("commit from before the crash: %v, want ErrConflict", err)
		}
		if err := other.Commit(t.Context(), numbered(1, 2, 1)); err != nil {
			t.Fatal(err)
		}
		if got := seqs(t, other); got[1] != 2 || got[2] != 1 {
			t.Fatalf("documents by sequence: %v", got)
		}
		mustCheckpoint(t, other, 2)
		holdNothingLeft(t, config)
	}
}

func TestLateCompletionDoesNoHarm(t *testing.T) {
	config := serverConfig(t)
	drop(t, config)
	s := open(t, config)
	first := numbered(0, 1, 4)
	late, err := encodeRedo(changesOf(first, time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	second := numbered(1, 2, 2)
	second.Deletes = []views.Delete{{Collection: "items", ID: "doc-002", Seq: 2}}
	for _, b := range []views.Batch{first, second} {
		if err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.complete(t.Context(), checkpointDocument{Stream: "s", Seq: 1, Batch: record{Redo: late}}); err != nil {
		t.Fatalf("late completion: %v", err)
	}
	if got := seqs(t, s); got[1] != 1 || got[2] != 2 {
		t.Fatalf("documents by sequence: %v, want one at 1 (doc-003) and two at 2", got)
	}
	mustCheckpoint(t, s, 2)
}

// TestCrashedBatchWithoutStreamIsCompleted by a sweep after a minute or by the next Open, where no
// document of it is written.
func TestCrashedBatchWithoutStreamIsCompleted(t *testing.T) {
	for record, commands := range map[int]int{10: 1, 1: 4} { // a large one has three chunks before
		config := serverConfig(t)
		drop(t, config)
		var minutes atomic.Int64
		config.Now = func() time.Time { return time.Unix(1_800_000_000+60*minutes.Load(), 0) }
		var half cut
		cutting := config
		cutting.monitor = half.monitor()
		s := open(t, cutting)
		smallRecords(s, record)
		b := numbered(0, 1, 3)
		b.Stream = ""
		if err := s.Commit(half.crash(t, commands), b); !errors.Is(err, views.ErrUnavailable) {
			t.Fatal(err)
		}
		for minute, want := range []int{0, 3} {
			minutes.Store(int64(minute))
			if err := s.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := seqs(t, s); got[1] != want {
				t.Fatalf("documents by sequence after %d minutes: %v", minute, got)
			}
		}
		b = numbered(0, 2, 3)
		b.Stream = ""
		if err := s.Commit(half.crash(t, commands), b); !errors.Is(err, views.ErrUnavailable) {
			t.Fatal(err)
		}
		if got := seqs(t, s); got[1] != 3 {
			t.Fatalf("documents by sequence after the crash: %v", got)
		}
		if got := seqs(t, open(t, config)); got[2] != 3 {
			t.Fatalf("documents by sequence after the next open: %v", got)
		}
		holdNothingLeft(t, config)
	}
}

func TestDeletionsAreForgottenAfterAnHour(t *testing.T) {
	config := serverConfig(t)
	drop(t, config)
	var minutes atomic.Int64
	config.Now = func() time.Time { return time.Unix(1_800_000_000+60*minutes.Load(), 0) }
	s := open(t, config)
	b := numbered(0, 1, 3)
	for _, p := range b.Puts[:2] {
		b.Deletes = append(b.Deletes, views.Delete{Collection: "items", ID: p.Doc.ID, Seq: 1})
	}
	if err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		minute int64
		want   int64
	}{{0, 3}, {59, 3}, {61, 1}, {62, 1}} {
		minutes.Store(c.minute)
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		stored, err := s.db.Collection("items").CountDocuments(t.Context(), bson.D{})
		if err != nil || stored != c.want {
			t.Fatalf("minute %d: %d documents stored, %v; want %d", c.minute, stored, err, c.want)
		}
	}
	if got := seqs(t, s); got[1] != 1 {
		t.Fatalf("documents by sequence: %v", got)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	config := serverConfig(t)
	drop(t, config)
	s := open(t, config)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestUnreachableServerCostsTheDeadline(t *testing.T) {
	config := Config{URI: "mongodb://127.0.0.1:1", Database: "d", Timeout: 50 * time.Millisecond}
	_, err := Open(t.Context(), Config{URI: config.URI, Database: "d", Timeout: config.Timeout, Collections: viewstest.Collections()})
	if !errors.Is(err, views.ErrUnavailable) {
		t.Fatalf("open: %v, want ErrUnavailable", err)
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	for name, c := range map[string]Config{
		"no database": {URI: "mongodb://127.0.0.1:1"},
		"no URI":      {URI: "127.0.0.1", Database: "d"},
		"collections": {URI: "mongodb://127.0.0.1:1", Database: "d", Collections: []views.Collection{{Name: "_own"}}},
	} {
		if _, err := Open(t.Context(), c); !errors.Is(err, views.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

func TestRedoComesBackAsItWas(t *testing.T) {
	b := numbered(0, 7, 3)
	b.Puts[0].Doc.Head = []byte{0, 1, 2, 255}
	b.Puts[1].Doc.Keys = append(b.Puts[1].Doc.Keys, views.Key{Name: "end", Value: views.Int(-1 << 63)})
	b.Deletes = []views.Delete{{Collection: "plain", ID: "\u0000日", Seq: 1<<63 - 1}}
	now := time.Now()
	changes := changesOf(b, now)
	data, err := encodeRedo(changes)
	if err != nil {
		t.Fatal(err)
	}
	if size := b.SizeBytes(); len(data) > size {
		t.Errorf("%d bytes encoded, above the bound of %d", len(data), size)
	}
	decoded, err := decodeRedo(data)
	if err != nil {
		t.Fatal(err)
	}
	again, err := encodeRedo(decoded)
	if err != nil {
		t.Fatal(err)
	}
	if string(again) != string(data) || len(decoded) != 4 {
		t.Fatalf("got %v\nwant %v", decoded, changes)
	}
	declared := []string{"owner", "created", "end"}
	for i, p := range b.Puts {
		got, err := decoded[i].Document.doc(declared)
		if err != nil {
			t.Fatal(err)
		}
		want := p.Doc
		slices.SortFunc(want.Keys, func(a, b views.Key) int { return strings.Compare(a.Name, b.Name) })
		if fmt.Sprint(got.ID, got.Seq, got.Keys, got.Head, got.Body) != fmt.Sprint(want.ID, want.Seq, want.Keys, want.Head, want.Body) {
			t.Errorf("got %v\nwant %v", got, want)
		}
	}
	if last := decoded[3].Document; last.Gone == nil || last.ID != "\u0000日" || last.Seq != 1<<63-1 {
		t.Errorf("the deletion came back as %v", last)
	}
}

// The bound has to hold where overhead weighs most: many small changes.
func TestRedoOfSmallChangesStaysBelowItsBound(t *testing.T) {
	name := strings.Repeat("n", 48)
	var b views.Batch
	for i := range 20_000 {
		b.Puts = append(b.Puts, views.Put{Collection: name, Doc: views.Doc{
			ID: fmt.Sprint(i), Seq: 1, Head: []byte{1}, Body: []byte{1}, Keys: views.Keys{{Name: "k", Value: views.Int(1)}, {Name: "l", Value: views.String("")}},
		}})
		b.Deletes = append(b.Deletes, views.Delete{Collection: name, ID: fmt.Sprint("d", i), Seq: 1})
	}
	data, err := encodeRedo(changesOf(b, time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	if size := b.SizeBytes(); len(data) > size {
		t.Fatalf("%d bytes encoded, above the bound of %d", len(data), size)
	}
}

func TestGuardAgreesWithReplaces(t *testing.T) {
	gone := time.Unix(1, 0)
	older, same, newer := int64(4), int64(5), int64(6)
	for _, c := range []struct {
		stored     document
		put, erase bool // whether one at 5 replaces it
	}{
		{document{Seq: older}, true, true},
		{document{Seq: older, Gone: &gone}, true, true},
		{document{Seq: same}, true, true},
		{document{Seq: same, Gone: &gone}, false, true},
		{document{Seq: newer}, false, false},
		{document{Seq: newer, Gone: &gone}, false, false},
	} {
		put, erase := document{Seq: 5}, document{Seq: 5, Gone: &gone}
		if got := put.replaces(c.stored); got != c.put {
			t.Errorf("put over %+v: %t", c.stored, got)
		}
		if got := erase.replaces(c.stored); got != c.erase {
			t.Errorf("deletion over %+v: %t", c.stored, got)
		}
	}
}

func TestListAsksForOneRangeOfTheIndex(t *testing.T) {
	index := views.Index{Name: "i", Keys: []string{"a", "b", "c"}}
	typed := bson.D{{Key: "$type", Value: bson.A{"long", "string"}}}
	q := views.Query{
		Equal: []views.Value{views.String("x")}, Desc: true,
		After: []views.Value{views.Int(1), views.String("y")}, AfterID: "id",
	}
	want := bson.D{
		{Key: "k.a", Value: "x"},
		{Key: "k.b", Value: bson.D{{Key: "$lte", Value: int64(1)}}},
		{Key: "k.c", Value: typed},
		{Key: "$or", Value: bson.A{
			bson.D{{Key: "k.b", Value: bson.D{{Key: "$lt", Value: int64(1)}}}},
			bson.D{{Key: "k.b", Value: int64(1)}, {Key: "k.c", Value: bson.D{{Key: "$lt", Value: "y"}}}},
			bson.D{{Key: "k.b", Value: int64(1)}, {Key: "k.c", Value: "y"}, {Key: "_id", Value: bson.D{{Key: "$lt", Value: "id"}}}},
		}},
	}
	if got := listFilter(index, q); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if got, want := listSort(index, q), (bson.D{{Key: "k.b", Value: -1}, {Key: "k.c", Value: -1}, {Key: "_id", Value: -1}}); !slices.Equal(got, want) {
		t.Errorf("sort %v, want %v", got, want)
	}
}

// A read that looks at a whole collection is the slower the more is stored. The stand-in for MongoDB does so unless its build
// changes it, and then the last faults of a long run see another speed than the first.
func TestEveryReadGoesByAnIndex(t *testing.T) {
	config := serverConfig(t)
	drop(t, config)
	s := open(t, config)
	for _, c := range config.Collections {
		if err := s.Insert(t.Context(), c.Name, views.Doc{ID: "one"}); err != nil { // there is a collection to plan for
			t.Fatal(err)
		}
		filters := map[string]bson.D{
			"one id": byIDs([]string{"one"}), "several ids": byIDs([]string{"one", "two"}), "tombstones": goneBefore(time.Now()),
			"the guard of a write": newDocument(views.Doc{ID: "one", Seq: 1}).guard(),
		}
		for _, index := range c.Indexes {
			for name, q := range map[string]views.Query{
				"first page": {}, "under a number": {Equal: []views.Value{views.Int(1)}}, "under a text": {Equal: []views.Value{views.String("a")}},
				"after a position": {AfterID: "one", After: make([]views.Value, len(index.Keys))},
			} {
				filters[index.Name+", "+name] = listFilter(index, q)
			}
		}
		for name, filter := range filters {
			if plan := explain(t, s, c.Name, filter); scans(plan) {
				t.Errorf("%s, %s: %s", c.Name, name, plan)
			}
		}
	}
}

func explain(t *testing.T, s *Store, collection string, filter bson.D) string {
	t.Helper()
	find := bson.D{{Key: "find", Value: collection}, {Key: "filter", Value: filter}}
	var answer struct {
		Planner bson.Raw `bson:"queryPlanner"`
	}
	err := s.db.RunCommand(t.Context(), bson.D{{Key: "explain", Value: find}, {Key: "verbosity", Value: "queryPlanner"}}).Decode(&answer)
	if err != nil {
		t.Fatalf("explain a find in %s: %v", collection, err)
	}
	return answer.Planner.String()
}

// scans tells whether a plan looks at a whole collection: COLLSCAN of MongoDB, SCAN of SQLite.
func scans(plan string) bool {
	byIndex := strings.Contains(plan, "IXSCAN") || strings.Contains(plan, "IDHACK") || strings.Contains(plan, "USING INDEX")
	return !byIndex || strings.Contains(strings.ReplaceAll(plan, "IXSCAN", ""), "SCAN")
}
