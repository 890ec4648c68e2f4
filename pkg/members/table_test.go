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
	s.echo()
	return s
}

// echo lets the member hear itself.
func (s *scene) echo() {
	s.last++
	s.hear(sighting{instance: "self", revision: s.last, created: s.now, said: announcement{Partitions: 8, Beat: s.last}}, s.now)
}

// leave lets the others know that the member leaves.
func (s *scene) leave() {
	s.leaving = true
	s.last++
	s.hear(sighting{instance: "self", revision: s.last, created: s.now, said: announcement{Partitions: 8, Beat: s.last, Leaving: true}}, s.now)
}

// says is an announcement of another member that the bucket took age ago.
func (s *scene) says(name string, age time.Duration, said announcement) sighting {
	s.last++
	if said.Partitions == 0 {
		said.Partitions = 8
	}
	seen := sighting{instance: name, revision: s.last, created: s.now.Add(-age), said: said}
	s.see(seen, s.now)
	return seen
}

func (s *scene) pass(d time.Duration) { s.now = s.now.Add(d) }

func (s *scene) mustKnow(names ...string) {
	s.t.Helper()
	if got := slices.Sorted(slices.Values(s.names())); !slices.Equal(got, names) {
		s.t.Errorf("knows %v, want %v", got, names)
	}
}

func TestSilenceIsJudgedByTheMembersOwnVoice(t *testing.T) {
	s := newScene(t)
	s.says("other", 0, announcement{})
	for range 2 {
		s.pass(time.Second)
		s.echo()
	}
	s.mustKnow("other")
	s.pass(time.Second)
	s.mustKnow("other") // silent for a TTL, but is the bus there?
	s.echo()
	s.mustKnow()
}

func TestWhoWasCutOffBuriesNobodyForATTL(t *testing.T) {
	s := newScene(t)
	s.says("other", 0, announcement{})
	s.pass(time.Hour)
	s.echo()
	s.mustKnow("other")
	for range 3 {
		s.pass(time.Second)
		s.echo()
	}
	s.mustKnow()
}

func TestARepeatedEntryIsNoSignOfLife(t *testing.T) {
	s := newScene(t)
	entry := s.says("other", 0, announcement{})
	for range 3 {
		s.pass(time.Second)
		s.see(entry, s.now) // as a new watch gives it
		s.echo()
	}
	s.mustKnow()

	// A bucket that was made anew counts from 1 again: the same revision is another entry.
	s.see(entry, s.now)
	s.pass(2 * time.Second)
	entry.created = s.now
	s.see(entry, s.now)
	s.echo()
	s.pass(2 * time.Second)
	s.echo()
	s.mustKnow("other")
}

func TestAJoinerKnowsHowLongOthersHaveBeenSilent(t *testing.T) {
	s := newScene(t)
	s.says("fresh", 0, announcement{})
	s.says("silent", 2500*time.Millisecond, announcement{})
	s.says("dead", 3*time.Second, announcement{})
	s.says("ahead", -time.Hour, announcement{}) // another server's clock
	s.echo()
	s.settle(s.now)
	s.mustKnow("ahead", "fresh", "silent")
	s.pass(time.Second)
	s.echo()
	s.mustKnow("ahead", "fresh")
	s.pass(2 * time.Second)
	s.echo()
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
		s.says("a", 0, announcement{Serving: all})
		s.says("b", 0, announcement{Serving: all})
		if got := s.reassign(s.now); len(got) != 8 {
			t.Errorf("%d replicas: keeps %v before anybody knows that it leaves", replicas, got)
		}
		s.leave()
		if got := s.reassign(s.now); len(got) != 8 {
			t.Errorf("%d replicas: keeps %v that the others may be giving up", replicas, got)
		}
		s.says("a", 0, announcement{Heard: s.last})
		s.says("b", 0, announcement{Heard: s.last, Serving: all})
		if got := s.reassign(s.now); replicas == 2 && len(got) != 8 || len(got) == 0 {
			t.Errorf("%d replicas: keeps %v while a serves none", replicas, got)
		}
		s.says("a", 0, announcement{Heard: s.last, Serving: all})
		if got := s.reassign(s.now); len(got) != 0 {
			t.Errorf("%d replicas: keeps %v that are served", replicas, got)
		}
	}
}

func TestAHandoverEndsAtItsBound(t *testing.T) {
	s := newScene(t)
	s.reassign(s.now)
	s.leaving = true
	s.says("a", 0, announcement{})
	s.reassign(s.now)
	if got := s.next(s.now); !got.Equal(s.now.Add(3 * time.Second)) {
		t.Errorf("next at %v", got)
	}
	s.pass(s.handover - time.Nanosecond)
	if got := s.reassign(s.now); len(got) != 8 {
		t.Errorf("keeps %v within the bound", got)
	}
	if got := s.next(s.now); !got.Equal(s.now.Add(time.Nanosecond)) {
		t.Errorf("next at %v", got)
	}
	s.pass(time.Nanosecond)
	if got := s.reassign(s.now); len(got) != 0 {
		t.Errorf("keeps %v after it", got)
	}
}

// TestALostBucketCountsAnew: revisions of the old one say nothing about those of the new one.
func TestALostBucketCountsAnew(t *testing.T) {
	s := newScene(t)
	s.last = 1000
	s.echo()
	all := s.reassign(s.now)
	beat := s.own.said.Beat
	s.hear(sighting{instance: "self", revision: 1, created: s.now, said: announcement{Partitions: 8, Beat: beat + 1}}, s.now)
	s.hear(sighting{instance: "self", revision: 2, created: s.now, said: announcement{Partitions: 8, Beat: beat + 2, Leaving: true}}, s.now)
	s.leaving, s.last = true, 2
	s.says("a", 0, announcement{Heard: 2, Serving: all})
	s.says("a", 0, announcement{Heard: 3, Serving: all})
	if got := s.reassign(s.now); len(got) != 0 {
		t.Errorf("keeps %v that are served", got)
	}
}

// TestAHandoverThatIsTakenBackBeginsAnew: the bound counts from the last time that it moved.
func TestAHandoverThatIsTakenBackBeginsAnew(t *testing.T) {
	s := newScene(t)
	s.reassign(s.now)
	s.leaving = true
	s.says("a", 0, announcement{})
	s.reassign(s.now)
	s.pass(s.handover / 2)
	s.see(sighting{instance: "a", gone: true}, s.now)
	s.leaving = false
	s.reassign(s.now)
	s.leaving = true
	s.says("a", 0, announcement{})
	s.reassign(s.now)
	s.pass(s.handover * 3 / 4)
	if got := s.reassign(s.now); len(got) != 8 {
		t.Errorf("keeps %v", got)
	}
}

func TestTheFirstNumberOfPartitionsCounts(t *testing.T) {
	s := newScene(t) // came with revision 1
	s.says("late", 0, announcement{Partitions: 4})
	if err := s.misfit(); err != nil {
		t.Errorf("refused because of a later one: %v", err)
	}
	if got := s.voters(); !slices.Equal(got, []string{"self"}) {
		t.Errorf("%v share the partitions", got)
	}
	s.own.said.Since, s.own.revision = 3, 4
	s.says("early", 0, announcement{Partitions: 4, Since: 2})
	if err := s.misfit(); !errors.Is(err, ErrPartitions) {
		t.Errorf("beside an earlier one: %v", err)
	}
}
