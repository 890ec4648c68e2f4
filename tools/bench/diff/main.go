// Command diff says whether two commits differ in speed. It builds quire from both, runs the two programs side by side on fresh
// data, and has wrk send the same requests to one and then to the other, in pairs with alternating order. A ratio is the
// second commit's rate divided by the first's, with the confidence interval of Student's t-test for paired samples
// (see internal/stats). The counters must agree with what was sent, and the audits must match.
//
// With -without the two sides are one commit: the services of the second share less (inprocess.Shared).
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"quire.dev/pkg/admin"
	"quire.dev/tools/bench/internal/account"
	"quire.dev/tools/bench/internal/stats"
	"quire.dev/tools/bench/internal/wrk"
	"quire.dev/tools/cluster"
)

type comparison struct {
	root, dir, base, head string
	without               string
	pairs                 int
	duration              time.Duration
	confidence            float64
	rows                  string
	folder                string
	sides                 [2]*side
}

// side is one of the two commits.
type side struct {
	name    string
	program string
	args    []string
	environ []string
	process *cluster.Process
	admin   admin.Client
	holders map[holder]*account.Account
	paste   string
}

func main() {
	c := &comparison{}
	flag.StringVar(&c.root, "root", ".", "folder of the project")
	flag.StringVar(&c.dir, "dir", "data", "folder for the data")
	flag.StringVar(&c.base, "base", "", "commit to compare with")
	flag.StringVar(&c.head, "head", "", "commit that is compared; none: the files of the folder as they are")
	flag.StringVar(&c.without, "without", "", "in place of -base: what the services of the second side do not share, some of reads,files,answers, or all")
	flag.IntVar(&c.pairs, "pairs", 15, "pairs of turns of each kind of request, 3 at least")
	flag.DurationVar(&c.duration, "duration", 3*time.Second, "length of one turn")
	flag.Float64Var(&c.confidence, "confidence", 0.95, "confidence of the interval, between 0 and 1")
	flag.StringVar(&c.rows, "rows", "256$|^get-1$|^create-1$", "kinds of requests, as a regular expression; all: "+names())
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := c.run(ctx)
	if err = errors.Join(err, c.close()); err != nil {
		fmt.Fprintln(os.Stderr, "diff:", err)
		stop()
		os.Exit(1)
	}
}

func (c *comparison) validate() (list []work, err error) {
	if (c.base == "") == (c.without == "") {
		return nil, errors.New("it needs -base, the commit to compare with, or -without")
	}
	if c.pairs < 3 || c.duration < time.Second || c.confidence <= 0 || c.confidence >= 1 {
		return nil, errors.New("it needs three pairs, turns of a second, and a confidence between 0 and 1")
	}
	pattern, err := regexp.Compile(c.rows)
	if err != nil {
		return nil, err
	}
	for _, w := range works() {
		if pattern.MatchString(w.name) {
			list = append(list, w)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no kind of request matches %q", c.rows)
	}
	return list, nil
}

func (c *comparison) run(ctx context.Context) error {
	list, err := c.validate()
	if err != nil {
		return err
	}
	if c.folder, err = wrk.Folder(c.dir, "diff-"); err != nil {
		return err
	}
	for i, commit := range []string{c.base, c.head} {
		if c.without != "" {
			c.sides[i], err = c.buildWithout(ctx, i)
		} else {
			c.sides[i], err = c.build(ctx, i, commit, "build", "./services/standalone/cmd/quire")
		}
		if err != nil {
			return err
		}
	}
	for _, s := range c.sides {
		if err := c.start(ctx, s, list); err != nil {
			return err
		}
	}
	fmt.Printf("%s against %s, %d pairs of %s, %.0f %% confidence\n", c.sides[1].name, c.sides[0].name, c.pairs, c.duration, 100*c.confidence)
	for _, w := range list {
		rate, cpu, err := c.compare(ctx, w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		fmt.Println(verdict(w.name, "faster", "slower", rate))
		fmt.Println(verdict("  CPU each", "more", "less", cpu))
	}
	for _, s := range c.sides {
		if err := s.check(ctx); err != nil {
			return fmt.Errorf("void: %s: %w", s.name, err)
		}
	}
	return nil
}

// verdict is the line of one figure, with the words for an increase and a decrease.
func verdict(name, up, down string, c stats.Change) string {
	percent := func(factor float64) float64 { return 100 * (factor - 1) }
	word := "no difference that this run can tell"
	switch {
	case c.Real() && c.Factor > 1:
		word = up
	case c.Real():
		word = down
	}
	return fmt.Sprintf("%-12s %+6.1f %%  (%+.1f to %+.1f %%)  %s", name, percent(c.Factor), percent(c.Low), percent(c.High), word)
}

// buildWithout builds the quire of the scenario tests, whose services can share less, as on the second side.
func (c *comparison) buildWithout(ctx context.Context, number int) (*side, error) {
	s, err := c.build(ctx, number, c.head, "test", "-c", "./services/standalone/scenario")
	if err != nil {
		return nil, err
	}
	s.args = []string{"-test.run=^TestChild$"}
	s.environ = []string{"SCENARIO_CHILD=1", "GOMEMLIMIT=192MiB", "GOGC=400"} // the memory limits of the command quire
	if number == 1 {
		s.args, s.name = append(s.args, "-without="+c.without), s.name+" without "+c.without
	}
	return s, nil
}

// build builds a program of a commit in a new worktree or, without a commit, from the project's files. The compiler inlines by the profile
// that the commit has, as make build does.
func (c *comparison) build(ctx context.Context, number int, commit string, command ...string) (*side, error) {
	source := c.root
	if commit != "" {
		source = filepath.Join(c.folder, fmt.Sprintf("source-%d", number))
		if err := run(ctx, c.root, "git", "worktree", "add", "--detach", "--force", source, commit); err != nil {
			return nil, err
		}
	}
	s := &side{name: cmp.Or(commit, "the files"), program: filepath.Join(c.folder, fmt.Sprintf("quire-%d", number)), holders: map[holder]*account.Account{}}
	return s, run(ctx, source, "go", slices.Insert(command, len(command)-1, "-trimpath", "-pgo=services/standalone/quire.pgo", "-o", s.program)...)
}

func run(ctx context.Context, folder, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, out)
	}
	return nil
}

// close ends the programs and removes data and worktrees.
func (c *comparison) close() error {
	var errs []error
	for i, s := range c.sides {
		if s != nil && s.process != nil && s.process.Running() {
			errs = append(errs, s.process.Kill())
		}
		source := filepath.Join(c.folder, fmt.Sprintf("source-%d", i))
		if _, err := os.Stat(source); c.folder != "" && err == nil {
			errs = append(errs, run(context.Background(), c.root, "git", "worktree", "remove", "--force", source))
		}
	}
	if c.folder != "" {
		errs = append(errs, os.RemoveAll(c.folder))
	}
	return errors.Join(errs...)
}

const startLimit = time.Minute

// start starts a side on fresh data, with what the kinds of requests in list need.
func (c *comparison) start(ctx context.Context, s *side, list []work) error {
	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	s.admin.Token = rand.Text()
	var err error
	s.process, err = cluster.StartServer(starting, s.program+".log", append(s.environ,
		"QUIRE_DATA="+s.program+"-data", "QUIRE_LISTEN=127.0.0.1:0", "QUIRE_ADMIN_TOKEN="+s.admin.Token,
	), s.program, s.args...)
	if err != nil {
		return err
	}
	s.admin.Base = s.process.URL()
	return c.prepare(ctx, s, list)
}

const warmUp = time.Second

// compare measures the pairs of one kind of request: requests a second, and the server's CPU time for each.
func (c *comparison) compare(ctx context.Context, w work) (rate, cpu stats.Change, err error) {
	var rates, each [2][]float64
	for _, s := range c.sides {
		if _, err := c.turn(ctx, s, w, warmUp); err != nil {
			return rate, cpu, err
		}
	}
	for pair := range c.pairs {
		for _, i := range order(pair) {
			m, err := c.turn(ctx, c.sides[i], w, c.duration)
			if err != nil {
				return rate, cpu, err
			}
			rates[i], each[i] = append(rates[i], m.rate), append(each[i], m.cpu)
		}
	}
	if rate, err = stats.Paired(rates[0], rates[1], c.confidence); err != nil {
		return rate, cpu, err
	}
	cpu, err = stats.Paired(each[0], each[1], c.confidence)
	return rate, cpu, err
}

// order alternates with each pair, so that the first turn's after-effects on the second even out.
func order(pair int) [2]int { return [2]int{pair % 2, 1 - pair%2} }
