// Package machine describes the machine of a measurement, measures its disk, and reads what a process uses of it.
package machine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"quire.dev/pkg/wait"
	"quire.dev/tools/bench/internal/stats"
)

// Description is what a reader of a figure must know about the machine.
type Description struct {
	CPU         string    `json:"cpu"`
	Cores       int       `json:"cores"`
	MemoryBytes uint64    `json:"memoryBytes"`
	Kernel      string    `json:"kernel"`
	Go          string    `json:"go"`
	Commit      string    `json:"commit"`
	SyncSeconds float64   `json:"fdatasyncSeconds"` // median, of a write of 4 KiB in the folder of the data
	Load        float64   `json:"load"`             // processors in use before the run
	Began       time.Time `json:"began"`
}

// Busy reports whether other programs are likely to have taken part of the machine.
func (d Description) Busy() bool { return d.Load > 0.5 }

// loadLook is how long Describe samples the load. The system's averages would still include the build of this program.
const loadLook = 2 * time.Second

// Describe describes this machine, the commit of the project in root, and the disk of the folder. It takes some seconds.
func Describe(ctx context.Context, root, folder string) (Description, error) {
	d := Description{
		CPU: "unknown", Cores: runtime.NumCPU(), Go: runtime.Version(), Commit: commit(ctx, root), Began: time.Now().UTC().Truncate(time.Second),
	}
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return d, err
	}
	memory, err := proc.Meminfo()
	if err != nil {
		return d, err
	}
	if memory.MemTotalBytes != nil {
		d.MemoryBytes = *memory.MemTotalBytes
	}
	if d.Load, err = load(ctx); err != nil {
		return d, err
	}
	info, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return d, err
	}
	defer info.Close()
	for lines := bufio.NewScanner(info); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			d.CPU = strings.TrimSpace(value)
			break
		}
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return d, err
	}
	d.Kernel = unix.ByteSliceToString(name.Release[:])
	d.SyncSeconds, err = SyncSeconds(folder)
	return d, err
}

// commit is the commit of the project, with a mark if its files have changed since.
func commit(ctx context.Context, root string) string {
	out, err := exec.CommandContext(ctx, "git", "-C", root, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*").Output()
	if err != nil {
		return "unknown" // not a clone
	}
	return strings.TrimSpace(string(out))
}

// load is the number of processors that are in use.
func load(ctx context.Context) (float64, error) {
	before, err := BusySeconds()
	if err != nil {
		return 0, err
	}
	if !wait.For(ctx, loadLook) {
		return 0, ctx.Err()
	}
	after, err := BusySeconds()
	return (after - before) / loadLook.Seconds(), err
}

// BusySeconds is how many seconds all processors together were in use since the machine started.
func BusySeconds() (float64, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	stat, err := proc.Stat()
	return busy(stat.CPUTotal), err
}

// busy leaves out the time in which a processor idled or waited for a disk. Guest time is part of user time.
func busy(c procfs.CPUStat) float64 {
	return c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal
}

// SyncSeconds is the median time of a write of 4 KiB at the end of a file in the folder, and of its fdatasync.
func SyncSeconds(folder string) (float64, error) {
	f, err := os.CreateTemp(folder, "sync-")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	// Without a name the file is gone once it is closed.
	if err := os.Remove(f.Name()); err != nil {
		return 0, err
	}
	const times = 101
	block := make([]byte, 4096)
	var took []float64
	for range times {
		started := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return 0, err
		}
		took = append(took, time.Since(started).Seconds())
	}
	return stats.Median(took), nil
}

// WriteSeconds is the time that a file with the content takes in the folder, until its fsync has returned.
func WriteSeconds(folder string, content []byte) (float64, error) {
	f, err := os.CreateTemp(folder, "write-")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return 0, err
	}
	const piece = 512 << 10
	started := time.Now()
	for at := 0; at < len(content); at += piece {
		if _, err := f.Write(content[at:min(at+piece, len(content))]); err != nil {
			return 0, err
		}
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	return time.Since(started).Seconds(), nil
}

// Forget has the kernel drop the files of a folder from its page cache, so that the next reads come from the disk. Dirty
// pages can't be dropped, so they are written first. It needs no privileges.
func Forget(folder string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := f.Sync(); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			return fmt.Errorf("drop %s from the page cache: %w", path, err)
		}
		return nil
	})
}

// Size sums the disk usage, in bytes, of the files below folder for which counts is true. A file removed meanwhile does not
// count. counts gets the path below folder.
func Size(folder string, counts func(path string) bool) (bytes int64, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		below, err := filepath.Rel(folder, path)
		if err != nil || !counts(below) {
			return err
		}
		var stat unix.Stat_t
		if err := unix.Stat(path, &stat); errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return fmt.Errorf("size of %s: %w", path, err)
		}
		const block = 512 // of st_blocks, whatever the disk has
		bytes += stat.Blocks * block
		return nil
	})
	return bytes, err
}

// Process reads what a process uses.
type Process int

func (p Process) stat() (procfs.ProcStat, error) {
	proc, err := procfs.NewProc(int(p))
	if err != nil {
		return procfs.ProcStat{}, err
	}
	return proc.Stat()
}

// CPUSeconds is the CPU time that the process has used since its start.
func (p Process) CPUSeconds() (float64, error) {
	stat, err := p.stat()
	return stat.CPUTime(), err
}

// Resident is the memory of the process, in bytes.
func (p Process) Resident() (int64, error) {
	stat, err := p.stat()
	return int64(stat.ResidentMemory()), err
}

const (
	settleLimit = 60 * time.Second
	settleLook  = 500 * time.Millisecond
	// settled is an upper bound of the CPU time, in seconds, that idle writers of the read model use in settleLook.
	settled = 0.05
	// settledLooks in a row are needed, since the writers pause between two commits.
	settledLooks = 3
)

// Settle waits until a system is idle, having finished work such as its read models after the last answer. cpu is the CPU
// time in seconds that it has used so far.
func Settle(ctx context.Context, cpu func() (float64, error)) error {
	deadline := time.Now().Add(settleLimit)
	for looks, last := 0, math.Inf(1); looks < settledLooks; {
		used, err := cpu()
		if err != nil {
			return err
		}
		if looks++; used-last > settled || last > used {
			looks = 0
		}
		last = used
		if time.Now().After(deadline) {
			return fmt.Errorf("it is still at work after %s", settleLimit)
		}
		if !wait.For(ctx, settleLook) {
			return ctx.Err()
		}
	}
	return nil
}
