package partition

import (
	"context"
	"testing"
	"time"

	"quire.dev/pkg/event"
)

// queue holds the explanations of a test, which end on command.
type queue struct {
	*explanations
	now time.Time
	end map[explainKey]chan *event.ExplainAnswer
}

func newQueue(t *testing.T) *queue {
	q := &queue{explanations: newExplanations(), now: time.Unix(1_800_000_000, 0), end: map[explainKey]chan *event.ExplainAnswer{}}
	t.Cleanup(q.stop)
	return q
}

func (q *queue) ask(asker, request byte) (*explanation, *refusal) {
	key := explainKey{asker: uint64(asker), request: event.RequestID{request}}
	end := make(chan *event.ExplainAnswer, 1)
	if q.end[key] == nil {
		q.end[key] = end
	}
	end = q.end[key]
	return q.begin(key, q.now, func(ctx context.Context, job *explanation) {
		select {
		case job.answer = <-end:
			job.final = job.answer != nil && job.answer.Settlement != "open"
		case <-ctx.Done():
		}
	})
}

// finish requests an explanation, ends it and takes its result.
func (q *queue) finish(t *testing.T, asker, request byte, answer *event.ExplainAnswer) *explanation {
	t.Helper()
	job := q.mustAsk(t, asker, request)
	q.end[explainKey{asker: uint64(asker), request: event.RequestID{request}}] <- answer
	<-job.done
	return job
}

func (q *queue) mustAsk(t *testing.T, asker, request byte) *explanation {
	t.Helper()
	job, refused := q.ask(asker, request)
	if refused != nil {
		t.Fatalf("account %d is refused request %d: %v", asker, request, refused)
	}
	return job
}

func TestAnAccountHasOneExplanationAtATime(t *testing.T) {
	q := newQueue(t)
	first := q.mustAsk(t, 1, 1)
	if q.mustAsk(t, 1, 1) != first {
		t.Error("the same question is another explanation")
	}
	if _, refused := q.ask(1, 2); refused == nil || refused.status != event.QueryStatus_QUERY_BUSY {
		t.Errorf("a second one: %v", refused)
	}
	q.mustAsk(t, 2, 2) // another account's
	if q.mustAsk(t, 0, 1) == first {
		t.Error("an operator's is an account's")
	}
	q.finish(t, 1, 1, nil)
	q.mustAsk(t, 1, 2)
}

func TestAResultThatMayChangeIsGivenOnce(t *testing.T) {
	q := newQueue(t)
	open := q.finish(t, 1, 1, &event.ExplainAnswer{Settlement: "open"})
	if q.mustAsk(t, 1, 1) != open {
		t.Error("nobody has taken the result, and it is gone")
	}
	q.take(&open.task)
	served := q.finish(t, 1, 1, &event.ExplainAnswer{Settlement: "served"})
	if served == open {
		t.Fatal("an open request stays open")
	}
	q.take(&served.task)
	if q.mustAsk(t, 1, 1) != served {
		t.Error("what can't change is found out twice")
	}
	q.now = q.now.Add(keptAnswer)
	if q.mustAsk(t, 1, 1) == served {
		t.Error("a result is kept for ever")
	}
}

// TestAFoldOfItsOwnIsMadeOnce: its caller gets no cached result, and polling leads to the same fold.
func TestAFoldOfItsOwnIsMadeOnce(t *testing.T) {
	q := newQueue(t)
	served := &event.ExplainAnswer{Settlement: "served"}
	kept := q.finish(t, 1, 1, served)
	q.take(&kept.task)
	ask := func(run byte) *explanation {
		t.Helper()
		key := explainKey{asker: 1, request: event.RequestID{1}, run: event.RequestID{run}}
		job, refused := q.begin(key, q.now, func(_ context.Context, job *explanation) { job.answer, job.final = served, true })
		if refused != nil {
			t.Fatalf("%v", refused)
		}
		<-job.done
		return job
	}
	first := ask(1)
	if first == kept || ask(1) != first || ask(2) == first {
		t.Error("a kept result is given, or one fold is made twice")
	}
	if q.mustAsk(t, 1, 1) != kept {
		t.Error("a fold of its own takes the place of the kept result")
	}
}

func TestExplanationsOfAMinuteAreLimited(t *testing.T) {
	q := newQueue(t)
	for n := range byte(explainsPerMinute) {
		q.finish(t, 1, n, nil)
		q.finish(t, 0, n, nil)
	}
	q.now = q.now.Add(10 * time.Second)
	_, refused := q.ask(1, 200)
	if refused == nil || refused.status != event.QueryStatus_QUERY_LIMITED || refused.retryAfter != 50*time.Second {
		t.Fatalf("one more: %v", refused)
	}
	q.finish(t, 2, 200, nil)
	q.finish(t, 0, 200, nil) // an operator's
	q.now = q.now.Add(refused.retryAfter)
	q.mustAsk(t, 1, 200)
}

func TestExplanationsThatWaitAreBounded(t *testing.T) {
	q := newQueue(t)
	for asker := range byte(maxExplanations) {
		q.mustAsk(t, asker, 0)
	}
	if _, refused := q.ask(200, 0); refused == nil || refused.status != event.QueryStatus_QUERY_BUSY {
		t.Errorf("one more: %v", refused)
	}
	q.finish(t, 7, 0, nil)
	q.mustAsk(t, 200, 0)
}
