package projection

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// The blocks of requests in the read model.

// blocks returns the documents of an account's requests, which are sorted by time. With first, the blocks before them are beyond the
// number kept.
func (p *Projection) blocks(id event.AccountID, sequence uint64, list []*event.RecentRequest, first bool) (puts []views.Put, err error) {
	for part := range slices.Chunk(list, maxBlock) {
		doc, err := block(p.stream, id, sequence, part)
		if err != nil {
			return nil, err
		}
		if first && len(puts) == 0 {
			doc.Head = append(doc.Head, firstBlock)
		}
		puts = append(puts, views.Put{Collection: Requests, Doc: doc, New: true})
	}
	return puts, nil
}

// block returns the document with some of an account's requests, sorted by time.
func block(stream string, id event.AccountID, sequence uint64, requests []*event.RecentRequest) (views.Doc, error) {
	doc := views.Doc{
		ID: id.String() + "." + rand.Text()[:16], Seq: sequence,
		Keys: views.Keys{
			{Name: "account", Value: views.String(id.String())},
			{Name: "stream", Value: views.String(stream)},
			{Name: "time", Value: views.Int(requests[len(requests)-1].TimeMs)},
		},
	}
	err := EncodeBlock(&doc, requests)
	return doc, err
}

var (
	zstdEncoder = sync.OnceValue(func() *zstd.Encoder { //nolint:gochecknoglobals // it has its tables and buffers, and is safe for concurrent use
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(128<<10),
			zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
		if err != nil {
			panic(err) // the options are constant
		}
		return e
	})
	zstdDecoder = sync.OnceValue(func() *zstd.Decoder { //nolint:gochecknoglobals // likewise
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(views.MaxDocBytes), zstd.WithDecoderLowmem(true))
		if err != nil {
			panic(err)
		}
		return d
	})
)

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
	body, err := zstdDecoder().DecodeAll(doc.Body, nil)
	if err != nil {
		return nil, fmt.Errorf("block of requests %s: %w", doc.ID, err)
	}
	a := &event.RecentAnswer{}
	if err := event.Decode(body, a); err != nil {
		return nil, fmt.Errorf("block of requests %s: %w", doc.ID, err)
	}
	return a.Requests, nil
}

// EncodeBlock sets the entries of a block, and their number as its head.
func EncodeBlock(doc *views.Doc, requests []*event.RecentRequest) error {
	body, err := event.Encode(&event.RecentAnswer{Requests: requests})
	doc.Head, doc.Body = binary.AppendUvarint(nil, uint64(len(requests))), zstdEncoder().EncodeAll(body, nil)
	return err
}

// blockHeads lists the blocks of an account that have requests since a time, in the order of their sequences.
func (p *Projection) blockHeads(ctx context.Context, id event.AccountID, since int64) ([]views.Doc, error) {
	query := views.Query{
		Index: byAccount, Equal: []views.Value{views.String(id.String())}, After: []views.Value{views.Int(since - 1)}, AfterID: "~",
	}
	var heads []views.Doc
	err := each(ctx, p.store, Requests, query, requestIndex(), func(d views.Doc) error {
		heads = append(heads, d)
		return nil
	})
	slices.SortFunc(heads, compareBlocks)
	return heads, err
}

// compareBlocks orders blocks by sequence, and the blocks of one commit by time. The first ones are deleted first.
func compareBlocks(a, b views.Doc) int {
	return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Keys.Get("time").Int64(), b.Keys.Get("time").Int64()), strings.Compare(a.ID, b.ID))
}

// Blocks returns the blocks of an account that have requests since a time, in the order of their sequences, without those that are
// beyond the number kept.
func (p *Projection) Blocks(ctx context.Context, id event.AccountID, since int64) (blocks []views.Doc, err error) {
	for range readAttempts {
		heads, err := p.blockHeads(ctx, id, since)
		if err != nil {
			return nil, err
		}
		for i := len(heads) - 1; i > 0; i-- {
			if isFirst(heads[i]) {
				heads = heads[i:]
				break
			}
		}
		if blocks, err = p.loadBlocks(ctx, heads); err != nil || len(blocks) == len(heads) {
			return blocks, err
		}
	}
	return blocks, nil // blocks are being deleted
}

func (p *Projection) loadBlocks(ctx context.Context, heads []views.Doc) (blocks []views.Doc, err error) {
	for page := range slices.Chunk(heads, loadBlocks) {
		ids := make([]string, 0, len(page))
		for _, d := range page {
			ids = append(ids, d.ID)
		}
		docs, err := p.store.Load(ctx, Requests, ids, views.Full)
		if err != nil {
			return nil, fmt.Errorf("load requests: %w", err)
		}
		blocks = append(blocks, docs...)
	}
	slices.SortFunc(blocks, compareBlocks)
	return blocks, nil
}

// join joins blocks in the order of their sequences.
func join(blocks []views.Doc) (*joined, error) {
	j := newJoined()
	for _, d := range blocks {
		requests, err := DecodeBlock(d)
		if err != nil {
			return nil, err
		}
		for _, r := range requests {
			j.add(r)
		}
		j.seq = max(j.seq, d.Seq)
	}
	return j, nil
}

// RequestAccounts returns the accounts of a stream that have blocks.
func (p *Projection) RequestAccounts(ctx context.Context) (map[string]bool, error) {
	accounts := map[string]bool{}
	query := views.Query{Index: byStream, Equal: []views.Value{views.String(p.stream)}}
	err := each(ctx, p.store, Requests, query, requestStreamIndex(), func(d views.Doc) error {
		account, _, _ := strings.Cut(d.ID, ".")
		accounts[account] = true
		return nil
	})
	return accounts, err
}
