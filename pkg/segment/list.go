package segment

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"quire.dev/pkg/blob"
)

// Root is the prefix of all segments in the blob store.
const Root = "archive/"

const (
	suffix         = ".seg"
	sequenceDigits = 20
)

// Prefix is the prefix of a stream's segments in the blob store.
func Prefix(stream string) string { return Root + stream + "/" }

// Segment names a stored segment.
type Segment struct {
	Key         string
	Stream      string
	First, Last uint64 // sequences of its messages
	Start       uint64 // the first message to read of it: later than First if the segment before has some of them
	Hash        Hash   // of the blob
	Size        int64
}

func (s *Segment) key() string {
	return fmt.Sprintf("%s%0*d-%0*d-%x%s", Prefix(s.Stream), sequenceDigits, s.First, sequenceDigits, s.Last, s.Hash, suffix)
}

func parseSegment(stream string, info blob.Info) (Segment, bool) {
	name, ok := strings.CutSuffix(strings.TrimPrefix(info.Key, Prefix(stream)), suffix)
	parts := strings.Split(name, "-")
	if !ok || len(parts) != 3 || len(parts[2]) != hex.EncodedLen(len(Hash{})) {
		return Segment{}, false
	}
	s := Segment{Key: info.Key, Stream: stream, Size: info.Size}
	var err1, err2 error
	s.First, err1 = strconv.ParseUint(parts[0], 10, 64)
	s.Last, err2 = strconv.ParseUint(parts[1], 10, 64)
	_, err3 := hex.Decode(s.Hash[:], []byte(parts[2]))
	s.Start = s.First
	return s, err1 == nil && err2 == nil && err3 == nil && s.First > 0 && s.First <= s.Last && s.Last < math.MaxUint64 && s.key() == info.Key
}

// Range is a range of sequences, with both ends.
type Range struct{ First, Last uint64 }

// Listing is what the archive has of a stream, by the names of the blobs.
type Listing struct {
	Segments []Segment // in order: from the Start of each to its Last they have every message once
	Spare    []Segment // whose messages are all in Segments
	Gaps     []Range   // before the first segment, as sequences begin at 1, and between two
	Foreign  []string  // keys of blobs that are no segments of the stream
}

// Last is the last archived message, 0 without any.
func (l *Listing) Last() uint64 {
	if len(l.Segments) == 0 {
		return 0
	}
	return l.Segments[len(l.Segments)-1].Last
}

// Missing returns the first range of messages up to a sequence that no segment has, and whether there is one.
func (l *Listing) Missing(to uint64) (Range, bool) {
	if len(l.Gaps) > 0 && l.Gaps[0].First <= to {
		return Range{First: l.Gaps[0].First, Last: min(l.Gaps[0].Last, to)}, true
	}
	return Range{First: l.Last() + 1, Last: to}, l.Last() < to
}

// List is the package's List for the archive's store.
func (a *Archive) List(ctx context.Context, stream string) (Listing, error) {
	return List(ctx, a.store, stream)
}

// List reads the names of a stream's segments, and chooses those to read: of two that have the next message, the one that goes
// further.
func List(ctx context.Context, store blob.Store, stream string) (Listing, error) {
	if !validName(stream) {
		return Listing{}, fmt.Errorf("%w: stream %q", ErrInvalid, stream)
	}
	var all []Segment
	var foreign []string
	everything := time.Now().Add(100 * 365 * 24 * time.Hour)
	err := store.Sweep(ctx, Prefix(stream), everything, func(info blob.Info) error {
		if s, ok := parseSegment(stream, info); ok {
			all = append(all, s)
		} else {
			foreign = append(foreign, info.Key)
		}
		return nil
	})
	if err != nil {
		return Listing{}, fmt.Errorf("list segments %s: %w", Prefix(stream), err)
	}
	slices.Sort(foreign)
	l := choose(all)
	l.Foreign = foreign
	return l, nil
}

// choose chooses the fewest segments that have all messages.
func choose(all []Segment) (l Listing) {
	// Of two with the same messages, the names decide, so that all readers read the same.
	slices.SortFunc(all, func(x, y Segment) int {
		return cmp.Or(cmp.Compare(x.First, y.First), cmp.Compare(y.Last, x.Last), strings.Compare(x.Key, y.Key))
	})
	next := uint64(1)
	for len(all) > 0 {
		if all[0].First > next {
			l.Gaps = append(l.Gaps, Range{First: next, Last: all[0].First - 1})
			next = all[0].First
		}
		n, best := 0, 0
		for ; n < len(all) && all[n].First <= next; n++ {
			if all[n].Last > all[best].Last {
				best = n
			}
		}
		for i, s := range all[:n] {
			if i == best && s.Last >= next {
				s.Start = next
				l.Segments = append(l.Segments, s)
			} else {
				l.Spare = append(l.Spare, s)
			}
		}
		next = max(next, all[best].Last+1)
		all = all[n:]
	}
	return l
}
