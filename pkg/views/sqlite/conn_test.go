package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"

	"quire.dev/pkg/views"
)

// TestAnInterruptEndsAStatementWithinARow: the statement has no end, and one row.
func TestAnInterruptEndsAStatementWithinARow(t *testing.T) {
	c, err := connect(filepath.Join(t.TempDir(), "views.db"), readWrite, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.interruptOn(ctx)
	// The statement itself cancels ctx, once it runs.
	err = c.CreateFunction("cancel", &sqlite.FunctionImpl{Scalar: func(sqlite.Context, []sqlite.Value) (sqlite.Value, error) {
		cancel()
		return sqlite.IntegerValue(1), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.integer(ctx, "WITH RECURSIVE n (i) AS (SELECT cancel() UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n")
	if !errors.Is(err, context.Canceled) || sqlite.ErrCode(err) != sqlite.ResultInterrupt {
		t.Errorf("got %v, want an interrupt", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestADamagedRowIsAnError(t *testing.T) {
	c := config(t)
	s := open(t, c)
	mustCommit(t, s, batch(0, 1, 1, 1))
	for name, text := range map[string]string{
		"sequence": `UPDATE "doc.items" SET seq = 'text'`,
		"key":      `UPDATE "doc.items" SET seq = 1, "k.owner" = x'00'`,
		"head":     `UPDATE "doc.items" SET "k.owner" = 'ann', head = 'text'`,
		"body":     `UPDATE "doc.items" SET head = NULL, body = 7`,
	} {
		err := s.write(t.Context(), "damage", func(c *conn) error {
			_, err := c.exec(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		docs, err := s.Load(t.Context(), "items", []string{"1-0"}, views.Full)
		if !errors.Is(err, views.ErrUnavailable) {
			t.Errorf("%s: loaded %v, %v", name, docs, err)
		}
	}
}

// TestACommitAllocatesNothingForEachDocument: the writer holds up everything that waits for the read model.
func TestACommitAllocatesNothingForEachDocument(t *testing.T) {
	s := open(t, config(t))
	b := batch(0, 0, 300, 100)
	allocations := testing.AllocsPerRun(5, func() {
		b.From, b.To = b.To, b.To+1
		mustCommit(t, s, b)
	})
	if allocations > 30 {
		t.Errorf("%v allocations for 300 documents", allocations)
	}
}
