package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/admin"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/proof"
	"quire.dev/pkg/tilelog"
	"quire.dev/pkg/tilelog/tilelogtest"
	"quire.dev/tools/cluster"
)

// TestDrillAllJournalsRestoredAlone: the volumes of all NATS servers are back as they were earlier, and everything else is as it was. Billing
// and the documents refuse to start until the commands of docs/refusals.md were run, with the users of their services. The log goes on,
// and audits match.
func TestDrillAllJournalsRestoredAlone(t *testing.T) {
	c := start(t, nil)
	operator := admin.Client{Base: c.Edges()[0], Token: c.AdminToken()}
	account, err := operator.CreateAccount(t.Context(), admin.NewAccount{Email: "drill@quire.example", Tier: "pro"}, "drill")
	if err != nil {
		t.Fatal(err)
	}
	const kept, lost = 8, 12
	for range kept {
		createQuickPaste(t, c.Edges()[0], account.APIKey)
	}
	backup := t.TempDir()
	withoutNATS(t, c, func(volume string) error {
		return os.CopyFS(filepath.Join(backup, filepath.Base(volume)), os.DirFS(volume))
	})
	startServices(t, c)
	for range lost {
		createQuickPaste(t, c.Edges()[0], account.APIKey)
	}
	entries := int64(0)
	for _, end := range endsOf(t, billingJournals(t, c)) {
		entries += int64(end)
	}
	logged := checkpointOf(t, c, entries)
	withoutNATS(t, c, func(volume string) error {
		if err := os.RemoveAll(volume); err != nil {
			return err
		}
		return os.CopyFS(volume, os.DirFS(filepath.Join(backup, filepath.Base(volume))))
	})

	began := time.Now()
	repairAll(t, c)
	startServices(t, c)
	createQuickPaste(t, c.Edges()[0], account.APIKey) // the key is from before
	rto := time.Since(began).Round(time.Millisecond)
	log := tilelog.NewReader(tilelogtest.Served{Base: c.Edges()[0]}, proof.LogPrefix)
	if err := checkContinues(t.Context(), log, logged, checkpointOf(t, c, logged.N+1)); err != nil {
		t.Error(err)
	}
	if there := countQuickPastes(t, c.Edges()[0], account.APIKey); there != kept+lost+1 {
		t.Errorf("%d quick pastes are there, want %d", there, kept+lost+1)
	}
	audit, err := operator.Audit(t.Context(), admin.AuditOptions{}, func(uint64, uint64) {})
	if err != nil || audit.Match == nil || !*audit.Match {
		t.Errorf("the audit: %+v, %v", audit, err)
	}
	checkViolations(t, c)
	t.Logf("RPO the usage of %d of %d writes, and no text; RTO %s", lost, kept+lost, rto)
}

// repairAll runs the commands of the page, for billing and for each service of documents.
func repairAll(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	refuses(t, c, "billing-0", "`quire repair read-model`")
	for line := range commands(t, "Billing's read model is newer than its journals") {
		service := "billing"
		if strings.HasPrefix(line, "quire repair log") {
			service = "archive"
		}
		repair(t, c, service, line)
	}
	refuses(t, c, "lite-0", "`quire repair accept-gap --service lite`")
	for _, service := range []string{"paste", "lite", "file"} {
		for line := range commands(t, "A journal of documents ends before its read model") {
			repair(t, c, service, strings.ReplaceAll(line, "--service lite", "--service "+service))
		}
	}
}

// refuses checks that a process does not start, and names the command that helps.
func refuses(t *testing.T, c *cluster.Cluster, name, command string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	p := c.Process(name)
	if err := p.Start(ctx); err == nil || p.Running() || !strings.Contains(p.Tail(), command) {
		t.Fatalf("%s is not refused with %s: %v\n%s", name, command, err, p.Tail())
	}
}

func startServices(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := c.StartServices(ctx); err != nil {
		t.Fatal(err)
	}
}

// withoutNATS stops the services and the NATS servers, calls work with the folder of each server, and starts the servers.
func withoutNATS(t *testing.T, c *cluster.Cluster, work func(volume string) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := c.StopServices(ctx); err != nil {
		t.Fatal(err)
	}
	servers := c.Processes("nats")
	for _, server := range servers {
		if err := server.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		if err := work(filepath.Join(filepath.Dir(filepath.Dir(server.Log())), server.Name())); err != nil {
			t.Fatal(err)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, server := range servers {
		group.Go(func() error { return server.Start(ctx) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// commands are the lines under a heading of docs/refusals.md.
func commands(t *testing.T, heading string) iter.Seq[string] {
	t.Helper()
	block, err := cluster.Commands(heading)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Lines(block)
}

// repairLimit is much more than a command takes that asks all partitions at once, and less than one that asks them one by one.
const repairLimit = 40 * time.Second

// repair runs a line of the page with the users of a service.
func repair(t *testing.T, c *cluster.Cluster, service, line string) {
	t.Helper()
	environ := []string{"QUIRE_NATS_URL=" + c.NATSURL(service), "QUIRE_S3_URL=" + c.S3URL(service)}
	if service != "archive" {
		environ = append(environ, "QUIRE_POSTGRES_URL="+c.PostgresURL(service))
	}
	t.Logf("%s%s", line, shell(t, line, environ...))
}

// shell runs commands of quire in a folder of their own, and returns what they print.
func shell(t *testing.T, line string, environ ...string) (out []byte) {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), repairLimit)
	defer cancel()
	run := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", line)
	run.Cancel = func() error { return run.Process.Signal(syscall.SIGQUIT) } // it shows what it waits for
	run.Dir = t.TempDir()
	run.Env = cluster.Environment(append(environ, "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"), "USER=ann")...)
	out, err = run.CombinedOutput()
	if err != nil {
		t.Fatalf("%s%v\n%s", line, err, out)
	}
	return out
}

// checkpointOf waits until the log has so many entries, and returns its checkpoint.
func checkpointOf(t *testing.T, c *cluster.Cluster, entries int64) (tree tlog.Tree) {
	t.Helper()
	eventually.NoError(t, fmt.Sprintf("the log has a checkpoint of %d entries", entries), func() (err error) {
		tree, err = tilelogtest.Served{Base: c.Edges()[0]}.Checkpoint(t.Context())
		if err == nil && tree.N < entries {
			err = fmt.Errorf("it has %d", tree.N)
		}
		return err
	})
	return tree
}

func countQuickPastes(t *testing.T, edge, key string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, edge+"/api/dev/paste-lite/list?limit=100", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Api-Key", key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var page struct{ Pastes []json.RawMessage }
	if err := json.NewDecoder(response.Body).Decode(&page); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("list the quick pastes: %s, %v", response.Status, err)
	}
	return len(page.Pastes)
}
