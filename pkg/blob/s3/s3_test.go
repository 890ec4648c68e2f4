package s3_test

import (
	"context"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/blobtest"
	"quire.dev/pkg/blob/s3"
)

// serverVariable names an S3 server in which the tests may make and remove buckets: http(s)://key:secret@host:port.
const serverVariable = "QUIRE_S3_URL"

// server gives the server to test against, and a client of it that knows nothing of the store.
func server(t *testing.T) (*url.URL, *minio.Client) {
	t.Helper()
	raw := os.Getenv(serverVariable)
	if raw == "" {
		t.Skipf("NOT TESTED against an S3 server: set %s=http://key:secret@host:port to one, such as a MinIO", serverVariable)
	}
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatalf("%s is no URL", serverVariable) // the error would show the secret
	}
	secret, _ := u.User.Password()
	client, err := minio.New(u.Host, &minio.Options{
		Creds:  credentials.NewStaticV4(u.User.Username(), secret, ""),
		Secure: u.Scheme == "https",
	})
	if err != nil {
		t.Fatal(err)
	}
	return u, client
}

// newBucket gives the URL of a bucket that does not exist yet, and removes it in the end.
func newBucket(t *testing.T) (string, string, *minio.Client) {
	t.Helper()
	u, client := server(t)
	bucket := "quire-test-" + uuid.NewString()
	at := *u
	at.Path = "/" + bucket
	t.Cleanup(func() {
		options := minio.RemoveBucketOptions{ForceDelete: true} // MinIO's extension
		err := client.RemoveBucketWithOptions(context.WithoutCancel(t.Context()), bucket, options)
		if err != nil && minio.ToErrorResponse(err).Code != minio.NoSuchBucket {
			t.Errorf("remove the bucket: %v", err)
		}
	})
	return at.String(), bucket, client
}

func open(t *testing.T, at string) *s3.Store {
	t.Helper()
	store, err := s3.Open(t.Context(), s3.Config{URL: at})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestS3KeepsTheContract(t *testing.T) {
	server(t)
	blobtest.Run(t, func(t *testing.T) blob.Store {
		at, _, _ := newBucket(t)
		return open(t, at)
	})
}

func TestABucketIsMadeOnceAndFoundAgain(t *testing.T) {
	at, _, _ := newBucket(t)
	if _, err := open(t, at).Put(t.Context(), "a/b", strings.NewReader("x"), 1); err != nil {
		t.Fatal(err)
	}
	r, info, err := open(t, at).Get(t.Context(), "a/b", 0, -1)
	if err != nil || info.Size != 1 {
		t.Fatalf("get after opening again: %+v, %v", info, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestABucketThatKeepsVersionsIsRefused(t *testing.T) {
	at, bucket, client := newBucket(t)
	open(t, at)
	if err := client.EnableVersioning(t.Context(), bucket); err != nil {
		t.Fatal(err)
	}
	if _, err := s3.Open(t.Context(), s3.Config{URL: at}); err == nil || !strings.Contains(err.Error(), "versioned") {
		t.Errorf("open: %v, want a refusal that names the versions", err)
	}
}

func TestAFailedPutLeavesNoUnfinishedUpload(t *testing.T) {
	at, bucket, client := newBucket(t)
	store := open(t, at)
	if _, err := store.Put(t.Context(), "a/b", blobtest.Content(1, 11<<20), 12<<20); err == nil {
		t.Fatal("a put of too few bytes succeeds")
	}
	for upload := range client.ListIncompleteUploads(t.Context(), bucket, "a/b", true) {
		t.Errorf("an upload is left: %+v", upload)
	}
}

func TestAWrongURLIsRefusedWithoutItsSecret(t *testing.T) {
	const secret = "hunter2hunter2"
	tests := map[string]string{
		"":                                     "neither http nor https",
		"ftp://key:" + secret + "@host/bucket": "neither http nor https",
		"http://key:" + secret + "@/bucket":    "host is missing",
		"http://:" + secret + "@host:9000/bucket":            "no key or no secret",
		"http://key:@host:9000/bucket":                       "no key or no secret",
		"http://key:" + secret + "@host:9000":                "bucket",
		"http://key:" + secret + "@host:9000/a/b":            "bucket",
		"http://key:" + secret + "@host:9000/Bucket":         "bucket",
		"http://key:" + secret + "@host:9000/bucket?regoin=": "regoin",
		"http://key:" + secret + "/@host:9000/bucket":        "malformed",
		"http://key:" + secret + "%@host:9000/bucket":        "malformed",
	}
	for raw, want := range tests {
		_, err := s3.Open(t.Context(), s3.Config{URL: raw})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want it to name %q", raw, err, want)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%q: the secret is shown: %v", raw, err)
		}
	}
}
