package archive

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/host"
	"quire.dev/pkg/proof"
)

func TestTheLogHasEachMessageOnce(t *testing.T) {
	s, random := newStack(t), seeded(t)
	service := s.service(s.blobs)
	s.publish(0)
	last := s.must(service)
	for range 20 {
		s.publishAll(random, 120)
		tree := s.must(service)
		s.consistent(last, tree)
		last = tree
		if random.IntN(4) == 0 {
			service = s.service(s.blobs)
		}
	}
	s.check(last)
	if again := s.must(service); again != last {
		t.Errorf("nothing new, and the log has %d entries, had %d", again.N, last.N)
	}
	key, err := read(t.Context(), s.blobs.Store, proof.LogKey, 1000)
	if err != nil || !strings.HasPrefix(string(key), "quire/test/") || strings.TrimSpace(string(key)) != service.key.public {
		t.Errorf("published key %q, %v", key, err)
	}
}

// TestAKillAtEachWrite cuts a round off at each of its writes, and goes on with another instance.
func TestAKillAtEachWrite(t *testing.T) {
	s, random := newStack(t), seeded(t)
	s.publish(1)
	last := s.must(s.service(s.blobs))
	for written := 0; ; written++ {
		s.publish(0)
		s.publishAll(random, 130)
		s.blobs.armed, s.blobs.left = true, written
		err := s.round(s.service(s.blobs))
		s.blobs.armed = false
		if err != nil && !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		seen := s.checkpoint()
		s.consistent(last, seen)
		tree := s.must(s.service(s.blobs))
		s.consistent(seen, tree)
		s.check(tree)
		last = tree
		if err == nil {
			break
		}
	}
}

func TestInstancesWriteOneLog(t *testing.T) {
	s, random := newStack(t), seeded(t)
	s.publish(0)
	first := s.must(s.service(s.blobs))
	var group sync.WaitGroup
	errs := make(chan error, 4)
	for range 4 {
		service := s.service(s.blobs)
		group.Go(func() {
			for range 30 {
				if err := service.round(t.Context()); err != nil && !errors.Is(err, errOvertaken) {
					errs <- err
					return
				}
			}
		})
	}
	for range 300 {
		s.publish(random.IntN(partitions))
	}
	group.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	tree := s.must(s.service(s.blobs))
	s.consistent(first, tree)
	s.check(tree)
}

// TestARoundEndsUnderTraffic: a message comes with each cut.
func TestARoundEndsUnderTraffic(t *testing.T) {
	s := newStack(t)
	s.publish(0)
	busy := &notifying{Store: s.blobs, prefix: stateKey, done: func() { s.publish(0) }}
	for range 3 {
		service := s.service(busy)
		service.deps.Clock = time.Now // no message is old enough for a segment
		if err := s.round(service); err != nil {
			t.Fatal(err)
		}
	}
	s.check(s.must(s.service(s.blobs)))
}

// TestRunSignsAndStops: it signs what the journals have, what they have an interval later, and ends with its context.
func TestRunSignsAndStops(t *testing.T) {
	s := newStack(t)
	for range 200 {
		s.publish(0)
	}
	log := &bytes.Buffer{}
	service, err := New(Config{PartitionCount: partitions, Interval: time.Millisecond, Secret: testSecret, Installation: func() string { return "test" }, CutMessages: 50},
		Deps{NC: s.nc, Blobs: s.blobs, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	signed := []int64{}
	s.blobs.Store = &notifying{Store: s.blobs.Store, prefix: proof.LogCheckpoint, done: func() {
		signed = append(signed, s.checkpoint().N)
		s.publish(1)
		if len(signed) == 3 {
			stop()
		}
	}}
	if err := service.Run(ctx); err != nil || service.Unready() != nil {
		t.Errorf("%v, %v: %s", err, service.Unready(), log)
	}
	if !slices.Equal(signed, []int64{200, 201, 202}) {
		t.Errorf("signed were %d entries: %s", signed, log)
	}
	service.cfg.Secret = testSecret[:proof.MinSecretBytes-1]
	if err := service.Run(t.Context()); err == nil {
		t.Error("a short secret is taken")
	}
}

// TestItIsReadyOnceItHasFoundItsJournals, and never where these have another number of partitions.
func TestItIsReadyOnceItHasFoundItsJournals(t *testing.T) {
	s := newStack(t)
	for _, count := range []int{partitions - 1, partitions, partitions + 1} {
		service, err := New(Config{PartitionCount: count, Secret: testSecret, Installation: func() string { return "test" }}, Deps{NC: s.nc, Blobs: s.blobs})
		if err != nil {
			t.Fatal(err)
		}
		if service.Unready() == nil {
			t.Errorf("%d partitions: it is ready before it runs", count)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- service.Run(ctx) }()
		if count == partitions {
			eventually.NoError(t, "it is ready", service.Unready)
			stop()
		}
		if err := <-done; (err == nil) != (count == partitions) || (service.Unready() == nil) != (count == partitions) {
			t.Errorf("%d partitions: %v, %v", count, err, service.Unready())
		}
		stop()
	}
}

// TestRoundsAreAnIntervalApart, which is a minute by default, in the settings too. The clock is the test's own.
func TestRoundsAreAnIntervalApart(t *testing.T) {
	unset, err := host.ReadSettings(host.Quire, nil)
	if err != nil {
		t.Fatal(err)
	}
	set, err := host.ReadSettings(host.Quire, []string{"QUIRE_CHECKPOINT_INTERVAL=7s"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cfg  Config
		want time.Duration
	}{
		"no settings":   {Config{}, time.Minute},
		"unset":         {Configure(unset), time.Minute},
		"seven seconds": {Configure(set), 7 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			service := &Service{cfg: c.cfg.withDefaults()}
			began, at := time.Now(), []time.Duration{}
			ctx, stop := context.WithCancel(t.Context())
			service.repeat(ctx, func(context.Context) error {
				if at = append(at, time.Since(began)); len(at) == 3 {
					stop()
				}
				return nil
			})
			if want := []time.Duration{0, c.want, 2 * c.want}; !slices.Equal(at, want) {
				t.Errorf("%s: rounds at %s, want %s", name, at, want)
			}
		})
	}
}
