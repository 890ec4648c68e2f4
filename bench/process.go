package main

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

// child is a server under test.
type child struct {
	name string
	cmd  *exec.Cmd
	url  string
}

var listens = regexp.MustCompile(`listens on (http://\S+)`)

const (
	startLimit = 60 * time.Second
	stopLimit  = 60 * time.Second
)

// start runs a server until it says where it listens. Both get the same limits.
func start(ctx context.Context, name, binary string, args, env []string) (*child, error) {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(cleanEnvironment(), append(env, "GOMEMLIMIT=350MiB")...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c := &child{name: name, cmd: cmd}
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
		c.url = url
		return c, nil
	case <-time.After(startLimit):
		return nil, errors.Join(fmt.Errorf("%s did not start in %s", name, startLimit), cmd.Process.Kill())
	}
}

// stop ends the server, and says so when it does not end in an orderly way.
func (c *child) stop() error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.cmd.Wait() }()
	select {
	case err := <-ended:
		if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == -1 {
			return nil // by the signal, which the bare handler does not catch
		}
		if err != nil {
			return fmt.Errorf("stop %s: %w", c.name, err)
		}
		return nil
	case <-time.After(stopLimit):
		return errors.Join(fmt.Errorf("%s did not stop in %s", c.name, stopLimit), c.cmd.Process.Kill())
	}
}

// cleanEnvironment is ours without the settings of quire.
func cleanEnvironment() []string {
	var out []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "QUIRE_") && !strings.HasPrefix(v, "GOMEMLIMIT=") {
			out = append(out, v)
		}
	}
	return out
}
