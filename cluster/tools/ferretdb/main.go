// Command ferretdb is the server of the MongoDB protocol for a cluster on one machine: FerretDB over SQLite, with the
// index that makes it bearable. It is a stand-in for MongoDB in tests and trials, and holds nothing anybody relies on.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/FerretDB/FerretDB/ferretdb"
	_ "modernc.org/sqlite"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:27017", "address")
	data := flag.String("data", "", "folder of the databases")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, *data); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "ferretdb:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen, data string) error {
	folder, err := filepath.Abs(data)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	location := url.URL{Scheme: "file", OmitHost: true, Path: folder + "/", RawQuery: "_pragma=synchronous(normal)"}
	server, err := ferretdb.New(&ferretdb.Config{
		Listener: ferretdb.ListenerConfig{TCP: listen}, Handler: "sqlite", SQLiteURL: location.String(),
	})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	x := indexer{folder: folder, done: map[string]bool{}}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-tick.C:
			if err := x.pass(ctx); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "ferretdb: index:", err)
			}
		}
	}
}

// every is how often new collections are looked for.
const every = 250 * time.Millisecond

// indexer gives each collection an index on _id by the expression that FerretDB's queries use. Its own index is made
// on another one, so that every find would scan.
type indexer struct {
	folder string
	done   map[string]bool // by file and table
}

func (x *indexer) pass(ctx context.Context) error {
	files, err := filepath.Glob(filepath.Join(x.folder, "*.sqlite"))
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		errs = append(errs, x.index(ctx, file))
	}
	return errors.Join(errs...)
}

func (x *indexer) index(ctx context.Context, file string) error {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(2000)")
	if err != nil {
		return err
	}
	defer db.Close()
	tables, err := collections(ctx, db)
	if err != nil {
		return err
	}
	for _, table := range tables {
		if x.done[file+table] {
			continue
		}
		name := strings.ReplaceAll(table, `"`, `""`)
		statement := fmt.Sprintf(`CREATE INDEX IF NOT EXISTS "%s_by_id" ON "%s" (_ferretdb_sjson->'$._id')`, name, name)
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
		x.done[file+table] = true
	}
	return nil
}

// collections are the tables of a database but for FerretDB's own.
func collections(ctx context.Context, db *sql.DB) ([]string, error) {
	rows, err := db.QueryContext(ctx, `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\_ferretdb%' ESCAPE '\' AND name NOT LIKE 'sqlite%'`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}
