package account

import (
	"testing"

	"quire.dev/pkg/event"
)

// TestOutcomesAreKeptForADay: a clock that is set back restarts the day; a snapshot doesn't.
func TestOutcomesAreKeptForADay(t *testing.T) {
	c := keptCommands{byID: map[event.IdempotencyID]*keptCommand{}}
	for i, status := range []event.CommandStatus{ok, event.CommandStatus_COMMAND_INVALID, ok} {
		c.add(&keptCommand{id: event.IdempotencyID{byte(i)}, time: int64(1000 * i), outcome: &event.CommandOutcome{Status: status}})
	}
	if again := c.byID[event.IdempotencyID{0}].replay(); !again.Replayed || again.Status != ok {
		t.Errorf("a repeat: %v", again)
	}
	c.forgetInvalid()
	if c.queue.len() != 2 || c.byID[event.IdempotencyID{1}] != nil {
		t.Error("an invalid command is kept for the next rules")
	}
	c.turnBack(500)
	restored := keptCommands{byID: map[event.IdempotencyID]*keptCommand{}}
	if err := restored.restore(c.states()); err != nil {
		t.Fatal(err)
	}
	for _, at := range []struct {
		now  int64
		want int
	}{{CommandMillis - 1, 2}, {CommandMillis, 1}, {CommandMillis + 499, 1}, {CommandMillis + 500, 0}} {
		if restored.trim(at.now); restored.queue.len() != at.want || len(restored.byID) != at.want {
			t.Errorf("at %d: %d are kept, want %d", at.now, restored.queue.len(), at.want)
		}
	}
	if err := restored.restore([]*event.CommandKept{{IdempotencyId: make([]byte, 15)}}); err == nil {
		t.Error("an id of 15 bytes is restored")
	}
}
