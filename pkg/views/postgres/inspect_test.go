package postgres

import (
	"testing"
	"time"
)

func TestAServerTellsAboutItself(t *testing.T) {
	config := serverConfig(t)
	begun := time.Now().Add(-time.Second)
	s, err := Inspect(t.Context(), config.URL)
	if err != nil {
		t.Fatal(err)
	}
	if s.Version == "" || s.Standby || s.SynchronousCommit != "on" || s.Now.Before(begun) || s.Now.After(time.Now().Add(time.Second)) {
		t.Errorf("%+v", s)
	}
	store := open(t, config)
	var super bool
	if err := store.pool.QueryRow(t.Context(), "SELECT rolsuper FROM pg_roles WHERE rolname = current_user").Scan(&super); err != nil || super && !s.Wide {
		t.Errorf("superuser %t, and %+v, %v", super, s, err)
	}
}
