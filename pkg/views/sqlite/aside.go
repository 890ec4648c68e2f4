package sqlite

import (
	"context"
)

// SetAside implements views.Resetter. Tables called "aside.<name>.<collection>" keep the documents.
func (s *Store) SetAside(ctx context.Context, name string, collections, streams []string) error {
	return s.write(ctx, "set aside", func(c *conn) error {
		for _, collection := range collections {
			table := quote(tableName(collection))
			for _, statement := range []string{
				"CREATE TABLE " + quote("aside."+name+"."+collection) + " AS SELECT * FROM " + table,
				"DELETE FROM " + table,
				"DELETE FROM " + quote(idsName(collection)),
			} {
				if _, err := c.exec(statement); err != nil {
					return err
				}
			}
		}
		for _, stream := range streams {
			if _, err := c.exec(`DELETE FROM "checkpoints" WHERE stream = ?`, stream); err != nil {
				return err
			}
		}
		return nil
	})
}
