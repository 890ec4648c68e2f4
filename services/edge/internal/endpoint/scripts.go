package endpoint

import (
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"quire.dev/services/edge/internal/fault"
)

// CORS headers: see docs/api.md, From a browser's script. No answer allows credentials, so browsers send neither cookies nor
// logins.
const (
	scriptRequestHeaders = "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, If-Range, Range, " +
		headerAPIKey + ", " + HeaderManageToken + ", " + HeaderPassword
	scriptAnswerHeaders = "Accept-Ranges, Allow, Content-Disposition, Content-Length, Content-Range, ETag, " + HeaderReplayed +
		", Last-Modified, Location, " + HeaderRateLimit + ", " + HeaderRateLimitPolicy + ", Retry-After, WWW-Authenticate, " +
		HeaderChargeSource + ", " + HeaderCreditsBalance + ", " + HeaderCreditsCost + ", " + HeaderQuotaRemaining + ", " + HeaderReceipt + ", X-Request-Id"
	preflightSeconds = "7200" // the longest that Chromium caches an answer
)

// Scripts says when a page of another site may read a route's answers.
type Scripts uint8

const (
	NeverScripts Scripts = iota
	KeyedScripts         // with an API key: neither a cookie nor a keyless allowance is at stake
	AnyScripts           // always: the answer is public
)

// Scripts derives the setting from the kind of route, so that none can be forgotten.
func (r *Row) Scripts() Scripts {
	switch {
	case strings.HasPrefix(r.Path, "/api/dev/"):
		return KeyedScripts
	case strings.HasSuffix(r.Path, "/raw"), strings.HasPrefix(r.Path, "/log/"):
		return AnyScripts
	}
	return NeverScripts
}

// readableByScripts marks a request whose answer a page of another site may read. The mark is on the request, so that it
// holds after a panic too.
type readableByScripts struct{}

// allowScripts lets a page of another site read the answer if allowed. Calls from elsewhere cost one look at a header.
func allowScripts(c *fiber.Ctx, when Scripts) {
	ctx := c.Context()
	switch when {
	case NeverScripts:
		return
	case KeyedScripts:
		if len(ctx.Request.Header.Peek(fiber.HeaderOrigin)) == 0 {
			return
		}
		if _, sent := sentKey(c); !sent {
			return
		}
	}
	ctx.SetUserValue(readableByScripts{}, true)
	setScriptHeaders(ctx)
}

func setScriptHeaders(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.Set(fiber.HeaderAccessControlAllowOrigin, "*")
	ctx.Response.Header.Set(fiber.HeaderAccessControlExposeHeaders, scriptAnswerHeaders)
}

// HandlePreflights adds OPTIONS to the paths whose answers scripts may read.
func (s *Base) HandlePreflights(routes []Row) {
	methods := make(map[string][]string)
	for _, r := range routes {
		methods[r.Path] = append(methods[r.Path], r.Method)
		if r.Method == fiber.MethodGet {
			methods[r.Path] = append(methods[r.Path], fiber.MethodHead)
		}
	}
	for _, r := range routes {
		allowed := methods[r.Path]
		if r.Scripts() == NeverScripts || allowed == nil {
			continue
		}
		delete(methods, r.Path)
		s.http.Handle(fiber.MethodOptions, r.Path, preflight(strings.Join(allowed, ", "), r.Scripts() == AnyScripts || r.Who == APIKey))
	}
}

// preflight answers whether a script may send a request. The API key is not known at this point, but a script that sends one
// asks for the header. always is for paths where nothing is at stake without a key.
func preflight(methods string, always bool) fiber.Handler {
	return func(c *fiber.Ctx) error {
		c.Set(fiber.HeaderAllow, methods+", "+fiber.MethodOptions)
		c.Status(fiber.StatusNoContent)
		if always || asksForKey(c) {
			allowRequest(c, methods)
		}
		return nil
	}
}

// allowRequest lets a script send the request of a preflight. It returns false for other calls.
func allowRequest(c *fiber.Ctx, methods string) bool {
	if c.Get(fiber.HeaderOrigin) == "" || c.Get(fiber.HeaderAccessControlRequestMethod) == "" {
		return false
	}
	c.Set(fiber.HeaderAccessControlAllowOrigin, "*")
	c.Set(fiber.HeaderAccessControlAllowMethods, methods)
	c.Set(fiber.HeaderAccessControlAllowHeaders, scriptRequestHeaders)
	c.Set(fiber.HeaderAccessControlMaxAge, preflightSeconds)
	return true
}

// failing lets a script with an API key read the 404 or 405 of an API path without a matching route, and answers the
// preflight of a path that does not exist, so that the script can read its 404. It is httpin.Config.Failing.
func (s *Base) failing(c *fiber.Ctx, err error) (answered bool) {
	if !strings.HasPrefix(c.Path(), "/api/dev/") {
		return false
	}
	allowScripts(c, KeyedScripts)
	if c.Method() != fiber.MethodOptions || fault.KindOf(err) != fault.NotFound || !asksForKey(c) ||
		!allowRequest(c, "GET, HEAD, POST, PUT, DELETE") {
		return false
	}
	c.Status(fiber.StatusNoContent)
	return true
}

// asksForKey reports whether a script wants to send an API key header.
func asksForKey(c *fiber.Ctx) bool {
	for name := range strings.SplitSeq(c.Get(fiber.HeaderAccessControlRequestHeaders), ",") {
		name = strings.TrimSpace(name)
		if strings.EqualFold(name, headerAPIKey) || strings.EqualFold(name, fiber.HeaderAuthorization) {
			return true
		}
	}
	return false
}
