package segment

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"quire.dev/pkg/blob"
)

// one is a store with one blob.
type one struct {
	blob.Store
	key  string
	blob []byte
}

func (o *one) Put(_ context.Context, key string, r io.Reader, _ int64) (info blob.Info, err error) {
	o.key = key
	o.blob, err = io.ReadAll(r)
	return blob.Info{Key: key, Size: int64(len(o.blob))}, err
}

func (o *one) Get(_ context.Context, key string, offset, length int64) (io.ReadCloser, blob.Info, error) {
	part := o.blob[min(offset, int64(len(o.blob))):]
	if length >= 0 {
		part = part[:min(length, int64(len(part)))]
	}
	return io.NopCloser(bytes.NewReader(part)), blob.Info{Key: key, Size: int64(len(o.blob))}, nil
}

func (o *one) Sweep(_ context.Context, _ string, _ time.Time, visit func(blob.Info) error) error {
	return visit(blob.Info{Key: o.key, Size: int64(len(o.blob))})
}

func testChain(before Hash, m Message) Hash {
	return sha256.Sum256(appendRecord(before[:], m))
}

func testMentions(m Message, found *Mentions) {
	found.Accounts = append(found.Accounts, m.Sequence, 7)
	found.Networks = append(found.Networks, m.Sequence%3)
	found.Request(m.TimeNanos / 1e6)
}

// written returns an archive with one segment of a few frames.
func written(t testing.TB) (*Archive, *one, Segment) {
	t.Helper()
	store := &one{}
	a, err := New(store, Options{Installation: "i", Chain: testChain, Mentions: testMentions, Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	a.Small(100, 1<<20)
	w, err := a.Create("S", 3, Hash{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i := uint64(1); i <= 12; i++ {
		if err := w.Add(Message{Sequence: i, TimeNanos: int64(i) * 1e9, Subject: "s", Data: []byte("abcdefghij")}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := w.Put(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return a, store, s
}

func compress(t testing.TB, b []byte) []byte {
	t.Helper()
	e, err := zstd.NewWriter(nil, zstd.WithSingleSegment(true), zstd.WithEncoderCRC(true))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	return e.EncodeAll(b, nil)
}

// forge stores a changed segment whose hashes are right.
func forge(t *testing.T, a *Archive, store *one, s Segment, change func(o *opened, frames [][]byte) [][]byte) Segment {
	t.Helper()
	o, err := a.openIndex(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var frames [][]byte
	for _, f := range o.index.frames {
		frames = append(frames, store.blob[f.offset:f.offset+int64(f.stored)])
	}
	out := bytes.Join(change(o, frames), nil)
	o.framesBytes, o.trailer.frames = int64(len(out)), sha256.Sum256(out)
	encoded := appendIndex(nil, &o.index, &o.trailer)
	stored := compress(t, encoded)
	o.indexBytes, o.indexLength, o.trailer.index = uint32(len(stored)), uint32(len(encoded)), sha256.Sum256(stored)
	out = append(append(out, o.skippableHead()...), stored...)
	store.blob = o.trailer.append(out)
	s.First, s.Last, s.Start, s.Size, s.Hash = o.first, o.last, o.first, int64(len(store.blob)), sha256.Sum256(store.blob)
	s.Key = s.key()
	store.key = s.key()
	return s
}

// TestAForgedSegmentIsFoundByItsChain: its hashes are right, but its messages are not those of the chain.
func TestAForgedSegmentIsFoundByItsChain(t *testing.T) {
	for name, change := range map[string]func(o *opened, frames [][]byte) [][]byte{
		"two frames swapped": func(_ *opened, f [][]byte) [][]byte {
			f[1], f[2] = f[2], f[1]
			return f
		},
		"two frames swapped, and their entries": func(o *opened, f [][]byte) [][]byte {
			f[1], f[2] = f[2], f[1]
			o.index.frames[1], o.index.frames[2] = o.index.frames[2], o.index.frames[1]
			return f
		},
		"a frame dropped": func(_ *opened, f [][]byte) [][]byte { return slices.Delete(f, 1, 2) },
		"a frame dropped, and its entry": func(o *opened, f [][]byte) [][]byte {
			o.index.frames = slices.Delete(o.index.frames, 1, 2)
			return slices.Delete(f, 1, 2)
		},
		"the last frame dropped, and its entry": func(o *opened, f [][]byte) [][]byte {
			n := len(f) - 1
			o.last = o.index.frames[n-1].last
			o.messages = o.last - o.first + 1
			o.index.frames = o.index.frames[:n]
			return f[:n]
		},
		"another message": func(o *opened, f [][]byte) [][]byte {
			records, err := o.archive.decompress(f[1], int(o.index.frames[1].length), nil)
			if err != nil {
				t.Fatal(err)
			}
			records[len(records)-1]++
			f[1] = compress(t, records)
			o.index.frames[1].stored = uint32(len(f[1]))
			return f
		},
		"another end of the chain":      func(o *opened, f [][]byte) [][]byte { o.after[0]++; return f },
		"other times":                   func(o *opened, f [][]byte) [][]byte { o.index.frames[1].latest++; return f },
		"a frame twice in a frame":      func(_ *opened, f [][]byte) [][]byte { f[1] = append(bytes.Clone(f[1]), f[1]...); return f },
		"an account less in a frame":    func(o *opened, f [][]byte) [][]byte { o.index.frames[1].accounts = []byte{0}; return f },
		"a request's time is forgotten": func(o *opened, f [][]byte) [][]byte { o.index.frames[1].requests = span{}; return f },
	} {
		a, store, s := written(t)
		s = forge(t, a, store, s, change)
		_, err := a.Verify(t.Context(), s)
		var damage *DamageError
		if !errors.As(err, &damage) || damage.Segment != s.Key {
			t.Errorf("%s: %v", name, err)
		}
	}
	a, store, s := written(t)
	s = forge(t, a, store, s, func(_ *opened, f [][]byte) [][]byte { return f })
	if _, err := a.Verify(t.Context(), s); err != nil {
		t.Errorf("nothing changed: %v", err)
	}
}

// TestAnotherFormatIsNoDamage: a later program has written it.
func TestAnotherFormatIsNoDamage(t *testing.T) {
	a, store, s := written(t)
	b := store.blob[len(store.blob)-trailerBytes:]
	binary.BigEndian.PutUint32(b[240:], 2)
	sum := sha256.Sum256(b[sha256.Size:])
	copy(b, sum[:])
	if _, err := a.Describe(t.Context(), s); !errors.Is(err, ErrFormat) || errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

// TestAHostileIndexAllocatesLittle: counts are compared with the bytes that are there.
func TestAHostileIndexAllocatesLittle(t *testing.T) {
	head := []byte{1, 'i', 1, 'S'}
	huge := binary.AppendUvarint(nil, math.MaxUint64)
	many := binary.AppendUvarint(nil, maxPrincipals)
	entry := func(values ...uint64) (b []byte) {
		for _, v := range values {
			b = binary.AppendUvarint(b, v)
		}
		return append(b, make([]byte, 34)...) // chain, and no accounts and networks
	}
	frame := trailer{first: 1, last: 9, messages: 9, framesBytes: 1 << 20}
	for name, b := range map[string][]byte{
		"empty":              nil,
		"a long name":        append(huge, "x"...),
		"all accounts":       append(bytes.Clone(head), huge...),
		"many accounts":      append(bytes.Clone(head), many...),
		"all networks":       append(append(bytes.Clone(head), 0), huge...),
		"all frames":         append(append(bytes.Clone(head), 0, 0), huge...),
		"many frames":        append(append(bytes.Clone(head), 0, 0), binary.AppendUvarint(nil, maxFrames)...),
		"an id overflows":    append(append(bytes.Clone(head), 2), append(huge, 1, 0, 0)...),
		"a large frame":      append(append(bytes.Clone(head), 0, 0, 1), entry(1<<20, maxRecordBytes+1, 8, 0, 0, 0, 0)...),
		"a large stored one": append(append(bytes.Clone(head), 0, 0, 1), entry(1<<32-1, 100, 8, 0, 0, 0, 0)...),
		"too many messages":  append(append(bytes.Clone(head), 0, 0, 1), entry(1<<20, 100, 9, 0, 0, 0, 0)...),
		"no end of a varint": bytes.Repeat([]byte{0xff}, 100),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := parseIndex(b, &frame)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%s: %d bytes are allocated", name, n)
		}
	}
	good := append(append(bytes.Clone(head), 0, 0, 1), entry(1<<20, 100, 8, 0, 0, 0, 0)...)
	if _, err := parseIndex(good, &frame); err != nil {
		t.Errorf("the one that the others differ from: %v", err)
	}
}

// TestABombIsNotDecompressed: neither one that says how large it is, nor one that says less.
func TestABombIsNotDecompressed(t *testing.T) {
	a, _, _ := written(t)
	bomb := compress(t, make([]byte, 64<<20))
	lies := bytes.Clone(bomb)
	binary.LittleEndian.PutUint32(lies[5:], 1000) // content size, after magic and descriptor
	twice := append(compress(t, make([]byte, 1000)), bomb...)
	for name, b := range map[string][]byte{"a bomb": bomb, "one that lies": lies, "a second frame": twice} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := a.decompress(b, 1000, nil)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
			t.Errorf("%s: %d bytes are allocated", name, n)
		}
	}
}

// TestTheCacheOfTrailersIsBounded.
func TestTheCacheOfTrailersIsBounded(t *testing.T) {
	var c trailers
	for i := range uint64(2 * maxTrailers) {
		s := Segment{Stream: "S", First: i + 1, Last: i + 1}
		c.put(s.key(), trailer{})
	}
	if len(c.byKey) > maxTrailers {
		t.Errorf("%d are kept", len(c.byKey))
	}
}

// FuzzIndex: an index that is accepted stays itself when it is encoded again.
func FuzzIndex(f *testing.F) {
	a, store, s := written(f)
	o, err := a.openIndex(f.Context(), s)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(o.encoded, store.blob[len(store.blob)-trailerBytes:], s.Size)
	f.Fuzz(func(t *testing.T, encoded, tail []byte, size int64) {
		trailer := o.trailer
		if parsed, err := parseTrailer(tail, size); err == nil {
			trailer = parsed
		}
		x, err := parseIndex(encoded, &trailer)
		if err != nil {
			return
		}
		again, err := parseIndex(appendIndex(nil, x, &trailer), &trailer)
		if err != nil || len(again.frames) != len(x.frames) {
			t.Fatalf("encoded again: %v", err)
		}
		for i, f := range x.frames {
			for _, id := range []uint64{0, 1, 7, math.MaxUint64} {
				if mentions(x.accounts, f.accounts, id) != mentions(again.accounts, again.frames[i].accounts, id) {
					t.Fatalf("account %d of frame %d", id, i)
				}
			}
		}
	})
}

// FuzzFrame: whatever a frame has, its reader returns an error or messages that follow each other, and never panics.
func FuzzFrame(f *testing.F) {
	a, store, s := written(f)
	o, err := a.openIndex(f.Context(), s)
	if err != nil {
		f.Fatal(err)
	}
	entry := o.index.frames[0]
	records, err := a.decompress(store.blob[:entry.stored], int(entry.length), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(store.blob[:entry.stored], entry.length)
	f.Add(records, entry.length)
	f.Fuzz(func(t *testing.T, data []byte, length uint32) {
		out, err := a.decompress(data, int(length%maxRecordBytes), nil)
		if err != nil {
			out = data
		}
		c := checker{chain: testChain}
		if c.check(&entry, o.chainAfter(0), out) != nil {
			return
		}
		if !bytes.Equal(out, records) {
			t.Fatal("other records have the same chain")
		}
	})
}
