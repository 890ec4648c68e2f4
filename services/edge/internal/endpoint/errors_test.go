package endpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
)

// TestFailuresAreAnsweredInTheAPIsShape: docs/api.md, Shape of every response.
func TestFailuresAreAnsweredInTheAPIsShape(t *testing.T) {
	for _, tc := range []struct {
		err           error
		status        int
		code          string
		retry, logged bool
	}{
		{NotFound(), 404, "not_found", false, false},
		{fmt.Errorf("read: %w", httperr.Malformed("no")), 400, "malformed", false, false},
		{Unavailable(errors.New("the disk")), 503, "unavailable", true, true},
		{fault.New(fault.OutcomeUnknown, "who knows"), 504, "outcome_unknown", true, false},
		{errors.New("a secret"), 500, "internal", false, true},
	} {
		var log bytes.Buffer
		s := baseFor("", &log)
		var ctx fasthttp.RequestCtx
		ctx.Response.Header.Set("X-Request-Id", "the id")
		s.Fail(&ctx, "/x/:id", tc.err)
		var body struct {
			Success                       *bool
			Reason, Code, RequestID, Docs string
		}
		if err := json.Unmarshal(ctx.Response.Body(), &body); err != nil {
			t.Fatalf("%s: %v", ctx.Response.Body(), err)
		}
		if ctx.Response.StatusCode() != tc.status || body.Code != tc.code || body.Reason == "" || body.Success == nil || *body.Success {
			t.Errorf("%v: %d %s", tc.err, ctx.Response.StatusCode(), ctx.Response.Body())
		}
		if body.RequestID != "the id" || body.Docs != "http://quire.example/docs/errors#"+tc.code {
			t.Errorf("%v: %s", tc.err, ctx.Response.Body())
		}
		if strings.Contains(body.Reason, "secret") || strings.Contains(body.Reason, "disk") {
			t.Errorf("%v shows its cause: %s", tc.err, body.Reason)
		}
		if retry := len(ctx.Response.Header.Peek("Retry-After")) > 0; retry != tc.retry {
			t.Errorf("%v: Retry-After is there: %v", tc.err, retry)
		}
		if logged := log.Len() > 0; logged != tc.logged {
			t.Errorf("%v: logged %q", tc.err, log.String())
		}
	}
}

// baseFor returns a base that can only answer failures.
func baseFor(upgrade string, log io.Writer) *Base {
	s := &Base{upgrade: upgrade, log: slog.New(slog.NewTextHandler(log, nil))}
	s.publicURL.Store(new("http://quire.example"))
	return s
}

func TestFailuresSayMoreWhereItApplies(t *testing.T) {
	limited := func(kind fault.Kind, limit int64) *fault.Error {
		e := fault.New(kind, "no")
		e.QuotaKey, e.Limit = "pastes.get", &limit
		return e
	}
	reset := limited(fault.QuotaExhausted, 3000)
	reset.ResetMs = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	for _, tc := range []struct {
		err        error
		upgradeURL string // of the configuration
		want       string // the members between requestId and docs
	}{
		{NotFound(), "", ``},
		{httperr.UnknownField("titel", "tags", "title"), "", `"field":"titel","suggestion":"did you mean ` + "`title`" + `?",`},
		{httperr.InvalidField("title", "is wrong"), "", `"field":"title",`},
		{httperr.OverLimit("content", 262144, "is too long"), "", `"field":"content","limit":262144,`},
		{limited(fault.PlanUpgradeRequired, 0), "", `"quotaKey":"pastes.get","limit":0,"upgradeUrl":"http://quire.example/console/plan?quotaKey=pastes.get",`},
		{reset, "https://shop.example/plans", `"quotaKey":"pastes.get","limit":3000,"resetAt":"2026-12-01T00:00:00.000Z","upgradeUrl":"https://shop.example/plans",`},
		{limited(fault.AnonymousLimit, 10), "https://shop.example/plans", `"quotaKey":"pastes.get","limit":10,`},
	} {
		var ctx fasthttp.RequestCtx
		ctx.Response.Header.Set("X-Request-Id", "the id")
		baseFor(tc.upgradeURL, io.Discard).Fail(&ctx, "", tc.err)
		_, got, _ := strings.Cut(string(ctx.Response.Body()), `"requestId":"the id",`)
		got, docs, _ := strings.Cut(got, `"docs":`)
		if got != tc.want || docs == "" {
			t.Errorf("%v: %s, want %s", tc.err, ctx.Response.Body(), tc.want)
		}
	}
}

// TestFailuresForATerminalAreText: the route's mark must outlive its handler, which a panic ends before the answer.
func TestFailuresForATerminalAreText(t *testing.T) {
	for _, tc := range []struct {
		accept string
		json   bool
	}{
		{"", false},
		{"*/*", false},
		{"text/plain, application/json;q=0.5", false},
		{"application/json", true},
		{"application/json; charset=utf-8, text/plain;q=0.9", true},
	} {
		var ctx fasthttp.RequestCtx
		ctx.Request.Header.Set("Accept", tc.accept)
		ctx.SetUserValue(failsAsText{}, true)
		baseFor("", io.Discard).Fail(&ctx, "", NotFound())
		isJSON := bytes.HasPrefix(ctx.Response.Body(), []byte(`{"success":false`))
		if isJSON != tc.json || !isJSON && string(ctx.Response.Body()) != "error: "+NotFound().Message+"\n" {
			t.Errorf("Accept %q: %q", tc.accept, ctx.Response.Body())
		}
		if typed := string(ctx.Response.Header.ContentType()); strings.HasPrefix(typed, "application/json") != tc.json {
			t.Errorf("Accept %q: %s", tc.accept, typed)
		}
	}
}

func TestErrorsOfHTTPInAreFaults(t *testing.T) {
	for code, status := range map[string]int{
		httperr.CodeMalformed: 400, httperr.CodeUnknownField: 400, httperr.CodeInvalidField: 400, httperr.CodeNotFound: 404,
		httperr.CodeMethodNotAllowed: 405, httperr.CodeRequestTimeout: 408, httperr.CodeVersionMismatch: 412, httperr.CodeTooLarge: 413,
		httperr.CodeUnsupportedMediaType: 415, httperr.CodeRangeNotSatisfiable: 416, httperr.CodeHeadersTooLarge: 431,
		httperr.CodeInternal: 500, httperr.CodeUnavailable: 503,
	} {
		err := fmt.Errorf("wrapped: %w", &httperr.Error{Status: status, Code: code})
		if kind := fault.KindOf(err); string(kind) != code || kind.Status() != status {
			t.Errorf("%s is %s, %d", code, kind, kind.Status())
		}
	}
}
