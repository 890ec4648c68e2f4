package billing

import (
	"encoding/hex"
	"fmt"

	"quire.dev/pkg/journal"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/partition"
)

// Chain computes the chain over the messages of a partition's journal from the first one on, without folding them.
type Chain struct {
	kinds map[string]account.Kind
	head  account.Head
}

// ChainHead is the head of a chain: its value in hex, and the sequence of the last message.
type ChainHead struct {
	Sequence uint64
	Chain    string
}

// NewChain returns the chain before the first message of a partition.
func NewChain(number int) *Chain { return &Chain{kinds: partition.KindsOf(number)} }

// Add adds the next message.
func (c *Chain) Add(m journal.Message) error {
	if m.Sequence != c.head.Sequence+1 {
		return fmt.Errorf("%w: %d after %d", journal.ErrGap, m.Sequence, c.head.Sequence)
	}
	c.head = c.head.After(partition.MessageOf(m, c.kinds))
	return nil
}

// Head is the head of the chain.
func (c *Chain) Head() ChainHead {
	return ChainHead{Sequence: c.head.Sequence, Chain: hex.EncodeToString(c.head.Chain[:])}
}
