package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/wait"
)

const (
	// watchEvery is the interval of looks at the journals, and watchWait the time for the answers to one.
	watchEvery = time.Second
	watchWait  = 500 * time.Millisecond
	// silentAfter is how long the server may be silent before the journals count as closed. A client abandons a silent
	// server after 4 s, and the next one answers.
	silentAfter = 5 * time.Second
	// openAfter is the number of looks in a row that open a closed journal again.
	openAfter = 2
)

var (
	errClosed = errors.New("the journal takes no writes")
	errSilent = errors.New("no NATS server answers")
)

// stalled is the reason that an instance reports.
type stalled struct {
	stream string
	by     string
}

func (s stalled) Error() string {
	return fmt.Sprintf("%s takes no writes, says instance %s", s.stream, s.by)
}

// journalWatch is what the bus knows of whether one journal takes writes.
type journalWatch struct {
	domain    event.Domain
	partition int
	closed    atomic.Bool // new items are refused
	stored    atomic.Bool // a batch was stored since the last look

	// Owned by watchJournals.
	state journal.Hysteresis
}

func (b *Bus) watch(domain event.Domain, partition int) *journalWatch {
	j := &journalWatch{domain: domain, partition: partition, state: journal.Hysteresis{Up: openAfter}}
	b.journals = append(b.journals, j)
	return j
}

// journalReport is what the instances of a service say of their journals.
type journalReport struct {
	writes  []bool  // by partition: an instance that serves it has no trouble
	stalled []error // by partition: an instance has
}

// watchJournals closes journals that take no writes, until ctx ends: new requests to them are refused at once, instead of
// waiting for a batch that will fail. Settlements still wait. The instances that fold the journals watch them; each edge asks.
// Without an answer about a partition its journal stays as it is.
func (b *Bus) watchJournals(ctx context.Context) {
	var silence silence
	for wait.For(ctx, watchEvery) {
		silent := silence.observe(b.serverAnswers(ctx), time.Now())
		var reports map[event.Domain]journalReport
		if silent == nil {
			reports = b.askInstances(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		for _, j := range b.journals {
			if known, failure := j.judge(silent, reports[j.domain]); known {
				b.set(j, failure)
			}
		}
		b.setUnready()
	}
}

// silence turns a silence of the server into an error once it has lasted.
type silence struct{ since time.Time }

func (s *silence) observe(answers bool, now time.Time) error {
	switch {
	case answers:
		s.since = time.Time{}
	case s.since.IsZero():
		s.since = now
	case now.Sub(s.since) >= silentAfter:
		return errSilent
	}
	return nil
}

// serverAnswers asks the server that the bus is connected to.
func (b *Bus) serverAnswers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, watchWait)
	defer cancel()
	return b.nc.Status() == nats.CONNECTED && b.nc.FlushWithContext(ctx) == nil
}

// judge returns the newest observation of the journal, if there is one.
func (j *journalWatch) judge(silent error, r journalReport) (known bool, failure error) {
	stored := j.stored.Swap(false)
	switch {
	case silent != nil:
		return true, silent
	case stored || len(r.writes) > 0 && r.writes[j.partition]:
		return true, nil
	case len(r.stalled) > 0 && r.stalled[j.partition] != nil:
		return true, r.stalled[j.partition]
	}
	return false, nil
}

func (b *Bus) set(j *journalWatch, failure error) {
	if !j.state.Observe(failure) {
		return
	}
	failing := j.state.Failing()
	j.closed.Store(failing != nil)
	stream := j.domain.Stream(j.partition)
	if failing != nil {
		b.metrics.closed[j.domain].Inc()
		b.cfg.Logger.Error("requests that need the journal are refused", "stream", stream, "cause", failing)
	} else {
		b.metrics.closed[j.domain].Dec()
		b.cfg.Logger.Info("the journal takes writes again", "stream", stream)
	}
}

// setUnready has the edge count as unready while no journal of billing takes writes: it can carry out nothing that is metered. While
// one of them does, the edge has to stay: to take away every edge would turn the outage of a part into one of the whole.
func (b *Bus) setUnready() {
	var reasons []error
	for _, j := range b.journals {
		if j.domain != event.Billing {
			continue
		}
		failing := j.state.Failing()
		if failing == nil {
			b.unready.Store(nil)
			return
		}
		if !slices.ContainsFunc(reasons, func(r error) bool { return errors.Is(failing, r) }) {
			reasons = append(reasons, failing)
		}
	}
	reason := fmt.Errorf("no journal of billing takes writes: %w", errors.Join(reasons...))
	b.unready.Store(&reason)
}

// Unready is the reason for operators why no metered request can be carried out, or nil.
func (b *Bus) Unready() error {
	if reason := b.unready.Load(); reason != nil {
		return *reason
	}
	return nil
}

// askInstances asks all instances of all services about their journals.
func (b *Bus) askInstances(ctx context.Context) map[event.Domain]journalReport {
	ctx, cancel := context.WithTimeout(ctx, watchWait)
	defer cancel()
	domains := event.Domains()
	asked := make([]journalReport, len(domains))
	var all sync.WaitGroup
	for n, domain := range domains {
		all.Go(func() { asked[n] = b.askDomain(ctx, domain) })
	}
	all.Wait()
	reports := map[event.Domain]journalReport{}
	for n, domain := range domains {
		reports[domain] = asked[n]
	}
	return reports
}

func (b *Bus) askDomain(ctx context.Context, domain event.Domain) journalReport {
	r := journalReport{writes: make([]bool, b.cfg.Partitions), stalled: make([]error, b.cfg.Partitions)}
	b.askAll(ctx, domain, nil, func(i event.Instance) { r.add(domain, i) }, func() bool { return true })
	return r
}

func (r journalReport) add(domain event.Domain, i event.Instance) {
	for _, p := range i.Stalled {
		if p >= 0 && p < len(r.stalled) {
			r.stalled[p] = stalled{domain.Stream(p), i.Name}
		}
	}
	for _, p := range i.Serves {
		if p >= 0 && p < len(r.writes) && !slices.Contains(i.Stalled, p) {
			r.writes[p] = true
		}
	}
}
