package sqlite

import (
	"path/filepath"
	"testing"

	"quire.dev/pkg/views"
	"quire.dev/pkg/views/viewstest"
)

func TestConformance(t *testing.T) {
	for name, base := range map[string]Config{
		"normal":         {Synchronous: Normal},
		"full":           {Synchronous: Full},
		"ids that move":  {Synchronous: Normal, FreshIDs: 2},
		"hashes collide": {Synchronous: Normal, FreshIDs: 3, hash: func(id string) int64 { return hashOf(id) % 3 }},
	} {
		t.Run(name, func(t *testing.T) {
			viewstest.Run(t, func(t *testing.T) (views.Store, func() views.Store) {
				config := base
				config.Path = filepath.Join(t.TempDir(), "views.db")
				config.Collections = viewstest.Collections()
				store := open(t, config)
				return store, func() views.Store {
					if err := store.Close(); err != nil {
						t.Fatalf("close: %v", err)
					}
					store = open(t, config)
					return store
				}
			})
		})
	}
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
