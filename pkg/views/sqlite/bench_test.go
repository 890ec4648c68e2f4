package sqlite

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"quire.dev/pkg/views"
)

// BenchmarkCommit commits batches of 256 new documents of a kilobyte under random ids, as the projection of a busy partition
// does. A database that grows has more leaves to change, so figures are comparable for equal numbers of batches (-benchtime=200x).
func BenchmarkCommit(b *testing.B) {
	const size = 256
	store, err := Open(b.Context(), Config{
		Path: filepath.Join(b.TempDir(), "views.db"), Synchronous: Normal,
		Collections: []views.Collection{{Name: "documents", Indexes: []views.Index{{Name: "account", Keys: []string{"partition", "account", "created"}}}}},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	random := rand.New(rand.NewPCG(1, 2))
	body := bytes.Repeat([]byte("x"), 1024)
	sequence := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		batch := views.Batch{Stream: "LITE_0", From: sequence, To: sequence + 1}
		sequence++
		for n := range size {
			batch.Puts = append(batch.Puts, views.Put{Collection: "documents", Doc: views.Doc{
				ID: fmt.Sprintf("%012x", random.Uint64()>>16), Seq: sequence, Body: body,
				Keys: map[string]views.Value{
					"partition": views.Int(0), "account": views.String(fmt.Sprint(n % 16)), "created": views.Int(int64(sequence)),
				},
			}})
		}
		if err := store.Commit(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*size/b.Elapsed().Seconds(), "documents/s")
}
