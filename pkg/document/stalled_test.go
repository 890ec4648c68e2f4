package document_test

import (
	"errors"
	"strings"
	"testing"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal/journaltest"
)

// TestAnIdleEngineNoticesThatItsJournalTakesNoWrites, and that it takes them again.
func TestAnIdleEngineNoticesThatItsJournalTakesNoWrites(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	running := w.start()
	e := w.newEdge("edge1")
	made := create(alice, text("x"))
	e.want(event.OutcomeStatus_OK, made)
	eventually.NoError(t, "the engine is ready", running.Unready)
	empty := journaltest.Fill(t, w.nc, event.Paste.Stream(0))
	eventually.NoError(t, "the engine says so", func() error {
		if err := running.Unready(); err == nil || !strings.HasPrefix(err.Error(), "partition 0: its journal takes no writes: ") {
			return errors.Join(errors.New("another reason"), err)
		}
		return nil
	})
	empty()
	eventually.NoError(t, "the engine is ready again", running.Unready)
	e.want(event.OutcomeStatus_OK, retitle(alice, made.Item, "new"))
}
