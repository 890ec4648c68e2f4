package billing_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/members"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/rpc"
	"quire.dev/services/billing"
)

// sharing is a service that folds its share, like a separate process.
type sharing struct {
	s        *stack
	instance string
	replicas int
	service  *billing.Service
	nc       *nats.Conn
	views    *switched
	blobs    *switchedBlobs
	leave    context.CancelFunc
	ended    chan struct{}
	err      error // once ended is closed

	mu     sync.Mutex
	served map[int]bool
}

func (s *stack) share(instance string, replicas int) *sharing {
	s.t.Helper()
	return s.shareAs(instance, replicas, billing.Config{})
}

// shareAs is share with some fields of the configuration.
func (s *stack) shareAs(instance string, replicas int, cfg billing.Config) *sharing {
	s.t.Helper()
	h := &sharing{
		s: s, instance: instance, replicas: replicas, nc: s.server.Conn(s.t), views: &switched{Store: s.views.Store},
		blobs: &switchedBlobs{Store: s.blobs.Store}, ended: make(chan struct{}), served: map[int]bool{},
	}
	s.provision(s.count)
	log := slog.New(slog.NewTextHandler(testWriter{s.t}, nil)).With("instance", instance)
	member := members.New(h.nc, members.Config{
		Service: "billing", Instance: instance, Partitions: s.count, PerPartition: replicas,
		TTL: 1500 * time.Millisecond, Heartbeat: 200 * time.Millisecond, Handover: 30 * time.Second, Logger: log,
	})
	cfg.PartitionCount, cfg.SnapshotMessages, cfg.Instance, cfg.Live, cfg.Assigned = s.count, 20, instance, member.Live, member.Assigned()
	cfg.Served = func(p int, serving bool) {
		h.note(p, serving)
		member.Serving(p, serving)
	}
	var err error
	h.service, err = billing.New(cfg, billing.Deps{NC: h.nc, Views: h.views, Blobs: h.blobs, Logger: log})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	h.leave = cancel
	go func() {
		defer close(h.ended)
		h.err = member.Host(ctx, h.service.Run)
	}()
	s.t.Cleanup(func() {
		cancel()
		<-h.ended
	})
	return h
}

func (h *sharing) note(partition int, serving bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if serving {
		h.served[partition] = true
	} else {
		delete(h.served, partition)
	}
}

func (h *sharing) serves() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.served))
}

// kill ends it without telling the others, and without writing the rest.
func (h *sharing) kill() {
	h.s.t.Helper()
	h.views.down.Store(true)
	h.blobs.down.Store(true)
	h.nc.Close()
	<-h.ended
	if !errors.Is(h.err, nats.ErrConnectionClosed) {
		h.s.t.Fatalf("ended with %v", h.err)
	}
}

// waitShared waits until each partition is served by its owners among these, and by no other.
func (s *stack) waitShared(all ...*sharing) {
	s.t.Helper()
	var names []string
	for _, h := range all {
		names = append(names, h.instance)
	}
	want := map[string][]int{}
	for p := range s.count {
		for _, owner := range members.Owners(names, p, all[0].replicas) {
			want[owner] = append(want[owner], p)
		}
	}
	eventually.True(s.t, fmt.Sprintf("partitions are shared as %v", want), func() bool {
		for _, h := range all {
			select {
			case <-h.service.Ready():
			default:
				return false
			}
			if !slices.Equal(h.serves(), want[h.instance]) {
				return false
			}
		}
		return true
	})
}

// accounts creates one account in each partition. Its next uploads cost credits.
func (s *stack) accounts() []uint64 {
	s.t.Helper()
	ids := make([]uint64, s.count)
	for id, missing := uint64(1), s.count; missing > 0; id++ {
		if p := s.partition(id); ids[p] == 0 {
			ids[p] = id
			missing--
			s.account(id, plan.Pro)
			s.grant(id, 10_000_000)
			s.serve(id, plan.FilesUpload, 100)
		}
	}
	return ids
}

// begin publishes one admission of each account, without waiting for verdicts.
func (s *stack) begin(ids []uint64) map[uint64]*event.Admission {
	s.t.Helper()
	begun := map[uint64]*event.Admission{}
	for _, id := range ids {
		s.number++
		begun[s.number] = admission(id, plan.FilesUpload)
		s.publish(event.UsageSubject(s.partition(id)), &event.UsageBatch{
			Source: "test", Number: s.number, StampMs: time.Now().UnixMilli(), Admissions: []*event.Admission{begun[s.number]},
		})
	}
	if err := s.nc.Flush(); err != nil {
		s.t.Fatal(err)
	}
	return begun
}

// finish waits for the verdicts and settles.
func (s *stack) finish(begun map[uint64]*event.Admission) {
	s.t.Helper()
	admitted := map[uint64]bool{}
	for len(admitted) < len(begun) {
		b := &event.VerdictBatch{}
		decode(s.t, s.next(event.VerdictSubject("test")), b)
		if begun[b.Number] == nil {
			continue
		}
		if v := b.Verdicts[0]; v.Decision != event.Decision_ADMITTED {
			s.t.Fatalf("batch %d: %v", b.Number, v)
		}
		admitted[b.Number] = true
	}
	for _, a := range begun {
		s.usage(nil, []*event.Settlement{{RequestId: a.RequestId, Result: event.Result_SERVED, Account: a.Account, QuotaKey: a.QuotaKey}})
	}
}

// mustHaveCharged asserts that each account has paid for this many uploads, each once.
func (s *stack) mustHaveCharged(ids []uint64, charges int) {
	s.t.Helper()
	for p, id := range ids {
		u := s.usageOf(id)
		if used := u.Usage[plan.FilesUpload-1].Used; used != uint64(100+charges) || u.BalanceMicros != int64(10_000_000-5_000*charges) {
			s.t.Errorf("partition %d after %d charges: %v", p, charges, u)
		}
		if n := len(s.ledger(id, 50)); n != charges+1 {
			s.t.Errorf("partition %d: %d ledger entries after %d charges and a grant", p, n, charges)
		}
		if a := s.auditAt(p); !a.Match {
			s.t.Errorf("audit %v", a)
		}
	}
}

// leaveUnderLoad stops an instance orderly under load. No request may fail.
func (s *stack) leaveUnderLoad(h *sharing, ids []uint64) (charges int) {
	s.t.Helper()
	h.leave()
	for {
		for _, id := range ids {
			s.serve(id, plan.FilesUpload, 1)
			s.usageOf(id)
		}
		charges++
		select {
		case <-h.ended:
			if h.err != nil {
				s.t.Fatalf("left with %v", h.err)
			}
			return charges
		default:
		}
	}
}

// TestSharedPartitionsAreTakenOver: no charge is lost or doubled while instances join, die and leave.
func TestSharedPartitionsAreTakenOver(t *testing.T) {
	s := newStack(t)
	s.count = 4
	// These instances are named so that any two of them have two of the four partitions each.
	a, b := s.share("i-1", 1), s.share("i-2", 1)
	s.waitShared(a, b)
	ids := s.accounts()
	s.finish(s.begin(ids))
	begun := s.begin(ids)
	b.kill()
	maps.Copy(begun, s.begin(ids))
	s.finish(begun)
	s.waitShared(a)
	charges := 3
	s.mustHaveCharged(ids, charges)

	c := s.share("i-3", 1)
	s.waitShared(a, c)
	charges += s.leaveUnderLoad(a, ids)
	s.waitShared(c)
	s.mustHaveCharged(ids, charges)
}

// TestTheOtherReplicaAnswersWhenOneIsKilled: with two replicas, no request waits until a kill is noticed.
func TestTheOtherReplicaAnswersWhenOneIsKilled(t *testing.T) {
	s := newStack(t)
	s.count = 4
	a, b, c := s.share("i-1", 2), s.share("i-2", 2), s.share("i-3", 2)
	s.waitShared(a, b, c)
	ids := s.accounts()
	begun := s.begin(ids)
	b.kill()
	s.finish(begun)
	s.waitShared(a, c)
	charges := 1 + s.leaveUnderLoad(c, ids)
	s.waitShared(a)
	s.mustHaveCharged(ids, charges)
}

func TestAServiceWithoutAPartitionIsReady(t *testing.T) {
	s := newStack(t)
	assigned := make(chan []int, 1)
	assigned <- nil
	service, r := s.launch(billing.Config{PartitionCount: 4, Assigned: assigned}, 0)
	<-service.Ready()
	if !service.Serving() {
		t.Error("it is not ready for operators")
	}
	assigned <- []int{9, 2, -1} // partitions that do not exist are left out
	s.count = 4
	for id := uint64(1); ; id++ {
		if s.partition(id) == 2 {
			s.account(id, plan.Free)
			break
		}
	}
	r.stop()
}

// instances asks all instances for their names and partitions, until so many have answered.
func (s *stack) instances(count int) map[string]event.Instance {
	s.t.Helper()
	found := map[string]event.Instance{}
	eventually.True(s.t, "the instances answer", func() bool {
		ctx, cancel := context.WithTimeout(s.t.Context(), 200*time.Millisecond)
		defer cancel()
		answers, err := rpc.Gather(ctx, s.nc, event.InstancesSubject, nil)
		if err != nil && !errors.Is(err, rpc.ErrUnavailable) {
			s.t.Fatal(err)
		}
		for _, data := range answers {
			var i event.Instance
			if err := json.Unmarshal(data, &i); err != nil {
				s.t.Fatal(err)
			}
			found[i.Name] = i
		}
		return len(found) == count
	})
	return found
}

// auditBy has one instance audit a partition.
func (s *stack) auditBy(instance string, partition int) *event.AuditAnswer {
	s.t.Helper()
	a := s.ask(event.ReplicaSubject(partition, instance), &event.Query{Query: &event.Query_Audit{Audit: &event.AuditQuery{}}})
	if a.Status != event.QueryStatus_QUERY_OK {
		s.t.Fatalf("audit by %s: %v", instance, a.Status)
	}
	return a.GetAudit()
}

// TestEveryReplicaCanBeAskedForAnAudit: the edge finds all replicas and asks each by its name.
func TestEveryReplicaCanBeAskedForAnAudit(t *testing.T) {
	s := newStack(t)
	s.count = 4
	all := []*sharing{s.share("i-1", 2), s.share("i-2", 2), s.share("i-3", 2)}
	s.waitShared(all...)
	ids := s.accounts()
	names := []string{"i-1", "i-2", "i-3"}
	known := s.instances(3)
	replicas := map[int]int{}
	for _, h := range all {
		i := known[h.instance]
		if i.Partitions != 4 || !slices.Equal(i.Live, names) || !slices.Equal(i.Serves, h.serves()) {
			t.Errorf("%s says %+v, serves %v", h.instance, i, h.serves())
		}
		for _, p := range i.Serves {
			replicas[p]++
			if a := s.auditBy(h.instance, p); !a.Match || a.Partition != uint32(p) || a.LastSequence == 0 {
				t.Errorf("audit by %s: %v", h.instance, a)
			}
		}
	}
	for p := range ids {
		if replicas[p] != 2 {
			t.Errorf("partition %d has %d replicas", p, replicas[p])
		}
	}
	// At the same sequence all replicas have the same state.
	for p := range ids {
		byPlace := map[uint64][]byte{}
		for _, h := range all {
			if !slices.Contains(h.serves(), p) {
				continue
			}
			a := s.auditBy(h.instance, p)
			if before, ok := byPlace[a.LastSequence]; ok && !bytes.Equal(before, a.LiveHash) {
				t.Errorf("partition %d at %d: %x and %x", p, a.LastSequence, before, a.LiveHash)
			}
			byPlace[a.LastSequence] = a.LiveHash
		}
	}
	all[0].leave()
	<-all[0].ended
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := rpc.CallOnce(ctx, s.nc, event.ReplicaSubject(0, "i-1"), nil); !errors.Is(err, rpc.ErrUnavailable) {
		t.Errorf("one that has left: %v, want %v", err, rpc.ErrUnavailable)
	}
}

// TestNothingIsShownOfAPartitionThatMovedAway: otherwise its last values would stay in the metrics.
func TestNothingIsShownOfAPartitionThatMovedAway(t *testing.T) {
	s := newStack(t)
	assigned := make(chan []int, 1)
	_, r := s.launch(billing.Config{PartitionCount: 4, Assigned: assigned}, 0)
	for _, set := range [][]int{{0, 1, 2}, {2, 3}, nil} {
		assigned <- set
		eventually.True(t, fmt.Sprintf("sizes of partitions %v are shown", set), func() bool {
			exposed := r.exposed()
			for p := range 4 {
				for _, label := range []string{fmt.Sprintf("partition=\"%d\"", p), fmt.Sprintf("stream=\"BILLING_%d\"", p)} {
					if strings.Contains(exposed, label) != slices.Contains(set, p) {
						return false
					}
				}
			}
			return true
		})
	}
	r.stop()
}
