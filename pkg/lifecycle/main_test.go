package lifecycle_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"quire.dev/pkg/lifecycle"
)

// The test binary runs itself again as the main function that this variable names.
const childVariable = "LIFECYCLE_TEST_CHILD"

func TestMain(m *testing.M) {
	mains := map[string]func(context.Context) error{
		"good":   func(context.Context) error { return nil },
		"failed": func(context.Context) error { return errors.New("port in use") },
		"panics": func(context.Context) error { panic("broken") },
		"stops": func(ctx context.Context) error {
			fmt.Println("ready")
			<-ctx.Done()
			fmt.Println("stopping")
			return ctx.Err()
		},
		"hangs": func(ctx context.Context) error {
			fmt.Println("ready")
			<-ctx.Done()
			fmt.Println("stopping")
			select {}
		},
	}
	if run, ok := mains[os.Getenv(childVariable)]; ok {
		os.Exit(lifecycle.Main(run))
	}
	os.Exit(m.Run())
}

func TestMainGivesTheExitStatus(t *testing.T) {
	stop := []os.Signal{syscall.SIGTERM}
	tests := []struct {
		child   string
		signals []os.Signal // one for each line that the child prints
		status  int
		stderr  string
	}{
		{"good", nil, 0, ""},
		{"failed", nil, 1, "port in use\n"},
		{"panics", nil, 1, "panic: broken"},
		{"stops", stop, 0, ""},
		{"stops", []os.Signal{syscall.SIGINT}, 0, ""},
		{"hangs", []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, 128 + 15, ""},
		{"hangs", []os.Signal{syscall.SIGTERM, syscall.SIGINT}, 128 + 2, ""},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.child, test.signals), func(t *testing.T) {
			binary, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), binary)
			cmd.Env = append(os.Environ(), childVariable+"="+test.child)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for _, signal := range test.signals {
				if !lines.Scan() {
					t.Fatal("the child ended early")
				}
				if err := cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
			}
			for lines.Scan() { // to the end, as Wait closes the pipe
			}
			err = cmd.Wait()
			if status := cmd.ProcessState.ExitCode(); status != test.status {
				t.Errorf("it ends with %d (%v), want %d", status, err, test.status)
			}
			if !strings.HasPrefix(stderr.String(), test.stderr) || test.stderr == "" && stderr.Len() > 0 {
				t.Errorf("it prints %q, want %q", stderr.String(), test.stderr)
			}
		})
	}
}
