package web

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/httpin/headers"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/limit"
	"quire.dev/services/edge/internal/pages"
)

// call is a request with the results of the checks that its route asks for. It is the handler's alone, and no longer
// than the handler runs: fiber uses the buffers behind fiber.Ctx again.
type call struct {
	*fiber.Ctx
	route *route
	who   caller
	admin string // name of the admin token; empty for other callers
	idem  []byte // the id of the Idempotency-Key; nil where none was sent
	// otherIdems are the ids that a keyless call's Idempotency-Key has by the other secrets that are accepted.
	otherIdems [][]byte
	json       []byte // the body, where the route says that it is a JSON object
	form       []byte // the body, where the route says that it is a form
	hash       uint64 // see bodyHash; 0 where the handler reads the body

	kept     bool    // see keepAccount
	metered  metered // see meter
	download bool    // the content is to be saved

	turn limit.Turn // of the rate of calls that no quota counts: see admitNetwork
	free bool       // no quota counts the call
}

// serve is a route as fiber calls it.
func (s *Server) serve(r *route) fiber.Handler {
	when := r.scripts()
	return func(ctx *fiber.Ctx) error {
		if !r.rules.has(content) && s.onContentHost(ctx) {
			return notFound()
		}
		c := &call{Ctx: ctx, route: r}
		allowScripts(ctx, when)
		if r.rules.has(terminal) {
			ctx.Context().SetUserValue(failsAsText{}, true)
		}
		returned := false
		defer func() {
			if !returned {
				c.metered.abort() // the handler panicked
			}
		}()
		err := s.check(c)
		if err == nil {
			err = r.handle(c)
		}
		returned = true
		s.endTurn(c, err)
		if err != nil && r.rules.has(html) && pages.WantsHTML(ctx) {
			return s.failurePage(ctx, err)
		}
		return err
	}
}

// check authenticates the call and checks the request itself: docs/api.md, Order of checks, 2 and 3. The handler does the
// rest of 3.
func (s *Server) check(c *call) error {
	r := c.route
	if r.rules.has(limited) {
		if err := s.admitView(s.http.Source(c.Ctx)); err != nil {
			return err
		}
	}
	if err := s.admitNetwork(c); err != nil {
		return err
	}
	if err := s.authenticate(c); err != nil {
		return err
	}
	if err := s.admitAccount(c); err != nil {
		return err
	}
	if r.rules.has(idempotent | repeatable) {
		if err := s.readIdempotencyKey(c); err != nil {
			return err
		}
	}
	if !r.rules.has(ownQuery | anyQuery) {
		if err := input.NoQuery(c.Ctx); err != nil {
			return err
		}
	}
	if err := s.readBody(c); err != nil {
		return err
	}
	if r.rules.has(command) {
		return s.admitChange(c.who.account)
	}
	return nil
}

// authenticate finds the caller. Billing says later whether an API key is still the account's current one.
func (s *Server) authenticate(c *call) error {
	switch c.route.who {
	case apiKey, keyOrKeyless, keyOrToken, keyOrSession:
		found, err := s.readKey(c)
		if err != nil || found {
			return err
		}
		return s.authenticateWithoutKey(c)
	case anybody, sessionOrNone, adminPage:
		return s.sameOrigin(c)
	case session:
		return s.readSession(c)
	case admin:
		return s.requireAdmin(c)
	}
	return nil
}

func (s *Server) authenticateWithoutKey(c *call) error {
	switch c.route.who {
	case keyOrKeyless:
		// A page that a visitor happens to see must not use up the visitor's allowance.
		if err := s.sameOrigin(c); err != nil {
			return err
		}
		c.who = caller{network: s.network(c.Ctx), anonymous: true}
		return nil
	case keyOrToken:
		c.who = caller{network: s.network(c.Ctx), anonymous: true, token: strings.Clone(c.Get(headerManageToken))}
		if c.who.token == "" {
			return fault.New(fault.ManageTokenRequired, "Management token required")
		}
		return nil
	case keyOrSession:
		if len(c.Request().Header.Cookie(s.cookieName(c.Ctx))) > 0 {
			return s.readSession(c)
		}
	}
	return fault.New(fault.APIKeyRequired, "API key required")
}

// readBody reads the body where the route says that it is short and of one form.
func (s *Server) readBody(c *call) (err error) {
	b := c.route.body
	switch b {
	case noBody:
		if c.route.rules.has(idempotent) {
			c.hash = bodyHash(c.Ctx, nil)
		}
	case empty:
		c.hash = bodyHash(c.Ctx, nil)
		body, err := s.http.ReadBody(c.Ctx, b.limit())
		if err != nil || len(body) == 0 {
			return err
		}
		if err := headers.RequireJSON(c.Ctx); err != nil {
			return err
		}
		return input.ParseObject(body, input.Fields(nil).Set)
	case fields:
		if err := headers.RequireJSON(c.Ctx); err != nil {
			return err
		}
		c.json, err = s.http.ReadBody(c.Ctx, b.limit())
		c.hash = bodyHash(c.Ctx, c.json)
		c.json = orObject(c.json)
		return err
	case pasteJSON, quickJSON:
		return headers.RequireJSON(c.Ctx)
	case form:
		if c.form, err = s.http.ReadBody(c.Ctx, b.limit()); err != nil || len(c.form) == 0 {
			return err
		}
		if name, charset, _ := headers.MediaType(c.Ctx); name != fiber.MIMEApplicationForm || !headers.UTF8(charset) {
			return httperr.UnsupportedMediaType("Content-Type must be application/x-www-form-urlencoded, in UTF-8.")
		}
	}
	return nil
}

// orObject is the body, or an object without members where there is none: the answer then names the field that is missing.
func orObject(body []byte) []byte {
	if len(body) == 0 {
		return []byte("{}")
	}
	return body
}

// id is the id of the request.
func (c *call) id() event.RequestID {
	id, _ := event.ParseRequestID(httpin.RequestID(c.Ctx)) // New has it made by event.NewRequestID
	return id
}

// hungUp tells whether the client has gone.
func (c *call) hungUp() bool { return httpin.HungUp(c.Ctx) }

// param is a parameter of the path that outlives the call.
func (c *call) param(name string) string { return strings.Clone(c.Params(name)) }
