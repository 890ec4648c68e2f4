// Package console renders the pages of an account: signing up and in, the month, its API keys, the account itself. It
// puts them into the layout of package pages. A handler does what a form asks for; nothing here asks another part of the
// system.
//
// A page is a template of the folder templates with a type that has its data, and a method of Console that shows it. What
// its forms have is a Form. A page works without scripts.
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

	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/pages"
)

// The paths of the pages. Each form is posted to the path of its page, or to one below it.
const (
	Path        = "/console"
	SignUpPath  = Path + "/sign-up"
	SignInPath  = Path + "/sign-in"
	SignOutPath = Path + "/sign-out"
	KeyPath     = Path + "/key" // makes the default key

	UsagePath  = Path + "/usage"  // the part of the overview that moves
	EventsPath = Path + "/events" // tells when it has

	KeysPath        = Path + "/keys" // and one of them: /default, /k1
	SpendingCapPath = Path + "/spending-cap"

	RequestsPath      = Path + "/requests"       // and one of them, by its id
	RequestListPath   = RequestsPath + "/list"   // the part of the log that moves
	RequestEventsPath = RequestsPath + "/events" // tells when it has

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
	AdminHealthPath   = AdminPath + "/health"
	AdminHealthTable  = AdminHealthPath + "/table" // the part of the page that moves

	StatementPath = Path + "/statements" // of a month: /2026-11 behind it

	WebhooksPath = BillingPath + "/webhooks" // and one of them, by its id

	PastesPath = Path + "/pastes" // and one of them; /new and /delete
	QuickPath  = Path + "/quick"
	FilesPath  = Path + "/files"
)

//go:embed templates
var files embed.FS

// Console renders the pages of an account.
type Console struct {
	pages     *pages.Pages
	templates *template.Template
}

// New reads the templates.
func New(p *pages.Pages) *Console {
	functions := pages.Functions()
	functions["path"] = func(name string) (string, error) {
		to, ok := map[string]string{
			"console": Path, "sign-up": SignUpPath, "sign-in": SignInPath, "sign-out": SignOutPath, "key": KeyPath, "usage": UsagePath, "events": EventsPath,
			"keys": KeysPath, "spending-cap": SpendingCapPath, "account": AccountPath, "email": EmailPath, "password": PasswordPath,
			"sessions": SessionsPath, "export": ExportPath, "delete": DeletePath, "statements": StatementPath, "billing": BillingPath, "ledger": LedgerPath,
			"webhooks": WebhooksPath, "requests": RequestsPath, "request-events": RequestEventsPath, "pastes": PastesPath,
			"admin": AdminPath, "admin-sign-in": AdminSignInPath, "admin-sign-out": AdminSignOutPath, "admin-accounts": AdminAccountPath,
			"admin-requests": AdminRequestsPath, "admin-audits": AdminAuditsPath, "admin-log": AdminLogPath,
		}[name]
		if !ok {
			return "", fmt.Errorf("the console has no page %q", name)
		}
		return to, nil
	}
	functions["credits"], functions["number"], functions["title"] = credits, number[int64], title
	functions["number64"] = number[uint64]
	functions["named"], functions["visibility"], functions["sum"] = named, visibility, sum
	return &Console{pages: p, templates: template.Must(template.New("").Funcs(functions).ParseFS(files, "templates/*.html"))}
}

// Holder is whose page it is. Its zero value is nobody, who has no session.
type Holder struct {
	Account string // id; a form carries it, so that it is not taken for another account's
	Email   string
}

// page is a page of the console.
type page struct {
	template, title string
	section         string // path of the section that the page belongs to; empty for a page without a session
	holder          Holder
	admin           *Admin // of a page for admins; nil: it is none
	done            string // name of a notice
	status          int
	secret          bool   // see pages.Page.Secret
	live            bool   // its scripts ask for more
	script          string // a further asset; empty: none
	fetches         bool   // likewise, without those of live
	styles          []string
	data            any
}

// frame is the data of the template around every page.
type frame struct {
	Email  string
	Admin  string // name of the admin token; empty: the page is none for admins
	Notice string
	Main   template.HTML
}

// sections are the parts of the console, in the order of the navigation.
func sections(current string) []pages.Link {
	out := []pages.Link{{Name: "Overview", Path: Path}, {Name: "API keys", Path: KeysPath}, {Name: "Content", Path: PastesPath}, {Name: "Requests", Path: RequestsPath}, {Name: "Billing", Path: BillingPath}, {Name: "Account", Path: AccountPath}}
	for i := range out {
		out[i].Current = out[i].Path == current
	}
	return out
}

// SectionOf is the part of the console that a path belongs to. One that is in no other belongs to the overview.
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
	}
	return Path
}

// notices tell what a form has done, by the name that the address of the page has.
func notice(done string) string {
	switch done {
	case "kept":
		return "Your account was about to be deleted. Signing in has stopped that: everything stays, and your API keys work again."
	case "changed":
		return "The change is saved, and holds from now on."
	case "revoked":
		return "The key is revoked. No call with it is admitted any more."
	case "cap":
		return "The spending cap is saved, and holds from now on."
	case "email":
		return "Your email is changed. Use the new one the next time that you sign in."
	case "password":
		return "Your password is changed, and your other sessions have ended."
	case "webhook":
		return "The change is saved. What happens from now on is told so."
	case "tested":
		return "A test is on its way. Look again in a moment."
	case "replayed":
		return "The delivery is sent again. Look again in a moment."
	case "unhooked":
		return "The webhook is deleted. Nothing is sent to it any more."
	case "tier":
		return "The account has the new plan. Its limits hold from now on."
	case "credits":
		return "The balance is changed."
	case "suspend":
		return "The account is suspended. No edge admits its API keys any more."
	case "resume":
		return "The account is no longer suspended."
	case "session":
		return "The session has ended."
	case "created":
		return "It is made."
	case "saved":
		return "It is saved as a new version."
	case "deleted":
		return "It is deleted."
	case "uploaded":
		return "The file is stored."
	}
	return ""
}

// Done is the address of a page that tells what was done: one of the names of notice.
func Done(path, done string) string { return path + "?done=" + done }

func (c *Console) render(ctx *fiber.Ctx, p page) error {
	var main, all bytes.Buffer
	if err := c.templates.ExecuteTemplate(&main, p.template, p.data); err != nil {
		return fmt.Errorf("render page %s: %w", p.template, err)
	}
	around := frame{Email: p.holder.Email, Notice: notice(p.done), Main: template.HTML(main.String())} //nolint:gosec // a template made it
	if p.admin != nil {
		around.Admin = p.admin.Name
	}
	if err := c.templates.ExecuteTemplate(&all, "frame", &around); err != nil {
		return fmt.Errorf("render page %s: %w", p.template, err)
	}
	out := &pages.Page{
		Template: "console", Title: p.title, Data: template.HTML(all.String()), //nolint:gosec // likewise
		Status: p.status, Secret: p.secret, Section: Path, Styles: []string{"landing", "console"}, Scripts: []string{"copy.js", "times.js"},
	}
	if p.admin != nil {
		out.Site, out.Section = p.admin.Site, ""
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
	return c.pages.Render(ctx, out)
}

// Sign is the form to sign up or in.
type Sign struct {
	Email  string
	Next   string            // path to go on to; see web.nextPath
	Once   string            // of the form to sign up: sending it twice makes one account
	Errors map[string]string // by the name of the field; "" is the whole form
	Unsent bool              // a form was sent without a session, and nothing was done
}

// UnsentQuery is the name of the parameter of Sign.Unsent.
const UnsentQuery = "unsent"

// SignedOut is the address of the form to sign in for who has sent a form without a session. query is Sign.Query's.
func SignedOut(query string) string {
	if query == "" {
		return SignInPath + "?" + UnsentQuery + "=1"
	}
	return SignInPath + query + "&" + UnsentQuery + "=1"
}

// Query is what a link to the other form takes along.
func (s *Sign) Query() string {
	if s.Next == "" || s.Next == Path {
		return ""
	}
	return "?next=" + url.QueryEscape(s.Next)
}

// SignUp shows the form to make an account. status is that of a form that was refused, else fiber.StatusOK.
func (c *Console) SignUp(ctx *fiber.Ctx, status int, s *Sign) error {
	return c.render(ctx, page{template: "sign-up", title: "Sign up", status: status, data: s})
}

// SignIn shows the form to open a session. status is that of a form that was refused, else fiber.StatusOK.
func (c *Console) SignIn(ctx *fiber.Ctx, status int, s *Sign) error {
	return c.render(ctx, page{template: "sign-in", title: "Sign in", status: status, data: s})
}

func utc(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// plainNumber is a number as a form has it.
func plainNumber(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// plainCredits is an amount as a form has it, without zeros at its end.
func plainCredits(micros uint64) string {
	return strings.TrimSuffix(strings.TrimRight(plan.Micros(micros).String(), "0"), ".")
}

// number is a whole number with commas between thousands.
func number[N int | int64 | uint32 | uint64](n N) string { return pages.Number(int64(n)) }

// credits is an amount with commas between thousands.
func credits(micros uint64) string {
	whole, rest, _ := strings.Cut(plan.Micros(micros).String(), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return whole + "." + rest
}

// limit is a limit of requests.
func limit(n int64) string {
	if n == plan.Unlimited {
		return "unlimited"
	}
	return pages.Number(n)
}

// title is the name of a plan.
func title(tier uint32) string { return plan.Tier(tier).Title() }
