package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is one program of a cluster. It may be started and stopped again and again; one goroutine at a time does so.
type Process struct {
	name, service string
	program       string
	args          []string
	environ       func() []string
	ready         func(ctx context.Context) error // nil once it is
	host          *host
	url, ops      string
	log           string
	quit          syscall.Signal // for an orderly stop

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has ended; nil before the first start
	exit  error
}

// Name is "edge-0", "nats-2", "mongo".
func (p *Process) Name() string { return p.name }

// URL is where an edge serves the API, or how a store is reached.
func (p *Process) URL() string { return p.url }

// Ops is the base of /livez, /readyz and /metrics of an instance of Quire.
func (p *Process) Ops() string { return p.ops }

// Log is the path of what the process wrote, of all its lives.
func (p *Process) Log() string { return p.log }

// PID of the running process, 0 where none runs.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.alive() {
		return 0
	}
	return p.cmd.Process.Pid
}

// Running tells whether the process lives.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.alive()
}

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

// Start starts the process and returns once it is ready. When it is not before ctx ends it is left running.
func (p *Process) Start(ctx context.Context) error {
	if err := p.Launch(); err != nil {
		return err
	}
	return p.AwaitReady(ctx)
}

// Launch starts the process without waiting until it is ready.
func (p *Process) Launch() error {
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
	// A terminal's Ctrl-C is for the one who started the cluster, who then stops it in order. It must not outlive that one.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w (make cluster-programs builds it)", p.name, err)
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

// poll is how often readiness is asked for.
const poll = 25 * time.Millisecond

// AwaitReady returns once the process is ready, or with an error when it ends or ctx does.
func (p *Process) AwaitReady(ctx context.Context) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	p.mu.Lock()
	ended := p.ended
	p.mu.Unlock()
	for {
		err := p.ready(ctx)
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

// tailBytes of a log are shown with an error.
const tailBytes = 2000

// Tail is the end of the log.
func (p *Process) Tail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	if len(data) > tailBytes {
		data = data[len(data)-tailBytes:]
		if at := strings.IndexByte(string(data), '\n'); at >= 0 {
			data = data[at+1:]
		}
	}
	return string(data)
}

// Signal sends one.
func (p *Process) Signal(signal syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.alive() {
		return fmt.Errorf("%s does not run", p.name)
	}
	return p.cmd.Process.Signal(signal)
}

// Stop ends the process in order and waits; it is an error when it does not end with status 0. When ctx ends first it
// is killed.
func (p *Process) Stop(ctx context.Context) error {
	if err := errors.Join(p.Signal(syscall.SIGCONT), p.Signal(p.quit)); err != nil {
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

// Kill ends the process by SIGKILL and waits.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.ended
	return nil
}

// Pause stops the process from running, Resume has it go on.
func (p *Process) Pause() error { return p.Signal(syscall.SIGSTOP) }

// Resume has a paused process go on.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Restart stops and starts.
func (p *Process) Restart(ctx context.Context) error {
	if err := p.Stop(ctx); err != nil {
		return err
	}
	return p.Start(ctx)
}

var probe = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// answers is ready when a GET is answered with 200.
func answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := probe.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", url, response.Status)
		}
		return nil
	}
}

// accepts is ready when a connection is accepted.
func accepts(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}
