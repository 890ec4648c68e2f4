package s3_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"quire.dev/pkg/blob/s3"
)

// TestCredentialsComeFromTheFirstPlaceThatHasSome: the URL, the environment, a file.
func TestCredentialsComeFromTheFirstPlaceThatHasSome(t *testing.T) {
	var signed atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { signed.Store(r.Header.Get("Authorization")) }))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	file := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, []byte("[default]\naws_access_key_id = ofafile\naws_secret_access_key = secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY", "AWS_SECRET_KEY", "MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD", "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY"} {
		t.Setenv(name, "")
	}
	uses := func(url, key string) {
		t.Helper()
		if _, err := s3.Open(t.Context(), s3.Config{URL: url}); err != nil {
			t.Fatal(err)
		}
		if got, _ := signed.Load().(string); !strings.Contains(got, "Credential="+key+"/") {
			t.Errorf("%s: signed as %q, want %s", url, got, key)
		}
	}
	uses("http://"+host+"/bucket", "ofafile")
	t.Setenv("AWS_ACCESS_KEY_ID", "ofenvironment")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	uses("http://"+host+"/bucket", "ofenvironment")
	uses("http://oftheurl:secret@"+host+"/bucket", "oftheurl")
}
