package members

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// scene is a table with a clock that the test moves.
type scene struct {
	*table
	t    *testing.T
	now  time.Time
	last uint64 // revision
}

func newScene(t *testing.T) *scene {
	cfg := Config{Service: "billing", Instance: "self", Partitions: 8, TTL: 3 * time.Second, Heartbeat: time.Second}.withDefaults()
	s := &scene{table: newTable(cfg), t: t, now: time.Unix(1_700_000_000, 0)}
	s.readsOwn()
	return s
}

// readsOwn makes the member read its own next announcement.
func (s *scene) readsOwn() {
	s.last++
	s.readOwn(entry{instance: "self", revision: s.last, created: s.now, announcement: announcement{Partitions: 8, Beat: s.last}}, s.now)
}

// leaves has the member read its announcement that it leaves.
func (s *scene) leaves() {
	s.leaving = true
	s.last++
	s.readOwn(entry{instance: "self", revision: s.last, created: s.now, announcement: announcement{Partitions: 8, Beat: s.last, Leaving: true}}, s.now)
}

// reads has the member read an announcement of another one, which the bucket took age ago.
func (s *scene) reads(name string, age time.Duration, a announcement) entry {
	s.last++
	if a.Partitions == 0 {
		a.Partitions = 8
	}
	read := entry{instance: name, revision: s.last, created: s.now.Add(-age), announcement: a}
	s.readPeer(read, s.now)
	return read
}

func (s *scene) pass(d time.Duration) { s.now = s.now.Add(d) }

func (s *scene) mustKnow(names ...string) {
	s.t.Helper()
	others := slices.DeleteFunc(s.live(), func(name string) bool { return name == "self" })
	if !slices.Equal(others, names) {
		s.t.Errorf("knows %v, want %v", others, names)
	}
}

func TestSilenceIsJudgedByTheMembersOwnAnnouncements(t *testing.T) {
	s := newScene(t)
	s.reads("other", 0, announcement{})
	for range 2 {
		s.pass(time.Second)
		s.readsOwn()
	}
	s.mustKnow("other")
	s.pass(time.Second)
	s.mustKnow("other") // silent for a TTL, but is the bus there?
	s.readsOwn()
	s.mustKnow()
}

func TestAMemberThatWasCutOffForgetsNobodyForATTL(t *testing.T) {
	s := newScene(t)
	s.reads("other", 0, announcement{})
	s.pass(time.Hour)
	s.readsOwn()
	s.mustKnow("other")
	for range 3 {
		s.pass(time.Second)
		s.readsOwn()
	}
	s.mustKnow()
}

func TestARepeatedEntryIsNoSignOfLife(t *testing.T) {
	s := newScene(t)
	entry := s.reads("other", 0, announcement{})
	for range 3 {
		s.pass(time.Second)
		s.readPeer(entry, s.now) // as a new watch gives it
		s.readsOwn()
	}
	s.mustKnow()

	// A recreated bucket counts from 1 again: the same revision is another entry.
	s.readPeer(entry, s.now)
	s.pass(2 * time.Second)
	entry.created = s.now
	s.readPeer(entry, s.now)
	s.readsOwn()
	s.pass(2 * time.Second)
	s.readsOwn()
	s.mustKnow("other")
}

func TestAJoinerKnowsHowLongOthersHaveBeenSilent(t *testing.T) {
	s := newScene(t)
	s.reads("fresh", 0, announcement{})
	s.reads("silent", 2500*time.Millisecond, announcement{})
	s.reads("dead", 3*time.Second, announcement{})
	s.reads("ahead", -time.Hour, announcement{}) // another server's clock
	s.readsOwn()
	s.backdate(s.now)
	s.mustKnow("ahead", "fresh", "silent")
	s.pass(time.Second)
	s.readsOwn()
	s.mustKnow("ahead", "fresh")
	s.pass(2 * time.Second)
	s.readsOwn()
	s.mustKnow()
}

func TestAMovedPartitionIsKeptUntilAllItsReplicasServeIt(t *testing.T) {
	for _, replicas := range []int{1, 2} {
		s := newScene(t)
		s.replicas = replicas
		all := s.reassign(s.now)
		if len(all) != 8 {
			t.Fatalf("alone it folds %v", all)
		}
		s.leaving = true
		s.reads("a", 0, announcement{Serving: all})
		s.reads("b", 0, announcement{Serving: all})
		if got := s.reassign(s.now); len(got) != 8 {
			t.Errorf("%d replicas: keeps %v before anybody knows that it leaves", replicas, got)
		}
		s.leaves()
		if got := s.reassign(s.now); len(got) != 8 {
			t.Errorf("%d replicas: keeps %v that the others may be giving up", replicas, got)
		}
		s.reads("a", 0, announcement{Heard: s.last})
		s.reads("b", 0, announcement{Heard: s.last, Serving: all})
		if got := s.reassign(s.now); replicas == 2 && len(got) != 8 || len(got) == 0 {
			t.Errorf("%d replicas: keeps %v while a serves none", replicas, got)
		}
		s.reads("a", 0, announcement{Heard: s.last, Serving: all})
		if got := s.reassign(s.now); len(got) != 0 {
			t.Errorf("%d replicas: keeps %v that are served", replicas, got)
		}
	}
}

func TestAHandoverEndsAtItsBound(t *testing.T) {
	s := newScene(t)
	s.reassign(s.now)
	s.leaving = true
	s.reads("a", 0, announcement{})
	s.reassign(s.now)
	if got := s.due(s.now); !got.Equal(s.now.Add(3 * time.Second)) {
		t.Errorf("due at %v", got)
	}
	s.pass(s.handover - time.Nanosecond)
	if got := s.reassign(s.now); len(got) != 8 {
		t.Errorf("keeps %v within the bound", got)
	}
	if got := s.due(s.now); !got.Equal(s.now.Add(time.Nanosecond)) {
		t.Errorf("due at %v", got)
	}
	s.pass(time.Nanosecond)
	if got := s.reassign(s.now); len(got) != 0 {
		t.Errorf("keeps %v after it", got)
	}
}

// TestALostBucketCountsAnew: revisions of the old bucket say nothing about the new one.
func TestALostBucketCountsAnew(t *testing.T) {
	s := newScene(t)
	s.last = 1000
	s.readsOwn()
	all := s.reassign(s.now)
	beat := s.own.Beat
	s.readOwn(entry{instance: "self", revision: 1, created: s.now, announcement: announcement{Partitions: 8, Beat: beat + 1}}, s.now)
	s.readOwn(entry{instance: "self", revision: 2, created: s.now, announcement: announcement{Partitions: 8, Beat: beat + 2, Leaving: true}}, s.now)
	s.leaving, s.last = true, 2
	s.reads("a", 0, announcement{Heard: 2, Serving: all})
	s.reads("a", 0, announcement{Heard: 3, Serving: all})
	if got := s.reassign(s.now); len(got) != 0 {
		t.Errorf("keeps %v that are served", got)
	}
}

// TestAHandoverThatIsTakenBackBeginsAnew: the bound counts from the last time that it moved.
func TestAHandoverThatIsTakenBackBeginsAnew(t *testing.T) {
	s := newScene(t)
	s.reassign(s.now)
	s.leaving = true
	s.reads("a", 0, announcement{})
	s.reassign(s.now)
	s.pass(s.handover / 2)
	s.readPeer(entry{instance: "a", deleted: true}, s.now)
	s.leaving = false
	s.reassign(s.now)
	s.leaving = true
	s.reads("a", 0, announcement{})
	s.reassign(s.now)
	s.pass(s.handover * 3 / 4)
	if got := s.reassign(s.now); len(got) != 8 {
		t.Errorf("keeps %v", got)
	}
}

func TestTheFirstNumberOfPartitionsCounts(t *testing.T) {
	s := newScene(t) // came with revision 1
	s.reads("late", 0, announcement{Partitions: 4})
	if err := s.conflict(); err != nil {
		t.Errorf("refused because of a later one: %v", err)
	}
	if got := s.sharers(); !slices.Equal(got, []string{"self"}) {
		t.Errorf("%v share the partitions", got)
	}
	s.own.Since, s.own.revision = 3, 4
	s.reads("early", 0, announcement{Partitions: 4, Since: 2})
	if err := s.conflict(); !errors.Is(err, ErrPartitions) {
		t.Errorf("beside an earlier one: %v", err)
	}
}
