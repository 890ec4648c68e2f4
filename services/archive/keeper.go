package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/proof"
	"quire.dev/pkg/tilelog"
	"quire.dev/pkg/witness"
)

// Errors of a round that need an operator. docs/runbook.md says what to do.
var (
	// ErrRewound: a journal does not have the messages that the log has. It was restored from a backup.
	ErrRewound = errors.New("the journal is not the one that the log was made from")
	// ErrForked: the log is not the one whose checkpoint was signed.
	ErrForked = errors.New("the log does not continue its last checkpoint")
	// ErrIncomplete: the log's state is missing, and its checkpoint is there.
	ErrIncomplete = errors.New("the log's state is missing")
)

// errOvertaken: another instance has gone on. This one opens the log again.
var errOvertaken = errors.New("another instance has added to the log")

// keeper holds the log open after some cut. Not safe for concurrent use.
type keeper struct {
	*Service
	log       *tilelog.Log
	cut       int64      // the last one in the log
	positions []position // after it, by partition

	checkpoint tlog.Tree // that is published
	cosigned   map[string]int64
}

// open opens the log as it was left.
func (s *Service) open(ctx context.Context) (*keeper, error) {
	_, signed, err := s.readCheckpoint(ctx)
	if err != nil {
		return nil, err
	}
	k, err := s.openState(ctx)
	if err != nil {
		return nil, err
	}
	if k.checkpoint = signed; signed.N > 0 && k.cut == 0 {
		return nil, fmt.Errorf("%w: %s", ErrIncomplete, stateKey)
	}
	return k, nil
}

// openState opens the log as its state says.
func (s *Service) openState(ctx context.Context) (*keeper, error) {
	k := &keeper{Service: s, cosigned: map[string]int64{}}
	for p := range s.cfg.PartitionCount {
		k.positions = append(k.positions, position{Partition: p})
	}
	var last state
	found, err := readRecord(ctx, s.deps.Blobs, stateKey, &last)
	if err != nil {
		return nil, err
	}
	if found {
		if len(last.Positions) != len(k.positions) {
			return nil, fmt.Errorf("%s: it has %d partitions, the installation %d", stateKey, len(last.Positions), len(k.positions))
		}
		k.cut, k.positions = last.Cut, last.Positions
	}
	k.log, err = tilelog.Open(ctx, s.deps.Blobs, proof.LogPrefix, tlog.Tree{N: last.Size, Hash: last.Root})
	return k, err
}

// readCheckpoint returns the published checkpoint, and its tree; nil without one.
func (s *Service) readCheckpoint(ctx context.Context) (data []byte, tree tlog.Tree, err error) {
	data, err = read(ctx, s.deps.Blobs, proof.LogCheckpoint, tilelog.MaxCheckpoint)
	if data == nil || err != nil {
		return nil, tree, err
	}
	if tree, err = tilelog.Parse(data, s.key.verifier); err != nil {
		return nil, tree, fmt.Errorf("%s: %w", proof.LogCheckpoint, err)
	}
	return data, tree, nil
}

// ends returns the present ends of the journals, by partition.
func (k *keeper) ends(ctx context.Context) (ends []uint64, err error) {
	for p, at := range k.positions {
		state, err := k.journals[p].StateFrom(ctx, at.Sequence)
		if err != nil {
			return nil, fmt.Errorf("read the end of the journal of partition %d: %w", p, err)
		}
		if state.Last < at.Sequence {
			return nil, fmt.Errorf("partition %d: %w: it ends at %d, and the log has %d", p, ErrRewound, state.Last, at.Sequence)
		}
		ends = append(ends, state.Last)
	}
	return ends, nil
}

// grow brings the log up to the ends that the journals have now, and publishes it.
func (k *keeper) grow(ctx context.Context) error {
	if err := k.advanceTo(ctx, nil); err != nil { // a loss that is accepted is one of them
		return err
	}
	ends, err := k.ends(ctx)
	if err != nil {
		return err
	}
	if err := k.advanceTo(ctx, ends); err != nil {
		return err
	}
	return k.publish(ctx)
}

// advanceTo adds the cuts that there are, and others until the log has the journals up to these ends.
func (k *keeper) advanceTo(ctx context.Context, ends []uint64) error {
	for {
		if added, err := k.advance(ctx, ends); err != nil || !added {
			return err
		}
	}
}

// advance adds the next cut, creating it if necessary, and returns false if there is nothing to add.
func (k *keeper) advance(ctx context.Context, ends []uint64) (bool, error) {
	next := &cut{}
	found, err := readRecord(ctx, k.deps.Blobs, cutKey(k.cut+1), next)
	if err != nil {
		return false, err
	}
	switch {
	case found:
		err = k.confirm(ctx, k.cut)
	case ends == nil:
		return false, nil
	default:
		next, err = k.create(ctx, ends)
	}
	if err != nil || next == nil {
		return false, err
	}
	return true, k.add(ctx, next)
}

// confirm returns errOvertaken if a cut was deleted, which means that other instances are ahead. Its successor is then not a cut of the
// log, no matter which instance created it.
func (k *keeper) confirm(ctx context.Context, number int64) error {
	if number == 0 {
		return nil
	}
	found, err := read(ctx, k.deps.Blobs, cutKey(number), maxRecord)
	if err == nil && found == nil {
		err = errOvertaken
	}
	return err
}

// create creates the next cut, or returns nil if the log has the journals up to these ends.
func (k *keeper) create(ctx context.Context, ends []uint64) (*cut, error) {
	next := &cut{Number: k.cut + 1, Time: k.deps.Clock().UTC()}
	left := k.cfg.CutMessages
	for p, at := range k.positions {
		if more := min(max(ends[p], at.Sequence)-at.Sequence, left); more > 0 {
			left -= more
			next.Positions = append(next.Positions, position{Partition: p, Sequence: at.Sequence + more})
		}
	}
	if len(next.Positions) == 0 {
		return nil, nil
	}
	return k.agree(ctx, next)
}

// agree creates a cut, unless another instance has created one with its number, and returns the one that counts, confirmed.
func (k *keeper) agree(ctx context.Context, next *cut) (*cut, error) {
	data, err := json.Marshal(next)
	if err != nil {
		return nil, err
	}
	key := cutKey(next.Number)
	err = k.deps.Blobs.Create(ctx, key, data)
	created := err == nil
	if errors.Is(err, blob.ErrExists) {
		_, err = readRecord(ctx, k.deps.Blobs, key, next)
	}
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", key, err)
	}
	if err := k.confirm(ctx, next.Number-1); err != nil {
		if created && errors.Is(err, errOvertaken) {
			err = errors.Join(err, k.deps.Blobs.Delete(ctx, key)) // where it stays, nobody adds it
		}
		return nil, err
	}
	return next, nil
}

// add adds a cut to the log.
func (k *keeper) add(ctx context.Context, next *cut) error {
	if next.Number != k.cut+1 {
		return fmt.Errorf("%s says that its number is %d", cutKey(k.cut+1), next.Number)
	}
	for _, to := range next.Rewinds {
		if err := k.rewind(ctx, to); err != nil {
			return err
		}
	}
	for _, to := range next.Positions {
		if err := k.addMessages(ctx, to); err != nil {
			return err
		}
	}
	tree, err := k.log.Sync(ctx)
	if err != nil {
		return err
	}
	if err := k.confirm(ctx, next.Number); err != nil {
		return err // the state would be set back
	}
	k.cut = next.Number
	data, err := json.Marshal(state{Cut: k.cut, Size: tree.N, Root: tree.Hash, Positions: k.positions})
	if err != nil {
		return err
	}
	if err := write(ctx, k.deps.Blobs, stateKey, data); err != nil {
		return err
	}
	k.metrics.size.Set(float64(tree.N))
	if k.cut > k.keepCuts {
		return k.deps.Blobs.Delete(ctx, cutKey(k.cut-k.keepCuts))
	}
	return nil
}

// addMessages adds the messages of a partition up to a position.
func (k *keeper) addMessages(ctx context.Context, to position) error {
	if to.Partition < 0 || to.Partition >= len(k.positions) || to.Sequence <= k.positions[to.Partition].Sequence {
		return fmt.Errorf("cut %d: partition %d goes on to %d", k.cut+1, to.Partition, to.Sequence)
	}
	at, j := &k.positions[to.Partition], k.journals[to.Partition]
	if err := k.check(ctx, j, *at); err != nil {
		return err
	}
	err := j.Replay(ctx, at.Sequence, to.Sequence, func(m journal.Message) error {
		entry := proof.Digest(to.Partition, m.Sequence, m.Time, m.Subject, m.Data).Encode()
		hash := tlog.RecordHash(entry)
		at.Sequence, at.Entry, at.Bytes = m.Sequence, &hash, at.Bytes+uint64(len(m.Data))
		return k.log.Append(ctx, entry)
	}, nil)
	if err != nil {
		return fmt.Errorf("partition %d: %w", to.Partition, err)
	}
	return nil
}

// check compares the last message that the log has with the journal's.
func (k *keeper) check(ctx context.Context, j *journal.Journal, at position) error {
	if at.Sequence == 0 {
		return nil
	}
	m, err := j.Get(ctx, at.Sequence)
	if errors.Is(err, journal.ErrNoMessage) {
		return fmt.Errorf("partition %d: %w: it lacks message %d", at.Partition, ErrRewound, at.Sequence)
	}
	if err != nil {
		return fmt.Errorf("partition %d: %w", at.Partition, err)
	}
	if at.Entry == nil || leaf(at.Partition, m) != *at.Entry {
		return fmt.Errorf("partition %d: %w: message %d is another one", at.Partition, ErrRewound, at.Sequence)
	}
	return nil
}

func leaf(partition int, m journal.Message) tlog.Hash {
	return tlog.RecordHash(proof.Digest(partition, m.Sequence, m.Time, m.Subject, m.Data).Encode())
}

// rewind sets a partition back.
func (k *keeper) rewind(ctx context.Context, to position) error {
	if to.Partition < 0 || to.Partition >= len(k.positions) || to.Sequence >= k.positions[to.Partition].Sequence {
		return fmt.Errorf("cut %d: partition %d is set back to %d", k.cut+1, to.Partition, to.Sequence)
	}
	if to.Sequence > 0 {
		m, err := k.journals[to.Partition].Get(ctx, to.Sequence)
		if err != nil {
			return fmt.Errorf("partition %d: %w", to.Partition, err)
		}
		if to.Entry == nil || leaf(to.Partition, m) != *to.Entry {
			return fmt.Errorf("partition %d: %w: message %d is another one", to.Partition, ErrRewound, to.Sequence)
		}
	}
	to.Bytes = k.positions[to.Partition].Bytes
	k.positions[to.Partition] = to
	return k.log.Append(ctx, proof.Rewind{Partition: to.Partition, Sequence: to.Sequence}.Encode())
}

// publish signs the log as it is, and has the witnesses sign it that have not.
func (k *keeper) publish(ctx context.Context) error {
	tree := k.log.Tree()
	shown, published, err := k.readCheckpoint(ctx)
	if err != nil {
		return err
	}
	if published.N > max(tree.N, k.checkpoint.N) {
		return errOvertaken
	}
	k.checkpoint = published
	checkpoint := shown
	if published != tree {
		if err := k.continues(ctx, tree); err != nil {
			return err
		}
		if checkpoint, err = tilelog.Sign(tree, k.key); err != nil {
			return err
		}
	}
	if checkpoint, err = k.cosign(ctx, tree, checkpoint); err != nil {
		return err
	}
	if shown == nil {
		if err := k.publishKey(ctx); err != nil {
			return err
		}
	}
	if !bytes.Equal(checkpoint, shown) {
		if err := k.replace(ctx, tree, checkpoint); err != nil {
			return err
		}
	}
	k.checkpoint = tree
	k.metrics.checkpoint.Set(float64(k.deps.Clock().Unix()))
	return nil
}

// replace writes a checkpoint, unless another instance has written a later one while witnesses were asked.
func (k *keeper) replace(ctx context.Context, tree tlog.Tree, checkpoint []byte) error {
	_, published, err := k.readCheckpoint(ctx)
	if err != nil {
		return err
	}
	if published.N > tree.N {
		return errOvertaken
	}
	return write(ctx, k.deps.Blobs, proof.LogCheckpoint, checkpoint)
}

// continues returns ErrForked unless a tree has everything of the published one.
func (k *keeper) continues(ctx context.Context, tree tlog.Tree) error {
	old := k.checkpoint
	if old.N == 0 {
		return nil
	}
	if tree.N < old.N {
		return fmt.Errorf("%w: it has %d entries, its checkpoint %d", ErrForked, tree.N, old.N)
	}
	root, err := tilelog.NewReader(k.deps.Blobs, proof.LogPrefix).RootAt(ctx, old.N, tree)
	if err != nil {
		return err
	}
	if root != old.Hash {
		return fmt.Errorf("%w: at %d entries its root is %s, not %s", ErrForked, old.N, root, old.Hash)
	}
	return nil
}

func (k *keeper) publishKey(ctx context.Context) error {
	k.deps.Logger.Info("the log begins: publish its key where your customers find it, outside of this installation", "key", k.key.public)
	return write(ctx, k.deps.Blobs, proof.LogKey, []byte(k.key.public+"\n"))
}

// cosign adds the signatures of the witnesses that have not signed a checkpoint and answer. It returns ErrForked if one knows a
// longer log, or another one.
func (k *keeper) cosign(ctx context.Context, tree tlog.Tree, checkpoint []byte) ([]byte, error) {
	lines, errs := make([][]byte, len(k.witnesses)), make([]error, len(k.witnesses))
	var asked sync.WaitGroup
	for i, w := range k.witnesses {
		if has(checkpoint, w) {
			continue
		}
		asked.Go(func() { lines[i], errs[i] = k.ask(ctx, w, tree, checkpoint) })
	}
	asked.Wait()
	signed := checkpoint
	for i, w := range k.witnesses {
		switch conflict := new(witness.ConflictError); {
		case errors.As(errs[i], &conflict) && conflict.Size > tree.N:
			return nil, fmt.Errorf("%w: it has %d entries, and the witness %s has signed %d", ErrForked, tree.N, w.Name(), conflict.Size)
		case errors.Is(errs[i], witness.ErrProof) || errors.Is(errs[i], witness.ErrFork):
			return nil, fmt.Errorf("%w: %w", ErrForked, errs[i])
		case errs[i] != nil:
			k.metrics.unwitnessed.WithLabelValues(w.Name()).Inc()
			k.deps.Logger.Warn("a witness has not signed the checkpoint", "witness", w.Name(), "size", tree.N, "error", errs[i])
		case lines[i] != nil:
			signed = append(signed[:len(signed):len(signed)], lines[i]...)
			k.cosigned[w.Name()] = tree.N
		}
	}
	return signed, nil
}

// has reports whether a witness has signed a checkpoint.
func has(checkpoint []byte, w *witness.Client) bool {
	_, err := note.Open(checkpoint, note.VerifierList(w.Verifier()))
	return err == nil
}

// ask asks a witness, and once more if it knows the log at another size than this instance thought.
func (k *keeper) ask(ctx context.Context, w *witness.Client, tree tlog.Tree, checkpoint []byte) ([]byte, error) {
	line, err := k.askFrom(ctx, w, k.cosigned[w.Name()], tree, checkpoint)
	if conflict := new(witness.ConflictError); errors.As(err, &conflict) && conflict.Size <= tree.N {
		return k.askFrom(ctx, w, conflict.Size, tree, checkpoint)
	}
	return line, err
}

func (k *keeper) askFrom(ctx context.Context, w *witness.Client, old int64, tree tlog.Tree, checkpoint []byte) ([]byte, error) {
	var consistency tlog.TreeProof
	if old > 0 && old < tree.N {
		var err error
		if consistency, err = tilelog.NewReader(k.deps.Blobs, proof.LogPrefix).ProveConsistency(ctx, old, tree); err != nil {
			return nil, err
		}
	}
	return w.Cosign(ctx, old, consistency, checkpoint)
}
