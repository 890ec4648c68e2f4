package billing_test

import (
	"context"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
	"quire.dev/pkg/views/viewstest"
	"quire.dev/services/billing"
)

// TestPositionsOfAllPartitionsAreReadTogether: one after the other, those of a restored cluster would take 12 seconds each.
func TestPositionsOfAllPartitionsAreReadTogether(t *testing.T) {
	const partitions = 4
	s := newStack(t)
	s.provision(partitions)
	for p := range partitions {
		if err := s.views.Commit(t.Context(), views.Batch{Stream: event.Billing.Stream(p), To: 7}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	deps := billing.Deps{NC: s.nc, Views: viewstest.NewTogether(s.views, partitions), Blobs: s.blobs}
	positions, err := billing.Positions(ctx, deps, partitions)
	if err != nil || len(positions) != partitions {
		t.Fatalf("positions %v, %v", positions, err)
	}
	for p, at := range positions {
		if at != (billing.Position{Stream: event.Billing.Stream(p), Model: 7}) {
			t.Errorf("partition %d: %+v", p, at)
		}
	}
}
