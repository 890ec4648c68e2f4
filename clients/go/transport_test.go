package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// service answers calls in the order of its answers, the last one again and again.
type service struct {
	*httptest.Server
	answers []http.HandlerFunc
	keys    []string        // the Idempotency-Key of each call
	bodies  []string        // of each call
	paths   []string        // of each call, escaped
	waited  []time.Duration // before each repetition
}

func newService(t *testing.T, answers ...http.HandlerFunc) *service {
	t.Helper()
	s := &service{answers: answers}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.keys, s.bodies = append(s.keys, r.Header.Get("Idempotency-Key")), append(s.bodies, string(body))
		s.paths = append(s.paths, r.URL.EscapedPath())
		s.answers[min(len(s.keys), len(s.answers))-1](w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// client never waits: it notes for how long it would have.
func (s *service) client(t *testing.T, options ...Option) *Client {
	t.Helper()
	c, err := New("qk_test", append([]Option{WithBaseURL(s.URL)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	c.wait = func(ctx context.Context, d time.Duration) error {
		s.waited = append(s.waited, d)
		return ctx.Err()
	}
	return c
}

// TestAnIDNeverNamesAnotherPath: DELETE with an id of two dots would end the account instead of a session.
func TestAnIDNeverNamesAnotherPath(t *testing.T) {
	s := newService(t, answerWith(http.StatusOK, `{"success":true}`))
	c := s.client(t)
	for _, id := range []string{"", ".", "..", "...", "../..", "a/b", "é"} {
		calls := map[string]func() error{
			"get":     func() error { _, err := c.Pastes.Get(t.Context(), id); return err },
			"delete":  func() error { _, err := c.Files.Delete(t.Context(), id); return err },
			"session": func() error { _, err := c.Account.EndSession(t.Context(), id); return err },
			"key":     func() error { _, err := c.Keys.Revoke(t.Context(), id); return err },
			"replay":  func() error { _, err := c.Webhooks.ReplayDelivery(t.Context(), "wh", id); return err },
		}
		for name, call := range calls {
			before := len(s.paths)
			err := call()
			switch refused := strings.Trim(id, ".") == "" && len(id) < 3; {
			case refused && (err == nil || len(s.paths) > before):
				t.Errorf("%s of %q was sent: %v, %q", name, id, err, s.paths[before:])
			case !refused && (len(s.paths) != before+1 || !strings.Contains(s.paths[before], url.PathEscape(id))):
				t.Errorf("%s of %q: %v, %q", name, id, err, s.paths[before:])
			}
		}
	}
}

func answerWith(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func failWith(status int, code string, header ...string) http.HandlerFunc {
	return answerWith(status, fmt.Sprintf(`{"success":false,"reason":"Because.","code":%q,"requestId":"r"}`, code), header...)
}

// cut ends the connection in the middle of an answer.
func cut(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", "100")
	fmt.Fprint(w, `{"success":true,`)
	panic(http.ErrAbortHandler)
}

func drop(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

var created = answerWith(201, `{"success":true,"id":"abc","remaining":7}`, "X-Request-Id", "r1", "X-Charge-Source", "credits", "X-Credits-Cost", "0.000500", "X-Credits-Balance", "1.5", "X-Receipt", "3.ab")

func TestACallIsRepeatedUnderOneKeyUntilItIsAnswered(t *testing.T) {
	for name, first := range map[string]http.HandlerFunc{
		"503": failWith(503, "unavailable"), "504": failWith(504, "outcome_unknown"), "502 of a proxy": answerWith(502, "<html>"),
		"in flight": failWith(409, "idempotency_in_flight"), "held": failWith(429, "quota_held"), "drop": drop, "cut": cut,
		"cut failure": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(409)
			panic(http.ErrAbortHandler)
		},
	} {
		s := newService(t, first, first, created)
		made, err := s.client(t).QuickPastes.Create(t.Context(), NewPaste{Content: "x"})
		if err != nil || made.ID != "abc" {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(s.keys) != 3 || s.keys[0] == "" || s.keys[0] != s.keys[1] || s.keys[1] != s.keys[2] || s.bodies[0] != s.bodies[2] {
			t.Errorf("%s: keys %q, bodies %q", name, s.keys, s.bodies)
		}
		if m := made.Meta; m.Remaining != 7 || m.RequestID != "r1" || m.Cost != 500 || m.Balance != 1_500_000 || m.ChargeSource != ChargedToCredits || m.Receipt != "3.ab" {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

func TestNoOtherFailureIsRepeated(t *testing.T) {
	for code, status := range map[string]int{
		"quota_exhausted": 429, "plan_upgrade_required": 429, "spending_cap_reached": 429, "key_quota_exhausted": 429, "rate_limited": 429,
		"too_many_failures": 429, "invalid_api_key": 401, "not_owner": 403, "not_found": 404, "idempotency_mismatch": 422, "version_mismatch": 412,
		"invalid_field": 400, "internal": 500, "email_taken": 409,
	} {
		s := newService(t, failWith(status, code, "Retry-After", "1"))
		_, err := s.client(t).QuickPastes.Create(t.Context(), NewPaste{Content: "x"})
		var failed *APIError
		if !errors.As(err, &failed) || failed.Code != code || len(s.keys) != 1 {
			t.Errorf("%s: %v after %d calls", code, err, len(s.keys))
		}
	}
}

func TestRepetitionsAreBounded(t *testing.T) {
	s := newService(t, failWith(503, "unavailable"))
	_, err := s.client(t).Pastes.Get(t.Context(), "abc")
	var unavailable *UnavailableError
	if !errors.As(err, &unavailable) || len(s.keys) != 1+DefaultRetries {
		t.Errorf("%v after %d calls", err, len(s.keys))
	}
	for i, d := range s.waited {
		if most := initialPause << i; d < most/2 || d > most {
			t.Errorf("pause %d is %v, not %v to %v", i, d, most/2, most)
		}
	}
	s = newService(t, failWith(503, "unavailable"))
	if _, err := s.client(t, WithRetries(0)).Pastes.Get(t.Context(), "abc"); err == nil || len(s.keys) != 1 {
		t.Errorf("%v after %d calls", err, len(s.keys))
	}
}

func TestRetryAfterCounts(t *testing.T) {
	s := newService(t, failWith(503, "unavailable", "Retry-After", "7"), created)
	if _, err := s.client(t).Pastes.Create(t.Context(), NewPaste{Content: "x"}); err != nil || len(s.waited) != 1 || s.waited[0] != 7*time.Second {
		t.Errorf("%v, waited %v", err, s.waited)
	}
	// Beyond the deadline, or for more than a minute, nobody waits.
	s = newService(t, failWith(503, "unavailable", "Retry-After", "7"), created)
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	var unavailable *UnavailableError
	if _, err := s.client(t).Pastes.Create(ctx, NewPaste{Content: "x"}); !errors.As(err, &unavailable) || unavailable.RetryAfter != 7*time.Second || len(s.keys) != 1 {
		t.Errorf("%v after %d calls", err, len(s.keys))
	}
	s = newService(t, failWith(503, "unavailable", "Retry-After", "61"), created)
	if _, err := s.client(t).Pastes.Create(t.Context(), NewPaste{Content: "x"}); !errors.As(err, &unavailable) || len(s.keys) != 1 {
		t.Errorf("%v after %d calls", err, len(s.keys))
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := newService(t, func(w http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	if _, err := s.client(t).Pastes.Get(ctx, "abc"); !errors.Is(err, context.Canceled) || len(s.keys) != 1 {
		t.Errorf("%v after %d calls", err, len(s.keys))
	}
}

func TestErrorsTellWhatTheServiceTells(t *testing.T) {
	s := newService(t, answerWith(429, `{"success":false,"reason":"Monthly limit.","code":"quota_exhausted","requestId":"r2","docs":"https://d",
		"quotaKey":"pastes.create","limit":500,"resetAt":"2026-12-01T00:00:00Z","upgradeUrl":"https://u","field":"f","suggestion":"s","new":[1]}`, "Retry-After", "60"))
	_, err := s.client(t).Pastes.Create(t.Context(), NewPaste{Content: "x"})
	var quota *QuotaExhaustedError
	var api *APIError
	if !errors.As(err, &quota) || !errors.As(err, &api) {
		t.Fatalf("%T %v", err, err)
	}
	if quota.Limit != 500 || !quota.ResetAt.Equal(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)) || quota.QuotaKey != "pastes.create" ||
		quota.RequestID != "r2" || quota.UpgradeURL != "https://u" || quota.Docs != "https://d" || quota.Field != "f" ||
		quota.Suggestion != "s" || quota.RetryAfter != time.Minute || quota.Status != 429 {
		t.Errorf("%+v", quota.APIError)
	}
	for _, part := range []string{"Monthly limit.", "429", "quota_exhausted", "r2", "s"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
	// A failure that is none of the service's has its status.
	s = newService(t, answerWith(404, "<html>not here</html>", "Content-Type", "text/html"))
	if _, err := s.client(t).Pastes.Get(t.Context(), "abc"); !errors.As(err, &api) || api.Status != 404 || api.Code != "" || api.Reason != "Not Found" {
		t.Errorf("%v", err)
	}
}

func TestTheKeyGoesToTheServiceAlone(t *testing.T) {
	other := newService(t, created)
	s := newService(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer qk_test" {
			t.Errorf("Authorization is %q", r.Header.Get("Authorization"))
		}
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	_, err := s.client(t).Pastes.Create(t.Context(), NewPaste{Content: "x"})
	if err == nil || !strings.Contains(err.Error(), other.URL) || len(other.keys) != 0 || len(s.keys) != 1 {
		t.Errorf("%v: %d calls elsewhere", err, len(other.keys))
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, make := range map[string]func() (*Client, error){
		"key":        func() (*Client, error) { return New("qk x") },
		"line":       func() (*Client, error) { return New("qk_x\n") },
		"scheme":     func() (*Client, error) { return New("", WithBaseURL("ftp://host")) },
		"host":       func() (*Client, error) { return New("", WithBaseURL("http://")) },
		"query":      func() (*Client, error) { return New("", WithBaseURL("http://host?x")) },
		"client":     func() (*Client, error) { return New("", WithHTTPClient(nil)) },
		"retries":    func() (*Client, error) { return New("", WithRetries(-1)) },
		"user agent": func() (*Client, error) { return New("", WithUserAgent("a\nb")) },
		"session":    func() (*Client, error) { return New("", WithSession("quire_session=a; b=c")) },
	} {
		if _, err := make(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	c, err := New("qk_x", WithBaseURL("https://host/prefix/"))
	if err != nil || c.base.JoinPath("/api").String() != "https://host/prefix/api" {
		t.Errorf("%v", err)
	}
}

func TestAnIdempotencyKeyOfOnesOwnIsSent(t *testing.T) {
	s := newService(t, created)
	c := s.client(t)
	for _, options := range [][]CallOption{{WithIdempotencyKey("mine")}, nil, nil} {
		if _, err := c.Pastes.Create(t.Context(), NewPaste{Content: "x"}, options...); err != nil {
			t.Fatal(err)
		}
	}
	if s.keys[0] != "mine" || s.keys[1] == "" || s.keys[1] == s.keys[2] {
		t.Errorf("keys %q", s.keys)
	}
}
