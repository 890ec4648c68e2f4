package partition

import (
	"context"
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
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
		if point, known := of.points.At(one.seal.Sequence); known && one.message.Sequence <= logged {
			return &event.ProofAnswer{Seal: loggedMessage(one.message), Receipt: leafOf(point.Accounts.Find(key))}, nil
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
	for tree, into := range map[string]**event.TreeLeaf{accountsTree: &a.Receipt, statementsTree: &a.Statement} {
		leaf, path, err := seal.Find(ctx, p.deps.Blobs, p.treeKey(s.Period, tree, one.seal.Sequence), proof.KeyOf(uint64(id)))
		if err != nil {
			return nil, err
		}
		*into = leafOf(leaf, path)
	}
	return a, nil
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
		l.Path = append(l.Path, &event.TreeStep{Bit: uint32(step.Bit), Hash: step.Other.Hash[:], Sums: step.Other.Sums[:]}) //nolint:gosec // below 256
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
			m, err = p.appliedBook(ctx, b.Book.Id)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, loggedMessage(m))
	}
	return list, nil
}

// appliedBook returns the first message with an applied price book. Price books are rare.
func (p *Partition) appliedBook(ctx context.Context, id string) (journal.Message, error) {
	for from := uint64(1); ; {
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
