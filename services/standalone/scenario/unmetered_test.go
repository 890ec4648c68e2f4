package scenario

import (
	"net/http"
	"strconv"
	"testing"
)

// TestCallsThatNoQuotaCountsAreLimited: by account and by source, while metered calls continue.
func TestCallsThatNoQuotaCountsAreLimited(t *testing.T) {
	i := start(t, with("QUIRE_UNMETERED_RATE", "1"), behindProxy())
	a := i.account(t, "pro")
	ref := a.paste(t, nil)
	read := a.do(t, "GET", "/api/dev/pastes/get/"+ref, nil)
	read.ok(t, http.StatusOK)
	known := map[string]string{"If-None-Match": read.header.Get("ETag")}
	for name, call := range map[string]func(a account, source string) answer{
		"a list": func(a account, _ string) answer { return a.do(t, "GET", "/api/dev/pastes/list", nil) },
		"usage":  func(a account, _ string) answer { return a.do(t, "GET", "/api/users/user/dev-usage", nil) },
		"an explanation": func(a account, _ string) answer {
			return a.do(t, "GET", "/api/users/user/requests/"+read.header.Get("X-Request-Id"), nil)
		},
		"a 304": func(a account, _ string) answer {
			return a.with(t, "GET", "/api/dev/pastes/get/"+ref, request{header: known})
		},
		"a page": func(_ account, source string) answer { return i.do(t, "GET", "/p/"+ref, request{source: source}) },
		"a log-in": func(_ account, source string) answer {
			return i.do(t, "POST", "/api/users/login", request{source: source, body: object{}})
		},
	} {
		caller, source, answered := i.account(t, "pro"), newSource(), 0
		got := call(caller, source)
		for ; got.status != http.StatusTooManyRequests && answered < 100; answered++ {
			got = call(caller, source)
		}
		if answered < 10 {
			t.Errorf("%s: %d calls were answered, want a burst of 10", name, answered)
		}
		got.fails(t, http.StatusTooManyRequests, "rate_limited", "More than 1 unmetered calls per second. Try again later.")
		if seconds, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || seconds < 1 || number(t, got.json(t), "limit") != 1 {
			t.Errorf("%s: Retry-After %q in %s", name, got.header.Get("Retry-After"), got.body)
		}
		caller.do(t, "GET", "/api/dev/pastes/get/"+ref, nil).ok(t, http.StatusOK)
		caller.paste(t, nil)
	}
	i.account(t, "pro").do(t, "GET", "/api/dev/pastes/list", nil).ok(t, http.StatusOK)
}

// TestReadsWhoseConditionIsNotMetAreMetered: they don't use up the rate of calls that no quota counts.
func TestReadsWhoseConditionIsNotMetAreMetered(t *testing.T) {
	i := start(t, with("QUIRE_UNMETERED_RATE", "1"), behindProxy())
	a := i.account(t, "pro")
	ref := a.paste(t, nil)
	for range 30 {
		a.with(t, "GET", "/api/dev/pastes/get/"+ref, request{header: map[string]string{"If-None-Match": `"7"`}}).ok(t, http.StatusOK)
	}
}

// TestA304AppendsNothingToTheJournal: of a paste, a quick paste and a file.
func TestA304AppendsNothingToTheJournal(t *testing.T) {
	i := start(t)
	a := i.account(t, "pro")
	paths := []string{
		"/api/dev/pastes/get/" + a.paste(t, nil), "/api/dev/paste-lite/get/" + a.quick(t, nil),
		"/api/dev/files/get/" + a.upload(t, "f", []byte("x")) + "?download=1",
	}
	tags := make([]string, len(paths))
	for n, path := range paths {
		read := a.do(t, "GET", path, nil)
		tags[n] = read.header.Get("ETag")
		read.shows(t, http.StatusOK)
	}
	const decided = "?decision=admitted" // the edge reports others beside the journal
	before, _ := a.recent(t, decided)
	for n, path := range paths {
		for range 5 {
			a.with(t, "GET", path, request{header: map[string]string{"If-None-Match": tags[n]}}).shows(t, http.StatusNotModified)
		}
	}
	if after, _ := a.recent(t, decided); len(after) != len(before) {
		t.Errorf("%d requests in the journal, want %d", len(after), len(before))
	}
	stranger := map[string]string{"If-None-Match": tags[0]}
	i.do(t, "GET", paths[0], request{key: wrongKey(a.key), header: stranger}).fails(t, http.StatusUnauthorized, "invalid_api_key", "")
}
