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
	var b blockReader
	return b.decode(doc)
}

// blockReader decodes blocks of requests into the memory of the blocks before.
type blockReader struct {
	data   []byte
	answer event.RecentAnswer
}

// decode returns the entries of a block. The next call reuses those that the caller doesn't set to nil.
func (b *blockReader) decode(doc views.Doc) (requests []*event.RecentRequest, err error) {
	if b.data, err = unpack(doc, b.data[:0]); err != nil {
		return nil, err
	}
	for _, r := range b.answer.Requests {
		if r != nil {
			*r = event.RecentRequest{RequestId: r.RequestId[:0]}
		}
	}
	b.answer = event.RecentAnswer{Requests: b.answer.Requests[:0]}
	if err := event.Decode(b.data, &b.answer); err != nil {
		return nil, fmt.Errorf("block of requests %s: %w", doc.ID, err)
	}
	return b.answer.Requests, nil
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
		heads = p.ofStream(heads)
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

// JoinBlocks joins what blocks have of the requests that wanted selects, for an audit. wanted is called with each entry, which it must not
// keep. seq is the sequence up to which the blocks have all changes of their account. read is called after the entries of each block, and
// with the reason for a block that can't be read, which is left out.
func JoinBlocks(
	blocks []views.Doc, wanted func(views.Doc, *event.RecentRequest) bool, read func(views.Doc, error),
) (requests map[event.RequestID]*event.RecentRequest, seq uint64) {
	j := newJoined()
	var b blockReader
	for _, doc := range blocks {
		entries, err := b.decode(doc)
		if err != nil {
			read(doc, err)
			continue
		}
		for i, r := range entries {
			if wanted(doc, r) {
				j.add(r)
				entries[i] = nil
			}
		}
		j.seq = max(j.seq, doc.Seq)
		read(doc, nil)
	}
	return j.byID, j.seq
}

// RequestAccounts returns the accounts of a stream that have blocks of requests.
func (p *Projection) RequestAccounts(ctx context.Context) (map[string]bool, error) {
	return p.accounts(ctx, requestBlocks())
}
