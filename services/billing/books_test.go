package billing_test

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/views/sqlite"
	"quire.dev/services/billing"
	"quire.dev/services/billing/bookstest"
	"quire.dev/services/billing/internal/projection"
)

// messages are those of partition 0.
func (s *stack) messages() (list []journal.Message) {
	s.t.Helper()
	j := journal.Open(s.nc, event.Billing.Stream(0))
	end, err := j.LastSequence(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	err = j.Replay(s.t.Context(), 0, end, func(m journal.Message) error {
		m.Data = bytes.Clone(m.Data)
		list = append(list, m)
		return nil
	}, func(uint64, uint64) {})
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

// bookLines are the lines of partition 0 as of the last of its messages.
func (s *stack) bookLines(rows projection.Rows, messages []journal.Message) (lines []string) {
	s.t.Helper()
	b := billing.NewBooks(1)
	b.Begin(0)
	for _, m := range messages {
		if err := b.Add(0, m); err != nil {
			s.t.Fatal(err)
		}
	}
	from := billing.BookSource{Rows: rows, Last: func(ctx context.Context, partition int) (uint64, error) {
		return journal.Open(s.nc, event.Billing.Stream(partition)).LastSequence(ctx)
	}}
	accounts := 0
	err := b.Write(s.t.Context(), from, func(l billing.BookLine) error {
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		lines = append(lines, "")
		err := e.Encode(l.Line)
		lines[len(lines)-1] = out.String()
		if l.Ends {
			accounts++
		}
		return err
	})
	if err != nil || accounts != b.Accounts() {
		s.t.Fatalf("%d accounts of %d, %v", accounts, b.Accounts(), err)
	}
	return lines
}

// bookedStack has two accounts with months that are closed and in the read model. Nothing runs.
func bookedStack(t *testing.T) *stack {
	s := newStack(t)
	r := s.start(billing.Config{}, 0)
	s.account(alice, plan.Pro)
	s.account(bob, plan.Pro)
	for n := range 3 {
		s.grant(alice, 10_000_000)
		s.serve(alice, plan.FilesUpload, 60)
		s.grant(bob, 1_000_000)
		s.serve(bob, plan.FilesUpload, 101+n)
		void := admission(alice, plan.FilesUpload)
		s.usage([]*event.Admission{void}, nil)
		s.usage(nil, []*event.Settlement{{RequestId: void.RequestId, Result: event.Result_VOID, Account: alice, QuotaKey: uint32(plan.FilesUpload)}})
		s.serve(alice, plan.FilesUpload, 1)
	}
	now := time.Now().UTC()
	s.did(&event.Command{Account: alice, Action: &event.Command_Refund{Refund: &event.Refund{
		Month: uint32(now.Year()*12 + int(now.Month()) - 1), QuotaKey: uint32(plan.FilesUpload), AmountMicros: 5_000, Reason: "sorry",
	}}})
	r.stop()
	r = s.start(billing.Config{}, 75*24*time.Hour)
	s.serve(alice, plan.FilesUpload, 2)
	s.serve(bob, plan.FilesUpload, 2)
	s.did(&event.Command{Account: bob, Action: &event.Command_DeleteAccount{DeleteAccount: &event.DeleteAccount{}}})
	r.stop()
	r = s.start(billing.Config{}, 100*24*time.Hour)
	s.did(&event.Command{Account: bob, Action: &event.Command_EraseAccount{EraseAccount: &event.EraseAccount{}}})
	r.stop()
	return s
}

// TestBooksAreAsOfAMessage: those of every message are what a fold up to there computes, whatever the read model has of later ones, and
// whether the rows are read from a store or as of a moment.
func TestBooksAreAsOfAMessage(t *testing.T) {
	s := bookedStack(t)
	messages := s.messages()
	moment, err := sqlite.OpenSnapshot(t.Context(), s.path, billing.Collections())
	if err != nil {
		t.Fatal(err)
	}
	defer moment.Close()
	for n := range len(messages) + 1 {
		want := bookstest.Lines(t, 0, messages[:n])
		for name, rows := range map[string]projection.Rows{"store": s.views.Store, "moment": moment} {
			if got := s.bookLines(rows, messages[:n]); !slices.Equal(got, want) {
				t.Fatalf("as of message %d of %d, %s: %d lines, want %d\n%s\nwant\n%s", n, len(messages), name, len(got), len(want), got, want)
			}
		}
	}
	all := strings.Join(bookstest.Lines(t, 0, messages), "")
	for _, has := range []string{`{"ledger":{"id":`, `LEDGER_CHARGE`, `LEDGER_REFUND`, `{"closed":{"account":"`, `"closed":true`, `"erased_ms":"`, `{"account":{"account":"`} {
		if !strings.Contains(all, has) {
			t.Errorf("the books have no %s", has)
		}
	}
}

// TestBooksHaveWhatIsShown: changed and made-up rows are in the books as people see them. Others are as before.
func TestBooksHaveWhatIsShown(t *testing.T) {
	owner := event.AccountID(alice).String()
	stranger := event.AccountID(alice + 1).String() // after all
	copied := `INSERT INTO "doc.billing_ledger" (id, seq, "k.account", "k.position", head) SELECT ?1 || '.' || "k.position", ?2, ?1, "k.position", head FROM "doc.billing_ledger" WHERE id LIKE ?3 || '%' ORDER BY id LIMIT 1`
	for _, one := range []struct {
		name        string
		tamper      func(*stack)
		gone, added string // of lines that are not there after, and before
		lines       int    // that were added
	}{
		{"amount changed", func(s *stack) {
			edit(s, projection.Ledger, owner, &event.LedgerEntry{}, func(e *event.LedgerEntry) { e.AmountMicros = 77_777_777 })
		}, `"amount_micros":"10000000"`, `"amount_micros":"77777777"`, 1},
		{"row deleted", func(s *stack) {
			s.exec(`DELETE FROM "doc.billing_ledger" WHERE number = (SELECT min(number) FROM "doc.billing_ledger" WHERE id LIKE ? || '%')`, owner)
		}, `"amount_micros":"10000000"`, "", 0},
		{"made up for an unknown account", func(s *stack) { s.exec(copied, stranger, 3, owner) }, "", `{"ledger":{"id":`, 1},
		{"made up by no message of the journal", func(s *stack) { s.exec(copied, stranger, 1<<40, owner) }, "", `{"ledger":{"id":`, 1},
		{"made up for nobody", func(s *stack) { s.exec(copied, "nobody", 3, owner) }, "", "", 0},
		{"statement changed", func(s *stack) {
			edit(s, projection.Statements, owner, &event.StatementAnswer{}, func(a *event.StatementAnswer) { a.FeesCents = 4242 })
		}, `{"closed":{"account":"` + owner, `"fees_cents":"4242"`, 1},
		{"statement deleted", func(s *stack) {
			s.exec(`DELETE FROM "doc.billing_statements" WHERE id LIKE ? || '%'`, owner)
		}, `{"closed":{"account":"` + owner, "", 0},
	} {
		t.Run(one.name, func(t *testing.T) {
			s := bookedStack(t)
			messages := s.messages()
			before := s.bookLines(s.views.Store, messages)
			one.tamper(s)
			after := s.bookLines(s.views.Store, messages)
			gone := slices.DeleteFunc(slices.Clone(before), func(l string) bool { return slices.Contains(after, l) })
			added := slices.DeleteFunc(slices.Clone(after), func(l string) bool { return slices.Contains(before, l) })
			if !strings.Contains(strings.Join(gone, ""), one.gone) || one.gone == "" && len(gone) > 0 {
				t.Errorf("gone: %s", gone)
			}
			if n := len(after) - len(before) + len(gone); n != one.lines || !strings.Contains(strings.Join(append(added, after[len(after)-1]), ""), one.added) {
				t.Errorf("%d lines were added, want %d: %s", n, one.lines, added)
			}
		})
	}
}
