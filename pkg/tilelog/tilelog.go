// Package tilelog keeps an append-only Merkle log in a blob store, in the public formats of C2SP: tlog-tiles for its hashes and
// entries, and tlog-checkpoint for what is signed. Anyone can read such a log with the tools of transparency logs.
//
// The tree is an RFC 6962 Merkle tree with SHA-256. Tiles have 256 hashes. Blobs are named as in tlog-tiles, after a prefix:
// <prefix>tile/<level>/<index> and <prefix>tile/entries/<index>, both with .p/<width> while the tile is partial.
package tilelog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/num"
)

const (
	// MaxEntry bounds an entry, whose length has two bytes.
	MaxEntry = 1<<16 - 1

	tileHeight = 8
	tileWidth  = 1 << tileHeight
	// puts bounds how many blobs are written at a time.
	puts = 8
)

// Errors to branch on with errors.Is.
var (
	// ErrDamaged: tiles are missing, or do not match the tree.
	ErrDamaged = errors.New("log is damaged")
	// ErrTooLarge: an entry exceeds MaxEntry.
	ErrTooLarge = errors.New("log entry is too large")
)

// Log appends to a log. Two logs that append the same entries write the same blobs, so more than one process may, as long as all
// agree on the entries. Not safe for concurrent use. After an error of Append or Sync it must be opened again.
type Log struct {
	blobs  blob.Store
	prefix string

	size   int64
	edges  []edge // by level, from the leaves up
	bundle []byte // encoded entries of the leaves' edge

	pending *errgroup.Group // writes full tiles; nil: none
	working context.Context // of pending
	cancel  context.CancelFunc
}

// edge is the tile of one level that is not full yet.
type edge struct {
	hashes   []tlog.Hash
	partials []int // widths at which it was written
	opened   bool  // whether it may have been written at any width before
}

// Open opens the log at a tree that was synced before, or an empty one. ErrDamaged if the blobs do not have this tree.
func Open(ctx context.Context, blobs blob.Store, prefix string, tree tlog.Tree) (*Log, error) {
	l := &Log{blobs: blobs, prefix: prefix, size: tree.N}
	if tree.N == 0 {
		return l, nil
	}
	reader := NewReader(blobs, prefix)
	for level := 0; tree.N>>(tileHeight*level) > 0; level++ {
		e := edge{opened: true}
		if width := int(tree.N >> (tileHeight * level) % tileWidth); width > 0 {
			data, err := reader.tile(ctx, tlog.Tile{H: tileHeight, L: level, N: tree.N >> (tileHeight * (level + 1)), W: width})
			if err != nil {
				return nil, err
			}
			for i := range width {
				e.hashes = append(e.hashes, tlog.Hash(data[i*tlog.HashSize:]))
			}
		}
		l.edges = append(l.edges, e)
	}
	if got := l.Tree(); got.Hash != tree.Hash {
		return nil, fmt.Errorf("%w: at size %d its root is %s, not %s", ErrDamaged, tree.N, got.Hash, tree.Hash)
	}
	if width := int(tree.N % tileWidth); width > 0 {
		entries, err := reader.bundle(ctx, tree.N/tileWidth, width)
		if err != nil {
			return nil, err
		}
		for i, entry := range entries {
			if tlog.RecordHash(entry) != l.edges[0].hashes[i] {
				return nil, fmt.Errorf("%w: entry %d is another one", ErrDamaged, tree.N-int64(width-i))
			}
			l.bundle = appendEntry(l.bundle, entry)
		}
	}
	return l, nil
}

func appendEntry(bundle, entry []byte) []byte {
	return append(binary.BigEndian.AppendUint16(bundle, num.Uint16(len(entry))), entry...)
}

// Tree returns the size and the root with all appended entries. A log without entries has the hash of nothing as its root.
func (l *Log) Tree() tlog.Tree {
	var root *tlog.Hash
	for _, e := range l.edges {
		root = above(e.hashes, root)
	}
	if root == nil {
		empty, err := tlog.TreeHash(0, nil)
		if err != nil {
			panic(err) // it reads no hash
		}
		root = &empty
	}
	return tlog.Tree{N: l.size, Hash: *root}
}

// above returns the hash over complete subtrees of one height, and what is right of them; nil: nothing is.
func above(left []tlog.Hash, right *tlog.Hash) *tlog.Hash {
	for width := 1; len(left) > 0; width *= 2 {
		if len(left)&width == 0 {
			continue
		}
		hash := complete(left[len(left)-width:])
		left = left[:len(left)-width]
		if right != nil {
			hash = tlog.NodeHash(hash, *right)
		}
		right = &hash
	}
	return right
}

// complete returns the hash over a power of two of hashes.
func complete(hashes []tlog.Hash) tlog.Hash {
	if len(hashes) == 1 {
		return hashes[0]
	}
	half := len(hashes) / 2
	return tlog.NodeHash(complete(hashes[:half]), complete(hashes[half:]))
}

// Append appends an entry. Tiles that get full are written while later entries are appended; Sync waits for them.
func (l *Log) Append(ctx context.Context, entry []byte) error {
	if len(entry) > MaxEntry {
		return fmt.Errorf("%w: %d bytes, at most %d allowed", ErrTooLarge, len(entry), MaxEntry)
	}
	l.bundle = appendEntry(l.bundle, entry)
	hash := tlog.RecordHash(entry)
	l.size++
	for level := 0; ; level++ {
		if level == len(l.edges) {
			l.edges = append(l.edges, edge{})
		}
		e := &l.edges[level]
		e.hashes = append(e.hashes, hash)
		if len(e.hashes) < tileWidth {
			return nil
		}
		hash = complete(e.hashes)
		l.writeFull(ctx, level)
		*e = edge{}
	}
}

// writeFull starts to write the tile of a level that is full now, and at level 0 its entries, and to delete what it was before.
func (l *Log) writeFull(ctx context.Context, level int) {
	if l.pending == nil {
		ctx, l.cancel = context.WithCancel(ctx)
		l.pending, l.working = errgroup.WithContext(ctx)
		l.pending.SetLimit(puts)
	}
	e, index := l.edges[level], l.size>>(tileHeight*(level+1))-1
	widths := e.partials
	if e.opened {
		widths = widths[:0]
		for width := 1; width < tileWidth; width++ {
			widths = append(widths, width)
		}
	}
	write := func(level int, data []byte) {
		working := l.working
		l.pending.Go(func() error {
			if err := l.put(working, tilePath(level, index, tileWidth), data); err != nil {
				return err
			}
			for _, width := range widths {
				if err := l.blobs.Delete(working, l.prefix+tilePath(level, index, width)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	write(level, join(e.hashes))
	if level == 0 {
		write(entriesLevel, l.bundle)
		l.bundle = nil
	}
}

// Sync returns once all entries are durable in the store, and the tree can be read. The last tile of each level is written with
// the width that it has.
func (l *Log) Sync(ctx context.Context) (tlog.Tree, error) {
	if l.pending != nil {
		err := l.pending.Wait()
		l.cancel()
		l.pending = nil
		if err != nil {
			return tlog.Tree{}, fmt.Errorf("write the log: %w", err)
		}
	}
	for level := range l.edges {
		e, index := &l.edges[level], l.size>>(tileHeight*(level+1))
		width := len(e.hashes)
		if width == 0 || len(e.partials) > 0 && e.partials[len(e.partials)-1] == width {
			continue
		}
		if err := l.put(ctx, tilePath(level, index, width), join(e.hashes)); err != nil {
			return tlog.Tree{}, err
		}
		if level == 0 {
			if err := l.put(ctx, tilePath(entriesLevel, index, width), l.bundle); err != nil {
				return tlog.Tree{}, err
			}
		}
		e.partials = append(e.partials, width)
	}
	return l.Tree(), nil
}

// Close ends writes that no Sync has waited for. The log is not used afterwards.
func (l *Log) Close() {
	if l.pending != nil {
		l.cancel()
		_ = l.pending.Wait() // what they wrote is right, or is written again
		l.pending = nil
	}
}

func (l *Log) put(ctx context.Context, path string, data []byte) error {
	if _, err := l.blobs.Put(ctx, l.prefix+path, bytes.NewReader(data), int64(len(data))); err != nil {
		return fmt.Errorf("write the log's %s: %w", path, err)
	}
	return nil
}

func join(hashes []tlog.Hash) []byte {
	data := make([]byte, 0, len(hashes)*tlog.HashSize)
	for _, hash := range hashes {
		data = append(data, hash[:]...)
	}
	return data
}

// entriesLevel is the level that tlog gives to bundles of entries.
const entriesLevel = -1

// tilePath returns the path of a tile in tlog-tiles, which has one height and so does not name it, as tlog does.
func tilePath(level int, index int64, width int) string {
	path := tlog.Tile{H: tileHeight, L: level, N: index, W: width}.Path()
	path = strings.TrimPrefix(path, fmt.Sprintf("tile/%d/", tileHeight))
	if level == entriesLevel {
		path = "entries" + strings.TrimPrefix(path, "data")
	}
	return "tile/" + path
}
