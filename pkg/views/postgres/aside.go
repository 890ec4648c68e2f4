package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// SetAside implements views.Resetter. Tables called aside_<name>_<collection> keep the documents.
func (s *Store) SetAside(ctx context.Context, name string, collections, streams []string) error {
	return s.write(ctx, "set aside", func(ctx context.Context, tx pgx.Tx) error {
		var statements []string
		for _, collection := range collections {
			statements = append(statements,
				"CREATE TABLE "+s.name+"."+quote("aside_"+name+"_"+collection)+" AS TABLE "+s.name+"."+quote(collection),
				"DELETE FROM "+s.name+"."+quote(collection))
		}
		if err := execute(ctx, tx, statements); err != nil {
			return err
		}
		for _, stream := range streams {
			if _, err := tx.Exec(ctx, "DELETE FROM "+s.name+"._checkpoints WHERE stream = $1", []byte(stream)); err != nil {
				return err
			}
		}
		return nil
	})
}
