package tilelog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"quire.dev/pkg/blob"
)

// Reader reads a log. Safe for concurrent use.
type Reader struct {
	blobs  blob.Store
	prefix string
}

// NewReader returns a Reader of the log after a prefix.
func NewReader(blobs blob.Store, prefix string) *Reader { return &Reader{blobs, prefix} }

// ProveConsistency proves that the tree has the first size entries of the log unchanged. The tiles are checked against the tree.
func (r *Reader) ProveConsistency(ctx context.Context, size int64, tree tlog.Tree) (tlog.TreeProof, error) {
	proof, err := tlog.ProveTree(tree.N, size, r.hashes(ctx, tree))
	return proof, explain("prove consistency", err)
}

// ProveInclusion proves that the entry at an index is in the tree. The tiles are checked against the tree.
func (r *Reader) ProveInclusion(ctx context.Context, index int64, tree tlog.Tree) (tlog.RecordProof, error) {
	proof, err := tlog.ProveRecord(tree.N, index, r.hashes(ctx, tree))
	return proof, explain("prove inclusion", err)
}

// RootAt returns the root that the log had at a size. The tiles are checked against the tree, which has that size at least.
func (r *Reader) RootAt(ctx context.Context, size int64, tree tlog.Tree) (tlog.Hash, error) {
	hash, err := tlog.TreeHash(size, r.hashes(ctx, tree))
	return hash, explain("compute an earlier root", err)
}

func explain(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (r *Reader) hashes(ctx context.Context, tree tlog.Tree) tlog.HashReader {
	return tlog.TileHashReader(tree, &tileReader{r, ctx})
}

// Entries calls visit with the entries from index first to before end of the log with that size, in order. Entries are not checked
// against a tree: compare tlog.RecordHash. visit may keep the entry.
func (r *Reader) Entries(ctx context.Context, first, end, size int64, visit func(index int64, entry []byte) error) error {
	if first < 0 || end < first || size < end {
		return fmt.Errorf("entries %d to %d of a log of %d", first, end, size)
	}
	for index := first; index < end; {
		tile := index / tileWidth
		entries, err := r.bundle(ctx, tile, int(min(size-tile*tileWidth, tileWidth)))
		if err != nil {
			return err
		}
		for ; index < end && index/tileWidth == tile; index++ {
			if err := visit(index, entries[index%tileWidth]); err != nil {
				return err
			}
		}
	}
	return nil
}

// All calls visit with every entry of a tree, in order. Once it returns nil, they were the entries of the tree; ErrDamaged if they
// are not. visit may keep the entry.
func (r *Reader) All(ctx context.Context, tree tlog.Tree, visit func(index int64, entry []byte) error) error {
	var complete []tlog.Hash // roots of complete subtrees, from the largest to the smallest
	err := r.Entries(ctx, 0, tree.N, tree.N, func(index int64, entry []byte) error {
		hash := tlog.RecordHash(entry)
		for n := index; n&1 == 1; n >>= 1 {
			hash = tlog.NodeHash(complete[len(complete)-1], hash)
			complete = complete[:len(complete)-1]
		}
		complete = append(complete, hash)
		return visit(index, entry)
	})
	if err != nil || tree.N == 0 {
		return err
	}
	root := complete[len(complete)-1]
	for i := len(complete) - 2; i >= 0; i-- {
		root = tlog.NodeHash(complete[i], root)
	}
	if root != tree.Hash {
		return r.locate(ctx, tree)
	}
	return nil
}

// locate returns ErrDamaged with the first entry that is not the tree's, or with the tile that does not tell.
func (r *Reader) locate(ctx context.Context, tree tlog.Tree) error {
	hashes := r.hashes(ctx, tree)
	for first := int64(0); first < tree.N; first += tileWidth {
		end := min(first+tileWidth, tree.N)
		var stored []int64
		for index := first; index < end; index++ {
			stored = append(stored, tlog.StoredHashIndex(0, index))
		}
		want, err := hashes.ReadHashes(stored)
		if err != nil {
			return fmt.Errorf("%w: its %d entries have another root, and its tiles too: %w", ErrDamaged, tree.N, err)
		}
		err = r.Entries(ctx, first, end, tree.N, func(index int64, entry []byte) error {
			if tlog.RecordHash(entry) != want[index-first] {
				return fmt.Errorf("%w: entry %d is another one", ErrDamaged, index)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: its entries have changed while they were read", ErrDamaged)
}

// IsTile reports whether path names a tile or a bundle of entries, after the prefix of its log.
func IsTile(path string) bool {
	rest, found := strings.CutPrefix(path, "tile/")
	if entries, ok := strings.CutPrefix(rest, "entries/"); ok {
		rest = "data/" + entries
	} else if strings.HasPrefix(rest, "data/") {
		return false
	}
	tile, err := tlog.ParseTilePath(fmt.Sprintf("tile/%d/%s", tileHeight, rest))
	return found && err == nil && tilePath(tile.L, tile.N, tile.W) == path
}

// bundle reads the first width entries of a bundle.
func (r *Reader) bundle(ctx context.Context, index int64, width int) ([][]byte, error) {
	data, err := r.read(ctx, entriesLevel, index, width, tileWidth*(2+MaxEntry))
	if err != nil {
		return nil, err
	}
	entries := make([][]byte, 0, width)
	for range width {
		if len(data) < 2 || len(data) < 2+int(binary.BigEndian.Uint16(data)) {
			return nil, fmt.Errorf("%w: %s ends early", ErrDamaged, tilePath(entriesLevel, index, width))
		}
		length := int(binary.BigEndian.Uint16(data))
		entries, data = append(entries, data[2:2+length]), data[2+length:]
	}
	return entries, nil
}

// tile reads the hashes of a tile.
func (r *Reader) tile(ctx context.Context, t tlog.Tile) ([]byte, error) {
	data, err := r.read(ctx, t.L, t.N, t.W, tileWidth*tlog.HashSize)
	if err != nil {
		return nil, err
	}
	if len(data) < t.W*tlog.HashSize {
		return nil, fmt.Errorf("%w: %s has %d bytes", ErrDamaged, tilePath(t.L, t.N, t.W), len(data))
	}
	return data[:t.W*tlog.HashSize], nil
}

// read reads a blob of at most limit bytes. Once a tile is full, those with fewer hashes may be gone.
func (r *Reader) read(ctx context.Context, level int, index int64, width, limit int) ([]byte, error) {
	path := tilePath(level, index, width)
	data, err := blob.Read(ctx, r.blobs, r.prefix+path, int64(limit))
	if errors.Is(err, blob.ErrNotFound) && width < tileWidth {
		path = tilePath(level, index, tileWidth)
		data, err = blob.Read(ctx, r.blobs, r.prefix+path, int64(limit))
	}
	if errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrTooLarge) {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return data, err
}

// tileReader is a Reader during one call.
type tileReader struct {
	*Reader
	ctx context.Context
}

// Height implements tlog.TileReader.
func (r *tileReader) Height() int { return tileHeight }

// SaveTiles implements tlog.TileReader.
func (r *tileReader) SaveTiles([]tlog.Tile, [][]byte) {}

// ReadTiles implements tlog.TileReader.
func (r *tileReader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	data := make([][]byte, len(tiles))
	for i, t := range tiles {
		var err error
		if data[i], err = r.tile(r.ctx, t); err != nil {
			return nil, err
		}
	}
	return data, nil
}
