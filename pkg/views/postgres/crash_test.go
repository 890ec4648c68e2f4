package postgres

import (
	"os"
	"testing"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/views"
	"quire.dev/pkg/views/viewstest"
)

const childVariable = "QUIRE_TEST_POSTGRES_CHILD" // the schema that the child writes

// TestKilledChild is the process that TestKilledProcessKeepsWholeBatches kills.
func TestKilledChild(t *testing.T) {
	schema := os.Getenv(childVariable)
	if schema == "" {
		return // it has nothing to do by itself
	}
	viewstest.CommitUntilKilled(t, open(t, Config{URL: os.Getenv(urlVariable), Schema: schema, Collections: viewstest.KillCollections()}))
}

func TestKilledProcessKeepsWholeBatches(t *testing.T) {
	config := serverConfig(t)
	config.Collections = viewstest.KillCollections()
	admin := config
	admin.Schema += "_cleaner"
	a := open(t, admin)
	viewstest.Kill(t, "TestKilledChild", childVariable+"="+config.Schema, func() views.Store {
		eventually.True(t, "the server has ended the transaction of the killed process", func() bool {
			var connections int
			err := a.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", config.Schema).Scan(&connections)
			return err == nil && connections == 0
		})
		return open(t, config)
	})
}
