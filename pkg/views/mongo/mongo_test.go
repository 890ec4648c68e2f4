package mongo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"quire.dev/pkg/views"
	"quire.dev/pkg/views/viewstest"
)

const urlVariable = "QUIRE_MONGO_URL"

// serverConfig names a database of its own on the server that the environment
// names.
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

var errCrash = errors.New("crash")

// crashAt makes the next Commit of the store end as if the process had died.
// The stage is passed skip times before.
func crashAt(s *Store, at stage, skip int) {
	s.crash = func(reached stage) error {
		if reached != at {
			return nil
		}
		if skip--; skip >= 0 {
			return nil
		}
		return errCrash
	}
}

func numbered(from, to uint64, count int) views.Batch {
	b := views.Batch{Stream: "s", From: from, To: to}
	for i := range count {
		b.Puts = append(b.Puts, views.Put{Collection: "items", Doc: views.Doc{
			ID: fmt.Sprintf("doc-%03d", i), Seq: to, Body: fmt.Appendf(nil, "at %d", to),
			Keys: map[string]views.Value{"owner": views.String("ann"), "created": views.Int(int64(i))},
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

// holdNothingLeft holds that no record of a batch is left, two hours after the last commit.
func holdNothingLeft(t *testing.T, config Config) {
	t.Helper()
	config.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	s := open(t, config)
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{looseCollection, largeCollection, chunkCollection} {
		if left, err := s.db.Collection(name).CountDocuments(t.Context(), bson.D{}); err != nil || left != 0 {
			t.Errorf("%d documents are left in %s, %v", left, name, err)
		}
	}
}

// crashes are the places where a commit of count documents may end, and how many documents are
// written there. A large one is recorded in chunks of 2*bulkLimit documents.
const count = 4*bulkLimit + 5

type crash struct {
	name   string
	large  bool
	at     stage
	skip   int
	before int
}

func crashes() []crash {
	return []crash{
		{"nothing written", false, stageRecorded, 0, 0},
		{"a part written", false, stagePart, 0, bulkLimit},
		{"two parts written", false, stagePart, 1, 2 * bulkLimit},
		{"all written, not noted", false, stageWritten, 0, count},
		{"large, nothing written", true, stageRecorded, 0, 0},
		{"large, a part of a chunk written", true, stagePart, 0, bulkLimit},
		{"large, a chunk written, not noted", true, stagePart, 1, 2 * bulkLimit},
		{"large, a chunk noted", true, stageNoted, 0, 2 * bulkLimit},
		{"large, a part of the next chunk written", true, stagePart, 2, 3 * bulkLimit},
		{"large, all chunks noted", true, stageWritten, 0, count},
		{"large, chunks dropped", true, stageDropped, 0, count},
		{"large, record left", true, stageApplied, 0, count},
	}
}

func TestCrashedCommitIsCompleted(t *testing.T) {
	for _, c := range crashes() {
		t.Run(c.name, func(t *testing.T) {
			config := serverConfig(t)
			drop(t, config)
			s := open(t, config)
			if err := s.Commit(t.Context(), numbered(0, 1, count)); err != nil {
				t.Fatal(err)
			}
			if c.large {
				smallRecords(s, 2*bulkLimit)
			}
			crashAt(s, c.at, c.skip)
			if err := s.Commit(t.Context(), numbered(1, 2, count)); !errors.Is(err, errCrash) || !errors.Is(err, views.ErrUnavailable) {
				t.Fatalf("commit: %v", err)
			}
			if got := seqs(t, s); got[2] != c.before || got[1] != count-c.before {
				t.Fatalf("documents by sequence after the crash: %v", got)
			}

			// The next call completes it, whether it reads the checkpoint or commits.
			other := open(t, config)
			if c.skip == 0 {
				mustCheckpoint(t, other, 2)
				if got := seqs(t, other); got[2] != count || len(got) != 1 {
					t.Fatalf("documents by sequence after a read of the checkpoint: %v", got)
				}
			}
			if err := other.Commit(t.Context(), numbered(1, 3, 1)); !errors.Is(err, views.ErrConflict) {
				t.Fatalf("commit from before the crash: %v, want ErrConflict", err)
			}
			if err := other.Commit(t.Context(), numbered(2, 3, 1)); err != nil {
				t.Fatal(err)
			}
			if got := seqs(t, other); got[2] != count-1 || got[3] != 1 || len(got) != 2 {
				t.Fatalf("documents by sequence in the end: %v", got)
			}
			mustCheckpoint(t, other, 3)
			holdNothingLeft(t, config)
		})
	}
}

// TestCrashBeforeALargeBatchIsDecidedChangesNothing, with a stream and without one.
func TestCrashBeforeALargeBatchIsDecidedChangesNothing(t *testing.T) {
	for _, stream := range []string{"s", ""} {
		for skip := range 2 {
			t.Run(fmt.Sprintf("stream %q, %d more chunks stored", stream, skip), func(t *testing.T) {
				config := serverConfig(t)
				drop(t, config)
				s := open(t, config)
				if err := s.Commit(t.Context(), numbered(0, 1, count)); err != nil {
					t.Fatal(err)
				}
				smallRecords(s, 2*bulkLimit)
				crashAt(s, stageStored, skip)
				lost := numbered(1, 2, count)
				lost.Stream = stream
				if err := s.Commit(t.Context(), lost); !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
				other := open(t, config)
				mustCheckpoint(t, other, 1)
				if err := other.Commit(t.Context(), numbered(1, 3, 1)); err != nil {
					t.Fatal(err)
				}
				holdNothingLeft(t, config)
				if got := seqs(t, other); got[1] != count-1 || got[3] != 1 || len(got) != 2 {
					t.Errorf("documents by sequence: %v", got)
				}
			})
		}
	}
}

// TestALargeBatchThatConflictsLeavesNothing: its chunks were stored before it was known.
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
	for _, name := range []string{largeCollection, chunkCollection} {
		if left, err := s.db.Collection(name).CountDocuments(t.Context(), bson.D{}); err != nil || left != 0 {
			t.Errorf("%d documents are left in %s, %v", left, name, err)
		}
	}
	if got := seqs(t, s); got[2] != 5 || len(got) != 1 {
		t.Errorf("documents by sequence: %v", got)
	}
}

// TestALargeBatchGivenUpIsNotDecidedLate: Sweep takes the record of a writer that was away for two
// hours, and its chunks are gone when it comes back.
func TestALargeBatchGivenUpIsNotDecidedLate(t *testing.T) {
	config := serverConfig(t)
	drop(t, config)
	s := open(t, config)
	smallRecords(s, 2)
	s.crash = func(stage) error { // at the first chunk
		s.crash = nil
		holdNothingLeft(t, config)
		return nil
	}
	b := numbered(0, 1, 5)
	b.Stream = ""
	if err := s.Commit(t.Context(), b); !errors.Is(err, views.ErrUnavailable) {
		t.Fatalf("commit: %v, want ErrUnavailable", err)
	}
	if got := seqs(t, s); len(got) != 0 {
		t.Errorf("documents by sequence: %v", got)
	}
	holdNothingLeft(t, config)
}

// TestALargeBatchInProgressIsLeftAlone: Sweep and Open of another process drop nothing that may still
// be decided.
func TestALargeBatchInProgressIsLeftAlone(t *testing.T) {
	for _, stream := range []string{"s", ""} {
		config := serverConfig(t)
		drop(t, config)
		s := open(t, config)
		smallRecords(s, 2)
		s.crash = func(reached stage) error {
			if reached == stageStored {
				config := config
				config.Now = func() time.Time { return time.Now().Add(50 * time.Minute) }
				return open(t, config).Sweep(t.Context())
			}
			return nil
		}
		b := numbered(0, 1, 5)
		b.Stream = stream
		if err := s.Commit(t.Context(), b); err != nil {
			t.Fatalf("stream %q: %v", stream, err)
		}
		if got := seqs(t, s); got[1] != 5 {
			t.Errorf("stream %q: documents by sequence: %v", stream, got)
		}
		holdNothingLeft(t, config)
	}
}

// TestEveryAttemptAtALargeBatchGetsFurther: a process that ends in every chunk still completes it.
func TestEveryAttemptAtALargeBatchGetsFurther(t *testing.T) {
	config := serverConfig(t)
	drop(t, config)
	s := open(t, config)
	smallRecords(s, 2)
	crashAt(s, stageRecorded, 0)
	if err := s.Commit(t.Context(), numbered(0, 1, 6)); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	for chunk := 1; chunk <= 3; chunk++ {
		crashAt(s, stageNoted, 0)
		if _, err := s.Checkpoint(t.Context(), "s"); !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		if got := seqs(t, s); got[1] != 2*chunk {
			t.Fatalf("documents by sequence after attempt %d: %v", chunk, got)
		}
	}
	s.crash = nil
	mustCheckpoint(t, s, 1)
	holdNothingLeft(t, config)
}

func TestCommitCompletesTheOneBefore(t *testing.T) {
	config := serverConfig(t)
	drop(t, config)
	s := open(t, config)
	crashAt(s, stageRecorded, 0)
	if err := s.Commit(t.Context(), numbered(0, 1, 3)); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	other := open(t, config)
	if err := other.Commit(t.Context(), numbered(1, 2, 1)); err != nil {
		t.Fatal(err)
	}
	if got := seqs(t, other); got[1] != 2 || got[2] != 1 {
		t.Fatalf("documents by sequence: %v", got)
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
	changes, err := decodeRedo(late)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.complete(t.Context(), "s", 1, changes); err != nil {
		t.Fatalf("late completion: %v", err)
	}
	if got := seqs(t, s); got[1] != 1 || got[2] != 2 {
		t.Fatalf("documents by sequence: %v, want one at 1 (doc-003) and two at 2", got)
	}
	mustCheckpoint(t, s, 2)
}

func TestCrashedBatchWithoutStreamIsCompleted(t *testing.T) {
	for _, c := range crashes() {
		t.Run(c.name, func(t *testing.T) {
			config := serverConfig(t)
			drop(t, config)
			var minutes atomic.Int64
			config.Now = func() time.Time { return time.Unix(1_800_000_000+60*minutes.Load(), 0) }
			b := numbered(0, 1, count)
			b.Stream = ""

			s := open(t, config)
			if c.large {
				smallRecords(s, 2*bulkLimit)
			}
			crashAt(s, c.at, c.skip)
			if err := s.Commit(t.Context(), b); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			s.crash = nil
			if err := s.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := seqs(t, s); got[1] != c.before {
				t.Fatalf("a batch that may be under way was completed: %v", got)
			}
			minutes.Store(2)
			if err := s.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := seqs(t, s); got[1] != count {
				t.Fatalf("documents by sequence after the sweep: %v", got)
			}

			crashAt(s, c.at, c.skip)
			b = numbered(0, 2, count)
			b.Stream = ""
			if err := s.Commit(t.Context(), b); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			if got := seqs(t, open(t, config)); got[2] != count {
				t.Fatalf("documents by sequence after the next open: %v", got)
			}
			holdNothingLeft(t, config)
		})
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
	b.Puts[1].Doc.Keys["end"] = views.Int(-1 << 63)
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
			ID: fmt.Sprint(i), Seq: 1, Head: []byte{1}, Body: []byte{1}, Keys: map[string]views.Value{"k": views.Int(1), "l": views.String("")},
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
