package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/rpc"
)

func TestWaitingRequestsLeaveTogether(t *testing.T) {
	s := journaltest.Start(t)
	release := make(chan struct{})
	var batches atomic.Int64
	serve(t, s.Conn(t), func(r *rpc.Request, numbers []uint64) {
		if batches.Add(1) == 1 {
			<-release // holds the only slot
		}
		_ = r.Reply(doubles(numbers, 0, len(numbers)))
	})
	cfg := config()
	cfg.InFlight = 1
	b := batcher(t, s.Conn(t), cfg)
	var futures []rpc.Future[uint64]
	for i := range uint64(200) {
		futures = append(futures, b.Start(i))
	}
	close(release)
	for i, f := range futures {
		if got, err := f.Wait(t.Context()); err != nil || got != 2*uint64(i) {
			t.Fatalf("request %d: %d, %v", i, got, err)
		}
	}
	if n := batches.Load(); n != 2 {
		t.Fatalf("%d batches, want the first request and one of the other 199", n)
	}
}

func TestConcurrentRequestsGetTheirOwnAnswers(t *testing.T) {
	s := journaltest.Start(t)
	serveDoubles(t, s.Conn(t))
	cfg := config()
	cfg.MaxItems = 10
	b := batcher(t, s.Conn(t), cfg)
	var wg sync.WaitGroup
	for i := range uint64(64) {
		wg.Go(func() {
			for n := i; n < 6400; n += 64 {
				if got, err := b.Start(n).Wait(t.Context()); err != nil || got != 2*n {
					t.Errorf("request %d: %d, %v", n, got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestAnswerMayComeInPartsAndInAnyOrder(t *testing.T) {
	s := journaltest.Start(t, journaltest.WithMaxPayload(4096))
	serve(t, s.Conn(t), func(r *rpc.Request, numbers []uint64) {
		for from := (len(numbers) - 1) / 100 * 100; from >= 0; from -= 100 {
			_ = r.Reply(doubles(numbers, from, min(from+100, len(numbers))))
			_ = r.Reply(doubles(numbers, from, from+1)) // a second answer does no harm
		}
	})
	cfg := config()
	cfg.InFlight = 1
	b := batcher(t, s.Conn(t), cfg)
	var futures []rpc.Future[uint64]
	for i := range uint64(1000) {
		futures = append(futures, b.Start(1<<40+i)) // 6 bytes each: 6 kB, more than one message
	}
	for i, f := range futures {
		if got, err := f.Wait(t.Context()); err != nil || got != 2*(1<<40+uint64(i)) {
			t.Fatalf("request %d: %d, %v", i, got, err)
		}
	}
}

func TestBatchesAreCutBySize(t *testing.T) {
	s := journaltest.Start(t)
	var largest atomic.Int64
	release := make(chan struct{})
	serve(t, s.Conn(t), func(r *rpc.Request, numbers []uint64) {
		<-release
		largest.Store(max(largest.Load(), int64(len(numbers))))
		_ = r.Reply(doubles(numbers, 0, len(numbers)))
	})
	cfg := config()
	cfg.InFlight, cfg.MaxBytes = 1, 100
	cfg.Size = func(n uint64) int { return int(n) }
	b := batcher(t, s.Conn(t), cfg)
	if _, err := b.Start(101).Wait(t.Context()); !errors.Is(err, rpc.ErrTooLarge) {
		t.Fatalf("err = %v, want ErrTooLarge", err)
	}
	var futures []rpc.Future[uint64]
	for range 50 {
		futures = append(futures, b.Start(30))
	}
	close(release)
	for _, f := range futures {
		if _, err := f.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if largest.Load() != 3 {
		t.Fatalf("the largest batch had %d requests of 30 bytes, want 3", largest.Load())
	}
}

func TestNoAnswerIsATimeout(t *testing.T) {
	s := journaltest.Start(t)
	var silent atomic.Bool
	silent.Store(true)
	serve(t, s.Conn(t), func(r *rpc.Request, numbers []uint64) {
		if !silent.Load() {
			_ = r.Reply(doubles(numbers, 0, len(numbers)))
		}
	})
	cfg := config()
	cfg.InFlight, cfg.Timeout = 1, 30*time.Millisecond
	b := batcher(t, s.Conn(t), cfg)
	first, second := b.Start(1), b.Start(2)
	for _, f := range []rpc.Future[uint64]{first, second} {
		if _, err := f.Wait(t.Context()); !errors.Is(err, rpc.ErrTimeout) {
			t.Fatalf("err = %v, want ErrTimeout", err)
		}
	}
	silent.Store(false)
	if got, err := b.Start(4).Wait(t.Context()); err != nil || got != 8 {
		t.Fatalf("after a time-out: %d, %v", got, err)
	}
}

func TestNobodyThereIsUnavailableAndThenServed(t *testing.T) {
	s := journaltest.Start(t)
	cfg := config()
	cfg.Timeout = 100 * time.Millisecond
	b := batcher(t, s.Conn(t), cfg)
	eventually.True(t, "ErrUnavailable", func() bool { // on a busy machine it may be a time-out first
		_, err := b.Start(1).Wait(t.Context())
		return errors.Is(err, rpc.ErrUnavailable)
	})
	cfg.Timeout = time.Minute
	patient := batcher(t, s.Conn(t), cfg)
	f := patient.Start(2)
	serveDoubles(t, s.Conn(t))
	if got, err := f.Wait(t.Context()); err != nil || got != 4 {
		t.Fatalf("once there is a server: %d, %v", got, err)
	}
}

func TestCancelledRequestsLeaveNothingStuck(t *testing.T) {
	s := journaltest.Start(t)
	release := make(chan struct{})
	var seen atomic.Int64
	serve(t, s.Conn(t), func(r *rpc.Request, numbers []uint64) {
		<-release
		seen.Add(int64(len(numbers)))
		_ = r.Reply(doubles(numbers, 0, len(numbers)))
	})
	cfg := config()
	cfg.InFlight = 1
	b := batcher(t, s.Conn(t), cfg)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range uint64(100) { // the first leaves, 99 wait
		if _, err := b.Start(i).Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("err = %v, want Canceled", err)
		}
	}
	past, cancelPast := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancelPast()
	if _, err := b.Start(1).Wait(past); !errors.Is(err, rpc.ErrTimeout) {
		t.Fatalf("err = %v, want ErrTimeout", err)
	}
	b.Start(7) // its answer is never waited for
	close(release)
	if got, err := b.Start(21).Wait(t.Context()); err != nil || got != 42 {
		t.Fatalf("after cancellations: %d, %v", got, err)
	}
	if n := seen.Load(); n != 3 {
		t.Errorf("the server saw %d requests, want the first, the ignored and the last", n)
	}
}

func TestErrorAndPanicFailTheWholeBatchAndNothingElse(t *testing.T) {
	s := journaltest.Start(t)
	serve(t, s.Conn(t), func(r *rpc.Request, numbers []uint64) {
		switch numbers[0] {
		case 1:
			_ = r.Fail(fmt.Errorf("wrapped: %w", &rpc.Error{Code: "moved", Message: "elsewhere"}))
		case 2:
			panic("broken")
		case 3:
			_ = r.Reply([]byte{0x80}) // not a varint
		case 4:
			_ = r.Reply(doubles([]uint64{4, 5}, 1, 2)) // an answer to a second request
		default:
			_ = r.Reply(doubles(numbers, 0, len(numbers)))
		}
	})
	b := batcher(t, s.Conn(t), config())
	for request, code := range map[uint64]string{1: "moved", 2: rpc.CodeInternal} {
		_, err := b.Start(request).Wait(t.Context())
		var e *rpc.Error
		if !errors.As(err, &e) || e.Code != code {
			t.Errorf("request %d: %v, want code %s", request, err, code)
		}
	}
	for _, request := range []uint64{3, 4} {
		if _, err := b.Start(request).Wait(t.Context()); err == nil {
			t.Errorf("request %d: no error for an answer that makes no sense", request)
		}
	}
	if got, err := b.Start(10).Wait(t.Context()); err != nil || got != 20 {
		t.Fatalf("after failures: %d, %v", got, err)
	}
}

func TestFullQueueIsBusyAndCloseFailsWhatWaits(t *testing.T) {
	s := journaltest.Start(t)
	release := make(chan struct{})
	defer close(release)
	serve(t, s.Conn(t), func(*rpc.Request, []uint64) { <-release })
	cfg := config()
	cfg.InFlight, cfg.MaxQueue = 1, 2
	b := batcher(t, s.Conn(t), cfg)
	out, waits := b.Start(1), []rpc.Future[uint64]{b.Start(2), b.Start(3)}
	if _, err := b.Start(4).Wait(t.Context()); !errors.Is(err, rpc.ErrBusy) {
		t.Fatalf("err = %v, want ErrBusy", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for _, f := range append(waits, out) {
		if _, err := f.Wait(t.Context()); !errors.Is(err, rpc.ErrClosed) {
			t.Errorf("err = %v, want ErrClosed", err)
		}
	}
	if _, err := b.Start(5).Wait(t.Context()); !errors.Is(err, rpc.ErrClosed) {
		t.Errorf("err = %v, want ErrClosed", err)
	}
}

func TestRequestsGoOnAfterARestartOfTheServer(t *testing.T) {
	s := journaltest.Start(t)
	serveDoubles(t, s.Conn(t))
	cfg := config()
	cfg.Timeout = 300 * time.Millisecond
	b := batcher(t, s.Conn(t), cfg)
	var wg sync.WaitGroup
	var over atomic.Bool
	for i := range uint64(8) {
		wg.Go(func() {
			for !over.Load() {
				got, err := b.Start(i).Wait(t.Context())
				lost := errors.Is(err, rpc.ErrTimeout) || errors.Is(err, rpc.ErrUnavailable)
				if !lost && (err != nil || got != 2*i) {
					t.Errorf("request %d: %d, %v", i, got, err)
					return
				}
			}
		})
	}
	for range 3 {
		s.Restart(t)
		s.Drop()
		eventually.True(t, "an answer", func() bool {
			_, err := b.Start(1).Wait(t.Context())
			return err == nil
		})
	}
	over.Store(true)
	wg.Wait()
}
