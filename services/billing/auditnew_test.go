package billing_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/plan"
	"quire.dev/services/billing"
)

// auditNew audits what is new.
func (s *stack) auditNew() *event.AuditAnswer {
	s.t.Helper()
	return s.auditWith(&event.AuditQuery{New: true})
}

// TestAnAuditOfWhatIsNew begins with the snapshot that the audit before has compared, and compares rows of later messages only.
func TestAnAuditOfWhatIsNew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		principals int // folded at a time; 0: all
	}{{"whole", 0}, {"after an audit in parts", 1}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, cfg := books(t)
			cfg.AuditPrincipals = c.principals
			r := s.start(cfg, later)
			if a := s.auditNew(); !a.Match || a.FromSequence != 0 {
				t.Fatalf("without an audit before: %v", a)
			}
			audited := s.auditNew()
			if !audited.Match || audited.FromSequence != s.lastSequence() || audited.Folded != 0 {
				t.Fatalf("with nothing new: %v", audited)
			}
			r.stop()
			r = s.start(cfg, later+72*time.Hour)
			s.grant(alice, 4_000_000)
			s.serve(bob, plan.LiteGet, 3)
			a := s.auditNew()
			if !a.Match || a.FromSequence != audited.FromSequence || a.Folded != s.lastSequence()-audited.FromSequence || !bytes.Equal(a.LiveHash, a.ReplayHash) {
				t.Errorf("with something new: %v", a)
			}
			if rows := a.Tables; len(rows) == 0 || rowsOf(a, "ledger") != 1 || rowsOf(a, "days") != 1 || rowsOf(a, "accounts") != 2 || rowsOf(a, "requests") != 3 {
				t.Errorf("it compared %v", rows)
			}
			s.exec(`DELETE FROM "doc.billing_ledger" WHERE number = (SELECT max(number) FROM "doc.billing_ledger")`)
			if a := s.auditNew(); a.Match || !names(a, alice, "ledger  present missing") {
				t.Errorf("a new row deleted: %v", a)
			}
			s.auditWith(&event.AuditQuery{Repair: "ledger"})
			edit(s, "billing_ledger", event.AccountID(alice).String(), &event.LedgerEntry{}, func(e *event.LedgerEntry) { e.AmountMicros += 7 })
			if a := s.auditNew(); !a.Match {
				t.Errorf("a row that was audited: %v", a)
			}
			if a := s.audit(); a.Match || !names(a, alice, "ledger amountMicros 1000000 1000007") {
				t.Errorf("a complete audit: %v", a)
			}
			r.stop()
		})
	}
}

// TestAnAuditOfWhatIsNewSeesOldMonthsClose compares the statements of months that leave the state later, of an idle account too.
func TestAnAuditOfWhatIsNewSeesOldMonthsClose(t *testing.T) {
	t.Parallel()
	s, cfg := books(t)
	r := s.start(cfg, later)
	s.auditNew()
	r.stop()
	s.start(cfg, 2*later)
	s.serve(alice, plan.LiteGet, 1)
	s.serve(bob, plan.LiteGet, 1) // idle since the start
	a := s.auditNew()
	if !a.Match || a.FromSequence == 0 || rowsOf(a, "statements") < 2 {
		t.Errorf("%v", a)
	}
	s.exec(`DELETE FROM "doc.billing_statements" WHERE number = (SELECT max(number) FROM "doc.billing_statements")`)
	if a := s.auditNew(); a.Match || differing(a, "statements") != 1 {
		t.Errorf("a new statement deleted: %v", a)
	}
}

// TestTheAuditedSnapshotIsKept although newer ones are enough to start, and a note that billing did not write is not believed.
func TestTheAuditedSnapshotIsKept(t *testing.T) {
	t.Parallel()
	s, cfg := books(t)
	cfg.SnapshotMessages = 1
	cfg.HistoryMessages = 1_000_000
	r := s.start(cfg, later)
	s.auditNew()
	from := s.auditNew().FromSequence
	for range 8 {
		s.grant(alice, 1)
		eventually.True(t, "a snapshot", func() bool { return s.hasSnapshot(s.lastSequence()) })
	}
	if a := s.auditNew(); !a.Match || a.FromSequence != from || from == 0 {
		t.Errorf("from %d, then %v", from, a)
	}
	r.stop()
	const note = "billing/audited/BILLING_0/snapshot"
	good := s.read(note)
	for name, forged := range map[string][]byte{
		"of another snapshot": bytes.Replace(bytes.Clone(good), []byte("-"), []byte("0"), 1),
		"cut":                 good[:len(good)-1],
		"empty":               {},
		"large":               []byte(strings.Repeat("x", 5000)),
	} {
		s.put(note, forged)
		r := s.start(billing.Config{}, later)
		if a := s.auditNew(); !a.Match || a.FromSequence != 0 {
			t.Errorf("a note %s: %v", name, a)
		}
		r.stop()
	}
	s.put(note, good)
}

// hasSnapshot reports whether there is a snapshot at a sequence.
func (s *stack) hasSnapshot(sequence uint64) bool {
	return slices.ContainsFunc(s.snapshots(), func(i blob.Info) bool { return strings.Contains(i.Key, fmt.Sprintf("/%020d-", sequence)) })
}

// rowsOf is how many rows an audit found in a table.
func rowsOf(a *event.AuditAnswer, table string) uint64 {
	for _, t := range a.Tables {
		if t.Table == table {
			return t.Rows
		}
	}
	return 0
}

// TestWhatIsNewIsAudited without anybody asking, while closed generations of the journal are to be deleted, and the note about it tells
// the archive how far.
func TestWhatIsNewIsAudited(t *testing.T) {
	t.Parallel()
	s, cfg := books(t)
	stream := event.Billing.Stream(0)
	note := installation.AuditedKey(stream)
	cfg.SnapshotMessages, cfg.JournalRetention = 1, time.Hour
	r := s.start(cfg, later)
	eventually.True(t, "an audit", func() bool {
		_, err := blob.Read(t.Context(), s.blobs, note, installation.MaxAudited)
		return err == nil
	})
	audited, err := installation.AuditedSequence(stream, s.read(note))
	if err != nil || audited == 0 || audited > s.lastSequence() {
		t.Errorf("audited up to %d of %d: %v", audited, s.lastSequence(), err)
	}
	s.auditNew() // perhaps the same
	if a := s.auditNew(); !a.Match || a.FromSequence < audited {
		t.Errorf("the note says %d, and the next audit begins at %d", audited, a.FromSequence)
	}
	r.stop()
}
