package pages

import (
	"html/template"
	"slices"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
	"quire.dev/services/edge/internal/kind"
)

// Draft is the input of the landing page's form.
type Draft struct {
	Content, Title, Language, Visibility, ExpiresIn, Password string

	BurnAfterRead bool
	APIKey        string            // of the account that creates the paste; empty for an anonymous one
	Once          string            // idempotency token: sending the form twice creates one paste
	Errors        map[string]string // by the name of the field; "" is the whole form
}

// Landing is the landing page: a form for a paste, and what Quire is.
type Landing struct {
	URL       string        // of this site, without a trailing slash
	Own       template.HTML // the form of the visitor's account; empty without a session: Draft is shown
	Draft     Draft
	MaxBytes  int64                  // of the text
	Account   string                 // id of the session's account, in which Draft is created; empty without one
	Allowance *event.AllowanceAnswer // nil if unavailable
	Prices    *event.PriceBook       // nil if unavailable
	Ready     bool                   // all services are ready
	Checks    string                 // path of the readiness endpoint; empty if another listener serves it
}

// Landing shows the landing page. status is fiber.StatusOK, or the error status of a refused draft.
func (p *Pages) Landing(c *fiber.Ctx, status int, l *Landing) error {
	page := &Page{
		Template: "landing", Status: status, Index: true, Secret: l.Draft.APIKey != "", Section: "/",
		Styles: []string{"parts", "landing"}, Scripts: []string{"copy.js"},
		Title: "Paste text, share a link", Data: l,
		Description: "Share text and files from a browser, a terminal or a program. Every request is metered exactly.",
	}
	if l.Own != "" {
		page.Styles = append(page.Styles, "console")
	}
	page.UseEditor()
	return p.Render(c, page)
}

// Closed reports whether visitors can't create pastes.
func (l *Landing) Closed() bool {
	return l.Allowance != nil && l.Allowance.Limit == 0 && l.Draft.APIKey == "" && l.Account == ""
}

// Created is the page after the landing page's form created a quick paste.
type Created struct {
	Document    *event.Document // its Id, ExpiresMs and BurnAfterRead are shown
	Protected   bool            // it has a password
	URL         string          // of this site
	Path        string          // of the paste's page
	ManageToken string          // "" if an account owns the paste
	Account     bool            // an account owns the paste
	Remaining   int64           // quick pastes left for the account or network; plan.Unlimited for no limit
}

// Share is the link to the paste.
func (c *Created) Share() Share { return Share{URL: c.URL + c.Path, Selected: true} }

// Created shows the links to a new paste and its management token, which is not shown again.
func (p *Pages) Created(c *fiber.Ctx, created *Created) error {
	return p.Render(c, &Page{
		Template: "created", Status: fiber.StatusCreated, Title: "Paste created", Secret: true,
		Styles: []string{"parts"}, Scripts: []string{"copy.js", "times.js", SentScript}, Data: created,
	})
}

// option is a choice of a select.
type option struct {
	Value, Name string
	Selected    bool
}

func options(selected string, pairs ...string) []option {
	var out []option
	found := selected == ""
	for i := 0; i+1 < len(pairs); i += 2 {
		found = found || pairs[i] == selected
		out = append(out, option{pairs[i], pairs[i+1], pairs[i] == selected})
	}
	if !found { // a refused form keeps it
		out = append(out, option{selected, selected, true})
	}
	return out
}

// Expiries are the form's lifetimes, a subset of the ones allowed for anonymous pastes.
func (d *Draft) Expiries() []option {
	return options(d.ExpiresIn, "10m", "10 minutes", "1h", "1 hour", "1d", "1 day", "7d", "7 days", "30d", "30 days")
}

// Visibilities are the form's choices.
func (d *Draft) Visibilities() []option {
	return options(d.Visibility, "unlisted", "Unlisted: anyone with the link", "public", "Public: listed by search engines")
}

// AgainHint is the hint of an optional password in a form that is shown again. It is required then: without it, the paste would get
// none.
const AgainHint = "Enter the password again. Pages never show passwords."

// AgainHint is the hint of the form's password; empty unless one was sent.
func (d *Draft) AgainHint() string {
	if d.Password == "" {
		return ""
	}
	return AgainHint
}

// Languages are the form's choices.
func (d *Draft) Languages() []option { return Languages(d.Language) }

// Editor is the form's field for the text.
func (l *Landing) Editor() *Editor {
	e := &Editor{ID: "content", Value: l.Draft.Content, Rows: 14, MaxBytes: l.MaxBytes, Account: l.Account, Fresh: l.Draft.Errors == nil}
	if _, e.Invalid = l.Draft.Errors["content"]; e.Invalid {
		e.DescribedBy, e.Focus = "content-error", true
	}
	return e
}

// plans is the table of limits and prices, with a column for each public plan.
type plans struct {
	Tiers   []string
	Fees    []string // by plan; nil if none has a fee
	Rows    []planRow
	Storage []planCell // by plan: what is included, and the price of a further GB for a month; one cell if all have the same
}

type planRow struct {
	Key, About string
	Cells      []planCell
}

// planCell is a monthly limit and the price in credits of a request over quota; "" if none is sold.
type planCell struct{ Limit, Price string }

// Plans is the table of plans; nil if prices are unavailable.
func (l *Landing) Plans() *plans {
	if l.Prices == nil {
		return nil
	}
	book := pricebook.Of(l.Prices)
	tiers := slices.DeleteFunc(book.Tiers(), func(t plan.Tier) bool { return t == plan.Admin })
	out, fees := &plans{}, uint64(0)
	for _, t := range tiers {
		of := &book.Plans[t]
		out.Tiers = append(out.Tiers, t.Title(of.Name))
		out.Fees = append(out.Fees, dollarText(of.FeeCents))
		fees += of.FeeCents
		out.Storage = append(out.Storage, planCell{
			Limit: strconv.FormatFloat(float64(of.FreeStorageBytes)/plan.GB, 'f', -1, 64) + " GB", Price: dollarText(of.StorageCentsPerGBMonth),
		})
	}
	if fees == 0 {
		out.Fees = nil
	}
	if one := slices.Compact(slices.Clone(out.Storage)); len(one) == 1 {
		out.Storage = one
	}
	for _, key := range plan.QuotaKeys() {
		row := planRow{Key: key.String(), About: AboutKey(key)}
		for _, t := range tiers {
			row.Cells = append(row.Cells, planCellOf(book.Plans[t].Terms[key]))
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

func dollarText(cents uint64) string {
	return "$" + plan.Dollars(cents)
}

func planCellOf(term plan.Term) planCell {
	switch {
	case term.Limit == plan.Unlimited:
		return planCell{Limit: "unlimited"}
	case term.Limit == 0 && !term.Overage:
		return planCell{Limit: "–"}
	}
	cell := planCell{Limit: numberText(term.Limit)}
	if term.Overage {
		cell.Price = plan.Short(term.Price)
	}
	return cell
}

// numberText is a number with commas between thousands.
func numberText(n int64) string { return withCommas(strconv.FormatInt(n, 10)) }

func withCommas(text string) string {
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// AboutKey describes what a quota key counts, or a scope allows.
func AboutKey(key plan.QuotaKey) string {
	for _, k := range kind.All() {
		switch key {
		case plan.KeyUnspecified:
			return ""
		case plan.ScopeCheckout:
			return "Start a payment"
		case plan.FilesUpload:
			return "Upload a file"
		case k.Create:
			return "Create a " + k.One
		case k.Read:
			return "Read a " + k.One
		case k.Update:
			return "Edit a " + k.One
		case k.Delete:
			return "Delete a " + k.One
		case k.List:
			return "List " + k.Name
		case k.Versions:
			return "List the versions of a " + k.One
		}
	}
	return ""
}

// Window is the period of the anonymous quota.
func (l *Landing) Window() string {
	return Duration(time.Duration(l.Allowance.GetWindowMs()) * time.Millisecond)
}

// NextIn is the time until the next paste is allowed; "" if one is allowed now.
func (l *Landing) NextIn() string {
	seconds := l.Allowance.GetResetSeconds()
	if seconds == 0 || l.Allowance.GetRemaining() > 0 {
		return ""
	}
	return Duration(time.Duration(seconds) * time.Second)
}
