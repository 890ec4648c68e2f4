package endpoint

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/httpin/headers"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/pages"
)

// Unavailable is a 503 with a cause for the log.
func Unavailable(cause error) *fault.Error {
	return &fault.Error{Kind: fault.Unavailable, Message: httperr.UnavailableMessage, RetryAfter: 1, Cause: cause}
}

// FailedAt is a failure caused by a field, parameter or header.
func FailedAt(field string, kind fault.Kind, format string, args ...any) *fault.Error {
	e := fault.New(kind, format, args...)
	e.Field = field
	return e
}

// NotFound is 404. It does not tell what is not there from what belongs to somebody else.
func NotFound() *fault.Error {
	return fault.New(fault.NotFound, "Not found: it does not exist, was deleted, or belongs to another account.")
}

func accountSuspended() error {
	return fault.New(fault.AccountSuspended, "The account is suspended or scheduled for deletion, so its API keys are refused. Sign in to cancel a deletion.")
}

func accountQuarantined() error {
	return fault.New(fault.AccountQuarantined, "We found an error in the account's usage counters. Metered calls are refused until an administrator has checked them. Bills and documents are not affected.")
}

// keyScope is the error for a key without the scope, or with any scopes if that is unmetered.
func keyScope(key plan.QuotaKey) error {
	if key == Unmetered {
		return fault.New(fault.KeyScope, "This requires an API key without scopes, or a session.")
	}
	e := fault.New(fault.KeyScope, "The API key's scopes do not include %s.", key)
	if key.Valid() {
		e.QuotaKey = key.String()
	}
	return e
}

// AsFault returns err as an error of the API. Any other error becomes the cause of an internal one.
func AsFault(err error) *fault.Error {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return e
	}
	if in, ok := errors.AsType[*httperr.Error](err); ok {
		out := &fault.Error{Kind: fault.Kind(in.Code), Message: in.Message, FormText: in.FormText, RetryAfter: in.RetryAfter, Cause: in.Cause}
		out.Field, out.Suggestion = in.Field, in.Suggestion
		if in.Limit != 0 {
			out.Limit = &in.Limit
		}
		return out
	}
	return fault.New(fault.Internal, httperr.InternalMessage).Because(err)
}

// Fail answers a failed request. It is httpin.Config.Fail, the only place where errors become HTTP. An error with a receipt has
// its headers; AsFault is without.
func (s *Base) Fail(ctx *fasthttp.RequestCtx, route string, err error) {
	e := AsFault(err)
	h := &ctx.Response.Header
	status := e.Kind.Status()
	if with, ok := errors.AsType[*receipted](err); ok {
		with.receipt.SetHeaders(h)
	}
	s.LogFailure(ctx, route, e)
	h.Del(fiber.HeaderETag)
	h.Del(fiber.HeaderContentDisposition)
	retry := e.RetryAfter
	if retry == 0 && (e.Kind == fault.Unavailable || e.Kind == fault.OutcomeUnknown) {
		retry = 1
	}
	if retry > 0 {
		h.Set(fiber.HeaderRetryAfter, strconv.Itoa(retry))
	}
	if status == fiber.StatusUnauthorized {
		h.Set(fiber.HeaderWWWAuthenticate, `Bearer realm="quire"`)
	}
	if ctx.UserValue(readableByScripts{}) != nil {
		setScriptHeaders(ctx)
	}
	ctx.Response.ResetBody()
	ctx.SetStatusCode(status)
	h.Set(fiber.HeaderCacheControl, "no-store")
	if forTerminal(ctx) && !headers.Prefers(ctx, fiber.MIMEApplicationJSON, fiber.MIMETextPlain) {
		h.SetContentType(fiber.MIMETextPlainCharsetUTF8)
		ctx.SetBodyString("error: " + e.Message + "\n")
		return
	}
	h.SetContentType(contentTypeJSON)
	var room [failureBytes]byte
	ctx.SetBody(s.failureBody(room[:0], e, h.Peek(fiber.HeaderXRequestID)))
}

// LogFailure logs a failure that operators should know about.
func (s *Base) LogFailure(ctx *fasthttp.RequestCtx, route string, e *fault.Error) {
	if e.Kind.Status() >= fiber.StatusInternalServerError && e.Cause != nil {
		s.log.Error("request failed", "request", string(ctx.Response.Header.Peek(fiber.HeaderXRequestID)),
			"method", string(ctx.Method()), "route", route, "error", e.Error())
	}
}

// failsAsText marks a request whose failures are text for a terminal, unless it asks for JSON. The mark is on the request, so
// that it holds after a panic too.
type failsAsText struct{}

// forTerminal reports whether failures are text by default. Besides the routes marked so, these are requests that curl -T and
// mistyped commands send to missing paths: any PUT outside the API, and any method of /.
func forTerminal(ctx *fasthttp.RequestCtx) bool {
	if ctx.UserValue(failsAsText{}) != nil {
		return true
	}
	if ctx.IsGet() { // a header that could not be read counts as GET /
		return false
	}
	path := string(ctx.Path())
	if ctx.IsPut() {
		return path != "/api" && !strings.HasPrefix(path, "/api/")
	}
	return path == "/"
}

// failureBytes fits most failures.
const failureBytes = 768

// failureBody appends a failure in JSON to room: docs/api.md, Shape of every response.
func (s *Base) failureBody(room []byte, e *fault.Error, requestID []byte) []byte {
	o := append(Object(room), `{"success":false`...).Str("reason", e.Message).Str("code", string(e.Kind))
	o = AppendString(o.Key("requestId"), requestID)
	for _, member := range [...]struct{ name, value string }{
		{"field", e.Field}, {"suggestion", e.Suggestion}, {"quotaKey", e.QuotaKey},
	} {
		if member.value != "" {
			o = o.Str(member.name, member.value)
		}
	}
	if e.Limit != nil {
		o = o.Int("limit", *e.Limit)
	}
	if e.ResetMs != 0 {
		o = o.Time("resetAt", e.ResetMs)
	}
	if e.DeletesMs != 0 {
		o = o.Time("deletesAt", e.DeletesMs)
	}
	if e.Kind == fault.QuotaExhausted || e.Kind == fault.PlanUpgradeRequired {
		o = o.Str("upgradeUrl", s.upgradeURL(e.QuotaKey))
	}
	return o.StrOf("docs", *s.publicURL.Load(), "/docs/errors#", string(e.Kind)).End()
}

// PlanPath is the console's page about the plan.
const PlanPath = "/console/plan"

// UpgradePath is that page where a limit of quotaKey was reached.
func UpgradePath(quotaKey string) string { return PlanPath + "?quotaKey=" + quotaKey }

// upgradeURL is where clients get a plan with a higher limit of quotaKey.
func (s *Base) upgradeURL(quotaKey string) string {
	return cmp.Or(s.upgrade, s.URL(UpgradePath(quotaKey)))
}

var (
	errUnknownDecision = errors.New("unknown decision in a verdict")
	ErrUnknownOutcome  = errors.New("unknown status in an outcome")
	// ErrServedBefore means that a request with this Idempotency-Key was served a moment ago.
	ErrServedBefore = errors.New("served before")
)

// FailurePage answers as Fail does, with a page instead of JSON.
func (s *Base) FailurePage(c *fiber.Ctx, err error) error {
	s.Fail(c.Context(), c.Route().Path, err)
	e := AsFault(err)
	return s.pages.Failure(c, pages.Failure{
		Status: e.Kind.Status(), Reason: e.Message, Code: string(e.Kind), RequestID: httpin.RequestID(c),
	})
}
