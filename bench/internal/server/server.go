// Package server starts one server under test and finds out where it listens.
package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// Server is a process under test.
type Server struct {
	URL string // where it listens

	name string
	cmd  *exec.Cmd
}

var listens = regexp.MustCompile(`listens on (http://\S+)`)

const (
	startLimit = 60 * time.Second
	stopLimit  = 60 * time.Second
)

// Start runs a server, with env beside what CleanEnvironment leaves of ours, and returns once it has said where it
// listens. It is killed when ctx ends.
func Start(ctx context.Context, name, binary string, args, env []string) (*Server, error) {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(CleanEnvironment(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	s := &Server{name: name, cmd: cmd}
	found := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if m := listens.FindStringSubmatch(lines.Text()); m != nil {
				select {
				case found <- m[1]:
				default:
				}
			}
		}
		_, _ = io.Copy(io.Discard, out)
		close(found)
	}()
	select {
	case url, ok := <-found:
		if !ok {
			return nil, errors.Join(fmt.Errorf("%s ended at once", name), cmd.Wait())
		}
		s.URL = url
		return s, nil
	case <-time.After(startLimit):
		return nil, errors.Join(fmt.Errorf("%s did not start in %s", name, startLimit), cmd.Process.Kill())
	}
}

// PID of the process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Kill ends the server at once, if it still runs, and waits.
func (s *Server) Kill() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

// Stop ends the server and waits; it is an error when that does not end in an orderly way.
func (s *Server) Stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", s.name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.cmd.Wait() }()
	select {
	case err := <-ended:
		if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == -1 {
			return nil // by the signal, which the bare handler does not catch
		}
		if err != nil {
			return fmt.Errorf("stop %s: %w", s.name, err)
		}
		return nil
	case <-time.After(stopLimit):
		return errors.Join(fmt.Errorf("%s did not stop in %s", s.name, stopLimit), s.cmd.Process.Kill())
	}
}

// CleanEnvironment is ours without the settings of quire.
func CleanEnvironment() []string {
	var out []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "QUIRE_") && !strings.HasPrefix(v, "GOMEMLIMIT=") {
			out = append(out, v)
		}
	}
	return out
}
