package standalone

import (
	"testing"

	"quire.dev/services/standalone/internal/quiretest"
	"quire.dev/tools/cluster/load"
)

const testAdminToken = "an-admin-token-for-tests"

// newCrowd returns clients of the quire at base, of all groups unless some are named.
func newCrowd(t testing.TB, base string, workers int, groups ...load.Group) *load.Load {
	t.Helper()
	return quiretest.Gather(t, load.Config{Bases: []string{base}, AdminToken: testAdminToken, Workers: workers, Groups: groups})
}

// running lets the crowd work until stop is called.
func running(t testing.TB, l *load.Load) (stop func()) {
	t.Helper()
	return quiretest.Running(t, l)
}

// more waits until count more writes of quick pastes are acknowledged.
func more(t testing.TB, what string, l *load.Load, count int64) {
	t.Helper()
	quiretest.More(t, what, l, count)
}

// check verifies everything acknowledged to the crowd, and audits.
func check(t testing.TB, l *load.Load) error {
	t.Helper()
	return quiretest.Check(t, l)
}
