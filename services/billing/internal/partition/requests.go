package partition

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/services/billing/internal/projection"
)

// sweepRequestsEvery is the interval between deletions of requests past their retention or their number.
const sweepRequestsEvery = time.Minute

// requestCursor is a position in an account's list of requests: after the request with a time and an id. Its form is the time in
// eight bytes, and the id.
type requestCursor struct {
	millis int64
	id     event.RequestID
}

func parseRequestCursor(data []byte) (c requestCursor, err error) {
	if len(data) < 8 {
		return c, event.ErrBadID
	}
	c.millis = num.FromBits(binary.BigEndian.Uint64(data))
	c.id, err = event.RequestIDFrom(data[8:])
	if c.millis < 0 {
		err = event.ErrBadID
	}
	return c, err
}

func cursorAfter(r *event.RecentRequest) []byte {
	return append(binary.BigEndian.AppendUint64(nil, num.Bits(r.TimeMs)), r.RequestId...)
}

// rest returns the requests after the cursor. Without its request, which may have been deleted, they begin with the next millisecond.
func (c requestCursor) rest(list []*event.RecentRequest) []*event.RecentRequest {
	for i, r := range list {
		switch {
		case r.TimeMs == c.millis && string(r.RequestId) == string(c.id[:]):
			return list[i+1:]
		case r.TimeMs < c.millis:
			return list[i:]
		}
	}
	return nil
}

// recentRequests answers with a page of an account's requests.
func (p *Partition) recentRequests(ctx context.Context, id event.AccountID, q *event.RecentQuery, now int64) (*event.QueryAnswer, error) {
	cursor := requestCursor{millis: 1 << 62}
	if len(q.GetCursor()) > 0 {
		var err error
		if cursor, err = parseRequestCursor(q.Cursor); err != nil {
			return status(event.QueryStatus_QUERY_INVALID_CURSOR), nil
		}
	}
	if !p.exists(id) {
		return status(event.QueryStatus_QUERY_NOT_FOUND), nil
	}
	limit := int(q.GetLimit())
	if limit == 0 {
		limit = defaultPage
	}
	list, err := p.projection.AccountRequests(ctx, id, max(p.keptSince(now), q.GetFromMs()))
	if err != nil {
		return nil, err
	}
	page := &event.RecentAnswer{}
	for _, r := range cursor.rest(list) {
		if !matches(q, r) {
			continue
		}
		if len(page.Requests) == min(limit, maxLedgerPage) {
			page.NextCursor = cursorAfter(page.Requests[len(page.Requests)-1])
			break
		}
		r.Parts = 0
		page.Requests = append(page.Requests, r)
	}
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_Recent{Recent: page}
	return answer, nil
}

// addAddresses adds to each of the account's keys the source of its last admitted request in the log. Requests from before the key's
// creation don't count: the default key has the same number as its predecessors.
func (p *Partition) addAddresses(ctx context.Context, id event.AccountID, u *event.UsageAnswer, now int64) error {
	used := slices.DeleteFunc(slices.Clone(u.GetKeys()), func(k *event.ApiKey) bool { return k.LastUsedMs == 0 })
	if len(used) == 0 {
		return nil
	}
	list, err := p.projection.AccountRequests(ctx, id, p.keptSince(now))
	if err != nil {
		return err
	}
	for _, k := range used {
		last := slices.IndexFunc(list, func(r *event.RecentRequest) bool {
			return r.Key == k.Number && r.Decision == event.Decision_ADMITTED && r.SourceAddress != "" && r.TimeMs >= k.CreatedMs
		})
		if last >= 0 {
			k.LastAddress = list[last].SourceAddress
		}
	}
	return nil
}

// keptSince is the time of the oldest request that is shown, in Unix milliseconds.
func (p *Partition) keptSince(now int64) int64 {
	return max(now-p.cfg.RequestRetention.Milliseconds()+1, 0)
}

// matchesDecision treats quota_held as one filter for everything that calls in flight may undo, whichever rule refused it.
func matchesDecision(q *event.RecentQuery, r *event.RecentRequest) bool {
	held := r.Held && r.Decision != event.Decision_ANONYMOUS_LIMIT
	if q.Held || held {
		return q.Decision == 0 || q.Held == held
	}
	return q.Decision == 0 || q.Decision == r.Decision
}

// matches reports whether a request passes the filters of a query.
func matches(q *event.RecentQuery, r *event.RecentRequest) bool {
	switch {
	case q.QuotaKey != 0 && q.QuotaKey != r.QuotaKey,
		q.Key != nil && *q.Key != r.Key,
		!matchesDecision(q, r),
		len(q.RequestId) > 0 && string(q.RequestId) != string(r.RequestId),
		q.ClientRequestId != "" && q.ClientRequestId != r.ClientRequestId,
		r.HttpStatus < q.StatusFrom,
		q.StatusTo != 0 && r.HttpStatus > q.StatusTo,
		r.TimeMs < q.FromMs,
		q.ToMs != 0 && r.TimeMs >= q.ToMs:
		return false
	}
	return true
}

// takeReports takes the reports of edges about finished requests until stop is called. One replica of the partition gets each.
func (p *Partition) takeReports() (stop func(), err error) {
	s, err := p.deps.NC.QueueSubscribe(event.ReportSubject(p.cfg.Partition), queryQueue, func(m *nats.Msg) { p.takeReport(m.Data) })
	if err != nil {
		return nil, fmt.Errorf("take reports of %s: %w", p.stream, err)
	}
	return func() { _ = s.Unsubscribe() }, nil // fails only on a closed connection
}

func (p *Partition) takeReport(data []byte) {
	message := &event.RequestReport{}
	err := event.Decode(data, message)
	var reports []projection.Report
	if err == nil {
		reports, err = reportsOf(message)
	}
	if err != nil {
		p.log.Warn("a report of requests can't be read", "cause", err)
		return
	}
	p.mu.Lock()
	reports = slices.DeleteFunc(reports, func(r projection.Report) bool { return !p.fold.Exists(r.Account) })
	p.mu.Unlock()
	p.deps.Metrics.reportsDropped.Add(float64(p.projection.Report(reports)))
}

var errReport = errors.New("its columns do not fit")

func reportsOf(m *event.RequestReport) ([]projection.Report, error) {
	n := len(m.Accounts)
	for _, column := range []int{
		len(m.RequestIds) / len(event.RequestID{}), len(m.TimesMs), len(m.DurationsMs), len(m.Statuses), len(m.QuotaKeys), len(m.Keys),
		len(m.Methods), len(m.Sources), len(m.Errors), len(m.PathEnds),
	} {
		if column != n {
			return nil, errReport
		}
	}
	if len(m.Clients) != 0 && len(m.Clients) != n {
		return nil, errReport
	}
	reports := make([]projection.Report, n)
	end := 0
	for i := range reports {
		begin := end
		end = int(m.PathEnds[i])
		if end < begin || end > len(m.Paths) || int(max(m.Methods[i], m.Sources[i], m.Errors[i])) >= len(m.Words) {
			return nil, errReport
		}
		reports[i] = projection.Report{
			Account: event.AccountID(m.Accounts[i]), Request: event.RequestID(m.RequestIds[i*len(event.RequestID{}):]),
			TimeMillis: m.TimesMs[i], DurationMillis: m.DurationsMs[i], Status: m.Statuses[i], QuotaKey: m.QuotaKeys[i], Key: m.Keys[i],
			Method: m.Words[m.Methods[i]], Source: m.Words[m.Sources[i]], Error: m.Words[m.Errors[i]], Path: m.Paths[begin:end],
		}
	}
	for i, client := range m.Clients {
		if int(client) >= len(m.Words) {
			return nil, errReport
		}
		reports[i].Client = m.Words[client]
	}
	for _, t := range m.Timings {
		if int(t.Index) >= n {
			return nil, errReport
		}
		reports[t.Index].Timing = t
		t.Index = 0
	}
	return reports, nil
}

// sweepRequests deletes old requests until ctx ends.
func (p *Partition) sweepRequests(ctx context.Context) {
	p.sweep(ctx, sweepRequestsEvery, "old requests could not be deleted yet", func() error {
		return p.projection.Sweep(ctx, p.now(), p.cfg.RequestRetention, p.exists)
	})
}
