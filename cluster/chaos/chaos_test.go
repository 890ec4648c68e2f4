// Package chaos has the failure runs of a cluster: `make chaos-cluster`. Each process has a network namespace of its
// own. While a crowd of clients is at work something fails; then everything that was acknowledged is compared with what
// is there. What clients saw meanwhile is reported, not judged, but where a fault must not be noticed at all.
package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"quire.dev/cluster"
	"quire.dev/cluster/clustertest"
	"quire.dev/cluster/load"
)

var (
	run   = flag.Bool("chaos", false, "run: `make chaos-cluster` prepares what it takes")
	only  = flag.String("chaos.only", "", "regular expression of the faults to run")
	seed  = flag.Uint64("chaos.seed", 1, "of the clients' choices")
	quiet = flag.Duration("chaos.hold", 8*time.Second, "how long a fault lasts")
	keep  = flag.String("chaos.dir", "", "folder of data and logs, which stays; default: a temporary one")
)

const (
	partitions   = 4
	startLimit   = 2 * time.Minute
	recoverLimit = 90 * time.Second
	settleLimit  = 4 * time.Minute // a hold that nobody settles is given back after two
)

// TestFaults lets one thing after another fail in one cluster.
func TestFaults(t *testing.T) {
	if !*run {
		t.Skip("a failure run: make chaos-cluster")
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	var table strings.Builder
	for _, f := range faults() {
		if wanted.MatchString(f.name) {
			t.Run(f.name, func(t *testing.T) { b.try(t, f, &table) })
		}
	}
	t.Run("at rest", b.rest)
	t.Logf("what clients saw (seed %d, %s a fault):\n%s%s", *seed, *quiet, heading, table.String())
}

// bench is a cluster with clients.
type bench struct {
	c    *cluster.Cluster
	load *load.Load
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := *keep
	if dir == "" {
		dir = t.TempDir()
	}
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(ctx, cluster.Options{
		Root: root, Dir: dir, Partitions: partitions, Isolated: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("stop the cluster: %v", err)
		}
	})
	// The crowd leaves the processors some room: they are shared with everything that has to recover.
	l, err := load.New(ctx, load.Config{Bases: c.Edges(), AdminToken: c.AdminToken(), Seed: *seed, Workers: 6, Pace: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return &bench{c: c, load: l}
}

// try runs the clients, has something fail, waits until all works again, and checks.
func (b *bench) try(t *testing.T, f fault, table *strings.Builder) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan struct{})
	go func() { defer close(done); b.load.Run(ctx) }()
	b.awaitWork(t)
	b.load.Mark()
	if err := f.inject(t, b); err != nil {
		t.Errorf("%s: %v", f.name, err)
	}
	b.awaitReady(t)
	b.awaitWork(t)
	report := b.load.Gaps()
	stop()
	<-done
	table.WriteString(row(f.name, report))
	if f.unnoticed {
		for _, s := range report {
			if s.Base == load.AllBases && s.Unknown > 0 {
				t.Errorf("%s: %d calls of kind %s were left without an answer; none may be", f.name, s.Unknown, s.Kind)
			}
		}
	}
	t.Logf("\n%s", report)
	b.verify(t)
}

const heading = "fault                          longest gap between two successes: read   lite  paste   file  admin    503s  unknown\n"

func row(name string, r load.Report) string {
	line := fmt.Sprintf("%-62s", name)
	var unavailable, unknown int64
	for _, kind := range []load.Kind{load.Read, load.Lite, load.Paste, load.File, load.Admin} {
		s := r.Of(kind, load.AllBases)
		line += fmt.Sprintf(" %5.1fs", s.Gap.Seconds())
		unavailable += s.Unavailable
		unknown += s.Unknown
	}
	return line + fmt.Sprintf(" %7d %8d\n", unavailable, unknown)
}

// awaitWork returns once each kind of call succeeds again, many times.
func (b *bench) awaitWork(t *testing.T) {
	t.Helper()
	for _, kind := range []load.Kind{load.Read, load.Lite, load.Paste, load.File, load.Admin} {
		more := b.load.Acked(kind) + 5
		clustertest.Eventually(t, recoverLimit, "calls of kind "+string(kind)+" succeed", func() error {
			if got := b.load.Acked(kind); got < more {
				return fmt.Errorf("%d successes, want %d", got, more)
			}
			return nil
		})
	}
}

// awaitReady returns once every process says that it is ready.
func (b *bench) awaitReady(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), recoverLimit)
	defer cancel()
	for _, p := range b.c.Processes("") {
		if !p.Running() {
			t.Fatalf("%s does not run:\n%s", p.Name(), p.Tail())
		}
		if err := p.AwaitReady(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// verify holds everything to what was promised, with no clients at work.
func (b *bench) verify(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), recoverLimit)
	defer cancel()
	if err := errors.Join(b.load.Verify(ctx), b.load.Audit(ctx)); err != nil {
		t.Error(err)
	}
}

// rest waits until nothing is left open, and checks once more.
func (b *bench) rest(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), settleLimit)
	defer cancel()
	if err := b.load.Settled(ctx, b.openHolds); err != nil {
		t.Error(err)
	}
	b.verify(t)
	for _, p := range b.c.Processes("nats") {
		log, err := os.ReadFile(p.Log())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, "Violation") {
				t.Errorf("%s: a service may not do what it does: %s", p.Name(), line)
				break
			}
		}
	}
}

// openHolds are those of all partitions, as all their folders see them.
func (b *bench) openHolds(ctx context.Context) (int64, error) {
	var bases []string
	for _, p := range b.c.Processes("billing") {
		bases = append(bases, p.Ops())
	}
	return load.OpenHolds(ctx, bases...)
}

// names of the processes of some services, in order.
func (b *bench) processes(services ...string) []*cluster.Process {
	var of []*cluster.Process
	for _, s := range services {
		of = append(of, b.c.Processes(s)...)
	}
	return slices.Clip(of)
}
