package bus

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
)

const (
	// reportEvery is the interval of reports, unless reportAt requests of a partition finish sooner.
	reportEvery = 250 * time.Millisecond
	// reportAt is below reportItems, so that a report that leaves at once is one message.
	reportAt = 500
	// maxReports bounds the requests that wait for the next report of a partition. Further ones are not reported.
	maxReports = 16_384
	// reportItems is the number of requests in a message, so that it stays below the server's bound.
	reportItems = 1000
	// maxReportedPath is the length of a longer path's reported beginning, in bytes.
	maxReportedPath = 256
	// slowReported is the time from which on the parts of a request's time are reported.
	slowReported = 20 * time.Millisecond
)

// Report is what this edge knows of a finished request.
type Report struct {
	Request  event.RequestID
	Account  event.AccountID
	Key      uint32 // number of the API key
	QuotaKey plan.QuotaKey
	Started  time.Time
	Took     time.Duration // until the answer began
	Status   int           // of HTTP
	Method   string
	Path     []byte // without the query; copied
	Source   netip.Addr
	Error    string // code; empty: none
	Client   []byte // the client's own id of the request; copied
	Timing   Timing
	Body     time.Duration // waiting for the client to send the body
}

// reports are a partition's requests until the next report.
type reports struct {
	mu   sync.Mutex
	list []Report
	// paths holds the bytes of each Report.Path and Client in the list. After it grew, earlier reports still refer to the previous
	// array.
	paths []byte
	spare reportBuffers // owned by sendReports
}

type reportBuffers struct {
	list  []Report
	paths []byte
}

// Report passes a request on to billing within a moment. It does not wait, and delivery is not guaranteed.
func (b *Bus) Report(r Report) {
	to := &b.reports[event.AccountPartition(r.Account, b.cfg.Partitions)]
	to.mu.Lock()
	defer to.mu.Unlock()
	if len(to.list) >= maxReports {
		b.metrics.unreported.Inc()
		return
	}
	begin := len(to.paths)
	to.paths = append(to.paths, r.Path[:min(len(r.Path), maxReportedPath)]...)
	r.Path = to.paths[begin:]
	begin = len(to.paths)
	to.paths = append(to.paths, r.Client...)
	r.Client = to.paths[begin:]
	to.list = append(to.list, r)
	if len(to.list)%reportAt == 0 {
		select {
		case b.reportDue <- struct{}{}:
		default: // already signalled
		}
	}
}

// sendReports sends reports until ctx ends, and then the last ones.
func (b *Bus) sendReports(ctx context.Context) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	send := func(least int) {
		for p := range b.reports {
			b.sendReport(p, least)
		}
	}
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			send(1)
		case <-b.reportDue:
			send(reportAt)
		case <-ctx.Done():
		}
	}
	send(1)
}

// sendReport sends the requests of a partition that wait, if there are at least as many as least says.
func (b *Bus) sendReport(partition, least int) {
	from := &b.reports[partition]
	from.mu.Lock()
	if len(from.list) < least {
		from.mu.Unlock()
		return
	}
	list, paths := from.list, from.paths
	from.list, from.paths = from.spare.list[:0], from.spare.paths[:0]
	from.mu.Unlock()
	for begin := 0; begin < len(list); begin += reportItems {
		part := list[begin:min(begin+reportItems, len(list))]
		data, err := event.Encode(b.encodeReport(part))
		if err == nil {
			err = b.nc.Publish(event.ReportSubject(partition), data)
		}
		if err != nil {
			b.metrics.unreported.Add(float64(len(part)))
			b.cfg.Logger.Debug("requests were not reported", "cause", err)
		}
	}
	clear(list)
	from.spare = reportBuffers{list, paths}
}

func (b *Bus) encodeReport(list []Report) *event.RequestReport {
	m := &event.RequestReport{Words: []string{""}}
	words, sources := map[string]uint32{"": 0}, map[netip.Addr]uint32{}
	word := func(text string) uint32 {
		n, known := words[text]
		if !known {
			n = num.Uint32(len(m.Words))
			words[text], m.Words = n, append(m.Words, text)
		}
		return n
	}
	var paths []byte
	named := slices.ContainsFunc(list, func(r Report) bool { return len(r.Client) > 0 })
	for i := range list {
		r := &list[i]
		if named {
			m.Clients = append(m.Clients, word(string(r.Client)))
		}
		if r.Took >= slowReported {
			m.Timings = append(m.Timings, r.timing(i))
		}
		source, known := sources[r.Source]
		if !known && r.Source.IsValid() {
			source = word(r.Source.String())
			sources[r.Source] = source
		}
		paths = append(paths, r.Path...)
		m.Accounts = append(m.Accounts, uint64(r.Account))
		m.RequestIds = append(m.RequestIds, r.Request[:]...)
		m.TimesMs = append(m.TimesMs, r.Started.Add(b.cfg.Offset).UnixMilli())
		m.DurationsMs = append(m.DurationsMs, num.Uint32(r.Took.Milliseconds()))
		m.Statuses = append(m.Statuses, num.Uint32(r.Status))
		m.QuotaKeys = append(m.QuotaKeys, uint32(r.QuotaKey))
		m.Keys = append(m.Keys, r.Key)
		m.Methods = append(m.Methods, word(r.Method))
		m.Sources = append(m.Sources, source)
		m.Errors = append(m.Errors, word(r.Error))
		m.PathEnds = append(m.PathEnds, num.Uint32(len(paths)))
	}
	for i, c := range paths {
		if c < ' ' || c > '~' { // a client may send any byte
			paths[i] = '?'
		}
	}
	m.Paths = string(paths)
	return m
}

func (r *Report) timing(index int) *event.RequestTiming {
	ms := func(d time.Duration) uint32 { return num.Uint32(d.Milliseconds()) }
	admit, write := &r.Timing.Admit, &r.Timing.Write
	return &event.RequestTiming{
		Index: num.Uint32(index), BodyMs: ms(r.Body),
		AdmitQueueMs: ms(admit.Queue), AdmitSyncMs: ms(admit.Sync), AdmitFoldMs: ms(admit.Fold),
		WriteQueueMs: ms(write.Queue), WriteSyncMs: ms(write.Sync), WriteFoldMs: ms(write.Fold), ReadMs: ms(r.Timing.Read), BlobMs: ms(r.Timing.Blob),
	}
}
