package natsfiles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"quire.dev/pkg/wait"
)

// left is a block that Check has left to CheckRest, with its description in the index.
type left struct {
	stream string
	blockFile
	span span
}

// Left is the number of blocks left to CheckRest.
func (r *Report) Left() int { return len(r.rest) }

// Replace replaces the content of a file, or creates the file. Once it returns nil the content is on the disk.
type Replace func(file string, data []byte) error

// RenewIndexes replaces outdated indexes by ones brought up to the last record. The server must not run. If this fails, the
// server must not be started: it would read the unchecked blocks and truncate damaged ones.
func (r *Report) RenewIndexes(replace Replace) error {
	for _, x := range r.indexes {
		if err := replace(x.file, x.data); err != nil {
			return fmt.Errorf("renew the index of a journal: %w", err)
		}
	}
	return nil
}

// DropIndexes removes all indexes, so that the server reads all blocks when it starts. The server must not run. It is needed
// for files that a server has used while one was damaged: the index omits what was truncated, even after the file was restored.
func (r *Report) DropIndexes() error {
	for _, p := range r.plans {
		if err := os.Remove(p.indexFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("drop the index of a journal: %w", err)
		}
	}
	return nil
}

const (
	rereads      = 10                     // of a block that the server rewrites or deletes
	deletionWait = 100 * time.Millisecond // between two of them
)

// CheckRest reads the blocks left by Check while the server works, for half of the time at most. The server never appends to
// them. A purge may remove or rewrite them if the stream does not keep every message. It returns nil if ctx ends first. It
// is called once.
//
// If the server reads a damaged block first, it truncates it. CheckRest detects that too, since the index describes the block.
func (r *Report) CheckRest(ctx context.Context) error {
	c := r.checker
	r.checker = nil // its buffer is as large as a block
	pause := time.NewTimer(0)
	defer pause.Stop()
	for _, l := range r.rest {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil
		}
		began := time.Now()
		if err := c.checkLeft(ctx, l); err != nil {
			return err
		}
		pause.Reset(time.Since(began))
	}
	return nil
}

// checkLeft reads a block and compares it with the index.
func (c *checker) checkLeft(ctx context.Context, l left) error {
	forever := c.opts.Forever(l.stream)
	for tries := 1; ; tries++ {
		before, err := os.Stat(l.Path)
		if err == nil {
			b := l.blockFile
			b.Size = before.Size()
			err = c.sameBlock(l, b)
		}
		switch {
		case err == nil:
			return nil
		case forever && errors.Is(err, fs.ErrNotExist):
			if _, err := os.Stat(filepath.Dir(l.Path)); errors.Is(err, fs.ErrNotExist) { // the whole stream was deleted
				return nil
			}
			if tries == rereads {
				return inUse(l.Path, "a file of journal %s is gone", l.stream)
			}
			if !wait.For(ctx, deletionWait) { // it may be in the middle of that
				return nil
			}
			continue
		case forever:
			return err
		case errors.Is(err, fs.ErrNotExist): // its messages were purged
			return nil
		}
		after, statErr := os.Stat(l.Path)
		if tries == rereads || statErr == nil && sameFile(before, after) {
			return err
		}
	}
}

// sameBlock compares a block with its description in the index. A purge may have removed its first messages.
func (c *checker) sameBlock(l left, b blockFile) error {
	sp, err := c.block(l.stream, b, false, nil)
	if errors.Is(err, ErrDamaged) {
		return inUse(b.Path, "its records can't be read")
	}
	if err != nil {
		return err
	}
	if first := c.firsts[l.stream]; sp.deleted > 0 && sp.deleted >= first {
		return inUse(b.Path, "message %d of journal %s was deleted", sp.deleted, l.stream)
	}
	if sp.last != l.span.last || sp.first != l.span.first && c.opts.Forever(l.stream) {
		return inUse(b.Path, "journal %s has messages %d to %d there, but had %d to %d", l.stream, sp.first, sp.last, l.span.first, l.span.last)
	}
	return nil
}

// inUse is damageError for files that the server is using.
func inUse(file, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s. The journal server was using it, and may have truncated it; restore the data folder from a backup, with `quire restore`",
		ErrDamaged, file, fmt.Sprintf(format, args...))
}

func sameFile(before, after fs.FileInfo) bool {
	return os.SameFile(before, after) && before.Size() == after.Size() && before.ModTime().Equal(after.ModTime())
}
