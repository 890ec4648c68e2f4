package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal/journaltest"
)

const observed = "BILLING_0"

// observe returns an observer of a new stream.
func observe(t *testing.T, nc *nats.Conn, replicas int) *observer {
	t.Helper()
	s := Stream{Domain: "billing", Name: observed, Subjects: []string{"billing.0.usage"}, Replicas: replicas}
	if err := Ensure(t.Context(), nc, []Stream{s}, 1); err != nil {
		t.Fatal(err)
	}
	m := NewMetrics(nil)
	return newObserver(m, Open(nc, observed).With(m))
}

// replica is what the series of one server say.
type replica struct {
	current, leads bool
	lag            float64
}

// see queries the stream and returns the series of its servers.
func (o *observer) see(t *testing.T) map[string]replica {
	t.Helper()
	o.look(t.Context())
	m, seen := o.metrics, map[string]replica{}
	for server := range o.shown {
		seen[server] = replica{
			current: testutil.ToFloat64(m.current.WithLabelValues(observed, server)) == 1,
			leads:   testutil.ToFloat64(m.leads.WithLabelValues(observed, server)) == 1,
			lag:     testutil.ToFloat64(m.lag.WithLabelValues(observed, server)),
		}
	}
	if n := testutil.CollectAndCount(m.lag); n != len(seen) {
		t.Fatalf("%d servers have a lag, want %d", n, len(seen))
	}
	return seen
}

func (o *observer) changes() float64 { return testutil.ToFloat64(o.metrics.leaderChanges) }

func (o *observer) errorsOf(kind string) float64 {
	return testutil.ToFloat64(o.metrics.errors.WithLabelValues(kind))
}

// store appends messages to the observed stream.
func store(t *testing.T, nc *nats.Conn, count int) {
	t.Helper()
	for range count {
		if err := Publish(t.Context(), nc, "billing.0.usage", []byte("message")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestASingleServerShowsItself(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	o := observe(t, nc, 1)
	store(t, nc, 2)
	seen := o.see(t)
	if len(seen) != 1 || seen["journaltest"] != (replica{current: true, leads: true}) {
		t.Errorf("servers %v", seen)
	}
	m := o.metrics
	if wanted, leader, changes := testutil.ToFloat64(m.wanted), testutil.ToFloat64(m.hasLeader), o.changes(); wanted != 1 || leader != 1 || changes != 0 {
		t.Errorf("%v replicas, leader %v, %v changes", wanted, leader, changes)
	}
	r, err := o.journal.Replication(t.Context())
	if err != nil || r.Last != 2 || r.Bytes == 0 || testutil.ToFloat64(m.bytes) != float64(r.Bytes) {
		t.Errorf("replication %+v, %v; %v bytes are shown", r, err, testutil.ToFloat64(m.bytes))
	}
}

// TestAReplicaThatIsDownIsBehind, until it has caught up.
func TestAReplicaThatIsDownIsBehind(t *testing.T) {
	t.Parallel()
	c := journaltest.StartCluster(t, 3)
	nc := c.Conn(t)
	o := observe(t, nc, 3)
	c.WaitCurrent(t, observed)
	eventually.True(t, "all are current", func() bool { return countCurrent(o.see(t)) == 3 })
	down := (c.LeaderOf(t, observed) + 1) % 3
	name := fmt.Sprintf("journaltest-%d", down)
	c.Node(down).Stop()
	eventually.True(t, "the leader notices", func() bool {
		r, err := o.journal.Replication(t.Context())
		return err == nil && slices.ContainsFunc(r.Peers, func(p Replica) bool { return p.Server == name && p.Offline })
	})
	if seen := o.see(t); len(seen) != 3 || seen[name].current || seen[name].leads || countCurrent(seen) != 2 {
		t.Errorf("with %s down: %+v", name, seen)
	}
	store(t, nc, 10)
	eventually.True(t, "it lags", func() bool { return o.see(t)[name].lag >= 10 })
	c.Node(down).Restart(t)
	eventually.True(t, "it has caught up", func() bool {
		seen := o.see(t)
		return countCurrent(seen) == 3 && seen[name].lag == 0
	})
}

func countCurrent(seen map[string]replica) (n int) {
	for _, r := range seen {
		if r.current {
			n++
		}
	}
	return n
}

func TestAChangeOfTheLeaderIsCounted(t *testing.T) {
	t.Parallel()
	c := journaltest.StartCluster(t, 3)
	o := observe(t, c.Conn(t), 3)
	c.WaitCurrent(t, observed)
	eventually.True(t, "a leader is shown", func() bool { return len(leaders(o.see(t))) == 1 })
	before, changes := leaders(o.see(t)), o.changes()
	c.Node(c.LeaderOf(t, observed)).Stop()
	eventually.True(t, "another leader is shown", func() bool {
		now := leaders(o.see(t))
		return len(now) == 1 && now[0] != before[0]
	})
	if o.changes() <= changes {
		t.Errorf("%v changes after %v", o.changes(), changes)
	}
}

func leaders(seen map[string]replica) (names []string) {
	for server, r := range seen {
		if r.leads {
			names = append(names, server)
		}
	}
	return names
}

// answering serves the API in place of JetStream. It says answer to every query; empty: nothing.
func answering(t *testing.T) (o *observer, answer *atomic.Value) {
	t.Helper()
	nc := journaltest.Start(t, func(o *server.Options) { o.JetStream = false }).Conn(t)
	answer = &atomic.Value{}
	_, err := nc.Subscribe(apiPrefix+"STREAM.INFO."+observed, func(m *nats.Msg) {
		if said := answer.Load().(string); said != "" {
			if err := m.Respond([]byte(said)); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	m := NewMetrics(nil)
	return newObserver(m, Open(nc, observed).With(m)), answer
}

const threeReplicas = `{"config":{"num_replicas":3},"cluster":{"leader":"a","replicas":[
	{"name":"b","current":true,"active":5,"lag":1},{"name":"Server name unknown at this time (peerID: x7)","peer":"x7","offline":true}
]},"state":{"bytes":70,"last_seq":7}}`

// TestWithoutALeaderNothingIsSaidOfReplicas: what was last known of them would look like the present.
func TestWithoutALeaderNothingIsSaidOfReplicas(t *testing.T) {
	o, answer := answering(t)
	for _, leaderless := range []string{
		`{"config":{"num_replicas":3},"cluster":{"replicas":[{"name":"a"},{"name":"b"}]},"state":{"bytes":9}}`,
		`{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}`,
	} {
		answer.Store(threeReplicas)
		if seen := o.see(t); len(seen) != 3 || seen["b"] != (replica{current: true, lag: 1}) || seen["x7"].current {
			t.Fatalf("servers %+v", seen)
		}
		before := o.errorsOf(kindNoLeader)
		answer.Store(leaderless)
		if seen := o.see(t); len(seen) != 0 || testutil.ToFloat64(o.metrics.hasLeader) != 0 {
			t.Errorf("without a leader: %+v", seen)
		}
		if n := o.errorsOf(kindNoLeader); n != before+1 {
			t.Errorf("%v errors for want of a leader, want %v", n, before+1)
		}
		if bytes, wanted := testutil.ToFloat64(o.metrics.bytes), testutil.ToFloat64(o.metrics.wanted); bytes != 70 || wanted != 3 {
			t.Errorf("%v bytes, %v replicas", bytes, wanted)
		}
	}
	answer.Store(threeReplicas)
	if o.see(t); o.changes() != 0 {
		t.Errorf("%v changes, although the same server leads again", o.changes())
	}
	answer.Store(strings.Replace(threeReplicas, `"leader":"a"`, `"leader":"c"`, 1))
	if seen := o.see(t); o.changes() != 1 || len(seen) != 3 || !seen["c"].leads {
		t.Errorf("%v changes, servers %+v", o.changes(), seen)
	}
}

func TestAnAnswerThatNeverComesIsATimeout(t *testing.T) {
	o, answer := answering(t)
	answer.Store("")
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := o.journal.State(ctx); !errors.Is(err, ErrUnavailable) || o.errorsOf(kindTimeout) != 1 {
		t.Errorf("%v, %v time-outs", err, o.errorsOf(kindTimeout))
	}
}

// TestObserveRemovesItsSeries: a stream that another instance folds must not look stalled here.
func TestObserveRemovesItsSeries(t *testing.T) {
	o, answer := answering(t)
	o.forget()
	answer.Store(threeReplicas)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.metrics.Observe(ctx, o.journal)
	}()
	m := o.metrics
	series := func() (n int) {
		for _, vec := range []prometheus.Collector{m.wanted, m.hasLeader, m.bytes, m.current, m.lag, m.leads, m.leaderChanges} {
			n += testutil.CollectAndCount(vec)
		}
		return n
	}
	eventually.True(t, "all series", func() bool { return series() == 4+3*3 })
	cancel()
	<-done
	if n := series(); n != 0 {
		t.Errorf("%d series are left", n)
	}
	var none *Metrics
	none.Observe(t.Context(), o.journal) // returns at once
}

func TestAFullStreamIsCounted(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	o := observe(t, nc, 1)
	journaltest.Fill(t, nc, observed)
	failed := make(chan error, 1)
	a, err := NewAppender(nc, Config[int]{
		Subject: "billing.0.usage", MaxWait: time.Minute, Metrics: o.metrics, Logger: slog.New(slog.DiscardHandler),
		Encode: func(uint64, []int) ([]byte, error) { return []byte("batch"), nil },
		Size:   func(int) int { return 5 },
		Failed: func(_ []int, _ uint64, err error) { failed <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	if err := a.Add(1); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, ErrFull) || o.errorsOf(kindFull) != 1 {
		t.Errorf("failed with %v, %v counted", err, o.errorsOf(kindFull))
	}
	cancel()
	<-done
}

func TestErrorsHaveAKind(t *testing.T) {
	api := func(code, errCode int) error { return &apiError{Code: code, ErrCode: errCode} }
	for want, errs := range map[string][]error{
		"":              {nil, context.Canceled, fmt.Errorf("get: %w", ErrNoMessage)},
		kindNoLeader:    {fmt.Errorf("%w: %w", ErrUnavailable, errNoLeader), api(503, codeClusterNotAvailable)},
		kindFull:        {fmt.Errorf("%w: %w", ErrFull, api(503, codeStoreFailed)), api(503, codeInsufficientResources), api(500, codeStorageLimits)},
		kindTimeout:     {nats.ErrTimeout, fmt.Errorf("%w: %w", ErrUnavailable, context.DeadlineExceeded)},
		kindUnavailable: {nats.ErrNoResponders, nats.ErrDisconnected, fmt.Errorf("%w: %w", ErrUnavailable, api(503, codeNotEnabled))},
		kindOther:       {ErrNoStream, ErrTooLarge, api(400, 10003), &json.SyntaxError{}},
	} {
		for _, err := range errs {
			if got := errorKind(err); got != want {
				t.Errorf("%v is %q, want %q", err, got, want)
			}
		}
	}
}
