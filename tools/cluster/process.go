package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"quire.dev/tools/cluster/scrape"
)

// Process is one program, which may be started and stopped many times, by one goroutine at a time.
type Process struct {
	name, service string
	program       string
	args          []string
	environ       func() []string // asked at each start
	ready         func(ctx context.Context) error
	host          *host
	url, ops      string
	log           string
	quit          syscall.Signal // asks for a graceful stop
	tree          bool           // it has child processes, which are paused and killed with it
	tick          time.Duration  // between two questions whether it is ready; 0: readyTick

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{} // closed once cmd has ended; nil before the first start
	exit  error
}

// listens matches what bin/quire prints when it serves.
var listens = regexp.MustCompile(`listens on (http://\S+)`)

// StartServer starts a server outside any cluster, and returns once it has printed its URL. Its output goes to
// the file log, which must not exist yet. It has the environment of Environment.
func StartServer(ctx context.Context, log string, settings []string, program string, args ...string) (*Process, error) {
	p := &Process{
		name: program, program: program, args: args, host: &host{}, log: log, quit: syscall.SIGTERM, tick: urlTick,
		environ: func() []string { return Environment(settings...) },
	}
	p.ready = func(context.Context) error {
		output, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		found := listens.FindSubmatch(output)
		if found == nil {
			return errors.New("it has not printed its URL")
		}
		p.url = string(found[1])
		return nil
	}
	if err := p.Start(ctx); err != nil {
		if p.Running() {
			err = errors.Join(err, p.Kill())
		}
		return nil, err
	}
	return p, nil
}

// Environment is the environment of this process without the settings of Quire and of Go's memory limit, with settings
// ("NAME=value") in their place.
func Environment(settings ...string) []string {
	var environ []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "QUIRE_") && !strings.HasPrefix(v, "GOMEMLIMIT=") {
			environ = append(environ, v)
		}
	}
	return append(environ, settings...)
}

// Name is "edge-0", "nats-2", "postgres-0".
func (p *Process) Name() string { return p.name }

// Service is "edge", "nats", "postgres".
func (p *Process) Service() string { return p.service }

// URL is where a server serves the API, or where clients connect to a store.
func (p *Process) URL() string { return p.url }

// Ops is the base URL of the pages for operators: /livez, /readyz and /metrics of a service, the monitoring of a NATS
// server. It is empty for the other stores.
func (p *Process) Ops() string { return p.ops }

// Log is the path of the output of all runs of the process.
func (p *Process) Log() string { return p.log }

// PID is the id of the running process, or 0.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.alive() {
		return 0
	}
	return p.cmd.Process.Pid
}

// Running reports whether the process runs.
func (p *Process) Running() bool { return p.PID() != 0 }

// alive must be called with the lock.
func (p *Process) alive() bool {
	if p.ended == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Start starts the process and returns once it is ready. If ctx ends earlier, that is an error and the process runs on.
func (p *Process) Start(ctx context.Context) error {
	if err := p.launch(); err != nil {
		return err
	}
	return p.AwaitReady(ctx)
}

func (p *Process) launch() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alive() {
		return fmt.Errorf("%s runs already", p.name)
	}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := p.host.command(p.program, p.args...)
	cmd.Env = p.environ()
	cmd.Stdout, cmd.Stderr = out, out
	// A separate process group shields it from Ctrl-C in a terminal: this process gets the signal and stops the others
	// in order. The kernel kills it when this process dies.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w (make cluster-programs builds the programs)", p.name, err)
	}
	ended := make(chan struct{})
	p.cmd, p.ended, p.exit = cmd, ended, nil
	go func() {
		err := cmd.Wait()
		p.mu.Lock()
		p.exit = err
		p.mu.Unlock()
		close(ended)
	}()
	return nil
}

const (
	readyTick    = 25 * time.Millisecond
	urlTick      = 5 * time.Millisecond // of a server outside of a cluster, whose starts are measured
	readyTimeout = 2 * time.Second      // of one question
)

// AwaitReady returns once the process is ready. It is an error if the process or ctx ends first.
func (p *Process) AwaitReady(ctx context.Context) error {
	tick := time.NewTicker(cmp.Or(p.tick, readyTick))
	defer tick.Stop()
	p.mu.Lock()
	ended := p.ended
	p.mu.Unlock()
	for {
		asking, cancel := context.WithTimeout(ctx, readyTimeout)
		err := p.ready(asking)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ended:
			return fmt.Errorf("%s ended before it was ready: %w\n%s", p.name, p.status(), p.Tail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w (%w)\n%s", p.name, err, ctx.Err(), p.Tail())
		}
	}
}

func (p *Process) status() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exit == nil {
		return errors.New("exit status 0")
	}
	return p.exit
}

// tailBytes is how much of a log an error shows.
const tailBytes = 2000

// Use has the process run the program of the same name in another folder, from its next start on.
func (p *Process) Use(bin string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.program = filepath.Join(bin, filepath.Base(p.program))
}

// Tail is the end of the log.
func (p *Process) Tail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-tailBytes):])
}

// Signal sends a signal to the process. It is an error if the process does not run.
func (p *Process) Signal(signal syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.alive() {
		return fmt.Errorf("%s does not run", p.name)
	}
	var children []string
	if p.tree && (signal == syscall.SIGSTOP || signal == syscall.SIGCONT || signal == syscall.SIGKILL) {
		id := strconv.Itoa(p.cmd.Process.Pid)
		list, err := os.ReadFile("/proc/" + id + "/task/" + id + "/children")
		if err != nil {
			return err
		}
		children = strings.Fields(string(list))
	}
	err := p.cmd.Process.Signal(signal)
	for _, child := range children {
		id, convErr := strconv.Atoi(child)
		if convErr != nil {
			return convErr
		}
		if killErr := syscall.Kill(id, signal); killErr != nil && !errors.Is(killErr, syscall.ESRCH) { // it may have ended
			err = errors.Join(err, killErr)
		}
	}
	return err
}

// Stop ends the process gracefully and waits for its end. An exit status other than 0 is an error. The process is killed
// if ctx ends first.
func (p *Process) Stop(ctx context.Context) error {
	// A paused process takes no signal except SIGCONT.
	if err := errors.Join(p.Resume(), p.Signal(p.quit)); err != nil {
		return err
	}
	select {
	case <-p.ended:
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s did not stop: %w\n%s", p.name, ctx.Err(), p.Tail()), p.Kill())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exit != nil {
		return fmt.Errorf("%s ended with %w\n%s", p.name, p.exit, p.Tail())
	}
	return nil
}

// Kill ends the process by SIGKILL and waits for its end.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.ended
	return nil
}

// Pause keeps the process from running until Resume.
func (p *Process) Pause() error { return p.Signal(syscall.SIGSTOP) }

// Resume lets a paused process run again.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Restart is Stop and Start.
func (p *Process) Restart(ctx context.Context) error {
	if err := p.Stop(ctx); err != nil {
		return err
	}
	return p.Start(ctx)
}

// answers returns a check that passes once a GET of url is answered with 200.
func answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := scrape.Get(ctx, url)
		return err
	}
}

// accepts returns a check that passes once address accepts a connection.
func accepts(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}
