package document

import (
	"context"
	"fmt"
	"sync"
	"time"

	"quire.dev/pkg/document/sweep"
	"quire.dev/pkg/views"
	"quire.dev/pkg/wait"
)

// projection commits the folded messages to the read model, in order and behind the applier. Its queue is bounded: the applier
// waits if the read model does not keep up.
type projection struct {
	*scope
	model  *readModel
	memory *memory
	blobs  *sweep.Blobs

	mu     sync.Mutex
	queue  []*message                    // folded and not projected
	bytes  int                           // of the queue
	timeMS int64                         // the fold's time at the last message projected
	last   uint64                        // sequence of the last message that decides anything
	shown  struct{ bytes, messages int } // this partition's share of the gauges

	moved     wait.Changes   // of the head of the queue
	ready     chan struct{}  // receives when the head of the queue may be ready
	gathering wait.Gathering // collects a commit's messages
}

func newProjection(s *scope, model *readModel, memory *memory, blobs *sweep.Blobs) *projection {
	return &projection{scope: s, model: model, memory: memory, blobs: blobs, ready: make(chan struct{}, 1), gathering: wait.NewGathering()}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// waitRoom waits until another message may be folded.
func (p *projection) waitRoom(ctx context.Context) error {
	return p.until(ctx, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.bytes < p.cfg.Bounds.OverlayBytes && len(p.queue) < p.cfg.Bounds.OverlayMessages
	})
}

// push queues a folded message.
func (p *projection) push(m *message) {
	p.mu.Lock()
	p.queue = append(p.queue, m)
	p.bytes += m.bytes
	if !m.quiet {
		p.last = m.sequence
	}
	many := len(p.queue) >= quietMessages
	p.show()
	p.mu.Unlock()
	if m.settled() && (!m.quiet || many) {
		p.wake()
	}
}

// quietMessages is how many messages without decisions make a commit. Fewer wait for one with a decision, so that a partition
// that is only read does not write to the read model.
const quietMessages = 256

// lastDecision is the sequence of the last folded message that decides anything.
func (p *projection) lastDecision() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// wake signals that a queued message is settled.
func (p *projection) wake() { signal(p.ready) }

// show adds what the queue has grown by to the gauges, which are of all partitions. mu is held.
func (p *projection) show() { p.showAs(p.bytes, len(p.queue)) }

// hide takes the partition's share from the gauges, once it is not projected here any more.
func (p *projection) hide() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.showAs(0, 0)
}

func (p *projection) showAs(bytes, messages int) {
	p.metrics.overlay.Add(float64(bytes - p.shown.bytes))
	p.metrics.unprojected.Add(float64(messages - p.shown.messages))
	p.shown.bytes, p.shown.messages = bytes, messages
}

// next returns the settled messages at the head of the queue that fit into one commit, at least one if any is settled. They
// stay in the queue until drop.
func (p *projection) next() []*message {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, bytes := 0, 0
	for n < len(p.queue) && n < p.cfg.Bounds.CommitMessages && p.queue[n].settled() {
		bytes += p.queue[n].bytes
		if n > 0 && bytes > p.cfg.Bounds.CommitBytes {
			break
		}
		n++
	}
	return p.queue[:n:n]
}

// drop removes the messages that next returned, once projected.
func (p *projection) drop(batch []*message) {
	p.mu.Lock()
	for _, m := range batch {
		p.bytes -= m.bytes
		p.timeMS = m.state.TimeMs
	}
	rest := make([]*message, len(p.queue)-len(batch), max(cap(p.queue)/2, len(p.queue)))
	copy(rest, p.queue[len(batch):]) // batch keeps the old array
	p.queue = rest
	p.show()
	p.mu.Unlock()
	p.moved.Notify()
}

// time is the fold's time at the last projected message, in Unix milliseconds.
func (p *projection) time() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.timeMS
}

// wait waits until the read model holds the decisions on all messages up to sequence.
func (p *projection) wait(ctx context.Context, sequence uint64) error {
	return p.until(ctx, func() bool { return p.model.projected.Load() >= sequence })
}

// waitTime waits until the fold's time at the last projected message is at least timeMS.
func (p *projection) waitTime(ctx context.Context, timeMS int64) error {
	return p.until(ctx, func() bool { return p.time() >= timeMS })
}

func (p *projection) until(ctx context.Context, done func() bool) error {
	return p.gathering.Until(ctx, &p.moved, done)
}

// run projects until ctx ends, then returns nil.
func (p *projection) run(ctx context.Context) error {
	for {
		select {
		case <-p.ready:
		case <-ctx.Done():
			return nil
		}
		if !p.gathering.For(ctx, p.cfg.Bounds.CommitDelay) {
			return nil
		}
		for batch := p.next(); len(batch) > 0; batch = p.next() {
			if err := p.project(ctx, batch); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
		}
	}
}

// project commits a batch and removes it from the queue and from memory's overlay.
func (p *projection) project(ctx context.Context, batch []*message) error {
	c := merge(batch)
	if err := p.deleteVersions(ctx, c); err != nil {
		return err
	}
	commit, err := c.encode(p.names, p.number)
	if err != nil {
		return err
	}
	last := batch[len(batch)-1]
	state, err := p.names.putState(p.stream, last.state)
	if err != nil {
		return err
	}
	commit.Stream, commit.From, commit.To = p.stream, p.model.projected.Load(), last.sequence
	commit.Puts = append(commit.Puts, state)
	begun := time.Now()
	if err := p.model.commit(ctx, commit); err != nil {
		return err
	}
	p.metrics.commits.Inc()
	for _, m := range batch {
		m.spans.Part("commit", begun)
	}
	p.release(batch, c)
	return nil
}

// release moves the projected documents from the overlay to the cache, and their dropped blobs to the deleter. It advances the
// projected checkpoint first: a reader that then misses a document in memory waits for a read model that holds it.
func (p *projection) release(batch []*message, c *changes) {
	p.model.projected.Store(batch[len(batch)-1].sequence)
	p.drop(batch)
	for _, m := range batch {
		for _, w := range m.writes {
			p.memory.moveToCache(w.id, w.entry)
		}
		for _, k := range m.outcomes {
			p.memory.dropOutcome(k.id, k.outcome)
		}
	}
	now := p.deps.Clock()
	p.blobs.Add(now, c.blobs)
	p.blobs.Add(now.Add(p.cfg.Bounds.BurnGrace), c.burned)
}

// versionChunk is how many earlier versions of a deleted document are looked up and deleted at once.
const versionChunk = 1000

// deleteVersions deletes the earlier versions of deleted documents, from the changes and from the read model, and collects
// their blobs.
//
// It precedes the commit, which is bounded, since a document may have any number of versions. That is safe: the deletion is
// decided, nobody can read a version without its document, and after a crash in between it is repeated.
func (p *projection) deleteVersions(ctx context.Context, c *changes) error {
	for _, w := range c.deleted {
		c.dropBlob(w.deletion.blob, w.deletion.burned)
		for first := w.deletion.firstVersion; first <= w.deletion.lastVersion; first += versionChunk {
			last := min(first+versionChunk-1, w.deletion.lastVersion)
			var ids []string
			for v := first; v <= last; v++ {
				id := versionID(w.id, v)
				ids = append(ids, id)
				if unprojected, ok := c.writes[id]; ok {
					c.dropBlob(unprojected.entry.doc.GetContent().GetBlob(), false)
					delete(c.writes, id)
				}
			}
			if err := p.deleteProjected(ctx, c, ids, c.sequence[w.id]); err != nil {
				return fmt.Errorf("delete earlier versions of %s: %w", w.id, err)
			}
		}
	}
	return nil
}

// deleteProjected deletes the versions held by the read model.
func (p *projection) deleteProjected(ctx context.Context, c *changes, ids []string, sequence uint64) error {
	var docs []views.Doc
	err := p.model.read(ctx, func(ctx context.Context) error {
		docs = docs[:0]
		return p.model.loadCurrent(ctx, p.names.versions, ids, views.Heads, func(d views.Doc) error {
			docs = append(docs, d)
			return nil
		})
	})
	if err != nil || len(docs) == 0 {
		return err
	}
	var b views.Batch
	for _, d := range docs {
		head, err := readDocument(d)
		if err != nil {
			return err
		}
		c.dropBlob(head.GetContent().GetBlob(), false)
		b.Deletes = append(b.Deletes, views.Delete{Collection: p.names.versions, ID: d.ID, Seq: sequence})
	}
	return p.model.write(ctx, b)
}
