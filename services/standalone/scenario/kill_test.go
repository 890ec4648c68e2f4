package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/host"
	"quire.dev/services/standalone"
	"quire.dev/tools/cluster"
)

// killer is a Quire whose services can be killed without notice (SIGKILL). Its stores stay if they are other processes.
type killer interface {
	quire
	kill() error
}

func (p *manyProcesses) kill() error {
	var group errgroup.Group
	for _, process := range p.c.Processes(cluster.Services()...) {
		group.Go(process.Kill)
	}
	return group.Wait()
}

// child is a oneProcess in a separate process: the program of this test, which runs only TestChild.
type child struct {
	*oneProcess
	logs    string
	process *cluster.Process
	starts  int
}

const childEnv = "SCENARIO_CHILD"

func (c *child) boot(ctx context.Context, settings map[string]string) error {
	environ := []string{childEnv + "=1", "QUIRE_LISTEN=127.0.0.1:0", "QUIRE_DATA=" + filepath.Join(c.folder, "data"), "QUIRE_ADMIN_TOKEN=" + oneAdminToken}
	for name, value := range settings {
		environ = append(environ, name+"="+value)
	}
	c.starts++
	var err error
	log := filepath.Join(c.logs, fmt.Sprintf("quire-%d.log", c.starts))
	c.process, err = cluster.StartServer(ctx, log, environ, os.Args[0], "-test.run=^TestChild$", "-without="+*without)
	return err
}

func (c *child) stop(ctx context.Context) error {
	if c.process == nil || !c.process.Running() {
		return nil
	}
	return c.process.Stop(ctx)
}

func (c *child) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	return c.stop(ctx)
}

func (c *child) kill() error         { return c.process.Kill() }
func (c *child) edges() []string     { return []string{c.process.URL()} }
func (c *child) operators() []string { return c.edges() }
func (c *child) publicURL() string   { return c.process.URL() }

func (c *child) diagnosis() string {
	output, err := os.ReadFile(c.process.Log())
	return fmt.Sprintf("%s\n%v", output, err)
}

// TestChild is a quire in a separate process, for tests that kill it.
func TestChild(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		t.Skip("runs as the child of another test")
	}
	cfg, err := host.ReadSettings(host.Quire, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	q, err := standalone.New(cfg, deps())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	go func() {
		<-q.Ready()
		fmt.Println("listens on", q.URL())
	}()
	if err := q.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// startKillable is start for a Quire that may be killed.
func startKillable(t testing.TB, options ...option) (*instance, killer) {
	t.Helper()
	var k killer
	i := startAs(t, func(s setup) quire {
		switch q := newQuire(s.folder, s.logs).(type) {
		case *oneProcess:
			k = &child{oneProcess: q, logs: s.logs}
		case *manyProcesses:
			k = q
		}
		return k
	}, options...)
	return i, k
}

// killed is a call that may be cut off by a kill. It has no answer then.
func (i *instance) killed(ctx context.Context, method, path string, r request) (a answer, answered bool) {
	a, err := i.try(ctx, method, path, r)
	return a, err == nil && a.status < http.StatusInternalServerError
}

// TestAKillLosesNothingOfAnAccount: keys, caps, days, recent requests and deletions are as they were answered, whatever the kill
// cuts off, and through every edge.
func TestAKillLosesNothingOfAnAccount(t *testing.T) {
	t.Parallel()
	i, k := startKillable(t, behindProxy())
	p, owner := i.owner(t)
	leaver, left := i.owner(t) // whose deletion is answered before the kill
	torn, half := i.owner(t)   // whose deletion runs while the kill comes
	owner.grant(t, "1")
	shared := object{"pasteLite.create": 1000, "files.upload": 1000}
	line, _ := p.further(t, object{"name": "line", "quotas": shared, "spendingCap": object{"amount": "0.02", "period": "month"}})
	owner.hammer(t, 98, func(int) operation { return operation{"POST", "/api/dev/files/upload?name=f", "x", http.StatusCreated} })
	for round := range 3 {
		_, doomed := p.further(t, object{"name": fmt.Sprint("doomed ", round)})
		keys := []string{owner.key, line}
		var mu sync.Mutex
		var acked []string
		unknown := 0
		before := owner.used(t, "pasteLite.create") + owner.used(t, "files.upload")
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for n := range 8 {
			group.Go(func() {
				for step := 0; ctx.Err() == nil; step++ {
					path, r := "/api/dev/paste-lite/create", request{key: keys[(n+step)%2], body: object{"content": "x"}}
					if step%4 == 0 {
						path, r.body = "/api/dev/files/upload?name=f", []byte("x")
					}
					a, answered := i.killed(ctx, "POST", path, r)
					mu.Lock()
					switch {
					case answered && a.status == http.StatusCreated:
						acked = append(acked, a.header.Get("X-Request-Id"))
					case !answered:
						unknown++
					}
					mu.Unlock()
				}
			})
		}
		eventually.True(t, "calls are answered", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(acked) > 60
		})
		p.do(t, "DELETE", keysPath+"/"+text(t, doomed, "id"), nil).ok(t, http.StatusOK)
		rotation := request{
			cookies: p.cookies, body: object{"overlap": "0s"},
			header: map[string]string{"Sec-Fetch-Site": "same-origin", "Idempotency-Key": fmt.Sprint("rotate ", round)},
		}
		id := lineID(t, p)
		if round == 0 {
			leaver.deleteAccount(t)
		}
		group.Go(func() { i.killed(ctx, "POST", keysPath+"/"+id+"/rotate", rotation) })
		if round == 1 {
			group.Go(func() {
				i.killed(ctx, "DELETE", "/api/users/user", request{
					cookies: torn.cookies, header: map[string]string{"Sec-Fetch-Site": "same-origin"}, body: object{"currentPassword": torn.password},
				})
			})
		}
		if err := k.kill(); err != nil {
			t.Fatal(err)
		}
		cancel()
		group.Wait()
		if err := i.boot(); err != nil {
			t.Fatal(err)
		}
		i.recovers(t, owner, left, half)

		made := i.do(t, "POST", keysPath+"/"+id+"/rotate", rotation).ok(t, http.StatusOK) // once, even after an interruption
		old := line
		line = text(t, made, "apiKey")
		for range i.bases {
			i.do(t, "GET", "/api/dev/paste-lite/list", request{key: old}).fails(t, http.StatusUnauthorized, "invalid_api_key", "")
			i.do(t, "GET", "/api/dev/paste-lite/list", request{key: line}).ok(t, http.StatusOK)
			if revoked := p.keyOf(t, text(t, doomed, "id")); revoked["revokedAt"] == nil {
				t.Errorf("round %d: a key that was revoked is %v", round, revoked)
			}
			if round == 0 {
				left.do(t, "GET", "/api/dev/paste-lite/list", nil).fails(t, http.StatusForbidden, "account_suspended", "")
			}
		}
		checkRecentAfterKill(t, owner, acked, len(i.bases))
		counted := owner.used(t, "pasteLite.create") + owner.used(t, "files.upload") - before
		if counted < int64(len(acked)) || counted > int64(len(acked)+unknown) {
			t.Errorf("round %d: %d calls are counted, %d were answered and %d were not", round, counted, len(acked), unknown)
		}
		checkDays(t, owner)
		checkCap(t, p)
	}
	for _, person := range []*person{leaver, torn} {
		body := i.do(t, "POST", "/api/users/login", request{body: object{"email": person.email, "password": person.password, "cancelDeletion": true}}).ok(t, http.StatusOK)
		if person == leaver && body["deletionUndone"] != true {
			t.Errorf("the deletion that was answered is not undone: %v", body)
		}
	}
	for range i.bases {
		left.do(t, "GET", "/api/dev/paste-lite/list", nil).ok(t, http.StatusOK)
		half.do(t, "GET", "/api/dev/paste-lite/list", nil).ok(t, http.StatusOK)
	}
	if audit := i.audit(t); audit["match"] != true {
		t.Errorf("audit %v", audit)
	}
}

// recovers waits until every edge answers for the accounts again: it takes some seconds until the members of a cluster notice which
// of them were killed.
func (i *instance) recovers(t testing.TB, accounts ...account) {
	t.Helper()
	for _, a := range accounts {
		for range i.bases {
			eventually.NoError(t, "the edges answer again", func() error {
				for _, path := range []string{"/api/users/user/requests", "/api/users/user/usage", "/api/dev/paste-lite/list"} {
					if got := a.do(t, "GET", path, nil); got.status >= http.StatusInternalServerError {
						return fmt.Errorf("%s: %d %s", path, got.status, got.body)
					}
				}
				return nil
			})
		}
	}
}

// lineID is the id of the key of the name "line" that was not replaced.
func lineID(t testing.TB, p *person) string {
	t.Helper()
	for _, v := range p.do(t, "GET", keysPath, nil).ok(t, http.StatusOK)["keys"].([]any) {
		if k := v.(object); k["name"] == "line" && k["replacedBy"] == nil {
			return text(t, k, "id")
		}
	}
	t.Fatal("the key has gone")
	return ""
}

// checkCap holds the spending cap of the line to what its key has spent in the month, which began within it.
func checkCap(t testing.TB, p *person) {
	t.Helper()
	k := p.keyOf(t, lineID(t, p))
	spent := micro(t, text(t, k, "spendingCap", "spent"))
	sum := int64(0)
	for _, u := range at(t, k, "usage").(object) {
		sum += micro(t, text(t, u.(object), "creditsSpent"))
	}
	if spent != sum || spent > 20_000 {
		t.Errorf("the cap has counted %d, the key has spent %d", spent, sum)
	}
}

// checkRecentAfterKill holds the list of recent requests, at each edge, to the calls that were answered.
func checkRecentAfterKill(t testing.TB, a account, acked []string, edges int) {
	t.Helper()
	for range edges {
		eventually.NoError(t, "the answered calls are in the list, once, and served", func() error {
			listed := map[string]object{}
			var times []string
			for query := "?limit=100"; ; {
				page, next := a.recent(t, query)
				for _, r := range page {
					listed[text(t, r, "requestId")] = r
					times = append(times, text(t, r, "time"))
				}
				if next == "" {
					break
				}
				query = "?limit=100&cursor=" + next
			}
			if len(listed) != len(times) || !slices.IsSortedFunc(times, func(x, y string) int { return cmp.Compare(y, x) }) {
				return fmt.Errorf("%d entries of %d requests, or not the newest first", len(times), len(listed))
			}
			var missing []string
			for _, id := range acked {
				if r := listed[id]; r == nil || r["status"] != "served" || r["decision"] != "admitted" {
					missing = append(missing, fmt.Sprint(id, " ", maps.Clone(r)))
				}
			}
			if len(missing) > 0 {
				return errors.New(strings.Join(missing[:min(3, len(missing))], "\n"))
			}
			return nil
		})
	}
}
