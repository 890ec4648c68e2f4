package webhooks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/views"
	"quire.dev/pkg/views/sqlite"
)

const alice = event.AccountID(0xA11CE)

// bench is a read model with a store of webhooks, and a clock that tests move.
type bench struct {
	t     *testing.T
	views *switched
	*Store
	ahead    atomic.Int64 // of the clock
	mail     Mail
	sequence uint64
}

// switched is a read model that can be made unreachable.
type switched struct {
	views.Store
	down atomic.Bool
}

func (s *switched) Commit(ctx context.Context, b views.Batch) error {
	if s.down.Load() {
		return views.ErrUnavailable
	}
	return s.Store.Commit(ctx, b)
}

func newBench(t *testing.T) *bench {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "billing.db"), Collections: Collections()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bench{t: t, views: &switched{Store: store}}
	b.Store = b.storeWith(Config{Partitions: 4, Secrets: [][]byte{[]byte("the first master secret")}, AllowPrivate: true})
	return b
}

func (b *bench) storeWith(cfg Config) *Store {
	b.t.Helper()
	s, err := NewStore(b.views, func() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) }, cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *bench) pass(d time.Duration) { b.ahead.Add(int64(d)) }

// send runs a sender until the test ends or stop is called.
func (b *bench) send(instance string) (stop func()) {
	b.t.Helper()
	s := NewSender(b.Store, instance, b.mail, slog.New(slog.DiscardHandler), nil)
	s.poll = 2 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Run(ctx); err != nil {
			b.t.Error(err)
		}
	}()
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); <-done }) }
	b.t.Cleanup(stop)
	return stop
}

// hook creates a webhook with an address.
func (b *bench) hook(url string) (id uint64, secret string) {
	b.t.Helper()
	a := b.ask(0, &event.WebhookRequest{Action: &event.WebhookRequest_Create{Create: &event.CreateAddress{Url: url}}})
	return a.Addresses[0].Webhook, a.Secret
}

// ask sends a request that must succeed.
func (b *bench) ask(webhook uint64, r *event.WebhookRequest) *event.WebhookAnswer {
	b.t.Helper()
	r.Account, r.Webhook = uint64(alice), webhook
	a, err := b.Answer(b.t.Context(), r)
	if err != nil || a.Status != event.WebhookStatus_WEBHOOK_OK {
		b.t.Fatalf("%v: %v, %v", r, a, err)
	}
	return a
}

// tell projects an alert to webhooks, and returns its id.
func (b *bench) tell(webhooks ...uint64) string {
	b.t.Helper()
	b.sequence++
	a := &event.Alert{
		Id: fmt.Sprintf("evt_%d", b.sequence), Position: fmt.Sprintf("%08d", b.sequence), Account: uint64(alice), TimeMs: b.now(),
		Type: event.AlertType_ALERT_QUOTA, QuotaKey: 1, Threshold: 80, Used: 8, Limit: 10, Webhooks: webhooks,
	}
	b.project(b.sequence, a)
	return a.Id
}

func (b *bench) project(sequence uint64, a *event.Alert) {
	b.t.Helper()
	puts, err := Puts(sequence, []*event.Alert{a})
	if err == nil {
		err = b.views.Store.Commit(b.t.Context(), views.Batch{Puts: puts})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// delivery is a webhook's newest delivery.
func (b *bench) delivery(webhook uint64) *event.Delivery {
	b.t.Helper()
	list := b.ask(webhook, &event.WebhookRequest{Action: &event.WebhookRequest_Deliveries{Deliveries: &event.ListDeliveries{Limit: 1}}}).Deliveries
	if len(list) != 1 {
		b.t.Fatalf("%d deliveries", len(list))
	}
	return list[0]
}

func (b *bench) until(webhook uint64, what string, is func(*event.Delivery) bool) *event.Delivery {
	b.t.Helper()
	var d *event.Delivery
	eventually.True(b.t, what, func() bool { d = b.delivery(webhook); return is(d) })
	return d
}

func delivered(d *event.Delivery) bool { return d.Status == event.DeliveryStatus_DELIVERY_DELIVERED }

// receiver is a server of webhooks.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	posts  []post
	answer func(http.ResponseWriter, *http.Request)
}

type post struct {
	id     string
	header http.Header
	body   []byte
}

func newReceiver(t *testing.T, answer func(http.ResponseWriter, *http.Request)) *receiver {
	t.Helper()
	r := &receiver{answer: answer}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the sender was cut off
		}
		r.mu.Lock()
		r.posts = append(r.posts, post{req.Header.Get("webhook-id"), req.Header, body})
		r.mu.Unlock()
		if r.answer != nil {
			r.answer(w, req)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) got() []post {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]post(nil), r.posts...)
}

func verify(secret string, p post) error {
	w, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return err
	}
	return w.VerifyIgnoringTimestamp(p.body, p.header)
}

func TestAnAlertIsPostedSigned(t *testing.T) {
	b := newBench(t)
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "thanks\x00\n"+strings.Repeat("x", 1<<20)) })
	hook, secret := b.hook(r.URL + "/hooks?tenant=1")
	id := b.tell(hook)
	b.send("one")
	d := b.until(hook, "it is delivered", delivered)
	posts := r.got()
	if len(posts) != 1 || posts[0].id != id || posts[0].header.Get("Content-Type") != "application/json" {
		t.Fatalf("%v", posts)
	}
	if err := verify(secret, posts[0]); err != nil {
		t.Error(err)
	}
	if err := verify("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", posts[0]); err == nil {
		t.Error("another secret verifies it")
	}
	if want := `{"type":"quota.threshold","timestamp":"`; !strings.HasPrefix(string(posts[0].body), want) || !strings.Contains(string(posts[0].body), `"threshold":80,"used":8,"limit":10`) {
		t.Errorf("%s", posts[0].body)
	}
	a := d.Attempts[0]
	if len(d.Attempts) != 1 || a.Status != 200 || a.Error != "" || len(a.Answer) > excerptBytes || !strings.HasPrefix(a.Answer, "thanks\nxxx") {
		t.Errorf("%v", d)
	}
}

func TestAFailedDeliveryIsTriedAgainForThreeDays(t *testing.T) {
	b := newBench(t)
	var status atomic.Int32
	status.Store(500)
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) })
	hook, _ := b.hook(r.URL)
	b.tell(hook)
	b.send("one")
	began := b.now()
	for n := 1; n <= len(pauses()); n++ {
		d := b.until(hook, "an attempt fails", func(d *event.Delivery) bool { return int(d.Tries) == n })
		if d.Status != event.DeliveryStatus_DELIVERY_PENDING || d.Attempts[len(d.Attempts)-1].Error != "the HTTP status was 500" {
			t.Fatalf("attempt %d: %v", n, d)
		}
		wait, pause := time.Duration(d.NextMs-b.now())*time.Millisecond, pauses()[n-1]
		if wait > pause*6/5 {
			t.Fatalf("attempt %d waits %v", n, wait)
		}
		b.pass(wait)
	}
	d := b.until(hook, "it is given up", func(d *event.Delivery) bool { return d.Status == event.DeliveryStatus_DELIVERY_FAILED })
	if days := time.Duration(b.now()-began) * time.Millisecond; days < 70*time.Hour || days > 90*time.Hour || len(r.got()) != len(pauses())+1 {
		t.Errorf("given up after %v and %d attempts", days, len(r.got()))
	}
	// Its owner resends it, with the same id.
	status.Store(204)
	b.ask(hook, &event.WebhookRequest{Action: &event.WebhookRequest_Replay{Replay: &event.ReplayDelivery{Alert: d.Alert.Id}}})
	b.until(hook, "it is delivered", delivered)
	for _, p := range r.got() {
		if p.id != d.Alert.Id {
			t.Errorf("an attempt has the id %s", p.id)
		}
	}
}

func TestRedirectsAreNotFollowedAndGoneEndsIt(t *testing.T) {
	b := newBench(t)
	other := newReceiver(t, nil)
	moved := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, other.URL, http.StatusTemporaryRedirect)
	})
	gone := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	first, _ := b.hook(moved.URL)
	second, _ := b.hook(gone.URL)
	b.tell(first, second)
	b.send("one")
	b.until(first, "the redirect fails", func(d *event.Delivery) bool {
		return len(d.Attempts) == 1 && d.Attempts[0].Error == "the HTTP status was 307"
	})
	b.until(second, "it is given up", func(d *event.Delivery) bool {
		return d.Status == event.DeliveryStatus_DELIVERY_FAILED && len(d.Attempts) == 1
	})
	if len(other.got()) != 0 {
		t.Error("a redirect was followed")
	}
}

// TestPrivateAddressesAreNotDialled: a name that leads to a private address is refused when it is dialled.
func TestPrivateAddressesAreNotDialled(t *testing.T) {
	b := newBench(t)
	r := newReceiver(t, nil)
	hook, _ := b.hook(strings.Replace(r.URL, "127.0.0.1", "localhost", 1))
	b.Store = b.storeWith(Config{Partitions: 4, Secrets: [][]byte{[]byte("the first master secret")}})
	b.tell(hook)
	b.send("one")
	b.until(hook, "it is refused", func(d *event.Delivery) bool { return len(d.Attempts) == 1 && d.Attempts[0].Error == errNotAllowed })
	if len(r.got()) != 0 {
		t.Error("a private address was reached")
	}
}

// TestASenderThatIsKilledLosesNone: it is killed under load, with unrecorded attempts. The next one sends everything
// unrecorded, with the same ids.
func TestASenderThatIsKilledLosesNone(t *testing.T) {
	b := newBench(t)
	var seen atomic.Int32
	r := newReceiver(t, func(http.ResponseWriter, *http.Request) {
		if seen.Add(1) == 20 {
			b.views.down.Store(true) // nothing is recorded from here on, including this one
		}
	})
	var hooks []uint64
	for range 3 {
		id, _ := b.hook(r.URL)
		hooks = append(hooks, id)
	}
	want := map[string]bool{}
	for range 60 {
		want[b.tell(hooks...)] = true
	}
	stop := b.send("one")
	eventually.True(t, "some are sent", func() bool { return seen.Load() >= 20 })
	stop()
	b.views.down.Store(false)
	b.pass(leaseTime)
	b.send("two")
	got := map[string]int{}
	eventually.True(t, "all are delivered", func() bool {
		clear(got)
		for _, p := range r.got() {
			got[p.id]++
		}
		docs, err := b.views.List(t.Context(), deliveries, views.Query{Index: byDue, Limit: 1})
		return err == nil && len(docs) == 0
	})
	repeated := 0
	for id := range want {
		if got[id] < len(hooks) {
			t.Errorf("%s came %d times to %d webhooks", id, got[id], len(hooks))
		}
		repeated += got[id] - len(hooks)
	}
	if repeated == 0 || repeated > maxRunning {
		t.Errorf("%d were repeated", repeated)
	}
	// A repeated projection sends nothing again.
	before := len(r.got())
	docs, err := b.views.List(t.Context(), deliveries, views.Query{Index: byWebhook, Equal: []views.Value{views.String(addressID(alice, hooks[0]))}, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	d, err := decodeDelivery(docs[0])
	if err != nil {
		t.Fatal(err)
	}
	b.project(d.Sequence, d.Alert)
	last := b.tell(hooks[0])
	eventually.True(t, "the next one is sent", func() bool { posts := r.got(); return posts[len(posts)-1].id == last })
	if n := len(r.got()); n != before+1 {
		t.Errorf("%d were sent again", n-before-1)
	}
}

func TestTwoInstancesSendOnce(t *testing.T) {
	b := newBench(t)
	r := newReceiver(t, nil)
	hook, _ := b.hook(r.URL)
	for i := range 4 {
		b.send(fmt.Sprint("instance ", i))
	}
	want := map[string]bool{}
	for range 40 {
		want[b.tell(hook)] = true
	}
	eventually.True(t, "all are delivered", func() bool {
		docs, err := b.views.List(t.Context(), deliveries, views.Query{Index: byDue, Limit: 1})
		return err == nil && len(docs) == 0
	})
	if n := len(r.got()); n != len(want) {
		t.Errorf("%d posts of %d events", n, len(want))
	}
}

// TestASlowReceiverHoldsUpNobodyElse: a receiver that never responds has more events due than a sender looks at.
func TestASlowReceiverHoldsUpNobodyElse(t *testing.T) {
	b := newBench(t)
	hanging := make(chan struct{})
	slow := newReceiver(t, func(http.ResponseWriter, *http.Request) { <-hanging })
	defer close(hanging)
	r := newReceiver(t, nil)
	stuck, _ := b.hook(slow.URL)
	hook, _ := b.hook(r.URL)
	for range scanPage*scanPages + 50 {
		b.tell(stuck)
	}
	b.tell(hook)
	b.send("one")
	b.until(hook, "the other one is delivered", delivered)
	if n := len(slow.got()); n > maxPerHost {
		t.Errorf("%d attempts at a time for one host", n)
	}
}

func TestBothSecretsSignForADay(t *testing.T) {
	b := newBench(t)
	r := newReceiver(t, nil)
	hook, first := b.hook(r.URL)
	rotate := func(change string) *event.WebhookAnswer {
		return b.ask(hook, &event.WebhookRequest{Action: &event.WebhookRequest_Rotate{Rotate: &event.RotateSecret{Change: []byte(change)}}})
	}
	made, again := rotate("one"), rotate("one")
	if again.Secret != made.Secret || !again.Replayed || made.Replayed || made.Secret == first || again.PreviousUntilMs != made.PreviousUntilMs {
		t.Fatalf("%v, then %v", made, again)
	}
	if d := time.Duration(made.PreviousUntilMs-b.now()) * time.Millisecond; d > overlap || d < overlap-time.Hour {
		t.Errorf("the secret of before signs for %v", d)
	}
	b.send("one")
	b.tell(hook)
	b.until(hook, "it is delivered", delivered)
	p := r.got()[0]
	if err := errors.Join(verify(first, p), verify(made.Secret, p)); err != nil {
		t.Error(err)
	}
	b.pass(overlap)
	b.tell(hook)
	b.until(hook, "it is delivered", delivered)
	p = r.got()[1]
	if verify(first, p) == nil || verify(made.Secret, p) != nil {
		t.Error("the secret of before still signs")
	}
	// After more rotations than may sign at a time the newest ones do.
	var secrets []string
	for i := range maxSecrets + 1 {
		secrets = append(secrets, rotate(fmt.Sprint("more ", i)).Secret)
	}
	b.tell(hook)
	b.until(hook, "it is delivered", delivered)
	p = r.got()[2]
	for i, secret := range secrets {
		if err := verify(secret, p); (err == nil) != (i > 0) {
			t.Errorf("secret %d: %v", i, err)
		}
	}
}

func TestOldEventsAreDeletedAndNotSent(t *testing.T) {
	b := newBench(t)
	r := newReceiver(t, nil)
	hook, _ := b.hook(r.URL)
	id := b.tell(hook)
	b.pass(maxAge + time.Minute) // as with a rebuilt read model
	stop := b.send("one")
	b.until(hook, "it is given up", func(d *event.Delivery) bool { return d.Status == event.DeliveryStatus_DELIVERY_FAILED })
	stop()
	if page, err := Alerts(t.Context(), b.views, alice, "0", 10); err != nil || len(page.Alerts) != 1 || page.Alerts[0].Id != id {
		t.Fatalf("%v, %v", page, err)
	}
	b.pass(retention)
	b.send("two")
	eventually.True(t, "it is deleted", func() bool {
		page, err := Alerts(t.Context(), b.views, alice, "0", 10)
		list := b.ask(hook, &event.WebhookRequest{Action: &event.WebhookRequest_Deliveries{Deliveries: &event.ListDeliveries{}}}).Deliveries
		return err == nil && len(page.Alerts) == 0 && len(list) == 0
	})
	if len(r.got()) != 0 {
		t.Error("an old event was sent")
	}
}

// TestAnAttemptIsBounded in time and in what is read of its answer.
func TestAnAttemptIsBounded(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		status uint32
		error  string
	}{
		"no answer": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 0, "the request timed out"},
		"an answer that does not end": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			if err := http.NewResponseController(w).Flush(); err == nil {
				<-r.Context().Done()
			}
		}, 200, ""},
		"an endless answer": {func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := fmt.Fprint(w, strings.Repeat("x", 1000)); err != nil {
					return
				}
			}
		}, 200, ""},
		"a large header": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 2*headerBytes)) }, 0, "the request failed"},
	} {
		hook, _ := b.hook(newReceiver(t, c.answer).URL)
		address, err := b.load(t.Context(), alice, hook)
		if err != nil {
			t.Fatal(err)
		}
		p := newPoster(b.Store)
		p.limit = 200 * time.Millisecond
		if name == "a large header" {
			p.limit = attemptTime
		}
		a := p.attempt(t.Context(), &event.Alert{Id: "evt_1", Type: event.AlertType_ALERT_TEST, Account: uint64(alice)}, address)
		if a.Status != c.status || a.Error != c.error || len(a.Answer) > excerptBytes {
			t.Errorf("%s: %v", name, a)
		}
		p.client.CloseIdleConnections()
	}
}

func TestTheLastAttemptsAreKept(t *testing.T) {
	b := newBench(t)
	s, d := NewSender(b.Store, "one", nil, slog.New(slog.DiscardHandler), nil), &event.Delivery{}
	for n := range uint32(keptAttempts + 3) {
		s.conclude(d, &event.DeliveryAttempt{Status: n})
	}
	if len(d.Attempts) != keptAttempts || d.Attempts[0].Status != 3 {
		t.Errorf("%d attempts from %v on", len(d.Attempts), d.Attempts[0])
	}
}
