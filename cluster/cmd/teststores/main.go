// Command teststores runs the tests that need a server of the MongoDB protocol and one of S3, against such servers
// of its own: bin/ferretdb and bin/minio, on free ports, with data that goes when it ends. Run it from the project's
// root; its arguments are passed on to go test. It fails where a test was skipped, since none may be.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

func main() {
	runtime.LockOSThread() // the thread whose end ends the children: see start
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "teststores:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	folder, err := os.MkdirTemp("", "quire-stores-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	addresses, err := freeAddresses(2)
	if err != nil {
		return err
	}
	ferretdb, minio := addresses[0], addresses[1]
	ctx, cancel := context.WithCancel(ctx)
	var servers []*exec.Cmd
	defer func() { // before their data goes
		cancel()
		for _, s := range servers {
			_ = s.Wait() // it was told to end
		}
	}()
	for _, s := range []*exec.Cmd{
		exec.CommandContext(ctx, "bin/ferretdb", "-listen", ferretdb, "-data", filepath.Join(folder, "ferretdb")),
		exec.CommandContext(ctx, "bin/minio", "server", "--quiet", "--address", minio, filepath.Join(folder, "minio")),
	} {
		s.Env = append(os.Environ(), "MINIO_ROOT_USER=quire", "MINIO_ROOT_PASSWORD=quire-secret", "MINIO_BROWSER=off", "MINIO_UPDATE=off", "CI=true")
		log, err := os.Create(filepath.Join(folder, filepath.Base(s.Path)+".log"))
		if err != nil {
			return err
		}
		defer log.Close()
		s.Stdout, s.Stderr = log, log
		if err := start(s); err != nil {
			return err
		}
		servers = append(servers, s)
	}
	if err := ready(ctx, ferretdb, "http://"+minio+"/minio/health/ready"); err != nil {
		return errors.Join(err, logs(folder))
	}
	return test(ctx, "QUIRE_MONGO_URL=mongodb://"+ferretdb+"/", "QUIRE_S3_URL=http://quire:quire-secret@"+minio)
}

// stopWait is how long a process may take to end before it is killed.
const stopWait = 10 * time.Second

// start starts a process that is told to end when its context does, and killed when this process dies.
func start(c *exec.Cmd) error {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = stopWait
	return c.Start()
}

// freeAddresses gives addresses that nobody listens at. Somebody may before they are used: then the start fails.
func freeAddresses(count int) ([]string, error) {
	var addresses []string
	for range count {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // in the end, or the next one might get the same
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}

// ready waits until both servers answer.
func ready(ctx context.Context, mongo, minioHealth string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for {
		err := errors.Join(accepts(ctx, mongo), healthy(ctx, minioHealth))
		if err == nil {
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("the servers are not ready: %w", err)
		}
	}
}

func accepts(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

func healthy(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

// logs is what the servers had to say.
func logs(folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.log"))
	errs := []error{err}
	for _, file := range files {
		text, err := os.ReadFile(file)
		errs = append(errs, err, fmt.Errorf("%s:\n%s", filepath.Base(file), text))
	}
	return errors.Join(errs...)
}

// test runs the tests and shows what they print.
func test(ctx context.Context, environ ...string) error {
	arguments := append([]string{"test", "-count=1", "-v", "-timeout", "20m", "./views/mongo", "./blob/s3"}, os.Args[1:]...)
	c := exec.CommandContext(ctx, "go", arguments...)
	c.Dir, c.Env, c.Stderr = "pkg", append(os.Environ(), environ...), os.Stderr
	output, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := start(c); err != nil {
		return err
	}
	passed, skipped := 0, 0
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		fmt.Println(line)
		if strings.Contains(line, "--- PASS") {
			passed++
		}
		if strings.Contains(line, "--- SKIP") || strings.Contains(line, "NOT TESTED") {
			skipped++
		}
	}
	if err := errors.Join(lines.Err(), c.Wait()); err != nil {
		return err
	}
	if passed == 0 || skipped > 0 {
		return fmt.Errorf("%d tests passed, %d lines tell of one that was skipped", passed, skipped)
	}
	fmt.Printf("%d tests passed, none was skipped\n", passed)
	return nil
}
