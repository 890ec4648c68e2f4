package sqlite

import (
	"path/filepath"
	"testing"

	"quire.dev/pkg/views"
	"quire.dev/pkg/views/viewstest"
)

func TestSnapshot(t *testing.T) {
	t.Parallel()
	for name, freshIDs := range map[string]int{"new ids": 0, "ids in the index": 100, "ids that move": 1500} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			viewstest.RunSnapshot(t, func(t *testing.T) (views.Store, func() views.Snapshot) {
				config := Config{Path: filepath.Join(t.TempDir(), "views.db"), Collections: viewstest.Collections(), FreshIDs: freshIDs}
				return open(t, config), func() views.Snapshot {
					s, err := OpenSnapshot(t.Context(), config.Path, config.Collections)
					if err != nil {
						t.Fatal(err)
					}
					return s
				}
			})
		})
	}
}

func TestASnapshotOfNoFileCreatesNone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "views.db")
	for range 2 {
		if s, err := OpenSnapshot(t.Context(), path, viewstest.Collections()); err == nil {
			t.Error("opened", s.Close())
		}
	}
}
