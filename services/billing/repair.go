package billing

import (
	"context"
	"fmt"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/views"
	"quire.dev/services/billing/internal/lost"
	"quire.dev/services/billing/internal/partition"
	"quire.dev/services/billing/internal/projection"
	"quire.dev/services/billing/internal/users"
	"quire.dev/services/billing/internal/webhooks"
)

// UnfitSnapshot is a snapshot that keeps billing from starting, since it is not of the journal.
type UnfitSnapshot struct {
	partition.Unfit
	Partition int
}

// UnfitSnapshots returns the snapshots that keep a billing from starting, of partitions with these positions. It changes nothing. Of deps
// it uses NC, Shared, Views and Blobs.
func UnfitSnapshots(ctx context.Context, deps Deps, positions []Position) (list []UnfitSnapshot, err error) {
	for number, at := range positions { // one at a time: it loads a fold
		unfit, err := stopped(deps, number, len(positions)).UnfitSnapshots(ctx, at.Journal)
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", number, err)
		}
		for _, one := range unfit {
			list = append(list, UnfitSnapshot{one, number})
		}
	}
	return list, nil
}

// SetAside moves the snapshot below billing/aside in the blob store, where no start looks, and returns its new key.
func (s UnfitSnapshot) SetAside(ctx context.Context, deps Deps) (key string, err error) {
	deps = deps.withDefaults()
	return stopped(deps, s.Partition, s.Partition+1).SetAside(ctx, s.Unfit, deps.Clock())
}

// stopped is a partition that does not run.
func stopped(deps Deps, number, partitions int) *partition.Partition {
	deps = deps.withDefaults()
	return partition.New(partition.Config{Partition: number, Partitions: partitions}, partition.Deps{
		NC: deps.NC, Shared: deps.Shared, Views: deps.Views, Blobs: deps.Blobs, Clock: deps.Clock, Logger: deps.Logger,
		Metrics: partition.NewMetrics(nil),
	})
}

// Position is how far the journal and the read model of a stopped partition go.
type Position struct {
	Stream         string
	Journal, Model uint64 // sequences of the last messages
}

// Positions returns the positions of all partitions. It changes nothing. Of deps it uses what UnfitSnapshots does.
func Positions(ctx context.Context, deps Deps, partitions int) ([]Position, error) {
	return journal.EachPartition(ctx, partitions, func(ctx context.Context, number int) (at Position, err error) {
		at.Stream = event.Billing.Stream(number)
		at.Journal, at.Model, err = stopped(deps, number, partitions).Positions(ctx)
		return at, err
	})
}

// Remade are the collections of the read model that a start makes again from the journals. All others exist nowhere else, or, as
// deliveries, have what happened outside the journals.
func Remade() (names []string) {
	for _, c := range projection.Collections() {
		names = append(names, c.Name)
	}
	return append(names, webhooks.AlertsCollection)
}

// ResetReadModel sets aside what the read model has from the journals, and the snapshots that don't fit them, so that the next start
// makes the read model again. It returns the name under which the read model's part was set aside. Billing must not run, and
// deps.Views only be closed afterwards. What edges reported of requests is in no journal, and only set aside.
func ResetReadModel(ctx context.Context, deps Deps, positions []Position) (name string, err error) {
	deps = deps.withDefaults()
	unfit, err := UnfitSnapshots(ctx, deps, positions)
	if err != nil {
		return "", err
	}
	for _, snapshot := range unfit {
		if _, err := snapshot.SetAside(ctx, deps); err != nil {
			return "", err
		}
	}
	resetter, ok := deps.Views.(views.Resetter)
	if !ok {
		return "", fmt.Errorf("a read model of type %T can't be set aside", deps.Views)
	}
	var streams []string
	for _, at := range positions {
		streams = append(streams, at.Stream)
	}
	name = deps.Clock().UTC().Format("20060102150405")
	return name, resetter.SetAside(ctx, name, Remade(), streams)
}

// Missing is what billing noted last of the users and addresses of webhooks that its read model lacks.
type Missing = users.Noted

// MissingIn returns what a partition lacks.
func MissingIn(ctx context.Context, deps Deps, partition int) (Missing, error) {
	return users.MissingIn(ctx, deps.Views, partition)
}

// GiveUpMissing asks for all that a partition lacks to be given up: within a minute if billing runs, otherwise at its start.
func GiveUpMissing(ctx context.Context, deps Deps, partition int, actor string) error {
	return lost.Request(ctx, deps.Views, partition, actor, deps.withDefaults().Clock())
}
