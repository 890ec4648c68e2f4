package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"quire.dev/pkg/num"
	"quire.dev/pkg/views"
)

// Bounds of one statement, whose parameters the server holds in memory. One document may exceed chunkBytes.
const (
	chunkRows  = 1000
	chunkBytes = 8 << 20
)

// change is a document to write, or one to delete at a time.
type change struct {
	views.Change
	gone time.Time
}

// Commit implements views.Store.
func (s *Store) Commit(ctx context.Context, b views.Batch) error {
	if err := s.schema.CheckBatch(b); err != nil {
		return err
	}
	changes := make([]change, 0, len(b.Puts)+len(b.Deletes))
	now := s.now()
	for _, c := range b.Changes() {
		changes = append(changes, change{c, now})
	}
	// Transactions lock rows in one order, so that none waits for another that waits for it.
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(strings.Compare(a.Collection, b.Collection), strings.Compare(a.Doc.ID, b.Doc.ID))
	})
	return s.write(ctx, "commit", func(ctx context.Context, tx pgx.Tx) error {
		if err := s.advance(ctx, tx, b); err != nil {
			return err
		}
		for _, part := range chunksOf(changes) {
			t := s.tables[part[0].Collection]
			if _, err := tx.Exec(ctx, t.put, t.arguments(part)...); err != nil {
				return fmt.Errorf("write to %s: %w", part[0].Collection, err)
			}
		}
		return nil
	})
}

// chunksOf splits sorted changes into chunks, each written by one statement.
func chunksOf(changes []change) (parts [][]change) {
	first, size := 0, 0
	for i, c := range changes {
		size += c.Doc.SizeBytes()
		if i > first && (i-first == chunkRows || size > chunkBytes || c.Collection != changes[first].Collection) {
			parts = append(parts, changes[first:i])
			first, size = i, c.Doc.SizeBytes()
		}
	}
	if first < len(changes) {
		parts = append(parts, changes[first:])
	}
	return parts
}

// advance moves the checkpoint of the batch, or returns ErrConflict. It waits for another transaction at the same checkpoint.
func (s *Store) advance(ctx context.Context, tx pgx.Tx, b views.Batch) error {
	if b.Stream == "" {
		return nil
	}
	var moved pgconn.CommandTag
	var err error
	if b.From == 0 {
		moved, err = tx.Exec(ctx, "INSERT INTO "+s.name+"._checkpoints VALUES ($1, $2) ON CONFLICT DO NOTHING", []byte(b.Stream), num.Int64(b.To))
	} else {
		moved, err = tx.Exec(ctx, "UPDATE "+s.name+"._checkpoints SET seq = $2 WHERE stream = $1 AND seq = $3", []byte(b.Stream), num.Int64(b.To), num.Int64(b.From))
	}
	if err == nil && moved.RowsAffected() == 0 {
		return fmt.Errorf("commit %s from %d to %d: %w", b.Stream, b.From, b.To, views.ErrConflict)
	}
	return err
}

// Insert implements views.Store.
func (s *Store) Insert(ctx context.Context, collection string, d views.Doc) error {
	if err := s.schema.CheckDoc(collection, d); err != nil {
		return err
	}
	t := s.tables[collection]
	args := t.arguments([]change{{Change: views.Change{Collection: collection, Doc: d}}})
	return s.write(ctx, "insert into "+collection, func(ctx context.Context, tx pgx.Tx) error {
		added, err := tx.Exec(ctx, t.insert, args...)
		if err == nil && added.RowsAffected() == 0 {
			return fmt.Errorf("insert %q: %w", d.ID, views.ErrExists)
		}
		return err
	})
}

// writeTries bounds the attempts of a transaction that the server ended for the sake of others.
const writeTries = 4

// write runs do in a transaction. It changes nothing if do returns an error.
func (s *Store) write(ctx context.Context, what string, do func(context.Context, pgx.Tx) error) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	var err error
	for range writeTries {
		if err = s.transact(ctx, do); !isRetryable(err) {
			break
		}
	}
	if err == nil || errors.Is(err, views.ErrConflict) || errors.Is(err, views.ErrExists) {
		return err
	}
	return failure(ctx, what, err)
}

// isRetryable reports whether the server has rolled back because of concurrent transactions.
func isRetryable(err error) bool {
	var refused *pgconn.PgError
	const serialization, deadlock = "40001", "40P01"
	return errors.As(err, &refused) && (refused.Code == serialization || refused.Code == deadlock)
}

func (s *Store) transact(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	select {
	case s.writers <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		<-s.writers
		return err
	}
	release := func() { conn.Release(); <-s.writers }
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		release()
		return err
	}
	if err := do(ctx, tx); err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer cancel()
		_ = tx.Rollback(undo) // if it fails, the driver has closed the connection
		release()
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer release()
		done <- s.end(conn, tx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end commits. It does not end with the caller's context: a server that stops waiting for its standby, since it was asked to
// cancel, keeps the transaction and shows it to readers, although a failover would lose it.
func (s *Store) end(conn *pgxpool.Conn, tx pgx.Tx) error {
	ctx, cancel := context.WithTimeout(s.commits, commitLimit)
	defer cancel()
	data := conn.Conn().PgConn().CustomData()
	delete(data, warning)
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	if text, ok := data[warning]; ok {
		return fmt.Errorf("the server committed with a warning: %s", text)
	}
	return nil
}

// warning is the key of a connection's last warning.
const warning = "warning"

// noteWarning keeps the warning that a server adds to the answer to COMMIT if an administrator has cancelled the wait for the
// standby.
func noteWarning(conn *pgconn.PgConn, notice *pgconn.Notice) {
	if notice.SeverityUnlocalized == "WARNING" {
		conn.CustomData()[warning] = notice.Message
	}
}
