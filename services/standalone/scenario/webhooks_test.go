package scenario

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"quire.dev/pkg/eventually"
)

const webhooksPath = "/api/users/user/webhooks"

// hookReceiver takes what is posted to webhooks.
type hookReceiver struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	posts  []hookPost
}

type hookPost struct {
	header http.Header
	body   []byte
}

func newHookReceiver(t *testing.T) *hookReceiver {
	t.Helper()
	r := &hookReceiver{status: http.StatusNoContent}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the sender was killed
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.posts = append(r.posts, hookPost{req.Header, body})
		w.WriteHeader(r.status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *hookReceiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// got are the posts by their webhook-id.
func (r *hookReceiver) got() map[string][]hookPost {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string][]hookPost{}
	for _, p := range r.posts {
		id := p.header.Get("Webhook-Id")
		out[id] = append(out[id], p)
	}
	return out
}

func verifies(secret string, p hookPost) bool {
	w, err := standardwebhooks.NewWebhook(secret)
	return err == nil && w.VerifyIgnoringTimestamp(p.body, p.header) == nil
}

// hook creates a webhook.
func (p *person) hook(t testing.TB, fields object) (id, secret string) {
	t.Helper()
	made := p.do(t, "POST", webhooksPath, fields).ok(t, http.StatusCreated)
	return text(t, made, "webhook", "id"), text(t, made, "secret")
}

// withWebhooks is an instance whose webhooks may be on this machine.
func withWebhooks(t *testing.T) *instance {
	t.Helper()
	t.Parallel()
	return start(t, with("QUIRE_WEBHOOK_ALLOW_PRIVATE", "1"))
}

func TestACrossingIsPostedOnceAcrossRestartsAndKills(t *testing.T) {
	i := withWebhooks(t)
	r := newHookReceiver(t)
	p := i.person(t)
	a := p.key(t)
	hook, secret := p.hook(t, object{"url": r.URL + "/hooks", "events": []string{"quota.threshold"}})
	r.answer(http.StatusInternalServerError) // nothing is delivered yet
	for range 100 {
		a.quick(t, nil)
	}
	i.restart(t) // the events and their deliveries exist
	r.answer(http.StatusNoContent)
	want := map[string]int64{"50": 50, "80": 80, "100": 100}
	eventually.NoError(t, "all are delivered", func() error {
		page := p.do(t, "GET", webhooksPath+"/"+hook+"/deliveries", nil).ok(t, http.StatusOK)
		list := at(t, page, "deliveries").([]any)
		if len(list) != len(want) {
			return fmt.Errorf("%d deliveries", len(list))
		}
		for _, d := range list {
			d := d.(object)
			if d["status"] != "delivered" {
				return fmt.Errorf("%v", d)
			}
			percent := fmt.Sprint(at(t, d, "event", "data", "threshold"))
			if number(t, d, "event", "data", "used") != want[percent] || text(t, d, "event", "data", "quotaKey") != "pasteLite.create" {
				return fmt.Errorf("%v", d)
			}
		}
		return nil
	})
	got := r.got()
	if len(got) != len(want) {
		t.Errorf("%d ids of %d events", len(got), len(want))
	}
	for id, posts := range got {
		for _, post := range posts {
			if !strings.HasPrefix(id, "evt_") || !verifies(secret, post) || string(post.body) != string(posts[0].body) {
				t.Errorf("%s: %s", id, post.body)
			}
		}
	}
	i.audit(t)
}

// TestWebhooksSurviveTheKillOfTheirSender: in the middle of deliveries under load. Each crossing is one event that comes at least once.
func TestWebhooksSurviveTheKillOfTheirSender(t *testing.T) {
	i := withWebhooks(t)
	r := newHookReceiver(t)
	thresholds := []int{10, 20, 30, 40, 50, 60, 70, 80, 90, 100}
	hooks := map[string]*person{} // by path
	var group sync.WaitGroup
	for range 6 {
		p := i.person(t)
		a := p.key(t)
		hook, _ := p.hook(t, object{"url": r.URL, "events": []string{"quota.threshold"}, "thresholds": thresholds})
		hooks[webhooksPath+"/"+hook] = p
		group.Go(func() {
			eventually.NoError(t, "the quota is used up", func() error { // a call may fail while billing is away
				for {
					switch got := a.do(t, "POST", "/api/dev/paste-lite/create", object{"content": "x"}); {
					case got.status == http.StatusCreated:
					case got.json(t)["code"] == "quota_exhausted":
						return nil
					default:
						return fmt.Errorf("%d %s", got.status, got.body)
					}
				}
			})
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), bootLimit)
	defer cancel()
	for _, least := range []int{5, 20} {
		eventually.True(t, "events come", func() bool { return len(r.got()) >= least })
		if err := i.killSenders(ctx); err != nil {
			t.Fatal(err)
		}
	}
	group.Wait()
	want := 0
	for hook, p := range hooks {
		eventually.NoError(t, "all are delivered", func() error {
			page := p.do(t, "GET", hook+"/deliveries", nil).ok(t, http.StatusOK)
			seen := map[any]bool{}
			for _, d := range at(t, page, "deliveries").([]any) {
				d := d.(object)
				if d["status"] != "delivered" || len(r.got()[d["id"].(string)]) == 0 {
					return fmt.Errorf("%v", d)
				}
				seen[at(t, d, "event", "data", "threshold")] = true
			}
			if n := len(at(t, page, "deliveries").([]any)); n != len(thresholds) || len(seen) != n {
				return fmt.Errorf("%d events of %d crossings", n, len(seen))
			}
			return nil
		})
		want += len(thresholds)
	}
	if got := r.got(); len(got) != want {
		t.Errorf("%d events came of %d crossings", len(got), want)
	}
	i.audit(t)
}

// TestCapsAndExpiriesAreTold: what is spent of a cap, and that a key expires, at the journal's time.
func TestCapsAndExpiriesAreTold(t *testing.T) {
	i := withWebhooks(t)
	r := newHookReceiver(t)
	p, a := i.owner(t)
	a.grant(t, "3")
	p.further(t, object{"name": "short", "expiresIn": "8d"})
	narrow, _ := p.further(t, object{"name": "narrow", "spendingCap": object{"amount": "0.01", "period": "day"}})
	p.do(t, "PUT", "/api/users/user/spending-cap", object{"amount": "0.02", "period": "total"}).ok(t, http.StatusOK)
	hook, _ := p.hook(t, object{"url": r.URL, "events": []string{"cap.threshold", "key.expiring"}, "thresholds": []int{50, 100}})
	a.hammer(t, 100, func(int) operation { return operation{"POST", "/api/dev/files/upload?name=f", "x", http.StatusCreated} })
	for range 2 {
		i.do(t, "POST", "/api/dev/files/upload?name=f", request{key: narrow, body: []byte("x")}).ok(t, http.StatusCreated)
	}
	told := func(want ...string) {
		t.Helper()
		var got []string
		eventually.NoError(t, "they are delivered", func() error {
			got = nil
			for _, d := range at(t, p.do(t, "GET", webhooksPath+"/"+hook+"/deliveries", nil).ok(t, http.StatusOK), "deliveries").([]any) {
				if d.(object)["status"] != "delivered" {
					return fmt.Errorf("%v", d)
				}
				e := at(t, d.(object), "event").(object)
				data := e["data"].(object)
				got = append(got, fmt.Sprint(e["type"], " ", data["key"], " ", data["threshold"], " ", data["spent"], " ", data["amount"], " ", data["daysBefore"]))
			}
			if len(got) < len(want) {
				return fmt.Errorf("%d of %d", len(got), len(want))
			}
			return nil
		})
		slices.Reverse(got)
		if !slices.Equal(got, want) || len(r.got()) != len(want) {
			t.Errorf("told of %q, want %q; %d were posted", got, want, len(r.got()))
		}
	}
	want := []string{
		"cap.threshold k2 50 0.005000 0.010000 <nil>",
		"cap.threshold k2 100 0.010000 0.010000 <nil>",
		"cap.threshold <nil> 50 0.010000 0.020000 <nil>",
	}
	told(want...)
	for _, days := range []int{7, 1} {
		i.travel(t, time.Duration(8-days)*day-i.offset()) // of 8 days, some seconds have passed
		want = append(want, fmt.Sprint("key.expiring k1 <nil> <nil> <nil> ", days))
		told(want...)
	}
	i.audit(t)
}

// TestKeysThatAreCreatedAndEndAreTold: by whatever call. The list of events has the same, in the same order.
func TestKeysThatAreCreatedAndEndAreTold(t *testing.T) {
	i := withWebhooks(t)
	r := newHookReceiver(t)
	p := i.person(t)
	a := p.key(t)
	hook, secret := p.hook(t, object{"url": r.URL, "events": []string{"key.created", "key.revoked"}})
	start := text(t, p.do(t, "GET", "/api/users/user/events", nil).ok(t, http.StatusOK), "last")
	p.further(t, object{"name": "build", "expiresIn": "8d"})
	p.do(t, "PUT", keysPath+"/k1", object{"name": "deploy"}).ok(t, http.StatusOK)
	p.do(t, "POST", keysPath+"/k1/rotate", object{"overlap": "24h"}).ok(t, http.StatusOK)
	i.admin(t, "DELETE", "/api/admin/accounts/"+a.id+"/keys/k2", nil).ok(t, http.StatusOK)
	p.key(t)
	want := []string{
		"key.created k1 build true", "key.created k2 deploy true", "key.revoked k1 deploy true", "key.revoked k2 deploy false",
		"key.created default default false", "key.revoked default default false",
	}
	shown := func(e object) string {
		return fmt.Sprint(e["type"], " ", at(t, e, "data", "key"), " ", at(t, e, "data", "keyName"), " ", at(t, e, "data").(object)["expiresAt"] != nil)
	}
	var got []string
	eventually.NoError(t, "they are delivered", func() error {
		got = nil
		for _, d := range at(t, p.do(t, "GET", webhooksPath+"/"+hook+"/deliveries", nil).ok(t, http.StatusOK), "deliveries").([]any) {
			if d.(object)["status"] != "delivered" {
				return fmt.Errorf("%v", d)
			}
			got = append(got, shown(at(t, d.(object), "event").(object)))
		}
		if len(got) < len(want) {
			return fmt.Errorf("%d of %d", len(got), len(want))
		}
		return nil
	})
	slices.Reverse(got)
	if !slices.Equal(got, want) {
		t.Errorf("told of %q, want %q", got, want)
	}
	var listed []string
	for _, e := range at(t, p.do(t, "GET", "/api/users/user/events?after="+start, nil).ok(t, http.StatusOK), "events").([]any) {
		listed = append(listed, shown(e.(object)))
	}
	if !slices.Equal(listed, want) {
		t.Errorf("listed %q, want %q", listed, want)
	}
	for id, posts := range r.got() {
		if !verifies(secret, posts[0]) {
			t.Errorf("%s is not signed", id)
		}
	}
	i.audit(t)
}

func TestWebhooksAreMadeChangedAndDeleted(t *testing.T) {
	i := withWebhooks(t)
	r := newHookReceiver(t)
	p, other := i.person(t), i.person(t)
	a := p.key(t)
	keyed := request{cookies: p.cookies, header: map[string]string{"Idempotency-Key": "one"}, body: object{"url": r.URL, "events": []string{"balance.low", "quota.threshold"}, "balanceBelow": "2.5"}}
	first, again := i.do(t, "POST", webhooksPath, keyed), i.do(t, "POST", webhooksPath, keyed)
	made := first.ok(t, http.StatusCreated)
	first.hasHeader(t, "Idempotency-Replayed", "")
	again.hasHeader(t, "Idempotency-Replayed", "true")
	if string(first.body) != string(again.body) || text(t, made, "webhook", "balanceBelow") != "2.500000" || fmt.Sprint(at(t, made, "webhook", "thresholds")) != "[50 80 100]" {
		t.Errorf("%s, then %s", first.body, again.body)
	}
	keyed.body = object{"url": r.URL + "/other", "events": []string{"quota.threshold"}}
	i.do(t, "POST", webhooksPath, keyed).fails(t, http.StatusUnprocessableEntity, "idempotency_mismatch", "")
	hook := webhooksPath + "/" + text(t, made, "webhook", "id")

	for _, bad := range []object{
		{},
		{"url": r.URL},
		{"events": []string{"quota.threshold"}},
		{"url": r.URL, "events": []string{}},
		{"url": r.URL, "events": []string{"quota"}},
		{"url": r.URL, "events": []string{"webhook.test"}},
		{"url": "ftp://example.com", "events": []string{"quota.threshold"}},
		{"url": r.URL, "events": []string{"balance.low"}},
		{"url": r.URL, "events": []string{"quota.threshold"}, "thresholds": []int{0}},
		{"url": r.URL, "events": []string{"quota.threshold"}, "thresholds": []int{101}},
		{"url": r.URL, "events": []string{"quota.threshold"}, "thresholds": []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		{"url": r.URL, "events": []string{"balance.low"}, "balanceBelow": "-1"},
		{"url": r.URL + "/" + strings.Repeat("x", 2048), "events": []string{"quota.threshold"}},
	} {
		p.do(t, "POST", webhooksPath, bad).fails(t, http.StatusBadRequest, "invalid_field", "")
	}
	p.do(t, "POST", webhooksPath, object{"link": r.URL}).fails(t, http.StatusBadRequest, "unknown_field", "")
	p.do(t, "PUT", hook, object{}).fails(t, http.StatusBadRequest, "malformed", "")
	p.do(t, "PUT", hook, object{"balanceBelow": nil}).fails(t, http.StatusBadRequest, "invalid_field", "")
	changed := p.do(t, "PUT", hook, object{"url": r.URL + "/new", "thresholds": []int{90, 10, 90}}).ok(t, http.StatusOK)
	shown := p.do(t, "GET", hook, nil).ok(t, http.StatusOK)
	if text(t, shown, "webhook", "url") != r.URL+"/new" || fmt.Sprint(at(t, shown, "webhook")) != fmt.Sprint(at(t, changed, "webhook")) || fmt.Sprint(at(t, shown, "webhook", "thresholds")) != "[10 90]" {
		t.Errorf("%v, then %v", changed, shown)
	}

	// Nobody else reaches it, and a key does not.
	for _, call := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/test"}, {"POST", "/rotate-secret"}, {"GET", "/deliveries"}} {
		other.do(t, call[0], hook+call[1], nil).fails(t, http.StatusNotFound, "not_found", "")
		a.do(t, call[0], hook+call[1], nil).fails(t, http.StatusUnauthorized, "session_required", "")
	}
	p.do(t, "GET", webhooksPath+"/wh_x", nil).fails(t, http.StatusNotFound, "not_found", "")

	// Ten are allowed.
	for n := 1; n < 10; n++ {
		p.hook(t, object{"url": r.URL, "events": []string{"quota.threshold"}, "thresholds": []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}})
	}
	p.do(t, "POST", webhooksPath, object{"url": r.URL, "events": []string{"quota.threshold"}}).fails(t, http.StatusConflict, "too_many_webhooks", "")
	if list := at(t, p.do(t, "GET", webhooksPath, nil).ok(t, http.StatusOK), "webhooks").([]any); len(list) != 10 {
		t.Errorf("%d webhooks", len(list))
	}
	p.do(t, "DELETE", hook, nil).ok(t, http.StatusOK)
	p.do(t, "GET", hook, nil).fails(t, http.StatusNotFound, "not_found", "")
	p.do(t, "DELETE", hook, nil).fails(t, http.StatusNotFound, "not_found", "")

	// The creation sent again, under its Idempotency-Key, has no secret for what is deleted, and brings nothing back.
	keyed.body = object{"url": r.URL, "events": []string{"balance.low", "quota.threshold"}, "balanceBelow": "2.5"}
	for range 2 {
		i.do(t, "POST", webhooksPath, keyed).fails(t, http.StatusNotFound, "not_found", "The webhook created with this Idempotency-Key was deleted. Use a new key to create another.")
	}
	p.do(t, "GET", hook, nil).fails(t, http.StatusNotFound, "not_found", "")
	p.hook(t, object{"url": r.URL, "events": []string{"quota.threshold"}})
}

func TestATestEventIsSentRepeatedAndListened(t *testing.T) {
	i := withWebhooks(t)
	r := newHookReceiver(t)
	p := i.person(t)
	a := p.key(t)
	start := text(t, a.do(t, "GET", "/api/users/user/events", nil).ok(t, http.StatusOK), "last")
	id, secret := p.hook(t, object{"url": r.URL, "events": []string{"quota.threshold"}})
	hook := webhooksPath + "/" + id
	delivery := text(t, p.do(t, "POST", hook+"/test", nil).ok(t, http.StatusAccepted), "delivery")
	eventually.True(t, "it is posted", func() bool { return len(r.got()[delivery]) == 1 })
	if !verifies(secret, r.got()[delivery][0]) || !strings.Contains(string(r.got()[delivery][0].body), `"webhook.test"`) {
		t.Errorf("%s", r.got()[delivery][0].body)
	}

	// Both secrets sign after a rotation, which is answered again under its Idempotency-Key.
	keyed := request{cookies: p.cookies, header: map[string]string{"Idempotency-Key": "rotation"}}
	first, again := i.do(t, "POST", hook+"/rotate-secret", keyed), i.do(t, "POST", hook+"/rotate-secret", keyed)
	second := text(t, first.ok(t, http.StatusOK), "secret")
	again.hasHeader(t, "Idempotency-Replayed", "true")
	if string(again.body) != string(first.body) || second == secret {
		t.Errorf("%s, then %s", first.body, again.body)
	}
	replay := hook + "/deliveries/" + delivery + "/replay"
	p.do(t, "POST", replay, nil).ok(t, http.StatusAccepted)
	eventually.True(t, "it is posted again", func() bool { return len(r.got()[delivery]) == 2 })
	if post := r.got()[delivery][1]; !verifies(secret, post) || !verifies(second, post) {
		t.Error("one of the two secrets does not sign")
	}
	p.do(t, "POST", hook+"/deliveries/evt_x/replay", nil).fails(t, http.StatusNotFound, "not_found", "")

	// Listeners of the same account get the event, and nobody else.
	page := a.do(t, "GET", "/api/users/user/events?wait=5&after="+start, nil).ok(t, http.StatusOK)
	events := at(t, page, "events").([]any)
	if len(events) != 1 || events[0].(object)["id"] != delivery || events[0].(object)["type"] != "webhook.test" {
		t.Errorf("%v", page)
	}
	page = a.do(t, "GET", "/api/users/user/events?wait=1&after="+text(t, page, "last"), nil).ok(t, http.StatusOK)
	if len(at(t, page, "events").([]any)) != 0 {
		t.Errorf("%v", page)
	}
	i.person(t).key(t).do(t, "GET", "/api/users/user/events?after="+start, nil).ok(t, http.StatusOK)
	var waiting sync.WaitGroup
	var refused atomic.Int64
	for range 5*len(i.bases) + 2 {
		waiting.Go(func() {
			got := a.do(t, "GET", "/api/users/user/events?wait=5&after="+text(t, page, "last"), nil)
			if got.status == http.StatusTooManyRequests {
				got.fails(t, http.StatusTooManyRequests, "rate_limited", "")
				refused.Add(1)
			}
		})
	}
	waiting.Wait()
	if refused.Load() == 0 {
		t.Error("more than 5 calls of an account wait for events")
	}
	for _, query := range []string{"?wait=0", "?wait=31", "?after=x"} {
		a.do(t, "GET", "/api/users/user/events"+query, nil).fails(t, http.StatusBadRequest, "invalid_field", "")
	}
	p.do(t, "GET", hook+"/deliveries?cursor=x", nil).fails(t, http.StatusBadRequest, "invalid_cursor", "")
	i.untilRefused(t, "rate_limited", func() answer { return p.do(t, "POST", hook+"/test", nil) }, func(got answer) { got.ok(t, http.StatusAccepted) })
}

// TestPrivateAddressesAreRefused: without QUIRE_WEBHOOK_ALLOW_PRIVATE.
func TestPrivateAddressesAreRefused(t *testing.T) {
	i := common(t)
	p := i.person(t)
	for _, url := range []string{"http://example.com", "https://127.0.0.1", "https://localhost", "https://10.0.0.1", "https://169.254.169.254/latest", "https://[::1]/", "https://user:pass@example.com"} {
		p.do(t, "POST", webhooksPath, object{"url": url, "events": []string{"quota.threshold"}}).fails(t, http.StatusBadRequest, "invalid_field", "")
	}
}
