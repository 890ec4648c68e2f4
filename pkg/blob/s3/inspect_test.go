package s3_test

import (
	"strings"
	"testing"

	"quire.dev/pkg/blob/s3"
)

func TestInspectChangesNothing(t *testing.T) {
	at, bucket, client := newBucket(t)
	inspect := func() s3.Bucket {
		t.Helper()
		b, err := s3.Inspect(t.Context(), s3.Config{URL: at})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if b := inspect(); b != (s3.Bucket{Missing: true}) {
		t.Errorf("before it exists: %+v", b)
	}
	if exists, err := client.BucketExists(t.Context(), bucket); err != nil || exists {
		t.Errorf("the bucket was created: %t, %v", exists, err)
	}
	store := open(t, at)
	if b := inspect(); b != (s3.Bucket{}) {
		t.Errorf("empty: %+v", b)
	}
	if _, err := store.Put(t.Context(), "installation", strings.NewReader("an id"), 5); err != nil {
		t.Fatal(err)
	}
	if err := client.EnableVersioning(t.Context(), bucket); err != nil {
		t.Fatal(err)
	}
	if b := inspect(); b != (s3.Bucket{Versioned: true, Owner: "an id"}) {
		t.Errorf("with versions: %+v", b)
	}
}
