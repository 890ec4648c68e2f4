// Package load has clients that remember which answers they got, and a checker that compares these with what Quire has
// stored: every acknowledged document exists, only calls that were made are counted, charges are exact, a replaced API key
// is refused. It uses HTTP only, so it checks one process and a cluster in the same way.
package load

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"quire.dev/docs"
	"quire.dev/pkg/num"
	"quire.dev/pkg/wait"
)

// Group is a kind of work with its own accounts.
type Group string

// The groups. All work at the same time, unless Config names some.
const (
	// Crowd creates, reads, edits and deletes quick pastes, pastes and files, without an Idempotency-Key.
	Crowd Group = "crowd"
	// Exact repeats each write under its Idempotency-Key until it has an answer. Credits pay most of its writes.
	Exact Group = "exact"
	// Refused has an account that has used up its quota, and one whose calls all fail.
	Refused Group = "refused"
	// Rotating regenerates an API key while it is in use.
	Rotating Group = "rotating"
	// Burning creates quick pastes that burn after their first read, and reads them several times at once.
	Burning Group = "burning"
	// Keyless creates quick pastes without a key until the limit of a source is reached. It needs Config.Sources.
	Keyless Group = "keyless"
)

// Config describes a Load. Bases and AdminToken must be set.
type Config struct {
	Bases      []string      // base URLs, one for each edge
	AdminToken string        // creates the accounts
	Seed       uint64        // of all random choices
	Workers    int           // clients that send quick pastes; 16. Other kinds have fewer
	Pace       time.Duration // between two calls of a client of the crowd
	Timeout    time.Duration // of one call; 30 s, which is longer than an edge takes to answer
	Groups     []Group       // nil: all that can work
	Sources    bool          // the edges trust X-Forwarded-For from this host
	API        []byte        // description of the API of the oldest version that answers; nil: docs/openapi.yaml
}

const (
	defaultWorkers = 16
	defaultTimeout = 30 * time.Second
	dialTimeout    = 2 * time.Second
	auditTimeout   = 10 * time.Minute
)

// paces are the times between two calls of clients that must be slow. Quire refuses every call of an account with more than
// 100 failures a minute, and of a source with as many bad keys.
type paces struct {
	refused, failing, rotate, old, user, burn, keyless, admin, rare, retry time.Duration
}

// Load is a crowd of clients. Run, Verify, Settled, Audit and Move must be called one after the other. The other methods
// may be called at any time.
type Load struct {
	cfg       Config
	pace      paces
	client    *http.Client
	start     time.Time
	endpoints []endpoint
	run       string // keeps emails and Idempotency-Keys distinct from another Load's

	mu    sync.RWMutex
	bases []string
	down  []time.Time // until when clients avoid a base

	sequence atomic.Int64 // numbers contents and Idempotency-Keys
	rounds   uint64       // of Run
	settled  bool         // Settled has succeeded since the last Run
	clock    clock
	strange  findings // of clients, while they run

	reader   *account // reads for the checks, and owns the anchor
	anchor   string   // a quick paste that is never edited
	crowd    *crowd
	exact    *exact
	refused  *refused
	rotating *rotating
	burning  *burning
	keyless  *keyless
}

// New creates the accounts of the groups, and their initial documents. It retries calls without an answer until ctx ends.
func New(ctx context.Context, cfg Config) (*Load, error) {
	l, err := newLoad(cfg)
	if err != nil {
		return nil, err
	}
	defer l.client.CloseIdleConnections()
	if err := l.prepare(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

func newLoad(cfg Config) (*Load, error) {
	if len(cfg.Bases) == 0 || cfg.AdminToken == "" {
		return nil, errors.New("load: Config needs a base URL and the admin token")
	}
	cfg.Workers, cfg.Timeout = cmp.Or(cfg.Workers, defaultWorkers), cmp.Or(cfg.Timeout, defaultTimeout)
	if cfg.API == nil {
		cfg.API = docs.API()
	}
	if cfg.Groups == nil {
		cfg.Groups = []Group{Crowd, Exact, Refused, Rotating, Burning}
		if cfg.Sources {
			cfg.Groups = append(cfg.Groups, Keyless)
		}
	}
	transport := &http.Transport{
		MaxIdleConnsPerHost: 256, DisableCompression: true,
		DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext,
	}
	l := &Load{
		cfg: cfg, run: strings.ToLower(crand.Text()), start: time.Now(),
		client: &http.Client{Transport: transport},
		clock:  clock{tracks: map[track]*timed{}, total: map[Kind]int64{}},
		pace: paces{
			refused: 25 * time.Millisecond, failing: 1200 * time.Millisecond, rotate: 4 * time.Second, old: 1500 * time.Millisecond,
			user: 20 * time.Millisecond, burn: 3 * time.Second, keyless: 250 * time.Millisecond, admin: 100 * time.Millisecond, rare: 10 * time.Millisecond, retry: 250 * time.Millisecond,
		},
	}
	var err error
	if l.endpoints, err = endpoints(cfg.API); err != nil {
		return nil, err
	}
	l.Move(cfg.Bases...)
	return l, nil
}

func (l *Load) prepare(ctx context.Context) error {
	var err error
	if l.reader, err = l.newAccount(ctx, "the reader's", "admin"); err != nil {
		return err
	}
	if l.anchor, err = l.makeAnchor(ctx, l.reader); err != nil {
		return err
	}
	for _, g := range l.cfg.Groups {
		switch g {
		case Crowd:
			l.crowd, err = l.newCrowd(ctx)
		case Exact:
			l.exact, err = l.newExact(ctx)
		case Refused:
			l.refused, err = l.newRefused(ctx)
		case Rotating:
			l.rotating, err = l.newRotating(ctx)
		case Burning:
			l.burning, err = l.newBurning(ctx)
		case Keyless:
			l.keyless = l.newKeyless()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Move sets the base URLs of the edges, after a restart at other addresses or when their number has changed.
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

// Run runs all clients until ctx ends. It returns once each of their calls has ended.
func (l *Load) Run(ctx context.Context) {
	l.settled = false
	l.rounds++
	l.clock.resume()
	defer l.clock.pause()
	var group sync.WaitGroup
	worker := 0
	spawn := func(count int, pace time.Duration, step func(context.Context, *client, int)) {
		for range count {
			w := &client{home: worker, random: rand.New(rand.NewPCG(l.cfg.Seed, l.rounds<<32|num.Uint64(worker)))}
			worker++
			group.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					step(ctx, w, n)
					wait.For(ctx, pace)
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
	if b := l.burning; b != nil {
		spawn(1, l.pace.burn, b.step)
	}
	if k := l.keyless; k != nil {
		spawn(2, l.pace.keyless, k.step)
	}
	group.Wait()
	l.client.CloseIdleConnections()
}

// client sends calls, one at a time.
type client struct {
	home   int // the base that it prefers
	random *rand.Rand
}

// stepAdmin asks for the usage of an account, as operators and owners do.
func (l *Load) stepAdmin(ctx context.Context, w *client, n int) {
	c := call{kind: Admin, method: http.MethodGet, path: "/api/admin/accounts/" + l.reader.id, admin: true, home: w.home + n}
	if n%2 == 1 {
		c.path, c.admin, c.key = "/api/users/user/dev-usage", false, l.reader.key
	}
	if a := l.send(ctx, c); a.outcome() == refusedOutcome {
		l.strange.note(strangeAnswer, "%s", a)
	}
}
