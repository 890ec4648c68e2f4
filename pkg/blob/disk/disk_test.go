package disk_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/blobtest"
	"quire.dev/pkg/blob/disk"
)

// The test binary runs itself again as one of these children, named in this variable as "<child> <folder> <round>".
const childVariable = "BLOB_DISK_TEST_CHILD"

func TestMain(m *testing.M) {
	var child, folder string
	var round int
	if n, _ := fmt.Sscan(os.Getenv(childVariable), &child, &folder, &round); n < 3 {
		os.Exit(m.Run())
	}
	work := map[string]func(string, int) error{"writer": writeUntilKilled, "full": fillSmallDisk}[child]
	if err := work(folder, round); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func startChild(t *testing.T, child, folder string, round int) *exec.Cmd {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", childVariable, child, folder, round))
	cmd.Stderr = os.Stderr
	return cmd
}

func open(t *testing.T, folder string) *disk.Store {
	t.Helper()
	store, err := disk.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Errorf("close: %v", err)
		}
	})
	return store
}

func TestDiskKeepsTheContract(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Store { return open(t, t.TempDir()) })
}

func TestBlobsAreThereAfterAReopen(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "made", "on", "the", "way")
	store := open(t, folder)
	if _, err := store.Put(t.Context(), "a/b", strings.NewReader("content"), -1); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	wantBlob(t, open(t, folder), "a/b", []byte("content"))
}

func TestAFolderIsOpenOnlyOnce(t *testing.T) {
	folder := t.TempDir()
	store := open(t, folder)
	if other, err := disk.Open(folder); err == nil {
		t.Fatal("the folder was opened twice", other.Close())
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, folder)
}

func TestAFolderThatIsAFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if store, err := disk.Open(path); err == nil {
		t.Fatal("a file was opened as a folder", store.Close())
	}
}

func TestWhatACrashLeftHalfWrittenIsRemovedAtOpen(t *testing.T) {
	folder := t.TempDir()
	if err := open(t, folder).Close(); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(folder, "temp", "put-123")
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, folder)
	wantNoTemporaryFiles(t, folder)
}

func TestAForeignFileIsNoBlob(t *testing.T) {
	folder := t.TempDir()
	store := open(t, folder)
	if _, err := store.Put(t.Context(), "a/b/c", strings.NewReader("x"), 1); err != nil {
		t.Fatal(err)
	}
	own, err := filepath.Glob(filepath.Join(folder, "keys", "a", "b", "~*", "c"))
	if err != nil || len(own) != 1 {
		t.Fatalf("the blob is in %v, %v", own, err)
	}
	for _, path := range []string{
		filepath.Join(filepath.Dir(own[0]), "no key"), filepath.Join(filepath.Dir(own[0]), ".."+"~x"), filepath.Join(folder, "keys", "a", "loose"),
	} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Delete(t.Context(), "a/b/c"); err != nil {
		t.Fatal(err)
	}
	err = store.Sweep(t.Context(), "", time.Now().Add(time.Hour), func(info blob.Info) error {
		return fmt.Errorf("%q was visited", info.Key)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestASweepStaysInTheFolderOfItsPrefix: listing snapshots takes as long with many files as with none.
func TestASweepStaysInTheFolderOfItsPrefix(t *testing.T) {
	store := open(t, t.TempDir())
	put := func(format string, count int) {
		for i := range count {
			if _, err := store.Put(t.Context(), fmt.Sprintf(format, i), strings.NewReader("x"), 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	work := func() float64 {
		return testing.AllocsPerRun(5, func() {
			seen := 0
			err := store.Sweep(t.Context(), "billing/BILLING_0/", time.Now().Add(time.Hour), func(blob.Info) error { seen++; return nil })
			if err != nil || seen != 10 {
				t.Errorf("visited %d, %v", seen, err)
			}
		})
	}
	put("billing/BILLING_0/%d", 10)
	alone := work()
	put("billing/BILLING_1/%d", 100)
	put("paste/0/item/%d", 100)
	if beside := work(); beside > alone+20 {
		t.Errorf("a sweep of 10 blobs allocates %g times, and %g times beside 200 others", alone, beside)
	}
}

func TestADiskThatFailsIsUnavailable(t *testing.T) {
	folder := t.TempDir()
	store := open(t, folder)
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	_, err := store.Put(t.Context(), "a/b", strings.NewReader("x"), 1)
	if !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("put: %v, want ErrUnavailable", err)
	}
	err = store.Sweep(t.Context(), "", time.Now(), func(blob.Info) error { return nil })
	if !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("sweep: %v, want ErrUnavailable", err)
	}
}

// A kill shows whether the process had written the blob. It can't show whether the machine had, because the page cache
// outlives the process.
func TestAKilledWriterLeavesWhatItAcknowledgedAndNothingPartial(t *testing.T) {
	const rounds, acksARound = 4, 25
	folder := t.TempDir()
	acknowledged := make(map[string]bool)
	for round := range rounds {
		cmd := startChild(t, "writer", folder, round)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for i := 0; lines.Scan(); i++ {
			acknowledged[lines.Text()] = true
			if i == acksARound {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the writer ended before it was killed")
		}
		if len(acknowledged) < (round+1)*acksARound {
			t.Fatalf("the writer of round %d acknowledged too little: %d", round, len(acknowledged))
		}
		checkKilled(t, folder, acknowledged)
	}
}

func checkKilled(t *testing.T, folder string, acknowledged map[string]bool) {
	t.Helper()
	store := open(t, folder)
	wantNoTemporaryFiles(t, folder)
	for key := range acknowledged {
		wantBlob(t, store, key, blobOf(t, key))
	}
	err := store.Sweep(t.Context(), "", time.Now().Add(time.Hour), func(info blob.Info) error {
		wantBlob(t, store, info.Key, blobOf(t, info.Key))
		return nil
	})
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
}

// writeUntilKilled prints each key once its blob is acknowledged.
func writeUntilKilled(folder string, round int) error {
	store, err := disk.Open(folder)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var print sync.Mutex
	for writer := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("round%d/writer%d/%d", round, writer, i)
				if _, err := store.Put(context.Background(), key, contentOf(key), -1); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				print.Lock()
				fmt.Println(key)
				print.Unlock()
			}
		})
	}
	wg.Wait()
	return nil
}

// contentOf gives each key its own bytes, so that a blob shows whether it is whole.
func contentOf(key string) io.Reader {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(key)) // never fails
	seed := hash.Sum64()
	return blobtest.Content(seed, int64(seed%600_000))
}

func blobOf(t *testing.T, key string) []byte {
	t.Helper()
	data, err := io.ReadAll(contentOf(key))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func wantBlob(t *testing.T, store blob.Store, key string, want []byte) {
	t.Helper()
	r, _, err := store.Get(t.Context(), key, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%s holds %d bytes, not the %d that were put", key, len(got), len(want))
	}
}

func wantNoTemporaryFiles(t *testing.T, folder string) {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(folder, "temp"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Fatalf("%d temporary files are left, such as %s", len(left), left[0].Name())
	}
}

func TestAFullDiskIsUnavailableAndWorksAgainLater(t *testing.T) {
	cmd := startChild(t, "full", t.TempDir(), 0)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.Output()
	if strings.Contains(string(out), noMount) || errors.Is(err, syscall.EPERM) {
		t.Skip("a small file system can't be mounted here, so a full disk was NOT tried")
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

const noMount = "cannot mount"

// fillSmallDisk runs in a separate mount namespace.
func fillSmallDisk(folder string, _ int) error {
	if err := syscall.Mount("none", folder, "tmpfs", 0, "size=2m"); err != nil {
		fmt.Println(noMount, err)
		return nil
	}
	store, err := disk.Open(folder)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if _, err := store.Put(ctx, "small", blobtest.Content(1, 100<<10), -1); err != nil {
		return err
	}
	for range 3 { // a leftover would fill the disk for good
		if _, err := store.Put(ctx, "large", blobtest.Content(2, 4<<20), -1); !errors.Is(err, blob.ErrUnavailable) || !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("put on a full disk: %w, want ErrUnavailable for want of space", err)
		}
		left, err := os.ReadDir(filepath.Join(folder, "temp"))
		if err != nil || len(left) > 0 {
			return fmt.Errorf("%d temporary files are left: %w", len(left), err)
		}
		if _, _, err := store.Get(ctx, "large", 0, -1); !errors.Is(err, blob.ErrNotFound) {
			return fmt.Errorf("get what did not fit: %w, want ErrNotFound", err)
		}
	}
	if _, err := store.Put(ctx, "fits", blobtest.Content(3, 1<<20), -1); err != nil {
		return fmt.Errorf("put after the disk was full: %w", err)
	}
	return store.Close()
}
