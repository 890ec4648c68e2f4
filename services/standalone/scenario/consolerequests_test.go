package scenario

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
)

// TestRequestsAreFilteredExplainedAndFoldedAgainInTheConsole: the log has what the API lists, and each request leads to what the
// API explains. Folded again, all matches what was recorded.
func TestRequestsAreFilteredExplainedAndFoldedAgainInTheConsole(t *testing.T) {
	i := common(t)
	v, _, key := i.signUp(t)
	v.open(t, "/console/requests").shows(t, http.StatusOK, "No recent requests", `data-live="/console/requests/events"`)
	created := i.do(t, "POST", "/api/dev/paste-lite/create", request{key: key, body: object{"content": "secret words"}})
	created.ok(t, http.StatusCreated)
	refused := i.do(t, "GET", "/api/dev/pastes/get/000000000000", request{key: key})
	refused.fails(t, http.StatusTooManyRequests, "plan_upgrade_required", "")
	failed := i.do(t, "GET", "/api/dev/paste-lite/get/000000000000", request{key: key})
	failed.fails(t, http.StatusNotFound, "not_found", "")
	made, no, gone := created.header.Get("X-Request-Id"), refused.header.Get("X-Request-Id"), failed.header.Get("X-Request-Id")

	var page answer
	eventually.NoError(t, "all requests have ended", func() error {
		page = v.open(t, "/console/requests")
		if open := strings.Contains(string(page.body), "Pending"); open {
			return fmt.Errorf("a request is under way")
		}
		return nil
	})
	page.shows(t, http.StatusOK, `href="/console/requests/`+made+`"`, no, gone, "Served", "Plan upgrade required", "Refunded", "pasteLite.create", "quota").hides(t, "secret words")
	if ids := logged(page); fmt.Sprint(ids) != fmt.Sprint([]string{gone, no, made}) {
		t.Errorf("the log has %v", ids)
	}
	at := func(d time.Duration) string { return url.QueryEscape(i.now().Add(d).UTC().Format("2006-01-02T15:04")) }
	for query, want := range map[string][]string{
		"quotaKey=&key=&decision=&from=&to=": {gone, no, made},
		"quotaKey=pasteLite.create":          {made},
		"decision=plan_upgrade_required":     {no},
		"decision=admitted&key=default":      {gone, made},
		"from=" + at(-time.Hour):             {gone, no, made},
		"to=" + at(-time.Hour):               nil,
		"quotaKey=files.get":                 nil,
	} {
		for _, path := range []string{"/console/requests?", "/console/requests/list?"} {
			got := v.open(t, path+query).shows(t, http.StatusOK)
			if fmt.Sprint(logged(got)) != fmt.Sprint(want) {
				t.Errorf("%s: %v, want %v", path+query, logged(got), want)
			}
			if want == nil {
				got.shows(t, http.StatusOK, "No requests match these filters")
			}
		}
	}
	for query, says := range map[string][]string{
		"quotaKey=pasteLite.creat":                  {`id="filter-quotaKey-error"`, "pasteLite.create"},
		"decision=maybe":                            {`id="filter-decision-error"`},
		"key=nonsense":                              {`id="filter-key-error"`},
		"from=yesterday":                            {`id="filter-from-error"`, "The start must be a date and time such as", `value="yesterday"`},
		"from=2026-01-02T10:00&to=2026-01-02T10:00": {`id="filter-to-error"`, "The end must be later than the start."},
	} {
		v.open(t, "/console/requests?"+query).shows(t, http.StatusBadRequest, append(says, `aria-invalid="true"`)...).hides(t, `data-live=`)
	}
	v.open(t, "/console/requests?cursor=nonsense").shows(t, http.StatusBadRequest, "invalid_cursor")

	shown := v.open(t, "/console/requests/"+made).shows(t, http.StatusOK, "Request 1 of 100 for pasteLite.create", "Free plan: 100 requests per month for",
		"0 before, 1 after", "quota, 0.000000 credits", "BILLING_", "Served", `href="/console/keys/default"`, "Verify this charge").hides(t, "secret words", "Verified:")
	explained := v.send(t, "GET", "/api/users/user/requests/"+made, request{header: map[string]string{}}).ok(t, http.StatusOK)
	journal := explained["request"].(map[string]any)["journal"].(map[string]any)
	shown.shows(t, http.StatusOK, fmt.Sprint("message ", grouped(number(t, journal, "sequence"))))
	for id, values := range map[string][]string{made: {"<td>Admitted</td>", "<td>99</td>", "<td>Served</td>", "<td>quota</td>"}, no: {"<td>Plan upgrade required</td>"}, gone: {"<td>Refunded</td>"}} {
		for _, path := range []string{"/console/requests/" + id + "?run=new", "/console/requests/" + id + "/fold?run=new", "/console/requests/" + id + "/fold"} {
			folded := v.open(t, path).shows(t, http.StatusOK, append(values, "Verified:", "replayed", "Credits in the ledger")...).hides(t, "differs")
			for _, value := range values {
				if n := strings.Count(string(folded.body), value); n != 2 {
					t.Errorf("%s has %s %d times, want it as recorded and as folded again", path, value, n)
				}
			}
		}
	}
	v.open(t, "/console/requests/"+made+"?run=nonsense").shows(t, http.StatusBadRequest)
	other, _, _ := i.signUp(t)
	for _, path := range []string{"/console/requests/" + made, "/console/requests/00000000000000000000000000000000", "/console/requests/nonsense"} {
		other.open(t, path).shows(t, http.StatusNotFound)
	}
	other.open(t, "/console/requests/"+made+"/fold").hides(t, "Verified:", "pasteLite.create")
	nobody := i.visitor()
	nobody.open(t, "/console/requests").leads(t, "/console/sign-in?next=%2Fconsole%2Frequests")
	nobody.open(t, "/console/requests/"+made).leads(t, "/console/sign-in?next=%2Fconsole%2Frequests%2F"+made)
	nobody.open(t, "/console/requests/"+made+"/fold").shows(t, http.StatusOK, "You have signed out").hides(t, "Recorded")
	nobody.send(t, "GET", "/console/requests/list", request{header: map[string]string{}}).fails(t, http.StatusUnauthorized, "session_required", "")
	nobody.send(t, "GET", "/console/requests/events", request{header: map[string]string{}}).fails(t, http.StatusUnauthorized, "session_required", "")
}

// logged are the ids of the requests that a page of the log has, in its order.
func logged(page answer) (ids []string) {
	for _, m := range regexp.MustCompile(`<tr id="r-([0-9a-f-]+)"`).FindAllStringSubmatch(string(page.body), -1) {
		ids = append(ids, m[1])
	}
	return ids
}

// grouped is a number with thousands separators as on pages.
func grouped(n int64) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// TestTheLogOfRequestsHasPagesInTheConsole: none is missing or duplicated, and a full page is light.
func TestTheLogOfRequestsHasPagesInTheConsole(t *testing.T) {
	i := common(t)
	v, _, key := i.signUp(t)
	const made = 60
	for range made {
		i.do(t, "POST", "/api/dev/paste-lite/create", request{key: key, body: object{"content": "x"}}).ok(t, http.StatusCreated)
	}
	page := v.open(t, "/console/requests?decision=admitted").shows(t, http.StatusOK)
	seen := map[string]bool{}
	for pages := 1; ; pages++ {
		for _, id := range logged(page) {
			seen[id] = true
		}
		if len(page.body) > 100_000 {
			t.Errorf("a page has %d bytes", len(page.body))
		}
		older := regexp.MustCompile(`href="(/console/requests\?cursor=[^"]*)">Older`).FindStringSubmatch(string(page.body))
		if older == nil {
			if pages != 2 {
				t.Errorf("%d pages", pages)
			}
			break
		}
		path := strings.ReplaceAll(older[1], "&amp;", "&")
		if !strings.Contains(path, "decision=admitted") {
			t.Errorf("the next page has other filters: %s", path)
		}
		page = v.open(t, path).shows(t, http.StatusOK, "Newest").hides(t, "data-live=")
	}
	if len(seen) != made {
		t.Errorf("the pages have %d requests, want %d", len(seen), made)
	}
}

// TestTheLogOfRequestsIsToldOfARefusal, which changes no usage.
func TestTheLogOfRequestsIsToldOfARefusal(t *testing.T) {
	i := common(t)
	v, _, key := i.signUp(t)
	v.toldAt(t, i.edge()+"/console/requests/events", func() {
		i.do(t, "GET", "/api/dev/pastes/get/000000000000", request{key: key}).fails(t, http.StatusTooManyRequests, "plan_upgrade_required", "")
	})
}

// toldAt expects a live page to be told of what do causes, at an address of events. The stream's first look may come after the first
// calls of do.
func (v *visitor) toldAt(t *testing.T, address string, do func()) {
	t.Helper()
	res := v.listen(t, http.MethodGet, address)
	lines := bufio.NewScanner(res.Body)
	if !lines.Scan() || lines.Text() != "event: rest" {
		t.Fatalf("%d, begins with %q", res.StatusCode, lines.Text())
	}
	told := make(chan struct{})
	go func() {
		for lines.Scan() {
			if lines.Text() == "data: changed" {
				close(told)
				return
			}
		}
	}()
	for range 20 {
		do()
		select {
		case <-told:
			return
		case <-time.After(3 * time.Second):
		}
	}
	t.Error("nothing is told")
}

// TestHeadOfAStreamEndsAtOnce: it has the headers of the stream, and does not count as a listener.
func TestHeadOfAStreamEndsAtOnce(t *testing.T) {
	i := common(t)
	v, _, _ := i.signUp(t)
	for _, path := range []string{"/console/events", "/console/requests/events"} {
		begin := func(method string) *http.Response {
			res := v.listen(t, method, i.edge()+path)
			for _, name := range []string{"Date", "X-Request-Id"} {
				res.Header.Del(name)
			}
			return res
		}
		var head *http.Response
		for range 20 * len(i.bases) { // an account may listen eight times at each edge
			head = begin(http.MethodHead)
		}
		body, err := io.ReadAll(head.Body)
		if head.StatusCode != http.StatusOK || len(body) > 0 || err != nil || head.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%s: %d %v, %d bytes, %v", path, head.StatusCode, head.Header, len(body), err)
		}
		get := begin(http.MethodGet)
		if !reflect.DeepEqual(head.Header, get.Header) || head.Close != get.Close {
			t.Errorf("%s: HEAD has %v, GET %v", path, head.Header, get.Header)
		}
		if lines := bufio.NewScanner(get.Body); !lines.Scan() || lines.Text() != "event: rest" {
			t.Errorf("%s: %d, begins with %q", path, get.StatusCode, lines.Text())
		}
	}
}
