package bus

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/rpc"
	"quire.dev/services/edge/internal/fault"
)

// auditor is the part of a billing instance that an audit talks to.
type auditor struct {
	mu       sync.Mutex
	is       event.Instance
	hash     map[int]byte // less 1, of the live state, by partition
	replay   map[int]byte // the same, of the replay
	last     map[int]uint64
	chain    map[int]byte // what the replay has at a head
	cant     int          // questions that it still refuses
	begun    map[event.RequestID]bool
	deep     bool           // whether the last audit begun was
	repaired bool           // likewise, a repair
	busy     int            // questions that it answers as pending
	rolls    int            // roll calls that it has answered
	asked    map[int]int    // audits, by partition
	stop     []func() error // ends what it serves
}

func (w *world) auditor(t *testing.T, name string, serves ...int) *auditor {
	t.Helper()
	a := w.newAuditor(name, serves...)
	a.serve(t, w)
	return a
}

func (w *world) newAuditor(name string, serves ...int) *auditor {
	return &auditor{
		is:   event.Instance{Name: name, Partitions: w.partitions, Serves: serves},
		hash: map[int]byte{}, replay: map[int]byte{}, last: map[int]uint64{}, asked: map[int]int{}, chain: map[int]byte{},
		begun: map[event.RequestID]bool{},
	}
}

// serve begins to answer.
func (a *auditor) serve(t *testing.T, w *world) {
	t.Helper()
	serve := func(subject string, handle func(payload []byte) ([]byte, error)) {
		s, err := rpc.Serve(w.nc, subject, a.is.Name, 2, func(_ context.Context, payload []byte) ([]byte, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			return handle(payload)
		})
		if err != nil {
			t.Fatal(err)
		}
		stop := sync.OnceValue(func() error { return s.Drain(context.Background()) })
		t.Cleanup(func() { _ = stop() }) // the connection may be gone
		a.stop = append(a.stop, stop)
	}
	serve(event.InstancesSubject, func([]byte) ([]byte, error) {
		a.rolls++
		return json.Marshal(a.is)
	})
	for p := range w.partitions {
		serve(event.ReplicaSubject(p, a.is.Name), func(payload []byte) ([]byte, error) { return a.audit(p, payload) })
	}
	if err := w.nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

// audit is called with mu held.
func (a *auditor) audit(p int, payload []byte) ([]byte, error) {
	var query event.Query
	if err := event.Decode(payload, &query); err != nil {
		return nil, err
	}
	id, look := event.RequestID(query.GetAudit().Id), query.GetAudit().Look
	if look && !a.begun[id] {
		return event.Encode(&event.QueryAnswer{Status: event.QueryStatus_QUERY_NOT_FOUND})
	}
	a.asked[p]++
	if a.cant > 0 || !slices.Contains(a.is.Serves, p) {
		a.cant--
		return nil, &rpc.Error{Code: rpc.CodeUnavailable, Message: "not now"}
	}
	a.begun[id] = true
	if !look {
		a.deep, a.repaired = query.GetAudit().Deep, query.GetAudit().Repair != ""
	}
	if a.busy > 0 {
		a.busy--
		return event.Encode(&event.QueryAnswer{Status: event.QueryStatus_QUERY_PENDING, Answer: &event.QueryAnswer_Progress{
			Progress: &event.Progress{Instance: a.is.Name, Done: 3, Total: 10, Again: query.GetAudit().Again},
		}})
	}
	live, replay := 1+a.hash[p], 1+a.replay[p]
	var head []byte
	if at := query.GetAudit().Head; at > 0 {
		head = []byte{byte(at), a.chain[p]}
	}
	return event.Encode(&event.QueryAnswer{Status: event.QueryStatus_QUERY_OK, Answer: &event.QueryAnswer_Audit{Audit: &event.AuditAnswer{
		Partition: uint32(p), LastSequence: 10 + a.last[p], LiveHash: []byte{live}, ReplayHash: []byte{replay}, Match: live == replay,
		Again: query.GetAudit().Again, HeadChain: head,
	}}})
}

func (a *auditor) with(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// end stops all answers, as if the instance were killed.
func (a *auditor) end(t *testing.T) {
	t.Helper()
	for _, stop := range a.stop {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

func mustAudit(t *testing.T, b *running) []*event.AuditAnswer {
	t.Helper()
	audit, err := b.Audit(t.Context(), event.NewRequestID(), AuditOptions{})
	if err != nil || !audit.Ended || len(audit.Partitions) != b.cfg.Partitions {
		t.Fatalf("%v, %v", audit, err)
	}
	answers := audit.Partitions
	for p, a := range answers {
		if int(a.Partition) != p {
			t.Fatalf("answer %d is %v", p, a)
		}
	}
	return answers
}

func TestAuditAsksEveryReplicaOfEveryPartition(t *testing.T) {
	w := newBareWorld(t, 3)
	i1, i2 := w.auditor(t, "i-1", 0, 1, 2), w.auditor(t, "i-2", 0, 2)
	b := w.bus(t, nil)
	i1.with(func() { i1.cant = 2 }) // the audit tries again
	for p, a := range mustAudit(t, b) {
		if !a.Match {
			t.Errorf("partition %d: %v", p, a)
		}
	}
	for p := range 3 {
		if i1.asked[p] == 0 || (i2.asked[p] > 0) != (p != 1) {
			t.Errorf("partition %d: asked %d and %d times", p, i1.asked[p], i2.asked[p])
		}
	}
}

func TestAuditMatchesOnlyWhereAllReplicasDo(t *testing.T) {
	w := newBareWorld(t, 4)
	i1, i2 := w.auditor(t, "i-1", 0, 1, 2, 3), w.auditor(t, "i-2", 0, 1, 2, 3)
	// Partition 0: i-2 differs from its own replay.
	// Partition 1: each matches its own replay, but at the same sequence they differ from each other.
	i2.hash[0] = 1
	i2.hash[1], i2.replay[1] = 1, 1
	// Partition 2: they differ, but at different places. Partition 3: they agree.
	i1.last[2], i1.hash[2], i1.replay[2] = 1, 1, 1
	got := mustAudit(t, w.bus(t, nil))
	for p, want := range []bool{false, false, true, true} {
		a := got[p]
		if a.Match != want || slices.Equal(a.LiveHash, a.ReplayHash) != want {
			t.Errorf("partition %d: %v", p, a)
		}
	}
	if got[2].LastSequence != 11 {
		t.Errorf("not the fold that is furthest: %v", got[2])
	}
}

// TestAuditGivesTheChainAtHeads: replicas that come to another chain there do not match.
func TestAuditGivesTheChainAtHeads(t *testing.T) {
	w := newBareWorld(t, 3)
	i1, i2 := w.auditor(t, "i-1", 0, 1, 2), w.auditor(t, "i-2", 0, 1, 2)
	i1.last[1], i2.chain[1] = 1, 9
	audit, err := w.bus(t, nil).Audit(t.Context(), event.NewRequestID(), AuditOptions{Heads: Heads{0: 7, 1: 8}})
	if err != nil || len(audit.Partitions) != 3 {
		t.Fatalf("%v, %v", audit, err)
	}
	for p, want := range []struct {
		head  []byte
		match bool
	}{{[]byte{7, 0}, true}, {[]byte{8, 9}, false}, {nil, true}} {
		if a := audit.Partitions[p]; a.Match != want.match || !slices.Equal(a.HeadChain, want.head) {
			t.Errorf("partition %d: %v", p, a)
		}
	}
}

func TestAuditLeavesOutReplicasThatMoveAway(t *testing.T) {
	w := newBareWorld(t, 2)
	i1, i2 := w.auditor(t, "i-1", 0, 1), w.auditor(t, "i-2", 0, 1)
	b := w.bus(t, nil)
	i1.with(func() { i1.cant = 1 << 30 })
	i2.with(func() { i2.cant = 1 << 30 })
	done := make(chan []*event.AuditAnswer, 1)
	go func() {
		audit, err := b.Audit(t.Context(), event.NewRequestID(), AuditOptions{})
		if err != nil {
			t.Error(err)
		}
		done <- audit.Partitions
	}()
	eventually.True(t, "both were asked", func() bool {
		return i1.holds(func() bool { return i1.asked[0] > 0 }) && i2.holds(func() bool { return i2.asked[1] > 0 })
	})
	// One is killed, the other gives its partitions up, and a third one takes all.
	i3 := w.auditor(t, "i-3", 0, 1)
	i1.end(t)
	i2.with(func() { i2.is.Serves = nil })
	if answers := <-done; len(answers) != 2 || !answers[0].Match || !answers[1].Match {
		t.Errorf("answers %v", answers)
	}
	if i3.asked[0] == 0 || i3.asked[1] == 0 {
		t.Errorf("asked %v", i3.asked)
	}
}

func (a *auditor) holds(condition func() bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return condition()
}

func TestAuditWaitsForAllLiveInstances(t *testing.T) {
	w := newBareWorld(t, 1)
	i1 := w.auditor(t, "i-1", 0)
	i1.is.Live = []string{"i-1", "i-2"}
	b := w.bus(t, nil)
	done := make(chan bool, 1)
	go func() {
		audit, err := b.Audit(t.Context(), event.NewRequestID(), AuditOptions{})
		done <- err == nil && audit.Partitions[0].Match
	}()
	eventually.True(t, "the roll is called", func() bool { return i1.holds(func() bool { return i1.rolls > 0 }) })
	i2 := w.newAuditor("i-2", 0)
	i2.hash[0] = 1
	i2.serve(t, w)
	if <-done {
		t.Error("it was not waited for")
	}
}

func TestAuditOfAPartitionThatNobodyFoldsIsUnavailable(t *testing.T) {
	w := newBareWorld(t, 2)
	w.auditor(t, "i-1", 0)
	b := w.bus(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 2*initialRollCall)
	defer cancel()
	if _, err := b.Audit(ctx, event.NewRequestID(), AuditOptions{}); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("audit: %v, want unavailable", err)
	}
}

// TestAnAuditIsFollowedByItsID: any edge shows how far it is, and its result.
func TestAnAuditIsFollowedByItsID(t *testing.T) {
	w := newBareWorld(t, 2)
	i1, i2 := w.auditor(t, "i-1", 0, 1), w.auditor(t, "i-2", 1)
	first, second := w.bus(t, nil), w.bus(t, nil)
	id := event.NewRequestID()
	i1.with(func() { i1.busy = 1 << 30 })
	a, err := first.BeginAudit(t.Context(), id, AuditOptions{})
	if err != nil || a.Ended || len(a.Partitions) != 0 || a.Done != 3+3+10 || a.Total != 10+10+10 {
		t.Fatalf("begun: %+v, %v", a, err)
	}
	if a, err = second.ReadAudit(t.Context(), id, AuditOptions{}); err != nil || a.Ended || a.Done == 0 || a.Again {
		t.Fatalf("under way: %+v, %v", a, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*initialRollCall)
	defer cancel()
	if a, err = second.Audit(ctx, id, AuditOptions{}); err != nil || a.Ended {
		t.Fatalf("followed for a while: %+v, %v", a, err)
	}
	i1.with(func() { i1.busy = 0 })
	if a, err = second.ReadAudit(t.Context(), id, AuditOptions{}); err != nil || !a.Ended || len(a.Partitions) != 2 || a.Done != a.Total || a.Again {
		t.Fatalf("ended: %+v, %v", a, err)
	}
	if _, err := first.ReadAudit(t.Context(), event.NewRequestID(), AuditOptions{}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another audit: %v", err)
	}
	if i2.asked[1] == 0 {
		t.Error("a replica was not asked")
	}
}

// TestALostAuditBeginsAgainAndSaysSo: billing keeps audits in memory.
func TestALostAuditBeginsAgainAndSaysSo(t *testing.T) {
	w := newBareWorld(t, 2)
	i1, i2 := w.auditor(t, "i-1", 0), w.auditor(t, "i-2", 1)
	b := w.bus(t, nil)
	id := event.NewRequestID()
	if a, err := b.BeginAudit(t.Context(), id, AuditOptions{}); err != nil || !a.Ended {
		t.Fatalf("begun: %+v, %v", a, err)
	}
	i1.with(func() { clear(i1.begun) }) // as after a restart
	a, err := b.ReadAudit(t.Context(), id, AuditOptions{Deep: true, Repair: "ledger"})
	if err != nil || !a.Ended || !a.Again || len(a.Partitions) != 2 {
		t.Fatalf("one restarted: %+v, %v", a, err)
	}
	if !i1.deep || i1.repaired || i2.deep {
		t.Errorf("it began with deep %t, %t and repairs: %t", i1.deep, i2.deep, i1.repaired)
	}
	i1.with(func() { clear(i1.begun) })
	i2.with(func() { clear(i2.begun) })
	if _, err := b.ReadAudit(t.Context(), id, AuditOptions{}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("all restarted: %v", err)
	}
}

func TestTheNumberOfPartitionsIsThatOfBilling(t *testing.T) {
	w := newBareWorld(t, 2)
	right, wrong := w.bus(t, nil), w.bus(t, func(c *Config) { c.Partitions = 3 })
	ask := func(ctx context.Context, b *running) error { _, err := b.CheckPartitions(ctx); return err }
	checked := make(chan error, 1)
	go func() { checked <- ask(t.Context(), right) }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ask(ctx, wrong); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody there: %v", err)
	}
	w.auditor(t, "i-1", 0, 1)
	if err := <-checked; err != nil {
		t.Errorf("the same number: %v", err)
	}
	err := ask(t.Context(), wrong)
	if !errors.Is(err, errPartitions) || !strings.Contains(err.Error(), "with 3") || !strings.Contains(err.Error(), "has 2") {
		t.Errorf("another number: %v", err)
	}
	if _, err := wrong.Audit(t.Context(), event.NewRequestID(), AuditOptions{}); fault.KindOf(err) != fault.Unavailable || !errors.Is(err, errPartitions) {
		t.Errorf("audit: %v", err)
	}
}
