package projection

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
	"quire.dev/services/billing/internal/account"
)

// The requests of accounts, in blocks. Each commit adds one block per account, with what has become known of its requests: their
// decisions, their ends, and the reports of edges. A request whose end is committed later than its decision is in two blocks, so
// readers join the blocks of an account by request id, in the order of their sequences. A block with a sequence has, with the blocks
// before it, all changes of the account by the messages up to that sequence. The background joins small blocks, and deletes whole
// ones: past the retention, and beyond the number kept per account.

const (
	// RequestsKept is how many requests are shown per account. More are stored, up to a block and requestSlack.
	RequestsKept = 10_000
	requestSlack = RequestsKept / 10

	// maxRequests bounds the queued changes, about 20 MB of them. From requestChanges on they are written.
	maxRequests    = 200_000
	requestChanges = 50_000
	// maxReports bounds the queued reports, about 50 MB of them. Further ones are dropped. From requestReports on they are written.
	maxReports     = 100_000
	requestReports = 25_000

	maxBlock   = 1000 // requests of a block
	smallBlock = 250  // blocks of a day below this are joined,
	joinBlocks = 32   // once there are so many
	loadBlocks = 500  // documents read at a time
	// maxWritten bounds the accounts whose additions are counted. Beyond it they count anew.
	maxWritten = 100_000
	// readAttempts is how often a read begins again because blocks were joined meanwhile.
	readAttempts = 5
)

// Groups of fields of a RecentRequest, in its parts.
const (
	partDecided = 1 << iota
	partSettled
	partPaid
	partReported
)

var requestIndex = views.Index{Name: byAccount, Keys: []string{"account", "time"}}

// requestItem is a change of a request by the message with a sequence.
type requestItem struct {
	sequence uint64
	account.RequestChange
}

// Report is what an edge knows of a request.
type Report struct {
	Account        event.AccountID
	Request        event.RequestID
	TimeMillis     int64  // of its beginning
	DurationMillis uint32 // until the answer began
	Status         uint32 // of HTTP
	QuotaKey       uint32
	Key            uint32 // number of the API key
	Method, Path   string
	Source         string // address
	Error          string // code; empty: none
}

// requestLog is the part of a Projection that has the requests. Its mutex is the projection's.
type requestLog struct {
	from    int64 // earlier requests are not stored, in Unix milliseconds
	queue   []requestItem
	reports []Report
	written map[event.AccountID]added // since the last trim
	due     map[event.AccountID]bool
}

// added counts additions to an account.
type added struct{ requests, blocks int }

func newRequestLog() requestLog {
	return requestLog{written: map[event.AccountID]added{}, due: map[event.AccountID]bool{}}
}

// push queues the changes of a message.
func (l *requestLog) push(sequence uint64, changes []account.RequestChange) {
	for i := range changes {
		if changes[i].TimeMillis >= l.from {
			l.queue = append(l.queue, requestItem{sequence, changes[i]})
		}
	}
}

// until returns the queued changes of messages up to a sequence.
func (l *requestLog) until(sequence uint64) []requestItem {
	n, _ := slices.BinarySearchFunc(l.queue, sequence+1, func(i requestItem, s uint64) int { return cmp.Compare(i.sequence, s) })
	return l.queue[:n:n]
}

// taken removes the first changes and reports.
func (l *requestLog) taken(changes, reports int) {
	if l.queue = l.queue[changes:]; len(l.queue) == 0 {
		l.queue = nil
	}
	clear(l.reports[:reports])
	if l.reports = l.reports[reports:]; len(l.reports) == 0 {
		l.reports = nil
	}
}

// crowded reports whether the queue fills a batch.
func (l *requestLog) crowded() bool {
	return len(l.queue) >= requestChanges || len(l.reports) >= requestReports
}

func (l *requestLog) empty() bool { return len(l.queue) == 0 && len(l.reports) == 0 }

// count adds a block of an account to what is known of it. The first one makes it due: blocks of an earlier process are not counted.
func (l *requestLog) count(id event.AccountID, requests int) {
	if len(l.written) > maxWritten {
		clear(l.written)
	}
	a, known := l.written[id]
	a.requests, a.blocks = a.requests+requests, a.blocks+1
	l.written[id] = a
	if !known || a.requests >= requestSlack || a.blocks >= joinBlocks/2 {
		l.due[id] = true
	}
}

// SkipRequests makes Push leave out requests decided before a time, in Unix milliseconds. Call it before Push.
func (p *Projection) SkipRequests(before int64) { p.requests.from = before }

// Report queues reports, and returns how many of them the full queue did not take.
func (p *Projection) Report(reports []Report) (dropped int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	crowded := p.crowded()
	room := min(maxReports-len(p.requests.reports), len(reports))
	p.requests.reports = append(p.requests.reports, reports[:room]...)
	if !crowded && p.crowded() {
		p.changes.Notify()
	}
	return len(reports) - room
}

// joined are requests of one account.
type joined struct {
	byID map[event.RequestID]*event.RecentRequest
	list []*event.RecentRequest // in the order in which they became known
	seq  uint64                 // all changes of messages up to it are included
	slab []idAndRequest
}

type idAndRequest struct {
	request event.RecentRequest
	id      event.RequestID
}

func newJoined() *joined { return &joined{byID: map[event.RequestID]*event.RecentRequest{}} }

func (j *joined) of(id event.RequestID) *event.RecentRequest {
	r := j.byID[id]
	if r == nil {
		if len(j.slab) == 0 {
			j.slab = make([]idAndRequest, min(len(j.list)+1, 256))
		}
		at := &j.slab[0]
		j.slab = j.slab[1:]
		at.id = id
		r = &at.request
		r.RequestId = at.id[:]
		j.insert(id, r)
	}
	return r
}

func (j *joined) insert(id event.RequestID, r *event.RecentRequest) {
	j.byID[id] = r
	j.list = append(j.list, r)
}

// apply adds a change by a message.
func (j *joined) apply(c *account.RequestChange) {
	r := j.of(c.Request)
	if c.Decided {
		r.QuotaKey, r.Key, r.Decision, r.Held, r.Remaining = uint32(c.QuotaKey), c.Key, event.Decision(c.Decision), c.Held, c.Remaining
		r.TimeMs = c.TimeMillis
		r.Parts |= partDecided
	} else if r.Parts&(partDecided|partReported) == 0 {
		r.TimeMs = c.TimeMillis
	}
	if c.Settled {
		r.Status = c.Status
		r.Parts |= partSettled
	}
	if c.Paid {
		r.Charge, r.CostMicros = event.ChargeSource(c.Charge), c.CostMicros
		r.Parts |= partPaid
	}
}

// report adds the report of an edge.
func (j *joined) report(from *Report) {
	r := j.of(from.Request)
	if r.Parts&partDecided == 0 {
		r.TimeMs, r.QuotaKey, r.Key = from.TimeMillis, from.QuotaKey, from.Key
	}
	r.Method, r.Path, r.HttpStatus, r.DurationMs = from.Method, from.Path, from.Status, from.DurationMillis
	r.SourceAddress, r.Error = from.Source, from.Error
	r.Parts |= partReported
}

// add adds an entry of a later block.
func (j *joined) add(from *event.RecentRequest) {
	id, err := event.RequestIDFrom(from.RequestId)
	if err != nil {
		return
	}
	r := j.byID[id]
	if r == nil {
		j.insert(id, from)
		return
	}
	switch {
	case from.Parts&partDecided != 0:
		r.QuotaKey, r.Key, r.Decision, r.Held, r.Remaining, r.TimeMs = from.QuotaKey, from.Key, from.Decision, from.Held, from.Remaining, from.TimeMs
	case r.Parts&partDecided == 0 && from.Parts&partReported != 0:
		r.QuotaKey, r.Key, r.TimeMs = from.QuotaKey, from.Key, from.TimeMs
	}
	if from.Parts&partSettled != 0 {
		r.Status = from.Status
	}
	if from.Parts&partPaid != 0 {
		r.Charge, r.CostMicros = from.Charge, from.CostMicros
	}
	if from.Parts&partReported != 0 {
		r.Method, r.Path, r.HttpStatus, r.DurationMs = from.Method, from.Path, from.HttpStatus, from.DurationMs
		r.SourceAddress, r.Error = from.SourceAddress, from.Error
	}
	r.Parts |= from.Parts
}

// sorted returns the requests by time, and those of the same millisecond in the order of decisions.
func (j *joined) sorted() []*event.RecentRequest {
	slices.SortStableFunc(j.list, func(a, b *event.RecentRequest) int { return cmp.Compare(a.TimeMs, b.TimeMs) })
	return j.list
}

// surplus has how many requests of each account are more than are kept. The last account is remembered, since one account often has
// many requests in a row.
type surplus struct {
	byAccount map[event.AccountID]*int
	last      event.AccountID
	left      *int
}

func newSurplus() surplus { return surplus{byAccount: map[event.AccountID]*int{}} }

func (s *surplus) of(id event.AccountID) *int {
	if s.left == nil || s.last != id {
		s.last, s.left = id, s.byAccount[id]
		if s.left == nil {
			s.left = new(-RequestsKept)
			s.byAccount[id] = s.left
		}
	}
	return s.left
}

func (s *surplus) count(id event.AccountID) { *s.of(id)++ }

// skips reports whether a change belongs to the first requests of an account, of which too many were counted. another is false for a
// change of a request that had its turn.
func (s *surplus) skips(id event.AccountID, another bool) bool {
	left := s.of(id)
	if *left <= 0 {
		return false
	}
	if another {
		*left--
	}
	return true
}

// addRequests adds blocks with changes and reports to a batch, and returns the number of requests added per account. sequence is the
// checkpoint once the batch is committed.
func (p *Projection) addRequests(b *views.Batch, sequence uint64, items []requestItem, reports []Report) (map[event.AccountID]int, error) {
	byAccount := map[event.AccountID]*joined{}
	of := func(id event.AccountID) *joined {
		j := byAccount[id]
		if j == nil {
			j = newJoined()
			byAccount[id] = j
		}
		return j
	}
	// Of an account with more requests than are kept, the first ones would be deleted again.
	surplus, first := newSurplus(), map[event.AccountID]bool{}
	for i := range items {
		if items[i].Decided {
			surplus.count(items[i].Account)
		}
	}
	for i := range items {
		if surplus.skips(items[i].Account, items[i].Decided) {
			first[items[i].Account] = true
			continue
		}
		of(items[i].Account).apply(&items[i].RequestChange)
	}
	surplus = newSurplus()
	for i := range reports {
		surplus.count(reports[i].Account)
	}
	for i := range reports {
		if surplus.skips(reports[i].Account, true) {
			continue
		}
		of(reports[i].Account).report(&reports[i])
	}
	counts := make(map[event.AccountID]int, len(byAccount))
	for id, j := range byAccount { // the order has no effect
		puts, err := p.blocks(id, sequence, j.sorted(), first[id])
		if err != nil {
			return nil, err
		}
		b.Puts = append(b.Puts, puts...)
		counts[id] = len(j.byID)
	}
	return counts, nil
}

// blocks returns the documents of an account's requests. The blocks before the first one are marked as beyond the number kept with
// first.
func (p *Projection) blocks(id event.AccountID, sequence uint64, list []*event.RecentRequest, first bool) (puts []views.Put, err error) {
	for part := range slices.Chunk(list, maxBlock) {
		last := int64(0)
		for _, r := range part {
			last = max(last, r.TimeMs)
		}
		doc, err := block(p.stream, id, sequence, last, part)
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

// block returns the document with some of an account's requests. last is the time of the latest one.
func block(stream string, id event.AccountID, sequence uint64, last int64, requests []*event.RecentRequest) (views.Doc, error) {
	body, err := event.Encode(&event.RecentAnswer{Requests: requests})
	if err != nil {
		return views.Doc{}, err
	}
	return views.Doc{
		ID: id.String() + "." + rand.Text()[:16], Seq: sequence, Head: binary.AppendUvarint(nil, uint64(len(requests))),
		Body: zstdEncoder().EncodeAll(body, nil),
		Keys: views.Keys{
			{Name: "account", Value: views.String(id.String())},
			{Name: "stream", Value: views.String(stream)},
			{Name: "time", Value: views.Int(last)},
		},
	}, nil
}

var (
	zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(128<<10),
			zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
		if err != nil {
			panic(err) // the options are constant
		}
		return e
	})
	zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
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

// EncodeBlock replaces the entries of a block.
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
	err := each(ctx, p.store, Requests, query, requestIndex, func(d views.Doc) error {
		heads = append(heads, d)
		return nil
	})
	slices.SortFunc(heads, compareBlocks)
	return heads, err
}

// compareBlocks orders blocks by their sequences, and those of one commit by time, so that the oldest are deleted first.
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

// AccountRequests returns the last requests of an account since a time, the newest first: those stored, and those pushed and reported
// that are not stored yet.
func (p *Projection) AccountRequests(ctx context.Context, id event.AccountID, since int64) ([]*event.RecentRequest, error) {
	// The queue first: what is committed meanwhile is in the blocks too, and its sequence says so.
	p.mu.Lock()
	var items []requestItem
	var reports []Report
	for i := range p.requests.queue {
		if p.requests.queue[i].Account == id {
			items = append(items, p.requests.queue[i])
		}
	}
	for i := range p.requests.reports {
		if p.requests.reports[i].Account == id {
			reports = append(reports, p.requests.reports[i])
		}
	}
	p.mu.Unlock()
	blocks, err := p.Blocks(ctx, id, since)
	if err != nil {
		return nil, err
	}
	j, err := join(blocks)
	if err != nil {
		return nil, err
	}
	for i := range items {
		if items[i].sequence > j.seq {
			j.apply(&items[i].RequestChange)
		}
	}
	for i := range reports {
		j.report(&reports[i])
	}
	list := j.sorted()
	slices.Reverse(list)
	list = slices.DeleteFunc(list, func(r *event.RecentRequest) bool {
		return r.TimeMs < since || r.Parts&(partDecided|partReported) == 0 // the rest of a request was deleted
	})
	return list[:min(len(list), RequestsKept)], nil
}

// Decided reports whether billing decided on a request. Otherwise only an edge knows it.
func Decided(r *event.RecentRequest) bool { return r.Parts&partDecided != 0 }

// JoinBlocks joins blocks for an audit. seq is the sequence up to which they have all changes of their account.
func JoinBlocks(blocks []views.Doc) (requests map[event.RequestID]*event.RecentRequest, seq uint64, err error) {
	j, err := join(blocks)
	if err != nil {
		return nil, 0, err
	}
	return j.byID, j.seq, nil
}

// RequestAccounts returns the accounts of a stream that have blocks.
func (p *Projection) RequestAccounts(ctx context.Context) (map[string]bool, error) {
	accounts := map[string]bool{}
	query := views.Query{Index: byStream, Equal: []views.Value{views.String(p.stream)}}
	err := each(ctx, p.store, Requests, query, views.Index{Name: byStream, Keys: []string{"stream", "time"}}, func(d views.Doc) error {
		account, _, _ := strings.Cut(d.ID, ".")
		accounts[account] = true
		return nil
	})
	return accounts, err
}

// SweepRequests deletes the blocks of the stream past their retention, and those of accounts that no longer exist. Of accounts with
// new requests it deletes the blocks beyond the number kept, and joins small ones.
func (p *Projection) SweepRequests(ctx context.Context, now time.Time, retention time.Duration, exists func(event.AccountID) bool) error {
	oldest := now.Add(-retention).UnixMilli()
	query := views.Query{Index: byStream, Equal: []views.Value{views.String(p.stream)}, Limit: sweepPage}
	for {
		docs, err := p.store.List(ctx, Requests, query)
		if err != nil {
			return fmt.Errorf("list requests: %w", err)
		}
		n := slices.IndexFunc(docs, func(d views.Doc) bool { return d.Keys.Get("time").Int64() >= oldest })
		if n < 0 {
			n = len(docs)
		}
		if err := p.replaceBlocks(ctx, docs[:n], nil); err != nil {
			return err
		}
		if n < len(docs) || len(docs) < sweepPage {
			break
		}
	}
	p.mu.Lock()
	due := p.requests.due
	p.requests.due = map[event.AccountID]bool{}
	for id := range due {
		p.requests.written[id] = added{}
	}
	var ended []event.AccountID
	for id := range p.requests.written {
		ended = append(ended, id)
	}
	p.mu.Unlock()
	var errs []error
	for id := range due { // the order has no effect
		if err := p.trimRequests(ctx, id); err != nil {
			errs = append(errs, err)
			p.mu.Lock()
			p.requests.due[id] = true
			p.mu.Unlock()
		}
	}
	for _, id := range slices.DeleteFunc(ended, exists) {
		errs = append(errs, p.EraseRequests(ctx, id)) // a report came late
	}
	return errors.Join(errs...)
}

// trimRequests deletes the blocks of an account beyond the number of requests kept, and joins small ones.
func (p *Projection) trimRequests(ctx context.Context, id event.AccountID) error {
	heads, err := p.blockHeads(ctx, id, 0)
	if err != nil {
		return err
	}
	kept, from := uint64(0), len(heads)
	for from > 0 && kept < RequestsKept {
		from--
		n, _ := binary.Uvarint(heads[from].Head)
		kept += n
	}
	if err := p.replaceBlocks(ctx, heads[:from], nil); err != nil {
		return err
	}
	if heads = lastSmall(heads[from:]); len(heads) < joinBlocks {
		return nil
	}
	blocks, err := p.loadBlocks(ctx, heads)
	if err != nil || len(blocks) < len(heads) { // another replica joins them
		return err
	}
	j, err := join(blocks)
	if err != nil {
		return err
	}
	puts, err := p.blocks(id, j.seq, j.sorted(), false)
	if err != nil {
		return err
	}
	return p.replaceBlocks(ctx, blocks, puts)
}

// lastSmall returns the small blocks at the end of a list that are of the same day, so that joining them keeps nothing for longer.
func lastSmall(heads []views.Doc) []views.Doc {
	from := len(heads)
	for day := int64(-1); from > 0; from-- {
		n, _ := binary.Uvarint(heads[from-1].Head)
		of := heads[from-1].Keys.Get("time").Int64() / dayMillis
		if n >= smallBlock || day >= 0 && of != day {
			break
		}
		day = of
	}
	return heads[from:]
}

// replaceBlocks deletes blocks, and adds others in the same commit.
func (p *Projection) replaceBlocks(ctx context.Context, docs []views.Doc, puts []views.Put) error {
	if len(docs) == 0 {
		return nil
	}
	b := views.Batch{Puts: puts}
	for _, d := range docs {
		b.Deletes = append(b.Deletes, views.Delete{Collection: Requests, ID: d.ID, Seq: d.Seq})
	}
	if err := p.store.Commit(ctx, b); err != nil {
		return fmt.Errorf("replace blocks of requests: %w", err)
	}
	return nil
}

// EraseRequests deletes all requests and reports of an account.
func (p *Projection) EraseRequests(ctx context.Context, id event.AccountID) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.mu.Lock()
	p.requests.reports = slices.DeleteFunc(p.requests.reports, func(r Report) bool { return r.Account == id })
	delete(p.requests.written, id)
	delete(p.requests.due, id)
	p.mu.Unlock()
	heads, err := p.blockHeads(ctx, id, 0)
	if err != nil {
		return err
	}
	return p.replaceBlocks(ctx, heads, nil)
}
