package load

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
)

// remembered bounds the items of a shelf. A longer run forgets random items, preferably ones that a check has found.
const remembered = 40_000

// goneKept is how many deleted items a shelf remembers.
const goneKept = 512

// item is one document that was acknowledged.
type item struct {
	id     string
	number int64 // makes its content
	other  int64 // makes its content if an update without an answer took effect; 0 for no such update
	seen   bool  // a check has found it
	busy   bool  // a client is changing it
	turn   int   // how often a client has started to edit it
	place  int   // index in the shelf's items; -1 once removed
}

// fits reports whether the item may have the content.
func (i *item) fits(d *domain, content []byte) bool {
	return bytes.Equal(content, d.content(i.number)) || i.other != 0 && bytes.Equal(content, d.content(i.other))
}

// shelf has the items of one owner and domain. Items are changed with its lock only.
type shelf struct {
	mu    sync.Mutex
	items []*item
	gone  []string // ids of deleted items, whose deletion was acknowledged
	next  int      // the place in gone that is overwritten next
}

func (s *shelf) put(random *rand.Rand, id string, number int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.items) >= remembered {
		victim := s.items[random.IntN(len(s.items))]
		for range 32 {
			if victim.seen && !victim.busy {
				break
			}
			victim = s.items[random.IntN(len(s.items))]
		}
		s.drop(victim)
	}
	s.items = append(s.items, &item{id: id, number: number, place: len(s.items)})
}

// drop removes an item if it is there. It must be called with the lock.
func (s *shelf) drop(i *item) {
	if i.place < 0 {
		return
	}
	last := s.items[len(s.items)-1]
	s.items[i.place], last.place = last, i.place
	s.items[len(s.items)-1] = nil
	s.items = s.items[:len(s.items)-1]
	i.place = -1
}

// any returns a random item that no client is changing, and a copy of it. It is nil if it finds none.
func (s *shelf) any(random *rand.Rand) (live *item, seen item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range min(8, len(s.items)) {
		if i := s.items[random.IntN(len(s.items))]; !i.busy {
			return i, *i
		}
	}
	return nil, item{}
}

func (s *shelf) copy(i *item) item {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *i
}

// lease gives a random item to one client, which may change it. An item whose content is not known may only be deleted. It
// is nil if it finds none.
func (s *shelf) lease(random *rand.Rand, deletion bool) *item {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range min(8, len(s.items)) {
		if i := s.items[random.IntN(len(s.items))]; !i.busy && (deletion || i.other == 0) {
			i.busy = true
			i.turn++
			return i
		}
	}
	return nil
}

// changed ends a lease. number and other make its content from now on.
func (s *shelf) changed(i *item, number, other int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i.number, i.other, i.busy = number, other, false
}

// forget ends a lease and removes the item. deleted says that its deletion was acknowledged.
func (s *shelf) forget(i *item, deleted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(i)
	if !deleted {
		return
	}
	if len(s.gone) < goneKept {
		s.gone = append(s.gone, i.id)
		return
	}
	s.gone[s.next%goneKept] = i.id
	s.next++
}

// unchanged reports whether no client has started to edit the item since the copy was taken.
func (s *shelf) unchanged(live *item, copied item) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return live.place >= 0 && !live.busy && live.turn == copied.turn
}

// found notes the content of an item. If it comes from an update without an answer, that update took effect.
func (s *shelf) found(d *domain, live *item, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if live.other != 0 && bytes.Equal(content, d.content(live.other)) {
		live.number, live.other = live.other, 0
	}
}

// checked notes that a check has found the item.
func (s *shelf) checked(i *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i.seen = true
}

// toCheck returns all items that no check has found yet, and up to that many others. It omits items whose deletion has no answer.
func (s *shelf) toCheck(random *rand.Rand, sample int) []*item {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*item
	others := 0
	for _, place := range random.Perm(len(s.items)) {
		i := s.items[place]
		if i.busy {
			continue
		}
		if i.seen {
			if others++; others > sample {
				continue
			}
		}
		out = append(out, i)
	}
	return out
}

// someGone returns the ids of some deleted items.
func (s *shelf) someGone(random *rand.Rand, count int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for range min(count, len(s.gone)) {
		out = append(out, s.gone[random.IntN(len(s.gone))])
	}
	return out
}

// content returns the unique content derived from a number. Some is large enough to become a blob.
func (d *domain) content(number int64) []byte {
	head := fmt.Appendf(nil, "content %d of %s\n", number, d.kind)
	size := d.small
	if number%d.largeEvery == 0 {
		size = d.large
	}
	if len(head) >= size {
		return head
	}
	line := fmt.Appendf(nil, "%d,", number*2654435761)
	return append(head, bytes.Repeat(line, (size-len(head))/len(line))...)
}
