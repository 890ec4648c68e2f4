package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/s3"
	"quire.dev/pkg/installation"
	"quire.dev/tools/cluster"
)

// parts are the keys in the bucket that each service uses: docs/stores.md, Bucket.
type part struct {
	write []string // prefixes under which it puts, gets and deletes
	read  []string // prefixes under which it only gets
	list  []string // prefixes that it may list
	moves [2]string
}

func parts() map[string]part {
	documents := func(domain string) part {
		own, trash := domain+"/", domain+"-trash/"
		return part{write: []string{own, trash}, list: []string{own, own + "3/", trash, trash + "3/"}, moves: [2]string{own, trash}}
	}
	return map[string]part{
		"edge":    {write: []string{"paste/", "lite/", "file/", "exports/"}, read: []string{"log/"}},
		"paste":   documents("paste"),
		"lite":    documents("lite"),
		"file":    documents("file"),
		"billing": {write: []string{"billing/"}, read: []string{"archive/BILLING_0/"}, list: []string{"billing/", "billing/BILLING_0/", "archive/BILLING_0/"}},
		"archive": {write: []string{"archive/", "archive/BILLING_0/", "log/"}, list: []string{"archive/", "archive/BILLING_0/", "log/"}},
	}
}

// prefixes are all that a bucket has, and what might be added to one.
func prefixes() []string {
	return []string{"billing/", "paste/", "paste-trash/", "lite/", "lite-trash/", "file/", "file-trash/", "exports/", "archive/", "archive/BILLING_0/", "log/", "other/"}
}

func startStores(t *testing.T) *cluster.Cluster {
	t.Helper()
	if !*many {
		t.Skip("starts MinIO: make test-stores")
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.StartStores(ctx, cluster.Options{Root: root, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("stop the stores: %v", err)
		}
	})
	return c
}

func openBucket(t *testing.T, c *cluster.Cluster, user string) *s3.Store {
	t.Helper()
	store, err := s3.Open(t.Context(), s3.Config{URL: c.S3URL(user)})
	if err != nil {
		t.Fatalf("%s opens the bucket: %v", user, err)
	}
	return store
}

// TestBucketGivesEachServiceItsPart has MinIO with the users and rights that deploy/minio/init.sh makes.
func TestBucketGivesEachServiceItsPart(t *testing.T) {
	c := startStores(t)
	root := openBucket(t, c, cluster.S3Root)
	for _, prefix := range prefixes() {
		if err := put(t, root, prefix+"3/item/content", "theirs"); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("installation", func(t *testing.T) { testInstallation(t, c, root) })
	for user, mine := range parts() {
		t.Run(user, func(t *testing.T) {
			store := openBucket(t, c, user)
			for _, prefix := range mine.write {
				use(t, store, prefix+"3/mine/")
			}
			for _, prefix := range mine.list {
				if err := list(t, store, prefix); err != nil {
					t.Errorf("list %s: %v", prefix, err)
				}
			}
			if from, to := mine.moves[0], mine.moves[1]; from != "" {
				move(t, store, from+"3/mine/moved", to+"3/mine/moved")
				move(t, store, to+"3/mine/moved", from+"3/mine/moved")
			}
			for _, prefix := range prefixes() {
				if !slices.Contains(mine.write, prefix) {
					refuse(t, store, mine, prefix)
				}
				if !slices.Contains(mine.list, prefix) {
					refused(t, "list "+prefix, list(t, store, prefix))
				}
			}
			refused(t, "list all", list(t, store, ""))
			refused(t, "put at the top", put(t, store, "top", "mine"))
			testBucketItself(t, c, user)
		})
	}
	for _, prefix := range prefixes() {
		if got := get(t, root, prefix+"3/item/content"); got != "theirs" {
			t.Errorf("%s3/item/content is %q after all", prefix, got)
		}
	}
}

// TestBucketTellsAnEdgeThatABlobIsGone: S3 answers 403 for a key that is missing to a user who may not list the key, and an
// edge has to know that a document was replaced meanwhile. So an edge may list below an item that it knows, and no further.
func TestBucketTellsAnEdgeThatABlobIsGone(t *testing.T) {
	c := startStores(t)
	edge := openBucket(t, c, "edge")
	for _, domain := range []string{"paste", "lite", "file", "exports"} {
		key := domain + "/3/4yKqZ1dE8sWp/random"
		if err := put(t, edge, key, "content"); err != nil {
			t.Fatal(err)
		}
		if err := list(t, edge, key); err != nil {
			t.Errorf("list the key %s: %v", key, err)
		}
		for _, prefix := range []string{domain + "/3/4yKqZ1dE8sWp", domain + "/3/4", domain + "/3/", domain + "/3", domain} {
			refused(t, "list "+prefix, list(t, edge, prefix))
		}
	}
}

// TestBucketHasOneUserForOneProcess: deploy/minio/quire.json is for the process that has all services in it.
func TestBucketHasOneUserForOneProcess(t *testing.T) {
	c := startStores(t)
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(c.S3URL(cluster.S3Root))
	if err != nil {
		t.Fatal(err)
	}
	policy, err := os.ReadFile(filepath.Join(root, "deploy", "minio", "quire.json"))
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	file := filepath.Join(home, "policy.json")
	if err := os.WriteFile(file, bytes.ReplaceAll(policy, []byte("BUCKET"), []byte(strings.Trim(at.Path, "/"))), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, arguments := range [][]string{
		{"policy", "create", "store", "one", file}, {"user", "add", "store", "one", "one-password"}, {"policy", "attach", "store", "one", "--user", "one"},
	} {
		command := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "mc"), append([]string{"admin"}, arguments...)...)
		command.Env = append(os.Environ(), "HOME="+home, "MC_HOST_store=http://"+at.User.String()+"@"+at.Host)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("mc admin %v: %v\n%s", arguments, err, out)
		}
	}
	at.User = url.UserPassword("one", "one-password")
	store, err := s3.Open(t.Context(), s3.Config{URL: at.String()})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Create(t.Context(), installation.BlobKey, []byte("id")); err != nil {
		t.Error(err)
	}
	for _, mine := range parts() {
		for _, prefix := range append(mine.write, mine.list...) {
			use(t, store, prefix+"mine/")
			if err := list(t, store, prefix); err != nil {
				t.Errorf("list %s: %v", prefix, err)
			}
		}
	}
	move(t, store, "paste/3/mine/moved", "paste-trash/3/mine/moved")
}

// testInstallation: billing writes the object that says whose the bucket is, once. The others read it.
func testInstallation(t *testing.T, c *cluster.Cluster, root *s3.Store) {
	for user := range parts() {
		store := openBucket(t, c, user)
		if _, _, err := store.Get(t.Context(), installation.BlobKey, 0, 1); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("%s gets the installation before there is one: %v", user, err)
		}
		if user != "billing" {
			refused(t, user+" creates the installation", store.Create(t.Context(), installation.BlobKey, []byte("theirs")))
			refused(t, user+" puts the installation", put(t, store, installation.BlobKey, "theirs"))
		}
	}
	billing := openBucket(t, c, "billing")
	if err := billing.Create(t.Context(), installation.BlobKey, []byte("id")); err != nil {
		t.Fatalf("billing creates the installation: %v", err)
	}
	if err := billing.Create(t.Context(), installation.BlobKey, []byte("another")); !errors.Is(err, blob.ErrExists) {
		t.Errorf("billing creates another installation: %v", err)
	}
	for user := range parts() {
		store := openBucket(t, c, user)
		if got := get(t, store, installation.BlobKey); got != "id" {
			t.Errorf("%s reads the installation %q", user, got)
		}
		refused(t, user+" deletes the installation", store.Delete(t.Context(), installation.BlobKey))
	}
	if got := get(t, root, installation.BlobKey); got != "id" {
		t.Errorf("the installation is %q", got)
	}
}

// use does what a service does with its keys: small blobs, large ones, some of which fail, ranges, and blobs that are gone.
func use(t *testing.T, store *s3.Store, prefix string) {
	t.Helper()
	key := prefix + "content"
	if err := put(t, store, key, "content"); err != nil {
		t.Errorf("put %s: %v", key, err)
	}
	if got := get(t, store, key); got != "content" {
		t.Errorf("%s is %q", key, got)
	}
	if err := store.Create(t.Context(), key, []byte("another")); !errors.Is(err, blob.ErrExists) {
		t.Errorf("create %s again: %v, want ErrExists", key, err)
	}
	if err := store.Create(t.Context(), prefix+"created", []byte("content")); err != nil {
		t.Errorf("create %screated: %v", prefix, err)
	}
	large := int64(11 << 20) // three parts
	if _, err := store.Put(t.Context(), prefix+"large", bytes.NewReader(make([]byte, large)), -1); err != nil {
		t.Errorf("put %slarge: %v", prefix, err)
	}
	cut := errors.New("cut")
	_, err := store.Put(t.Context(), prefix+"cut", io.MultiReader(bytes.NewReader(make([]byte, large)), iotest.ErrReader(cut)), -1)
	if !errors.Is(err, cut) {
		t.Errorf("put %scut: %v", prefix, err)
	}
	r, info, err := store.Get(t.Context(), prefix+"large", large-1, -1)
	if err != nil || info.Size != large {
		t.Fatalf("get the end of %slarge: %+v, %v", prefix, info, err)
	}
	if rest, err := io.ReadAll(r); len(rest) != 1 || errors.Join(err, r.Close()) != nil {
		t.Errorf("the end of %slarge: %d bytes, %v", prefix, len(rest), err)
	}
	for _, name := range []string{"content", "created", "large", "never"} {
		if err := store.Delete(t.Context(), prefix+name); err != nil {
			t.Errorf("delete %s%s: %v", prefix, name, err)
		}
		if _, _, err := store.Get(t.Context(), prefix+name, 0, 1); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("get %s%s: %v, want ErrNotFound", prefix, name, err)
		}
	}
}

func move(t *testing.T, store *s3.Store, from, to string) {
	t.Helper()
	if err := put(t, store, from, "moved"); err != nil {
		t.Fatal(err)
	}
	if err := store.Move(t.Context(), from, to); err != nil {
		t.Errorf("move %s to %s: %v", from, to, err)
	}
	if got := get(t, store, to); got != "moved" {
		t.Errorf("%s is %q", to, got)
	}
	if err := store.Move(t.Context(), from, to); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("move %s again: %v", from, err)
	}
}

// refuse tries everything with a blob of another part.
func refuse(t *testing.T, store *s3.Store, mine part, prefix string) {
	t.Helper()
	key, own := prefix+"3/item/content", mine.write[0]+"3/mine/content"
	if slices.Contains(mine.read, prefix) {
		if got := get(t, store, key); got != "theirs" {
			t.Errorf("%s is %q", key, got)
		}
		if _, _, err := store.Get(t.Context(), prefix+"never", 0, 1); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("get %snever: %v, want ErrNotFound", prefix, err)
		}
	} else {
		_, _, err := store.Get(t.Context(), key, 0, 1)
		refused(t, "get "+key, err)
		_, _, err = store.Get(t.Context(), key, 0, 0) // asks for the blob's size
		refused(t, "stat "+key, err)
	}
	refused(t, "put "+key, put(t, store, key, "mine"))
	refused(t, "put another", put(t, store, key+"2", "mine"))
	refused(t, "create", store.Create(t.Context(), key+"3", []byte("mine")))
	_, err := store.Put(t.Context(), key, bytes.NewReader(make([]byte, 11<<20)), -1)
	refused(t, "put parts of "+key, err)
	refused(t, "delete "+key, store.Delete(t.Context(), key))
	refused(t, "take "+key, store.Move(t.Context(), key, own))
	if err := put(t, store, own, "mine"); err != nil {
		t.Fatal(err)
	}
	refused(t, "give "+key, store.Move(t.Context(), own, key))
}

// testBucketItself: no service changes the bucket, makes another one, or gives rights to others.
func testBucketItself(t *testing.T, c *cluster.Cluster, user string) {
	t.Helper()
	at, err := url.Parse(c.S3URL(user))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := at.User.Password()
	client, err := minio.New(at.Host, &minio.Options{Creds: credentials.NewStaticV4(user, password, ""), Region: "us-east-1", MaxRetries: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, name := t.Context(), strings.Trim(at.Path, "/")
	everybody := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":["s3:GetObject"],"Resource":["arn:aws:s3:::` + name + `/*"]}]}`
	refused(t, "give everybody rights", client.SetBucketPolicy(ctx, name, everybody))
	refused(t, "keep versions", client.EnableVersioning(ctx, name))
	refused(t, "make a bucket", client.MakeBucket(ctx, "another", minio.MakeBucketOptions{Region: "us-east-1"}))
	refused(t, "remove the bucket", client.RemoveBucketWithOptions(ctx, name, minio.RemoveBucketOptions{ForceDelete: true}))
	for upload := range client.ListIncompleteUploads(ctx, name, "", true) {
		refused(t, "list uploads", upload.Err)
	}
}

func put(t *testing.T, store *s3.Store, key, content string) error {
	t.Helper()
	_, err := store.Put(t.Context(), key, strings.NewReader(content), int64(len(content)))
	return err
}

func get(t *testing.T, store *s3.Store, key string) string {
	t.Helper()
	r, _, err := store.Get(t.Context(), key, 0, -1)
	if err != nil {
		t.Errorf("get %s: %v", key, err)
		return ""
	}
	content, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		t.Errorf("read %s: %v", key, err)
	}
	return string(content)
}

func list(t *testing.T, store *s3.Store, prefix string) error {
	t.Helper()
	return store.Sweep(t.Context(), prefix, time.Now().Add(time.Hour), func(blob.Info) error { return nil })
}

// refused checks that the server has refused it, rather than failed.
func refused(t *testing.T, what string, err error) {
	t.Helper()
	if minio.ToErrorResponse(unwrapped(err)).Code != minio.AccessDenied {
		t.Errorf("%s: %v, want a refusal", what, err)
	}
}

func unwrapped(err error) error {
	var answer minio.ErrorResponse
	if errors.As(err, &answer) {
		return answer
	}
	return err
}
