package postgres

import (
	"testing"

	"quire.dev/pkg/views"
	"quire.dev/pkg/views/viewstest"
)

func TestSnapshot(t *testing.T) {
	t.Parallel()
	serverConfig(t) // skips all of it where there is no server
	viewstest.RunSnapshot(t, func(t *testing.T) (views.Store, func() views.Snapshot) {
		config := serverConfig(t)
		return open(t, config), func() views.Snapshot {
			s, err := OpenSnapshot(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	})
}
