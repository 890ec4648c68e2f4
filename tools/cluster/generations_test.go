package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/admin"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/rpc"
	"quire.dev/tools/cluster"
)

// TestGenerationsOfACluster: with the deployed users, generations are closed under load and deleted once they are archived and audited. The
// job that closes them is killed meanwhile, the archive while it deletes them, and an instance of billing afterwards. Nothing that was
// acknowledged is lost or counted twice.
func TestGenerationsOfACluster(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	c := start(t, map[string]string{"QUIRE_JOURNAL_RETENTION": "1s", "QUIRE_SEGMENT_AGE": "1s", "QUIRE_SNAPSHOT_MESSAGES": "20"})
	edges, api := c.Edges(), admin.Client{Base: c.Edges()[0], Token: c.AdminToken()}
	account, err := api.CreateAccount(t.Context(), admin.NewAccount{Email: "generations@quire.example", Tier: "admin"}, "generations")
	if err != nil {
		t.Fatal(err)
	}
	writing, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	var mu sync.Mutex
	created := 0
	for e, edge := range edges {
		writers.Go(func() {
			for n := 0; writing.Err() == nil; n++ {
				id := fmt.Sprintf("%d of %d", n, e)
				// Until a killed job is taken over takes longer than one request waits.
				eventually.NoError(t, "a write", func() error { return tryQuickPaste(t.Context(), edge, account.APIKey, id) })
				mu.Lock()
				created++
				mu.Unlock()
			}
		})
	}
	killClosing(t, c, random.IntN(c.Partitions()-1))
	eventually.NoError(t, "the generations are closed", func() error { return c.CloseGenerations(t.Context(), 1) })
	closed := generations(t, c)
	for p, list := range closed {
		if len(list) != 2 || list[0].Closed.IsZero() {
			t.Fatalf("BILLING_%d: %+v", p, list)
		}
	}
	mu.Lock()
	more := created + 50
	mu.Unlock()
	eventually.True(t, "writes to the next generation", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return created > more
	})
	stop()
	writers.Wait()
	audited := func(o admin.AuditOptions) error {
		t.Helper()
		result, err := api.Audit(t.Context(), o, func(uint64, uint64) {})
		if err == nil && !*result.Match {
			t.Errorf("%+v", result)
		}
		return err
	}
	var killing sync.WaitGroup
	least := 1 + random.IntN(c.Partitions()-1)
	killing.Go(func() { killDeleting(t, c, least) })
	defer killing.Wait()
	eventually.NoError(t, "the closed generations are deleted", func() error {
		createQuickPaste(t, edges[0], account.APIKey) // for a snapshot
		created++
		if err := audited(admin.AuditOptions{New: true}); err != nil {
			return err // the edge may not have noticed yet that the journals take writes again
		}
		for p, list := range generations(t, c) {
			if len(list) == 2 {
				return fmt.Errorf("BILLING_%d: %+v", p, list)
			}
		}
		return nil
	})
	killing.Wait()
	for p, list := range generations(t, c) {
		if list[0].First != closed[p][0].Last+1 {
			t.Errorf("BILLING_%d has %+v, and %+v was deleted", p, list, closed[p][0])
		}
	}
	billing := c.Process("billing-0")
	if err := billing.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := billing.Start(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, billing.Tail())
	}
	if err := audited(admin.AuditOptions{}); err != nil {
		t.Error(err)
	}
	var counted struct {
		Usage map[string]struct{ Used int }
	}
	if err := api.Call(t.Context(), http.MethodGet, "/api/admin/accounts/"+account.Account.ID, nil, &counted); err != nil {
		t.Fatal(err)
	}
	if used := counted.Usage["pasteLite.create"].Used; used != created {
		t.Errorf("%d quick pastes were created, and %d counted", created, used)
	}
	exportAndReprice(t, c, account.Account.ID, created)
	checkViolations(t, c)
}

// killClosing runs the job that closes generations, and kills it once it has begun with a journal that is not the last.
func killClosing(t *testing.T, c *cluster.Cluster, partition int) {
	t.Helper()
	nc := connect(t, c)
	stream := installation.Stream(event.Billing, partition)
	running, kill := context.WithCancel(t.Context())
	defer kill()
	ended := make(chan error, 1)
	go func() { ended <- c.CloseGenerations(running, 1) }()
	eventually.NoError(t, "the job begins with "+stream.Name, func() error {
		list, err := journal.Streams(t.Context(), nc, stream)
		if err != nil {
			return err
		}
		if config := list[0].Config; !journal.IsClosing(config.Name, config.Subjects) {
			return fmt.Errorf("%s has the subjects %q", config.Name, config.Subjects)
		}
		return nil
	})
	kill()
	if err := <-ended; err == nil {
		t.Error("the job ended before it was killed")
	}
	t.Logf("the job was killed once it was seen to close %s", stream.Name)
}

// killDeleting kills the archive once it has deleted at least so many generations, and starts it again.
func killDeleting(t *testing.T, c *cluster.Cluster, least int) {
	nc := connect(t, c)
	deleted := 0
	eventually.NoError(t, "the archive deletes", func() error {
		deleted = 0
		for p := range c.Partitions() {
			list, err := journal.Generations(t.Context(), nc, installation.Stream(event.Billing, p))
			if err != nil {
				return err
			}
			if len(list) == 1 {
				deleted++
			}
		}
		if deleted < least {
			return fmt.Errorf("%d generations are deleted, want %d", deleted, least)
		}
		return nil
	})
	archive := c.Process("archive-0")
	if err := archive.Kill(); err != nil {
		t.Error(err)
	}
	t.Logf("the archive was killed after it had deleted %d generations, %d were to be deleted", deleted, c.Partitions())
	if err := archive.Start(t.Context()); err != nil {
		t.Errorf("%v\n%s", err, archive.Tail())
	}
}

// exportAndReprice fails unless both read everything, of which the bucket has a part.
func exportAndReprice(t *testing.T, c *cluster.Cluster, account string, created int) {
	t.Helper()
	messages := func() (sum uint64) {
		for _, list := range generations(t, c) {
			sum += list[len(list)-1].Last
		}
		return sum
	}
	before := messages()
	out := shell(t, `
quire prices show > book.json
quire journal export --to exported --books > exported.log
quire reprice --prices book.json --month "$(date -u +%Y-%m)" --json > month.json
jq --arg account `+account+` '.accounts[] | select(.account == $account) | .was.requests' month.json
cat exported/BILLING_*.jsonl | wc -l
`, "QUIRE_NATS_URL="+c.NATSURL("backup"), "QUIRE_S3_URL="+c.S3URL("archive"), "QUIRE_POSTGRES_URL="+c.PostgresURL("billing"), "QUIRE_PARTITIONS="+strconv.Itoa(c.Partitions()),
		"QUIRE_PUBLIC_URL="+c.Edges()[0], "QUIRE_ADMIN_TOKEN="+c.AdminToken())
	// Billing seals meanwhile.
	got, after := strings.Fields(string(out)), messages()
	if len(got) != 2 || got[0] != strconv.Itoa(created) {
		t.Fatalf("requests in the month and messages are %q, want %d requests", got, created)
	}
	if n, err := strconv.ParseUint(got[1], 10, 64); err != nil || n < before || n > after {
		t.Errorf("%s messages were exported, want %d to %d: %v", got[1], before, after, err)
	}
}

// generations returns the generations of each billing journal.
func generations(t *testing.T, c *cluster.Cluster) (all [][]journal.Generation) {
	t.Helper()
	nc := connect(t, c)
	defer nc.Close()
	for p := range c.Partitions() {
		list, err := journal.Generations(t.Context(), nc, installation.Stream(event.Billing, p))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, list)
	}
	return all
}

// connect connects as a user that may read all journals, until the test ends.
func connect(t *testing.T, c *cluster.Cluster) *nats.Conn {
	t.Helper()
	nc, err := rpc.ConnectOnce(c.NATSURL("backup"), "backup")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}
