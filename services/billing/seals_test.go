package billing_test

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/proof"
	"quire.dev/services/billing"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/seal"
)

// sealing is a configuration that seals soon.
func sealing() billing.Config { return billing.Config{SealInterval: 50 * time.Millisecond} }

// receiptRoot builds the accounts tree of a fold anew, from what it shows of each account.
func receiptRoot(t *testing.T, f *account.Fold) proof.Root {
	t.Helper()
	var leaves []proof.Leaf
	for _, a := range f.List() {
		number, hash, found := strings.Cut(f.UsageAt(event.AccountID(a.ID), 0).Receipt, ".")
		if !found {
			continue
		}
		n, err1 := strconv.ParseUint(number, 10, 64)
		content, err2 := hex.DecodeString(hash)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		leaves = append(leaves, proof.Leaf{Key: proof.KeyOf(a.ID), Sums: proof.Sums{n}, Content: [32]byte(content)})
	}
	return proof.Tree{}.With(leaves).Root()
}

// seals replays the journal and checks every seal. It returns how many have roots of accounts and of statements, and whether the newest
// commits to all receipts.
func (s *stack) seals(t *testing.T) (accounts, statements int, all bool) {
	t.Helper()
	f := account.New()
	points := map[uint64]proof.Root{}
	s.fold(f, func(sequence uint64, effects account.Effects) {
		of := effects.Seal
		if of == nil {
			return
		}
		points[sequence], all = receiptRoot(t, f), false
		if root, ok := seal.Root(of.Accounts); ok {
			accounts++
			if want, known := points[of.Sequence]; !known || root != want {
				t.Fatalf("message %d commits to %x, want %x", sequence, root, points[of.Sequence])
			}
			all = root == points[sequence]
		} else if of.Sequence != 0 {
			t.Fatalf("message %d has no root: %v", sequence, of)
		}
		for _, tree := range of.Statements {
			want, held, err := seal.Statements(t.Context(), f, seal.Period(tree.Month), func(read func()) { read() })
			if root, ok := seal.Root(tree); err != nil || !held || !ok || root != want.Root() {
				t.Fatalf("message %d: statements of %d: %x, want %x, %v", sequence, tree.Month, root, want.Root(), err)
			}
			statements++
		}
	})
	return accounts, statements, all && receiptRoot(t, f) == points[s.lastSealed()]
}

// lastSealed is the newest message with a seal.
func (s *stack) lastSealed() (last uint64) {
	s.t.Helper()
	s.fold(account.New(), func(sequence uint64, effects account.Effects) {
		if effects.Seal != nil {
			last = sequence
		}
	})
	return last
}

// monthTrees is how many trees and notes of sealed months there are.
func (s *stack) monthTrees() (count int) {
	s.t.Helper()
	err := s.blobs.Sweep(s.t.Context(), "billing/seals/", time.Now().Add(time.Hour), func(blob.Info) error { count++; return nil })
	if err != nil {
		s.t.Fatal(err)
	}
	return count
}

// TestSealsCommitToReceiptsAndStatements while accounts are used, through restarts and the end of a month. Without traffic they end.
func TestSealsCommitToReceiptsAndStatements(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := newStack(t)
	r := s.start(sealing(), 0)
	for id := range uint64(20) {
		s.account(1000+id, plan.Pro)
	}
	use := func() {
		for range 10 {
			s.serve(1000+random.Uint64N(20), plan.LiteGet, 1+random.IntN(5))
		}
	}
	sealed := func() {
		t.Helper()
		eventually.True(t, "all receipts are sealed", func() bool { _, _, all := s.seals(t); return all })
	}
	use()
	sealed()
	use()
	sealed()
	s.kill(r)
	r = s.start(sealing(), 0)
	use()
	sealed()
	r.stop()
	r = s.start(sealing(), later)
	use()
	sealed()
	eventually.True(t, "the month is sealed", func() bool { _, statements, _ := s.seals(t); return statements > 0 })
	eventually.True(t, "and noted", func() bool { return s.monthTrees() >= 3 })
	r.stop()
	_, before, _ := s.seals(t)
	s.start(sealing(), later)
	use()
	sealed()
	if _, again, _ := s.seals(t); again != before {
		t.Errorf("%d seals with statements, then %d: a sealed month was sealed again", before, again)
	}
	if a := s.audit(); !a.Match || rowsOf(a, "seals") == 0 {
		t.Errorf("the audit: %v", a)
	}
}

// climbs checks that an account's leaf leads to a root of its seal.
func climbs(t *testing.T, id uint64, l *event.TreeLeaf, to *event.SealedTree) proof.Leaf {
	t.Helper()
	leaf := proof.Leaf{Key: proof.Key(l.Key), Sums: proof.Sums(l.Sums), Content: [32]byte(l.Content)}
	var path []proof.Step
	for _, step := range l.Path {
		path = append(path, proof.Step{Bit: int(step.Bit), Other: proof.Root{Hash: [32]byte(step.Hash), Sums: proof.Sums(step.Sums)}})
	}
	want, _ := seal.Root(to)
	if root, ok := proof.Climb(proof.KeyOf(id), &leaf, path); !ok || root != want {
		t.Errorf("account %d: its leaf leads to %x, %v; the seal has %x", id, root, ok, want)
	}
	return leaf
}

// TestProofsOfAMonth lead from an account's receipt and statement to a seal that the log has.
func TestProofsOfAMonth(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	r := s.start(sealing(), 0)
	for id := range uint64(5) {
		s.account(1000+id, plan.Pro)
		s.serve(1000+id, plan.LiteGet, 2)
	}
	now := time.Now().UTC()
	this := now.Format("2006-01")
	closed := time.Date(now.Year(), now.Month()+1, 3, 0, 0, 0, 0, time.UTC).Sub(now)
	ask := func(id uint64, period string, logged uint64) *event.QueryAnswer {
		t.Helper()
		return s.query(&event.Query{Account: id, Query: &event.Query_Proof{Proof: &event.ProofQuery{Period: period, Logged: logged}}})
	}
	check := func(id uint64, period string, sealed bool) {
		t.Helper()
		var a *event.ProofAnswer
		eventually.True(t, "a seal has it", func() bool {
			a = ask(id, period, 1<<40).GetProof()
			return a.GetSeal() != nil && (a.StatementText != nil) == sealed
		})
		batch := &event.UsageBatch{}
		decode(t, a.Seal.Data, batch)
		if number := climbs(t, id, a.Receipt, batch.Seal.Accounts).Sums[0]; number < 3 {
			t.Errorf("the receipt has number %d", number)
		}
		if sealed {
			leaf := climbs(t, id, a.Statement, batch.Seal.Statements[0])
			if leaf.Content != sha256.Sum256(a.StatementText) || leaf.Sums[0] != 2 || !strings.Contains(string(a.StatementText), `"closed":true`) {
				t.Errorf("statement %s of %v", a.StatementText, leaf)
			}
		}
		if len(a.Books) != 1 || a.Books[0].Subject != event.PricesSubject(0) {
			t.Errorf("price books: %v", a.Books)
		}
		if early := ask(id, period, a.Seal.Sequence-1); early.GetProof().GetSeal().GetSequence() >= a.Seal.Sequence {
			t.Errorf("of a log without the seal: %v", early)
		}
	}
	for id := range uint64(5) {
		check(1000+id, this, false)
	}
	for _, period := range []string{"2020-01", "x", "2999-01"} {
		if a := ask(1000, period, 1<<40); a.Status != event.QueryStatus_QUERY_NOT_FOUND {
			t.Errorf("%s: %v", period, a)
		}
	}
	if a := ask(1000, this, 0); a.Status != event.QueryStatus_QUERY_OK || a.GetProof().Seal != nil {
		t.Errorf("of an empty log: %v", a)
	}
	r.stop()
	r = s.start(sealing(), closed)
	s.serve(1000, plan.LiteGet, 1)
	for id := range uint64(5) {
		check(1000+id, this, true)
	}
	r.stop()
	s.start(sealing(), closed+later) // the month has left the state of accounts that are used
	s.serve(1001, plan.LiteGet, 1)
	for id := range uint64(5) {
		check(1000+id, this, true)
	}
}

// TestAPartitionWithoutReceiptsIsSealed, so that an account without any is shown that it has none.
func TestAPartitionWithoutReceiptsIsSealed(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.start(sealing(), 0)
	s.account(alice, plan.Pro)
	q := &event.Query{Account: alice, Query: &event.Query_Proof{Proof: &event.ProofQuery{Period: time.Now().UTC().Format("2006-01"), Logged: 1 << 40}}}
	var a *event.ProofAnswer
	eventually.True(t, "it is sealed", func() bool { a = s.query(q).GetProof(); return a.GetSeal() != nil })
	batch := &event.UsageBatch{}
	decode(t, a.Seal.Data, batch)
	if root, ok := seal.Root(batch.Seal.Accounts); a.Receipt != nil || !ok || root != (proof.Root{}) {
		t.Errorf("receipt %v in a tree with the root %v", a.Receipt, root)
	}
}

// TestAnAuditNamesAWrongSeal, and the running service does.
func TestAnAuditNamesAWrongSeal(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	r := s.start(sealing(), 0)
	s.account(alice, plan.Pro)
	s.serve(alice, plan.LiteGet, 3)
	eventually.True(t, "all receipts are sealed", func() bool { _, _, all := s.seals(t); return all })
	forge := func(of *event.Seal) string {
		t.Helper()
		before := s.lastSequence()
		s.publish(event.UsageSubject(0), &event.UsageBatch{Source: "tick", StampMs: time.Now().UnixMilli(), Seal: of})
		eventually.True(t, "it is in the journal", func() bool { return s.lastSequence() > before })
		return strconv.FormatUint(before+1, 10)
	}
	point := s.lastSealed()
	for _, c := range []struct {
		of    *event.Seal
		field string
	}{
		{&event.Seal{Partitions: 1, Sequence: point, Accounts: seal.Of(proof.Root{Hash: [32]byte{1}}, "")}, "accounts"},
		{&event.Seal{Partitions: 1, Sequence: point}, "accounts"},
		{&event.Seal{Partitions: 1, Sequence: point, Accounts: &event.SealedTree{Hash: []byte{1, 2}}}, "accounts"},
		{&event.Seal{Partitions: 1, Accounts: seal.Of(proof.Root{}, "")}, "accounts"},
		{&event.Seal{Partitions: 1, Sequence: 1 << 40}, "sequence"},
		{&event.Seal{Partitions: 2}, "partitions"},
		{&event.Seal{Partitions: 1, Statements: []*event.SealedTree{seal.Of(proof.Root{}, "2020-01")}}, "2020-01"},
		{&event.Seal{Partitions: 1, Statements: []*event.SealedTree{{Month: 7}}}, "0000-07"},
	} {
		row := forge(c.of)
		a := s.audit()
		named := false
		for _, d := range a.Differences {
			named = named || d.Table == "seals" && d.Row == row && d.Field == c.field
		}
		if a.Match || !named {
			t.Errorf("%v: %v", c.of, a.Differences)
		}
	}
	eventually.True(t, "the service counts wrong roots", func() bool { return strings.Contains(r.exposed(), "quire_billing_seals_wrong_total 3") })
}

// TestASealMayComeLate while the journal answers late: after 63 others since the one it refers to, but not after 64.
func TestASealMayComeLate(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.start(billing.Config{SealInterval: time.Hour}, 0)
	s.account(alice, plan.Pro)
	s.serve(alice, plan.LiteGet, 3)
	send := func(of *event.Seal) uint64 {
		t.Helper()
		before := s.lastSequence()
		s.publish(event.UsageSubject(0), &event.UsageBatch{Source: "tick", StampMs: time.Now().UnixMilli(), Seal: of})
		eventually.True(t, "it is in the journal", func() bool { return s.lastSequence() > before })
		return before + 1
	}
	first := send(&event.Seal{Partitions: 1})
	f := account.New()
	s.replay(f)
	late := &event.Seal{Partitions: 1, Sequence: first, Accounts: seal.Of(receiptRoot(t, f), "")}
	for range seal.MaxEarlier - 1 {
		send(&event.Seal{Partitions: 1})
	}
	send(late)
	if a := s.audit(); !a.Match {
		t.Errorf("after %d others: %v", seal.MaxEarlier-1, a.Differences)
	}
	row := strconv.FormatUint(send(late), 10)
	if a := s.audit(); a.Match || len(a.Differences) != 1 || a.Differences[0].Row != row || a.Differences[0].Field != "sequence" {
		t.Errorf("after %d others: %v", seal.MaxEarlier, a.Differences)
	}
}
