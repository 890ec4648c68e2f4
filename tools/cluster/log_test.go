package cluster_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"quire.dev/pkg/admin"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/proof"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/tilelog"
	"quire.dev/pkg/tilelog/tilelogtest"
	"quire.dev/tools/cluster"
)

// TestTheLogOfACluster: every edge serves a log that has each message of the billing journals once, also after the archive was killed.
func TestTheLogOfACluster(t *testing.T) {
	c := start(t, nil)
	edges := c.Edges()
	account, err := admin.Client{Base: edges[0], Token: c.AdminToken()}.CreateAccount(t.Context(), admin.NewAccount{Email: "log@quire.example", Tier: "pro"}, "log")
	if err != nil {
		t.Fatal(err)
	}
	journals := billingJournals(t, c)
	var last tlog.Tree
	archive := c.Process("archive-0")
	for round := range 3 {
		if round == 1 {
			if err := archive.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		for n := range 20 {
			createQuickPaste(t, edges[n%len(edges)], account.APIKey)
		}
		if !archive.Running() {
			if err := archive.Start(t.Context()); err != nil {
				t.Fatalf("%v\n%s", err, archive.Tail())
			}
		}
		ends := endsOf(t, journals)
		for _, edge := range edges {
			eventually.NoError(t, "the log has the journals", func() (err error) {
				last, err = checkLog(t.Context(), tilelogtest.Served{Base: edge}, last, journals, ends)
				return err
			})
		}
	}
	checkViolations(t, c)
}

// checkLog returns the checkpoint of a log after it has compared each entry with the journals, which have to be in it up to ends, and the
// checkpoint with an earlier one.
func checkLog(ctx context.Context, log tilelogtest.Served, old tlog.Tree, journals []*journal.Journal, ends []uint64) (tlog.Tree, error) {
	tree, err := log.Checkpoint(ctx)
	if err != nil {
		return old, err
	}
	reader := tilelog.NewReader(log, proof.LogPrefix)
	next := make([]uint64, len(journals))
	err = reader.Entries(ctx, 0, tree.N, tree.N, func(index int64, entry []byte) error {
		decoded, err := proof.Decode(entry)
		if err != nil {
			return err
		}
		got, ok := decoded.(proof.Message)
		if !ok || got.Partition >= len(next) {
			return fmt.Errorf("entry %d is %+v", index, decoded)
		}
		next[got.Partition]++
		m, err := journals[got.Partition].Get(ctx, next[got.Partition])
		if err != nil {
			return err
		}
		if want := proof.Digest(got.Partition, next[got.Partition], m.Time, m.Subject, m.Data); got != want {
			return fmt.Errorf("entry %d is %+v, want %+v", index, got, want)
		}
		inclusion, err := reader.ProveInclusion(ctx, index, tree)
		if err != nil {
			return err
		}
		return tlog.CheckRecord(inclusion, tree.N, tree.Hash, index, tlog.RecordHash(entry))
	})
	if err != nil {
		return old, err
	}
	for p, end := range ends {
		if next[p] < end {
			return old, fmt.Errorf("the log has %d messages of partition %d, the journal %d", next[p], p, end)
		}
	}
	if old.N == 0 || old == tree {
		return tree, nil
	}
	return tree, checkContinues(ctx, reader, old, tree)
}

// checkContinues is an error unless the log goes on from an earlier tree to a later one.
func checkContinues(ctx context.Context, log *tilelog.Reader, old, tree tlog.Tree) error {
	consistency, err := log.ProveConsistency(ctx, old.N, tree)
	if err != nil {
		return err
	}
	return tlog.CheckTree(consistency, tree.N, tree.Hash, old.N, old.Hash)
}

// billingJournals opens the journals of all partitions of billing.
func billingJournals(t *testing.T, c *cluster.Cluster) (journals []*journal.Journal) {
	t.Helper()
	nc, err := rpc.Connect(c.NATSURL("backup"), "backup", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	for p := range c.Partitions() {
		journals = append(journals, journal.Open(nc, event.Billing.Stream(p)))
	}
	return journals
}

// endsOf returns the last sequence of each journal.
func endsOf(t *testing.T, journals []*journal.Journal) (ends []uint64) {
	t.Helper()
	for _, j := range journals {
		last, err := j.LastSequence(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, last)
	}
	return ends
}

func createQuickPaste(t *testing.T, edge, key string) {
	t.Helper()
	if err := tryQuickPaste(t.Context(), edge, key, ""); err != nil {
		t.Fatal(err)
	}
}

// tryQuickPaste creates a quick paste, once under an Idempotency-Key unless that is empty.
func tryQuickPaste(ctx context.Context, edge, key, idempotency string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, edge+"/api/dev/paste-lite/create", strings.NewReader("a text"))
	if err != nil {
		return err
	}
	request.Header.Set("X-Api-Key", key)
	request.Header.Set("Content-Type", "text/plain")
	if idempotency != "" {
		request.Header.Set("Idempotency-Key", idempotency)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		body, _ := io.ReadAll(response.Body)
		return fmt.Errorf("create a quick paste: %s %s", response.Status, body)
	}
	return nil
}

// checkViolations fails if the servers of NATS have refused anything to a service.
func checkViolations(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	for _, server := range c.Processes("nats") {
		log, err := os.ReadFile(server.Log())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, "Violation") {
				t.Errorf("%s: %s", server.Name(), line)
			}
		}
	}
}
