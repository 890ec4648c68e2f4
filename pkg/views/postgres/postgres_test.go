package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/views"
	"quire.dev/pkg/views/viewstest"
)

const urlVariable = "QUIRE_POSTGRES_URL"

// serverConfig names a separate schema on the server given by the environment.
func serverConfig(t *testing.T) Config {
	t.Helper()
	url := os.Getenv(urlVariable)
	if url == "" {
		t.Skipf("NOT TESTED AGAINST POSTGRESQL: run make test-stores, or set %s, for example to postgres://postgres:secret@127.0.0.1:5432/postgres after "+
			"docker run --rm -p 5432:5432 -e POSTGRES_PASSWORD=secret postgres:15", urlVariable)
	}
	config := Config{
		URL:         url,
		Schema:      "quire_test_" + strings.ToLower(rand.Text()[:12]),
		Collections: viewstest.Collections(),
		Timeout:     time.Minute,
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		s, err := Open(ctx, Config{URL: url, Schema: config.Schema + "_cleaner"})
		if err != nil {
			t.Errorf("open to drop: %v", err)
			return
		}
		for _, name := range []string{config.Schema, config.Schema + "_cleaner"} {
			if _, err := s.pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+quote(name)+" CASCADE"); err != nil {
				t.Errorf("drop %s: %v", name, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return config
}

// open opens a store that the end of the test closes.
func open(t *testing.T, config Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), config)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func TestConformance(t *testing.T) {
	serverConfig(t) // skips all of it where there is no server
	viewstest.Run(t, func(t *testing.T) (views.Store, func() views.Store) {
		config := serverConfig(t)
		store := open(t, config)
		return store, func() views.Store {
			if err := store.Close(); err != nil {
				t.Fatalf("close: %v", err)
			}
			store = open(t, config)
			return store
		}
	})
}

func TestUnreachableServerCostsTheDeadline(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := Open(ctx, Config{URL: "postgres://127.0.0.1:1/d", Schema: "s", Collections: viewstest.Collections()})
	if !errors.Is(err, views.ErrUnavailable) {
		t.Fatalf("open: %v, want ErrUnavailable", err)
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	for name, c := range map[string]Config{
		"no schema":    {URL: "postgres://127.0.0.1:1/d"},
		"long schema":  {URL: "postgres://127.0.0.1:1/d", Schema: strings.Repeat("s", 49)},
		"quote":        {URL: "postgres://127.0.0.1:1/d", Schema: `a"b`},
		"no URL":       {URL: "http://127.0.0.1", Schema: "s"},
		"bad pool":     {URL: "postgres://127.0.0.1:1/d?pool_max_conns=none", Schema: "s"},
		"a collection": {URL: "postgres://127.0.0.1:1/d", Schema: "s", Collections: []views.Collection{{Name: "_own"}}},
	} {
		if _, err := Open(t.Context(), c); !errors.Is(err, views.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

// TestErrorsHideThePassword, also those of a URL that can't be read.
func TestErrorsHideThePassword(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for _, url := range []string{
		"postgres://quire:hunter2@127.0.0.1:1/d", "postgres://quire:hunter2@127.0.0.1:x/d", "postgres://quire:hunter2@127.0.0.1:1/d?pool_max_conns=x",
		"postgres://127.0.0.1:1/d?password=hunter2&sslmode=none",
	} {
		if _, err := Open(ctx, Config{URL: url, Schema: "s"}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
