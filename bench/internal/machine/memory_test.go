package machine

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestTheCacheHasPagesAndNoBlocks: the kernel keeps the pages of the part that was read, and the disk has none of it.
func TestTheCacheHasPagesAndNoBlocks(t *testing.T) {
	c, err := NewCache(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const size = 8 << 20
	if err := c.file.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if err := c.read(t.Context(), 1<<20, size); err != nil {
		t.Fatal(err)
	}
	var file unix.Stat_t
	if err := unix.Fstat(int(c.file.Fd()), &file); err != nil || file.Blocks != 0 {
		t.Errorf("%d blocks, %v", file.Blocks, err)
	}
	var pages unix.Cachestat_t
	switch err := unix.Cachestat(uint(c.file.Fd()), &unix.CachestatRange{}, &pages, 0); {
	case err == unix.ENOSYS, err == unix.EOPNOTSUPP:
		t.Log("NOT CHECKED: the pages; that needs cachestat, Linux 6.5")
	case err != nil || pages.Cache < 7<<20/uint64(unix.Getpagesize()):
		t.Errorf("%d pages, %v", pages.Cache, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}
