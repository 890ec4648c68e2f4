package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"quire.dev/tools/cluster"
)

// diskBytes is the size of the disk that each server of PostgreSQL has for itself.
const diskBytes = 1 << 30

// mountDisks gives each server of PostgreSQL a disk of its own, which can be full.
func mountDisks(t *testing.T, dir string) {
	t.Helper()
	if *store != cluster.PostgreSQL {
		return
	}
	for _, name := range readModels() {
		disk := filepath.Join(dir, name)
		if err := os.MkdirAll(disk, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("size=%d", diskBytes)); err != nil {
			t.Fatalf("mount a disk for %s: %v", name, err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
				t.Errorf("unmount the disk of %s: %v", name, err)
			}
		})
	}
}

// postgresFaults are what an operator of PostgreSQL goes through. Each server is the primary again in the end.
func postgresFaults() []fault {
	failover := func(t *testing.T, b *bench) error {
		return b.c.Failover(t.Context(), func() error { return last(t) })
	}
	return []fault{
		{name: "cut off the standby of PostgreSQL", inject: cut("postgres-1")},
		{name: "a long lock in PostgreSQL", inject: longLock},
		{name: "a full disk under PostgreSQL", inject: fullDisk},
		{name: "promote the standby of PostgreSQL", inject: failover},
		{name: "promote the new standby of PostgreSQL", inject: failover},
		{name: "restore PostgreSQL from a dump", inject: restoreDump},
		{name: "restore PostgreSQL to a point in time", inject: restoreToAPoint},
	}
}

// longLock locks tables of two services, as a careless migration does.
func longLock(t *testing.T, b *bench) error {
	_, err := b.c.SQL(t.Context(), b.c.Primary(t.Context()), "",
		fmt.Sprintf("BEGIN; LOCK TABLE quire_paste.paste, quire_billing._checkpoints; SELECT pg_sleep(%f); COMMIT", quiet.Seconds()))
	return err
}

// fullDisk fills the disk of the primary. PostgreSQL ends if it can't write its log.
func fullDisk(t *testing.T, b *bench) error {
	primary := b.c.Primary(t.Context())
	if primary == nil {
		return errors.New("there is no primary")
	}
	ballast := filepath.Join(b.dir, primary.Name(), "ballast")
	return between(t, func(ctx context.Context) error {
		if err := fill(ballast); err != nil {
			return err
		}
		// It has files of its log in reserve.
		for range 100 {
			if _, err := b.c.SQL(ctx, primary, "", "SELECT pg_logical_emit_message(true, '', '')", "SELECT pg_switch_wal()"); err != nil {
				t.Log(err)
				return nil
			}
		}
		return errors.New("PostgreSQL did not notice that its disk is full")
	}, func(ctx context.Context) error {
		if err := os.Remove(ballast); err != nil {
			return err
		}
		if primary.Running() {
			return nil
		}
		t.Logf("%s has ended:\n%s", primary.Name(), primary.Tail())
		return primary.Start(ctx)
	})
}

// fill takes what is left of a disk.
func fill(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	for zeros := make([]byte, 1<<20); err == nil; {
		_, err = file.Write(zeros)
	}
	if errors.Is(err, unix.ENOSPC) {
		return nil
	}
	return err
}

// restoreDump goes back to a dump that was made under load. The journals have what came after it.
func restoreDump(t *testing.T, b *bench) error {
	path := filepath.Join(t.TempDir(), "dump")
	if err := errors.Join(b.c.Dump(t.Context(), path), last(t)); err != nil {
		return err
	}
	return b.withoutServices(t, func(ctx context.Context) error { return b.c.RestoreDump(ctx, path) })
}

// restoreToAPoint goes back to a moment between a base backup and now.
func restoreToAPoint(t *testing.T, b *bench) error {
	backup := filepath.Join(t.TempDir(), "backup")
	if err := errors.Join(b.c.BaseBackup(t.Context(), backup), last(t)); err != nil {
		return err
	}
	moment, err := b.c.SQL(t.Context(), b.c.Primary(t.Context()), "", "SELECT clock_timestamp()")
	if err := errors.Join(err, last(t)); err != nil {
		return err
	}
	return b.withoutServices(t, func(ctx context.Context) error { return b.c.RestoreTo(ctx, backup, moment) })
}

func (b *bench) withoutServices(t *testing.T, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	return errors.Join(b.c.StopServices(ctx), do(ctx), b.c.StartServices(ctx))
}
