package members

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/rpc"
)

// TestAJoinerTakesItsShareWithoutAHole: a former replica of a partition folds it until the joiner serves it. No
// heartbeat is needed for that.
func TestAJoinerTakesItsShareWithoutAHole(t *testing.T) {
	for _, replicas := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d replicas", replicas), func(t *testing.T) {
			server, cfg, cover := journaltest.Start(t), slow(replicas), newCoverage()
			var all []*instance
			for i := range 4 {
				all = append(all, join(t, server.Conn(t), cfg, cover))
				waitShared(t, cfg, all...)
				cover.guard(min(i+1, replicas))
			}
			cover.mustHaveNoHole(t)
		})
	}
}

// TestAGracefulLeaveIsTakenOverAtOnce and without a hole; the others know that the member is gone.
func TestAGracefulLeaveIsTakenOverAtOnce(t *testing.T) {
	for _, replicas := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d replicas", replicas), func(t *testing.T) {
			server, cfg, cover := journaltest.Start(t), slow(replicas), newCoverage()
			a, b, c := join(t, server.Conn(t), cfg, cover), join(t, server.Conn(t), cfg, cover), join(t, server.Conn(t), cfg, cover)
			waitShared(t, cfg, a, b, c)
			cover.guard(replicas)
			if err := b.leave(t.Context()); err != nil {
				t.Fatal(err)
			}
			eventually.True(t, "the leaver without partitions", func() bool { return len(b.assigned()) == 0 })
			b.stop()
			waitShared(t, cfg, a, c)
			cover.mustHaveNoHole(t)

			// The last but one hands over to the last. The last has nobody to hand over to.
			cover.guard(1)
			if err := a.leave(t.Context()); err != nil {
				t.Fatal(err)
			}
			a.stop()
			waitShared(t, cfg, c)
			cover.mustHaveNoHole(t)
			if err := c.leave(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestALeaverGoesOnUntilItIsReplaced: it folds on while the new owner does not catch up, until the caller gives up.
func TestALeaverGoesOnUntilItIsReplaced(t *testing.T) {
	server, cfg, cover := journaltest.Start(t), slow(1), newCoverage()
	a, b := join(t, server.Conn(t), cfg, cover), join(t, server.Conn(t), cfg, cover)
	waitShared(t, cfg, a, b)
	before := a.assigned()
	b.mu.Lock()
	b.stuck = true
	b.mu.Unlock()

	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- a.leave(ctx) }()
	eventually.True(t, "the new owner's assignment", func() bool { return len(b.assigned()) == cfg.Partitions })
	if got := a.assigned(); !slices.Equal(got, before) {
		t.Errorf("the leaver folds %v, no other member serves %v", got, before)
	}
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("left with %v", err)
	}
}

// TestAHandoverIsBounded: a member gives a partition up after Config.Handover even if its owner never serves it.
func TestAHandoverIsBounded(t *testing.T) {
	server, cfg, cover := journaltest.Start(t), slow(1), newCoverage()
	cfg.Handover = 50 * time.Millisecond
	a := join(t, server.Conn(t), cfg, cover)
	waitShared(t, cfg, a)
	nc := server.Conn(t)
	m, err := joined(t.Context(), nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	waitShared(t, cfg, a, live(t, nc, m, cover, true))
}

// TestAKilledMemberIsReplaced once it has been silent for a TTL.
func TestAKilledMemberIsReplaced(t *testing.T) {
	server, cfg, cover := journaltest.Start(t), quick(2), newCoverage()
	a, b, c := join(t, server.Conn(t), cfg, cover), join(t, server.Conn(t), cfg, cover), join(t, server.Conn(t), cfg, cover)
	waitShared(t, cfg, a, b, c)
	cover.guard(1) // the other replica of the killed one's partitions
	b.kill(t)
	waitShared(t, cfg, a, c)
	cover.mustHaveNoHole(t)
}

// TestACutMemberFoldsOnAndComesBack: it can't know who is alive, and folding twice does no harm.
func TestACutMemberFoldsOnAndComesBack(t *testing.T) {
	server, cfg, cover := journaltest.Start(t), quick(1), newCoverage()
	way := &gate{server: server}
	a, b := join(t, server.Conn(t), cfg, cover), join(t, server.Conn(t, nats.InProcessServer(way)), cfg, cover)
	waitShared(t, cfg, a, b)
	cover.guard(1)
	before := b.assigned()
	way.close()
	waitShared(t, cfg, a)
	if got := b.assigned(); !slices.Equal(got, before) {
		t.Errorf("the cut member folds %v, it had %v", got, before)
	}
	if live := b.Live(); len(live) != 2 {
		t.Errorf("the cut member believes that only %v live", live)
	}
	way.open()
	waitShared(t, cfg, a, b)
	cover.mustHaveNoHole(t)
}

// TestARestartedServerChangesNothing: the bucket is lost with it and recreated. No member is taken for dead meanwhile, and one
// that dies afterwards is.
func TestARestartedServerChangesNothing(t *testing.T) {
	server, cfg, cover := journaltest.Start(t), quick(1), newCoverage()
	a, b, c := join(t, server.Conn(t), cfg, cover), join(t, server.Conn(t), cfg, cover), join(t, server.Conn(t), cfg, cover)
	waitShared(t, cfg, a, b, c)
	cover.guard(1)
	server.Restart(t)
	nc := server.Conn(t)
	eventually.True(t, "a new bucket", func() bool { return Ensure(t.Context(), nc, cfg) == nil })
	eventually.True(t, "all three in the new bucket", func() bool {
		kv, err := keyValue(t, nc)
		if err != nil {
			return false
		}
		keys, err := kv.Keys(t.Context())
		return err == nil && len(keys) == 3
	})
	waitShared(t, cfg, a, b, c)
	cover.mustHaveNoHole(t)

	cover.guard(0)
	c.kill(t)
	waitShared(t, cfg, a, b)
}

// TestALostServerOfAClusterIsNoLostMember: a bucket of three replicas outlives the leader of its stream, and a member
// that dies afterwards is missed.
func TestALostServerOfAClusterIsNoLostMember(t *testing.T) {
	cluster, cfg, cover := journaltest.StartCluster(t, 3), quick(1), newCoverage()
	cfg.BucketReplicas = 3
	a, b, c := join(t, cluster.Conn(t), cfg, cover), join(t, cluster.Conn(t), cfg, cover), join(t, cluster.Conn(t), cfg, cover)
	waitShared(t, cfg, a, b, c)
	cover.guard(1)
	cluster.Node(cluster.LeaderOf(t, "KV_"+Bucket)).Stop()
	cluster.LeaderOf(t, "KV_"+Bucket)
	waitShared(t, cfg, a, b, c)
	cover.mustHaveNoHole(t)
	cover.guard(0)
	c.kill(t)
	waitShared(t, cfg, a, b)
}

// TestMembersMakeNoBucket: they wait for it, since they have no right to make one.
func TestMembersMakeNoBucket(t *testing.T) {
	server, cfg := journaltest.Start(t), quick(1)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := New(server.Conn(t), cfg).join(ctx); !errors.Is(err, errNoBucket) {
		t.Errorf("joined without a bucket: %v", err)
	}
	if _, err := keyValue(t, server.Conn(t)); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("the bucket is there: %v", err)
	}
}

// TestABucketOutlivesARestartOfAllServers of a cluster, empty: members can't create it, and announce themselves in it again.
func TestABucketOutlivesARestartOfAllServers(t *testing.T) {
	cluster, cfg, cover := journaltest.StartCluster(t, 3), quick(1), newCoverage()
	cfg.BucketReplicas = 3
	a, b := join(t, cluster.Conn(t), cfg, cover), join(t, cluster.Conn(t), cfg, cover)
	waitShared(t, cfg, a, b)
	for n := range 3 {
		cluster.Node(n).Stop()
	}
	for n := range 3 {
		cluster.Node(n).Restart(t)
	}
	nc := cluster.Conn(t)
	eventually.True(t, "both in the bucket", func() bool {
		kv, err := keyValue(t, nc)
		if err != nil {
			return false
		}
		keys, err := kv.Keys(t.Context())
		return err == nil && len(keys) == 2
	})
	waitShared(t, cfg, a, b)
}

// TestAMemberWhoseServerIsCutOffMoves: no packet tells it or the others. Its partitions are taken over, and it has its
// share again once it is connected to another server.
func TestAMemberWhoseServerIsCutOffMoves(t *testing.T) {
	cluster := journaltest.StartCluster(t, 3)
	url, proxies := journaltest.StartProxies(t, cluster)
	far, err := rpc.Connect(url, "billing", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(far.Close)
	if err := rpc.WaitConnected(t.Context(), far); err != nil {
		t.Fatal(err)
	}
	cfg, cover := quick(1), newCoverage()
	cfg.BucketReplicas = 3
	a := join(t, cluster.Conn(t), cfg, cover)
	b := join(t, far, cfg, cover)
	waitShared(t, cfg, a, b)
	left := far.ConnectedUrl()
	proxies[left].Cut()
	eventually.True(t, "it is missed", func() bool { return slices.Equal(a.Live(), []string{a.Instance()}) })
	waitShared(t, cfg, a, b)
	if now := far.ConnectedUrl(); now == left {
		t.Errorf("still connected to %s", now)
	}
}

// keyValue opens the members' bucket.
func keyValue(t *testing.T, nc *nats.Conn) (jetstream.KeyValue, error) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js.KeyValue(t.Context(), Bucket)
}

// TestADeletedKeyIsAnnouncedAgain before a heartbeat.
func TestADeletedKeyIsAnnouncedAgain(t *testing.T) {
	server, cfg, cover := journaltest.Start(t), slow(1), newCoverage()
	a, b := join(t, server.Conn(t), cfg, cover), join(t, server.Conn(t), cfg, cover)
	waitShared(t, cfg, a, b)
	kv, err := keyValue(t, server.Conn(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Delete(t.Context(), "billing."+b.Instance()); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "its key", func() bool {
		_, err := kv.Get(t.Context(), "billing."+b.Instance())
		return err == nil
	})
	waitShared(t, cfg, a, b)
}

// TestServicesDoNotMix in the bucket that they share, and its TTL is the longest that was asked for.
func TestServicesDoNotMix(t *testing.T) {
	server, cover := journaltest.Start(t), newCoverage()
	billing, paste := slow(1), slow(1)
	paste.Service, paste.Partitions, paste.TTL = "paste", 4, 2*billing.TTL
	for _, cfg := range []Config{paste, billing} {
		if err := Ensure(t.Context(), server.Conn(t), cfg); err != nil {
			t.Fatal(err)
		}
	}
	a, b := join(t, server.Conn(t), billing, cover), join(t, server.Conn(t), paste, newCoverage())
	waitShared(t, billing, a)
	waitShared(t, paste, b)
	kv, err := keyValue(t, server.Conn(t))
	if err != nil {
		t.Fatal(err)
	}
	status, err := kv.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if status.TTL() != paste.TTL {
		t.Errorf("entries are kept for %v, the longest TTL is %v", status.TTL(), paste.TTL)
	}
}

// TestAnotherNumberOfPartitionsIsRefused while a member is alive, and the refused one leaves no trace.
func TestAnotherNumberOfPartitionsIsRefused(t *testing.T) {
	server, cfg, cover := journaltest.Start(t), quick(1), newCoverage()
	a := join(t, server.Conn(t), cfg, cover)
	other := cfg
	other.Partitions = 8
	if _, err := joined(t.Context(), server.Conn(t), other); !errors.Is(err, ErrPartitions) {
		t.Fatalf("joined with %v", err)
	}
	waitShared(t, cfg, a)
	a.stop()
	b := join(t, server.Conn(t), other, newCoverage())
	waitShared(t, other, b)
}

// TestAMemberThatWasKilledDoesNotHoldItsNumber: one that had a wrong number of partitions, and was killed, keeps others
// out for a TTL at most.
func TestAMemberThatWasKilledDoesNotHoldItsNumber(t *testing.T) {
	server, cfg := journaltest.Start(t), quick(1)
	wrong := cfg
	wrong.Partitions++
	gone := server.Conn(t)
	killed, err := joined(t.Context(), gone, wrong)
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	killed.stopWatch() // as the end of its process would
	m := join(t, server.Conn(t), cfg, newCoverage())
	waitShared(t, cfg, m)
}

// TestOneOfTwoNumbersWins if both join at the same time. The other one is refused when it joins or, if it could not read
// the first one's key because that was just being written again, right after.
func TestOneOfTwoNumbersWins(t *testing.T) {
	server := journaltest.Start(t)
	conns := []*nats.Conn{server.Conn(t), server.Conn(t)}
	for round := range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		refused := make(chan error, len(conns))
		for i, nc := range conns {
			cfg := quick(1)
			cfg.Service, cfg.Partitions = fmt.Sprintf("billing%d", round), 4+i
			go func() {
				m, err := joined(ctx, nc, cfg)
				if err == nil {
					err = m.run(ctx)
				}
				refused <- err
			}()
		}
		if err := <-refused; !errors.Is(err, ErrPartitions) {
			t.Errorf("round %d: refused with %v", round, err)
		}
		cancel()
		if err := <-refused; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("round %d: the other one ended with %v", round, err)
		}
	}
}

// TestJoinWaitsForTheServer until its context ends.
func TestJoinWaitsForTheServer(t *testing.T) {
	server, cfg, cover := journaltest.Start(t), quick(1), newCoverage()
	nc := server.Conn(t)
	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := joined(ctx, nc, cfg); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("joined with %v", err)
	}
	var m *Member
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		m, err = joined(t.Context(), nc, cfg)
	}()
	server.Restart(t)
	if <-done; err != nil {
		t.Fatal(err)
	}
	waitShared(t, cfg, live(t, nc, m, cover, false))
}

// TestAWrongConfigurationIsRefused with all its faults in one message.
func TestAWrongConfigurationIsRefused(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	_, err := joined(t.Context(), nc, Config{
		Service: "a.b", Instance: "*", PerPartition: -1, TTL: time.Millisecond, Heartbeat: time.Second, Handover: -1, BucketReplicas: 9,
	})
	for _, fault := range []string{`"a.b"`, `"*"`, "0 partitions", "-1 replicas per partition", "TTL of 1ms", "heartbeat of 1s", "handover", "9 replicas"} {
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%q is missing: %v", fault, err)
		}
	}
}

// TestHostHandsOverBeforeItStops the work, and deletes its key after that.
func TestHostHandsOverBeforeItStops(t *testing.T) {
	server, cfg, cover := journaltest.Start(t), slow(1), newCoverage()
	a := join(t, server.Conn(t), cfg, cover)
	m := New(server.Conn(t), cfg)
	b := &instance{Member: m, cover: cover}
	ctx, cancel := context.WithCancel(t.Context())
	had := -1
	done := make(chan error, 1)
	broken := errors.New("stopped")
	go func() {
		done <- m.Host(ctx, func(ctx context.Context) error {
			go b.fold()
			<-ctx.Done()
			had = len(a.assigned())
			return broken
		})
	}()
	waitShared(t, cfg, a, b)
	cover.guard(1)
	cancel()
	if err := <-done; !errors.Is(err, broken) {
		t.Errorf("ended with %v", err)
	}
	if had != cfg.Partitions {
		t.Errorf("the work was stopped when the other had %d of %d partitions", had, cfg.Partitions)
	}
	waitShared(t, cfg, a)
	cover.mustHaveNoHole(t)
}

// TestHostEndsWithItsWork: an instance that failed is taken over at once.
func TestHostEndsWithItsWork(t *testing.T) {
	server, cfg, cover := journaltest.Start(t), slow(1), newCoverage()
	a := join(t, server.Conn(t), cfg, cover)
	m := New(server.Conn(t), cfg)
	broken := errors.New("broken")
	if err := m.Host(t.Context(), func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("ended with %v", err)
	}
	waitShared(t, cfg, a)
}

// TestNoGoroutineIsLeft after members were stopped, killed, cut off and refused.
func TestNoGoroutineIsLeft(t *testing.T) {
	server, cfg, cover := journaltest.Start(t), quick(1), newCoverage()
	way := &gate{server: server}
	a, b, c := join(t, server.Conn(t), cfg, cover), join(t, server.Conn(t), cfg, cover), join(t, server.Conn(t, nats.InProcessServer(way)), cfg, cover)
	waitShared(t, cfg, a, b, c)
	other := cfg
	other.Partitions++
	refused := server.Conn(t)
	if _, err := joined(t.Context(), refused, other); !errors.Is(err, ErrPartitions) {
		t.Fatal(err)
	}
	server.Restart(t) // watches are recreated
	eventually.True(t, "a new bucket", func() bool { return Ensure(t.Context(), server.Conn(t), cfg) == nil })
	waitShared(t, cfg, a, b, c)
	way.close()
	c.stop()
	b.kill(t)
	if err := a.leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.stop()
	refused.Close()
	c.nc.Close()
	eventually.NoError(t, "the end of all goroutines", func() error {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		for _, stack := range bytes.Split(stacks, []byte("\n\n")) {
			for _, ours := range []string{"pkg/members.(*", "(*kvs)", "(*js).subscribe"} { // the last two belong to watches
				if bytes.Contains(stack, []byte(ours)) {
					return fmt.Errorf("%s", stack)
				}
			}
		}
		return nil
	})
}
