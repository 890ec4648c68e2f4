package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"quire.dev/pkg/admin"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/rpc"
	"quire.dev/tools/cluster"
)

// TestGenerationsOfACluster: with the deployed users, generations are closed under load and deleted once they are archived and audited.
// Nothing that was acknowledged is lost, and an instance of billing that is killed comes back.
func TestGenerationsOfACluster(t *testing.T) {
	c := start(t, map[string]string{"QUIRE_JOURNAL_RETENTION": "1s", "QUIRE_SEGMENT_AGE": "1s", "QUIRE_SNAPSHOT_MESSAGES": "20"})
	edges, api := c.Edges(), admin.Client{Base: c.Edges()[0], Token: c.AdminToken()}
	account, err := api.CreateAccount(t.Context(), admin.NewAccount{Email: "generations@quire.example", Tier: "pro"}, "generations")
	if err != nil {
		t.Fatal(err)
	}
	writing, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	var mu sync.Mutex
	created := 0
	for _, edge := range edges {
		writers.Go(func() {
			for writing.Err() == nil {
				createQuickPaste(t, edge, account.APIKey)
				mu.Lock()
				created++
				mu.Unlock()
			}
		})
	}
	if err := c.CloseGenerations(t.Context(), 1); err != nil {
		t.Error(err)
	}
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
	audited := func(o admin.AuditOptions) {
		t.Helper()
		result, err := api.Audit(t.Context(), o, func(uint64, uint64) {})
		if err != nil || !*result.Match {
			t.Errorf("%+v, %v", result, err)
		}
	}
	eventually.NoError(t, "the closed generations are deleted", func() error {
		createQuickPaste(t, edges[0], account.APIKey) // for a snapshot
		created++
		audited(admin.AuditOptions{New: true})
		for p, list := range generations(t, c) {
			if len(list) == 2 {
				return fmt.Errorf("BILLING_%d: %+v", p, list)
			}
		}
		return nil
	})
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
	audited(admin.AuditOptions{})
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

// exportAndReprice fails unless both read everything, of which the bucket has a part.
func exportAndReprice(t *testing.T, c *cluster.Cluster, account string, created int) {
	t.Helper()
	messages := uint64(0)
	for _, list := range generations(t, c) {
		messages += list[len(list)-1].Last
	}
	out := shell(t, `
quire prices show > book.json
quire journal export --to exported --books > exported.log
quire reprice --prices book.json --month "$(date -u +%Y-%m)" --json > month.json
jq --arg account `+account+` '.accounts[] | select(.account == $account) | .was.requests' month.json
cat exported/BILLING_*.jsonl | wc -l
`, "QUIRE_NATS_URL="+c.NATSURL("backup"), "QUIRE_S3_URL="+c.S3URL("archive"), "QUIRE_POSTGRES_URL="+c.PostgresURL("billing"), "QUIRE_PARTITIONS="+strconv.Itoa(c.Partitions()),
		"QUIRE_PUBLIC_URL="+c.Edges()[0], "QUIRE_ADMIN_TOKEN="+c.AdminToken())
	if got, want := strings.Fields(string(out)), []string{strconv.Itoa(created), strconv.FormatUint(messages, 10)}; !slices.Equal(got, want) {
		t.Errorf("requests in the month and messages are %q, want %q", got, want)
	}
}

// generations returns the generations of each billing journal.
func generations(t *testing.T, c *cluster.Cluster) (all [][]journal.Generation) {
	t.Helper()
	nc, err := rpc.ConnectOnce(c.NATSURL("backup"), "backup")
	if err != nil {
		t.Fatal(err)
	}
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
