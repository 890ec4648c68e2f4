package handlers

import (
	"crypto/rand"
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/pages"
)

// maxNextBytes is above the length of every path of ours.
const maxNextBytes = 1 << 10

// showStatement shows the printable statement of a month of the session's account. An invalid or future month, or one before
// the account existed, is 404.
func (s *Handlers) showStatement(c *endpoint.Call) error {
	period := c.Param("period")
	start, err := accounts.ParsePeriod(period)
	if err != nil {
		return endpoint.NotFound()
	}
	u, err := s.UsageOf(c, c.Who.Account, &event.UsageQuery{})
	if err != nil {
		return err
	}
	holder, err := s.holder(c)
	if err != nil {
		return err
	}
	a, err := s.accounts.StatementOf(c, period)
	if err != nil {
		return err
	}
	return s.console.Statement(c.Ctx, &console.Statement{
		Holder: holder, Number: accounts.StatementNumber(c.Who.Account, period), Start: start, Answer: a, Created: u.CreatedMs, Present: u.PeriodStartMs, Operator: s.operator,
	})
}

// showStatementTable answers with the lines of a statement in CSV.
func (s *Handlers) showStatementTable(c *endpoint.Call) error {
	return s.accounts.StatementTable(c, c.Param("period"))
}

// signInFirst redirects a reader without a session to the sign-in form, and from there to the page they asked for. It tells a
// reader who sent a form that nothing was done. Other failures of the session are returned.
func (s *desk) signInFirst(c *endpoint.Call, err error) error {
	if fault.KindOf(err) != fault.SessionRequired {
		return err
	}
	if c.Method() == fiber.MethodGet {
		return redirect(c.Ctx, console.SignInPath+(&console.Sign{Next: c.Path()}).Query())
	}
	form := &console.Sign{Next: console.SectionOf(c.Path())}
	return redirect(c.Ctx, console.SignedOut(form.Query()))
}

// redirectAfter redirects a browser if an operation has succeeded.
func redirectAfter(err error, c *endpoint.Call, path string) error {
	if err != nil {
		return err
	}
	return redirect(c.Ctx, path)
}

// redirect redirects a browser to a path of ours, with GET.
func redirect(c *fiber.Ctx, path string) error {
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderLocation, path)
	c.Status(fiber.StatusSeeOther)
	return nil
}

// nextPath is the path to continue to, from a link or a form. One that leads to another site is ignored.
func nextPath(next string) string {
	to, err := url.Parse(next)
	switch {
	case err != nil, len(next) > maxNextBytes, to.Scheme != "", to.Host != "", to.User != nil, to.Opaque != "",
		!strings.HasPrefix(next, "/"), strings.HasPrefix(next, "//"), strings.ContainsAny(next, "\\\r\n\t"), input.HasControl(next):
		return console.Path
	case to.Path == console.SignInPath, to.Path == console.SignUpPath: // these continue to other pages themselves
		return console.Path
	}
	return next
}

func (s *Handlers) showSignUp(c *endpoint.Call) error { return s.showSign(c, s.console.SignUp) }

func (s *Handlers) showSignIn(c *endpoint.Call) error { return s.showSign(c, s.console.SignIn) }

// showSign shows an empty form. A reader with a session is redirected.
func (s *Handlers) showSign(c *endpoint.Call, show func(*fiber.Ctx, int, *console.Sign) error) error {
	next := nextPath(c.Query("next"))
	if s.ReadSession(c) == nil {
		return redirect(c.Ctx, next)
	}
	return show(c.Ctx, fiber.StatusOK, &console.Sign{Next: strings.Clone(next), Once: rand.Text(), Unsent: c.Query(console.UnsentQuery) != ""})
}

// signUpFromPage creates an account, as registerUser does, and its API key, as regenerateKey does.
func (s *Handlers) signUpFromPage(c *endpoint.Call) error {
	return s.sign(c, accounts.AccountPasswordMin, s.console.SignUp, func(sent accounts.Credentials, form *console.Sign) error {
		u, _, err := s.accounts.SignUp(c, sent)
		if err != nil {
			return err
		}
		if c.Kept || form.Next != console.Path {
			return s.goOn(c, form)
		}
		c.Who = endpoint.Caller{Account: event.AccountID(u.Account)}
		if form.Once != "" {
			c.Idem = onceID(c.Who.Account, fiber.MethodPost, console.KeyPath, form.Once)
		}
		made, err := s.accounts.MakeKey(c, c.Who.Account)
		if err != nil {
			return s.goOn(c, form) // the account exists, and its page can create a key
		}
		return s.showNewKey(c, &console.NewKey{APIKey: made.APIKey, Welcome: true}, nil)
	})
}

// signInFromPage opens a session, as login does.
func (s *Handlers) signInFromPage(c *endpoint.Call) error {
	return s.sign(c, 1, s.console.SignIn, func(sent accounts.Credentials, form *console.Sign) error {
		if _, _, err := s.accounts.SignIn(c, sent); err != nil {
			return err
		}
		return s.goOn(c, form)
	})
}

// goOn redirects a signed-in user to the page they asked for.
func (s *Handlers) goOn(c *endpoint.Call, form *console.Sign) error {
	if c.Kept {
		return redirect(c.Ctx, console.Done(console.Path, "kept"))
	}
	return redirect(c.Ctx, form.Next)
}

// sign handles a form with credentials. A refused one is shown again.
func (s *Handlers) sign(c *endpoint.Call, shortest int, show func(*fiber.Ctx, int, *console.Sign) error, do func(accounts.Credentials, *console.Sign) error) error {
	var email, password, next, once string
	err := input.ParseForm(c.Form, input.Fields{
		"email": input.To(&email, input.StringField), "password": input.To(&password, input.StringField),
		"next": input.To(&next, input.StringField), "once": input.To(&once, input.StringField),
	})
	if err != nil { // browsers send no such form
		return err
	}
	email = strings.TrimSpace(email)
	form := &console.Sign{Email: email, Next: nextPath(next), Once: once}
	sent, err := accounts.ReadCredentials(input.List(textField("email", email), textField("password", password)), shortest)
	if err == nil {
		err = s.readOnce(c, once)
	}
	if err == nil {
		err = do(sent, form)
	}
	if err == nil || !pages.WantsHTML(c.Ctx) {
		return err
	}
	return s.refuseSign(c, form, show, err)
}

// refuseSign shows the form again, without the password and with the error beside its field. The form keeps its Once if the
// account may exist, so that resending it creates no other.
func (s *Handlers) refuseSign(c *endpoint.Call, form *console.Sign, show func(*fiber.Ctx, int, *console.Sign) error, err error) error {
	s.Fail(c.Context(), c.Route().Path, err)
	e := endpoint.AsFault(err)
	field, message := e.Field, e.Message
	switch {
	case e.Kind == fault.EmailTaken:
		field = "email"
	case field == "email":
		message = strings.Replace(message, field, "The email", 1)
	case field == "password":
		message = strings.Replace(message, field, "The password", 1)
	default:
		field = ""
	}
	form.Once = onceAfter(form.Once, e.Kind)
	form.Errors = map[string]string{field: message}
	return show(c.Ctx, e.Kind.Status(), form)
}

// signOutFromPage closes the session, as logout does.
func (s *Handlers) signOutFromPage(c *endpoint.Call) error {
	if err := input.ParseForm(c.Form, nil); err != nil {
		return err
	}
	return redirectAfter(s.accounts.SignOut(c), c, "/")
}
