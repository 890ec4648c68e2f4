package bus

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/services/edge/internal/fault"
)

func deletion(item string) *Write {
	id := event.NewRequestID()
	return &Write{Request: event.Request{RequestId: id[:], Item: item, Action: &event.Request_Delete{Delete: &event.Delete{}}}}
}

func TestEveryWriteGetsItsOwnOutcomeFromAnyDomainAndPartition(t *testing.T) {
	const partitions = 4
	w := newWorld(t, partitions)
	fakes := map[event.Domain]*fakeDomain{}
	for _, d := range event.Documents() {
		fakes[d] = newFakeDomain(t, w.nc, d, partitions)
	}
	b := w.bus(t, nil)
	var group sync.WaitGroup
	for i := range 60 {
		d := event.Documents()[i%3]
		group.Go(func() {
			for range 5 {
				w := deletion(event.NewItemID())
				o, err := b.Write(t.Context(), d, w)
				if err != nil {
					t.Errorf("write: %v", err)
					return
				}
				r := &w.Request
				if o.Item != r.Item || event.RequestID(o.RequestId) != event.RequestID(r.RequestId) {
					t.Errorf("outcome of %s for %s", o.Item, r.Item)
				}
			}
		})
	}
	group.Wait()
}

func TestLostOutcomeIsAskedForAgainAndAppliedOnce(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeDomain(t, w.nc, event.Paste, 1)
	f.lose = 2
	b := w.bus(t, func(c *Config) { c.ResendAfter = 30 * time.Millisecond })
	r := deletion("a")
	if _, err := b.Write(t.Context(), event.Paste, r); err != nil {
		t.Fatalf("write: %v", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.applied[event.RequestID(r.Request.RequestId)]; n != 1 {
		t.Errorf("applied %d times", n)
	}
}

func TestWriteFailsAsUnavailableOrUnknown(t *testing.T) {
	for _, test := range []struct {
		name    string
		prepare func(t *testing.T, w *world, b *running) context.Context
		want    fault.Kind
	}{
		{"the stream is full", func(t *testing.T, w *world, _ *running) context.Context {
			w.ensure(t, event.Paste, 1)
			return t.Context()
		}, fault.Unavailable},
		{"the server is gone", func(t *testing.T, w *world, b *running) context.Context {
			w.server.Stop()
			eventually.True(t, "connection lost", func() bool { return !b.nc.IsConnected() })
			return t.Context()
		}, fault.Unavailable},
		{"nobody folds", func(t *testing.T, _ *world, _ *running) context.Context {
			return t.Context()
		}, fault.OutcomeUnknown},
		{"the caller goes after it was stored", func(t *testing.T, w *world, _ *running) context.Context {
			ctx, cancel := context.WithCancel(t.Context())
			f := newFakeDomain(t, w.nc, event.Paste, 1)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.silent, f.onApply = true, cancel
			return ctx
		}, fault.OutcomeUnknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, 1)
			b := w.bus(t, func(c *Config) { c.WriteTimeout = 2 * time.Second })
			ctx := test.prepare(t, w, b)
			_, err := b.Write(ctx, event.Paste, deletion("a"))
			if fault.KindOf(err) != test.want {
				t.Fatalf("error %v, want %s", err, test.want)
			}
		})
	}
}

func TestWriteOfACallerThatWentBeforeItLeftIsNeverPublished(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeDomain(t, w.nc, event.Paste, 1)
	b := w.idle(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	gone := deletion("a")
	if _, err := b.Write(ctx, event.Paste, gone); fault.KindOf(err) != fault.Unavailable || !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want unavailable for the cancelled context", err)
	}
	start(t, b)
	if _, err := b.Write(t.Context(), event.Paste, deletion("b")); err != nil {
		t.Fatalf("write: %v", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.applied[event.RequestID(gone.Request.RequestId)] != 0 {
		t.Error("it was published")
	}
}

func TestRequestThatNoMessageHoldsIsTooLarge(t *testing.T) {
	w := newWorld(t, 1)
	b := w.bus(t, nil)
	r := deletion(strings.Repeat("a", int(w.nc.MaxPayload())))
	if _, err := b.Write(t.Context(), event.Paste, r); fault.KindOf(err) != fault.TooLarge {
		t.Fatalf("error of kind %s, want too_large", fault.KindOf(err))
	}
}

func TestLostCommandOutcomeIsAskedForAgainAndAppliedOnce(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeBilling(t, w.nc, 1)
	f.with(func() { f.lose = 1 })
	b := w.bus(t, func(c *Config) { c.ResendAfter = 30 * time.Millisecond })
	c := &event.Command{Account: 4, Action: &event.Command_Grant{Grant: &event.Grant{AmountMicros: 5}}}
	o, err := b.Command(t.Context(), c)
	if err != nil || o.BalanceMicros != 5 {
		t.Fatalf("outcome %v, %v", o, err)
	}
	f.with(func() {
		if f.commands != 1 {
			t.Errorf("%d commands applied", f.commands)
		}
	})
}

func TestUnfoldedCommandIsUnknown(t *testing.T) {
	w := newWorld(t, 1)
	b := w.bus(t, func(c *Config) { c.AdmitTimeout = 200 * time.Millisecond })
	if _, err := b.Command(t.Context(), &event.Command{Account: 4}); fault.KindOf(err) != fault.OutcomeUnknown {
		t.Fatalf("error %v, want outcome_unknown", err)
	}
}

func TestWaitersOfWritesAreAnsweredBeforeRunReturns(t *testing.T) {
	w := newWorld(t, 1)
	b := w.bus(t, func(c *Config) { c.WriteTimeout = 300 * time.Millisecond })
	failed := make(chan error, 1)
	go func() {
		_, err := b.Write(context.Background(), event.Paste, deletion("a"))
		failed <- err
	}()
	l := b.documents[event.Paste][0].writes
	eventually.True(t, "the write waits", l.isWaiting)
	if err := b.stop(); err != nil {
		t.Fatalf("run: %v", err)
	}
	if err := <-failed; err == nil {
		t.Fatal("a write that nobody folded succeeded")
	}
}
