package projection

import (
	"context"
	"fmt"

	"quire.dev/pkg/views"
	"quire.dev/services/billing/internal/account"
)

// The head of a stream's chain is stored with the checkpoint, whenever that has reached the last message pushed. Only a journal
// with the same messages leads a fold to it.

// headPut stores the head. mu is held.
func (p *Projection) headPut() views.Put {
	chain := p.head.Chain
	return views.Put{Collection: Heads, Doc: views.Doc{ID: p.stream, Seq: p.head.Sequence, Head: chain[:]}}
}

// StoredHead reads the head of a stream's chain that was stored last. It is zero before the first one.
func StoredHead(ctx context.Context, store views.Store, stream string) (account.Head, error) {
	docs, err := store.Load(ctx, Heads, []string{stream}, views.Heads)
	if err != nil || len(docs) == 0 {
		return account.Head{}, err
	}
	chain := docs[0].Head
	if len(chain) != len(account.Hash{}) {
		return account.Head{}, fmt.Errorf("head of %s: a chain of %d bytes", stream, len(chain))
	}
	return account.Head{Sequence: docs[0].Seq, Chain: account.Hash(chain)}, nil
}
