package console

import (
	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
)

// Account is the account page: email, password and sessions.
type Account struct {
	Holder   Holder
	Usage    *event.UsageAnswer
	Sessions []Session
	Email    *Form
	Password *Form
	Delete   *Form
	End      *Form // ends all sessions, or one by the path of its id
	Done     string
}

// Session is an open session of an account.
type Session struct {
	*event.OpenSession
	ID      string
	Current bool // the session of this request
}

// Opened is the time of the sign-in in Unix milliseconds; 0 if an older version did not record it.
func (s Session) Opened() int64 { return s.CreatedMs }

// Browser names the session's browser.
func (s Session) Browser() string {
	if s.Agent == "" {
		return "Unknown browser"
	}
	return s.Agent
}

// Account shows an account. status is fiber.StatusOK, or the error status of a refused form.
func (c *Console) Account(ctx *fiber.Ctx, status int, a *Account) error {
	return c.render(ctx, page{template: "account", title: "Account", section: AccountPath, done: a.Done, status: status, data: a})
}

// ChangeEmail is the form to change the email.
func ChangeEmail(account, once string) *Form {
	return &Form{ID: "email", Action: EmailPath, Account: account, Once: once, Values: map[string]string{}, fields: []Field{
		{Name: "email", Label: "New email", Type: "email", Autocomplete: "email", Most: event.MaxEmailBytes, Required: true, Subject: "The email"},
		currentPassword(),
	}}
}

// ChangePassword is the form to change the password.
func ChangePassword(account, once string) *Form {
	return &Form{ID: "password", Action: PasswordPath, Account: account, Once: once, Values: map[string]string{}, fields: []Field{
		currentPassword(),
		{Name: "password", Label: "New password", Type: "password", Autocomplete: "new-password", Most: 128, Required: true, Hint: "8 to 128 characters.", Subject: "The new password"},
	}}
}

// Export is the archive of everything that an account owns.
type Export struct {
	Holder Holder
	Export *event.Export // the latest; nil if none was requested
	URL    string        // of the archive; empty unless it is ready
	Make   *Form
}

// Waits reports whether the archive is being created.
func (e *Export) Waits() bool {
	return e.Export != nil && (e.Export.State == event.ExportState_EXPORT_WAITING || e.Export.State == event.ExportState_EXPORT_RUNNING)
}

// Failed reports whether the export failed.
func (e *Export) Failed() bool { return e.Export.GetState() == event.ExportState_EXPORT_FAILED }

// Part is the progress of the archive; empty until its documents are counted.
func (e *Export) Part() string {
	if e.Export.GetTotal() == 0 {
		return ""
	}
	return number(e.Export.Done) + " of " + number(e.Export.Total) + " documents done."
}

// exportRefresh is the interval in seconds at which the page of an unfinished archive reloads, without a script.
const exportRefresh = "3"

// Export shows an archive.
func (c *Console) Export(ctx *fiber.Ctx, status int, e *Export) error {
	if e.Waits() && status == fiber.StatusOK {
		ctx.Set("Refresh", exportRefresh)
	}
	return c.render(ctx, page{template: "export", title: "Your data", section: AccountPath, status: status, data: e})
}

// MakeExport is the form to request an archive.
func MakeExport(account, once string) *Form {
	return &Form{ID: "export", Action: ExportPath, Account: account, Once: once, Values: map[string]string{}}
}

// DeleteAccount is the form that deletes an account.
func DeleteAccount(account, once, email string) *Form {
	return &Form{ID: "delete", Action: DeletePath, Account: account, Once: once, Values: map[string]string{}, fields: []Field{
		{Name: "confirm", Label: "Type your email", Type: "text", Hint: email, Required: true},
		currentPassword(),
	}}
}

// EndSessions is the form that ends sessions.
func EndSessions(account, once string) *Form {
	return &Form{ID: "sessions", Action: SessionsPath, Account: account, Once: once, Values: map[string]string{}}
}

func currentPassword() Field {
	return Field{
		Name: "currentPassword", Label: "Current password", Type: "password", Autocomplete: "current-password", Required: true, Subject: "The current password",
	}
}

// Goodbye is the page after an account was scheduled for deletion.
type Goodbye struct {
	Email     string
	DeletesMs int64
}

// KeepAccount asks a user who signed in whether to keep an account that is scheduled for deletion.
type KeepAccount struct {
	Email     string
	DeletesMs int64
	Proof     string // of the sign-in
	Next      string // path to continue to
}

// KeepAccount shows the question.
func (c *Console) KeepAccount(ctx *fiber.Ctx, k *KeepAccount) error {
	return c.render(ctx, page{template: "keep-account", title: "Keep your account?", status: fiber.StatusConflict, secret: true, data: k})
}

// Goodbye shows how long the deletion can be canceled.
func (c *Console) Goodbye(ctx *fiber.Ctx, g *Goodbye) error {
	return c.render(ctx, page{template: "goodbye", title: "Your account will be deleted", data: g})
}
