package scenario

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
)

var processes = flag.String("processes", "one", "what quire runs as: one process or many")

// shared is the instance that common returns.
var shared struct {
	once   sync.Once
	i      *instance
	folder string
	err    error
	failed atomic.Bool // a test that used it has failed
}

func parse() error {
	flag.Parse()
	if *processes != "one" && *processes != "many" {
		return fmt.Errorf("-processes=%s: one or many", *processes)
	}
	return nil
}

// newQuire makes a Quire with its data in one folder and logs, if any, in another. It does not run yet.
func newQuire(folder, logs string) quire {
	if *processes == "many" {
		return &manyProcesses{folder: folder, logs: logs}
	}
	return newOneProcess(folder)
}

// logger discards everything unless QUIRE_TEST_LOG is set.
func logger() *slog.Logger {
	if os.Getenv("QUIRE_TEST_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
