package scenario

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"quire.dev/pkg/inprocess"
	"quire.dev/pkg/payments/stripe/stripetest"
	"quire.dev/services/standalone"
)

var (
	processes = flag.String("processes", "one", "what quire runs as: one process or many")
	// PostgreSQL by default.
	readModelStore = flag.String("store", "", "what has the read models of many processes: postgres or mongo")
	without        = flag.String("without", "", "what services of one process do not share: some of reads,files,answers, or all")
)

// shared is the instance that common returns.
var shared struct {
	once   sync.Once
	i      *instance
	stripe *stripetest.Server // takes its payments
	folder string
	err    error
	failed atomic.Bool // a test that used it has failed
}

func parse() error {
	flag.Parse()
	if *processes != "one" && *processes != "many" {
		return fmt.Errorf("-processes=%s: one or many", *processes)
	}
	if _, err := unshare(inprocess.Shared{}, *without); err != nil {
		return err
	}
	if *without != "" && *processes == "many" {
		return errors.New("-without: many processes share nothing")
	}
	return nil
}

// unshare takes the named fields away.
func unshare(s inprocess.Shared, names string) (inprocess.Shared, error) {
	for name := range strings.SplitSeq(names, ",") {
		switch name {
		case "":
		case "reads":
			s.Reads = nil
		case "files":
			s.Files = nil
		case "answers":
			s.Answers = nil
		case "all":
			s = inprocess.Shared{}
		default:
			return s, fmt.Errorf("-without=%s: unknown field %q", names, name)
		}
	}
	return s, nil
}

// deps are those of a Quire in this process.
func deps() standalone.Deps {
	share := func(s inprocess.Shared) inprocess.Shared {
		s, _ = unshare(s, *without) // parse has checked the names
		return s
	}
	return standalone.Deps{Logger: logger(), Shared: share, RenderCommand: renderCommand()}
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
