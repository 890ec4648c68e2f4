package mongo

import (
	"errors"
	"testing"
	"time"
)

func TestAServerTellsAboutItself(t *testing.T) {
	config := serverConfig(t)
	begun := time.Now().Add(-time.Second)
	s, err := Inspect(t.Context(), config.URI)
	if err != nil {
		t.Fatal(err)
	}
	if s.Version == "" || s.Now.Before(begun) || s.Now.After(time.Now().Add(time.Second)) || (s.ReplicaSet == "") != (s.Members == 0) {
		t.Errorf("%+v", s)
	}
}

func TestOldVersionsAreRefused(t *testing.T) {
	for version, old := range map[string]bool{"5.0.31": true, "": true, "x": true, "6.0.0": false, "8.0.21": false, "10.1.0": false} {
		if err := checkVersion(version); errors.Is(err, ErrOld) != old {
			t.Errorf("%q: %v", version, err)
		}
	}
}

func TestAUserWhoReadsAndWritesIsNotWide(t *testing.T) {
	for _, c := range []struct {
		roles []role
		wide  bool
	}{
		{nil, false}, // a server without users
		{[]role{{"readWrite", "quire_lite"}}, false},
		{[]role{{"readWrite", "quire_lite"}, {"readWrite", "quire_paste"}}, false},
		{[]role{{"readWrite", "admin"}}, true},
		{[]role{{"readWrite", "quire_lite"}, {"clusterMonitor", "admin"}}, true},
		{[]role{{"dbOwner", "quire_lite"}}, true},
		{[]role{{"readWriteAnyDatabase", "admin"}}, true},
	} {
		if got := isWide(c.roles); got != c.wide {
			t.Errorf("%v: wide %v", c.roles, got)
		}
	}
}
