package standalone

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/plan"
)

var (
	attackRounds = flag.Int("attack.rounds", 2, "how often TestMoneyUnderAttack kills quire")
	attackCalls  = flag.Int64("attack.calls", 300, "operations before each kill of TestMoneyUnderAttack, at most")
	attackSeed   = flag.Uint64("attack.seed", 0, "what TestMoneyUnderAttack draws; 0 draws one")
)

const attackWorkers = 20

// attack is clients that try to spend more or less than they should. Each operation is retried under its own Idempotency-Key until
// its answer is definite, so that the clients know every charge.
type attack struct {
	server   *attackServer
	accounts []*attackAccount
	workers  []*attackWorker
	keys     atomic.Int64
	done     atomic.Int64 // operations with a definite answer

	mu     sync.Mutex
	counts map[string]int
	faults []string
}

// TestMoneyUnderAttack kills quire at random instants, and at a month's end, while clients use up quotas and credits, and caps, keys,
// plans and credits change. Then every figure that quire shows must be the sum of what it answered, before and after its state
// is folded again from the journal.
func TestMoneyUnderAttack(t *testing.T) {
	t.Parallel()
	seed := *attackSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	random := rand.New(rand.NewPCG(seed, seed))
	t.Logf("seed %d: again with -args -attack.seed=%d", seed, seed)
	a := &attack{server: newAttackServer(), counts: map[string]int{}}
	folder := filepath.Join(t.TempDir(), "data")
	// It begins three days before a month's end.
	now := time.Now().UTC()
	month := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	if month.Sub(now) < 4*24*time.Hour {
		month = month.AddDate(0, 1, 0)
	}
	start := func(at time.Time) *child {
		t.Helper()
		if !at.IsZero() {
			a.server.offset.Store(int64(time.Until(at)))
		}
		c := launch(t, folder, "QUIRE_DEV=1", "QUIRE_CLOCK_OFFSET="+time.Duration(a.server.offset.Load()).String(),
			"QUIRE_TRUSTED_PROXIES=127.0.0.0/8", "QUIRE_UNMETERED_RATE=100000", "QUIRE_REGISTER_LIMIT=100")
		a.server.arrive(c.base)
		return c
	}
	c := start(month.AddDate(0, 0, -3))
	a.gather(t, seed)
	end := *attackRounds / 2
	for round := range *attackRounds {
		stop := a.run(t)
		if round == end {
			// All operations were answered before the clock moved. Under load it passes the month's end, within a second of the kill.
			at := month.Add(time.Duration(random.IntN(2000)-1000) * time.Millisecond)
			eventually.True(t, "the month ends", func() bool { return a.failed() || !a.server.now().Before(at) })
		} else {
			want := a.done.Load() + 50 + random.Int64N(*attackCalls)
			eventually.True(t, "the load goes on", func() bool { return a.failed() || a.done.Load() >= want })
		}
		a.server.leave()
		_ = c.end(t, syscall.SIGKILL) // "signal: killed"
		c = start(time.Time{})
		stop()
		a.check(t, seed, c)
		if round == end-1 {
			a.stop(t, c)
			c = start(month.Add(-5 * time.Second))
		}
	}
	// The rest is done in the new month. After a day its predecessor is closed.
	stop := a.run(t)
	want := a.done.Load() + *attackCalls
	eventually.True(t, "the load goes on", func() bool { return a.failed() || a.done.Load() >= want })
	stop()
	a.check(t, seed, c)
	a.stop(t, c)
	for again := range 2 {
		c = start(month.Add(time.Duration(25+again) * time.Hour))
		for _, n := range a.accounts {
			a.verify(t, n, month)
		}
		a.check(t, seed, c)
		a.audited(t, folder)
		a.stop(t, c)
		a.audited(t, folder)
		forget(t, folder) // the snapshots: the next start folds all of the journal
	}
	agrees(t, folder)
	t.Logf("seed %d: %d kills, %d operations:%s; %d of them were charged %s credits", seed, *attackRounds, a.done.Load(), a.summary(), a.charged(), a.total())
}

// gather creates the accounts and the clients.
func (a *attack) gather(t *testing.T, seed uint64) {
	t.Helper()
	for _, n := range []struct {
		name    string
		tier    plan.Tier
		credits string
		moves   bool
	}{
		{"free", plan.Free, "1", false},
		{"pro", plan.Pro, "100", false},
		{"poor", plan.Pro, "0.05", false},
		{"max", plan.Max, "100", false},
		{"moving", plan.Pro, "100", true},
		{"changing", plan.Max, "3", true},
	} {
		made, err := a.newAccount(t.Context(), n.name, n.tier, plan.MustParseCredits(n.credits))
		if err != nil {
			t.Fatal(err)
		}
		made.moves = n.moves
		a.accounts = append(a.accounts, made)
	}
	for n := range attackWorkers {
		a.workers = append(a.workers, &attackWorker{
			attack: a, random: rand.New(rand.NewPCG(seed, uint64(n)+1)), own: map[*attackAccount]*attackDocuments{},
		})
	}
}

// run lets the clients work until stop is called. It returns once all of them have definite answers.
func (a *attack) run(t *testing.T) (stop func()) {
	var ended atomic.Bool
	var group sync.WaitGroup
	for _, w := range a.workers {
		group.Go(func() {
			for !ended.Load() && !a.failed() {
				if err := w.step(t.Context()); err != nil {
					a.wrong("%v", err)
				}
			}
		})
	}
	return func() {
		ended.Store(true)
		group.Wait()
	}
}

// stop ends quire in an orderly way.
func (a *attack) stop(t *testing.T, c *child) {
	t.Helper()
	a.server.leave()
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Fatalf("orderly stop: %v\n%s", err, c.stderr)
	}
}

// check ends the test if something was wrong.
func (a *attack) check(t *testing.T, seed uint64, c *child) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.faults) > 0 {
		t.Fatalf("seed %d: %d faults:\n%s\n%s", seed, len(a.faults), strings.Join(a.faults[:min(20, len(a.faults))], "\n"), c.stderr)
	}
}

// audited audits the folder, beside a running quire or without one.
func (a *attack) audited(t *testing.T, folder string) {
	t.Helper()
	token := []string{"QUIRE_ADMIN_TOKEN=" + testAdminToken}
	if out, errs, code := quire(t, folder, token, "audit", "--deep"); code != 0 || !strings.Contains(out, "everything matches") {
		t.Fatalf("audit: %d %s %s", code, out, errs)
	}
}

func (a *attack) newKey() string { return fmt.Sprintf("attack-%d", a.keys.Add(1)) }

func (a *attack) count(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts[what]++
}

func (a *attack) wrong(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults = append(a.faults, fmt.Sprintf(format, args...))
}

func (a *attack) failed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.faults) > 0
}
