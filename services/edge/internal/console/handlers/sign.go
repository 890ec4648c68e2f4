package handlers

import (
	"crypto/rand"
	"errors"
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
		next := strings.Clone(c.Path())
		if c.Row.Rules.Has(endpoint.OwnQuery) {
			if query := c.Context().QueryArgs().String(); query != "" {
				next += "?" + query
			}
		}
		return redirect(c.Ctx, console.SignInPath+(&console.Sign{Next: next}).Query())
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

func (s *Handlers) showSignUp(c *endpoint.Call) error {
	return s.showSign(c, console.SignUpForm, s.console.SignUp)
}

func (s *Handlers) showSignIn(c *endpoint.Call) error {
	return s.showSign(c, console.SignInForm, s.console.SignIn)
}

// signForm makes the form of a page with credentials.
type signForm func(email, once string) *console.Form

// showSignPage shows a page with credentials.
type showSignPage func(*fiber.Ctx, int, *console.Sign) error

// showSign shows an empty form. A reader with a session is redirected.
func (s *Handlers) showSign(c *endpoint.Call, form signForm, show showSignPage) error {
	next := nextPath(c.Query("next"))
	if s.ReadSession(c) == nil {
		return redirect(c.Ctx, next)
	}
	return show(c.Ctx, fiber.StatusOK, &console.Sign{Form: form("", rand.Text()), Next: strings.Clone(next), Unsent: c.Query(console.UnsentQuery) != ""})
}

// signUpFromPage creates an account, as registerUser does, and its API key, as regenerateKey does.
func (s *Handlers) signUpFromPage(c *endpoint.Call) error {
	return s.sign(c, accounts.AccountPasswordMin, console.SignUpForm, s.console.SignUp, func(sent accounts.Credentials, page *console.Sign) error {
		u, _, err := s.accounts.SignUp(c, sent)
		if err != nil {
			return err
		}
		if page.Next != console.Path {
			return s.goOn(c, page)
		}
		c.Who = endpoint.Caller{Account: event.AccountID(u.Account)}
		if once := page.Form.Once; once != "" {
			c.Idem = onceID(c.Who.Account, fiber.MethodPost, console.KeyPath, once)
		}
		made, err := s.accounts.MakeKey(c, c.Who.Account)
		if err != nil {
			return s.goOn(c, page) // the account exists, and its page can create a key
		}
		return s.showNewKey(c, &console.NewKey{APIKey: made.APIKey, Welcome: true}, nil)
	})
}

// signInFromPage opens a session, as login does.
func (s *Handlers) signInFromPage(c *endpoint.Call) error {
	return s.sign(c, 1, console.SignInForm, s.console.SignIn, func(sent accounts.Credentials, page *console.Sign) error {
		_, _, err := s.accounts.SignIn(c, sent, false)
		if deletion, ok := errors.AsType[*accounts.Scheduled](err); ok && pages.WantsHTML(c.Ctx) {
			s.Fail(c.Context(), c.Route().Path, err)
			return s.console.KeepAccount(c.Ctx, &console.KeepAccount{
				Email: sent.Email, DeletesMs: deletion.DeletesMs(), Proof: deletion.Proof, Next: page.Next,
			})
		}
		if err != nil {
			return err
		}
		return s.goOn(c, page)
	})
}

// keepAccountFromPage signs in and cancels the deletion of the account, as login does with cancelDeletion. The page that asks
// has a proof of the sign-in in place of the password.
func (s *Handlers) keepAccountFromPage(c *endpoint.Call) error {
	var proof, next string
	if err := input.ParseForm(c.Form, input.Fields{"proof": input.To(&proof, input.StringField), "next": input.To(&next, input.StringField)}); err != nil {
		return err
	}
	page := &console.Sign{Form: console.SignInForm("", ""), Next: nextPath(next)}
	if err := s.accounts.SignInKeeping(c, proof); err != nil {
		if !pages.WantsHTML(c.Ctx) {
			return err
		}
		return s.refuseSign(c, page, s.console.SignIn, err)
	}
	return s.goOn(c, page)
}

// goOn redirects a signed-in user to the page they asked for.
func (s *Handlers) goOn(c *endpoint.Call, page *console.Sign) error {
	if c.Kept {
		return redirect(c.Ctx, console.Done(console.Path, "kept"))
	}
	return redirect(c.Ctx, page.Next)
}

// sign handles a form with credentials. A refused one is shown again.
func (s *Handlers) sign(c *endpoint.Call, shortest int, form signForm, show showSignPage, do func(accounts.Credentials, *console.Sign) error) error {
	var email, password, next, once string
	err := input.ParseForm(c.Form, input.Fields{
		"email": input.To(&email, input.StringField), "password": input.To(&password, input.StringField),
		"next": input.To(&next, input.StringField), "once": input.To(&once, input.StringField),
	})
	if err != nil { // browsers send no such form
		return err
	}
	email = strings.TrimSpace(email)
	page := &console.Sign{Form: form(email, once), Next: nextPath(next)}
	sent, err := accounts.ReadCredentials(input.List(textField("email", email), textField("password", password)), shortest)
	if err == nil {
		err = s.readOnce(c, once)
	}
	if err == nil {
		err = do(sent, page)
	}
	if err == nil || !pages.WantsHTML(c.Ctx) {
		return err
	}
	return s.refuseSign(c, page, show, err)
}

// refuseSign shows the form again, without the password and with the error beside its field. The form keeps its Once if the
// account may exist, so that resending it creates no other.
func (s *Handlers) refuseSign(c *endpoint.Call, page *console.Sign, show showSignPage, err error) error {
	e := endpoint.AsFault(err)
	s.Fail(c.Context(), c.Route().Path, e)
	page.Form.Once = onceAfter(page.Form.Once, e.Kind)
	refuse(page.Form, e)
	return show(c.Ctx, e.Kind.Status(), page)
}

// signOutFromPage closes the session, as logout does.
func (s *Handlers) signOutFromPage(c *endpoint.Call) error {
	if err := input.ParseForm(c.Form, nil); err != nil {
		return err
	}
	return redirectAfter(s.accounts.SignOut(c), c, "/")
}
