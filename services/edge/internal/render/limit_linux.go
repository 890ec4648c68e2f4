package render

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"quire.dev/pkg/num"
)

// limitMemory bounds what this process allocates from now on. The kernel refuses more, and Go's runtime then exits. The
// process is also the first that the OOM killer ends.
func limitMemory(more int64) error {
	taken, err := dataBytes()
	if err != nil {
		return err
	}
	limitGarbage(taken, more)
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // best effort
	limit := num.Uint64(taken + more)
	return errors.Join(
		syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: limit, Max: limit}),
		syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}),
		syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{}),
	)
}

// dataBytes is what RLIMIT_DATA counts: VmData of proc_pid_status(5).
func dataBytes() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(status, []byte("\nVmData:"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0, errors.New("/proc/self/status has no VmData")
	}
	kib, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("VmData of /proc/self/status: %w", err)
	}
	return kib << 10, nil
}
