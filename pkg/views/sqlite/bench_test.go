package sqlite

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quire.dev/pkg/views"
)

// Figures of a database depend on how many documents it has: -args -sqlite.documents=1000000 is as many as the large data set of
// `make bench` has, and takes a minute to make.
var benchDocuments = flag.Int("sqlite.documents", 50_000, "documents that a benchmark's database has at its beginning")

const benchBatch = 256

// filler commits batches of new documents of a kilobyte under random ids, as the projection of a busy partition does.
type filler struct {
	store    *Store
	path     string
	random   *rand.Rand
	body     []byte
	sequence uint64
	ids      []string
}

func newFiller(b *testing.B) *filler {
	b.Helper()
	f := &filler{
		path: filepath.Join(b.TempDir(), "views.db"), random: rand.New(rand.NewPCG(1, 2)), body: bytes.Repeat([]byte("x"), 1024),
	}
	f.open(b)
	return f
}

func (f *filler) open(b *testing.B) {
	b.Helper()
	store, err := Open(b.Context(), Config{
		Path: f.path, Synchronous: Normal,
		Collections: []views.Collection{{Name: "documents", Indexes: []views.Index{
			{Name: "account", Keys: []string{"partition", "account", "created"}},
			{Name: "expiry", Keys: []string{"partition", "expires"}},
		}}},
	})
	if err != nil {
		b.Fatal(err)
	}
	f.store = store
}

func (f *filler) close(b *testing.B) {
	b.Helper()
	if err := f.store.Close(); err != nil {
		b.Fatal(err)
	}
}

// next makes a batch of so many documents.
func (f *filler) next(size int) views.Batch {
	batch := views.Batch{Stream: "LITE_0", From: f.sequence, To: f.sequence + 1}
	f.sequence++
	for n := range size {
		id := fmt.Sprintf("%012x", f.random.Uint64()>>16)
		f.ids = append(f.ids, id)
		batch.Puts = append(batch.Puts, views.Put{Collection: "documents", New: true, Doc: views.Doc{
			ID: id, Seq: f.sequence, Head: fmt.Appendf(nil, "%-130s", id), Body: f.body,
			Keys: views.Keys{
				{Name: "partition", Value: views.Int(0)},
				{Name: "account", Value: views.String(fmt.Sprintf("acc_%016d", n%16))},
				{Name: "created", Value: views.Int(1_700_000_000_000 + int64(f.sequence)*20 + int64(n%20))},
			},
		}})
	}
	return batch
}

func (f *filler) commit(b *testing.B, batch views.Batch) {
	b.Helper()
	if err := f.store.Commit(b.Context(), batch); err != nil {
		b.Fatal(err)
	}
}

func (f *filler) fill(b *testing.B, documents int) {
	b.Helper()
	for left := documents; left > 0; left -= 4096 {
		f.commit(b, f.next(min(left, 4096)))
	}
}

// written is how many bytes this process has given to write calls.
func written(b *testing.B) (n int64) {
	b.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Skip("NOT MEASURED: there is no /proc/self/io")
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "wchar: "); ok {
			if _, err := fmt.Sscan(rest, &n); err != nil {
				b.Fatal(err)
			}
		}
	}
	return n
}

// BenchmarkCommit commits documents to a new database, and to one that has many, in batches of some sizes. It tells how many bytes
// are written for each document, to the log and to the file.
func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{benchBatch, 8 * benchBatch} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			f := newFiller(b)
			defer f.close(b)
			f.fill(b, *benchDocuments)
			batches := make([]views.Batch, 0, 64)
			before := written(b)
			b.ReportAllocs()
			for b.Loop() {
				if len(batches) == 0 {
					b.StopTimer()
					for range cap(batches) {
						batches = append(batches, f.next(size))
					}
					slices.Reverse(batches)
					b.StartTimer()
				}
				f.commit(b, batches[len(batches)-1])
				batches = batches[:len(batches)-1]
			}
			documents := float64(b.N) * float64(size)
			b.ReportMetric(documents/b.Elapsed().Seconds(), "documents/s")
			b.ReportMetric(float64(written(b)-before)/documents, "written/document")
		})
	}
}

// BenchmarkLoad loads random documents with their contents, one at a time and many. It tells how many bytes the file has for each
// document.
func BenchmarkLoad(b *testing.B) {
	f := newFiller(b)
	f.fill(b, *benchDocuments)
	f.close(b) // moves the log into the file
	info, err := os.Stat(f.path)
	if err != nil {
		b.Fatal(err)
	}
	f.open(b)
	defer f.close(b)
	for _, count := range []int{1, 16} {
		b.Run(fmt.Sprintf("documents=%d", count), func(b *testing.B) {
			ids := make([]string, count)
			b.ReportAllocs()
			for b.Loop() {
				for i := range ids {
					ids[i] = f.ids[f.random.IntN(len(f.ids))]
				}
				docs, err := f.store.Load(b.Context(), "documents", ids, views.Full)
				if err != nil || len(docs) == 0 {
					b.Fatalf("%d documents, %v", len(docs), err)
				}
			}
			b.ReportMetric(float64(info.Size())/float64(len(f.ids)), "stored/document")
		})
	}
}
