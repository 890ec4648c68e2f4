package tilelog

import (
	"errors"
	"fmt"

	"github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"quire.dev/pkg/num"
)

// MaxCheckpoint bounds a checkpoint, with the signatures of its witnesses.
const MaxCheckpoint = 64 << 10

// maxSize bounds the size of a log: package tlog does not end with larger ones.
const maxSize = 1 << 62

// ErrCheckpoint: a checkpoint is not one of the log, or its signature is wrong.
var ErrCheckpoint = errors.New("not a checkpoint of this log")

// Sign returns the checkpoint of a tree. The name of the key is the log's origin.
func Sign(tree tlog.Tree, key note.Signer) ([]byte, error) {
	text := log.Checkpoint{Origin: key.Name(), Size: num.Uint64(tree.N), Hash: tree.Hash[:]}.Marshal()
	data, err := note.Sign(&note.Note{Text: string(text)}, key)
	if err != nil {
		return nil, fmt.Errorf("sign a checkpoint: %w", err)
	}
	return data, nil
}

// Parse returns the tree of a checkpoint that is signed with the log's key. Other signatures are not looked at.
func Parse(checkpoint []byte, key note.Verifier) (tlog.Tree, error) {
	if len(checkpoint) > MaxCheckpoint {
		return tlog.Tree{}, fmt.Errorf("%w: it has %d bytes", ErrCheckpoint, len(checkpoint))
	}
	c, _, _, err := log.ParseCheckpoint(checkpoint, key.Name(), key)
	if err != nil {
		return tlog.Tree{}, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	if len(c.Hash) != tlog.HashSize || c.Size > maxSize {
		return tlog.Tree{}, fmt.Errorf("%w: its root or size is invalid", ErrCheckpoint)
	}
	return tlog.Tree{N: int64(c.Size), Hash: tlog.Hash(c.Hash)}, nil
}
