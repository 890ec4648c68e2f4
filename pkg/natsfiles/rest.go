package natsfiles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// left is a block that Check has left to CheckRest, and what the index says about it.
type left struct {
	stream string
	blockFile
	span span
}

// Left is the number of blocks that Check has left to CheckRest.
func (r *Report) Left() int { return len(r.rest) }

// Replace replaces the content of a file, or makes the file. Once it returns nil the content is on the disk.
type Replace func(file string, data []byte) error

// RenewIndexes writes the indexes that were brought up to the last record, in place of older ones. The server must not run. If this
// fails, the server would read the blocks that were left, and cut damaged ones off: it must not be started.
func (r *Report) RenewIndexes(replace Replace) error {
	for _, x := range r.indexes {
		if err := replace(x.file, x.data); err != nil {
			return fmt.Errorf("renew the index of a journal: %w", err)
		}
	}
	return nil
}

// DropIndexes removes all indexes, so that the server reads all blocks when it starts. The server must not run. It is for files that
// a server has used while one was damaged: the index leaves out what was cut off, also where the file was replaced by a whole one.
func (r *Report) DropIndexes() error {
	for _, p := range r.plans {
		if err := os.Remove(p.indexFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("drop the index of a journal: %w", err)
		}
	}
	return nil
}

// rereads is how often a block that the server rewrites is read again.
const rereads = 10

// CheckRest reads the blocks that Check has left, while the server works, and takes half of the time at most. The server appends
// to none of them. In a purge it may remove or rewrite those of a stream that does not keep every message. It returns nil if ctx
// ends first. It is called once.
//
// A damaged block that the server has read before it is checked is cut off by then. That is found as well, since the index knows
// what the block had.
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
		if err := c.checkLeft(l); err != nil {
			return err
		}
		pause.Reset(time.Since(began))
	}
	return nil
}

// checkLeft reads a block and compares it with the index.
func (c *checker) checkLeft(l left) error {
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
			return inUse(l.Path, "a file of journal %s is gone", l.stream)
		case forever:
			return err
		case errors.Is(err, fs.ErrNotExist): // its messages were purged
			return nil
		}
		after, statErr := os.Stat(l.Path)
		if tries == rereads || statErr == nil && unchanged(before, after) {
			return err
		}
	}
}

// sameBlock compares a block that was left with what the index says about it. A purge may have taken its first messages.
func (c *checker) sameBlock(l left, b blockFile) error {
	sp, err := c.block(l.stream, b, false, nil)
	if errors.Is(err, ErrDamaged) {
		return inUse(b.Path, "its records can't be read")
	}
	if err != nil {
		return err
	}
	if sp.last != l.span.last || sp.first != l.span.first && c.opts.Forever(l.stream) {
		return inUse(b.Path, "journal %s has messages %d to %d there, but had %d to %d", l.stream, sp.first, sp.last, l.span.first, l.span.last)
	}
	return nil
}

// inUse is damaged for files that the server uses.
func inUse(file, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s. The journal server was using it, and may have cut it off; restore the data folder from a backup",
		ErrDamaged, file, fmt.Sprintf(format, args...))
}

func unchanged(before, after fs.FileInfo) bool {
	return os.SameFile(before, after) && before.Size() == after.Size() && before.ModTime().Equal(after.ModTime())
}
