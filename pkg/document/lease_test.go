package document

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
)

// simulation is a journal and some replicas of one partition, with clocks that differ by 5 %, that come late, stand still,
// crash and begin again. Each write makes the next version of one document.
type simulation struct {
	t        *rapid.T
	now      time.Duration
	journal  []*event.RequestBatch // a message without a lease is a write, unless it is plain
	plain    map[int]bool          // sequences of messages that only confirm
	replicas []*simulated
	acked    int // the highest version whose write was answered
	shown    int // the highest version that a read has shown
	starts   int
}

// simulated is one run of a replica.
type simulated struct {
	*lease
	state   *fold.State
	rate    float64 // of its clock
	at      int     // messages folded
	version int     // of the document, after them
	number  uint64  // of the last message made
	unsent  []*event.RequestBatch
	ended   bool
	reads   []*simulatedRead
}

// simulatedRead is a read under way.
type simulatedRead struct {
	oldest   int // the version that it may show at least
	asked    bool
	after    int // messages that have to be folded; -1: not known yet
	version  int // 0: the state is not read yet
	unstored *event.RequestBatch
}

func (s *simulation) start(i int, instance string, from *simulated) {
	r := &simulated{rate: 1 + 0.05*float64(i)/float64(len(s.replicas)-1), state: fold.NewState(nil)}
	s.starts++
	r.lease = &lease{
		scope: &scope{metrics: newMetrics(event.Paste, nil)}, reader: reading{instance, uint64(s.starts)},
		elapsed: func() time.Duration { return time.Duration(float64(s.now) * r.rate) },
		sent:    map[uint64]time.Duration{}, others: map[reading]time.Duration{},
	}
	r.renewing.Store(true) // the simulation decides when a message is sent
	if from != nil {       // at another replica's checkpoint
		r.state, r.at, r.version = fold.NewState(from.state.Snapshot()), from.at, from.version
	}
	r.restore(r.state.Lease())
	s.replicas[i] = r
}

// fold folds the next message.
func (s *simulation) fold(r *simulated) {
	if r.at == len(s.journal) {
		return
	}
	b := s.journal[r.at]
	r.at++
	r.state.Enter(fold.Message{Sequence: uint64(r.at), Batch: b})
	switch {
	case b.Lease != nil:
		granted := r.state.Grant(b.Lease)
		r.apply(b.Lease, granted, r.state.Lease())
	case !s.plain[r.at]:
		r.version++
	}
}

// make has the replica make a message, which is stored later or never.
func (r *simulated) make(ends bool) *event.RequestBatch {
	r.number++
	m := r.message(r.number, []*confirmation{{ends: ends}})
	r.unsent = append(r.unsent, m)
	return m
}

// store stores one of the pending messages, perhaps again.
func (s *simulation) store(r *simulated, which int, again bool) {
	m := r.unsent[which]
	if !again {
		r.unsent = append(r.unsent[:which:which], r.unsent[which+1:]...)
	}
	s.journal = append(s.journal, m)
	s.plain[len(s.journal)] = m.Lease == nil
	for _, read := range r.reads {
		if read.unstored == m {
			read.after, read.unstored = len(s.journal), nil
		}
	}
}

// read moves a read of the replica on by one step, or begins one.
func (s *simulation) read(r *simulated, which int) {
	if which >= len(r.reads) {
		if len(r.reads) < 4 {
			r.reads = append(r.reads, &simulatedRead{oldest: max(s.acked, s.shown), after: -1})
		}
		return
	}
	read := r.reads[which]
	switch {
	case !read.asked:
		read.asked = true
		if r.held() {
			read.after = 0
		} else {
			read.unstored = r.make(false)
		}
	case read.after < 0 || r.at < read.after:
	case read.version == 0:
		read.version = r.version + 1 // 1 is the created document
	default:
		r.reads = append(r.reads[:which:which], r.reads[which+1:]...)
		if r.isBarred() {
			return
		}
		if version := read.version - 1; version < read.oldest {
			s.t.Fatalf("a read by %v shows version %d; %d was answered or shown before it began", r.reader, version, read.oldest)
		} else {
			s.shown = max(s.shown, version)
		}
	}
}

// steps are the things that may happen, some of them more often.
func steps() []string {
	return slices.Concat(
		slices.Repeat([]string{"read"}, 8), slices.Repeat([]string{"fold"}, 5), slices.Repeat([]string{"store", "answer", "write"}, 4),
		slices.Repeat([]string{"time"}, 2), []string{"long", "end", "crash"},
	)
}

// step lets one thing happen.
func (s *simulation) step() {
	i := rapid.IntRange(0, len(s.replicas)-1).Draw(s.t, "replica")
	r := s.replicas[i]
	switch rapid.SampledFrom(steps()).Draw(s.t, "step") {
	case "time":
		s.now += time.Duration(rapid.IntRange(0, 200).Draw(s.t, "ms")) * time.Millisecond
	case "long":
		s.now += time.Duration(rapid.IntRange(1000, 1700).Draw(s.t, "ms")) * time.Millisecond
	case "write":
		s.journal = append(s.journal, &event.RequestBatch{})
	case "fold":
		for range rapid.IntRange(1, 8).Draw(s.t, "messages") {
			s.fold(r)
		}
	case "read":
		for i := len(r.reads); i >= 0 && !r.ended; i-- {
			s.read(r, i)
		}
	case "store":
		if len(r.unsent) > 0 {
			s.store(r, rapid.IntRange(0, len(r.unsent)-1).Draw(s.t, "message"), rapid.Bool().Draw(s.t, "again"))
		}
	case "answer":
		if !r.ended && !r.isBarred() {
			s.acked = max(s.acked, r.version)
		}
	case "end":
		if r.ended {
			s.restart(i, r.reader.instance)
			return
		}
		r.ended, r.reads = true, nil
		r.make(true)
	case "crash":
		s.restart(i, fmt.Sprintf("instance %d.%d", i, s.starts))
	}
}

// restart begins a run at the checkpoint of any replica. Messages of the run before are on their way.
func (s *simulation) restart(i int, instance string) {
	unsent := s.replicas[i].unsent
	from := rapid.IntRange(-1, len(s.replicas)-1).Draw(s.t, "checkpoint of")
	if from < 0 {
		s.start(i, instance, nil)
	} else {
		s.start(i, instance, s.replicas[from])
	}
	s.replicas[i].unsent = unsent
}

// TestNoReadGoesBack whatever the replicas, their clocks and the journal do.
func TestNoReadGoesBack(t *testing.T) {
	shown := 0
	rapid.Check(t, func(t *rapid.T) {
		s := &simulation{t: t, plain: map[int]bool{}, replicas: make([]*simulated, 3)}
		for i := range s.replicas {
			s.start(i, fmt.Sprintf("instance %d", i), nil)
		}
		for range rapid.IntRange(100, 600).Draw(t, "steps") {
			s.step()
		}
		shown += s.shown
	})
	if shown == 0 {
		t.Error("no read has shown a change")
	}
}
