package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestCPUTimeIsReadWhateverTheCommandIsCalled(t *testing.T) {
	for _, name := range []string{"(quire-edge)", "(a b)", "(x) 9 (y)"} {
		line := "4711 " + name + " S 1 4711 4711 0 -1 4194304 2557 0 1 0 150 50 7 8 20 0 9 0 81402 1274 1 2 3"
		if got, err := parseStat(line); err != nil || got != 2*time.Second {
			t.Errorf("%q: %v, %v; want 2s: 150 ticks in user mode and 50 in the kernel", line, got, err)
		}
	}
	for _, line := range []string{"", "4711 quire S 1 2", "4711 (quire) S 1 2 3", "4711 (quire) S 1 4711 4711 0 -1 4194304 2557 0 1 0 x 50 7"} {
		if got, err := parseStat(line); err == nil {
			t.Errorf("%q: %v", line, got)
		}
	}
}

func TestMemoryIsReadInBytes(t *testing.T) {
	got, err := parseResident("Name:\tquire\nVmPeak:\t  900 kB\nVmRSS:\t   2048 kB\nThreads:\t7\n")
	if err != nil || got != 2<<20 {
		t.Errorf("%d, %v", got, err)
	}
	for _, status := range []string{"", "Name:\tkthreadd\n", "VmRSS:\tmuch kB\n"} {
		if got, err := parseResident(status); err == nil {
			t.Errorf("%q: %d", status, got)
		}
	}
}

func TestTheMachineIsBusyWithAllButIdlingAndWaiting(t *testing.T) {
	// user nice system idle iowait irq softirq steal guest guest_nice
	got, err := parseMachine("cpu  100 10 40 5000 600 1 2 47 30 0\ncpu0 1 2 3\n")
	if err != nil || got != 2*time.Second {
		t.Errorf("%v, %v; want 200 ticks", got, err)
	}
	for _, stat := range []string{"", "intr 1 2 3", "cpu  1 2 3", "cpu  1 2 x 4 5 6 7 8"} {
		if got, err := parseMachine(stat); err == nil {
			t.Errorf("%q: %v", stat, got)
		}
	}
}

func TestThisProcessAndMachineCanBeRead(t *testing.T) {
	if _, err := cpuOf(os.Getpid()); err != nil {
		t.Error(err)
	}
	if n, err := residentOf(os.Getpid()); err != nil || n < 1<<20 {
		t.Errorf("%d bytes, %v", n, err)
	}
	if busy, err := machineCPU(); err != nil || busy <= 0 {
		t.Errorf("%v, %v", busy, err)
	}
	if took, err := syncTime(t.TempDir()); err != nil || took <= 0 {
		t.Errorf("%v, %v", took, err)
	}
	if _, err := cpuOf(1 << 30); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a process that can't be: %v", err)
	}
}
