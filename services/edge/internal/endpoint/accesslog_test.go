package endpoint

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/valyala/fasthttp"

	"quire.dev/services/edge/internal/httpin"
)

func TestTheAccessLogHasFailuresSlowRequestsAndASample(t *testing.T) {
	const slow = 100 * time.Millisecond
	for _, c := range []struct {
		cfg    AccessLog
		status int
		took   time.Duration
		want   bool
	}{
		{AccessLog{To: io.Discard, Slow: slow}, 200, slow - 1, false},
		{AccessLog{To: io.Discard, Slow: slow}, 200, slow, true},
		{AccessLog{To: io.Discard, Slow: slow}, 499, 0, false},
		{AccessLog{To: io.Discard, Slow: slow}, 500, 0, true},
		{AccessLog{To: io.Discard}, 200, time.Hour, false},
		{AccessLog{To: io.Discard}, 504, 0, true},
		{AccessLog{To: io.Discard, Sample: 1}, 200, 0, true},
		{AccessLog{Slow: slow, Sample: 1}, 500, slow, false},
	} {
		if got := newAccessLog(c.cfg, nil, nil).wants(c.status, c.took); got != c.want {
			t.Errorf("%+v: %d after %v is logged: %v", c.cfg, c.status, c.took, got)
		}
	}
}

// TestTheAccessLogNeverBlocks: lines beyond the queue are dropped and counted, and those in it are written at the stop.
func TestTheAccessLogNeverBlocks(t *testing.T) {
	var out strings.Builder
	s := &Base{access: newAccessLog(AccessLog{To: &out}, nil, slog.New(slog.DiscardHandler))}
	var ctx fasthttp.RequestCtx
	for range accessQueue + 3 {
		s.access.add(&ctx, &httpin.Answer{RequestID: "r"}, nil)
	}
	if dropped := testutil.ToFloat64(s.access.dropped); dropped != 3 {
		t.Errorf("%v lines dropped, want 3", dropped)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	s.WriteAccessLog(stopped)
	if lines := strings.Count(out.String(), "\n"); lines != accessQueue {
		t.Errorf("%d lines written, want %d", lines, accessQueue)
	}
}

func TestAClientsRequestIDIsCheckedBeforeItIsKept(t *testing.T) {
	for id, want := range map[string]bool{
		"a": true, "AZaz09-._~:/+=@": true, strings.Repeat("x", maxClientRequestID): true,
		"": false, strings.Repeat("x", maxClientRequestID+1): false, "a b": false, "a\"b": false, "ä": false, "a\x00": false, "<a>": false, "a,b": false,
	} {
		var h fasthttp.RequestHeader
		h.Set("X-Request-Id", id)
		if got := string(clientRequestID(&h)); (got == id && id != "") != want {
			t.Errorf("%q is kept as %q", id, got)
		}
	}
}
