package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// startWriteback has the kernel begin to bring a part of a file to the disk, and does not wait for it. It is a hint: what
// fails is left to the fsync, which reports it.
func startWriteback(file *os.File, offset, length int64) {
	_ = unix.SyncFileRange(int(file.Fd()), offset, length, unix.SYNC_FILE_RANGE_WRITE)
}
