package proof

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/tilelog"
)

// ErrNotLogged: the log does not have a message.
var ErrNotLogged = errors.New("the log does not have the message")

// ErrNoLog: there is no log yet.
var ErrNoLog = errors.New("there is no log yet")

// Published is the log as of a checkpoint. Its tiles are checked against that where hashes of a proof are read. Safe for concurrent use.
type Published struct {
	Checkpoint []byte // a signed note
	Tree       tlog.Tree
	reader     *tilelog.Reader
}

// maxKey bounds a verifier key.
const maxKey = 1 << 10

// OpenLog reads the present checkpoint of the log in a blob store, or returns ErrNoLog.
func OpenLog(ctx context.Context, blobs blob.Store) (*Published, error) {
	l, err := openLog(ctx, blobs)
	if errors.Is(err, blob.ErrNotFound) {
		err = fmt.Errorf("%w: %w", ErrNoLog, err)
	}
	return l, err
}

// ReadKey reads the verifier key that is stored beside the log. The key is not authenticated: anyone who can write there can replace it.
func ReadKey(ctx context.Context, blobs blob.Store) (note.Verifier, error) {
	text, err := blob.Read(ctx, blobs, LogKey, maxKey)
	if err != nil {
		return nil, err
	}
	key, err := note.NewVerifier(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", LogKey, err)
	}
	return key, nil
}

func openLog(ctx context.Context, blobs blob.Store) (*Published, error) {
	verifier, err := ReadKey(ctx, blobs)
	if err != nil {
		return nil, err
	}
	l := &Published{reader: tilelog.NewReader(blobs, LogPrefix)}
	if l.Checkpoint, err = blob.Read(ctx, blobs, LogCheckpoint, tilelog.MaxCheckpoint); err != nil {
		return nil, err
	}
	l.Tree, err = tilelog.Parse(l.Checkpoint, verifier)
	return l, err
}

// Include proves that the log has a message: its index, and the hashes of RFC 6962.
func (l *Published) Include(ctx context.Context, m Message) (index int64, hashes []tlog.Hash, err error) {
	if index, err = l.find(ctx, m); err != nil {
		return 0, nil, err
	}
	hashes, err = l.reader.ProveInclusion(ctx, index, l.Tree)
	return index, hashes, err
}

// Continue proves that the log has the first size entries of an earlier one, and returns the root of those.
func (l *Published) Continue(ctx context.Context, size int64) (root tlog.Hash, hashes []tlog.Hash, err error) {
	if root, err = l.reader.RootAt(ctx, size, l.Tree); err != nil {
		return root, nil, err
	}
	hashes, err = l.reader.ProveConsistency(ctx, size, l.Tree)
	return root, hashes, err
}

// LastOf returns the sequence of the newest message of a partition in the log, or ErrNotLogged.
func (l *Published) LastOf(ctx context.Context, partition int) (uint64, error) {
	at, err := l.last(ctx, partition)
	return at.entry.Sequence, err
}

// place is an entry of a partition's message.
type place struct {
	index int64
	entry Message
}

// next returns the first entry of a partition's message in a range of the log, or ErrNotLogged.
func (l *Published) next(ctx context.Context, partition int, from, end int64) (place, error) {
	return l.first(ctx, from, end, func(m Message) bool { return m.Partition == partition })
}

// first returns the first entry of a message that matches, in a range of the log, or ErrNotLogged.
func (l *Published) first(ctx context.Context, from, end int64, matches func(Message) bool) (at place, err error) {
	err = l.reader.Entries(ctx, from, end, l.Tree.N, func(index int64, data []byte) error {
		entry, _ := Decode(data)
		if m, ok := entry.(Message); ok && matches(m) {
			at = place{index, m}
			return errFound
		}
		return nil
	})
	switch {
	case err == nil:
		return at, ErrNotLogged
	case errors.Is(err, errFound):
		return at, nil
	}
	return at, err
}

var errFound = errors.New("found")

// last returns the newest entry of a partition's messages, or ErrNotLogged.
func (l *Published) last(ctx context.Context, partition int) (newest place, err error) {
	err = ErrNotLogged
	for end, width := l.Tree.N, int64(1); end > 0 && errors.Is(err, ErrNotLogged); width *= 2 {
		from := max(0, end-width)
		newest, err = l.lastIn(ctx, partition, from, end)
		end = from
	}
	return newest, err
}

// lastIn is last in a range. After a loss the last message that is left is the newest.
func (l *Published) lastIn(ctx context.Context, partition int, from, end int64) (newest place, err error) {
	err = ErrNotLogged
	reading := l.reader.Entries(ctx, from, end, l.Tree.N, func(index int64, data []byte) error {
		entry, _ := Decode(data)
		switch e := entry.(type) {
		case Message:
			if e.Partition == partition {
				newest, err = place{index, e}, nil
			}
		case Rewind:
			if e.Partition == partition {
				newest, err = place{index, Message{Partition: partition, Sequence: e.Sequence}}, nil
			}
		}
		return nil
	})
	if reading != nil {
		return newest, reading
	}
	return newest, err
}

// find returns the index of the entry of a message, or ErrNotLogged. A partition's sequences ascend in the log, except where messages were
// lost: there they begin again at a lower one. If looking at the middle fails for that reason, it reads the log.
func (l *Published) find(ctx context.Context, want Message) (int64, error) {
	for from, end := int64(0), l.Tree.N; from < end; {
		middle := from + (end-from)/2
		at, err := l.next(ctx, want.Partition, middle, end)
		switch {
		case err != nil && !errors.Is(err, ErrNotLogged):
			return 0, err
		case err != nil || at.entry.Sequence > want.Sequence:
			end = middle
		case at.entry == want:
			return at.index, nil
		default:
			from = at.index + 1
		}
	}
	at, err := l.first(ctx, 0, l.Tree.N, func(m Message) bool { return m == want })
	return at.index, err
}
