package document

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
	"quire.dev/pkg/wait"
)

var (
	// errAhead: another replica has projected this partition further. The read model then holds later states than this
	// replica's, so it has to restart from there.
	errAhead = errors.New("another instance projects this partition")
	// errBehind: the read model lacks a state that this replica found or wrote there.
	errBehind = errors.New("the read model is older than it was")
)

// loadChunk bounds the documents loaded at once with their contents, which have to fit into memory.
const loadChunk = 500

// readModel is the read model as seen by one partition: never older than the partition's own commits. A newly elected MongoDB
// server may show an older state for a moment.
type readModel struct {
	*scope
	projected  atomic.Uint64 // checkpoint after the partition's last commit
	committing atomic.Uint64 // checkpoint after the commit in progress
}

// read retries a read until the store answers.
func (m *readModel) read(ctx context.Context, call func(context.Context) error) error {
	return m.attempt(ctx, m.cfg.Bounds.ViewWait, "load", call)
}

// attempt retries a call until the store answers. The first attempt has a timeout, which doubles for each further one, since a
// slow store needs more time and not more attempts. It returns ctx's error if ctx ends first, and immediately an error that no
// retry can cure.
func (m *readModel) attempt(ctx context.Context, timeout time.Duration, name string, call func(context.Context) error) error {
	timeouts := wait.Backoff{Initial: timeout, Max: max(timeout, maxTimeout)}
	failed := false
	for retry := newRetry(); ; {
		bounded, cancel := context.WithTimeout(ctx, timeouts.Next())
		err := call(bounded)
		cancel()
		if err == nil || errors.Is(err, views.ErrInvalid) || errors.Is(err, views.ErrTooLarge) ||
			errors.Is(err, views.ErrConflict) || errors.Is(err, errAhead) || errors.Is(err, errBehind) {
			if failed { // the store answers again, with any result: a commit of unknown outcome was done
				m.degraded(nil)
			}
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m.metrics.failures.WithLabelValues(name).Inc()
		m.log.Warn("call failed and will be retried", "call", name, "error", err)
		m.degraded(fmt.Errorf("the read model does not %s: %w", name, err))
		failed = true
		retry.Wait(ctx)
	}
}

func (m *readModel) checkpoint(ctx context.Context) (uint64, error) {
	checkpoint, err := m.deps.Views.Checkpoint(ctx, m.stream)
	if err != nil {
		return 0, fmt.Errorf("read checkpoint of %s: %w", m.stream, err)
	}
	return checkpoint, nil
}

// loadState returns nil before the first commit.
func (m *readModel) loadState(ctx context.Context) (*event.DomainState, error) {
	docs, err := m.deps.Views.Load(ctx, m.names.states, []string{m.stream}, views.Heads)
	if err != nil {
		return nil, fmt.Errorf("load state of %s: %w", m.stream, err)
	}
	if len(docs) == 0 {
		return nil, nil
	}
	state := &event.DomainState{}
	if err := event.Decode(docs[0].Head, state); err != nil {
		return nil, fmt.Errorf("load state of %s: %w", m.stream, err)
	}
	return state, nil
}

// waitCurrent waits until the read model shows all commits of this partition, whose documents memory may have dropped. It fails
// with errBehind if ctx ends first: the read model has lost a commit, and the partition has to restart from the remaining
// state. Call it before reading, since one server's state never goes back.
func (m *readModel) waitCurrent(ctx context.Context) error {
	projected := m.projected.Load()
	for retry := newRetry(); ; {
		checkpoint, err := m.checkpoint(ctx)
		if err != nil || checkpoint >= projected {
			return err
		}
		if retry.Wait(ctx); ctx.Err() != nil {
			return fmt.Errorf("%w: at %d, and %d before", errBehind, checkpoint, projected)
		}
	}
}

// loadCurrent calls take for each existing document, as of the partition's last commit or later.
func (m *readModel) loadCurrent(ctx context.Context, collection string, ids []string, parts views.Parts, take func(views.Doc) error) error {
	if len(ids) == 0 {
		return nil
	}
	if err := m.waitCurrent(ctx); err != nil {
		return err
	}
	return m.load(ctx, collection, ids, parts, take)
}

// load is loadCurrent for callers that have called waitCurrent.
func (m *readModel) load(ctx context.Context, collection string, ids []string, parts views.Parts, take func(views.Doc) error) error {
	atOnce := views.MaxLoad
	if parts == views.Full {
		atOnce = loadChunk
	}
	for chunk := range slices.Chunk(ids, atOnce) {
		docs, err := m.deps.Views.Load(ctx, collection, chunk, parts)
		if err != nil {
			return fmt.Errorf("load %d from %s: %w", len(chunk), collection, err)
		}
		for _, d := range docs {
			if err := take(d); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkAlone fails with errAhead if the documents just loaded may come from another replica's commit of messages not folded
// here: such a commit has moved the checkpoint.
func (m *readModel) checkAlone(ctx context.Context) error {
	checkpoint, err := m.checkpoint(ctx)
	if err != nil {
		return err
	}
	// committing is read first, since its commit may become the projected one in between. Each commit of this partition found
	// the checkpoint where the last one left it, so all commits up to both are its own.
	if checkpoint != m.committing.Load() && checkpoint > m.projected.Load() {
		return fmt.Errorf("%w: to %d", errAhead, checkpoint)
	}
	return nil
}

// write commits b. The timeout of a large batch grows with every 12 MB, the size in which MongoDB stores it.
func (m *readModel) write(ctx context.Context, b views.Batch) error {
	timeout := m.cfg.Bounds.ViewWait * time.Duration(1+b.SizeBytes()/views.MaxDocBytes)
	return m.attempt(ctx, timeout, "commit", func(ctx context.Context) error { return m.deps.Views.Commit(ctx, b) })
}

// commit commits b, which moves the checkpoint.
func (m *readModel) commit(ctx context.Context, b views.Batch) error {
	m.committing.Store(b.To)
	err := m.write(ctx, b)
	if !errors.Is(err, views.ErrConflict) {
		return err
	}
	// Either an attempt of unknown outcome was committed, or another replica is projecting. A replica that reached the same
	// checkpoint has committed the same.
	var checkpoint uint64
	err = m.read(ctx, func(ctx context.Context) (err error) {
		checkpoint, err = m.checkpoint(ctx)
		return err
	})
	if err == nil && checkpoint != b.To {
		err = fmt.Errorf("%w: to %d, from %d to %d was tried", errAhead, checkpoint, b.From, b.To)
	}
	return err
}

// failBehind restarts the partition if err is errBehind.
func (m *readModel) failBehind(err error) {
	if errors.Is(err, errBehind) {
		m.fail(err)
	}
}
