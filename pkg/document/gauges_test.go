package document

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"quire.dev/pkg/event"
)

// TestTheGaugesAreOfAllPartitions: one that moves must not hide another that is behind.
func TestTheGaugesAreOfAllPartitions(t *testing.T) {
	metrics := newMetrics(event.Lite, nil)
	want := func(bytes, messages float64) {
		t.Helper()
		if b, m := testutil.ToFloat64(metrics.overlay), testutil.ToFloat64(metrics.unprojected); b != bytes || m != messages {
			t.Errorf("%v bytes and %v messages, want %v and %v", b, m, bytes, messages)
		}
	}
	first, second := newProjection(&scope{metrics: metrics}, nil, nil, nil), newProjection(&scope{metrics: metrics}, nil, nil, nil)
	first.push(&message{bytes: 10})
	first.push(&message{bytes: 5})
	second.push(&message{bytes: 1})
	want(16, 3)
	first.hide()
	want(1, 1)
	second.hide()
	want(0, 0)
}
