package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/views"
)

func numbered(from, to uint64, count int) views.Batch {
	b := views.Batch{Stream: "s", From: from, To: to}
	for i := range count {
		b.Puts = append(b.Puts, views.Put{Collection: "items", Doc: views.Doc{
			ID: fmt.Sprintf("doc-%04d", i), Seq: to, Body: fmt.Appendf(nil, "at %d", to),
			Keys: views.Keys{{Name: "created", Value: views.Int(int64(i))}, {Name: "owner", Value: views.String("ann")}},
		}})
	}
	return b
}

// holds fails unless the checkpoint is at seq and all of count documents are of seq.
func holds(t *testing.T, s *Store, seq uint64, count int) {
	t.Helper()
	if at, err := s.Checkpoint(t.Context(), "s"); err != nil || at != seq {
		t.Fatalf("the checkpoint is %d, %v; want %d", at, err, seq)
	}
	var docs, of int
	err := s.pool.QueryRow(t.Context(), "SELECT count(*), count(*) FILTER (WHERE seq = $1) FROM "+s.tables["items"].name, int64(seq)).Scan(&docs, &of)
	if err != nil || docs != count || of != count {
		t.Fatalf("%d documents, %d of them at %d, %v; want %d", docs, of, seq, err, count)
	}
}

// exec runs a statement of an administrator.
func exec(t *testing.T, s *Store, text string, args ...any) {
	t.Helper()
	if _, err := s.pool.Exec(t.Context(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func needSuperuser(t *testing.T, s *Store) {
	t.Helper()
	var super bool
	if err := s.pool.QueryRow(t.Context(), "SELECT rolsuper FROM pg_roles WHERE rolname = current_user").Scan(&super); err != nil {
		t.Fatal(err)
	}
	if !super {
		t.Skipf("NOT TESTED: the user of %s must be a superuser", urlVariable)
	}
}

// cutter ends the connection of a store before so many of its statements.
type cutter struct {
	t     *testing.T
	other *Store

	mu   sync.Mutex
	left int
}

func (c *cutter) before(statement int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = statement
}

func (c *cutter) TraceQueryStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.mu.Lock()
	c.left--
	cut := c.left == 0
	c.mu.Unlock()
	if cut {
		var ended bool
		err := c.other.pool.QueryRow(c.t.Context(), "SELECT pg_terminate_backend($1, 60000)", conn.PgConn().PID()).Scan(&ended)
		if err != nil || !ended {
			c.t.Errorf("end a connection: %t, %v", ended, err)
		}
	}
	return ctx
}

func (*cutter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestCommitCutAnywhereIsAllOrNothing ends the connection before the first statement of a commit, then before the second, and
// so on until one succeeds.
func TestCommitCutAnywhereIsAllOrNothing(t *testing.T) {
	const count = 2*chunkRows + 1
	config := serverConfig(t)
	plain := open(t, config)
	cut := &cutter{t: t, other: plain}
	config.tracer = cut
	s := open(t, config)
	if err := s.Commit(t.Context(), numbered(0, 1, count)); err != nil {
		t.Fatal(err)
	}
	for statement := 1; ; statement++ {
		cut.before(statement)
		err := s.Commit(t.Context(), numbered(1, 2, count))
		if err == nil {
			// BEGIN, the checkpoint, three chunks, COMMIT
			if statement != 7 {
				t.Errorf("a commit has %d statements, want 6", statement-1)
			}
			break
		}
		if !errors.Is(err, views.ErrUnavailable) {
			t.Fatalf("before statement %d: %v", statement, err)
		}
		holds(t, plain, 1, count)
	}
	holds(t, plain, 2, count)
}

// standbys sets the synchronous standbys of the server, and resets them at the end of the test.
func standbys(t *testing.T, s *Store, names string) {
	t.Helper()
	set := func(ctx context.Context, names string) {
		t.Helper()
		for _, text := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + names + "'", "SELECT pg_reload_conf()"} {
			if _, err := s.pool.Exec(ctx, text); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
	}
	t.Cleanup(func() { set(context.WithoutCancel(t.Context()), "") })
	set(t.Context(), names)
	eventually.True(t, "the server has read its configuration", func() bool { return waits(t, s) == (names != "") })
}

// waits reports whether a commit waits for a standby. The configuration that a connection shows does not tell: commits follow the
// checkpointer's, which reads it at a time of its own.
func waits(t *testing.T, s *Store) bool {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		// It may end with the warning that its wait was canceled.
		_, _ = conn.Exec(t.Context(), "SELECT pg_logical_emit_message(true, 'probe', '')")
	}()
	for {
		var canceled bool
		err := s.pool.QueryRow(t.Context(), "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'SyncRep'",
			int32(conn.PgConn().PID())).Scan(&canceled)
		switch {
		case err == nil:
			<-done
			return true
		case !errors.Is(err, pgx.ErrNoRows):
			t.Fatal(err)
		}
		select {
		case <-done:
			return false
		default:
		}
	}
}

// waiting returns the process ids of the commits of a store that wait for a standby.
func waiting(t *testing.T, s *Store, config Config) []int32 {
	t.Helper()
	rows, err := s.pool.Query(t.Context(), "SELECT pid FROM pg_stat_activity WHERE application_name = $1 AND wait_event = 'SyncRep'", config.Schema)
	if err != nil {
		t.Fatal(err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

// TestACommitWithoutItsStandbyIsShownToNobody, even when its caller has given up: a failover would lose it. Reads have
// connections left.
func TestACommitWithoutItsStandbyIsShownToNobody(t *testing.T) {
	config := serverConfig(t)
	admin := config
	admin.Schema += "_cleaner"
	a := open(t, admin)
	needSuperuser(t, a)
	s := open(t, config)
	if err := s.Commit(t.Context(), numbered(0, 1, 3)); err != nil {
		t.Fatal(err)
	}
	standbys(t, a, "nobody")
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	results := make(chan error, 1+cap(s.writers))
	go func() { results <- s.Commit(ctx, numbered(1, 2, 3)) }()
	for i := range cap(s.writers) - 1 {
		go func() { results <- s.Insert(ctx, "plain", views.Doc{ID: fmt.Sprint(i)}) }()
	}
	eventually.True(t, "all writes wait for the standby", func() bool { return len(waiting(t, a, config)) == cap(s.writers) })
	go func() { results <- s.Insert(ctx, "plain", views.Doc{ID: "late"}) }() // which gets no connection
	giveUp()
	for range cap(results) {
		if err := <-results; !errors.Is(err, views.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("write: %v, want ErrUnavailable", err)
		}
	}
	holds(t, s, 1, 3)
	standbys(t, a, "")
	eventually.True(t, "the commit is shown", func() bool {
		at, err := s.Checkpoint(t.Context(), "s")
		return err == nil && at == 2
	})
	holds(t, s, 2, 3)
}

// TestACommitThatAnAdministratorCutsShortIsOfUnknownOutcome: the server answers that it has committed, with a warning that the
// standby may not have it.
func TestACommitThatAnAdministratorCutsShortIsOfUnknownOutcome(t *testing.T) {
	config := serverConfig(t)
	admin := config
	admin.Schema += "_cleaner"
	a := open(t, admin)
	needSuperuser(t, a)
	s := open(t, config)
	standbys(t, a, "nobody")
	result := make(chan error, 1)
	go func() { result <- s.Commit(t.Context(), numbered(0, 1, 3)) }()
	eventually.True(t, "the commit waits for the standby", func() bool { return len(waiting(t, a, config)) == 1 })
	exec(t, a, "SELECT pg_cancel_backend($1)", waiting(t, a, config)[0])
	if err := <-result; !errors.Is(err, views.ErrUnavailable) || !strings.Contains(err.Error(), "warning") {
		t.Errorf("commit: %v, want ErrUnavailable with the warning", err)
	}
	standbys(t, a, "")
	if err := s.Commit(t.Context(), numbered(1, 2, 3)); err != nil {
		t.Errorf("the next commit on the connection: %v", err)
	}
}

// TestALongLockCostsTheDeadline, and no connection.
func TestALongLockCostsTheDeadline(t *testing.T) {
	config := serverConfig(t)
	s := open(t, config)
	other := open(t, config)
	tx, err := other.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE "+s.tables["items"].name); err != nil {
		t.Fatal(err)
	}
	for range 2 * defaultConns {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, loadErr := s.Load(ctx, "items", []string{"a"}, views.Full)
		commitErr := s.Commit(ctx, numbered(0, 1, 1))
		cancel()
		for _, err := range []error{loadErr, commitErr} {
			if !errors.Is(err, views.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("a call during the lock: %v", err)
			}
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), numbered(0, 1, 1)); err != nil {
		t.Fatal(err)
	}
	holds(t, s, 1, 1)
}

// TestBatchesWithoutAStreamDontDeadlock, although they name the same documents in different orders.
func TestBatchesWithoutAStreamDontDeadlock(t *testing.T) {
	s := open(t, serverConfig(t))
	var wait sync.WaitGroup
	for w := range 6 {
		wait.Go(func() {
			for round := range 20 {
				b := numbered(0, uint64(round+1), 50)
				b.Stream = ""
				if w%2 == 0 {
					slices.Reverse(b.Puts)
				}
				if err := s.Commit(t.Context(), b); err != nil {
					t.Errorf("commit: %v", err)
				}
			}
		})
	}
	wait.Wait()
}

func TestDeletionsAreForgottenAfterAnHour(t *testing.T) {
	const count = sweepRows + 2
	config := serverConfig(t)
	now := time.Unix(1_800_000_000, 0)
	config.Now = func() time.Time { return now }
	s := open(t, config)
	b := numbered(0, 1, count+1)
	for _, p := range b.Puts[:count] {
		b.Deletes = append(b.Deletes, views.Delete{Collection: "items", ID: p.Doc.ID, Seq: 1})
	}
	if err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after time.Duration
		rows  int
	}{{0, count + 1}, {time.Hour, count + 1}, {time.Hour + time.Millisecond, 1}, {2 * time.Hour, 1}} {
		now = time.Unix(1_800_000_000, 0).Add(c.after)
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		holds(t, s, 1, c.rows)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	s := open(t, serverConfig(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
}
