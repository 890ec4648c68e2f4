package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
	"quire.dev/tools/cluster"
)

// TestBackup backs up a cluster while clients work, to a folder and to a bucket, loses every store, and restores the bucket's
// backup as docs/operations.md says. What was acknowledged before the backup is there, to the last micro-credit. Of what was written
// meanwhile, each paste is there with its charge, or neither is. It prints RPO, what was acknowledged and is lost, and RTO, from the loss
// until every process is ready.
func TestBackup(t *testing.T) {
	if !*run {
		t.Skip("make chaos-cluster FAULTS=backup")
	}
	if wanted, err := regexp.MatchString(*only, "backup"); err != nil || !wanted {
		t.Skip("it is not among FAULTS")
	}
	if *store != cluster.PostgreSQL {
		t.Skip("MongoDB is backed up by its own tools")
	}
	b := newBench(t, "")
	var table strings.Builder
	b.try(t, fault{name: "before the backup", inject: func(*testing.T, *bench) error { return nil }}, &table)
	b.rest(t)

	o := newOperator(t, b)
	w := startWriting(t, b)
	folder := filepath.Join(t.TempDir(), "backup")
	w.await(t, 20)
	o.quire(t, o.reader(), "backup", "--to", folder)
	o.quire(t, o.reader(), "backup", "--to", place)
	w.await(t, 20) // these are lost
	w.stop()
	for _, from := range []string{folder, place} {
		o.quire(t, o.reader(), "backup", "verify", "--from", from, "--scratch", t.TempDir())
	}

	ctx, cancel := context.WithTimeout(t.Context(), recoverLimit+startLimit)
	defer cancel()
	lost := time.Now()
	if err := b.c.Empty(ctx); err != nil {
		t.Fatal(err)
	}
	o.quire(t, o.writer(), "restore", "--from", place)
	root, err := cluster.Root()
	if err == nil {
		err = errors.Join(b.c.Provision(ctx, filepath.Join(root, "bin")), b.c.StartServices(ctx))
	}
	if err != nil {
		t.Fatal(err)
	}
	b.load.Move(b.c.Edges()...)
	b.awaitReady(t)
	t.Logf("RTO %s", time.Since(lost).Round(time.Millisecond))
	b.rest(t)
	w.check(t)
}

// place is the backup in MinIO, outside of the installation's bucket.
const place = "s3://backups/quire"

// operator runs the command quire with the users that docs/operations.md names.
type operator struct {
	c    *cluster.Cluster
	bin  string
	url  *url.URL // of the bucket, as MinIO's root
	pass string   // of the bucket's reader
}

// newOperator creates the bucket of the backups, and a user that may read the installation's.
func newOperator(t *testing.T, b *bench) *operator {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	o := &operator{c: b.c, bin: filepath.Join(root, "bin"), pass: "only-reads-the-bucket"}
	if o.url, err = url.Parse(b.c.S3URL(cluster.S3Root)); err != nil {
		t.Fatal(err)
	}
	policy := filepath.Join(t.TempDir(), "policy.json")
	bucket := "arn:aws:s3:::" + strings.Trim(o.url.Path, "/")
	text := fmt.Sprintf(`{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:ListBucket", "s3:GetObject"], "Resource": [%q, %q]}]}`, bucket, bucket+"/*")
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"MC_HOST_store=" + o.url.Scheme + "://" + o.url.User.String() + "@" + o.url.Host, "MC_CONFIG_DIR=" + t.TempDir()}
	for _, args := range [][]string{
		{"mb", "store/backups"},
		{"admin", "policy", "create", "store", "backup", policy},
		{"admin", "user", "add", "store", "backup", o.pass},
		{"admin", "policy", "attach", "store", "backup", "--user", "backup"},
	} {
		o.command(t, environ, "mc", append([]string{"--quiet"}, args...)...)
	}
	return o
}

// reader are the settings of a backup.
func (o *operator) reader() []string {
	bucket := *o.url
	bucket.User = url.UserPassword("backup", o.pass)
	return []string{"QUIRE_NATS_URL=" + o.c.NATSURL("backup"), "QUIRE_POSTGRES_URL=" + o.c.PostgresURL("backup"), "QUIRE_S3_URL=" + bucket.String()}
}

// writer are the settings of a restore.
func (o *operator) writer() []string {
	return []string{
		"QUIRE_NATS_URL=" + o.c.NATSURL("operator"), "QUIRE_POSTGRES_URL=" + o.c.PostgresURL(""), "QUIRE_S3_URL=" + o.url.String(),
		"QUIRE_REPLICAS=3", fmt.Sprint("QUIRE_PARTITIONS=", partitions),
	}
}

// quire runs the command quire.
func (o *operator) quire(t *testing.T, settings []string, args ...string) {
	t.Helper()
	password, _ := o.url.User.Password()
	environ := append(settings, "AWS_ENDPOINT_URL="+o.url.Scheme+"://"+o.url.Host, "AWS_ACCESS_KEY_ID="+o.url.User.Username(), "AWS_SECRET_ACCESS_KEY="+password)
	t.Logf("quire %s\n%s", strings.Join(args, " "), o.command(t, environ, "quire", args...))
}

func (o *operator) command(t *testing.T, environ []string, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(o.bin, name), args...)
	command.Env = cluster.Environment(environ...)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// writing creates quick pastes for an account of its own, one after the other for each worker, so that each is answered.
type writing struct {
	b       *bench
	key     string
	stop    func()
	mu      sync.Mutex
	created map[string]time.Time // when a quick paste was acknowledged, by id
}

const writers = 4

func startWriting(t *testing.T, b *bench) *writing {
	t.Helper()
	w := &writing{b: b, key: b.account(t, "backup@example.org"), created: map[string]time.Time{}}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for n := range writers {
		group.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				w.write(t, fmt.Sprintf("%d of writer %d", i, n))
			}
		})
	}
	w.stop = sync.OnceFunc(func() { cancel(); group.Wait() })
	t.Cleanup(w.stop)
	return w
}

func (w *writing) write(t *testing.T, text string) {
	var made struct{ ID string }
	_, err := w.b.call(t.Context(), http.MethodPost, "/api/dev/paste-lite/create", text, http.StatusCreated, &made, "x-api-key", w.key, "Content-Type", "text/plain")
	if err != nil {
		t.Error(err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.created[made.ID] = time.Now()
}

func (w *writing) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.created)
}

// await returns once so many more were created.
func (w *writing) await(t *testing.T, more int) {
	t.Helper()
	want := w.count() + more
	eventually.True(t, "quick pastes are created", func() bool { return w.count() >= want })
}

// check compares the pastes that are there with those that the account was charged for.
func (w *writing) check(t *testing.T) {
	t.Helper()
	var page struct {
		Pastes     []struct{ ID string }
		NextCursor string
	}
	there, gone := 0, maps.Clone(w.created)
	for cursor, last := "", false; !last; cursor, last = page.NextCursor, page.NextCursor == "" {
		path := "/api/dev/paste-lite/list?limit=100"
		if cursor != "" {
			path += "&cursor=" + url.QueryEscape(cursor)
		}
		page.Pastes, page.NextCursor = nil, ""
		w.read(t, path, &page)
		there += len(page.Pastes)
		for _, paste := range page.Pastes {
			delete(gone, paste.ID)
		}
	}
	var shown struct {
		Usage map[string]struct{ Used int }
	}
	w.read(t, "/api/users/user/dev-usage", &shown)
	charged := shown.Usage["pasteLite.create"].Used
	t.Logf("%d quick pastes were created beside the backup, %d of them are there, %d were charged", len(w.created), there, charged)
	if there != charged || there < 20 || there == len(w.created) {
		t.Error("each must be there with its charge, or neither; those before the backup's start are there, those after its end are not")
	}
	times := slices.SortedFunc(maps.Values(gone), time.Time.Compare)
	if len(times) > 0 {
		t.Logf("RPO %d of %d writes, within %s", len(gone), len(w.created), times[len(times)-1].Sub(times[0]).Round(time.Millisecond))
	}
}

// read decodes the answer to a GET.
func (w *writing) read(t *testing.T, path string, into any) {
	t.Helper()
	if _, err := w.b.call(t.Context(), http.MethodGet, path, "", http.StatusOK, into, "x-api-key", w.key); err != nil {
		t.Fatal(err)
	}
}
