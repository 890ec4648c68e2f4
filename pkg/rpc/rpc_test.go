package rpc_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/rpc"
)

const callSubject = "billing.0.account"

func serveCalls(t *testing.T, nc *nats.Conn, concurrency int, handle func(context.Context, []byte) ([]byte, error)) *rpc.Server {
	t.Helper()
	s, err := rpc.Serve(nc, callSubject, "billing", concurrency, handle)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return s
}

func upper(_ context.Context, payload []byte) ([]byte, error) {
	return []byte(strings.ToUpper(string(payload))), nil
}

// mustBeUnavailable calls a subject without a server. On a busy machine NATS' notice may come after the time-out, and
// then it calls again.
func mustBeUnavailable(t *testing.T, nc *nats.Conn) {
	t.Helper()
	eventually.True(t, "ErrUnavailable", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := rpc.Call(ctx, nc, callSubject, nil)
		if !errors.Is(err, rpc.ErrUnavailable) && !errors.Is(err, rpc.ErrTimeout) {
			t.Fatalf("err = %v, want ErrUnavailable", err)
		}
		return errors.Is(err, rpc.ErrUnavailable)
	})
}

func TestCallReturnsAnswersAndErrors(t *testing.T) {
	s := journaltest.Start(t)
	serveCalls(t, s.Conn(t), 4, func(ctx context.Context, payload []byte) ([]byte, error) {
		switch string(payload) {
		case "typed":
			return nil, &rpc.Error{Code: "not_found", Message: "no such account"}
		case "untyped":
			return nil, errors.New("disk on fire")
		case "panic":
			panic("broken")
		case "empty":
			return nil, nil
		}
		return upper(ctx, payload)
	})
	nc := s.Conn(t)
	if got, err := rpc.Call(t.Context(), nc, callSubject, []byte("hello")); err != nil || string(got) != "HELLO" {
		t.Fatalf("%q, %v", got, err)
	}
	if got, err := rpc.Call(t.Context(), nc, callSubject, []byte("empty")); err != nil || len(got) != 0 {
		t.Fatalf("%q, %v", got, err)
	}
	for payload, want := range map[string]rpc.Error{
		"typed":   {Code: "not_found", Message: "no such account"},
		"untyped": {Code: rpc.CodeInternal, Message: "disk on fire"},
		"panic":   {Code: rpc.CodeInternal, Message: "the handler panicked"},
	} {
		_, err := rpc.Call(t.Context(), nc, callSubject, []byte(payload))
		var e *rpc.Error
		if !errors.As(err, &e) || *e != want {
			t.Errorf("%s: %v, want %v", payload, err, &want)
		}
	}
	if _, err := rpc.Call(t.Context(), nc, callSubject, make([]byte, nc.MaxPayload()+1)); !errors.Is(err, rpc.ErrTooLarge) {
		t.Errorf("too large: %v, want ErrTooLarge", err)
	}
}

func TestCallCarriesItsDeadline(t *testing.T) {
	s := journaltest.Start(t)
	ended := make(chan error, 1)
	left := make(chan time.Duration, 1)
	serveCalls(t, s.Conn(t), 1, func(ctx context.Context, _ []byte) ([]byte, error) {
		deadline, _ := ctx.Deadline()
		left <- time.Until(deadline)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := rpc.Call(ctx, s.Conn(t), callSubject, nil); !errors.Is(err, rpc.ErrTimeout) {
		t.Fatalf("err = %v, want ErrTimeout", err)
	}
	if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the handler's context ended with %v", err)
	}
	if d := <-left; d > 100*time.Millisecond {
		t.Errorf("the handler was given %v", d)
	}
}

func TestCallWaitsForAServerUntilItsDeadline(t *testing.T) {
	s := journaltest.Start(t)
	nc := s.Conn(t)
	mustBeUnavailable(t, nc)
	cancelled, cancelNow := context.WithCancel(t.Context())
	cancelNow()
	if _, err := rpc.Call(cancelled, nc, callSubject, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("err = %v, want Canceled", err)
	}
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := rpc.Call(ctx, nc, callSubject, nil)
		done <- err
	}()
	serveCalls(t, s.Conn(t), 1, upper)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestLateRequestsAreDroppedAndTooManyAreBusy(t *testing.T) {
	s := journaltest.Start(t)
	release := make(chan struct{})
	var handled atomic.Int64
	server := serveCalls(t, s.Conn(t), 1, func(context.Context, []byte) ([]byte, error) {
		handled.Add(1)
		<-release
		return nil, nil
	})
	nc := s.Conn(t)
	var wg sync.WaitGroup
	var busy, late atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	for range 200 {
		wg.Go(func() {
			_, err := rpc.Call(ctx, nc, callSubject, nil)
			var e *rpc.Error
			switch {
			case errors.As(err, &e) && e.Code == rpc.CodeBusy:
				busy.Add(1)
			case errors.Is(err, rpc.ErrTimeout):
				late.Add(1)
			default:
				t.Errorf("err = %v", err)
			}
		})
	}
	wg.Wait()
	// By the server's clock a deadline is later by the time that the request travelled. So a request with the same
	// time-out that is sent last is late last.
	last := make(chan *rpc.Request, 1)
	if _, err := rpc.ServeBatch(nc, "last", "last", func(r *rpc.Request) { last <- r }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := rpc.Call(ctx, nc, "last", nil); !errors.Is(err, rpc.ErrTimeout) {
		t.Fatalf("err = %v, want ErrTimeout", err)
	}
	deadline := (<-last).Deadline
	eventually.True(t, "all requests are late", func() bool { return time.Now().After(deadline) })
	close(release)
	if err := server.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if handled.Load() != 1 || busy.Load() == 0 || busy.Load()+late.Load() != 200 {
		t.Errorf("%d handled, %d busy, %d late of 200; only the first should be handled", handled.Load(), busy.Load(), late.Load())
	}
}

func TestDrainAnswersWhatHasArrived(t *testing.T) {
	s := journaltest.Start(t)
	started, release := make(chan struct{}, 100), make(chan struct{})
	server := serveCalls(t, s.Conn(t), 2, func(ctx context.Context, payload []byte) ([]byte, error) {
		started <- struct{}{}
		<-release
		return upper(ctx, payload)
	})
	nc := s.Conn(t)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if got, err := rpc.Call(t.Context(), nc, callSubject, []byte("a")); err != nil || string(got) != "A" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	<-started
	<-started
	drained := make(chan error, 1)
	go func() { drained <- server.Drain(t.Context()) }()
	close(release)
	wg.Wait()
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	mustBeUnavailable(t, nc)
}

func TestDrainThatRunsOutOfTimeCancelsTheHandlers(t *testing.T) {
	s := journaltest.Start(t)
	started := make(chan struct{})
	server := serveCalls(t, s.Conn(t), 1, func(ctx context.Context, _ []byte) ([]byte, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	nc := s.Conn(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var e *rpc.Error
		if _, err := rpc.Call(ctx, nc, callSubject, nil); !errors.As(err, &e) {
			t.Errorf("err = %v, want the handler's", err)
		}
	})
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := server.Drain(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("err = %v, want Canceled", err)
	}
	wg.Wait()
}

func TestServersOfOneQueueShareTheCalls(t *testing.T) {
	s := journaltest.Start(t)
	var counts [2]atomic.Int64
	for i := range counts {
		serveCalls(t, s.Conn(t), 1, func(context.Context, []byte) ([]byte, error) {
			counts[i].Add(1)
			return nil, nil
		})
	}
	nc := s.Conn(t)
	for range 200 {
		if _, err := rpc.Call(t.Context(), nc, callSubject, nil); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := counts[0].Load(), counts[1].Load(); a+b != 200 || a == 0 || b == 0 {
		t.Fatalf("%d and %d calls", a, b)
	}
}

// serveNames starts servers that answer with their names, but for "b", which fails.
func serveNames(t *testing.T, nc *nats.Conn, names ...string) {
	t.Helper()
	for _, name := range names {
		server, err := rpc.Serve(nc, callSubject, name, 1, func(context.Context, []byte) ([]byte, error) {
			if name == "b" {
				return nil, errors.New("broken")
			}
			return []byte(name), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Drain(context.Background()) })
	}
}

func TestGatherHearsAllWhoAnswer(t *testing.T) {
	s := journaltest.Start(t)
	nc := s.Conn(t)
	if _, err := rpc.Gather(t.Context(), nc, callSubject, nil); !errors.Is(err, rpc.ErrUnavailable) {
		t.Errorf("nobody there: %v, want %v", err, rpc.ErrUnavailable)
	}
	serveNames(t, nc, "a", "b", "c")
	asking := s.Conn(t)
	eventually.True(t, "all but the one who failed are heard", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		answers, err := rpc.Gather(ctx, asking, callSubject, nil)
		if err != nil && !errors.Is(err, rpc.ErrUnavailable) {
			t.Fatal(err)
		}
		var names []string
		for _, answer := range answers {
			names = append(names, string(answer))
		}
		slices.Sort(names)
		return slices.Equal(names, []string{"a", "c"})
	})
	asking.Close()
	if _, err := rpc.Gather(t.Context(), asking, callSubject, nil); !errors.Is(err, rpc.ErrClosed) {
		t.Errorf("closed: %v, want %v", err, rpc.ErrClosed)
	}
}

// TestGatherUntilEndsWithTheAnswerThatIsEnough, long before its deadline. A failure is no answer.
func TestGatherUntilEndsWithTheAnswerThatIsEnough(t *testing.T) {
	s := journaltest.Start(t)
	nc := s.Conn(t)
	serveNames(t, nc, "a", "b", "c", "d")
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	var heard []string
	answers, err := rpc.GatherUntil(ctx, s.Conn(t), callSubject, nil, func(answer []byte) bool {
		heard = append(heard, string(answer))
		return len(heard) == 3
	})
	if err != nil || len(answers) != 3 {
		t.Fatalf("%q, %v", answers, err)
	}
	slices.Sort(heard)
	if !slices.Equal(heard, []string{"a", "c", "d"}) {
		t.Errorf("heard %q", heard)
	}
}

func TestCallOnceAsksOnce(t *testing.T) {
	s := journaltest.Start(t)
	nc := s.Conn(t)
	if _, err := rpc.CallOnce(t.Context(), nc, callSubject, nil); !errors.Is(err, rpc.ErrUnavailable) {
		t.Errorf("nobody there: %v, want %v", err, rpc.ErrUnavailable)
	}
	serveCalls(t, nc, 1, upper)
	if answer, err := rpc.CallOnce(t.Context(), nc, callSubject, []byte("a")); err != nil || string(answer) != "A" {
		t.Errorf("answer %q, %v", answer, err)
	}
}
