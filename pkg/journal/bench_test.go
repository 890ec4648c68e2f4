package journal_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
)

// waiter is an item whose sender waits for it.
type waiter struct{ done chan error }

// BenchmarkAppender has a number of senders. Each waits until its item is stored
// before it appends the next.
func BenchmarkAppender(b *testing.B) {
	for _, senders := range []int{1, 128, 512} {
		b.Run(fmt.Sprint(senders), func(b *testing.B) { benchmarkAppender(b, senders) })
	}
}

func benchmarkAppender(b *testing.B, senders int) {
	s := journaltest.Start(b)
	nc := s.Conn(b)
	ensure(b, nc, billing(0))
	payload := make([]byte, 100*4096)
	batches := 0 // of Run's goroutine
	a, err := journal.NewAppender(nc, journal.Config[waiter]{
		Subject: testSubject,
		Encode:  func(_ uint64, items []waiter) ([]byte, error) { return payload[:100*len(items)], nil },
		Size:    func(waiter) int { return 100 },
		Acked: func(items []waiter, _, _ uint64) {
			batches++
			for _, w := range items {
				w.done <- nil
			}
		},
		Failed: func(items []waiter, _ uint64, err error) {
			for _, w := range items {
				w.done <- err
			}
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = a.Run(ctx) })
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range senders {
		wg.Go(func() {
			w := waiter{done: make(chan error, 1)}
			for n := i; n < b.N; n += senders {
				if err := errors.Join(a.Add(w), <-w.done); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	cancel()
	run.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
	b.ReportMetric(float64(b.N)/float64(batches), "items/batch")
}

// BenchmarkDelivery measures from publishing a message to its handler's being
// called, the fsync included, one message at a time: Follow against the
// jetstream package's ordered consumer.
func BenchmarkDelivery(b *testing.B) {
	b.Run("follow", func(b *testing.B) {
		s := journaltest.Start(b)
		nc, follower := s.Conn(b), s.Conn(b)
		ensure(b, nc, billing(0))
		arrived := make(chan struct{}, 1)
		ready := make(chan struct{})
		go func() {
			_ = journal.Open(follower, "BILLING_0").Follow(b.Context(), 0, func(context.Context, journal.Message) error {
				arrived <- struct{}{}
				return nil
			}, journal.FollowOptions{CaughtUp: func() { close(ready) }})
		}()
		<-ready
		b.ResetTimer()
		for range b.N {
			_ = nc.Publish(testSubject, make([]byte, 100))
			<-arrived
		}
	})
	b.Run("ordered consumer", func(b *testing.B) {
		s := journaltest.Start(b)
		nc, follower := s.Conn(b), s.Conn(b)
		ensure(b, nc, billing(0))
		arrived := make(chan struct{}, 1)
		consumption := orderedConsumer(b, jetstreamOf(b, follower), func(jetstream.Msg) { arrived <- struct{}{} })
		defer consumption.Stop()
		b.ResetTimer()
		for range b.N {
			_ = nc.Publish(testSubject, make([]byte, 100))
			<-arrived
		}
	})
}

// BenchmarkReplay reads messages that are in the stream already.
func BenchmarkReplay(b *testing.B) {
	const messages = 20000
	s := journaltest.Start(b)
	nc := s.Conn(b)
	ensure(b, nc, billing(0))
	js := jetstreamOf(b, nc)
	for range messages {
		if err := nc.Publish(testSubject, make([]byte, 1000)); err != nil {
			b.Fatal(err)
		}
	}
	eventually.True(b, "all messages in the stream", func() bool {
		last, err := journal.Open(nc, "BILLING_0").LastSequence(b.Context())
		return err == nil && last == messages
	})
	b.Run("follow", func(b *testing.B) {
		b.SetBytes(messages * 1000)
		for range b.N {
			err := journal.Open(nc, "BILLING_0").Replay(b.Context(), 0, messages, func(journal.Message) error { return nil }, nil)
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("ordered consumer", func(b *testing.B) {
		b.SetBytes(messages * 1000)
		for range b.N {
			done := make(chan struct{})
			n := 0
			consumption := orderedConsumer(b, js, func(jetstream.Msg) {
				if n++; n == messages {
					close(done)
				}
			})
			<-done
			consumption.Stop()
		}
	})
}

func orderedConsumer(b *testing.B, js jetstream.JetStream, handle func(jetstream.Msg)) jetstream.ConsumeContext {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
	defer cancel()
	c, err := js.OrderedConsumer(ctx, "BILLING_0", jetstream.OrderedConsumerConfig{})
	if err != nil {
		b.Fatal(err)
	}
	consumption, err := c.Consume(handle)
	if err != nil {
		b.Fatal(err)
	}
	return consumption
}
