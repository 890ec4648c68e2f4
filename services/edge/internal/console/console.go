// Package console renders the pages of signed-in users and admins, from sign-up to billing, in the layout of package
// pages. Handlers fetch the data and carry out forms; nothing here calls another part of the system.
//
// Each page is a template in the folder templates, a type with its data, and a method of Console that shows it. Forms are
// Form values. Pages work without scripts.
package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/pages"
	"quire.dev/services/edge/internal/purchases"
)

// The paths of the pages. Each form is posted to the path of its page, or to one below it.
const (
	Path        = "/console"
	SignUpPath  = Path + "/sign-up"
	SignInPath  = Path + "/sign-in"
	KeepPath    = SignInPath + "/keep" // keeps an account that is scheduled for deletion
	SignOutPath = Path + "/sign-out"
	KeyPath     = Path + "/key" // creates the default key

	UsagePath  = Path + "/usage"  // the live part of the overview
	EventsPath = Path + "/events" // signals its changes

	KeysPath        = Path + "/keys" // and one of them: /default, /k1
	SpendingCapPath = Path + "/spending-cap"

	RequestsPath      = Path + "/requests"     // and one of them, by its id
	RequestListPath   = RequestsPath + "/list" // the live part of the log
	RequestTablePath  = RequestsPath + ".csv"
	RequestEventsPath = RequestsPath + "/events" // signals its changes

	AccountPath  = Path + "/account"
	EmailPath    = Path + "/email"
	PasswordPath = Path + "/password"
	SessionsPath = Path + "/sessions" // and one of them
	ExportPath   = Path + "/export"
	DeletePath   = Path + "/delete"

	BillingPath     = Path + "/billing"
	LedgerPath      = BillingPath + "/ledger"
	LedgerTablePath = LedgerPath + ".csv"

	AdminPath         = Path + "/admin" // the accounts
	AdminSignInPath   = AdminPath + "/sign-in"
	AdminSignOutPath  = AdminPath + "/sign-out"
	AdminAccountPath  = AdminPath + "/accounts" // and one of them
	AdminRequestsPath = AdminPath + "/requests" // and one of them, by its id
	AdminAuditsPath   = AdminPath + "/audits"   // and one of them
	AdminLogPath      = AdminPath + "/log"
	AdminPricesPath   = AdminPath + "/prices"
	AdminRevenuePath  = AdminPath + "/revenue"
	AdminHealthPath   = AdminPath + "/health"
	AdminHealthTable  = AdminHealthPath + "/table" // the live part of the page

	StatementPath = Path + "/statements" // followed by a month: /2026-11

	PlanPath     = purchases.PlanPath
	CheckoutPath = PlanPath + "/checkout"
	PortalPath   = PlanPath + "/portal"
	CancelPath   = PlanPath + "/cancel"
	TopUpPath    = PlanPath + "/top-up"
	PaymentsPath = Path + "/payments" // followed by a payment's number

	WebhooksPath = BillingPath + "/webhooks" // and one of them, by its id

	PastesPath = Path + "/pastes" // and one of them; /new and /delete
	QuickPath  = Path + "/quick"
	FilesPath  = Path + "/files"
)

//go:embed templates
var files embed.FS

// Console renders the pages. It is safe for concurrent use.
type Console struct {
	pages     *pages.Pages
	templates *template.Template
}

// New parses the templates; it panics if one is invalid.
func New(p *pages.Pages) *Console {
	functions := pages.Functions()
	functions["path"] = func(name string) (string, error) {
		to, ok := map[string]string{
			"console": Path, "sign-up": SignUpPath, "sign-in": SignInPath, "keep": KeepPath, "key": KeyPath, "usage": UsagePath, "events": EventsPath,
			"keys": KeysPath, "spending-cap": SpendingCapPath, "account": AccountPath, "email": EmailPath, "password": PasswordPath,
			"sessions": SessionsPath, "export": ExportPath, "delete": DeletePath, "statements": StatementPath, "billing": BillingPath, "ledger": LedgerPath, "plan": PlanPath,
			"webhooks": WebhooksPath, "requests": RequestsPath, "request-events": RequestEventsPath, "pastes": PastesPath, "quick": QuickPath, "files": FilesPath,
			"admin": AdminPath, "admin-sign-in": AdminSignInPath, "admin-accounts": AdminAccountPath,
			"admin-requests": AdminRequestsPath, "admin-audits": AdminAuditsPath, "admin-log": AdminLogPath,
		}[name]
		if !ok {
			return "", fmt.Errorf("the console has no page %q", name)
		}
		return to, nil
	}
	functions["credits"], functions["money"], functions["number"], functions["title"] = credits[uint64], money[uint64], number[int64], title
	functions["balance"], functions["rounded"] = credits[int64], money[int64]
	functions["number64"], functions["editor"] = number[uint64], p.Editor
	functions["links"] = func(name string, links []pages.Link) linkList { return linkList{name, links} }
	functions["named"], functions["visibility"], functions["sum"] = named, visibility, sum
	return &Console{pages: p, templates: template.Must(template.New("").Funcs(functions).ParseFS(files, "templates/*.html"))}
}

// Holder is the account a page belongs to; the zero value means no session.
type Holder struct {
	Account string // id; forms carry it, so that a form never acts on another account
	Email   string
}

// page is a page of the console.
type page struct {
	template, title string
	section         string // path of the section that the page belongs to; empty for a page without a session
	admin           *Admin // nil unless the page is for admins
	done            string // name of a notice
	status          int
	secret          bool   // see pages.Page.Secret
	live            bool   // its scripts fetch updates
	script          string // a further script; empty for none
	fetches         bool   // script makes requests
	editor          bool   // it has a pages.Editor
	styles          []string
	data            any
}

// linkList is a named list of links, one of which is current.
type linkList struct {
	Name  string
	Links []pages.Link
}

// frame is the data of the template around every page.
type frame struct {
	Notice string
	Main   template.HTML
}

// sections are the parts of the console, in the order of the navigation.
func sections(current string) []pages.Link {
	out := []pages.Link{
		{Name: "Overview", Path: Path, Keys: "g o"},
		{Name: "API keys", Path: KeysPath, Keys: "g k"},
		{Name: "Content", Path: PastesPath, Keys: "g c"},
		{Name: "Requests", Path: RequestsPath, Keys: "g r"},
		{Name: "Billing", Path: BillingPath, Keys: "g b"},
		{Name: "Account", Path: AccountPath, Keys: "g a"},
	}
	for i := range out {
		out[i].Current = out[i].Path == current
	}
	return out
}

// SectionOf is the section that a path belongs to: the overview if no other.
func SectionOf(path string) string {
	for _, s := range append(sections(""), Pastes().Tabs()...) {
		if s.Path != Path && (path == s.Path || strings.HasPrefix(path, s.Path+"/")) {
			return s.Path
		}
	}
	switch path {
	case EmailPath, PasswordPath, DeletePath:
		return AccountPath
	case SpendingCapPath:
		return KeysPath
	case ExportPath:
		return ExportPath
	case CheckoutPath, PortalPath, CancelPath, TopUpPath:
		return PlanPath
	}
	return Path
}

// Notice confirms what a form has done. done is the parameter of the page's address.
func Notice(done string) string {
	switch done {
	case "kept":
		return "The deletion of your account is canceled. Everything is kept, and your API keys work again."
	case "changed":
		return "Changes saved."
	case "revoked":
		return "Key revoked. Requests with it are refused."
	case "cap":
		return "Spending cap saved."
	case "uncapped":
		return "Spending cap cleared. Only your balance limits what requests over quota can spend."
	case "key-uncapped":
		return "Changes saved. The key’s spending cap is cleared: your account’s cap and your balance still apply."
	case "email":
		return "Email changed. Use the new one the next time you sign in."
	case "password":
		return "Password changed. Your other sessions have ended."
	case "canceled":
		return "Plan canceled. It stays active until the end of the paid period."
	case "plan-later":
		return "Saved. Your plan changes when the paid period ends."
	case "plan-kept":
		return "Saved. Your plan stays as it is."
	case "top-up":
		return "Automatic top-up saved."
	case "top-up-off":
		return "Automatic top-up turned off."
	case "webhook":
		return "Changes saved. They apply to new events."
	case "tested":
		return "Sending a test event. Refresh in a moment."
	case "replayed":
		return "Sending the event again. Refresh in a moment."
	case "unhooked":
		return "Webhook deleted."
	case "tier":
		return "Plan changed."
	case "credits":
		return "Balance adjusted."
	case "applied":
		return "Price book applied. It comes into force at its time."
	case "withdrawn":
		return "Price book withdrawn."
	case "suspend":
		return "Account suspended. Requests with its API keys are refused."
	case "resume":
		return "Account resumed."
	case "session":
		return "Session ended."
	case "created":
		return "Paste created."
	case "saved":
		return "Saved as a new version."
	case "deleted":
		return "Deleted."
	case "uploaded":
		return "File uploaded."
	}
	return ""
}

// Done is the address of a page with a notice. done is one of the names of Notice.
func Done(path, done string) string { return path + "?done=" + done }

func (c *Console) render(ctx *fiber.Ctx, p page) error {
	var main, all bytes.Buffer
	if err := c.templates.ExecuteTemplate(&main, p.template, p.data); err != nil {
		return fmt.Errorf("render page %s: %w", p.template, err)
	}
	around := frame{Notice: Notice(p.done), Main: template.HTML(main.String())} //nolint:gosec // a template made it
	if err := c.templates.ExecuteTemplate(&all, "frame", &around); err != nil {
		return fmt.Errorf("render page %s: %w", p.template, err)
	}
	out := &pages.Page{
		Template: "console", Title: p.title, Data: template.HTML(all.String()), //nolint:gosec // likewise
		Status: p.status, Secret: p.secret, Section: Path, Styles: []string{"parts", "landing", "console"}, Scripts: []string{"copy.js", "times.js"},
	}
	if p.admin != nil {
		out.Site, out.Section, out.ForAdmins = p.admin.Site, "", true
		if p.admin.Name != "" {
			out.Visitor = &pages.Visitor{Admin: p.admin.Name}
		}
		if p.section != "" {
			out.Sections, out.SectionsName = adminSections(p.section), "Admin"
		}
	} else if p.section != "" {
		out.Sections, out.SectionsName = sections(p.section), "Your account"
	}
	out.Fetches = p.fetches
	out.Styles = append(out.Styles, p.styles...)
	if p.live {
		out.Fetches, out.Scripts = true, []string{"times.js", "htmx.min.js", "live.js"}
	}
	if p.script != "" {
		out.Scripts = append(out.Scripts, p.script)
	}
	if p.editor {
		if p.done != "" {
			out.Scripts = append(out.Scripts, pages.SentScript)
		}
		out.UseEditor()
	}
	return c.pages.Render(ctx, out)
}

// Sign is the form to sign up or sign in.
type Sign struct {
	Form   *Form
	Next   string // path to continue to; see web.nextPath
	Unsent bool   // a form was sent without a session and had no effect
}

// SignUpForm is the form to create an account. once is an idempotency token: sent twice, the form creates one account.
func SignUpForm(email, once string) *Form {
	return credentialsForm(SignUpPath, email, once, Field{
		Name: "password", Label: "Password", Type: "password", Autocomplete: "new-password", Least: 8, Most: 128, Required: true, Hint: "8 to 128 characters.", Subject: "The password",
	})
}

// SignInForm is the form to open a session.
func SignInForm(email, _ string) *Form {
	return credentialsForm(SignInPath, email, "", Field{
		Name: "password", Label: "Password", Type: "password", Autocomplete: "current-password", Required: true, Subject: "The password",
	})
}

func credentialsForm(path, email, once string, password Field) *Form {
	f := &Form{ID: "sign", Action: path, Once: once, Values: map[string]string{"email": email}, start: "email", fields: []Field{
		{Name: "email", Label: "Email", Type: "email", Autocomplete: "username", Most: event.MaxEmailBytes, Required: true, Subject: "The email"}, password,
	}}
	if email != "" {
		f.start = "password"
	}
	return f
}

// UnsentQuery is the name of the parameter of Sign.Unsent.
const UnsentQuery = "unsent"

// SignedOut is the sign-in address for a user who sent a form without a session. query comes from Sign.Query.
func SignedOut(query string) string {
	if query == "" {
		return SignInPath + "?" + UnsentQuery + "=1"
	}
	return SignInPath + query + "&" + UnsentQuery + "=1"
}

// Query carries Next in links between the two forms.
func (s *Sign) Query() string {
	if s.Next == "" || s.Next == Path {
		return ""
	}
	return "?next=" + url.QueryEscape(s.Next)
}

// SignUp shows the form to create an account. status is fiber.StatusOK, or the error status of a refused form.
func (c *Console) SignUp(ctx *fiber.Ctx, status int, s *Sign) error {
	return c.render(ctx, page{template: "sign-up", title: "Sign up", status: status, data: s})
}

// SignIn shows the form to open a session. status is fiber.StatusOK, or the error status of a refused form.
func (c *Console) SignIn(ctx *fiber.Ctx, status int, s *Sign) error {
	return c.render(ctx, page{template: "sign-in", title: "Sign in", status: status, data: s})
}

func utc(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// plainNumber formats a number for a form field.
func plainNumber(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// number is a whole number with commas between thousands.
func number[N int | int64 | uint32 | uint64](n N) string { return pages.Number(int64(n)) }

// credits is an amount with commas between thousands.
func credits[N int64 | uint64](micros N) string {
	if micros < 0 {
		return "\u2212" + credits(uint64(-micros))
	}
	whole, rest, _ := strings.Cut(plan.Credits(micros), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return whole + "." + rest
}

// money is an amount rounded for people. Its tooltip has all digits.
func money[N int64 | uint64](micros N) template.HTML {
	return template.HTML(`<span title="` + credits(micros) + ` credits">` + pages.Credits(micros) + "</span>") //nolint:gosec // of a number
}

// limit formats a limit of requests.
func limit(n int64) string {
	if n == plan.Unlimited {
		return "unlimited"
	}
	return pages.Number(n)
}

// title is the display name of a plan.
func title(tier uint32, given string) string { return plan.Tier(tier).Title(given) }
