// Command bench measures quire: metered requests beside a bare Fiber handler that returns the same bytes, and what they
// cost in time, bytes and memory. Each figure has a target, and the report says whether it is met. docs/performance.md
// explains the rows.
//
// The servers take turns in one run, on the machine of the load generator. A figure is the median of the rounds. Each group of
// rows begins on fresh data with default settings. Afterwards the counters must agree with the requests that
// were completed, and the audit must match: otherwise the run is void, and so is a run in which a request failed that must not.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/google/pprof/profile"

	"quire.dev/tools/bench/internal/load"
	"quire.dev/tools/bench/internal/report"
	"quire.dev/tools/bench/internal/stats"
	"quire.dev/tools/bench/internal/wrk"
	"quire.dev/tools/cluster"
)

// effort is how long it measures.
type effort struct {
	rounds      int
	transfers   int           // of 50 MB in a round
	duration    time.Duration // of one turn
	open        time.Duration // of one open loop
	aging       time.Duration // of the creations whose rate is followed
	pastes      int           // of the large data set
	diskPastes  int           // of the row "disk"
	starts      int           // of each kind
	connections []int
}

type bench struct {
	effort
	quire, root, dir, results string
	smoke, must               bool

	chosen   map[string]row
	report   *report.Report
	profiles map[string]*profile.Profile // by kind of request
	folder   string                      // scripts, data and logs; removed at the end
	servers  int
	running  []*server
	bare     []*cluster.Process
}

func main() {
	b := &bench{profiles: map[string]*profile.Profile{}, effort: effort{
		rounds: 5, transfers: 4, duration: 4 * time.Second, open: time.Minute, aging: 64 * time.Second, pastes: 1_200_000,
		diskPastes: 50_000, starts: 3, connections: connectionCounts(),
	}}
	flag.StringVar(&b.quire, "quire", "bin/quire", "program to measure")
	flag.StringVar(&b.root, "root", ".", "folder of the project")
	flag.StringVar(&b.dir, "dir", "data", "folder for the data; the speed of its disk is part of the figures")
	flag.StringVar(&b.results, "results", "tools/bench/results", "folder for the report and its plots")
	flag.IntVar(&b.rounds, "rounds", b.rounds, "rounds of each row")
	flag.DurationVar(&b.duration, "duration", b.duration, "length of one turn")
	flag.DurationVar(&b.open, "open", b.open, "length of one open loop")
	flag.IntVar(&b.pastes, "pastes", b.pastes, "pastes of the large data set")
	pattern := flag.String("rows", "", "rows to measure, as a regular expression of their ids; none: all")
	flag.BoolVar(&b.must, "must", false, "a target that is missed is an error")
	flag.BoolVar(&b.smoke, "smoke", false, "short turns of few rows, to try this command; the figures mean nothing")
	list := flag.Bool("list", false, "list the rows with their targets")
	bareList := flag.String("serve-bare", "", "internal: run the bare handler with the answers in this file")
	plan := flag.String("open-loop", "", "internal: run the open loop of this plan")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	switch {
	case *bareList != "":
		exit(serveBare(*bareList))
	case *plan != "":
		exit(serveOpenLoop(ctx, *plan))
	case *list:
		for _, r := range catalogue() {
			fmt.Printf("%-20s %s\n", r.id, r.title)
		}
		exit(nil)
	}
	if b.smoke {
		b.effort = effort{
			rounds: 1, transfers: 1, duration: time.Second, open: time.Second, aging: 2 * time.Second, pastes: 2000, diskPastes: 500,
			starts: 1, connections: []int{32},
		}
		if *pattern == "" {
			*pattern = "^get-32$|^bad-key$|^upload$|^open-get|^disk$"
		}
	}
	var err error
	if b.chosen, err = choose(catalogue(), *pattern); err != nil {
		exit(err)
	}
	err = b.run(ctx)
	exit(errors.Join(err, b.close()))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// close stops what is still running and removes all data.
func (b *bench) close() error {
	err := b.closeServers()
	if b.folder != "" {
		err = errors.Join(err, os.RemoveAll(b.folder))
	}
	return err
}

// closeServers stops the servers of a group, so that the next one has the machine to itself.
func (b *bench) closeServers() error {
	var errs []error
	for _, s := range b.running {
		errs = append(errs, s.close())
	}
	for _, p := range b.bare {
		if p.Running() {
			errs = append(errs, p.Kill())
		}
	}
	b.running, b.bare = nil, nil
	return errors.Join(errs...)
}

// showLogs shows the ends of the logs of the servers, whose folders will be removed.
func (b *bench) showLogs() {
	for _, s := range b.running {
		if s.process != nil {
			fmt.Fprintf(os.Stderr, "%s:\n%s\n", s.name, s.process.Tail())
		}
	}
}

func (b *bench) printf(format string, args ...any) { fmt.Printf(format, args...) }

// void notes why no figure of this run counts.
func (b *bench) void(format string, args ...any) {
	fault := fmt.Sprintf(format, args...)
	b.report.Void = append(b.report.Void, fault)
	b.printf("VOID: %s\n", fault)
}

// wants reports whether one of the rows was chosen.
func (b *bench) wants(ids ...string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { _, ok := b.chosen[id]; return ok })
}

// note adds the figure of a row that was chosen: the median of its rounds.
func (b *bench) note(id string, rounds []float64, note string) { b.noteFor(id, 0, rounds, note) }

// noteFor is note with a target that follows from other figures. A row without rounds was not measured.
func (b *bench) noteFor(id string, target float64, rounds []float64, note string) {
	r, ok := b.chosen[id]
	if !ok || len(rounds) == 0 {
		return
	}
	if target == 0 {
		target = r.target
	}
	found := report.Row{
		ID: r.id, Title: r.title, Unit: r.unit, Figure: stats.Median(rounds), Rounds: rounds, Target: target, AtMost: r.most, Note: note,
	}
	b.report.Rows = append(b.report.Rows, found)
	b.printf("%s\n", found)
}

// groups has the measurements of the groups in their order.
func (b *bench) groups() []struct {
	name    string
	measure func(context.Context) error
} {
	return []struct {
		name    string
		measure func(context.Context) error
	}{
		{rates, b.measureRates},
		{refusals, b.measureRefusals},
		{transfers, b.measureTransfers},
		{openLoop, b.measureOpenLoop},
		{age, b.measureAge},
		{disk, b.measureDisk},
		{million, b.measureMillion},
		{generations, b.measureGenerations},
		{clusters, b.measureClusters},
	}
}

func (b *bench) run(ctx context.Context) error {
	var err error
	if b.folder, err = wrk.Folder(b.dir, "bench-"); err != nil {
		return err
	}
	if b.report, err = report.Begin(ctx, b.root, b.folder); err != nil {
		return err
	}
	for _, g := range b.groups() {
		if !slices.ContainsFunc(catalogue(), func(r row) bool { return r.group == g.name && b.wants(r.id) }) {
			continue
		}
		b.printf("\n%s\n", g.name)
		if err := g.measure(ctx); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			// The other groups may still be useful, and a whole run takes long.
			b.void("%s was not measured: %v", g.name, err)
			b.showLogs()
		}
		if err := b.closeServers(); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	if err := b.report.Publish(b.results); err != nil {
		return err
	}
	if len(b.profiles) > 0 {
		if err := writeProfiles(b.results, b.profiles); err != nil {
			return err
		}
	}
	if missed := b.report.Missed(); b.must && missed > 0 {
		return fmt.Errorf("%d of %d targets are missed", missed, len(b.report.Rows))
	}
	return nil
}

// serveOpenLoop runs an open loop and prints its outcome.
func serveOpenLoop(ctx context.Context, text string) error {
	var plan load.Plan
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		return err
	}
	outcome, err := load.Open(ctx, plan)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(outcome)
}
