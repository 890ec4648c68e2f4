package standalone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/host"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/views"
	"quire.dev/tools/cluster"
)

// A drill damages the data folder of a stopped quire, sees the start refused with the command that helps, runs the lines of
// docs/refusals.md for that case as they are, and checks what is left. `make drill` shows the result: RPO, what was
// acknowledged and is lost, and RTO, from the refusal until quire serves.

// drill is one run.
type drill struct {
	t       *testing.T
	folder  string
	child   *child
	key     string
	written []paste
	logged  tlog.Tree // before the restore of writeAndRestore
}

type paste struct {
	url, text string
	at        time.Time
}

func startDrill(t *testing.T) *drill {
	t.Helper()
	d := &drill{t: t, folder: filepath.Join(t.TempDir(), "data")}
	d.start()
	d.key = accountKey(t, d.child.base)
	return d
}

// write creates quick pastes and remembers them.
func (d *drill) write(n int) {
	d.t.Helper()
	for range n {
		text := fmt.Sprintf("paste %d of the drill", len(d.written))
		request, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.child.base+"/?language=plaintext", strings.NewReader(text))
		if err != nil {
			d.t.Fatal(err)
		}
		request.Header.Set("Content-Type", "text/plain")
		request.Header.Set("x-api-key", d.key)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			d.t.Fatal(err)
		}
		url, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusCreated {
			d.t.Fatalf("%s: %s, %v", answer.Status, url, err)
		}
		_, path, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(string(url), "http://")), "/")
		d.written = append(d.written, paste{url: "/" + path + "/raw", text: text, at: time.Now()})
	}
}

func (d *drill) stop() {
	d.t.Helper()
	if err := d.child.end(d.t, syscall.SIGTERM); err != nil {
		d.t.Fatalf("stop: %v\n%s", err, d.child.stderr)
	}
}

func (d *drill) start() {
	d.t.Helper()
	d.child = launch(d.t, d.folder, "QUIRE_CHECKPOINT_INTERVAL=1s")
}

// keep copies parts of the data folder, as a backup does.
func (d *drill) keep(parts ...string) (backup string) {
	d.t.Helper()
	backup = d.t.TempDir()
	for _, part := range parts {
		d.copy(filepath.Join(d.folder, part), filepath.Join(backup, part))
	}
	return backup
}

// putBack replaces parts of the data folder by those of a backup.
func (d *drill) putBack(backup string, parts ...string) {
	d.t.Helper()
	for _, part := range parts {
		if err := os.RemoveAll(filepath.Join(d.folder, part)); err != nil {
			d.t.Fatal(err)
		}
		d.copy(filepath.Join(backup, part), filepath.Join(d.folder, part))
	}
}

func (d *drill) copy(from, to string) {
	d.t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		d.t.Fatal(err)
	}
}

// recover sees the start refused with the texts, runs the commands of the page, and starts.
func (d *drill) recover(heading string, refusal ...string) {
	d.t.Helper()
	began := time.Now()
	out := d.run(heading, refusal...)
	d.start()
	took := time.Since(began).Round(time.Millisecond)
	rpo := "nothing"
	if gone := d.missing(); len(gone) > 0 {
		age := d.written[len(d.written)-1].at.Sub(gone[0].at).Round(time.Millisecond)
		rpo = fmt.Sprintf("%d of %d writes, the oldest %s before the last", len(gone), len(d.written), age)
	}
	if uncounted := len(d.written) - d.counted(); uncounted > 0 {
		rpo += fmt.Sprintf(", and the count of %d", uncounted)
	}
	d.t.Logf("%s: RPO %s, RTO %s\n%s", heading, rpo, took, out)
}

// counted is how many of the writes billing has counted.
func (d *drill) counted() int {
	d.t.Helper()
	request, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.child.base+"/api/users/user/dev-usage", nil)
	if err != nil {
		d.t.Fatal(err)
	}
	request.Header.Set("x-api-key", d.key)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		d.t.Fatal(err)
	}
	defer answer.Body.Close()
	var shown struct {
		Usage map[string]struct{ Used int }
	}
	if err := json.NewDecoder(answer.Body).Decode(&shown); err != nil || len(shown.Usage) == 0 {
		d.t.Fatalf("%s: %v, %v", answer.Status, shown, err)
	}
	return shown.Usage["pasteLite.create"].Used
}

// run sees the start refused with the texts, if any, and runs the commands of the page. It returns what they print.
func (d *drill) run(heading string, refusal ...string) string {
	d.t.Helper()
	if len(refusal) > 0 {
		refuses(d.t, d.folder, refusal...)
	}
	commands, err := cluster.Commands(heading)
	if err != nil {
		d.t.Fatal(err)
	}
	run := exec.CommandContext(d.t.Context(), "bash", "-euo", "pipefail", "-c", commands)
	run.Env = environment("QUIRE_DATA="+d.folder, "QUIRE_ADMIN_TOKEN="+testAdminToken, "USER=ann", "PATH="+filepath.Dir(binary(d.t))+":"+os.Getenv("PATH"))
	out, err := run.CombinedOutput()
	if err != nil {
		d.t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// missing returns the writes that can't be read.
func (d *drill) missing() (gone []paste) {
	d.t.Helper()
	for _, p := range d.written {
		request, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.child.base+p.url, nil)
		if err != nil {
			d.t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			d.t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		switch {
		case err != nil || answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusNotFound:
			d.t.Fatalf("%s: %s, %v", p.url, answer.Status, err)
		case answer.StatusCode == http.StatusNotFound:
			gone = append(gone, p)
		case string(text) != p.text:
			d.t.Errorf("%s is %q, want %q", p.url, text, p.text)
		}
	}
	return gone
}

// audits checks the books of the running quire. It returns what the audit prints.
func (d *drill) audits() string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), bootLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary(d.t), "audit")
	cmd.Env = environment("QUIRE_DATA="+d.folder, "QUIRE_ADMIN_TOKEN="+testAdminToken)
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Errorf("audit: %v\n%s", err, out)
	}
	return string(out)
}

// onJournal works on a journal of the stopped quire.
func (d *drill) onJournal(work func(context.Context, *journal.Journal) error) {
	d.t.Helper()
	d.onStores(event.Lite, func(ctx context.Context, s Stores) error { return work(ctx, journal.Open(s.NC, event.Lite.Stream(0))) })
}

// onStores works on the stores of a service of the stopped quire.
func (d *drill) onStores(service event.Domain, work func(context.Context, Stores) error) {
	d.t.Helper()
	q, err := New(host.Settings{Data: d.folder, Partitions: 1}, Deps{})
	if err != nil {
		d.t.Fatal(err)
	}
	if err := q.Repair(d.t.Context(), service, RepairOptions{}, work); err != nil {
		d.t.Fatal(err)
	}
}

// TestDrillABucketNewerThanTheJournals: a restore put back the journals and read models of yesterday, and left the blobs.
func TestDrillABucketNewerThanTheJournals(t *testing.T) {
	t.Parallel()
	d := startDrill(t)
	d.write(5)
	d.stop()
	backup := d.keep("nats", "views")
	d.start()
	d.write(7)
	d.stop() // writes a snapshot
	d.putBack(backup, "nats", "views")
	d.recover("The bucket is newer than the journals", "but snapshot billing/BILLING_0/", "quire repair snapshots")
	if gone := d.missing(); len(gone) != 7 || gone[0].text != d.written[5].text {
		t.Errorf("lost: %v", gone)
	}
	d.write(3)
	d.audits()
	aside := 0
	err := filepath.WalkDir(filepath.Join(d.folder, "blobs"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.Contains(path, "aside") {
			aside++
		}
		return err
	})
	if err != nil || aside != 1 {
		t.Errorf("%d snapshots were moved aside, %v", aside, err)
	}
	d.stop()
	out, errs, code := quire(t, d.folder, nil, "repair", "snapshots", "--yes")
	if code != 0 || !strings.Contains(out, "Every snapshot fits the journals") {
		t.Errorf("again: exit %d, %s%s", code, out, errs)
	}
}

// TestDrillALostReadModel: the file of a read model is gone, and its journal no longer has everything.
func TestDrillALostReadModel(t *testing.T) {
	t.Parallel()
	d := startDrill(t)
	d.write(6)
	d.stop()
	var kept uint64
	d.onJournal(func(ctx context.Context, j *journal.Journal) (err error) {
		if kept, err = j.LastSequence(ctx); err != nil {
			return err
		}
		return j.Purge(ctx, kept) // as after QUIRE_CONTENT_RETENTION
	})
	d.start()
	d.write(4)
	d.stop()
	for _, name := range []string{"lite.db", "lite.db-wal", "lite.db-shm"} {
		if err := os.Remove(filepath.Join(d.folder, "views", name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	d.recover("A read model of documents is lost", "lite.db is missing or empty", "quire restore", "quire repair accept-gap --service lite")
	if gone := d.missing(); len(gone) != 6 || gone[5].text != d.written[5].text {
		t.Errorf("lost: %v", gone)
	}
	if got, want := d.audits(), fmt.Sprintf("journal LITE_0 has lost its messages 1 to %d, accepted by ann at ", kept); !strings.Contains(got, want) {
		t.Errorf("the audit does not say %q: %s", want, got)
	}
	d.works()
}

// writeAndRestore writes 5 texts, then 7, and puts back a stream of the time between. Quire is stopped then.
func (d *drill) writeAndRestore(stream string) {
	d.t.Helper()
	folder := filepath.Join("nats", "jetstream", "$G", "streams", stream)
	d.write(5)
	d.stop()
	backup := d.keep(folder)
	d.start()
	before := checkpointOf(d.t, d.child.base, 1)
	d.write(7)
	d.logged = checkpointOf(d.t, d.child.base, before.N+1)
	d.stop()
	d.putBack(backup, folder)
}

// TestDrillAJournalRestoredAlone: the journal of quick pastes is of yesterday, and everything else of today.
func TestDrillAJournalRestoredAlone(t *testing.T) {
	t.Parallel()
	d := startDrill(t)
	d.writeAndRestore("LITE_0")
	d.recover("A journal of documents ends before its read model", "LITE_0", "quire repair accept-gap --service lite")
	if gone := d.missing(); len(gone) != 0 {
		t.Errorf("lost: %v", gone)
	}
	if got := d.audits(); !strings.Contains(got, "journal LITE_0 has lost its messages ") {
		t.Errorf("the audit does not say it: %s", got)
	}
	d.works()
}

// TestDrillBillingsJournalRestoredAlone: the journal of billing is of yesterday, and everything else of today.
func TestDrillBillingsJournalRestoredAlone(t *testing.T) {
	t.Parallel()
	d := startDrill(t)
	d.writeAndRestore("BILLING_0")
	d.recover("Billing's read model is newer than its journals", "but the read model was written up to", "quire repair read-model")
	checkConsistent(t, filepath.Join(d.folder, "blobs"), d.logged, checkpointOf(t, d.child.base, d.logged.N+1)) // the log has the loss
	if gone := d.missing(); len(gone) != 0 {
		t.Errorf("lost: %v", gone)
	}
	if got := d.counted(); got != 5 {
		t.Errorf("%d writes are counted, want the 5 of yesterday", got)
	}
	d.works() // with the key from before, and the audit matches
}

// TestDrillAllJournalsRestoredAlone: the volumes of NATS are lost, yesterday's backup is back, and the read models are of today.
func TestDrillAllJournalsRestoredAlone(t *testing.T) {
	t.Parallel()
	d := startDrill(t)
	d.write(5)
	d.stop()
	backup := d.keep("nats")
	d.start()
	d.write(7)
	d.stop()
	d.putBack(backup, "nats")
	d.run("Billing's read model is newer than its journals", "but the read model was written up to", "quire repair read-model")
	d.recover("A journal of documents ends before its read model", "LITE_0", "quire repair accept-gap --service lite")
	if gone := d.missing(); len(gone) != 0 {
		t.Errorf("lost: %v", gone)
	}
	d.works()
}

// works writes, restarts in order and after a kill, and reads everything that is not lost.
func (d *drill) works() {
	d.t.Helper()
	lost := len(d.missing())
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		d.write(3)
		_ = d.child.end(d.t, signal) // "signal: killed"
		d.start()
		if gone := len(d.missing()); gone != lost {
			d.t.Errorf("%d writes are lost after %s, %d before", gone, signal, lost)
		}
	}
	d.audits()
}

// TestDrillUsersThatNoBackupBringsBack: the read model has lost both of its users, and a start goes on without them.
func TestDrillUsersThatNoBackupBringsBack(t *testing.T) {
	t.Parallel()
	d := startDrill(t)
	d.write(3)
	d.stop()
	d.onStores(event.Billing, func(ctx context.Context, s Stores) error {
		const users = "billing_users"
		docs, err := s.Views.List(ctx, users, views.Query{Index: "by_account", Limit: views.MaxList})
		if err != nil {
			return err
		}
		var b views.Batch
		for _, doc := range docs {
			b.Deletes = append(b.Deletes, views.Delete{Collection: users, ID: doc.ID, Seq: doc.Seq})
		}
		return s.Views.Commit(ctx, b)
	})
	register := func() int {
		d.t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.child.base+"/api/users/register",
			strings.NewReader(`{"email":"b@example.org","password":"correct horse battery"}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		return answer.StatusCode
	}
	d.start()
	eventually.True(t, "503 for a new user", func() bool { return register() == http.StatusServiceUnavailable })
	d.write(3) // keys work
	d.stop()
	if out := d.run("Users that no backup brings back"); !strings.Contains(out, "partition 0: 2 users and 0 addresses") {
		t.Errorf("it prints %s", out)
	}
	d.start()
	eventually.True(t, "a new user", func() bool { return register() == http.StatusCreated })
	if gone := d.missing(); len(gone) > 0 {
		t.Errorf("lost: %v", gone)
	}
	d.audits()
	d.stop()
	if out, errs, code := quire(t, d.folder, nil, "repair", "accept-missing", "--by", "ann"); code != 0 || !strings.Contains(out, "Nothing to do.") {
		t.Errorf("again: %d, %s%s", code, out, errs)
	}
}
