package machine

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
)

func TestAMachineIsDescribed(t *testing.T) {
	d, err := Describe(t.Context(), t.TempDir(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if d.Cores < 1 || d.MemoryBytes == 0 || d.Kernel == "" || d.CPU == "" || d.SyncSeconds <= 0 || d.Commit != "unknown" || !strings.HasPrefix(d.Go, "go") ||
		d.Load < 0 || d.Load > float64(d.Cores)+0.5 {
		t.Errorf("%+v", d)
	}
}

func TestTheSizeOfAFolderCountsWhatIsAsked(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"a/LITE_0/1.blk", "a/BILLING_0/1.blk", "b"} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 100_000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Forget(folder); err != nil { // also writes them, so that they have blocks
		t.Fatal(err)
	}
	all, err := Size(folder, func(string) bool { return true })
	if err != nil || all < 300_000 {
		t.Errorf("%d bytes, %v", all, err)
	}
	some, err := Size(folder, func(path string) bool { return !strings.Contains(path, "LITE_0/") })
	if err != nil || some < 200_000 || some > all-100_000 {
		t.Errorf("%d of %d bytes, %v", some, all, err)
	}
	if data, err := os.ReadFile(filepath.Join(folder, "b")); err != nil || len(data) != 100_000 {
		t.Errorf("a file dropped from the cache has %d bytes, %v", len(data), err)
	}
}

func TestWhatThisProcessUses(t *testing.T) {
	self := Process(os.Getpid())
	memory, err := self.Resident()
	if err != nil || memory < 1<<20 {
		t.Errorf("%d bytes, %v", memory, err)
	}
	if cpu, err := self.CPUSeconds(); err != nil || cpu < 0 {
		t.Errorf("%v seconds, %v", cpu, err)
	}
	if _, err := Process(1 << 30).Resident(); err == nil {
		t.Error("a process that does not exist has memory")
	}
}

func TestASystemIsSettledOnceItIsIdle(t *testing.T) {
	looks := 0
	err := Settle(t.Context(), func() (float64, error) { looks++; return min(float64(looks), 3), nil })
	if err != nil || looks < 5 {
		t.Errorf("settled after %d looks, %v", looks, err)
	}
}

func TestTheMachineIsBusyExceptWhenItIdlesOrWaits(t *testing.T) {
	got := busy(procfs.CPUStat{User: 1, Nice: 0.1, System: 0.4, Idle: 50, Iowait: 6, IRQ: 0.01, SoftIRQ: 0.02, Steal: 0.47, Guest: 0.3})
	if got != 2 {
		t.Errorf("%v seconds, want 2", got)
	}
}

func TestThisMachineCanBeMeasured(t *testing.T) {
	if busy, err := BusySeconds(); err != nil || busy <= 0 {
		t.Errorf("%v, %v", busy, err)
	}
}
