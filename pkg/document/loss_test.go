package document_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"quire.dev/pkg/document"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/views"
	"quire.dev/pkg/views/viewstest"
)

// advance moves the read model's checkpoint of each partition beyond the empty journal.
func (w *world) advance(to uint64) (streams []string) {
	w.t.Helper()
	for p := range w.count {
		streams = append(streams, w.policy.Domain.Stream(p))
		if err := w.views.Commit(w.t.Context(), views.Batch{Stream: streams[p], To: to}); err != nil {
			w.t.Fatal(err)
		}
	}
	return streams
}

// TestLossesOfAllPartitionsAreFoundTogether: one after the other, those of a cluster would take 12 seconds each.
func TestLossesOfAllPartitionsAreFoundTogether(t *testing.T) {
	w := newWorldOf(t, fold.Pastes(), 4)
	streams := w.advance(7)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	found, err := document.FindLosses(ctx, w.nc, viewstest.NewTogether(w.views, w.count), w.policy.Domain, w.count)
	if err != nil || len(found) != w.count {
		t.Fatalf("found %v, %v", found, err)
	}
	for p, one := range found {
		if one.Stream != streams[p] || one.First != 1 || one.Last != 7 || !one.Projected {
			t.Errorf("partition %d: %+v", p, one)
		}
	}
}

// TestALossThatCannotBeRecordedIsNotAccepted: a journal of billing takes no writes, or there is none.
func TestALossThatCannotBeRecordedIsNotAccepted(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*world)
		want    error
	}{
		"full":    {func(w *world) { w.startBilling(); journaltest.Fill(w.t, w.nc, event.Billing.Stream(0)) }, journal.ErrFull},
		"missing": {func(*world) {}, journal.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldWithoutBilling(t, fold.Pastes(), 1)
			c.prepare(w)
			w.advance(7)
			for range 2 { // the loss is still there
				found, err := document.FindLosses(t.Context(), w.nc, w.views, w.policy.Domain, w.count)
				if err != nil || len(found) != 1 {
					t.Fatalf("found %v, %v", found, err)
				}
				if err := found[0].Accept(t.Context(), w.nc, w.views, w.count, "ann"); !errors.Is(err, c.want) {
					t.Errorf("accept: %v, want %v", err, c.want)
				}
			}
		})
	}
}
