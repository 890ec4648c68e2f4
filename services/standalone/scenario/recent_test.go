package scenario

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
)

// recent asks for a page of the account's recent requests.
func (a account) recent(t testing.TB, query string) (page []object, next string) {
	t.Helper()
	body := a.do(t, "GET", "/api/users/user/requests"+query, nil).ok(t, http.StatusOK)
	if remaining := number(t, body, "remaining"); remaining != -1 {
		t.Errorf("remaining %d", remaining)
	}
	for _, r := range body["requests"].([]any) {
		page = append(page, r.(object))
	}
	next, _ = body["nextCursor"].(string)
	if more := body["hasMore"] == true; more != (next != "") {
		t.Errorf("hasMore is %v beside the cursor %q", more, next)
	}
	return page, next
}

// line is a recent request in short.
func line(o object) string {
	return fmt.Sprintf("%v %v %v %v %v", o["quotaKey"], o["decision"], o["status"], o["chargeSource"], o["cost"])
}

// TestRecentRequestsAreListed: each with its outcome, and with its explanation. They outlive a restart, and every edge shows them.
func TestRecentRequestsAreListed(t *testing.T) {
	i := start(t)
	a := i.account(t, "pro")
	a.grant(t, "1")
	created := a.do(t, "POST", "/api/dev/paste-lite/create", object{"content": "secret words", "title": "my title"})
	ref := text(t, created.ok(t, http.StatusCreated), "id")
	read := a.do(t, "GET", "/api/dev/paste-lite/get/"+ref, nil)
	read.ok(t, http.StatusOK)
	failed := a.do(t, "GET", "/api/dev/paste-lite/get/000000000000", nil)
	failed.fails(t, http.StatusNotFound, "not_found", "")
	a.setTier(t, "free")
	refused := a.do(t, "GET", "/api/dev/pastes/get/000000000000", nil)
	refused.fails(t, http.StatusTooManyRequests, "plan_upgrade_required", "")
	wanted := []struct {
		of        answer
		line      string
		remaining int64
	}{
		{refused, "pastes.get plan_upgrade_required <nil> none 0.000000", 0},
		{failed, "pasteLite.get admitted void none 0.000000", 9998},
		{read, "pasteLite.get admitted served quota 0.000000", 9999},
		{created, "pasteLite.create admitted served quota 0.000000", 4999},
	}
	check := func() {
		t.Helper()
		for range 2 { // each edge
			eventually.NoError(t, "all requests have ended", func() error {
				page, next := a.recent(t, "")
				if len(page) != len(wanted) || next != "" {
					return fmt.Errorf("%d requests, and the cursor %q", len(page), next)
				}
				for n, want := range wanted {
					if got := line(page[n]); got != want.line || page[n]["key"] != "default" ||
						page[n]["requestId"] != want.of.header.Get("X-Request-Id") || number(t, page[n], "remaining") != want.remaining {
						return fmt.Errorf("request %d is %v, want %s", n, page[n], want.line)
					}
				}
				return nil
			})
		}
		for _, want := range wanted {
			explained := a.do(t, "GET", "/api/users/user/requests/"+want.of.header.Get("X-Request-Id"), nil).ok(t, http.StatusOK)["request"].(map[string]any)
			explained["status"] = explained["settlement"]
			if got := line(explained); got != want.line {
				t.Errorf("explained as %s, want %s", got, want.line)
			}
		}
	}
	check()
	a.do(t, "GET", "/api/users/user/requests", nil).hides(t, "secret words", "my title", ref)
	i.restart(t)
	check()
}

func TestRecentRequestsAreFilteredAndPaged(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	begun := i.now()
	ref := a.quick(t, nil)
	for range 4 {
		a.do(t, "GET", "/api/dev/paste-lite/get/"+ref, nil).ok(t, http.StatusOK)
	}
	a.setTier(t, "free")
	a.do(t, "GET", "/api/dev/pastes/get/000000000000", nil).fails(t, http.StatusTooManyRequests, "plan_upgrade_required", "")
	at := func(d time.Duration) string { return url.QueryEscape(begun.Add(d).Format(time.RFC3339)) }
	for query, want := range map[string]int{
		"":                                      6,
		"?quotaKey=pasteLite.get":               4,
		"?quotaKey=files.get":                   0,
		"?decision=admitted":                    5,
		"?decision=plan_upgrade_required":       1,
		"?decision=quota_held":                  0,
		"?key=default":                          6,
		"?key=k1":                               0,
		"?from=" + at(-time.Hour):               6,
		"?from=" + at(time.Hour):                0,
		"?to=" + at(time.Hour):                  6,
		"?to=" + at(-time.Hour):                 0,
		"?quotaKey=pasteLite.get&limit=3":       3,
		"?decision=admitted&quotaKey=files.get": 0,
	} {
		if page, _ := a.recent(t, query); len(page) != want {
			t.Errorf("%s: %d requests, want %d", query, len(page), want)
		}
	}
	var ids []string
	for cursor := ""; ; {
		page, next := a.recent(t, "?limit=2"+cursor)
		for _, r := range page {
			ids = append(ids, r["requestId"].(string))
		}
		a.quick(t, nil) // what is newer changes no page after
		if next == "" {
			break
		}
		cursor = "&cursor=" + next
	}
	if len(ids) != 6 || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 6 {
		t.Errorf("the pages have %v", ids)
	}
	if page, _ := i.account(t, "pro").recent(t, ""); len(page) != 0 {
		t.Errorf("another account is shown %v", page)
	}
	for query, code := range map[string]string{
		"?quotaKey=files.gett":      "invalid_field",
		"?decision=maybe":           "invalid_field",
		"?decision=anonymous_limit": "invalid_field",
		"?key=k0":                   "invalid_field",
		"?key=k01":                  "invalid_field",
		"?key=other":                "invalid_field",
		"?from=yesterday":           "invalid_field",
		"?from=" + at(time.Hour) + "&to=" + at(time.Hour): "invalid_field",
		"?to=1970-01-01T00:00:00Z":                        "invalid_field",
		"?to=1969-12-31T00:00:00Z":                        "invalid_field",
		"?limit=0":                                        "invalid_field",
		"?limit=101":                                      "invalid_field",
		"?cursor=nonsense":                                "invalid_cursor",
		"?cursor=" + strings.Repeat("A", 600):             "invalid_cursor",
		"?status=open":                                    "unknown_field",
	} {
		a.do(t, "GET", "/api/users/user/requests"+query, nil).fails(t, http.StatusBadRequest, code, "")
	}
	i.do(t, "GET", "/api/users/user/requests", request{}).fails(t, http.StatusUnauthorized, "api_key_required", "")
	p := i.person(t)
	if body := p.do(t, "GET", "/api/users/user/requests", nil).ok(t, http.StatusOK); len(body["requests"].([]any)) != 0 {
		t.Errorf("a session is shown %v", body)
	}
}
