package postgres

import (
	"context"
	"log/slog"
	"time"
)

// sweepRows bounds the deletions that one statement forgets.
const sweepRows = 1000

// Run sweeps until ctx ends, and then returns nil. One instance of a service is enough; several do no harm.
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

// Sweep forgets deletions that are an hour old.
func (s *Store) Sweep(ctx context.Context) error {
	before := s.now().Add(-tombstoneAge)
	for _, c := range s.schema.Collections() {
		for {
			n, err := s.sweep(ctx, s.tables[c.Name], before)
			if err != nil {
				return failure(ctx, "sweep "+c.Name, err)
			}
			if n < sweepRows {
				break
			}
		}
	}
	return nil
}

// sweep returns the number of deletions that it forgot. It looks at gone twice, since a document may be written again in
// between.
func (s *Store) sweep(ctx context.Context, t *table, before time.Time) (int64, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	old := "SELECT id FROM " + t.name + " WHERE gone < $1 ORDER BY gone LIMIT $2"
	tag, err := s.pool.Exec(ctx, "DELETE FROM "+t.name+" WHERE id IN ("+old+") AND gone < $1", before, sweepRows)
	return tag.RowsAffected(), err
}
