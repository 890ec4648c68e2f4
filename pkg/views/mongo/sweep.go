package mongo

import (
	"context"
	"log/slog"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

const (
	// looseAge is the age at which a recorded batch without a stream counts as
	// abandoned.
	looseAge = time.Minute
	// chunkAge is the age at which a chunk counts as abandoned, unless its
	// batch is decided.
	chunkAge = time.Hour
)

// Run sweeps until ctx ends, and then returns nil. One instance of a service is
// enough; several do no harm.
func (s *Store) Run(ctx context.Context) error {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.logger.WarnContext(ctx, "sweep of the views failed, will be retried",
				slog.Any("error", err), slog.Duration("after", sweepInterval))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Sweep forgets deletions that are an hour old, and completes batches without a
// stream that were recorded more than a minute ago. It deletes the chunks of
// large batches that were not decided within an hour.
func (s *Store) Sweep(ctx context.Context) error {
	now := s.now()
	if err := s.completeLoose(ctx, now.Add(-looseAge)); err != nil {
		return failure(ctx, "complete batches", err)
	}
	if err := s.sweepChunks(ctx, now.Add(-chunkAge)); err != nil {
		return failure(ctx, "sweep chunks", err)
	}
	filter := goneBefore(now.Add(-tombstoneAge))
	for _, c := range s.schema.Collections() {
		if _, err := s.db.Collection(c.Name).DeleteMany(ctx, filter); err != nil {
			return failure(ctx, "sweep "+c.Name, err)
		}
	}
	return nil
}

func goneBefore(then time.Time) bson.D {
	return bson.D{{Key: "gone", Value: bson.D{{Key: "$lt", Value: then.UTC()}}}}
}
