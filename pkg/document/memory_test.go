package document

import (
	"testing"

	"quire.dev/pkg/event"
)

func versionOf(m *memory, id string) uint64 {
	e, _ := m.get(id)
	if e == nil {
		return 0
	}
	return e.doc.GetVersion()
}

func at(version uint64) *entry { return newEntry(&event.Document{Version: version}) }

func newTestMemory(t *testing.T) *memory {
	t.Helper()
	cache, err := newCache(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	return newMemory(1, cache)
}

// TestStaleLoadIsNotCached orders a reader's load and a commit in the way that would leave an old version, or a deleted
// document, in the cache.
func TestStaleLoadIsNotCached(t *testing.T) {
	for name, c := range map[string]struct {
		newer *entry
		want  uint64
	}{
		"updated": {at(2), 2}, "deleted": {newEntry(nil), 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := newTestMemory(t)
			_, mark := m.get("a") // nothing is known: the reader loads version 1
			m.publish("a", c.newer)
			m.moveToCache("a", c.newer)
			m.fill("a", at(1), mark)
			if got := versionOf(m, "a"); got != c.want {
				t.Errorf("version %d is read, want %d", got, c.want)
			}
			if _, mark = m.get("a"); c.want == 0 {
				m.fill("a", at(3), mark) // one loaded afterwards may be
				if got := versionOf(m, "a"); got != 3 {
					t.Errorf("version %d is read, want 3", got)
				}
			}
		})
	}
}

func TestOverlayHidesTheCacheUntilProjected(t *testing.T) {
	m := newTestMemory(t)
	first, second := at(1), at(2)
	m.publish("a", first)
	m.publish("a", second)
	m.moveToCache("a", first)
	if got := versionOf(m, "a"); got != 2 {
		t.Errorf("version %d is read while version 2 waits", got)
	}
	m.moveToCache("a", second)
	if got := versionOf(m, "a"); got != 2 {
		t.Errorf("version %d is read after version 2 is projected", got)
	}
	if n := len(m.shard("a").overlay); n != 0 {
		t.Errorf("%d entries are left in the overlay", n)
	}
	gone := newEntry(nil)
	m.publish("a", gone)
	if e, _ := m.get("a"); e != gone {
		t.Error("a deleted document is not known to be")
	}
	m.moveToCache("a", gone)
	if e, _ := m.get("a"); e != nil {
		t.Errorf("a deleted document is read: %v", e.doc)
	}
}

func TestRunsDoNotShareWhatTheyCached(t *testing.T) {
	m := newTestMemory(t)
	_, mark := m.get("a")
	m.fill("a", at(1), mark)
	if got := versionOf(newMemory(2, m.cache), "a"); got != 0 {
		t.Errorf("the next run reads version %d of the last one's cache", got)
	}
}

func TestCacheIsBoundedByBytes(t *testing.T) {
	m := newTestMemory(t)
	large := newEntry(&event.Document{Content: &event.Content{Inline: make([]byte, 60<<10)}})
	for i := range 100 {
		id := string(rune('a' + i))
		_, mark := m.get(id)
		m.fill(id, large, mark)
	}
	m.cache.CleanUp()
	if got := m.cache.WeightedSize(); got > 1<<20 {
		t.Errorf("%d bytes are cached", got)
	}
}
