package partition

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/views"
	"quire.dev/pkg/wait"
)

// journalEnd returns the last message of the journal that is known. If a sequence is beyond it, the journal is asked first: repeatedly for the
// first such sequence, since a new leader of the stream may lag behind.
func (a *auditing) journalEnd(ctx context.Context, sequence uint64) (uint64, error) {
	if a.reached = max(a.reached, a.position.Get()); sequence <= a.reached {
		return a.reached, nil
	}
	least := sequence
	if a.beyond != 0 && sequence >= a.beyond {
		least = 0
	}
	state, err := a.journal.StateFrom(ctx, least)
	for errors.Is(err, journal.ErrUnavailable) && wait.For(ctx, time.Second) {
		state, err = a.journal.StateFrom(ctx, least)
	}
	if err != nil {
		return 0, err
	}
	if a.reached = max(a.reached, state.Last); sequence > a.reached && least > 0 {
		a.beyond = sequence
	}
	return a.reached, nil
}

// ofJournal names the blocks of an account that say that they are of messages which the journal does not have. They are read as if they were
// of the message at.
func (a *auditing) ofJournal(ctx context.Context, table string, id event.AccountID, blocks []views.Doc, at uint64) error {
	for i := range blocks {
		doc := &blocks[i]
		if doc.Seq <= at {
			continue
		}
		end, err := a.journalEnd(ctx, doc.Seq)
		if err != nil {
			return err
		}
		if doc.Seq <= end {
			continue
		}
		a.part = append(a.part, found{table: table, list: []*event.AuditDifference{{
			Table: table, Account: uint64(id), Row: doc.ID, Field: "sequence", Expected: fmt.Sprintf("at most %d", end), Found: fmt.Sprint(doc.Seq),
		}}})
		doc.Seq = at
	}
	return nil
}
