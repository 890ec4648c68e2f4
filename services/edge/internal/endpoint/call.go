package endpoint

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/httpin/headers"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/limit"
	"quire.dev/services/edge/internal/pages"
)

// Call is a request with the results of its route's checks. Only the handler may use it, and only while it runs: fiber reuses
// the buffers behind fiber.Ctx.
type Call struct {
	*fiber.Ctx
	Row   *Row
	Who   Caller
	Admin string // name of the admin token; empty for other callers
	Idem  []byte // id of the Idempotency-Key; nil without one
	// OtherIdems are the ids of a keyless call's Idempotency-Key under the other accepted secrets.
	OtherIdems [][]byte
	Fields     []byte // the body, if the route takes a JSON object
	Form       []byte // the body, if the route takes a form
	Hash       uint64 // see BodyHash; 0 if the handler reads the body

	id      event.RequestID // of idText, see ID
	idText  string
	Timing  bus.Timing // of what the handler asked other services
	failure fault.Kind // of the handler; empty: none
	group   group

	Kept     bool    // a sign-in has canceled the deletion of the account
	metered  Metered // see meter
	Download bool    // the content is to be saved as a file

	turn limit.Turn // of the rate limit of unmetered calls: see admitNetwork
	free bool       // no quota counts the call
}

// Handler wraps a route's checks and handler for fiber.
func (s *Base) Handler(r *Row) fiber.Handler {
	when, group := r.Scripts(), groupOf(r)
	return func(ctx *fiber.Ctx) error {
		if !r.Rules.Has(Content) && s.OnContentHost(ctx) {
			return NotFound()
		}
		c := &Call{Ctx: ctx, Row: r, group: group}
		httpin.Note(ctx, c)
		if s.traces != nil {
			s.beginTrace(c)
		}
		allowScripts(ctx, when)
		if r.Rules.Has(Terminal) {
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
			err = r.Handle(c)
		}
		returned = true
		if err != nil {
			c.failure = fault.KindOf(err)
		}
		s.endTurn(c, err)
		s.report(c)
		if err != nil && r.Rules.Has(HTML) && pages.WantsHTML(ctx) {
			return s.FailurePage(ctx, err)
		}
		return err
	}
}

// check authenticates the call and validates the request: steps 2 and 3 of docs/api.md, Order of checks. The handler does the
// rest of 3.
func (s *Base) check(c *Call) error {
	r := c.Row
	if r.Rules.Has(Limited) {
		if err := s.AdmitView(s.http.Source(c.Ctx)); err != nil {
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
	if r.Rules.Has(Idempotent | Repeatable) {
		if err := s.readIdempotencyKey(c); err != nil {
			return err
		}
	}
	if !r.Rules.Has(OwnQuery | AnyQuery) {
		if err := input.NoQuery(c.Ctx); err != nil {
			return err
		}
	}
	if err := s.readBody(c); err != nil {
		return err
	}
	if r.Rules.Has(Command) {
		return s.AdmitChange(c.Who.Account)
	}
	return nil
}

// authenticate identifies the caller. Billing confirms later that an API key is still the account's current one.
func (s *Base) authenticate(c *Call) error {
	switch c.Row.Who {
	case APIKey, KeyOrKeyless, KeyOrVisitor, KeyOrToken, KeyOrSession:
		found, err := s.readKey(c)
		if err != nil || found {
			return err
		}
		return s.authenticateWithoutKey(c)
	case Anybody, SessionOrNone, AdminPage:
		return s.sameOrigin(c)
	case Session:
		return s.ReadSession(c)
	case Admin:
		return s.requireAdmin(c)
	}
	return nil
}

func (s *Base) authenticateWithoutKey(c *Call) error {
	switch c.Row.Who {
	case KeyOrKeyless, KeyOrVisitor:
		// A page of another site must not use up its visitor's allowance.
		if err := s.sameOrigin(c); err != nil {
			return err
		}
		if c.Row.Who == KeyOrVisitor {
			account, err := s.SessionAccount(c.Ctx)
			if err != nil || account != 0 {
				c.Who = Caller{Account: account}
				return err
			}
		}
		c.Who = Caller{network: s.Network(c.Ctx), Anonymous: true}
		return nil
	case KeyOrToken:
		c.Who = Caller{network: s.Network(c.Ctx), Anonymous: true, Token: strings.Clone(c.Get(HeaderManageToken))}
		if c.Who.Token == "" {
			return fault.New(fault.ManageTokenRequired, "Management token required")
		}
		return nil
	case KeyOrSession:
		if len(c.Request().Header.Cookie(s.cookieName(c.Ctx))) > 0 {
			return s.ReadSession(c)
		}
	}
	return fault.New(fault.APIKeyRequired, "API key required")
}

// readBody reads the body if the route takes a short one in a single format.
func (s *Base) readBody(c *Call) (err error) {
	b := c.Row.Body
	switch b {
	case NoBody:
		if c.Row.Rules.Has(Idempotent) {
			c.Hash = BodyHash(c.Ctx, nil)
		}
	case Empty:
		c.Hash = BodyHash(c.Ctx, nil)
		body, err := s.http.ReadBody(c.Ctx, b.Limit())
		if err != nil || len(body) == 0 {
			return err
		}
		if err := headers.RequireJSON(c.Ctx); err != nil {
			return err
		}
		return input.ParseObject(body, input.Fields(nil).Set)
	case Fields, BookJSON, WebhookJSON:
		if err := headers.RequireJSON(c.Ctx); err != nil {
			return err
		}
		c.Fields, err = s.http.ReadBody(c.Ctx, b.Limit())
		c.Hash = BodyHash(c.Ctx, c.Fields)
		c.Fields = OrObject(c.Fields)
		return err
	case PasteJSON, QuickJSON:
		return headers.RequireJSON(c.Ctx)
	case Form, BookForm:
		if c.Form, err = s.http.ReadBody(c.Ctx, b.Limit()); err != nil || len(c.Form) == 0 {
			return err
		}
		if name, charset, _ := headers.MediaType(c.Ctx); name != fiber.MIMEApplicationForm || !headers.UTF8(charset) {
			return httperr.UnsupportedMediaType("Content-Type must be application/x-www-form-urlencoded, in UTF-8.")
		}
	}
	return nil
}

// OrObject returns the body, or an empty object without one, so that the answer names the missing field.
func OrObject(body []byte) []byte {
	if len(body) == 0 {
		return []byte("{}")
	}
	return body
}

// ID is the id of the request.
func (c *Call) ID() event.RequestID {
	if text := httpin.RequestID(c.Ctx); text != c.idText {
		c.id, _ = event.ParseRequestID(text) // New's NewRequestID makes ids by event.NewRequestID
		c.idText = text
	}
	return c.id
}

// HungUp reports whether the client has disconnected.
func (c *Call) HungUp() bool { return httpin.HungUp(c.Ctx) }

// Param returns a copy of a path parameter, which outlives the call.
func (c *Call) Param(name string) string { return strings.Clone(c.Params(name)) }
