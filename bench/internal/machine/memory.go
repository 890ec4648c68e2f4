package machine

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"sync"

	"github.com/prometheus/procfs"
)

const (
	// fillAbove is how much memory is free before Fill does something. The kernel itself keeps some free.
	fillAbove = 512 << 20
	fillPiece = 1 << 20
)

// Cache fills the memory that is free with pages of a file, as it is on a machine that has run for a while: the kernel then gives
// these pages to what is written next. Many virtual machines get their memory from their host when they first touch it, and give
// back what they free, so that a write to a new page takes several times as long as one to a page that was in use before. How much
// of that a turn meets depends on what was deleted in the seconds before it.
//
// The file has no blocks on the disk. Not for concurrent use.
type Cache struct {
	file *os.File
	size int64
}

// NewCache makes the file in the folder. It has no name, so that it is gone once it is closed.
func NewCache(folder string) (*Cache, error) {
	f, err := os.CreateTemp(folder, "cache-")
	if err != nil {
		return nil, err
	}
	return &Cache{file: f}, os.Remove(f.Name())
}

// Fill fills the free memory. It takes seconds where there is much.
func (c *Cache) Fill(ctx context.Context) error {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return err
	}
	memory, err := proc.Meminfo()
	if err != nil {
		return err
	}
	if memory.MemFreeBytes == nil {
		return errors.New("/proc/meminfo does not say how much memory is free")
	}
	more := int64(*memory.MemFreeBytes)
	if more < fillAbove {
		return nil
	}
	from := c.size
	c.size += more
	if err := c.file.Truncate(c.size); err != nil {
		return err
	}
	return c.read(ctx, from, c.size)
}

// read reads a part of the file, with all processors.
func (c *Cache) read(ctx context.Context, from, to int64) error {
	parts := int64(runtime.NumCPU())
	errs := make([]error, parts)
	var all sync.WaitGroup
	for i := range parts {
		first, end := from+(to-from)*i/parts, from+(to-from)*(i+1)/parts
		all.Go(func() {
			piece := make([]byte, fillPiece)
			for at := first; at < end && errs[i] == nil; at += fillPiece {
				if errs[i] = ctx.Err(); errs[i] == nil {
					_, errs[i] = c.file.ReadAt(piece[:min(fillPiece, end-at)], at)
				}
			}
			if errors.Is(errs[i], io.EOF) {
				errs[i] = nil
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Close gives the memory back.
func (c *Cache) Close() error { return c.file.Close() }
