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
	a.do(t, "GET", "/api/users/user/requests", nil).hides(t, "secret words", "my title")
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
	read := a.do(t, "GET", "/api/dev/paste-lite/get/"+ref, nil)
	read.ok(t, http.StatusOK)
	id := read.header.Get("X-Request-Id")
	at := func(d time.Duration) string { return url.QueryEscape(begun.Add(d).Format(time.RFC3339)) }
	for query, want := range map[string]int{
		"":                                    7,
		"?requestId=" + id:                    1,
		"?requestId=" + strings.ToUpper(id):   1,
		"?quotaKey=files.get&requestId=" + id: 0,
		"?requestId=01a1fff9-83d3-743f-9a6d-5290a1beb664": 0,
		"?quotaKey=pasteLite.get":                         5,
		"?quotaKey=files.get":                             0,
		"?decision=admitted":                              6,
		"?decision=plan_upgrade_required":                 1,
		"?decision=quota_held":                            0,
		"?key=default":                                    7,
		"?key=k1":                                         0,
		"?from=" + at(-time.Hour):                         7,
		"?from=" + at(time.Hour):                          0,
		"?to=" + at(time.Hour):                            7,
		"?to=" + at(-time.Hour):                           0,
		"?quotaKey=pasteLite.get&limit=3":                 3,
		"?decision=admitted&quotaKey=files.get":           0,
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
	if len(ids) != 7 || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 7 {
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
		"?requestId=nothing":                              "invalid_field",
		"?limit=101":                                      "invalid_field",
		"?cursor=nonsense":                                "invalid_cursor",
		"?cursor=" + strings.Repeat("A", 600):             "invalid_cursor",
		"?httpStatus=600":                                 "invalid_field",
		"?httpStatus=99":                                  "invalid_field",
		"?clientRequestId=":                               "invalid_field",
		"?clientRequestId=a%20b":                          "invalid_field",
		"?httpStatus=6xx":                                 "invalid_field",
		"?httpStatus=0xx":                                 "invalid_field",
		"?httpStatus=xx":                                  "invalid_field",
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

// TestRequestsShowWhatTheEdgeKnows: method, path, status, duration and address, also of calls that were refused before billing. They
// outlive a restart, and only their owner sees them.
func TestRequestsShowWhatTheEdgeKnows(t *testing.T) {
	i := start(t, behindProxy())
	p := i.person(t)
	newKey := func() account {
		body := p.do(t, "POST", "/api/users/user/dev-key/regenerate", nil).ok(t, http.StatusOK)
		return account{i: i, key: text(t, body, "apiKey")}
	}
	a := newKey()
	created := i.do(t, "POST", "/api/dev/paste-lite/create?title=my+title", request{key: a.key, header: map[string]string{"Content-Type": "text/plain", "X-Request-Id": "order-4711"}, body: "x", source: "2001:db8:1:2:3:4:5:6"})
	ref := text(t, created.ok(t, http.StatusCreated), "id")
	if idOf(created) == "order-4711" {
		t.Error("the client chose the id of the answer")
	}
	read := "/api/dev/paste-lite/get/" + ref
	missing := a.do(t, "HEAD", "/api/dev/paste-lite/get/000000000000", nil)
	invalid := a.do(t, "POST", "/api/dev/paste-lite/create", object{"contents": "x"})
	invalid.fails(t, http.StatusBadRequest, "unknown_field", "")
	served := a.do(t, "GET", read, nil)
	served.ok(t, http.StatusOK)
	unchanged := i.do(t, "GET", read, request{key: a.key, header: map[string]string{"If-None-Match": served.header.Get("Etag")}})
	if unchanged.status != http.StatusNotModified {
		t.Fatalf("%d", unchanged.status)
	}
	old := a
	a = newKey()
	revoked := i.do(t, "GET", read, request{key: old.key, source: "198.51.100.23"})
	revoked.fails(t, http.StatusUnauthorized, "invalid_api_key", "")
	wanted := map[string]string{ // by request id
		idOf(created):   "POST /api/dev/paste-lite/create 201 admitted served",
		idOf(missing):   "HEAD /api/dev/paste-lite/get/000000000000 404 admitted void",
		idOf(invalid):   "POST /api/dev/paste-lite/create 400 unknown_field <nil>",
		idOf(served):    "GET " + read + " 200 admitted served",
		idOf(unchanged): "GET " + read + " 304 not_charged <nil>",
		idOf(revoked):   "GET " + read + " 401 invalid_api_key <nil>",
	}
	refusedByEdge := map[string]bool{idOf(invalid): true, idOf(unchanged): true}
	check := func() {
		t.Helper()
		eventually.NoError(t, "all requests are reported", func() error {
			page, _ := a.recent(t, "")
			if len(page) != len(wanted) {
				return fmt.Errorf("%d requests, want %d", len(page), len(wanted))
			}
			for _, r := range page {
				got := fmt.Sprintf("%v %v %v %v %v", r["method"], r["path"], r["httpStatus"], r["decision"], r["status"])
				if want := wanted[text(t, r, "requestId")]; got != want {
					return fmt.Errorf("%s, want %s", got, want)
				}
				source := map[string]string{idOf(created): "2001:db8:1:2:3:4:5:6", idOf(revoked): "198.51.100.23"}[text(t, r, "requestId")]
				if named := text(t, r, "requestId") == idOf(created); named != (r["clientRequestId"] == "order-4711") || !named && r["clientRequestId"] != nil {
					return fmt.Errorf("%v", r)
				}
				if source != "" && r["sourceAddress"] != source || r["durationMs"] == nil || (r["remaining"] == nil) != refusedByEdge[text(t, r, "requestId")] {
					return fmt.Errorf("%v", r)
				}
			}
			return nil
		})
	}
	check()
	for query, want := range map[string][]answer{
		"?httpStatus=4xx":                        {missing, invalid, revoked},
		"?httpStatus=401":                        {revoked},
		"?httpStatus=2xx":                        {created, served},
		"?httpStatus=304":                        {unchanged},
		"?httpStatus=5xx":                        nil,
		"?requestId=" + idOf(revoked):            {revoked},
		"?clientRequestId=order-4711":            {created},
		"?clientRequestId=order-471":             nil,
		"?httpStatus=2xx&quotaKey=pasteLite.get": {served},
	} {
		var ids []string
		for _, w := range want {
			ids = append(ids, idOf(w))
		}
		slices.Sort(ids)
		// Another instance of billing has the reports once they are stored.
		eventually.NoError(t, query, func() error {
			page, _ := a.recent(t, query)
			var got []string
			for _, r := range page {
				got = append(got, text(t, r, "requestId"))
			}
			slices.Sort(got)
			if !slices.Equal(got, ids) {
				return fmt.Errorf("%v, want %v", got, ids)
			}
			return nil
		})
	}
	eventually.NoError(t, "the table", func() error {
		table := i.do(t, "GET", "/api/users/user/requests?httpStatus=401", request{key: a.key, header: map[string]string{"Accept": "text/csv"}})
		table.hasHeader(t, "Content-Disposition", `attachment; filename="requests.csv"`)
		lines := strings.Split(string(table.body), "\r\n")
		const outcome = ",401,pasteLite.get,default,default,invalid_api_key,,none,0.000000,0,"
		if len(lines) != 3 || !strings.Contains(lines[1], idOf(revoked)+",GET,"+read+outcome) || !strings.HasSuffix(lines[1], ",198.51.100.23,") {
			return fmt.Errorf("%q", lines)
		}
		return nil
	})
	more := i.do(t, "GET", "/api/users/user/requests?limit=2", request{key: a.key, header: map[string]string{"Accept": "text/csv"}})
	if n := strings.Count(string(more.body), "\r\n"); n != 3 || !strings.Contains(more.header.Get("Link"), "cursor=") {
		t.Errorf("%d lines, and the link %q", n, more.header.Get("Link"))
	}
	other := i.account(t, "pro")
	other.do(t, "GET", "/api/users/user/requests?requestId="+idOf(revoked), nil).hides(t, idOf(revoked), "198.51.100.23")
	i.restart(t)
	check()
}

// idOf is the id of an answered request.
func idOf(a answer) string { return a.header.Get("X-Request-Id") }
