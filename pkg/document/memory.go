package document

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/maypok86/otter/v2"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
)

// entry is a document, or an earlier version of one, as readers see it. It is immutable.
type entry struct {
	doc   *event.Document // nil: does not exist
	bytes int             // approximate memory
	// damaged: the content of doc does not match its hash. It is kept, but never shown.
	damaged bool
}

func newEntry(doc *event.Document) *entry {
	if doc == nil {
		return &entry{bytes: entryBytes}
	}
	return &entry{doc: doc, bytes: entryBytes + doc.SizeVT()}
}

// head returns doc without the bytes of its content. Callers are few, so it is not cached.
func (e *entry) head() *event.Document { return fold.Head(e.doc) }

// entryBytes is the memory of an entry without its document: map and cache nodes, headers, the id twice.
const entryBytes = 512

// cacheKey separates the documents cached by different runs of a partition: a run that ended because another replica projects
// the partition must not leave stale documents behind.
type cacheKey struct {
	run uint64
	id  string
}

func newCache(maxBytes int) (*otter.Cache[cacheKey, *entry], error) {
	cache, err := otter.New(&otter.Options[cacheKey, *entry]{
		MaximumWeight: num.Uint64(maxBytes),
		Weigher:       func(_ cacheKey, e *entry) uint32 { return num.Uint32(e.bytes) },
	})
	if err != nil {
		return nil, fmt.Errorf("new cache of %d bytes: %w", maxBytes, err)
	}
	return cache, nil
}

const memoryShards = 64

// memory holds the documents that a partition knows without the read model: an overlay of those decided and not yet projected,
// and a cache of others. The applier writes the overlay; any goroutine may read. A reader holds a lock only for one map lookup,
// so that the applier and the readers don't delay each other.
type memory struct {
	run    uint64
	cache  *otter.Cache[cacheKey, *entry]
	seed   maphash.Seed
	shards [memoryShards]memoryShard

	outcomesMu sync.RWMutex
	outcomes   map[event.IdempotencyID]*event.Outcome // not yet projected
}

type memoryShard struct {
	mu      sync.RWMutex
	overlay map[string]*entry
	// projected counts the entries that have left the overlay. A document loaded from the read model before the count grew may
	// be older than that commit, and must not enter the cache.
	projected atomic.Uint64
	_         [24]byte // pads to one cache line
}

func newMemory(run uint64, cache *otter.Cache[cacheKey, *entry]) *memory {
	m := &memory{run: run, cache: cache, seed: maphash.MakeSeed(), outcomes: map[event.IdempotencyID]*event.Outcome{}}
	for i := range m.shards {
		m.shards[i].overlay = map[string]*entry{}
	}
	return m
}

func (m *memory) shard(id string) *memoryShard {
	return &m.shards[maphash.String(m.seed, id)%memoryShards]
}

// get returns the entry of id, or nil if it is unknown, and a mark for fill after loading it.
func (m *memory) get(id string) (e *entry, mark uint64) {
	s := m.shard(id)
	mark = s.projected.Load()
	s.mu.RLock()
	e = s.overlay[id]
	s.mu.RUnlock()
	if e == nil {
		e, _ = m.cache.GetIfPresent(cacheKey{m.run, id})
	}
	return e, mark
}

// publish shows a decision to readers.
func (m *memory) publish(id string, e *entry) {
	s := m.shard(id)
	s.mu.Lock()
	s.overlay[id] = e
	s.mu.Unlock()
}

// moveToCache moves an entry now held by the read model from the overlay to the cache, unless the document has changed again.
func (m *memory) moveToCache(id string, e *entry) {
	s := m.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.projected.Add(1)
	key := cacheKey{m.run, id}
	if e.doc == nil {
		m.cache.Invalidate(key)
	} else {
		m.cache.Set(key, e)
	}
	if s.overlay[id] == e {
		delete(s.overlay, id)
	}
}

// fill caches an entry loaded after get returned the mark, unless the document may have changed meanwhile.
func (m *memory) fill(id string, e *entry, mark uint64) {
	s := m.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.projected.Load() == mark {
		m.cache.Set(cacheKey{m.run, id}, e)
	}
}

func (m *memory) outcome(id event.IdempotencyID) *event.Outcome {
	m.outcomesMu.RLock()
	defer m.outcomesMu.RUnlock()
	return m.outcomes[id]
}

func (m *memory) publishOutcome(id event.IdempotencyID, o *event.Outcome) {
	m.outcomesMu.Lock()
	m.outcomes[id] = o
	m.outcomesMu.Unlock()
}

func (m *memory) dropOutcome(id event.IdempotencyID, o *event.Outcome) {
	m.outcomesMu.Lock()
	if m.outcomes[id] == o {
		delete(m.outcomes, id)
	}
	m.outcomesMu.Unlock()
}
