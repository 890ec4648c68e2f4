// Command teststores runs the tests of pkg/views/postgres, pkg/views/mongo and pkg/blob/s3 against servers that it starts:
// PostgreSQL as it is installed, bin/ferretdb and bin/minio. Their data is removed at the end. It is run from the project's root and passes its arguments on to go test.
// A skipped test is an error.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"quire.dev/tools/cluster"
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
	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	var stores [2]*cluster.Cluster
	for i, store := range []string{cluster.PostgreSQL, cluster.MongoDB} {
		folder, err := os.MkdirTemp("", "quire-stores-")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
		if stores[i], err = cluster.StartStores(starting, cluster.Options{Root: ".", Dir: folder, Store: store}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stores[i].Close()) }()
	}
	return test(ctx, "QUIRE_POSTGRES_URL="+stores[0].PostgresURL(""), "QUIRE_MONGO_URL="+stores[1].MongoURL(),
		"QUIRE_S3_URL="+stores[0].S3URL(cluster.S3Root))
}

// stopWait is how long the tests may take to end after SIGTERM before they are killed.
const stopWait = 10 * time.Second

// test runs the tests and prints their output.
func test(ctx context.Context, environ ...string) error {
	arguments := append([]string{"test", "-count=1", "-v", "-timeout", "20m", "./views/postgres", "./views/mongo", "./blob/s3"}, os.Args[1:]...)
	c := exec.CommandContext(ctx, "go", arguments...)
	var output bytes.Buffer
	c.Dir, c.Env, c.Stdout, c.Stderr = "pkg", append(os.Environ(), environ...), io.MultiWriter(os.Stdout, &output), os.Stderr
	// The signal goes to the test programs as well, which are in the process group of go test.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = stopWait
	if err := c.Run(); err != nil {
		return err
	}
	passed := strings.Count(output.String(), "--- PASS")
	skipped := strings.Count(output.String(), "--- SKIP") + strings.Count(output.String(), "NOT TESTED")
	if passed == 0 || skipped > 0 {
		return fmt.Errorf("%d tests passed, %d lines report a skipped one", passed, skipped)
	}
	fmt.Printf("%d tests passed, none was skipped\n", passed)
	return nil
}
