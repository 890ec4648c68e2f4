package partition

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/num"
	"quire.dev/pkg/proof"
	"quire.dev/services/billing/internal/seal"
)

// proof answers with what a seal that the log has commits to about an account's month.
func (p *Partition) proof(ctx context.Context, id event.AccountID, q *event.ProofQuery, now int64) (*event.QueryAnswer, error) {
	answer, err := p.statement(ctx, id, q.GetPeriod(), now)
	s := answer.GetStatement()
	if err != nil || s == nil {
		return answer, err
	}
	found, err := p.proofOf(ctx, id, s, q.GetLogged())
	if err == nil && found.Seal != nil {
		found.Books, err = p.booksIn(ctx, s.Period, found.Seal.Sequence)
	}
	if err != nil {
		return nil, err
	}
	answer = status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_Proof{Proof: found}
	return answer, nil
}

// proofOf returns the leaves of an account: of the month's own seal, or of the newest one while the month has none. There is no
// seal in it if the log does not have that one yet.
func (p *Partition) proofOf(ctx context.Context, id event.AccountID, s *event.StatementAnswer, logged uint64) (*event.ProofAnswer, error) {
	key := proof.KeyOf(uint64(id))
	if s.Closed {
		one, found, err := p.sealOf(ctx, s.Period)
		if err != nil {
			return nil, err
		}
		if found {
			return p.monthProof(ctx, id, s, one, logged)
		}
	}
	of := &p.sealing
	of.mu.Lock()
	defer of.mu.Unlock()
	for _, one := range slices.Backward(of.kept) {
		if one.message.Sequence <= logged {
			return &event.ProofAnswer{Seal: loggedMessage(one.message), Receipt: leafOf(one.accounts.Find(key))}, nil
		}
	}
	return &event.ProofAnswer{}, nil
}

// monthProof reads an account's leaves in the stored trees of a sealed month.
func (p *Partition) monthProof(ctx context.Context, id event.AccountID, s *event.StatementAnswer, one sealed, logged uint64) (*event.ProofAnswer, error) {
	if one.message.Sequence > logged {
		return &event.ProofAnswer{}, nil
	}
	_, text, err := seal.Statement(id, s)
	if err != nil {
		return nil, err
	}
	a := &event.ProofAnswer{Seal: loggedMessage(one.message), StatementText: text}
	if a.Receipt, err = p.storedLeaf(ctx, id, s.Period, accountsTree, one.seal.Accounts); err != nil {
		return nil, err
	}
	for _, tree := range one.seal.Statements {
		if seal.Period(tree.Month) != s.Period {
			continue
		}
		if a.Statement, err = p.storedLeaf(ctx, id, s.Period, statementsTree, tree); err != nil {
			return nil, err
		}
	}
	if want := sha256.Sum256(text); !bytes.Equal(a.Statement.GetContent(), want[:]) {
		return nil, fmt.Errorf("%w: account %s has another statement of %s in it", seal.ErrDamaged, id, s.Period)
	}
	return a, nil
}

// storedLeaf returns the leaf to which an account's key leads in a stored tree, and its path, which lead to the sealed root.
func (p *Partition) storedLeaf(ctx context.Context, id event.AccountID, period, tree string, sealed *event.SealedTree) (*event.TreeLeaf, error) {
	root, ok := seal.Root(sealed)
	if !ok {
		return nil, fmt.Errorf("%w: the seal of %s has no root", seal.ErrDamaged, period)
	}
	key, name := proof.KeyOf(uint64(id)), p.treeKey(period, tree, root)
	leaf, path, err := seal.Find(ctx, p.deps.Blobs, name, key)
	if err != nil || leaf == nil {
		return nil, err
	}
	if found, ok := proof.Climb(key, leaf, path); !ok || found != root {
		return nil, fmt.Errorf("%w: %s", seal.ErrDamaged, name)
	}
	return leafOf(leaf, path), nil
}

func loggedMessage(m journal.Message) *event.LoggedMessage {
	return &event.LoggedMessage{Sequence: m.Sequence, TimeNs: m.Time.UnixNano(), Subject: m.Subject, Data: m.Data}
}

// leafOf describes a leaf and its path; nil without one.
func leafOf(leaf *proof.Leaf, path []proof.Step) *event.TreeLeaf {
	if leaf == nil {
		return nil
	}
	l := &event.TreeLeaf{Key: leaf.Key[:], Sums: leaf.Sums[:], Content: leaf.Content[:]}
	for _, step := range path {
		l.Path = append(l.Path, &event.TreeStep{Bit: num.Uint32(step.Bit), Hash: step.Other.Hash[:], Sums: step.Other.Sums[:]})
	}
	return l
}

// booksIn returns the messages of the price books that were in force in a month, up to a message.
func (p *Partition) booksIn(ctx context.Context, period string, upTo uint64) (list []*event.LoggedMessage, err error) {
	p.mu.Lock()
	books := p.fold.BooksIn(period)
	p.mu.Unlock()
	for _, b := range books {
		if b.Sequence > upTo {
			break
		}
		var m journal.Message
		if b.Book.Id == "" {
			m, err = p.journal.Get(ctx, b.Sequence)
		} else {
			m, err = p.appliedBook(ctx, b.Book)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, loggedMessage(m))
	}
	return list, nil
}

// appliedBook returns the first message with an applied price book. It looks from when the book was published on: an archive has no index of
// price books. Of a book that a clock far ahead has stamped, it reads everything.
func (p *Partition) appliedBook(ctx context.Context, book *event.PriceBook) (journal.Message, error) {
	from, err := p.journal.SeekTime(ctx, time.UnixMilli(book.StampMs-book.OffsetMs).Add(-explainBefore))
	if err != nil {
		return journal.Message{}, err
	}
	m, err := p.nextBook(ctx, book.Id, from)
	if errors.Is(err, journal.ErrNoMessage) && from > 1 {
		return p.nextBook(ctx, book.Id, 1)
	}
	return m, err
}

// nextBook returns the first message with an applied price book from a sequence on.
func (p *Partition) nextBook(ctx context.Context, id string, from uint64) (journal.Message, error) {
	for {
		m, err := p.journal.NextOf(ctx, event.PricesSubject(p.cfg.Partition), from)
		if err != nil {
			return m, err
		}
		book := &event.PriceBook{}
		if book.UnmarshalVT(m.Data) == nil && book.Id == id && !book.Withdrawn {
			return m, nil
		}
		from = m.Sequence + 1
	}
}
