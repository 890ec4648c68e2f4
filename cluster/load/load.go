// Package load is a crowd of clients that remembers what it was promised, and the checker that holds a Quire to it:
// what was acknowledged is there, nothing is counted that was not asked for, money is exact, a key that was replaced
// opens nothing. It speaks HTTP alone, so that one process and a cluster are held to the same.
package load

import (
	"context"
	crand "crypto/rand"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Group is a kind of work with accounts of its own.
type Group string

// The groups, all at work at once unless Config says otherwise.
const (
	// Crowd makes, reads, changes and deletes quick pastes, pastes and files, without an Idempotency-Key.
	Crowd Group = "crowd"
	// Exact repeats each write under its Idempotency-Key until it has an answer, and pays for most.
	Exact Group = "exact"
	// Refused has one account with its quota used up, and one whose calls all fail.
	Refused Group = "refused"
	// Rotating regenerates an API key while it is used.
	Rotating Group = "rotating"
)

// Config says what a Load is made of.
type Config struct {
	Bases      []string      // base URLs, one for each edge
	AdminToken string        // of the accounts that New makes
	Seed       uint64        // of all random choices
	Workers    int           // clients that send quick pastes; 16. Of the other kinds there are fewer
	Pace       time.Duration // that a client of the crowd waits between two calls; 0: none
	Timeout    time.Duration // of one call; 30 s, which is longer than an edge lets anybody wait
	Groups     []Group       // nil: all
}

const (
	defaultWorkers = 16
	defaultTimeout = 30 * time.Second
	dialTimeout    = 2 * time.Second
	auditTimeout   = 10 * time.Minute
)

// paces are how long those clients wait between two calls that must not be as many as possible: an account
// with more than 100 failures a minute, or a source with as many bad keys, is refused whatever it asks.
type paces struct {
	refused, failing, rotate, old, user, admin, rare, retry time.Duration
}

// Load is a crowd of clients. Run, the checks and Move are called one after the other; everything else at
// any time.
type Load struct {
	cfg    Config
	pace   paces
	client *http.Client
	start  time.Time
	run    string // makes emails and Idempotency-Keys of this Load differ from another's

	mu    sync.RWMutex
	bases []string
	down  []time.Time // until when clients keep away from a base

	sequence atomic.Int64 // numbers contents and Idempotency-Keys
	rounds   uint64       // of Run
	settled  bool         // no hold has been left open since the last Run
	clock    clock
	strange  findings

	reader   *account // of the checks, and owner of the anchor
	anchor   string   // a quick paste that is never changed
	crowd    *crowd
	exact    *exact
	refused  *refused
	rotating *rotating
}

// New makes the accounts and what else the groups need. Nothing should be broken yet, but what fails
// for a moment is tried again until ctx ends.
func New(ctx context.Context, cfg Config) (*Load, error) {
	l, err := newLoad(cfg)
	if err != nil {
		return nil, err
	}
	if err := l.prepare(ctx); err != nil {
		l.client.CloseIdleConnections()
		return nil, err
	}
	l.client.CloseIdleConnections()
	return l, nil
}

func newLoad(cfg Config) (*Load, error) {
	if len(cfg.Bases) == 0 || cfg.AdminToken == "" {
		return nil, errors.New("load: a base URL and the admin token are needed")
	}
	if cfg.Workers <= 0 {
		cfg.Workers = defaultWorkers
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Groups == nil {
		cfg.Groups = []Group{Crowd, Exact, Refused, Rotating}
	}
	transport := &http.Transport{
		MaxIdleConnsPerHost: 256, DisableCompression: true,
		DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext,
	}
	run := make([]byte, 8)
	crand.Read(run)
	l := &Load{
		cfg: cfg, run: hex.EncodeToString(run), start: time.Now(),
		client: &http.Client{Transport: transport},
		pace: paces{
			refused: 25 * time.Millisecond, failing: 1200 * time.Millisecond, rotate: 4 * time.Second,
			old:  1500 * time.Millisecond,
			user: 20 * time.Millisecond, admin: 100 * time.Millisecond, rare: 10 * time.Millisecond, retry: 250 * time.Millisecond,
		},
	}
	l.clock.reset()
	l.Move(cfg.Bases...)
	return l, nil
}

func (l *Load) prepare(ctx context.Context) error {
	var err error
	if l.reader, err = l.newAccount(ctx, "admin"); err != nil {
		return err
	}
	if l.anchor, err = l.makeAnchor(ctx, l.reader); err != nil {
		return err
	}
	makers := map[Group]func(context.Context) error{
		Crowd:    func(ctx context.Context) (err error) { l.crowd, err = l.newCrowd(ctx); return err },
		Exact:    func(ctx context.Context) (err error) { l.exact, err = l.newExact(ctx); return err },
		Refused:  func(ctx context.Context) (err error) { l.refused, err = l.newRefused(ctx); return err },
		Rotating: func(ctx context.Context) (err error) { l.rotating, err = l.newRotating(ctx); return err },
	}
	for _, g := range l.cfg.Groups {
		if err := makers[g](ctx); err != nil {
			return err
		}
	}
	return nil
}

// Move tells where the edges are now: after a restart on other ports, or when there are more of them.
func (l *Load) Move(bases ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bases, l.down = slices.Clone(bases), make([]time.Time, len(bases))
	l.clock.keep(len(bases))
	l.client.CloseIdleConnections()
}

func (l *Load) baseCount() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.bases)
}

// Run has all clients at work until ctx ends, and returns when the last of their calls has been answered.
func (l *Load) Run(ctx context.Context) {
	l.settled = false
	l.rounds++
	l.clock.resume()
	defer l.clock.pause()
	var group sync.WaitGroup
	worker := 0
	spawn := func(count int, pace time.Duration, step func(context.Context, *client, int)) {
		for range count {
			w := &client{home: worker, random: rand.New(rand.NewPCG(l.cfg.Seed, l.rounds<<32|uint64(worker)))}
			worker++
			group.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					step(ctx, w, n)
					pause(ctx, pace)
				}
			})
		}
	}
	few := max(2, l.cfg.Workers/8)
	if c := l.crowd; c != nil {
		spawn(l.cfg.Workers, l.cfg.Pace, c.stepLite)
		spawn(max(2, l.cfg.Workers/4), l.cfg.Pace, c.stepPaste)
		spawn(few, l.cfg.Pace, c.stepFile)
		spawn(1, l.pace.admin, l.stepAdmin)
	}
	if e := l.exact; e != nil {
		spawn(few, l.cfg.Pace, e.step)
	}
	if r := l.refused; r != nil {
		spawn(2, l.pace.refused, r.step)
		spawn(1, l.pace.failing, r.stepFailing)
	}
	if r := l.rotating; r != nil {
		spawn(1, l.pace.rotate, r.stepRotate)
		spawn(2, l.pace.user, r.stepUse)
	}
	group.Wait()
	l.client.CloseIdleConnections()
}

// client is one client: which base it prefers, and what it chooses by.
type client struct {
	home   int
	random *rand.Rand
}

// stepAdmin asks what operators and owners ask all the time.
func (l *Load) stepAdmin(ctx context.Context, w *client, n int) {
	c := call{kind: Admin, method: http.MethodGet, path: "/api/admin/accounts/" + l.reader.id, admin: true, home: w.home + n}
	if n%2 == 1 {
		c.path, c.admin, c.key = "/api/users/user/dev-usage", false, l.reader.key
	}
	if a := l.send(ctx, c); a.outcome() == refusedOutcome {
		l.strange.note("admin answers that should not be", "%s", a)
	}
}

// pause waits, or less when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
