package document_test

import (
	"testing"
	"time"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
)

// BenchmarkReadsUnderALease has an engine that is alone and one of two instances answer the same reads, in turns. Its metric is the
// share of the first one's reads a second that the second one answers.
func BenchmarkReadsUnderALease(b *testing.B) {
	const batch = 16
	alone, shared := newWorld(b, fold.QuickPastes()), newWorld(b, fold.QuickPastes())
	alone.start()
	shared.waitShared(shared.share("one"), shared.share("two"))
	worlds := []*world{alone, shared}
	reads := make([][]*event.Read, len(worlds))
	for i, w := range worlds {
		edge := w.newEdge("edge")
		for range batch {
			made := edge.want(event.OutcomeStatus_OK, create(alice, text("some text")))
			reads[i] = append(reads[i], &event.Read{Item: made.Item})
		}
		w.read(reads[i]...)
	}
	var took [2]time.Duration
	for b.Loop() {
		for i, w := range worlds {
			begun := time.Now()
			w.read(reads[i]...)
			took[i] += time.Since(begun)
		}
	}
	b.ReportMetric(float64(took[0])/float64(took[1]), "of-reads-alone")
	b.ReportMetric(float64(batch*b.N)/took[1].Seconds(), "reads/s")
}
