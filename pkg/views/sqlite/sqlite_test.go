package sqlite

import (
	"path/filepath"
	"testing"

	"quire.dev/pkg/views"
	"quire.dev/pkg/views/viewstest"
)

func TestConformance(t *testing.T) {
	for _, synchronous := range []string{Normal, Full} {
		t.Run(synchronous, func(t *testing.T) {
			viewstest.Run(t, func(t *testing.T) (views.Store, func() views.Store) {
				config := Config{
					Path:        filepath.Join(t.TempDir(), "views.db"),
					Collections: viewstest.Collections(),
					Synchronous: synchronous,
				}
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
