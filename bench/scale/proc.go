package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc, the same on every Linux that Go runs on (USER_HZ).
const tick = 10 * time.Millisecond

// parseStat finds the CPU time, user and system, in /proc/<pid>/stat.
func parseStat(line string) (time.Duration, error) {
	// The command's name stands in brackets and may hold spaces and brackets itself.
	_, rest, ok := cutLast(line, ")")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0, fmt.Errorf("not a stat line: %q", line)
	}
	user, err1 := strconv.ParseUint(fields[11], 10, 63) // fields 14 and 15 of the line
	system, err2 := strconv.ParseUint(fields[12], 10, 63)
	if err := errors.Join(err1, err2); err != nil {
		return 0, fmt.Errorf("stat line %q: %w", line, err)
	}
	return time.Duration(user+system) * tick, nil
}

func cutLast(s, separator string) (before, after string, found bool) {
	at := strings.LastIndex(s, separator)
	if at < 0 {
		return s, "", false
	}
	return s[:at], s[at+len(separator):], true
}

// parseResident finds the memory that a process holds, in bytes, in /proc/<pid>/status.
func parseResident(status string) (uint64, error) {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 50)
			if err != nil {
				return 0, fmt.Errorf("status line %q: %w", line, err)
			}
			return n << 10, nil
		}
	}
	return 0, errors.New("no VmRSS in the status")
}

// parseMachine finds how long all CPUs together were busy, in /proc/stat.
func parseMachine(stat string) (time.Duration, error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("not the line of all CPUs: %q", line)
	}
	var busy uint64
	for i, field := range fields[1:9] { // user nice system idle iowait irq softirq steal
		n, err := strconv.ParseUint(field, 10, 63)
		if err != nil {
			return 0, fmt.Errorf("line of all CPUs: %w", err)
		}
		if i != 3 && i != 4 {
			busy += n
		}
	}
	return time.Duration(busy) * tick, nil
}

func cpuOf(pid int) (time.Duration, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	return parseStat(string(data))
}

func residentOf(pid int) (uint64, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, err
	}
	return parseResident(string(data))
}

func machineCPU() (time.Duration, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return parseMachine(string(data))
}

// syncTime is how long a write of 4 KiB and its fsync take in the folder, the median of some.
func syncTime(folder string) (time.Duration, error) {
	f, err := os.CreateTemp(folder, "sync-")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	// It needs no name, and so is gone whatever happens.
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
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(started)))
	}
	return time.Duration(median(took)), nil
}
