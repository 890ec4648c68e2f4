package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"quire.dev/pkg/views"
)

const (
	applicationID = 0x51756972 // "Quir", in the header of the file
	version       = 1
)

var (
	// ErrDamaged means that the file is corrupt.
	ErrDamaged = errors.New("the database file is damaged: stop the process, keep a copy of the file and its -wal, then restore a backup, or move them away to have the views projected again from the journal as far as it reaches back")
	// ErrNewer means that the file was written by a later version of this code.
	ErrNewer = errors.New("the database file was written by a newer version; nothing was changed: run that version, or restore a backup made before the upgrade")
	// ErrForeign means that the file is another application's SQLite database.
	ErrForeign = errors.New("the database file belongs to another application; nothing was changed: choose another path")
)

// describe adds instructions to an error caused by a damaged file.
func describe(what, path string, err error) error {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		return fmt.Errorf("%s: %w: %w", path, ErrDamaged, err)
	}
	return views.Unavailable(what, err)
}

// inspect checks an existing file through a read-only connection. An ordinary
// one would move the write-ahead log into the file. It returns true if the file
// must be checked while in use: after an unclean stop, if it has more than
// atOnce bytes.
func inspect(ctx context.Context, path string, atOnce int64) (later bool, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return false, nil
	}
	if err != nil {
		return false, views.Unavailable("open "+path, err)
	}
	needed, err := neededChecks(path, info.Size(), atOnce)
	if err != nil {
		return false, views.Unavailable("open "+path, err)
	}
	c, err := connect(path, readOnly, []string{busyTimeout})
	if err != nil {
		return false, describe("open "+path, path, err)
	}
	c.interruptOn(ctx)
	err = checkHeader(ctx, c)
	if err == nil && needed.first {
		err = wholeCheck(ctx, c)
	}
	if err = errors.Join(err, c.Close()); err != nil {
		if errors.Is(err, ErrDamaged) || errors.Is(err, ErrNewer) || errors.Is(err, ErrForeign) {
			return false, fmt.Errorf("%s: %w", path, err)
		}
		return false, describe("check "+path, path, err)
	}
	return needed.later, nil
}

// checkHeader returns ErrForeign or ErrNewer for a file that this version can't use.
func checkHeader(ctx context.Context, c *conn) error {
	application, err := c.integer(ctx, "PRAGMA application_id")
	if err != nil {
		return err
	}
	found, err := c.integer(ctx, "PRAGMA user_version")
	if err != nil {
		return err
	}
	objects, err := c.integer(ctx, "SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return err
	}
	// A crash can leave a new file empty.
	empty := application == 0 && found == 0 && objects == 0
	if application != applicationID && !empty {
		return ErrForeign
	}
	if found > version {
		return fmt.Errorf("%w (file has %d, this is %d)", ErrNewer, found, version)
	}
	return nil
}

func (c *conn) integer(ctx context.Context, text string, args ...any) (n int64, err error) {
	err = c.query(ctx, text, args, func(r row) (err error) {
		n, err = r.integer(0)
		return err
	})
	return n, err
}

// migrate changes the file to the schema, in one transaction. It changes
// nothing in an up-to-date file.
func migrate(ctx context.Context, c *conn, schema views.Schema, freshIDs int, hash func(string) int64) (_ map[string]*table, err error) {
	if _, err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_, _ = c.exec("ROLLBACK") // err is the one to report
		}
	}()
	existing, err := readObjects(ctx, c)
	if err != nil {
		return nil, err
	}
	wanted := []object{
		{"checkpoints", "CREATE TABLE \"checkpoints\" (stream TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID"},
		{"moved", "CREATE TABLE \"moved\" (collection TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID"},
	}
	tables := map[string]*table{}
	for _, collection := range schema.Collections() {
		old, err := readKeys(ctx, c, collection.Name)
		if err != nil {
			return nil, err
		}
		declared := schema.Keys(collection.Name)
		keys := slices.Clone(old)
		for _, key := range declared {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
		undeclared := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return slices.Contains(declared, key) })
		if _, ok := existing[tableName(collection.Name)]; ok && len(keys) > len(old) {
			if err := rebuild(c, collection.Name, old, keys); err != nil {
				return nil, err
			}
			if existing, err = readObjects(ctx, c); err != nil {
				return nil, err
			}
		}
		wanted = append(wanted, objects(collection, keys)...)
		tables[collection.Name] = newTable(collection, declared, undeclared)
	}
	if err := create(c, existing, wanted); err != nil {
		return nil, err
	}
	if err := dropIndexes(c, existing, wanted, schema); err != nil {
		return nil, err
	}
	for _, t := range tables {
		if err := t.openIDs(ctx, c, freshIDs, hash); err != nil {
			return nil, err
		}
	}
	if err := stamp(ctx, c); err != nil {
		return nil, err
	}
	_, err = c.exec("COMMIT")
	return tables, err
}

// object is a table or an index, with its CREATE statement.
type object struct{ name, text string }

func objects(collection views.Collection, keys []string) []object {
	list := []object{
		{tableName(collection.Name), createTable(tableName(collection.Name), keys)},
		{idsName(collection.Name), "CREATE TABLE " + quote(idsName(collection.Name)) +
			" (hash INTEGER, number INTEGER, PRIMARY KEY (hash, number)) WITHOUT ROWID"},
	}
	list = append(list, object{goneIndex(collection.Name), "CREATE INDEX " + quote(goneIndex(collection.Name)) +
		" ON " + quote(tableName(collection.Name)) + " (gone) WHERE gone IS NOT NULL"})
	for _, index := range collection.Indexes {
		var columns, present []string
		for _, key := range index.Keys {
			columns = append(columns, quote(keyColumn(key)))
			present = append(present, quote(keyColumn(key))+" IS NOT NULL")
		}
		name := indexName(collection.Name, index.Name)
		list = append(list, object{name, "CREATE INDEX " + quote(name) + " ON " + quote(tableName(collection.Name)) +
			" (" + strings.Join(columns, ", ") + ", id) WHERE " + strings.Join(present, " AND ")})
	}
	return list
}

// numberColumn is the first column of a table. It is SQLite's row id, and survives a VACUUM because it is declared.
const numberColumn = "number INTEGER PRIMARY KEY"

// createTable gives key columns no type, so that SQLite does not convert
// integers or strings.
func createTable(name string, keys []string) string {
	var b strings.Builder
	b.WriteString("CREATE TABLE " + quote(name) + " (" + numberColumn + ", id TEXT NOT NULL, seq INTEGER NOT NULL, gone INTEGER")
	for _, key := range keys {
		b.WriteString(", " + quote(keyColumn(key)))
	}
	b.WriteString(", head BLOB, body BLOB)")
	return b.String()
}

// rebuild copies a table to add key columns before head and body. ALTER TABLE would add them after the body, so that reading
// them would read every body.
func rebuild(c *conn, collection string, old, keys []string) error {
	name, copied := tableName(collection), "new."+collection
	columns := "number, id, seq, gone"
	for _, key := range old {
		columns += ", " + quote(keyColumn(key))
	}
	columns += ", head, body"
	for _, text := range []string{
		createTable(copied, keys),
		"INSERT INTO " + quote(copied) + " (" + columns + ") SELECT " + columns + " FROM " + quote(name),
		"DROP TABLE " + quote(name),
		"ALTER TABLE " + quote(copied) + " RENAME TO " + quote(name),
	} {
		if _, err := c.exec(text); err != nil {
			return fmt.Errorf("rebuild %s: %w", collection, err)
		}
	}
	return nil
}

func create(c *conn, existing map[string]string, wanted []object) error {
	for _, o := range wanted {
		text, ok := existing[o.name]
		isIndex := strings.HasPrefix(o.text, "CREATE INDEX")
		if ok && (text == o.text || !isIndex) {
			continue
		}
		if ok {
			if _, err := c.exec("DROP INDEX " + quote(o.name)); err != nil {
				return fmt.Errorf("replace index %s: %w", o.name, err)
			}
		}
		if _, err := c.exec(o.text); err != nil {
			return fmt.Errorf("create %s: %w", o.name, err)
		}
	}
	return nil
}

// dropIndexes drops the indexes that declared collections no longer have.
// Undeclared collections keep theirs.
func dropIndexes(c *conn, existing map[string]string, wanted []object, schema views.Schema) error {
	keep := map[string]bool{}
	for _, o := range wanted {
		keep[o.name] = true
	}
	for _, collection := range schema.Collections() {
		for name := range existing {
			if keep[name] || !strings.HasPrefix(name, indexName(collection.Name, "")) {
				continue
			}
			if _, err := c.exec("DROP INDEX " + quote(name)); err != nil {
				return fmt.Errorf("drop index %s: %w", name, err)
			}
		}
	}
	return nil
}

func stamp(ctx context.Context, c *conn) error {
	found, err := c.integer(ctx, "PRAGMA user_version")
	if err != nil || found == version {
		return err
	}
	for _, text := range []string{
		fmt.Sprintf("PRAGMA application_id = %d", applicationID),
		fmt.Sprintf("PRAGMA user_version = %d", version),
	} {
		if _, err := c.exec(text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

func readObjects(ctx context.Context, c *conn) (map[string]string, error) {
	found := map[string]string{}
	err := c.query(ctx, "SELECT name, coalesce(sql, '') FROM sqlite_schema", nil, func(r row) error {
		name, err := r.text(0)
		if err != nil {
			return err
		}
		found[name], err = r.text(1)
		return err
	})
	return found, err
}

// readKeys returns the key columns of the table, or none if it does not exist.
func readKeys(ctx context.Context, c *conn, collection string) ([]string, error) {
	var keys []string
	err := c.query(ctx, "SELECT name FROM pragma_table_info(?)", []any{tableName(collection)}, func(r row) error {
		name, err := r.text(0)
		if key, ok := strings.CutPrefix(name, keyColumn("")); ok {
			keys = append(keys, key)
		}
		return err
	})
	return keys, err
}
