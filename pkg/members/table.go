package members

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// announcement is what a member says of itself, in the value of its key.
type announcement struct {
	Partitions int    `json:"partitions"`
	Beat       uint64 `json:"beat"`              // counts its announcements
	Since      uint64 `json:"since,omitempty"`   // revision of its first one; 0 in that one itself
	Leaving    bool   `json:"leaving,omitempty"` // it hands its partitions over and counts no more
	Heard      uint64 `json:"heard,omitempty"`   // revision of the last entry that it knew of
	Serving    []int  `json:"serving,omitempty"` // partitions that are its own and that it has caught up with
}

// sighting is one entry of the bucket.
type sighting struct {
	instance string
	revision uint64
	created  time.Time // by the server's clock
	gone     bool      // the key was deleted
	said     announcement
}

// birth orders members by when they came. One that is later than the entry is of a bucket that was lost.
func (s sighting) birth() uint64 {
	if s.said.Since != 0 && s.said.Since < s.revision {
		return s.said.Since
	}
	return s.revision
}

// peer is another member.
type peer struct {
	last sighting
	seen time.Time // when it was last heard of, by the local clock
}

// table is what one member knows of the others and makes of it. It does no I/O and reads no clock.
//
// Its clock for the others' silence is the member's own voice: a peer is dead once the member has heard
// itself a TTL after it last heard the peer, through the same stream. So whoever is cut off, paused, or
// without a bus buries nobody.
type table struct {
	self                 string
	partitions, replicas int
	ttl, quiet           time.Duration // quiet: longer between two echoes means that the bus was away
	handover             time.Duration

	own     sighting // as last heard
	echoed  time.Time
	leaving bool
	peers   map[string]*peer
	heard   uint64 // revision of the last entry
	changed uint64 // revision of the last one by which this member may have lost a partition
	// assigned has the partitions that are folded, with the time since when another member should: zero
	// for those that are this one's.
	assigned map[int]time.Time
}

func newTable(cfg Config) *table {
	return &table{
		self: cfg.Instance, partitions: cfg.Partitions, replicas: cfg.PerPartition,
		ttl: cfg.TTL, quiet: 2 * cfg.Heartbeat, handover: cfg.Handover,
		peers: map[string]*peer{}, assigned: map[int]time.Time{},
	}
}

// see takes what the bucket says of another member. It tells whether partitions may move to others for
// it. An entry that was seen before is no sign of life: a new watch repeats the last one of each.
func (t *table) see(s sighting, now time.Time) (moves bool) {
	t.heard = max(t.heard, s.revision)
	known := t.peers[s.instance]
	if s.gone {
		delete(t.peers, s.instance)
		return known != nil
	}
	if known != nil && known.last.revision == s.revision && known.last.created.Equal(s.created) {
		return false
	}
	t.peers[s.instance] = &peer{last: s, seen: now}
	if known == nil {
		t.changed = max(t.changed, s.birth())
		return true
	}
	return known.last.said.Leaving != s.said.Leaving
}

// hear takes the member's own voice, which shows that what others said before would have come too.
func (t *table) hear(s sighting, now time.Time) {
	if s.said.Beat <= t.own.said.Beat {
		return
	}
	if now.Sub(t.echoed) > t.quiet {
		// The bus was away, for the others perhaps too: they have a TTL to be heard again.
		for _, p := range t.peers {
			p.seen = now
		}
	}
	switch {
	case s.revision < t.own.revision: // the bucket was lost, and counts from 1 again
		t.heard, t.changed = s.revision, s.revision
	case s.said.Leaving != t.own.said.Leaving:
		t.changed = max(t.changed, s.revision)
	}
	t.heard = max(t.heard, s.revision)
	t.own, t.echoed = s, now
	maps.DeleteFunc(t.peers, func(_ string, p *peer) bool { return now.Sub(p.seen) >= t.ttl })
}

// settle ends the first look at the bucket: how old an entry is, is then known by the server's clock
// alone. Who just died must not count for a whole TTL more than it does for the others.
func (t *table) settle(now time.Time) {
	for _, p := range t.peers {
		age := t.own.created.Sub(p.last.created)
		p.seen = now.Add(-min(max(age, 0), t.ttl))
	}
	maps.DeleteFunc(t.peers, func(_ string, p *peer) bool { return now.Sub(p.seen) >= t.ttl })
}

// misfit tells of a member that came earlier and has another number of partitions. Of two that come at
// the same time the bucket says who was first, so that just one of them is refused.
func (t *table) misfit() error {
	for name, p := range t.peers {
		if p.last.said.Partitions != t.partitions && p.last.birth() < t.own.birth() {
			return fmt.Errorf("%w: %d, %s has %d", ErrPartitions, t.partitions, name, p.last.said.Partitions)
		}
	}
	return nil
}

// strangers are members with another number of partitions that came later; they don't count.
func (t *table) strangers() []string {
	var names []string
	for name, p := range t.peers {
		if p.last.said.Partitions != t.partitions {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// voters are the members among whom the partitions are shared, sorted.
func (t *table) voters() []string {
	var names []string
	if !t.leaving {
		names = append(names, t.self)
	}
	for name, p := range t.peers {
		if p.last.said.Partitions == t.partitions && !p.last.said.Leaving {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// reassign says what is to be folded now, sorted: the member's own share, and what it had before until
// those whose share it has become serve it, or do not within the bound.
func (t *table) reassign(now time.Time) []int {
	voters := t.voters()
	for p := range t.partitions {
		owners := Owners(voters, p, t.replicas)
		since, has := t.assigned[p]
		switch {
		case slices.Contains(owners, t.self):
			t.assigned[p] = time.Time{}
		case !has:
		case t.served(owners, p):
			delete(t.assigned, p)
		case since.IsZero():
			t.assigned[p] = now
		case now.Sub(since) >= t.handover:
			delete(t.assigned, p)
		}
	}
	return slices.Sorted(maps.Keys(t.assigned))
}

// served tells whether all of them serve the partition, and know that it is theirs to keep: an owner that
// has not yet heard why it is one may just be giving it up. So it does of nobody, whom there is no
// waiting for.
func (t *table) served(owners []string, partition int) bool {
	if len(owners) > 0 && t.leaving && !t.own.said.Leaving {
		return false // nobody knows yet
	}
	for _, name := range owners {
		p := t.peers[name]
		if p == nil || p.last.said.Heard < t.changed || !slices.Contains(p.last.said.Serving, partition) {
			return false
		}
	}
	return true
}

// next is when something is due if nothing is heard until then: a peer's silence or a handover has
// lasted long enough. What is overdue already waits for the member's own voice. Zero: nothing.
func (t *table) next(now time.Time) time.Time {
	var next time.Time
	earlier := func(due time.Time) {
		if due.After(now) && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	for _, p := range t.peers {
		earlier(p.seen.Add(t.ttl))
	}
	for _, since := range t.assigned {
		if !since.IsZero() {
			earlier(since.Add(t.handover))
		}
	}
	return next
}

// names of the others that are alive, those that leave included.
func (t *table) names() []string {
	return slices.Collect(maps.Keys(t.peers))
}
