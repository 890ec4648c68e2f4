package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
)

// TestFailuresAreAnsweredInTheAPIsShape: docs/api.md, Shape of every answer.
func TestFailuresAreAnsweredInTheAPIsShape(t *testing.T) {
	for _, tc := range []struct {
		err           error
		status        int
		code          string
		retry, logged bool
	}{
		{notFound(), 404, "not_found", false, false},
		{fmt.Errorf("read: %w", httpin.Malformed("no")), 400, "malformed", false, false},
		{unavailable(errors.New("the disk")), 503, "unavailable", true, true},
		{fault.New(fault.OutcomeUnknown, "who knows"), 504, "outcome_unknown", true, false},
		{errors.New("a secret"), 500, "internal", false, true},
	} {
		var log bytes.Buffer
		s := &Server{log: slog.New(slog.NewTextHandler(&log, nil))}
		var ctx fasthttp.RequestCtx
		s.fail(&ctx, "/x/:id", tc.err)
		var body struct {
			Success      *bool
			Reason, Code string
		}
		if err := json.Unmarshal(ctx.Response.Body(), &body); err != nil {
			t.Fatalf("%s: %v", ctx.Response.Body(), err)
		}
		if ctx.Response.StatusCode() != tc.status || body.Code != tc.code || body.Reason == "" || body.Success == nil || *body.Success {
			t.Errorf("%v: %d %s", tc.err, ctx.Response.StatusCode(), ctx.Response.Body())
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

func TestErrorsOfHTTPInAreFaults(t *testing.T) {
	for code, status := range map[string]int{
		httpin.CodeMalformed: 400, httpin.CodeUnknownField: 400, httpin.CodeInvalidField: 400, httpin.CodeNotFound: 404,
		httpin.CodeMethodNotAllowed: 405, httpin.CodeRequestTimeout: 408, httpin.CodeTooLarge: 413,
		httpin.CodeUnsupportedMediaType: 415, httpin.CodeRangeNotSatisfiable: 416, httpin.CodeHeadersTooLarge: 431,
		httpin.CodeInternal: 500, httpin.CodeUnavailable: 503,
	} {
		err := fmt.Errorf("wrapped: %w", &httpin.Error{Status: status, Code: code})
		if kind := fault.KindOf(err); string(kind) != code || kind.Status() != status {
			t.Errorf("%s is %s, %d", code, kind, kind.Status())
		}
	}
}
