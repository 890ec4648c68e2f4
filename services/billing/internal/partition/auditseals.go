package partition

import (
	"context"
	"fmt"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/proof"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/seal"
)

const tableSeals = "seals"

// auditedSeals compares the seals of the journal with the trees of one pass, which needs all principals.
type auditedSeals struct {
	points seal.Points
	after  uint64 // message after which the pass begins
	count  int
}

// apply compares the seal of the message that was folded last, if it has one.
func (s *auditedSeals) apply(ctx context.Context, f *account.Fold, of *event.Seal, partitions int) (list []found, err error) {
	if of == nil {
		return nil, nil
	}
	s.count++
	differs := func(field, expected, have string) {
		list = append(list, found{table: tableSeals, list: []*event.AuditDifference{
			{Table: tableSeals, Row: fmt.Sprint(f.Sequence()), Field: field, Expected: expected, Found: have},
		}})
	}
	if of.Partitions != num.Uint32(partitions) {
		differs("partitions", fmt.Sprint(partitions), fmt.Sprint(of.Partitions))
	}
	point, known := s.points.At(of.Sequence)
	switch {
	case known:
		if want, have := showTree(seal.Of(point.Root, "")), showTree(of.Accounts); want != have {
			differs("accounts", want, have)
		}
	case of.Sequence != 0 && s.points.All(s.after):
		differs("sequence", "an earlier seal", fmt.Sprint(of.Sequence))
	case of.Sequence == 0 && of.Accounts != nil:
		differs("accounts", "", showTree(of.Accounts))
	}
	for _, tree := range of.Statements {
		want, err := sealedStatements(ctx, f, seal.Period(tree.Month))
		if err != nil {
			return nil, err
		}
		if have := showTree(tree); want != have {
			differs(seal.Period(tree.Month), want, have)
		}
	}
	s.points.Add(f.Sequence(), f.TakeReceipts())
	return list, nil
}

// sealedStatements shows the tree of a month's statements, or why there is none.
func sealedStatements(ctx context.Context, f *account.Fold, period string) (string, error) {
	if period != f.LastClosed() {
		return "a month that has closed since the month after it began", nil
	}
	tree, all, err := seal.Statements(ctx, f, period, func(read func()) { read() })
	if err != nil || !all {
		return "statements that the state still has", err
	}
	return showTree(seal.Of(tree.Root(), period)), nil
}

// showTree shows a root in an audit's answer.
func showTree(t *event.SealedTree) string {
	if t == nil {
		return ""
	}
	root, ok := seal.Root(t)
	if !ok {
		return fmt.Sprintf("%d bytes and %d sums", len(t.Hash), len(t.Sums))
	}
	if root.Sums == (proof.Sums{}) {
		return fmt.Sprintf("%x", root.Hash)
	}
	return fmt.Sprintf("%x %d", root.Hash, root.Sums)
}
