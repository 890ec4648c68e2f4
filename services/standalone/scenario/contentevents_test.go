package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"quire.dev/pkg/eventually"
)

const eventsPath = "/api/users/user/events"

// contentEvents are the types of events of content.
func contentEvents() []string {
	return []string{
		"paste.created", "paste.updated", "paste.deleted", "paste.burned", "pasteLite.created", "pasteLite.updated", "pasteLite.deleted",
		"pasteLite.burned", "file.created", "file.deleted",
	}
}

// eventsAfter are the account's events after a position, oldest first.
func (p *person) eventsAfter(t testing.TB, after string) (list []object) {
	t.Helper()
	for {
		page := p.do(t, "GET", eventsPath+"?limit=100&after="+after, nil).ok(t, http.StatusOK)
		for _, e := range at(t, page, "events").([]any) {
			list = append(list, e.(object))
		}
		if len(at(t, page, "events").([]any)) < 100 {
			return list
		}
		after = text(t, page, "last")
	}
}

func (p *person) lastEvent(t testing.TB) string {
	t.Helper()
	return text(t, p.do(t, "GET", eventsPath, nil).ok(t, http.StatusOK), "last")
}

// shownContent is an event of content in a line.
func shownContent(t testing.TB, e object) string {
	t.Helper()
	d := at(t, e, "data").(object)
	return fmt.Sprint(e["type"], " ", d["id"], " version ", d["version"], " ", d["visibility"], " ", d["size"], " bytes, expires ", d["expiresAt"] != nil)
}

// TestContentEventsArePostedOnce: what is created, edited, deleted and burned, each once, in order for each object, with neither title
// nor content. What is refused, replayed or read by its owner is none.
func TestContentEventsArePostedOnce(t *testing.T) {
	i := withWebhooks(t)
	r := newHookReceiver(t)
	p, a := i.owner(t)
	other := i.account(t, "pro")
	a.paste(t, nil) // before the webhook
	hook, secret := p.hook(t, object{"url": r.URL, "events": contentEvents()})
	after := p.lastEvent(t)
	want := map[string][]string{} // by object
	for _, k := range kinds() {
		name := map[string]string{"paste": "paste", "quick paste": "pasteLite"}[k.name]
		line := func(what, id string, version int, visibility string, size int, expires bool) {
			want[id] = append(want[id], fmt.Sprintf("%s.%s %s version %d %s %d bytes, expires %v", name, what, id, version, visibility, size, expires))
		}
		secret := object{"content": "a secret content", "title": "a secret title", "visibility": "private", "expiresIn": "1h"}
		id := k.make(t, a, secret)
		line("created", id, 1, "private", 16, true)
		for version := 2; version < 5; version++ {
			a.do(t, "PUT", k.base+"update/"+id, object{"content": strings.Repeat("x", version)}).ok(t, http.StatusOK)
			line("updated", id, version, "private", version, true)
		}
		a.do(t, "PUT", k.base+"update/"+id, object{"content": ""}).fails(t, http.StatusBadRequest, "invalid_field", "")
		other.do(t, "DELETE", k.base+"delete/"+id, nil).fails(t, http.StatusNotFound, "not_found", "")
		keyed := request{key: a.key, header: map[string]string{"Idempotency-Key": "delete " + id}}
		for range 2 {
			i.do(t, "DELETE", k.base+"delete/"+id, keyed).ok(t, http.StatusOK)
		}
		line("deleted", id, 4, "private", 4, true)

		burns := k.make(t, a, object{"content": "burns", "burnAfterRead": true})
		line("created", burns, 1, "unlisted", 5, false)
		a.do(t, "GET", k.base+"get/"+burns, nil).ok(t, http.StatusOK)
		other.do(t, "GET", k.base+"get/"+burns, nil).ok(t, http.StatusOK)
		other.do(t, "GET", k.base+"get/"+burns, nil).fails(t, http.StatusNotFound, "not_found", "")
		line("burned", burns, 1, "unlisted", 5, false)
	}
	file := a.upload(t, "f", []byte("1234567"))
	a.do(t, "DELETE", "/api/dev/files/delete/"+file, nil).ok(t, http.StatusOK)
	want[file] = []string{
		"file.created " + file + " version 1 unlisted 7 bytes, expires false", "file.deleted " + file + " version 1 unlisted 7 bytes, expires false",
	}
	other.paste(t, nil)
	i.do(t, "POST", "/api/dev/paste-lite/create", request{body: object{"content": "anonymous"}}).ok(t, http.StatusCreated)
	all := 0
	for _, lines := range want {
		all += len(lines)
	}

	eventually.True(t, "all are posted", func() bool { return len(r.got()) >= all })
	got, posted := map[string][]string{}, map[string]bool{}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, post := range r.posts {
		if id := post.header.Get("Webhook-Id"); posted[id] { // an answer was lost
			continue
		} else {
			posted[id] = true
		}
		if !verifies(secret, post) || strings.Contains(string(post.body), "secret") {
			t.Errorf("%s", post.body)
		}
		var e object
		if err := json.Unmarshal(post.body, &e); err != nil {
			t.Fatal(err)
		}
		id := text(t, e, "data", "id")
		got[id] = append(got[id], shownContent(t, e))
	}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("posted\n%q, want\n%q", got, want)
	}
	listed := map[string][]string{}
	for _, e := range p.eventsAfter(t, after) {
		id := text(t, e, "data", "id")
		listed[id] = append(listed[id], shownContent(t, e))
	}
	if !maps.EqualFunc(listed, want, slices.Equal) {
		t.Errorf("listed\n%q, want\n%q", listed, want)
	}
	if list := at(t, p.do(t, "GET", webhooksPath+"/"+hook+"/deliveries?limit=100", nil).ok(t, http.StatusOK), "deliveries").([]any); len(list) != all {
		t.Errorf("%d deliveries, want %d", len(list), all)
	}
	i.audit(t)
}

// TestContentEventsSurviveKills: each quick paste that was stored is one event, and nothing else is, however often all services are
// killed in the middle of it.
func TestContentEventsSurviveKills(t *testing.T) {
	t.Parallel()
	i, k := startKillable(t, with("QUIRE_WEBHOOK_ALLOW_PRIVATE", "1"))
	r := newHookReceiver(t)
	p, a := i.owner(t)
	p.hook(t, object{"url": r.URL, "events": []string{"pasteLite.created"}})
	after := p.lastEvent(t)
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		var answered atomic.Int32
		for range 8 {
			group.Go(func() {
				for ctx.Err() == nil {
					made, ok := i.killed(ctx, "POST", "/api/dev/paste-lite/create", request{key: a.key, body: object{"content": "x"}})
					if ok && made.status == http.StatusCreated {
						answered.Add(1)
					}
				}
			})
		}
		eventually.True(t, "calls are answered", func() bool { return answered.Load() > 60 })
		if err := k.kill(); err != nil {
			t.Fatal(err)
		}
		cancel()
		group.Wait()
		if err := i.boot(); err != nil {
			t.Fatal(err)
		}
		i.recovers(t, a)
	}
	stored := map[string]bool{}
	for cursor := ""; ; {
		page := a.do(t, "GET", "/api/dev/paste-lite/list?limit=100"+cursor, nil).ok(t, http.StatusOK)
		for _, paste := range at(t, page, "pastes").([]any) {
			stored[text(t, paste.(object), "id")] = true
		}
		if at(t, page, "hasMore") != true {
			break
		}
		cursor = "&cursor=" + text(t, page, "nextCursor")
	}
	eventually.NoError(t, "each is an event and delivered", func() error {
		seen := map[string]bool{}
		for _, e := range p.eventsAfter(t, after) {
			id := text(t, e, "data", "id")
			if seen[id] || !stored[id] {
				return fmt.Errorf("%s is an event, seen before: %v, stored: %v", id, seen[id], stored[id])
			}
			seen[id] = true
			if len(r.got()[text(t, e, "id")]) == 0 {
				return fmt.Errorf("%v was not posted", e)
			}
		}
		if len(seen) != len(stored) || len(r.got()) != len(stored) {
			return fmt.Errorf("%d events and %d posts of %d pastes", len(seen), len(r.got()), len(stored))
		}
		return nil
	})
	i.audit(t)
}
