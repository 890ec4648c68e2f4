// Package seal makes the trees to which a partition's seals commit: of the receipts of all accounts, and of a month's statements.
// docs/journal.md (Seals) specifies them.
package seal

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"quire.dev/pkg/event"
	"quire.dev/pkg/proof"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/bookjson"
)

const (
	// MaxEarlier is how many earlier seals a seal may refer to.
	MaxEarlier = 64
	// maxTrees is how many points keep their trees, which can take some 10 MB each.
	maxTrees = 8
)

// Point is the accounts tree right after a message with a seal.
type Point struct {
	Sequence uint64
	Root     proof.Root
	Accounts proof.Tree // empty in all but the newest points
}

// Points are the points of the newest seals. Not safe for concurrent use.
type Points struct {
	tree proof.Tree
	list []Point // oldest first
	seen int     // seals in all
}

// Add adds a message with a seal. changed are the receipts that have changed since the message added before.
func (p *Points) Add(sequence uint64, changed []account.Receipt) {
	leaves := make([]proof.Leaf, len(changed))
	for i, r := range changed {
		leaves[i] = proof.Leaf{Key: proof.KeyOf(uint64(r.Account)), Sums: proof.Sums{r.Number}, Content: r.Hash}
	}
	p.tree = p.tree.With(leaves)
	if p.seen++; len(p.list) == MaxEarlier {
		p.list = p.list[1:]
	}
	p.list = append(p.list, Point{sequence, p.tree.Root(), p.tree})
	if old := len(p.list) - maxTrees - 1; old >= 0 {
		p.list[old].Accounts = proof.Tree{}
	}
}

// Save returns the points without their trees.
func (p *Points) Save() (list []*event.SealPoint) {
	for _, point := range p.list {
		list = append(list, &event.SealPoint{Sequence: point.Sequence, Accounts: Of(point.Root, "")})
	}
	return list
}

// Restore returns points that Save returned. The next ones need all receipts.
func Restore(list []*event.SealPoint) (p Points) {
	for _, saved := range list {
		root, _ := Root(saved.Accounts)
		p.list = append(p.list, Point{Sequence: saved.Sequence, Root: root})
	}
	p.seen = len(p.list)
	return p
}

// Newest returns the last point, or false.
func (p *Points) Newest() (Point, bool) {
	if len(p.list) == 0 {
		return Point{}, false
	}
	return p.list[len(p.list)-1], true
}

// At returns the point of a message, or false.
func (p *Points) At(sequence uint64) (Point, bool) {
	for _, point := range p.list {
		if point.Sequence == sequence {
			return point, true
		}
	}
	return Point{}, false
}

// All reports whether no seal a later one may refer to is missing, if the points were added from message after on.
func (p *Points) All(after uint64) bool { return after == 0 || p.seen >= MaxEarlier }

// Of describes a root. month is empty for a tree of accounts, else as YYYY-MM.
func Of(root proof.Root, month string) *event.SealedTree {
	t := &event.SealedTree{Month: Month(month), Hash: root.Hash[:]}
	if root.Sums != (proof.Sums{}) {
		t.Sums = root.Sums[:]
	}
	return t
}

// Root returns the root that a seal has. ok is false if it has not the form of one.
func Root(t *event.SealedTree) (root proof.Root, ok bool) {
	if len(t.GetHash()) != len(root.Hash) || len(t.GetSums()) != len(root.Sums) && len(t.GetSums()) != 0 {
		return root, false
	}
	copy(root.Hash[:], t.Hash)
	copy(root.Sums[:], t.Sums)
	return root, true
}

// Month is the number YYYYMM of a month YYYY-MM, 0 of another text.
func Month(period string) uint32 {
	n, err := strconv.ParseUint(strings.Replace(period, "-", "", 1), 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// Period is the month YYYY-MM of a number YYYYMM.
func Period(month uint32) string { return fmt.Sprintf("%04d-%02d", month/100, month%100) }

// Statement returns the leaf of an account's statement, and its text: without what admins have refunded, which still changes after the close.
func Statement(id event.AccountID, s *event.StatementAnswer) (leaf proof.Leaf, text []byte, err error) {
	used := uint64(0)
	sealed := proto.Clone(s).(*event.StatementAnswer)
	for _, u := range sealed.Usage {
		used += u.Used
		u.RefundedMicros = 0
	}
	text, err = bookjson.Text(sealed)
	sums := proof.Sums{used, s.SpentMicros, s.FeesCents + s.StorageOverageCents}
	return proof.Leaf{Key: proof.KeyOf(uint64(id)), Sums: sums, Content: sha256.Sum256(text)}, text, err
}

// step is how many statements are made in one pause of the fold, of about a millisecond.
const step = 64

// Statements returns the tree of a closed month's statements. It reads the fold within calls of pause, in steps. ok is false if the
// state no longer has all of them.
func Statements(ctx context.Context, f *account.Fold, period string, pause func(read func())) (tree proof.Tree, ok bool, err error) {
	var list []account.Listed
	pause(func() { list = f.List() })
	var leaves []proof.Leaf
	for part := range slices.Chunk(list, step) {
		if err := ctx.Err(); err != nil {
			return tree, false, err
		}
		statements, all := make([]*event.StatementAnswer, len(part)), true
		pause(func() {
			for i, a := range part {
				s, held := f.StatementAt(event.AccountID(a.ID), period, 0)
				statements[i], all = s, all && held
			}
		})
		if !all {
			return tree, false, nil
		}
		for i, s := range statements {
			if s == nil { // the account is newer
				continue
			}
			leaf, _, err := Statement(event.AccountID(part[i].ID), s)
			if err != nil {
				return tree, false, err
			}
			leaves = append(leaves, leaf)
		}
	}
	return proof.Tree{}.With(leaves), true, nil
}
