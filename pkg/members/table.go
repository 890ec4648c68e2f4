package members

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// announcement is the value of a member's key. Members of older versions read it too, so its JSON names never change.
type announcement struct {
	Partitions int    `json:"partitions"`
	Beat       uint64 `json:"beat"`              // number of the announcement, counted by the member
	Since      uint64 `json:"since,omitempty"`   // revision of the member's first announcement; 0 in that one
	Leaving    bool   `json:"leaving,omitempty"` // the member owns nothing now and hands over what it folds
	Heard      uint64 `json:"heard,omitempty"`   // revision of the last entry read by the member
	Serving    []int  `json:"serving,omitempty"` // partitions that the member folds and has caught up with
}

// entry is one entry of the bucket.
type entry struct {
	announcement
	instance string
	revision uint64
	created  time.Time // by the server's clock
	deleted  bool      // the key was deleted; no announcement
}

// joined orders the members by when they joined. A Since later than the entry counts revisions of a lost bucket, so the entry's
// own revision replaces it.
func (e entry) joined() uint64 {
	if e.Since != 0 && e.Since < e.revision {
		return e.Since
	}
	return e.revision
}

// peer is another member.
type peer struct {
	last entry
	seen time.Time // when its last announcement was read, by the local clock
}

// table is one member's knowledge about the others, and the rules that turn it into an assignment. It does no I/O and reads no
// clock.
//
// A peer is dead once the member reads its own announcement made a TTL after the peer's last one. Both come through the same
// watch: a member that is cut off or was paused reads no own announcements and forgets nobody.
type table struct {
	self                 string
	partitions, replicas int
	ttl, handover        time.Duration
	gap                  time.Duration // a longer time between two own announcements means that the bus was unreachable

	own     entry     // the member's last announcement as delivered by the watch
	ownSeen time.Time // when own was read
	leaving bool
	peers   map[string]*peer
	heard   uint64 // revision of the last entry read
	changed uint64 // revision of the last entry that may have moved partitions of this member
	// assigned holds the partitions being folded, each with the time since which others own it: zero for the member's own.
	assigned map[int]time.Time
}

func newTable(cfg Config) *table {
	return &table{
		self: cfg.Instance, partitions: cfg.Partitions, replicas: cfg.PerPartition,
		ttl: cfg.TTL, gap: 2 * cfg.Heartbeat, handover: cfg.Handover,
		peers: map[string]*peer{}, assigned: map[int]time.Time{},
	}
}

// readPeer handles an entry of another member and reports whether ownership may change. An entry read before is no sign of
// life: a new watch repeats the last entry of each key.
func (t *table) readPeer(e entry, now time.Time) (moves bool) {
	t.heard = max(t.heard, e.revision)
	known := t.peers[e.instance]
	if e.deleted {
		delete(t.peers, e.instance)
		return known != nil
	}
	if known != nil && known.last.revision == e.revision && known.last.created.Equal(e.created) {
		return false
	}
	t.peers[e.instance] = &peer{last: e, seen: now}
	if known == nil {
		t.changed = max(t.changed, e.joined())
		return true
	}
	return known.last.Leaving != e.Leaving
}

// readOwn handles an announcement of the member itself. All earlier announcements of others have been read by then, so peers
// silent for a TTL are dead.
func (t *table) readOwn(e entry, now time.Time) {
	if e.Beat <= t.own.Beat {
		return
	}
	if now.Sub(t.ownSeen) > t.gap {
		// The bus was unreachable, perhaps for the peers too. They get another TTL to announce themselves.
		for _, p := range t.peers {
			p.seen = now
		}
	}
	switch {
	case e.revision < t.own.revision: // the bucket was lost, and the new one counts from 1
		t.heard, t.changed = e.revision, e.revision
	case e.Leaving != t.own.Leaving:
		t.changed = max(t.changed, e.revision)
	}
	t.heard = max(t.heard, e.revision)
	t.own, t.ownSeen = e, now
	t.forgetSilent(now)
}

// backdate ends the joining. The local clock can't know the age of the entries found, so the server's clock supplies it.
// Otherwise a peer that just died would count for up to a TTL longer here than elsewhere.
func (t *table) backdate(now time.Time) {
	for _, p := range t.peers {
		age := t.own.created.Sub(p.last.created)
		p.seen = now.Add(-min(max(age, 0), t.ttl))
	}
	t.forgetSilent(now)
}

func (t *table) forgetSilent(now time.Time) {
	maps.DeleteFunc(t.peers, func(_ string, p *peer) bool { return now.Sub(p.seen) >= t.ttl })
}

// conflict returns ErrPartitions if an earlier member has another number of partitions. The bucket orders concurrent joins, so
// that exactly one of two is refused.
func (t *table) conflict() error {
	for name, p := range t.peers {
		if p.last.Partitions != t.partitions && p.last.joined() < t.own.joined() {
			return fmt.Errorf("%w: %d, %s has %d", ErrPartitions, t.partitions, name, p.last.Partitions)
		}
	}
	return nil
}

// ignored returns later members with another number of partitions, sorted. They own nothing.
func (t *table) ignored() []string {
	var names []string
	for name, p := range t.peers {
		if p.last.Partitions != t.partitions {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// sharers returns the members that share the partitions, sorted.
func (t *table) sharers() []string {
	var names []string
	if !t.leaving {
		names = append(names, t.self)
	}
	for name, p := range t.peers {
		if p.last.Partitions == t.partitions && !p.last.Leaving {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// reassign returns the partitions to fold from now on, sorted: the member's own, and former ones until their new owners serve
// them or the handover has taken too long.
func (t *table) reassign(now time.Time) []int {
	sharers := t.sharers()
	for p := range t.partitions {
		owners := Owners(sharers, p, t.replicas)
		since, has := t.assigned[p]
		switch {
		case slices.Contains(owners, t.self):
			t.assigned[p] = time.Time{}
		case !has:
		case t.handedOver(owners, p):
			delete(t.assigned, p)
		case since.IsZero():
			t.assigned[p] = now
		case now.Sub(since) >= t.handover:
			delete(t.assigned, p)
		}
	}
	return slices.Sorted(maps.Keys(t.assigned))
}

// handedOver reports whether all owners of a partition serve it and have read why they own it. An owner that has not read that
// yet may be about to give the partition up. Without owners it is true.
func (t *table) handedOver(owners []string, partition int) bool {
	if len(owners) > 0 && t.leaving && !t.own.Leaving {
		return false // the others can't know yet that this member leaves
	}
	for _, name := range owners {
		p := t.peers[name]
		if p == nil || p.last.Heard < t.changed || !slices.Contains(p.last.Serving, partition) {
			return false
		}
	}
	return true
}

// due is the next time at which a peer will have been silent for a TTL or a handover will have taken too long; zero if neither
// is pending. A peer with a longer silence already waits for the member's own announcement.
func (t *table) due(now time.Time) time.Time {
	var due time.Time
	earlier := func(at time.Time) {
		if at.After(now) && (due.IsZero() || at.Before(due)) {
			due = at
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
	return due
}

// live returns all members, including this one and those leaving, sorted.
func (t *table) live() []string {
	names := append(slices.Collect(maps.Keys(t.peers)), t.self)
	slices.Sort(names)
	return names
}
