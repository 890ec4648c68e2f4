package archive

import (
	"bytes"
	"context"
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
	"quire.dev/pkg/tilelog"
)

const drawnForgeries = 2000

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

// forger forges an archive. Each forgery returns texts, of which what a check says has one.
type forger struct {
	t        *testing.T
	random   *rand.Rand
	blobs    *forged
	secret   string              // that the reader has
	segments [][]segment.Segment // by partition
	entries  []string            // bundles of the log
	older    []byte              // an earlier checkpoint
}

func newForger(t *testing.T) *forger {
	t.Helper()
	f := &forger{t: t, random: seeded(t)}
	s := newArchive(t, f.random)
	f.older = get(t, s.blobs, proof.LogCheckpoint)
	for p := range partitions {
		for range 2 + f.random.IntN(20) {
			s.publish(p)
		}
	}
	s.must(s.service(s.blobs))
	f.blobs = &forged{Store: s.blobs, changed: map[string][]byte{}, got: map[string]bool{}}
	if report, err := f.check(); err != nil || strings.Contains(report, "Lost") || strings.Contains(report, "Not in") {
		t.Fatalf("before any forgery: %v, %s", err, report)
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

// check returns what a check says.
func (f *forger) check() (report string, err error) {
	_, ends, err := checkArchived(f.t.Context(), f.blobs, f.secret)
	if err != nil {
		return err.Error(), err
	}
	return fmt.Sprint(ends), nil
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

// flip changes a bit of a blob.
func (f *forger) flip(key string) []string {
	data := slices.Clone(get(f.t, f.blobs, key))
	data[f.random.IntN(len(data))] ^= 1 << f.random.IntN(8)
	put(f.t, f.blobs, key, data)
	return []string{key}
}

// edited: a bit of a segment.
func (f *forger) edited() []string { return f.flip(f.segment()[0].Key) }

// editedLog: a bit of the log's entries.
func (f *forger) editedLog() []string {
	f.flip(f.entries[f.random.IntN(len(f.entries))])
	return []string{"entry ", "tile/entries/"}
}

func (f *forger) omitted() []string {
	rest := f.segment()
	remove(f.t, f.blobs, rest[0].Key)
	if len(rest) == 1 {
		return []string{fmt.Sprintf("Lost: %d to %d", rest[0].First, rest[0].Last)}
	}
	return []string{(&segment.GapError{Stream: rest[0].Stream, First: rest[0].First, Last: rest[0].Last}).Error()}
}

// rename gives a segment the place from first to last in a journal.
func (f *forger) rename(of segment.Segment, stream string, first, last uint64) string {
	key := fmt.Sprintf("%s%020d-%020d-%x.seg", segment.Prefix(stream), first, last, of.Hash)
	put(f.t, f.blobs, key, get(f.t, f.blobs, of.Key))
	return key
}

// doubled: a segment is there again, for more messages.
func (f *forger) doubled() []string {
	of := f.segment()[0]
	return []string{f.rename(of, of.Stream, of.First, of.Last+1+f.random.Uint64N(5))}
}

// swapped: two segments of any journals.
func (f *forger) swapped() []string {
	one, other := f.segment()[0], f.segment()[0]
	for one.Key == other.Key {
		other = f.segment()[0]
	}
	keys := []string{f.rename(one, other.Stream, other.First, other.Last), f.rename(other, one.Stream, one.First, one.Last)}
	remove(f.t, f.blobs, one.Key)
	remove(f.t, f.blobs, other.Key)
	return keys
}

// remade: a segment is written anew with messages that are changed, and right checksums; half of the time all later ones too, with
// right chains.
func (f *forger) remade(rest []segment.Segment, changed ...segment.Message) []string {
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
	return []string{key}
}

// reordered: two messages of a segment.
func (f *forger) reordered() []string {
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

func (f *forger) rewritten() []string {
	rest := f.segment()
	_, m := f.rewrite(rest[0])
	return f.remade(rest, m)
}

// moved: a message gets another subject.
func (f *forger) moved() []string {
	rest := f.segment()
	m, _ := f.rewrite(rest[0])
	subjects := event.Billing.Subjects(0)
	m.Subject = subjects[1+f.random.IntN(len(subjects)-1)]
	return f.remade(rest, m)
}

// rewrittenWithLog: a message, and its entry of the log.
func (f *forger) rewrittenWithLog() []string {
	rest := f.segment()
	partition := slices.IndexFunc(f.segments, func(list []segment.Segment) bool { return list[0].Stream == rest[0].Stream })
	was, is := f.rewrite(rest[0])
	f.remade(rest, is)
	entry := func(m segment.Message) []byte {
		return proof.Digest(partition, m.Sequence, time.Unix(0, m.TimeNanos), m.Subject, m.Data).Encode()
	}
	changed := 0
	for _, key := range f.entries {
		data := get(f.t, f.blobs, key)
		if bytes.Contains(data, entry(was)) {
			changed++
			put(f.t, f.blobs, key, bytes.Replace(data, entry(was), entry(is), 1))
		}
	}
	if changed != 1 {
		f.t.Fatalf("message %d of %s is in %d bundles of the log", was.Sequence, rest[0].Stream, changed)
	}
	return []string{"is another one"}
}

// added: a message after the last one.
func (f *forger) added() []string {
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
	return []string{"Not in the log: the last 1,"}
}

// oldCheckpoint: the log ends earlier.
func (f *forger) oldCheckpoint() []string {
	put(f.t, f.blobs, proof.LogCheckpoint, f.older)
	return []string{"Not in the log: the last ", "tile/entries/"}
}

// otherKey: the log is signed anew, and half of the time its key is replaced too, which only a reader with the secret can know.
func (f *forger) otherKey() []string {
	f.secret = ""
	key, err := deriveKey(fmt.Sprintf("another secret of the log's key %d", f.random.Uint64()), "test")
	if err != nil {
		f.t.Fatal(err)
	}
	signer, err := deriveKey(testSecret, "test")
	if err != nil {
		f.t.Fatal(err)
	}
	tree, err := tilelog.Parse(get(f.t, f.blobs, proof.LogCheckpoint), signer.verifier)
	if err != nil {
		f.t.Fatal(err)
	}
	checkpoint, err := tilelog.Sign(tree, key)
	if err != nil {
		f.t.Fatal(err)
	}
	put(f.t, f.blobs, proof.LogCheckpoint, checkpoint)
	if f.random.IntN(2) == 0 {
		f.secret = testSecret
		put(f.t, f.blobs, proof.LogKey, []byte(key.public+"\n"))
	}
	return []string{proof.LogCheckpoint}
}

// TestEveryForgeryIsFoundWithItsPlace: what was forged is named, by the segment, the messages, or the log's entry.
func TestEveryForgeryIsFoundWithItsPlace(t *testing.T) {
	t.Parallel()
	f := newForger(t)
	kinds := []struct {
		name  string
		forge func() []string
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
		{"rewritten with log", f.rewrittenWithLog},
		{"old checkpoint", f.oldCheckpoint},
		{"other key", f.otherKey},
	}
	counts := map[string]int{}
	for n := range drawnForgeries {
		kind := kinds[f.random.IntN(len(kinds))]
		f.secret = []string{"", testSecret}[f.random.IntN(2)]
		says := kind.forge()
		report, _ := f.check()
		if !slices.ContainsFunc(says, func(text string) bool { return strings.Contains(report, text) }) {
			t.Fatalf("forgery %d, %s: want one of %q, got %s", n, kind.name, says, report)
		}
		clear(f.blobs.changed)
		counts[kind.name]++
	}
	t.Logf("found: %v", counts)
	if report, err := f.check(); err != nil {
		t.Errorf("after all: %s", report)
	}
}
