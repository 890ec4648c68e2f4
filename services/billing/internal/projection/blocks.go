package projection

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/views"
)

// Blocks have many small records of an account in one document each. A commit adds a block per account and collection. The
// background joins small blocks, and deletes whole ones past their retention.

const (
	maxBlock   = 1000 // records of a block
	smallBlock = 250  // blocks of a day below this are joined,
	joinBlocks = 32   // once there are so many
	loadBlocks = 500  // documents read at a time
	// maxWritten bounds the accounts whose additions are counted. Beyond it they count anew.
	maxWritten = 100_000
	// readAttempts is how often a read begins again because blocks were joined meanwhile.
	readAttempts = 5
)

// blockKind is a collection of blocks.
type blockKind struct {
	collection string
	position   string // key that orders the blocks of an account
}

// byPosition is the index of an account's blocks.
func (k blockKind) byPosition() views.Index {
	return views.Index{Name: byAccount, Keys: []string{"account", k.position}}
}

// byTime is the index of a stream's blocks.
func (k blockKind) byTime() views.Index {
	return views.Index{Name: byStream, Keys: []string{"stream", "time"}}
}

// declareByAccount declares blocks that are only read by account.
func (k blockKind) declareByAccount() views.Collection {
	return views.Collection{Name: k.collection, Indexes: []views.Index{k.byPosition()}}
}

func (k blockKind) declare() views.Collection {
	return views.Collection{Name: k.collection, Indexes: []views.Index{k.byPosition(), k.byTime()}}
}

// blockChanges are queued changes that become blocks.
type blockChanges struct {
	requests []requestItem
	reports  []Report
	entries  []entryItem
}

// until returns the queued items of messages up to a sequence.
func until[T any](queue []T, sequence uint64, of func(*T) uint64) []T {
	n := sort.Search(len(queue), func(i int) bool { return of(&queue[i]) > sequence })
	return queue[:n:n]
}

// changesUntil returns the queued changes by messages up to a sequence, without reports. mu is held.
func (p *Projection) changesUntil(sequence uint64) blockChanges {
	return blockChanges{requests: p.requests.until(sequence), entries: p.chains.until(sequence)}
}

// addBlocks adds blocks with changes to a batch, and returns the number of requests added per account. sequence is the checkpoint once
// the batch is committed.
func (p *Projection) addBlocks(b *views.Batch, sequence uint64, c blockChanges) (map[event.AccountID]int, error) {
	counts, err := p.addRequests(b, sequence, c.requests, c.reports)
	if err == nil {
		p.addEntries(b, sequence, c.entries, counts)
	}
	return counts, err
}

// changesTaken removes the first changes, which nobody may use any more. mu is held.
func (p *Projection) changesTaken(c blockChanges) {
	p.requests.taken(len(c.requests), len(c.reports))
	p.chains.queue = without(p.chains.queue, len(c.entries), requestChanges)
}

// newBlock returns a block without records. Their retention begins at the time.
func newBlock(stream string, id event.AccountID, sequence uint64, timeMillis int64) views.Doc {
	return views.Doc{
		ID: id.String() + "." + rand.Text()[:16], Seq: sequence,
		Keys: views.Keys{
			{Name: "account", Value: views.String(id.String())},
			{Name: "stream", Value: views.String(stream)},
			{Name: "time", Value: views.Int(timeMillis)},
		},
	}
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

// pack sets the encoded records of a block, and their number as its head.
func pack(doc *views.Doc, records int, data []byte) {
	doc.Head, doc.Body = binary.AppendUvarint(nil, num.Uint64(records)), zstdEncoder().EncodeAll(data, nil)
}

// unpack appends the encoded records of a block.
func unpack(doc views.Doc, to []byte) ([]byte, error) {
	data, err := zstdDecoder().DecodeAll(doc.Body, to)
	if err != nil {
		return nil, fmt.Errorf("block %s: %w", doc.ID, err)
	}
	return data, nil
}

// records is the number of records in a block.
func records(doc views.Doc) uint64 {
	n, _ := binary.Uvarint(doc.Head)
	return n
}

// blockHeads lists the blocks of an account from a position on, in the order of their sequences.
func (p *Projection) blockHeads(ctx context.Context, kind blockKind, id event.AccountID, from int64) ([]views.Doc, error) {
	query := views.Query{
		Equal: []views.Value{views.String(id.String())}, After: []views.Value{views.Int(from - 1)}, AfterID: "~",
	}
	var heads []views.Doc
	err := views.Each(ctx, p.store, kind.collection, kind.byPosition(), query, func(d views.Doc) error {
		heads = append(heads, d)
		return nil
	})
	slices.SortFunc(heads, kind.compare)
	return heads, err
}

// compare orders blocks by sequence, and the blocks of one commit by position. The first ones are deleted first.
func (k blockKind) compare(a, b views.Doc) int {
	return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Keys.Get(k.position).Int64(), b.Keys.Get(k.position).Int64()), strings.Compare(a.ID, b.ID))
}

// ofStream leaves out the blocks of other streams. By its stream's blocks an audit lists the accounts.
func (p *Projection) ofStream(heads []views.Doc) []views.Doc {
	return slices.DeleteFunc(heads, func(d views.Doc) bool { return d.Keys.Get("stream") != views.String(p.stream) })
}

func (p *Projection) loadBlocks(ctx context.Context, kind blockKind, heads []views.Doc) (blocks []views.Doc, err error) {
	for page := range slices.Chunk(heads, loadBlocks) {
		ids := make([]string, 0, len(page))
		for _, d := range page {
			ids = append(ids, d.ID)
		}
		docs, err := p.store.Load(ctx, kind.collection, ids, views.Full)
		if err != nil {
			return nil, fmt.Errorf("load %s: %w", kind.collection, err)
		}
		blocks = append(blocks, docs...)
	}
	slices.SortFunc(blocks, kind.compare)
	return blocks, nil
}

// accounts returns the accounts of a stream that have blocks.
func (p *Projection) accounts(ctx context.Context, kind blockKind) (map[string]bool, error) {
	accounts := map[string]bool{}
	query := views.Query{Equal: []views.Value{views.String(p.stream)}}
	err := views.Each(ctx, p.store, kind.collection, kind.byTime(), query, func(d views.Doc) error {
		account, _, _ := strings.Cut(d.ID, ".")
		accounts[account] = true
		return nil
	})
	return accounts, err
}

// lastSmall returns the small blocks at the end of a list that are of the same day, so that joining them keeps nothing for longer.
// There are none to join unless they are many.
func lastSmall(heads []views.Doc) []views.Doc {
	from := len(heads)
	for day := int64(-1); from > 0; from-- {
		of := heads[from-1].Keys.Get("time").Int64() / dayMillis
		if records(heads[from-1]) >= smallBlock || day >= 0 && of != day {
			break
		}
		day = of
	}
	if len(heads)-from < joinBlocks {
		return nil
	}
	return heads[from:]
}

// joinSmall joins small blocks at the end of a list into those that join returns.
func (p *Projection) joinSmall(ctx context.Context, kind blockKind, heads []views.Doc, join func(blocks []views.Doc) ([]views.Put, error)) error {
	heads = lastSmall(heads)
	blocks, err := p.loadBlocks(ctx, kind, heads)
	if err != nil || len(blocks) < len(heads) || len(blocks) == 0 { // another replica joins them
		return err
	}
	puts, err := join(blocks)
	if err != nil {
		return err
	}
	return p.replaceBlocks(ctx, kind, blocks, puts)
}

// replaceBlocks deletes blocks, and adds others in the same commit.
func (p *Projection) replaceBlocks(ctx context.Context, kind blockKind, docs []views.Doc, puts []views.Put) error {
	if len(docs) == 0 {
		return nil
	}
	b := views.Batch{Puts: puts}
	for _, d := range docs {
		b.Deletes = append(b.Deletes, views.Delete{Collection: kind.collection, ID: d.ID, Seq: d.Seq})
	}
	if err := p.store.Commit(ctx, b); err != nil {
		return fmt.Errorf("replace blocks of %s: %w", kind.collection, err)
	}
	return nil
}
