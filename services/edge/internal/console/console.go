// Package console renders the pages of an account: signing up and in, the account with its usage, and a new API key. It
// puts them into the layout of package pages. A handler does what a form asks for; nothing here asks another part of the
// system.
package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/url"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/credit"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/pages"
)

// The paths of the pages. Each form is posted to the path of its page.
const (
	Path        = "/console"
	SignUpPath  = Path + "/sign-up"
	SignInPath  = Path + "/sign-in"
	KeptPath    = Path + "?kept=yes" // after a sign-in that has taken a deletion back
	SignOutPath = Path + "/sign-out"
	KeyPath     = Path + "/key"

	StatementPath = Path + "/statements" // of a month: /2026-11 behind it
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
		to, ok := map[string]string{"console": Path, "sign-up": SignUpPath, "sign-in": SignInPath, "sign-out": SignOutPath, "key": KeyPath, "statements": StatementPath}[name]
		if !ok {
			return "", fmt.Errorf("the console has no page %q", name)
		}
		return to, nil
	}
	return &Console{pages: p, templates: template.Must(template.New("").Funcs(functions).ParseFS(files, "templates/*.html"))}
}

// page is a page of the console.
type page struct {
	template, title string
	status          int
	secret          bool // see pages.Page.Secret
	data            any
}

func (c *Console) render(ctx *fiber.Ctx, p page) error {
	var main bytes.Buffer
	if err := c.templates.ExecuteTemplate(&main, p.template, p.data); err != nil {
		return fmt.Errorf("render page %s: %w", p.template, err)
	}
	return c.pages.Render(ctx, &pages.Page{
		Template: "console", Title: p.title, Data: template.HTML(main.String()), //nolint:gosec // a template made it
		Status: p.status, Secret: p.secret, Section: Path, Styles: []string{"landing", "console"}, Scripts: []string{"copy.js", "times.js"},
	})
}

// Sign is the form to sign up or in.
type Sign struct {
	Email  string
	Next   string            // path to go on to; see web.nextPath
	Once   string            // of the form to sign up: sending it twice makes one account
	Errors map[string]string // by the name of the field; "" is the whole form
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

// Account is an account and its month.
type Account struct {
	Email      string
	Usage      *event.UsageAnswer
	UpgradeURL string // where a larger plan is to be had; empty where nothing says so
	Once       string // sent with the form for a new key, so that sending it twice makes one
	Kept       bool   // signing in has taken the account's deletion back
}

// Account shows an account.
func (c *Console) Account(ctx *fiber.Ctx, a *Account) error {
	return c.render(ctx, page{template: "account", title: "Your account", data: a})
}

// Key is an API key that was just made.
type Key struct {
	APIKey string
	URL    string // of this site, without a slash at its end
}

// Key shows a new API key, this once.
func (c *Console) Key(ctx *fiber.Ctx, k *Key) error {
	return c.render(ctx, page{template: "key", title: "Your new API key", secret: true, data: k})
}

// Tier is the name of the plan.
func (a *Account) Tier() string { return plan.Tier(a.Usage.Tier).Title() }

// Free tells whether the plan has no further requests for credits.
func (a *Account) Free() bool { return plan.Tier(a.Usage.Tier) == plan.Free }

// Month is the month that is counted.
func (a *Account) Month() string { return utc(a.Usage.PeriodStartMs).Format("January 2006") }

// Period is that month, as the path of its statement has it.
func (a *Account) Period() string { return utc(a.Usage.PeriodStartMs).Format("2006-01") }

// Renews is the day on which the counters start again.
func (a *Account) Renews() string { return utc(a.Usage.PeriodEndMs).Format("2\u00a0January") }

func utc(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// row is the usage under a quota key, as text.
type row struct {
	Key, About, Used, Limit, Left, Overage, Spent string
	None                                          bool // the plan has no such request
}

// Rows are the usage under each quota key.
func (a *Account) Rows() []row {
	out := make([]row, 0, len(a.Usage.Usage))
	for _, u := range a.Usage.Usage {
		key := plan.QuotaKey(u.QuotaKey)
		out = append(out, row{
			Key: key.String(), About: pages.AboutKey(key), None: u.Limit == 0 && u.Used == 0,
			Used: pages.Number(int64(u.Used)), Limit: limit(u.Limit), Left: limit(u.Remaining),
			Overage: pages.Number(int64(u.Overage)), Spent: credits(u.SpentMicros),
		})
	}
	return out
}

func limit(n int64) string {
	if n == plan.Unlimited {
		return "unlimited"
	}
	return pages.Number(n)
}

func credits(micros uint64) string { return credit.Micros(micros).String() }

// Balance are the credits that are left.
func (a *Account) Balance() string { return credits(a.Usage.BalanceMicros) }

// Spent are the credits that this month's requests took.
func (a *Account) Spent() string { return credits(a.Usage.SpentMicros) }

// StorageUSD is what the storage of this month costs so far.
func (a *Account) StorageUSD() string {
	return usd(a.Usage.StorageOverageCents)
}
