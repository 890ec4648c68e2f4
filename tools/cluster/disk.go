package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// SlowDisk delays the end of each fsync of the process, as a slow disk does, until end is called. It needs the program strace.
func (p *Process) SlowDisk(ctx context.Context, delay time.Duration) (end func() error, err error) {
	pid := strconv.Itoa(p.PID())
	tracer := exec.Command("strace", "-qq", "-f", "-p", pid, "-o", "/dev/null", "-e", "trace=fsync,fdatasync",
		"-e", fmt.Sprintf("inject=fsync,fdatasync:delay_exit=%d", delay.Microseconds()))
	tracer.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var stderr strings.Builder
	tracer.Stderr = &stderr
	if err := tracer.Start(); err != nil {
		return nil, fmt.Errorf("slow the disk of %s down: %w (it needs strace)", p.name, err)
	}
	var status error
	ended := make(chan struct{})
	go func() { defer close(ended); status = tracer.Wait() }()
	end = func() error {
		err := tracer.Process.Signal(syscall.SIGTERM) // it lets go of the process, then ends by the signal
		<-ended
		return err
	}
	tick := time.NewTicker(readyTick)
	defer tick.Stop()
	for {
		about, err := os.ReadFile("/proc/" + pid + "/status")
		if err == nil && !strings.Contains(string(about), "TracerPid:\t0\n") {
			return end, nil
		}
		select {
		case <-tick.C:
		case <-ended:
			return nil, fmt.Errorf("strace of %s ended: %w\n%s", p.name, status, stderr.String())
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), end())
		}
	}
}
