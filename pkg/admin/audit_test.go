package admin_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"quire.dev/pkg/admin"
)

// TestWhatTakesLongIsAskedForAgain: the client polls until the result is ready.
func TestWhatTakesLongIsAskedForAgain(t *testing.T) {
	var asked []string
	answers := map[string][]string{
		"POST /api/admin/audit":      {`{"id":"a","done":1,"total":4}`},
		"GET /api/admin/audits/a":    {`{"id":"a","done":4,"total":4,"match":true,"partitions":[{"partition":0,"match":true,"entries":7}]}`},
		"GET /api/admin/requests/r":  {`{"done":1,"total":4}`, `{"request":{"id":"r"}}`},
		"GET /api/admin/requests/r2": {`{"request":{"id":"r2"}}`},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question := r.Method + " " + r.URL.Path
		asked = append(asked, question)
		if len(answers[question]) == 0 || r.Header.Get("Authorization") != "Bearer token" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if strings.Contains(answers[question][0], `"done":1`) {
			w.WriteHeader(http.StatusAccepted)
		}
		_, _ = io.WriteString(w, answers[question][0])
		answers[question] = answers[question][1:]
	}))
	defer server.Close()
	client, told := admin.Client{Base: server.URL, Token: "token"}, 0
	progress := func(done, total uint64) {
		told++
		if done != 1 || total != 4 {
			t.Errorf("%d of %d", done, total)
		}
	}
	audit, err := client.Audit(t.Context(), admin.AuditOptions{}, progress)
	if err != nil || audit.Match == nil || !*audit.Match || len(audit.Partitions) != 1 || audit.Partitions[0].Entries != 7 {
		t.Errorf("%+v, %v", audit, err)
	}
	for _, id := range []string{"r", "r2"} {
		if answer, err := client.Explain(t.Context(), id, progress); err != nil || string(answer) != `{"request":{"id":"`+id+`"}}` {
			t.Errorf("%s, %v", answer, err)
		}
	}
	if told != 2 || len(asked) != 5 {
		t.Errorf("told %d times, asked %v", told, asked)
	}
	if _, err := client.Audit(t.Context(), admin.AuditOptions{}, progress); err == nil {
		t.Error("a failure is no error")
	}
}

// answersOf serves audits and repairs that take longer than a call. answer answers polls and resumes.
func answersOf(t *testing.T, answer func(question string) (status int, body string)) (client admin.Client, asked *[]string) {
	t.Helper()
	asked = &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question := r.Method + " " + r.URL.String()
		*asked = append(*asked, question)
		status, body := http.StatusAccepted, `{"id":"a","done":1,"total":4}`
		if r.Method == http.MethodGet || r.URL.Query().Has("resume") {
			status, body = answer(question)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return admin.Client{Base: server.URL}, asked
}

// TestAnInterruptedAuditIsResumed with the same parameters, once the API answers again. A repair is not.
func TestAnInterruptedAuditIsResumed(t *testing.T) {
	t.Parallel()
	down := 1
	client, asked := answersOf(t, func(question string) (int, string) {
		switch {
		case down > 0:
			down--
			return http.StatusServiceUnavailable, ""
		case strings.HasPrefix(question, "POST"):
			return http.StatusOK, `{"id":"a","done":2,"total":2,"match":true}`
		}
		return http.StatusNotFound, ""
	})
	var begun []string
	options := admin.AuditOptions{Deep: true, Heads: []admin.Head{{Partition: 1, Sequence: 5}}, Begun: func(id string) { begun = append(begun, id) }}
	audit, err := client.Audit(t.Context(), options, func(_, _ uint64) {})
	if err != nil || audit.Match == nil || !*audit.Match || !slices.Equal(begun, []string{"a"}) {
		t.Errorf("%+v, %v, begun %q", audit, err, begun)
	}
	const query = "deep=true&heads=1%3A5"
	if want := []string{"POST /api/admin/audit?" + query, "GET /api/admin/audits/a?" + query, "POST /api/admin/audit?" + query + "&resume=a"}; !slices.Equal(*asked, want) {
		t.Errorf("asked %q, want %q", *asked, want)
	}
	*asked = nil
	audit, err = client.Repair(t.Context(), "ledger", options, func(_, _ uint64) {})
	if refused := (*admin.Failure)(nil); !errors.As(err, &refused) || refused.Status != http.StatusNotFound || len(*asked) != 2 {
		t.Errorf("a repair: %+v, %v, asked %q", audit, err, *asked)
	}
	*asked, options.Resume = nil, "a"
	if audit, err = client.Audit(t.Context(), options, func(_, _ uint64) {}); err != nil || audit.Match == nil || len(*asked) != 1 {
		t.Errorf("by its id: %+v, %v, asked %q", audit, err, *asked)
	}
}

// TestAnAuditThatGetsNowhereIsGivenUp: it may be what stops billing.
func TestAnAuditThatGetsNowhereIsGivenUp(t *testing.T) {
	t.Parallel()
	resumed := 0
	client, asked := answersOf(t, func(question string) (int, string) {
		if strings.HasPrefix(question, "POST") {
			resumed++
			return http.StatusAccepted, `{"id":"a","done":0,"total":4}`
		}
		return http.StatusNotFound, ""
	})
	_, err := client.Audit(t.Context(), admin.AuditOptions{}, func(_, _ uint64) {})
	if refused := (*admin.Failure)(nil); !errors.As(err, &refused) || refused.Status != http.StatusNotFound || resumed != 3 {
		t.Errorf("%v after it was resumed %d times: %q", err, resumed, *asked)
	}
}
