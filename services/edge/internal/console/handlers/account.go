package handlers

import (
	"bytes"
	"crypto/rand"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
)

func (s *Handlers) showAccountPage(c *endpoint.Call) error {
	return s.showAccountWith(c, fiber.StatusOK, &console.Account{})
}

// showAccountWith shows the account page with a refused form; nil forms are new ones.
func (s *Handlers) showAccountWith(c *endpoint.Call, status int, shown *console.Account) (err error) {
	if shown.Usage, err = s.UsageOf(c, c.Who.Account, &event.UsageQuery{}); err != nil {
		return err
	}
	if shown.Holder, err = s.holder(c); err != nil {
		return err
	}
	sessions, err := s.accounts.SessionsOf(c)
	if err != nil {
		return err
	}
	current := apikey.HashToken(s.SessionToken(c.Ctx))
	for _, session := range sessions {
		shown.Sessions = append(shown.Sessions, console.Session{
			OpenSession: session, ID: accounts.SessionID(session.SessionHash), Current: bytes.Equal(session.SessionHash, current),
		})
	}
	account := shown.Holder.Account
	if shown.Email == nil {
		shown.Email = console.ChangeEmail(account, rand.Text())
	}
	if shown.Password == nil {
		shown.Password = console.ChangePassword(account, rand.Text())
	}
	if shown.Delete == nil {
		shown.Delete = console.DeleteAccount(account, rand.Text(), shown.Holder.Email)
	}
	if shown.End == nil {
		shown.End = console.EndSessions(account, "")
	}
	shown.Done = doneQuery(c)
	return s.console.Account(c.Ctx, status, shown)
}

// changeEmailFromPage changes the account's email, as changeEmail does.
func (s *Handlers) changeEmailFromPage(c *endpoint.Call) error {
	form := console.ChangeEmail(c.Who.Account.String(), "")
	return s.submit(c, form, submission{
		do: func() error {
			change, err := accounts.ReadEmailChange(fieldsOf(trimmed(form, "email"), "currentPassword", "email"))
			if err != nil {
				return err
			}
			return redirectAfter(s.accounts.NewEmail(c, change), c, console.Done(console.AccountPath, "email"))
		},
		show: func(status int) error { return s.showAccountWith(c, status, &console.Account{Email: form}) },
	})
}

// changePasswordFromPage changes the password, as changePassword does.
func (s *Handlers) changePasswordFromPage(c *endpoint.Call) error {
	form := console.ChangePassword(c.Who.Account.String(), "")
	return s.submit(c, form, submission{
		do: func() error {
			change, err := accounts.ReadPasswordChange(fieldsOf(form, "currentPassword", "password"))
			if err != nil {
				return err
			}
			return redirectAfter(s.accounts.NewPassword(c, change), c, console.Done(console.AccountPath, "password"))
		},
		show: func(status int) error { return s.showAccountWith(c, status, &console.Account{Password: form}) },
	})
}

// endSessionFromPage ends a session, as endSession does. Ending the current one leads to the sign-in form.
func (s *Handlers) endSessionFromPage(c *endpoint.Call) error {
	form := console.EndSessions(c.Who.Account.String(), "")
	return s.submit(c, form, submission{
		do: func() error {
			own, err := s.accounts.EndedSession(c)
			if err != nil {
				return err
			}
			if own {
				return redirect(c.Ctx, console.SignInPath)
			}
			return redirect(c.Ctx, console.Done(console.AccountPath, "session"))
		},
		show: func(status int) error { return s.showAccountWith(c, status, &console.Account{End: form}) },
	})
}

// endSessionsFromPage ends all sessions, as endSessions does.
func (s *Handlers) endSessionsFromPage(c *endpoint.Call) error {
	form := console.EndSessions(c.Who.Account.String(), "")
	return s.submit(c, form, submission{
		do: func() error {
			return redirectAfter(s.accounts.SignOutEverywhere(c), c, console.SignInPath)
		},
		show: func(status int) error { return s.showAccountWith(c, status, &console.Account{End: form}) },
	})
}

func (s *Handlers) showExportPage(c *endpoint.Call) error {
	return s.showExportWith(c, fiber.StatusOK, nil)
}

// showExportWith shows the archive with a refused form; nil: a new one.
func (s *Handlers) showExportWith(c *endpoint.Call, status int, form *console.Form) error {
	e, err := s.exports.ExportOf(c.Who.Account)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return err
	}
	shown := &console.Export{Export: e, Make: form}
	if shown.Holder, err = s.holder(c); err != nil {
		return err
	}
	if form == nil {
		shown.Make = console.MakeExport(shown.Holder.Account, rand.Text())
	}
	if e.GetState() == event.ExportState_EXPORT_READY {
		shown.URL = s.exports.ExportURL(e)
	}
	return s.console.Export(c.Ctx, status, shown)
}

// startExportFromPage starts an export, as startExport does.
func (s *Handlers) startExportFromPage(c *endpoint.Call) error {
	form := console.MakeExport(c.Who.Account.String(), "")
	return s.submit(c, form, submission{
		do: func() error {
			_, err := s.exports.BegunExport(c)
			return redirectAfter(err, c, console.ExportPath)
		},
		show: func(status int) error { return s.showExportWith(c, status, form) },
	})
}

// deleteAccountFromPage deletes the account, as deleteAccount does, once the reader has typed its email.
func (s *Handlers) deleteAccountFromPage(c *endpoint.Call) error {
	holder, err := s.holder(c)
	if err != nil {
		return err
	}
	form := console.DeleteAccount(holder.Account, "", holder.Email)
	return s.submit(c, form, submission{
		do: func() error {
			if err := confirmed(form, holder.Email); err != nil {
				return err
			}
			current, err := accounts.ReadCurrentPassword(fieldsOf(form, "currentPassword"))
			if err != nil {
				return err
			}
			_, o, err := s.accounts.DeletedAccount(c, current)
			if err != nil {
				return err
			}
			return s.console.Goodbye(c.Ctx, &console.Goodbye{Email: holder.Email, DeletesMs: o.DeletesMs})
		},
		show: func(status int) error { return s.showAccountWith(c, status, &console.Account{Delete: form}) },
	})
}
