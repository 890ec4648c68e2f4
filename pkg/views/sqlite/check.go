package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"quire.dev/pkg/views"
)

const (
	// checkAtOnce is the size in bytes up to which a file that was not closed cleanly is checked before it is opened. A larger
	// one is checked while in use: reading all of it from a cold disk takes a minute for a million documents.
	checkAtOnce = 64 << 20
	// checkRows is how many documents the check of a file in use reads at a time, during which the write-ahead log can't be
	// emptied.
	checkRows = 500
)

// checkMark is the path of a marker beside a file in use whose check has not ended. It contains foundDamage once the check has
// found damage.
func checkMark(path string) string { return path + "-check" }

const foundDamage = "damaged\n"

// checks are the checks that a file needs.
type checks struct {
	first bool // before it is opened for writing
	later bool // while it is in use
}

// neededChecks returns the checks needed by the file at path. A clean close removes the write-ahead log, so that no check is
// needed, unless the file was closed during one. A file of more than atOnce bytes is checked later. One found damaged is
// checked first, and again later, since the two checks read it differently.
func neededChecks(path string, size, atOnce int64) (checks, error) {
	text, err := os.ReadFile(checkMark(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return checks{}, err
	}
	unclean := err == nil
	if !unclean {
		if _, err = os.Stat(path + "-wal"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return checks{}, err
		}
		unclean = err == nil
	}
	large := size > atOnce
	return checks{first: unclean && (!large || string(text) == foundDamage), later: unclean && large}, nil
}

// mark creates the marker of a file to check later.
func mark(path, text string) error { return os.WriteFile(checkMark(path), []byte(text), 0o600) }

// unmark removes the marker of a file that needs no more checks.
func unmark(path string) error {
	if err := os.Remove(checkMark(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// wholeCheck checks the structure of all pages.
func wholeCheck(ctx context.Context, c *conn) error {
	var faults []string
	err := c.query(ctx, "PRAGMA quick_check(5)", nil, func(r row) error {
		fault, err := r.text(0)
		if fault != "ok" {
			faults = append(faults, fault)
		}
		return err
	})
	if err == nil && len(faults) > 0 {
		return fmt.Errorf("%w (%s)", ErrDamaged, strings.Join(faults, "; "))
	}
	return err
}

// Check reads all of a large file that was not closed cleanly, beside other work and for at most half of the time. It returns
// ErrDamaged at the first damaged page; from then on Open refuses the file. It returns nil at the end, at once for a file that
// needs no check, and when ctx ends first: then the next Open checks the file again. It is called once.
func (s *Store) Check(ctx context.Context) error {
	if !s.unchecked {
		return nil
	}
	err := s.check(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err == nil {
		if err = unmark(s.path); err != nil {
			return views.Unavailable("check "+s.path, err)
		}
		return nil
	}
	err = describe("check "+s.path, s.path, err)
	if errors.Is(err, ErrDamaged) {
		return errors.Join(err, mark(s.path, foundDamage))
	}
	return err
}

func (s *Store) check(ctx context.Context) (err error) {
	c, err := connect(s.path, readWrite, append(readerPragmas(), cellSizeCheck))
	if err != nil {
		return err
	}
	c.interruptOn(ctx)
	defer func() { err = errors.Join(err, c.Close()) }()
	existing, err := readObjects(ctx, c)
	if err != nil {
		return err
	}
	for name, text := range existing {
		switch {
		case strings.HasPrefix(name, tableName("")):
			err = checkTable(ctx, c, quote(name))
		case strings.HasPrefix(name, idsName("")):
			hashes := "SELECT max(hash), count(number) FROM (SELECT hash, number FROM " + quote(name) + " WHERE hash > ? ORDER BY hash LIMIT ?)"
			err = inParts(ctx, c, hashes, int64(-1<<63))
		case strings.HasPrefix(text, "CREATE TABLE "): // small
			_, err = c.integer(ctx, "SELECT count(*) FROM "+quote(name))
		case strings.HasPrefix(text, "CREATE INDEX "):
			err = checkIndex(ctx, c, name, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkTable reads every page of a table, including its contents.
func checkTable(ctx context.Context, c *conn, table string) error {
	rows := "SELECT max(number), count(substr(head, -1)) + count(substr(body, -1)) FROM" +
		" (SELECT rowid AS number, head, body FROM " + table + " WHERE rowid > ? ORDER BY rowid LIMIT ?)"
	return inParts(ctx, c, rows, int64(-1<<63))
}

// inParts runs a query from after on, part by part, and pauses after each for as long as it took. The query returns the last
// position read, NULL at the end.
func inParts(ctx context.Context, c *conn, text string, after any) error {
	rest := time.NewTimer(0)
	defer rest.Stop()
	for after != nil {
		select {
		case <-rest.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		began := time.Now()
		err := c.query(ctx, text, []any{after, int64(checkRows)}, func(r row) error {
			if after = nil; r.ColumnIsNull(0) {
				return nil
			}
			v, err := r.value(0)
			if err != nil {
				return fmt.Errorf("%w: %w", ErrDamaged, err)
			}
			after = v.Any()
			return nil
		})
		if err != nil {
			return err
		}
		rest.Reset(time.Since(began))
	}
	return nil
}

// checkIndex reads every page of an index of keys, which is small compared to its table. text is the statement that created it.
func checkIndex(ctx context.Context, c *conn, name, text string) error {
	_, on, _ := strings.Cut(text, " ON ")
	table, _, _ := strings.Cut(on, " (")
	_, present, _ := strings.Cut(on, " WHERE ")
	_, err := c.integer(ctx, "SELECT count(*) FROM "+table+" INDEXED BY "+quote(name)+" WHERE "+present)
	return err
}
