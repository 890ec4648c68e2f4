package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"quire.dev/pkg/archived"
	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/proof"
	"quire.dev/pkg/segment"
	"quire.dev/pkg/tilelog"
)

// Errors of reading an archive.
var (
	// ErrNoArchive: the blob store has no archived journal.
	ErrNoArchive = errors.New("there is no archive")
	// ErrUnlogged: an archived message is another one than the signed log has.
	ErrUnlogged = errors.New("the archive is not what the log has")
)

// Archived are the archived journals of an installation, to be read. Safe for concurrent use.
type Archived struct {
	Installation string
	Partitions   int
	// Tree is the log that the messages are compared with, nil if the blob store has none.
	Tree *tlog.Tree

	blobs    blob.Store
	segments *segment.Archive
}

// OpenArchived opens the archive in a blob store, which is only read. The log's checkpoint must be signed with the key of a secret, or,
// if that is empty, with the key that the blob store has. Without a log the archive does not tell how many partitions there are, if the
// last ones are empty: then there are at least so many.
func OpenArchived(ctx context.Context, blobs blob.Store, secret string, partitions int) (*Archived, error) {
	a := &Archived{blobs: blobs, Partitions: partitions}
	var err error
	if a.Installation, err = installation.Blobs(blobs, false).Owner(ctx); err != nil {
		return nil, err
	}
	if a.Installation == "" {
		return nil, fmt.Errorf("%w: the blob %s is missing, which names the installation", ErrNoArchive, installation.BlobKey)
	}
	if err := a.count(ctx); err != nil {
		return nil, err
	}
	if a.segments, err = archived.Segments(blobs, a.Installation, a.Partitions, ""); err != nil {
		return nil, err
	}
	a.Tree, err = a.signed(ctx, secret)
	return a, err
}

// count finds the number of partitions.
func (a *Archived) count(ctx context.Context) error {
	var last state
	logged, err := readRecord(ctx, a.blobs, stateKey, &last)
	if err != nil {
		return err
	}
	if logged {
		a.Partitions = len(last.Positions)
	}
	streams, _ := strings.CutSuffix(segment.Prefix(event.Billing.Stream(0)), "0/")
	ahead := time.Now().Add(24 * time.Hour) // as the store's clock may be
	found := 0
	err = a.blobs.Sweep(ctx, streams, ahead, func(info blob.Info) error {
		number, _, _ := strings.Cut(strings.TrimPrefix(info.Key, streams), "/")
		if p, err := strconv.ParseUint(number, 10, 16); err == nil { // entries of the log have 2 bytes for it
			found = max(found, int(p)+1)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list the archive: %w", err)
	}
	if found == 0 {
		return fmt.Errorf("%w: installation %s has no segment", ErrNoArchive, a.Installation)
	}
	if logged && found > a.Partitions {
		return fmt.Errorf("%s: it has %d partitions, and the archive %d", stateKey, a.Partitions, found)
	}
	a.Partitions = max(a.Partitions, found)
	return nil
}

// signed returns the tree of the checkpoint, nil without one.
func (a *Archived) signed(ctx context.Context, secret string) (*tlog.Tree, error) {
	checkpoint, err := read(ctx, a.blobs, proof.LogCheckpoint, tilelog.MaxCheckpoint)
	if checkpoint == nil || err != nil {
		return nil, err
	}
	key, err := a.verifier(ctx, secret)
	if err != nil {
		return nil, err
	}
	tree, err := tilelog.Parse(checkpoint, key)
	if err != nil {
		return nil, fmt.Errorf("%s of installation %s: %w %s", proof.LogCheckpoint, a.Installation, err, key.Name())
	}
	return &tree, nil
}

func (a *Archived) verifier(ctx context.Context, secret string) (note.Verifier, error) {
	if secret != "" {
		key, err := deriveKey(secret, a.Installation)
		return key.verifier, err
	}
	return proof.ReadKey(ctx, a.blobs)
}

// Ending says where the archive of a journal ends.
type Ending struct {
	Stream   string
	Archived uint64    // last message
	Time     time.Time // when the journal stored it
	// Of the signed log: its last message, and when the journal stored the first one after Archived. 0 and zero without one.
	Logged uint64
	Lost   time.Time
	// Unlogged is how many messages are after the end of the signed log, 0 without one. Somebody may have rewritten them.
	Unlogged uint64
}

// String says in a line where the archive ends, and what is lost.
func (e Ending) String() string {
	text := fmt.Sprintf("%s: %d messages", e.Stream, e.Archived)
	if e.Archived > 0 {
		text += ", up to " + e.Time.Format(time.RFC3339)
	}
	if e.Logged > e.Archived {
		text += fmt.Sprintf(". Lost: %d to %d and everything after them, from %s on", e.Archived+1, e.Logged, e.Lost.Format(time.RFC3339))
	}
	if e.Unlogged > 0 {
		text += fmt.Sprintf(". Not in the log: the last %d, which were compared with nothing", e.Unlogged)
	}
	return text
}

// Check reads all segments and the log, and compares them: the signed log must have the digest of each archived message. It returns the
// ends, by partition. Messages after the log's end are only checked within their segment. Errors: segment.Archive's, tilelog.ErrDamaged,
// and ErrUnlogged.
func (a *Archived) Check(ctx context.Context, progress func(done, total int64)) ([]Ending, error) {
	c := &comparison{Archived: a, ends: make([]Ending, a.Partitions), expected: make([]uint64, a.Partitions)}
	for p := range a.Partitions {
		c.ends[p].Stream = event.Billing.Stream(p)
		next, stop := iter.Pull2(a.Messages(ctx, p))
		defer stop()
		c.next = append(c.next, next)
	}
	if a.Tree != nil {
		if err := c.withLog(ctx, progress); err != nil {
			return nil, err
		}
	}
	for p := range a.Partitions { // what the log does not have
		for {
			if _, more, err := c.pull(p); err != nil {
				return nil, err
			} else if !more {
				break
			}
			if a.Tree != nil {
				c.ends[p].Unlogged++
			}
		}
	}
	return c.ends, nil
}

// Messages returns the archived messages of a partition, in order from the first. The data of a message is valid until the next one.
func (a *Archived) Messages(ctx context.Context, partition int) iter.Seq2[journal.Message, error] {
	return messages(ctx, a.segments, event.Billing.Stream(partition), 1, 0)
}

// Restored returns Messages one by one, and false after the last one. stop is called in the end.
func (a *Archived) Restored(ctx context.Context, partition int) (next func() (journal.Message, bool, error), stop func()) {
	pull, stop := iter.Pull2(a.Messages(ctx, partition))
	return func() (journal.Message, bool, error) {
		m, err, more := pull()
		return m, more && err == nil, err
	}, stop
}

// comparison goes through the log once, and through all journals beside it.
type comparison struct {
	*Archived
	ends     []Ending // of what was compared
	expected []uint64 // last message of the log, by partition
	next     []func() (journal.Message, error, bool)
	rewinds  []setBack
}

// setBack is a proof.Rewind at an index of the log.
type setBack struct {
	proof.Rewind
	index int64
}

// withLog compares the messages that the log has. Those that a later entry says are lost are left out.
func (c *comparison) withLog(ctx context.Context, progress func(done, total int64)) error {
	reader := tilelog.NewReader(c.blobs, proof.LogPrefix)
	err := reader.All(ctx, *c.Tree, func(index int64, entry []byte) error {
		decoded, err := proof.Decode(entry)
		if err != nil {
			return fmt.Errorf("entry %d of the log: %w", index, err)
		}
		if back, ok := decoded.(proof.Rewind); ok {
			c.rewinds = append(c.rewinds, setBack{back, index})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return reader.All(ctx, *c.Tree, func(index int64, entry []byte) error {
		if index%tileEntries == 0 {
			progress(index, c.Tree.N)
		}
		decoded, err := proof.Decode(entry)
		if err != nil {
			return err
		}
		m, ok := decoded.(proof.Message)
		if !ok || c.isLost(m, index) {
			return nil
		}
		return c.compare(ctx, m, entry)
	})
}

const tileEntries = 256

// isLost reports whether a later entry says that a message is lost.
func (c *comparison) isLost(m proof.Message, index int64) bool {
	for _, back := range c.rewinds {
		if back.index > index && back.Partition == m.Partition && back.Sequence < m.Sequence {
			return true
		}
	}
	return false
}

// compare compares a message of the log with the archived one, if there is one.
func (c *comparison) compare(ctx context.Context, m proof.Message, entry []byte) error {
	if m.Partition >= c.Partitions || m.Sequence != c.expected[m.Partition]+1 {
		return fmt.Errorf("%w: message %d of partition %d does not continue it", tilelog.ErrDamaged, m.Sequence, m.Partition)
	}
	end := &c.ends[m.Partition]
	c.expected[m.Partition], end.Logged = m.Sequence, m.Sequence
	if !end.Lost.IsZero() {
		return nil
	}
	archived, more, err := c.pull(m.Partition)
	switch {
	case err != nil:
		return err
	case !more:
		end.Lost = m.Time
	case !bytes.Equal(proof.Digest(m.Partition, archived.Sequence, archived.Time, archived.Subject, archived.Data).Encode(), entry):
		return c.unlogged(ctx, end.Stream, m.Sequence)
	}
	return nil
}

// unlogged names the segment of a message.
func (c *comparison) unlogged(ctx context.Context, stream string, sequence uint64) error {
	listing, err := c.segments.List(ctx, stream)
	if err != nil {
		return err
	}
	for _, s := range listing.Segments {
		if s.Start <= sequence && sequence <= s.Last {
			return fmt.Errorf("segment %s: %w: message %d is another one", s.Key, ErrUnlogged, sequence)
		}
	}
	return fmt.Errorf("%s: %w: message %d is another one", stream, ErrUnlogged, sequence)
}

// pull returns the next archived message of a partition, false after the last one.
func (c *comparison) pull(partition int) (m journal.Message, more bool, err error) {
	m, err, more = c.next[partition]()
	if more && err == nil {
		c.ends[partition].Archived, c.ends[partition].Time = m.Sequence, m.Time
	}
	return m, more, err
}
