package journal_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
)

// TestMessageIsOnDiskBeforeItIsDelivered asks the kernel, while each message is
// being handled, whether any page of the stream's files still waits to be
// written: that would be a message delivered before its fsync.
func TestMessageIsOnDiskBeforeItIsDelivered(t *testing.T) {
	folder := t.TempDir()
	nc := journaltest.Start(t, journaltest.WithFolder(folder)).Conn(t)
	ensure(t, nc, billing(0))
	const messages = 50
	payload := make([]byte, 3000)
	handled, checked := 0, 0
	err := journal.Open(nc, "BILLING_0").Follow(t.Context(), 0, func(_ context.Context, m journal.Message) error {
		dirty, files, err := dirtyPages(folder)
		if err != nil {
			return err
		}
		if dirty > 0 {
			t.Errorf("message %d is delivered with %d pages unwritten", m.Sequence, dirty)
		}
		handled++
		checked += files
		if handled == messages {
			return errEnough
		}
		return nc.Publish(testSubject, payload) // one at a time
	}, journal.FollowOptions{CaughtUp: func() {
		if err := nc.Publish(testSubject, payload); err != nil {
			t.Error(err)
		}
	}})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("needs cachestat, Linux 6.5")
	}
	if !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	if checked < messages {
		t.Fatalf("%d files were looked at for %d messages", checked, messages)
	}
}

var errEnough = errors.New("enough")

// dirtyPages counts the pages of message blocks that are not on disk yet.
func dirtyPages(folder string) (pages uint64, files int, err error) {
	blocks, err := filepath.Glob(filepath.Join(folder, "jetstream", "$G", "streams", "BILLING_0", "msgs", "*.blk"))
	if err != nil {
		return 0, 0, err
	}
	for _, name := range blocks {
		f, err := os.Open(name)
		if err != nil {
			return 0, 0, err
		}
		var stat unix.Cachestat_t
		err = unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &stat, 0)
		if err := errors.Join(err, f.Close()); err != nil {
			return 0, 0, err
		}
		pages += stat.Dirty + stat.Writeback
		files++
	}
	return pages, files, nil
}
