package edge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/document"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/telemetry"
	"quire.dev/pkg/views/sqlite"
	"quire.dev/services/edge"
)

const testSecret = "a secret of the edge's tests"

// world is an edge with the real document services behind it, and a billing that only counts.
type world struct {
	url     string
	billing *countingBilling
	secret  *apikey.Secret
	owner   string // an API key
	other   string // another account's
}

type component interface {
	Run(context.Context) error
	Ready() <-chan struct{}
}

func run(t *testing.T, name string, c component) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	select {
	case <-c.Ready():
	case <-time.After(30 * time.Second):
		t.Fatalf("%s is not ready", name)
	}
}

func newWorld(t *testing.T, change func(*edge.Config)) *world {
	t.Helper()
	server := journaltest.Start(t)
	nc := server.Conn(t)
	for _, d := range []event.Domain{event.Billing, event.Paste, event.Lite, event.File} {
		ensure(t, nc, d)
	}
	blobs, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { blobs.Close() })
	w := &world{billing: follow(t, nc)}
	for _, p := range []fold.Policy{fold.Pastes(), fold.QuickPastes(), fold.Files()} {
		store, err := sqlite.Open(t.Context(), sqlite.Config{
			Path: filepath.Join(t.TempDir(), "views.db"), Collections: document.Collections(p.Domain), Synchronous: sqlite.Normal,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		engine, err := document.New(document.Config{Policy: p, PartitionCount: 1}, document.Deps{NC: server.Conn(t), Views: store, Blobs: blobs})
		if err != nil {
			t.Fatal(err)
		}
		run(t, string(p.Domain), engine)
	}
	cfg := edge.Config{Listen: "127.0.0.1:0", Secret: []byte(testSecret), Partitions: 1}
	if change != nil {
		change(&cfg)
	}
	service, err := edge.New(cfg, edge.Deps{NC: server.Conn(t), Blobs: blobs, Metrics: telemetry.NewMetrics(), Health: telemetry.NewHealth()})
	if err != nil {
		t.Fatal(err)
	}
	run(t, "edge", service)
	w.url = "http://" + service.Addr()
	if w.secret, err = apikey.NewSecret([]byte(testSecret)); err != nil {
		t.Fatal(err)
	}
	w.owner, w.other = w.key(1001), w.key(2002)
	return w
}

func (w *world) key(account event.AccountID) string {
	return w.secret.Format(apikey.Key{Account: account, Version: 1, Nonce: uint64(account)})
}

func ensure(t *testing.T, nc *nats.Conn, d event.Domain) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := journal.Ensure(ctx, nc, []journal.Stream{{
		Domain: string(d), Name: d.Stream(0), Subjects: d.Subjects(0), KeepForever: d == event.Billing,
	}}, 1)
	if err != nil {
		t.Fatal(err)
	}
}

// countingBilling admits everything up to a limit and counts settlements. What billing decides is
// held by its own tests; this one shows what the edge asks of it and says with its answers.
type countingBilling struct {
	mu    sync.Mutex
	limit map[plan.QuotaKey]int64
	used  map[plan.QuotaKey]int64
	open  map[event.RequestID]*event.Admission
	idem  map[string]event.Decision
	void  int // settlements
	fails int // of them, those that count as failures
}

func follow(t *testing.T, nc *nats.Conn) *countingBilling {
	b := &countingBilling{
		limit: map[plan.QuotaKey]int64{}, used: map[plan.QuotaKey]int64{},
		open: map[event.RequestID]*event.Admission{}, idem: map[string]event.Decision{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	marks := map[string]uint64{}
	go func() {
		defer close(done)
		journal.Open(nc, event.Billing.Stream(0)).Follow(ctx, 0, func(_ context.Context, m journal.Message) error {
			var batch event.UsageBatch
			if m.Subject != event.UsageSubject(0) || event.Decode(m.Data, &batch) != nil {
				return nil
			}
			if batch.Number > 0 && batch.Number <= marks[batch.Source] {
				return nil
			}
			marks[batch.Source] = batch.Number
			answer := b.fold(&batch)
			answer.Sequence = m.Sequence
			data, err := event.Encode(answer)
			if err != nil {
				return err
			}
			return nc.Publish(event.VerdictSubject(batch.Source), data)
		}, journal.FollowOptions{})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return b
}

func (b *countingBilling) fold(batch *event.UsageBatch) *event.VerdictBatch {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := &event.VerdictBatch{Source: batch.Source, Number: batch.Number, TimeMs: batch.StampMs}
	for _, a := range batch.Admissions {
		out.Verdicts = append(out.Verdicts, b.decide(a))
	}
	for _, s := range batch.Settlements {
		id, err := event.RequestIDFrom(s.RequestId)
		a := b.open[id]
		if err != nil || a == nil {
			continue
		}
		delete(b.open, id)
		key := string(a.IdempotencyId)
		delete(b.idem, key)
		if s.Result == event.Result_SERVED {
			b.idem[key] = event.Decision_IDEMPOTENCY_SERVED
			continue
		}
		b.void++
		b.used[plan.QuotaKey(a.QuotaKey)]--
		if s.Failed {
			b.fails++
		}
	}
	return out
}

func (b *countingBilling) decide(a *event.Admission) *event.Verdict {
	key := plan.QuotaKey(a.QuotaKey)
	if d, ok := b.idem[string(a.IdempotencyId)]; ok && len(a.IdempotencyId) > 0 {
		return &event.Verdict{Decision: d}
	}
	limit, ok := b.limit[key]
	if !ok {
		limit = 1000
	}
	v := &event.Verdict{Decision: event.Decision_ADMITTED, Charge: event.ChargeSource_CHARGE_QUOTA, Limit: limit, ResetSeconds: 3600, Tier: uint32(plan.Pro)}
	if key == plan.FilesList || key == plan.LiteList {
		v.Limit, v.Remaining, v.Charge = -1, -1, event.ChargeSource_CHARGE_NONE
	} else if b.used[key] >= limit {
		v.Decision, v.RetryAfterSeconds = event.Decision_QUOTA_EXHAUSTED, 3600
		if a.Anonymous {
			v.Decision = event.Decision_ANONYMOUS_LIMIT
		}
		return v
	} else {
		b.used[key]++
		v.Remaining = limit - b.used[key]
	}
	b.open[event.RequestID(a.RequestId)] = a
	if len(a.IdempotencyId) > 0 {
		b.idem[string(a.IdempotencyId)] = event.Decision_IDEMPOTENCY_IN_FLIGHT
	}
	return v
}

// counts is what billing has counted under a key, and how many calls of all keys were given back.
type counts struct {
	used         int64
	void, failed int
}

// want waits until billing, which folds behind the answers, has counted so. -1 is any number.
func (b *countingBilling) want(t *testing.T, key plan.QuotaKey, want counts) {
	t.Helper()
	eventually.True(t, fmt.Sprintf("%s: %+v", key, want), func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.used[key] == want.used && (want.void < 0 || b.void == want.void && b.fails == want.failed)
	})
}

func (b *countingBilling) setLimit(key plan.QuotaKey, limit int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit[key] = limit
}

// answer is an HTTP answer.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	raw    string
	body   map[string]any
}

// call sends a request. header is "Name: value" lines; body is a string, or what is sent as JSON.
func (w *world) call(t *testing.T, method, path string, body any, header ...string) *answer {
	t.Helper()
	var r io.Reader
	contentType := ""
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	case []byte:
		r = bytes.NewReader(b)
	case io.Reader:
		r = b
	default:
		data, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		r, contentType = bytes.NewReader(data), "application/json"
	}
	req, err := http.NewRequestWithContext(t.Context(), method, w.url+path, r)
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := &answer{t: t, status: res.StatusCode, header: res.Header, raw: string(data)}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") && method != http.MethodHead {
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber()
		if err := decoder.Decode(&a.body); err != nil {
			t.Fatalf("%s %s: %.300q: %v", method, path, data, err)
		}
	}
	if len(res.Header.Get("X-Request-Id")) != 36 {
		t.Errorf("%s %s: X-Request-Id %q", method, path, res.Header.Get("X-Request-Id"))
	}
	return a
}

func (a *answer) want(status int, code string) *answer {
	a.t.Helper()
	got, _ := a.body["code"].(string)
	if a.status != status || got != code {
		a.t.Errorf("got %d %.300s, want %d %s", a.status, a.raw, status, code)
	}
	return a
}

// at follows a path of names into the body.
func (a *answer) at(path ...string) any {
	var v any = a.body
	for _, p := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[p]
	}
	return v
}

func (a *answer) str(path ...string) string {
	a.t.Helper()
	s, ok := a.at(path...).(string)
	if !ok {
		a.t.Fatalf("%v is no string in %.300s", path, a.raw)
	}
	return s
}

func (a *answer) wantAt(want any, path ...string) *answer {
	a.t.Helper()
	if got := a.at(path...); fmt.Sprint(got) != fmt.Sprint(want) {
		a.t.Errorf("%v is %v, want %v, in %.300s", path, got, want, a.raw)
	}
	return a
}

func (a *answer) wantHeader(name, want string) *answer {
	a.t.Helper()
	if got := a.header.Get(name); got != want {
		a.t.Errorf("%s is %q, want %q", name, got, want)
	}
	return a
}

type obj = map[string]any
