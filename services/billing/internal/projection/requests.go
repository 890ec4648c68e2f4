package projection

import (
	"cmp"
	"context"
	"slices"

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
)

// Groups of fields of a RecentRequest, in its parts.
const (
	partDecided = 1 << iota
	partSettled
	partPaid
	partReported
)

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
	Source         string               // address
	Error          string               // code; empty: none
	Client         string               // the client's own id of the request; empty: none
	Timing         *event.RequestTiming // nil unless it took long
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
	return until(l.queue, sequence, func(i *requestItem) uint64 { return i.sequence })
}

// taken removes the first changes and reports. Nobody may use them any more.
func (l *requestLog) taken(changes, reports int) {
	l.queue, l.reports = without(l.queue, changes, requestChanges), without(l.reports, reports, requestReports)
}

// without removes the first n of a queue. It keeps the array for what comes, unless more than usual fits in.
func without[T any](queue []T, n, usual int) []T {
	left := copy(queue, queue[n:])
	clear(queue[left:])
	if left == 0 && cap(queue) > 2*usual {
		return nil
	}
	return queue[:left]
}

// crowded reports whether the queue fills a batch.
func (l *requestLog) crowded() bool {
	return len(l.queue) >= requestChanges || len(l.reports) >= requestReports
}

func (l *requestLog) empty() bool { return len(l.queue) == 0 && len(l.reports) == 0 }

// count adds a block to an account's counts. The account is due at its first block, since blocks of an earlier process are not counted.
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

// Skip makes Push leave out requests decided before a time, and entries from before another, in Unix milliseconds. Call it before Push.
func (p *Projection) Skip(requests, entries int64) {
	p.requests.from, p.chains.from = requests, entries
}

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
	r.SourceAddress, r.Error, r.ClientRequestId, r.Timing = from.Source, from.Error, from.Client, from.Timing
	r.Parts |= partReported
}

// addBlock adds the requests of a later block.
func (j *joined) addBlock(seq uint64, requests []*event.RecentRequest) {
	for _, r := range requests {
		j.add(r)
	}
	j.seq = max(j.seq, seq)
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
		r.SourceAddress, r.Error, r.ClientRequestId, r.Timing = from.SourceAddress, from.Error, from.ClientRequestId, from.Timing
	}
	r.Parts |= from.Parts
}

// sorted returns the requests by time. Requests of one millisecond stay in the order of their decisions.
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
