// Command teststores runs the tests that need a server of the MongoDB protocol and one of S3, against such servers
// of its own: bin/ferretdb and bin/minio, on free ports, with data that goes when it ends. Run it from the project's
// root; its arguments are passed on to go test. It fails where a test was skipped, since none may be.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"quire.dev/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "teststores:", err)
		stop()
		os.Exit(1)
	}
}

const startLimit = time.Minute

func run(ctx context.Context) (err error) {
	folder, err := os.MkdirTemp("", "quire-stores-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	stores, err := cluster.StartStores(starting, cluster.Options{Root: ".", Dir: folder})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stores.Close()) }() // before their data goes
	return test(ctx, "QUIRE_MONGO_URL="+stores.MongoURL(), "QUIRE_S3_URL="+stores.S3URL())
}

// stopWait is how long the tests may take to end, once they are told to, before they are killed.
const stopWait = 10 * time.Second

// test runs the tests and shows what they print.
func test(ctx context.Context, environ ...string) error {
	arguments := append([]string{"test", "-count=1", "-v", "-timeout", "20m", "./views/mongo", "./blob/s3"}, os.Args[1:]...)
	c := exec.CommandContext(ctx, "go", arguments...)
	c.Dir, c.Env, c.Stderr = "pkg", append(os.Environ(), environ...), os.Stderr
	output, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = stopWait
	if err := c.Start(); err != nil {
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
