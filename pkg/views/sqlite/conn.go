package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"

	moderncsqlite "modernc.org/sqlite"

	"quire.dev/pkg/views"
)

// conn is a connection and its prepared statements, owned by one goroutine.
// It uses the driver without database/sql, whose pool would choose a connection
// for each call and prepare the statement on each of them.
type conn struct {
	driver.Conn
	statements map[string]statement
	args       []driver.NamedValue // reused; the driver copies the values
}

type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

const (
	busyTimeout   = "PRAGMA busy_timeout = 10000" // milliseconds; it only matters beside a second process
	cellSizeCheck = "PRAGMA cell_size_check = ON" // finds damage early
)

func writerPragmas(synchronous string) []string {
	return []string{
		busyTimeout,
		"PRAGMA journal_mode = WAL",
		"PRAGMA synchronous = " + synchronous,
		"PRAGMA cache_size = -16384",           // KiB
		"PRAGMA journal_size_limit = 67108864", // bytes
		"PRAGMA wal_autocheckpoint = 4000",     // pages
		cellSizeCheck,
		"PRAGMA temp_store = MEMORY", // no files elsewhere
		"PRAGMA secure_delete = ON",  // zeros in place of what is deleted
	}
}

func readerPragmas() []string {
	return []string{busyTimeout, "PRAGMA query_only = ON", "PRAGMA cache_size = -2048"}
}

// connect opens a connection. mode is ro, or rwc for one that can change the file and make it.
func connect(path, mode string, pragmas []string) (*conn, error) {
	name := url.URL{Scheme: "file", Path: path, RawQuery: "_error_rc=1&mode=" + mode}
	connector, err := moderncsqlite.NewConnector(name.String())
	if err != nil {
		return nil, err
	}
	opened, err := connector.Connect(context.Background())
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: opened, statements: map[string]statement{}}
	for _, pragma := range pragmas {
		if err := c.query(context.Background(), pragma, nil, func(row) error { return nil }); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", pragma, err), c.close())
		}
	}
	return c, nil
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.statements {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.Close())...)
}

// prepare returns the statement for the text. There are few texts: they depend
// on the schema and the form of a query, never on values.
func (c *conn) prepare(text string) (statement, error) {
	if s, ok := c.statements[text]; ok {
		return s, nil
	}
	prepared, err := c.Prepare(text)
	if err != nil {
		return nil, err
	}
	s, ok := prepared.(statement)
	if !ok {
		return nil, errors.Join(errors.New("the driver has no statements with contexts"), prepared.Close())
	}
	c.statements[text] = s
	return s, nil
}

func (c *conn) bind(args []any) []driver.NamedValue {
	c.args = c.args[:0]
	for i, arg := range args {
		if b, ok := arg.([]byte); ok && len(b) == 0 {
			arg = nil
		}
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: arg})
	}
	return c.args
}

// exec runs a statement and returns how many rows it changed. It takes no
// context, for which the driver would start a goroutine.
func (c *conn) exec(text string, args ...any) (int64, error) {
	s, err := c.prepare(text)
	if err != nil {
		return 0, err
	}
	result, err := s.ExecContext(context.Background(), c.bind(args))
	clear(c.args)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// query calls each for every row.
func (c *conn) query(ctx context.Context, text string, args []any, each func(row) error) (err error) {
	s, err := c.prepare(text)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(ctx, c.bind(args))
	clear(c.args)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	values := make(row, len(rows.Columns()))
	for {
		// The driver looks at ctx only when the statement starts.
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := rows.Next(values); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := each(values); err != nil {
			return err
		}
	}
}

// row is the columns of one row. The values may be kept, the slice is reused.
type row []driver.Value

func column[T int64 | string | []byte](r row, i int) (T, error) {
	v, ok := r[i].(T)
	if !ok {
		return v, fmt.Errorf("column %d is a %T, not a %T", i, r[i], v)
	}
	return v, nil
}

func (r row) blob(i int) ([]byte, error) {
	if r[i] == nil {
		return nil, nil
	}
	return column[[]byte](r, i)
}

func (r row) value(i int) (views.Value, error) {
	switch v := r[i].(type) {
	case int64:
		return views.Int(v), nil
	case string:
		return views.String(v), nil
	default:
		return views.Value{}, fmt.Errorf("column %d is a %T, not a key", i, v)
	}
}
