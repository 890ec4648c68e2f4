package load

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
)

// remembered is how many items a shelf holds. A long run makes more: then one that has been found to be there is
// forgotten, at random.
const remembered = 40_000

// goneKept is how many deleted items are remembered.
const goneKept = 512

// item is one document that was acknowledged. Its content is remembered as the number that it is made of.
type item struct {
	id     string
	number int64
	other  int64 // what an update without an answer may have made of it; 0: nothing
	seen   bool  // found to be there by a check
	busy   bool  // is being changed
	turn   int   // how often it was begun to be changed
	place  int
}

// fits tells whether the content is one that the item may have.
func (i *item) fits(d *domain, content []byte) bool {
	return bytes.Equal(content, d.content(i.number)) || i.other != 0 && bytes.Equal(content, d.content(i.other))
}

// shelf is the items of one owner and domain.
type shelf struct {
	mu    sync.Mutex
	items []*item
	gone  []string // deleted, acknowledged
	next  int      // where gone is written over
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

// drop must be called with the lock. An item that is not there any more is let be.
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

// any is an item that is not being changed, as it is now; nil where there is none.
func (s *shelf) any(random *rand.Rand) (live, now *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range min(8, len(s.items)) {
		if i := s.items[random.IntN(len(s.items))]; !i.busy {
			copied := *i
			return i, &copied
		}
	}
	return nil, nil
}

// lease gives an item to one client to change it. One whose content is not known for sure is only given up
// for deletion.
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

// changed ends a lease with what the item holds now.
func (s *shelf) changed(i *item, number, other int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i.number, i.other, i.busy = number, other, false
}

// forget ends a lease with the item's end.
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

// unchanged tells whether nobody has begun to change the item since it was as now says.
func (s *shelf) unchanged(live, now *item) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return live.place >= 0 && !live.busy && live.turn == now.turn
}

// found notes that an item was found with a content, which settles an update without an answer that has happened.
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

// toCheck is all items that no check has found yet, and a sample of the others.
func (s *shelf) toCheck(random *rand.Rand, sample int) []*item {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*item
	again := 0
	for _, place := range random.Perm(len(s.items)) {
		i := s.items[place]
		if i.seen {
			if again++; again > sample {
				continue
			}
		}
		out = append(out, i)
	}
	return out
}

// someGone is some of what was deleted.
func (s *shelf) someGone(random *rand.Rand, count int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for range min(count, len(s.gone)) {
		out = append(out, s.gone[random.IntN(len(s.gone))])
	}
	return out
}

// content is made of a number: no two are the same, and one in some is so large that it becomes a blob.
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
	out := append(head, bytes.Repeat(line, (size-len(head))/len(line))...)
	return out
}
