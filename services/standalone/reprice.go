package standalone

import (
	"context"
	"fmt"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/host"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
	"quire.dev/services/billing"
	"quire.dev/services/edge"
	"quire.dev/services/standalone/internal/export"
)

// Reprice computes each account's bill of a month by another price book, whose document it takes, beside traffic or of a data folder
// that no process uses. It changes nothing. Accounts come in the order of partitions.
func Reprice(ctx context.Context, cfg host.Settings, d Deps, month string, document []byte) (list []billing.Repriced, err error) {
	err = withJournals(ctx, cfg, d, false, func(ctx context.Context, from export.Source) error {
		metadata, err := journal.Open(from.NC, event.Billing.Stream(0)).Metadata(ctx)
		if err != nil {
			return err
		}
		partitions, err := journal.Partitions(metadata)
		if err != nil {
			return err
		}
		for p := range partitions {
			some, err := repricePartition(ctx, from.Journal(p, partitions), d, p, month, document)
			if err != nil {
				return fmt.Errorf("partition %d: %w", p, err)
			}
			list = append(list, some...)
		}
		if len(list) == 0 {
			return fmt.Errorf("no account has a bill of %s", month)
		}
		return nil
	})
	return list, err
}

func repricePartition(ctx context.Context, j *journal.Journal, d Deps, number int, month string, document []byte) ([]billing.Repriced, error) {
	end, err := j.LastSequence(ctx)
	if err != nil {
		return nil, err
	}
	pass := 0
	replay := func(handle func(journal.Message) error) error {
		pass++
		return j.Replay(ctx, 0, end, handle, func(done, total uint64) {
			if d.Progress != nil {
				d.Progress(fmt.Sprintf("partition %d, pass %d of 2", number, pass), num.Int64(done), num.Int64(total))
			}
		})
	}
	return billing.Reprice(number, month, time.Now(), replay, func(list *event.PriceList) (*plan.Book, error) { return edge.ReadPriceBook(document, list) })
}
