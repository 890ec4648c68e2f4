package archive

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/archived"
	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/proof"
	"quire.dev/pkg/segment"
)

var (
	forgerySeed  = flag.Uint64("forgery.seed", 0, "seed of TestEveryForgeryIsFoundWithItsPlace, to repeat a run; 0: a drawn one")
	forgeryCount = flag.Int("forgery.count", 2000, "how many archives it forges")
)

// forged is an archive that looks forged. The store below stays as it is.
type forged struct {
	blob.Store
	changed map[string][]byte // nil: removed
	got     map[string]bool   // keys
}

func (f *forged) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, blob.Info, error) {
	f.got[key] = true
	data, changed := f.changed[key]
	switch {
	case !changed:
		return f.Store.Get(ctx, key, offset, length)
	case data == nil:
		return nil, blob.Info{}, blob.ErrNotFound
	}
	size := int64(len(data))
	begin, end := min(offset, size), size
	if length >= 0 {
		end = min(begin+length, size)
	}
	return io.NopCloser(bytes.NewReader(data[begin:end])), blob.Info{Key: key, Size: size}, nil
}

func (f *forged) Put(_ context.Context, key string, r io.Reader, _ int64) (info blob.Info, err error) {
	f.changed[key], err = io.ReadAll(r)
	return blob.Info{Key: key, Size: int64(len(f.changed[key]))}, err
}

func (f *forged) Delete(_ context.Context, key string) error {
	f.changed[key] = nil
	return nil
}

func (f *forged) Sweep(ctx context.Context, prefix string, olderThan time.Time, visit func(blob.Info) error) error {
	for key, data := range f.changed {
		if data == nil || !strings.HasPrefix(key, prefix) {
			continue
		}
		if err := visit(blob.Info{Key: key, Size: int64(len(data))}); err != nil {
			return err
		}
	}
	return f.Store.Sweep(ctx, prefix, olderThan, func(info blob.Info) error {
		if _, changed := f.changed[info.Key]; changed {
			return nil
		}
		return visit(info)
	})
}

// finding is what a check has to say of a forgery.
type finding struct {
	// errs: it refuses with one of these, and names one of the places. None: it doesn't refuse, and the ends are these.
	errs   []error
	places []string
	ends   []Ending
}

// segmentErrors are how a segment is refused that is not what its name says.
var segmentErrors = []error{segment.ErrDamaged, segment.ErrFormat, segment.ErrForeign}

func refused(err error, places ...string) finding { return finding{errs: []error{err}, places: places} }

// describes reports whether a check has said it.
func (w finding) describes(ends []Ending, err error) bool {
	if len(w.errs) == 0 {
		return err == nil && slices.EqualFunc(ends, w.ends, func(got, want Ending) bool {
			return got.Archived == want.Archived && got.Logged == want.Logged && got.Unlogged == want.Unlogged && got.Lost.Equal(want.Lost)
		})
	}
	return slices.ContainsFunc(w.errs, func(want error) bool { return errors.Is(err, want) }) &&
		slices.ContainsFunc(w.places, func(place string) bool { return strings.Contains(err.Error(), place) })
}

// forger forges an archive. Each forgery returns what a check has to say of it.
type forger struct {
	t        *testing.T
	random   *rand.Rand
	blobs    *forged
	secret   string              // that the reader has
	segments [][]segment.Segment // by partition
	entries  []string            // bundles of the log
	ends     []Ending            // before any forgery
	older    []byte              // an earlier checkpoint
	olderEnd []Ending            // what was archived and logged then
}

func newForger(t *testing.T) *forger {
	t.Helper()
	seed := *forgerySeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	f := &forger{t: t, random: seededWith(t, seed)}
	s := newArchive(t, f.random)
	f.older = get(t, s.blobs, proof.LogCheckpoint)
	var err error
	if _, f.olderEnd, err = checkArchived(t.Context(), s.blobs, ""); err != nil {
		t.Fatal(err)
	}
	for p := range partitions {
		for range 2 + f.random.IntN(20) {
			s.publish(p)
		}
	}
	s.must(s.service(s.blobs))
	f.blobs = &forged{Store: s.blobs, changed: map[string][]byte{}, got: map[string]bool{}}
	f.ends, err = f.check()
	if err != nil || slices.ContainsFunc(f.ends, func(e Ending) bool { return e.Unlogged > 0 || !e.Lost.IsZero() }) {
		t.Fatalf("before any forgery: %v, %v", err, f.ends)
	}
	for key := range f.blobs.got {
		if strings.HasPrefix(key, proof.LogPrefix+"tile/entries/") {
			f.entries = append(f.entries, key)
		}
	}
	slices.Sort(f.entries)
	for p := range partitions {
		f.segments = append(f.segments, segmentsOf(t, f.blobs, p))
	}
	return f
}

func (f *forger) check() ([]Ending, error) {
	_, ends, err := checkArchived(f.t.Context(), f.blobs, f.secret)
	return ends, err
}

// reported is what a check says that does not refuse: the ends, of which one is changed.
func (f *forger) reported(stream string, change func(*Ending)) finding {
	ends := slices.Clone(f.ends)
	change(&ends[f.partition(stream)])
	return finding{ends: ends}
}

func (f *forger) partition(stream string) int {
	return slices.IndexFunc(f.segments, func(list []segment.Segment) bool { return list[0].Stream == stream })
}

// segment draws one, as the rest of its journal from it on.
func (f *forger) segment() []segment.Segment {
	list := f.segments[f.random.IntN(partitions)]
	return list[f.random.IntN(len(list)):]
}

func (f *forger) messages(of segment.Segment) (list []segment.Message) {
	archive, err := archived.Segments(f.blobs, "test", partitions, "")
	if err != nil {
		f.t.Fatal(err)
	}
	err = archive.ReplaySegment(f.t.Context(), of, of.First, func(m segment.Message) error {
		m.Data = slices.Clone(m.Data)
		list = append(list, m)
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return list
}

// flip changes a bit of a blob, and returns the offset.
func (f *forger) flip(key string) int {
	data := slices.Clone(get(f.t, f.blobs, key))
	offset := f.random.IntN(len(data))
	data[offset] ^= 1 << f.random.IntN(8)
	put(f.t, f.blobs, key, data)
	return offset
}

// edited: a bit of a segment.
func (f *forger) edited() finding {
	key := f.segment()[0].Key
	f.flip(key)
	return finding{errs: segmentErrors, places: []string{key}}
}

// omitted: some segments of a journal in a row, which may be the last ones, or all.
func (f *forger) omitted() finding {
	rest := f.segment()
	gone := rest[:1+f.random.IntN(len(rest))]
	first, last := gone[0], gone[len(gone)-1]
	lost := f.messages(first)[0]
	for _, s := range gone {
		remove(f.t, f.blobs, s.Key)
	}
	if len(gone) < len(rest) {
		return refused(segment.ErrGap, (&segment.GapError{Stream: first.Stream, First: first.First, Last: last.Last}).Error())
	}
	return f.reported(first.Stream, func(e *Ending) { e.Archived, e.Lost = first.First-1, time.Unix(0, lost.TimeNanos) })
}

// rename gives a segment the place from first to last in a journal.
func (f *forger) rename(of segment.Segment, stream string, first, last uint64) string {
	key := fmt.Sprintf("%s%020d-%020d-%x.seg", segment.Prefix(stream), first, last, of.Hash)
	put(f.t, f.blobs, key, get(f.t, f.blobs, of.Key))
	return key
}

// doubled: a segment is there again, for more messages.
func (f *forger) doubled() finding {
	of := f.segment()[0]
	return finding{errs: segmentErrors, places: []string{f.rename(of, of.Stream, of.First, of.Last+1+f.random.Uint64N(5))}}
}

// swapped: two segments of any journals.
func (f *forger) swapped() finding {
	one, other := f.segment()[0], f.segment()[0]
	for one.Key == other.Key {
		other = f.segment()[0]
	}
	keys := []string{f.rename(one, other.Stream, other.First, other.Last), f.rename(other, one.Stream, one.First, one.Last)}
	remove(f.t, f.blobs, one.Key)
	remove(f.t, f.blobs, other.Key)
	return finding{errs: segmentErrors, places: keys}
}

// remade: a segment is written anew with messages that are changed, and right checksums; half of the time all later ones too, with
// right chains.
func (f *forger) remade(rest []segment.Segment, changed ...segment.Message) finding {
	if f.random.IntN(2) == 0 {
		rest = rest[:1]
	}
	var chain *segment.Hash
	var key string
	for i, of := range rest {
		made, after := forge(f.t, f.blobs, of, "test", chain, func(m *segment.Message) {
			for _, c := range changed {
				if c.Sequence == m.Sequence {
					*m = c
				}
			}
		})
		remove(f.t, f.blobs, of.Key)
		if chain = &after; i == 0 {
			key = made.Key
		}
	}
	first := changed[0].Sequence
	for _, c := range changed {
		first = min(first, c.Sequence)
	}
	return refused(ErrUnlogged, fmt.Sprintf("segment %s: %v: message %d is another one", key, ErrUnlogged, first))
}

// reordered: two messages of a segment.
func (f *forger) reordered() finding {
	rest := f.segment()
	list := f.messages(rest[0])
	for len(list) < 2 {
		rest = f.segment()
		list = f.messages(rest[0])
	}
	i := f.random.IntN(len(list) - 1)
	one, other := list[i], list[i+1+f.random.IntN(len(list)-i-1)]
	one.Sequence, other.Sequence = other.Sequence, one.Sequence
	return f.remade(rest, one, other)
}

// rewrite draws a message of a segment, and changes its time or data.
func (f *forger) rewrite(of segment.Segment) (was, is segment.Message) {
	list := f.messages(of)
	was = list[f.random.IntN(len(list))]
	is = was
	switch f.random.IntN(3) {
	case 0:
		is.TimeNanos += 1 + f.random.Int64N(1e9)
	case 1:
		is.Data = slices.Clone(was.Data)
		is.Data[f.random.IntN(len(is.Data))] ^= 1 << f.random.IntN(8)
	default:
		is.Data = append(slices.Clone(was.Data), byte(f.random.Uint32()))
	}
	return was, is
}

func (f *forger) rewritten() finding {
	rest := f.segment()
	_, m := f.rewrite(rest[0])
	return f.remade(rest, m)
}

// moved: a message gets another subject.
func (f *forger) moved() finding {
	rest := f.segment()
	m, _ := f.rewrite(rest[0])
	subjects := event.Billing.Subjects(0)
	m.Subject = subjects[1+f.random.IntN(len(subjects)-1)]
	return f.remade(rest, m)
}

// added: a message after the last one. Nothing contradicts it, until the log has that message.
func (f *forger) added() finding {
	list := f.segments[f.random.IntN(partitions)]
	last := list[len(list)-1]
	archive, err := archived.Segments(f.blobs, "test", partitions, "")
	if err != nil {
		f.t.Fatal(err)
	}
	summary, err := archive.Describe(f.t.Context(), last)
	if err != nil {
		f.t.Fatal(err)
	}
	w, err := archive.Create(last.Stream, summary.Partition, summary.LastChain)
	if err != nil {
		f.t.Fatal(err)
	}
	defer w.Close()
	m := f.messages(last)[0]
	m.Sequence = last.Last + 1
	if err := w.Add(m); err != nil {
		f.t.Fatal(err)
	}
	if _, err := w.Put(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	return f.reported(last.Stream, func(e *Ending) { e.Archived, e.Unlogged = e.Archived+1, 1 })
}

// TestEveryForgeryIsFoundWithItsPlace: what was forged is refused, and the segment, the messages or the log's entry named. Only of segments
// that are missing or too many at the end, and of an old checkpoint, a check reports up to where the archive and the log reach.
func TestEveryForgeryIsFoundWithItsPlace(t *testing.T) {
	t.Parallel()
	f := newForger(t)
	kinds := []struct {
		name  string
		forge func() finding
	}{
		{"edited", f.edited},
		{"omitted", f.omitted},
		{"doubled", f.doubled},
		{"swapped", f.swapped},
		{"reordered", f.reordered},
		{"rewritten", f.rewritten},
		{"moved", f.moved},
		{"added", f.added},
		{"edited log", f.editedLog},
		{"omitted log", f.omittedLog},
		{"reordered log", f.reorderedLog},
		{"rewritten with log", f.rewrittenWithLog},
		{"old checkpoint", f.oldCheckpoint},
		{"other key", f.otherKey},
	}
	counts := map[string]int{}
	for n := range *forgeryCount {
		kind := kinds[f.random.IntN(len(kinds))]
		f.secret = []string{"", testSecret}[f.random.IntN(2)]
		want := kind.forge()
		if ends, err := f.check(); !want.describes(ends, err) {
			t.Fatalf("forgery %d, %s: want %+v, got %v, %v", n, kind.name, want, ends, err)
		}
		clear(f.blobs.changed)
		if len(want.errs) == 0 {
			counts[kind.name+", reported"]++
		} else {
			counts[kind.name+", refused"]++
		}
	}
	t.Logf("found: %v", counts)
	if ends, err := f.check(); err != nil {
		t.Errorf("after all: %v, %v", ends, err)
	}
}
