package bus

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
)

func TestExplainFindsARequestInAnyPartition(t *testing.T) {
	known := event.NewRequestID()
	_, b := answering(t, known, -1)
	a, err := b.ExplainAny(t.Context(), Question{Request: known})
	if err != nil || a.Answer.GetSequence() != 77 {
		t.Fatalf("explained %v, %v", a, err)
	}
	if _, err := b.ExplainAny(t.Context(), Question{Request: event.NewRequestID()}); fault.KindOf(err) != fault.NotFound {
		t.Fatalf("unknown request: %v, want not_found", err)
	}
}

func TestExplainSaysNotFoundOnlyWhenAllHaveAnswered(t *testing.T) {
	_, b := answering(t, event.NewRequestID(), 3)
	if _, err := b.ExplainAny(t.Context(), Question{Request: event.NewRequestID()}); fault.KindOf(err) != fault.Unavailable {
		t.Fatalf("error %v, want unavailable", err)
	}
}

// TestAnExplanationIsAskedOfTheInstanceThatWorksOnIt: another one would begin it again.
func TestAnExplanationIsAskedOfTheInstanceThatWorksOnIt(t *testing.T) {
	w := newBareWorld(t, 1)
	request := event.NewRequestID()
	any, busy := atomic.Int64{}, atomic.Int64{}
	busy.Store(1 << 30)
	pending := func(status event.QueryStatus) *event.QueryAnswer {
		return &event.QueryAnswer{Status: status, Answer: &event.QueryAnswer_Progress{
			Progress: &event.Progress{Instance: "i-2", Done: 5, Total: 20},
		}}
	}
	w.serve(t, event.QuerySubject(0), func([]byte) (event.Message, error) {
		any.Add(1)
		return pending(event.QueryStatus_QUERY_BUSY), nil
	})
	w.serve(t, event.ReplicaSubject(0, "i-2"), func([]byte) (event.Message, error) {
		if busy.Add(-1) > 0 {
			return pending(event.QueryStatus_QUERY_PENDING), nil
		}
		return &event.QueryAnswer{Status: event.QueryStatus_QUERY_OK, Answer: &event.QueryAnswer_Explain{
			Explain: &event.ExplainAnswer{Account: 9, Sequence: 77},
		}}, nil
	})
	b := w.bus(t, func(c *Config) { c.QueryTimeout = 3 * explainPause })
	if a, err := b.Explain(t.Context(), 9, Question{Request: request}); err != nil || a.Answer != nil || a.Done != 5 || a.Total != 20 {
		t.Fatalf("under way: %+v, %v", a, err)
	}
	busy.Store(1)
	if a, err := b.Explain(t.Context(), 9, Question{Request: request}); err != nil || a.Answer.GetSequence() != 77 {
		t.Fatalf("ended: %+v, %v", a, err)
	}
	if n := any.Load(); n != 1 {
		t.Errorf("any instance was asked %d times", n)
	}
}

func TestExplanationsThatAreRefused(t *testing.T) {
	for status, seconds := range map[event.QueryStatus]int{
		event.QueryStatus_QUERY_BUSY:    1,
		event.QueryStatus_QUERY_LIMITED: 42,
	} {
		w := newBareWorld(t, 1)
		w.serve(t, event.QuerySubject(0), func([]byte) (event.Message, error) {
			return &event.QueryAnswer{Status: status, Answer: &event.QueryAnswer_Progress{
				Progress: &event.Progress{Instance: "i-1", RetryAfterSeconds: 42},
			}}, nil
		})
		b := w.bus(t, func(c *Config) { c.QueryTimeout = 300 * time.Millisecond })
		_, err := b.Explain(t.Context(), 9, Question{Request: event.NewRequestID()})
		var e *fault.Error
		if !errors.As(err, &e) || e.Kind != fault.RateLimited || e.RetryAfter != seconds {
			t.Errorf("%v: %v", status, err)
		}
	}
}
