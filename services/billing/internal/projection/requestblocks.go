package projection

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// The blocks of requests in the read model.

// requestBlocks are ordered by the time of their last request.
func requestBlocks() blockKind { return blockKind{collection: Requests, position: "time"} }

// blocks returns the documents of an account's requests, which are sorted by time. With first, the blocks before them are beyond the
// number kept.
func (p *Projection) blocks(id event.AccountID, sequence uint64, list []*event.RecentRequest, first bool) (puts []views.Put, err error) {
	for part := range slices.Chunk(list, maxBlock) {
		doc := newBlock(p.stream, id, sequence, part[len(part)-1].TimeMs)
		if err := EncodeBlock(&doc, part); err != nil {
			return nil, err
		}
		if first && len(puts) == 0 {
			doc.Head = append(doc.Head, firstBlock)
		}
		puts = append(puts, views.Put{Collection: Requests, Doc: doc, New: true})
	}
	return puts, nil
}

// firstBlock follows the number of requests in the head of a block whose commit had more requests of the account than are kept: those
// of earlier blocks may lack their ends, and are not shown.
const firstBlock = 1

// isFirst reports whether a block has that mark.
func isFirst(d views.Doc) bool {
	_, n := binary.Uvarint(d.Head)
	return n > 0 && len(d.Head) > n
}

// DecodeBlock returns the entries of a block.
func DecodeBlock(doc views.Doc) ([]*event.RecentRequest, error) {
	data, err := unpack(doc)
	if err != nil {
		return nil, err
	}
	a := &event.RecentAnswer{}
	if err := event.Decode(data, a); err != nil {
		return nil, fmt.Errorf("block of requests %s: %w", doc.ID, err)
	}
	return a.Requests, nil
}

// EncodeBlock sets the entries of a block, and their number as its head.
func EncodeBlock(doc *views.Doc, requests []*event.RecentRequest) error {
	data, err := event.Encode(&event.RecentAnswer{Requests: requests})
	pack(doc, len(requests), data)
	return err
}

// Blocks returns the blocks of an account that have requests since a time, in the order of their sequences, without those that are
// beyond the number kept.
func (p *Projection) Blocks(ctx context.Context, id event.AccountID, since int64) (blocks []views.Doc, err error) {
	for range readAttempts {
		heads, err := p.blockHeads(ctx, requestBlocks(), id, since)
		if err != nil {
			return nil, err
		}
		for i := len(heads) - 1; i > 0; i-- {
			if isFirst(heads[i]) {
				heads = heads[i:]
				break
			}
		}
		if blocks, err = p.loadBlocks(ctx, requestBlocks(), heads); err != nil || len(blocks) == len(heads) {
			return blocks, err
		}
	}
	return blocks, nil // blocks are being deleted
}

// join joins blocks in the order of their sequences.
func join(blocks []views.Doc) (*joined, error) {
	j := newJoined()
	for _, d := range blocks {
		requests, err := DecodeBlock(d)
		if err != nil {
			return nil, err
		}
		j.addBlock(d.Seq, requests)
	}
	return j, nil
}

// JoinBlocks joins blocks for an audit. seq is the sequence up to which they have all changes of their account. visit is called with what
// each block has, or why it can't be read: then it is left out.
func JoinBlocks(blocks []views.Doc, visit func(doc views.Doc, requests []*event.RecentRequest, err error)) (requests map[event.RequestID]*event.RecentRequest, seq uint64) {
	j := newJoined()
	for _, d := range blocks {
		requests, err := DecodeBlock(d)
		if visit(d, requests, err); err == nil {
			j.addBlock(d.Seq, requests)
		}
	}
	return j.byID, j.seq
}

// RequestAccounts returns the accounts of a stream that have blocks of requests.
func (p *Projection) RequestAccounts(ctx context.Context) (map[string]bool, error) {
	return p.accounts(ctx, requestBlocks())
}
