package admin_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// api is an API whose audits and repairs take longer than a call. In a bubble of synctest its calls take no time.
type api struct {
	t     *testing.T
	next  []answer // to polls and resumes, repeatedly the last one
	asked []string // each once in a row
}

// answer is a response. Status 0 is none: the connection fails.
type answer struct {
	status int
	body   string
}

var (
	silent      = answer{}
	hanging     = answer{-1, ""}
	unavailable = answer{503, ""}
	failing     = answer{500, ""} // until it is resumed
	lost        = answer{404, ""}
	pending     = answer{202, `{"id":"a","done":2,"total":4}`}
	ended       = answer{200, `{"id":"a","done":2,"total":2,"match":true}`}
)

// audit audits with these answers to polls and resumes.
func (a *api) audit(o admin.AuditOptions, next ...answer) (admin.Audit, error) {
	a.asked, a.next = nil, next
	return admin.Client{Base: "http://api", Transport: a}.Audit(a.t.Context(), o, func(_, _ uint64) {})
}

func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked = slices.Compact(append(a.asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Prefer"))))
	next := answer{202, `{"id":"a","done":1,"total":4}`}
	if r.Method == http.MethodGet || r.URL.Query().Has("resume") {
		if len(a.next) > 1 && (a.next[0] != failing || r.Method == http.MethodPost) {
			next, a.next = a.next[0], a.next[1:]
			if next == failing {
				next, a.next = a.next[0], a.next[1:]
			}
		} else {
			next = a.next[0]
		}
	}
	switch next {
	case silent:
		return nil, io.ErrUnexpectedEOF
	case hanging:
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: next.status, Body: io.NopCloser(strings.NewReader(next.body)), Request: r}, nil
}

// TestAnInterruptedAuditIsResumed with the same parameters, and again if it fails. A repair is not.
func TestAnInterruptedAuditIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{t: t}
		var begun []string
		options := admin.AuditOptions{Deep: true, Heads: []admin.Head{{Partition: 1, Sequence: 5}}, Begun: func(id string) { begun = append(begun, id) }}
		audit, err := a.audit(options, silent, unavailable, pending, lost, pending, unavailable, failing, pending, pending, ended)
		if err != nil || audit.Match == nil || !*audit.Match || !slices.Equal(begun, []string{"a"}) {
			t.Errorf("%+v, %v, begun %q", audit, err, begun)
		}
		const query = "?deep=true&heads=1%3A5"
		start, poll, resume := "POST /api/admin/audit"+query+" respond-async", "GET /api/admin/audits/a"+query, "POST /api/admin/audit"+query+"&resume=a respond-async"
		if want := []string{start, poll, resume, poll, resume, poll}; !slices.Equal(a.asked, want) {
			t.Errorf("asked %q, want %q", a.asked, want)
		}
		begun, options.Resume = nil, "a"
		if audit, err = a.audit(options, ended); err != nil || audit.Match == nil || !slices.Equal(a.asked, []string{resume}) || len(begun) > 0 {
			t.Errorf("by its id: %+v, %v, asked %q, begun %q", audit, err, a.asked, begun)
		}
		if audit, err = a.audit(options, answer{400, ""}); !isStatus(err, 400) || audit.ID != "a" {
			t.Errorf("refused: %+v, %v", audit, err)
		}
		a.asked, a.next = nil, []answer{lost}
		audit, err = admin.Client{Base: "http://api", Transport: a}.Repair(t.Context(), "ledger", admin.AuditOptions{Partition: "1"}, func(_, _ uint64) {})
		if want := []string{"POST /api/admin/repair?partition=1&table=ledger", "GET /api/admin/audits/a?partition=1"}; !isStatus(err, 404) || !slices.Equal(a.asked, want) {
			t.Errorf("a repair: %+v, %v, asked %q, want %q", audit, err, a.asked, want)
		}
	})
}

func isStatus(err error, status int) bool {
	refused := (*admin.Failure)(nil)
	return errors.As(err, &refused) && refused.Status == status
}

// TestAnAuditIsGivenUp after five resumes, since it may be what stops billing, and after five minutes without a response.
func TestAnAuditIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{t: t}
		for _, failure := range []answer{lost, failing} {
			var five []answer
			for range 5 {
				five = append(five, failure, pending)
			}
			if audit, err := a.audit(admin.AuditOptions{}, append(five, ended)...); err != nil || audit.Match == nil {
				t.Errorf("resumed five times: %+v, %v", audit, err)
			}
			if _, err := a.audit(admin.AuditOptions{}, append(five, failure)...); !isStatus(err, failure.status) || len(a.asked) != 12 {
				t.Errorf("after five resumes: %v, asked %q", err, a.asked)
			}
		}
		fail := append(slices.Repeat([]answer{failing, pending}, 5), unavailable, ended)
		if audit, err := a.audit(admin.AuditOptions{}, fail...); err != nil || audit.Match == nil {
			t.Errorf("a blip after five resumes: %+v, %v", audit, err)
		}
		for _, o := range []admin.AuditOptions{{New: true}, {Account: "a"}, {Until: 7}} {
			if _, err := a.audit(o, lost); !isStatus(err, 404) || len(a.asked) != 2 {
				t.Errorf("what can't be resumed: %v, asked %q", err, a.asked)
			}
			if _, err := a.audit(o, failing); !isStatus(err, 500) || len(a.asked) != 2 {
				t.Errorf("what can't be resumed, and fails: %v, asked %q", err, a.asked)
			}
		}
		began := time.Now()
		if _, err := a.audit(admin.AuditOptions{}, silent); !errors.Is(err, io.ErrUnexpectedEOF) || time.Since(began) < 5*time.Minute || time.Since(began) > 6*time.Minute {
			t.Errorf("given up after %s: %v", time.Since(began), err)
		}
		if slices.ContainsFunc(a.asked[1:], func(q string) bool { return strings.HasPrefix(q, "POST") }) {
			t.Errorf("resumed although it may be running: %q", a.asked)
		}
		began = time.Now()
		if _, err := a.audit(admin.AuditOptions{}, hanging); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Minute+time.Second {
			t.Errorf("given up after %s: %v", time.Since(began), err)
		}
	})
}
