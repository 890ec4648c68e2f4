package account

import (
	"crypto/sha256"

	"google.golang.org/protobuf/proto"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/proof"
	"quire.dev/services/billing/internal/bookjson"
)

// sealCases are vectors of seals.
func sealCases() []vectorCase {
	return []vectorCase{
		{"seals", "Seals", "Three accounts, of which one has no chain. The first seal has no roots, the second one those of the state right after the first. After the month's close the fourth has its statements, too.", func(h *history) {
			h.rules = Rules5
			h.begin(100_000)
			h.account(bob, plan.Max)
			h.account(0xCA201, plan.Free)
			h.served(h.each(alice, plan.PastesGet, 1)[0])
			h.each(bob, plan.FilesUpload, 1)
			first, root := h.seal(0, nil), h.receiptTree()
			h.each(alice, plan.FilesUpload, 2)
			second, later := h.seal(first, root), h.receiptTree()
			h.now = at("2026-11-02T00:00:01Z")
			h.tick()
			third := h.seal(second, later)
			root = h.receiptTree()
			h.seal(third, root, h.statementTree())
		}},
	}
}

// receiptTree is the accounts tree of the present state.
func (h *history) receiptTree() *event.SealedTree {
	var leaves []proof.Leaf
	for id, a := range h.fold.principals.accounts {
		if a.receipt.number > 0 {
			leaves = append(leaves, proof.Leaf{Key: proof.KeyOf(id), Sums: proof.Sums{a.receipt.number}, Content: a.receipt.hash})
		}
	}
	return sealedTree(leaves, 0)
}

// statementTree is the statements tree of the month that was closed last.
func (h *history) statementTree() *event.SealedTree {
	h.t.Helper()
	period, ok := parsePeriod(h.fold.LastClosed())
	if !ok {
		h.t.Fatalf("no month is closed")
	}
	var leaves []proof.Leaf
	for id := range h.fold.principals.accounts {
		answer, _ := h.fold.StatementAt(event.AccountID(id), period.period(), 0)
		s := proto.Clone(answer).(*event.StatementAnswer)
		used := uint64(0)
		for _, u := range s.Usage {
			used += u.Used
			u.RefundedMicros = 0
		}
		text, err := bookjson.Text(s)
		if err != nil {
			h.t.Fatalf("%v", err)
		}
		leaves = append(leaves, proof.Leaf{Key: proof.KeyOf(id), Sums: proof.Sums{used, s.SpentMicros, s.FeesCents + s.StorageOverageCents}, Content: sha256.Sum256(text)})
	}
	return sealedTree(leaves, period.number/12*100+period.number%12+1)
}

func sealedTree(leaves []proof.Leaf, month uint32) *event.SealedTree {
	root := proof.Tree{}.With(leaves).Root()
	return &event.SealedTree{Month: month, Hash: root.Hash[:], Sums: root.Sums[:]}
}

// seal publishes a seal, and returns the sequence of its message.
func (h *history) seal(of uint64, accounts *event.SealedTree, statements ...*event.SealedTree) uint64 {
	h.append(Usage, &event.UsageBatch{Source: "tick", StampMs: h.now, Seal: &event.Seal{Partitions: 1, Sequence: of, Accounts: accounts, Statements: statements}})
	return h.fold.Sequence()
}
