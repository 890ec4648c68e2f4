package console

import (
	"bytes"
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/pages"
)

// Requests are the last metered requests of an account.
type Requests struct {
	Holder Holder
	Filter *Form
	List   []Request
	Cursor string // of the page; empty: the newest
	Next   string // cursor of the page after; empty: this is the last
}

// Request is a line of the log, in the words of the API.
type Request struct {
	ID                                      string
	TimeMs                                  int64
	QuotaKey, Key, Decision, Status, Source string
	Cost                                    string // credits
}

// Path is the path of its explanation.
func (r Request) Path() string { return RequestsPath + "/" + r.ID }

// About says what the request is for.
func (r Request) About() string {
	for _, key := range plan.QuotaKeys() {
		if key.String() == r.QuotaKey {
			return pages.AboutKey(key)
		}
	}
	return r.QuotaKey
}

// Refused tells whether it was not admitted.
func (r Request) Refused() bool { return r.Decision != "admitted" }

// Outcome is how the request ended.
func (r Request) Outcome() string {
	if r.Refused() {
		return Words(r.Decision)
	}
	return SettlementText(r.Status)
}

// Words is a name of the API as a text.
func Words(name string) string {
	text := strings.ReplaceAll(name, "_", " ")
	if text == "" {
		return "–"
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// SettlementText is how an admitted request ended.
func SettlementText(status string) string {
	switch status {
	case "open":
		return "Under way"
	case "void":
		return "Given back"
	case "served_unsettled":
		return "Served, not confirmed"
	case "waived":
		return "Served, not charged"
	}
	return Words(status)
}

// RequestFilters is the form that filters the log. keys are ids and names of the account's keys, decisions those of the API.
func RequestFilters(keys [][2]string, decisions []string) *Form {
	quotas := [][2]string{{"", "All"}}
	for _, key := range plan.QuotaKeys() {
		quotas = append(quotas, [2]string{key.String(), key.String()})
	}
	outcomes := [][2]string{{"", "All"}}
	for _, d := range decisions {
		outcomes = append(outcomes, [2]string{d, Words(d)})
	}
	return &Form{ID: "filter", Action: RequestsPath, Values: map[string]string{}, fields: []Field{
		{Name: "quotaKey", Label: "Quota key", Type: "select", Options: quotas},
		{Name: "key", Label: "API key", Type: "select", Options: append([][2]string{{"", "All"}}, keys...)},
		{Name: "decision", Label: "Decision", Type: "select", Options: outcomes},
		{Name: "from", Label: "From", Type: "datetime-local", Subject: "The time"},
		{Name: "to", Label: "To", Type: "datetime-local", Subject: "The time"},
	}}
}

// Requests shows the log. status is that of filters that were refused, else fiber.StatusOK.
func (c *Console) Requests(ctx *fiber.Ctx, status int, r *Requests) error {
	return c.render(ctx, page{
		template: "requests", title: "Requests", section: RequestsPath, holder: r.Holder, status: status, live: true, script: "local.js", data: r,
	})
}

// RequestList answers with the part of the log that moves, for a page that has the rest.
func (c *Console) RequestList(ctx *fiber.Ctx, r *Requests) error {
	return c.fragment(ctx, "request-list", r)
}

// Filtered tells whether a filter is set.
func (r *Requests) Filtered() bool { return r.query().Encode() != "" }

// Live tells whether the page moves: it begins with the newest requests, and its filters are right.
func (r *Requests) Live() bool { return r.Cursor == "" && !r.Filter.Wrong() }

func (r *Requests) query() url.Values {
	out := url.Values{}
	for _, name := range r.Filter.Names() {
		if value := r.Filter.Values[name]; value != "" {
			out.Set(name, value)
		}
	}
	return out
}

// MovingPath is the address of the part that moves.
func (r *Requests) MovingPath() string { return address(RequestListPath, r.query()) }

// NewestPath is the address of the first page with the same filters.
func (r *Requests) NewestPath() string { return address(RequestsPath, r.query()) }

// OlderPath is the address of the page after; empty: this is the last.
func (r *Requests) OlderPath() string {
	if r.Next == "" {
		return ""
	}
	q := r.query()
	q.Set("cursor", r.Next)
	return address(RequestsPath, q)
}

func address(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// Explained is the page of a request: how it was decided, found by folding the journal again.
type Explained struct {
	Holder      Holder
	ID          string
	Explanation *Explanation // nil: billing is still at it
	Done, Total uint64       // messages that are read, and to be read
	Fold        *Fold        // that its reader has asked for; nil: none
}

// Path is the path of the page.
func (e *Explained) Path() string { return RequestsPath + "/" + e.ID }

// Explanation is how a request was decided.
type Explanation struct {
	*event.ExplainAnswer
	Words    string // all of it in sentences
	Decision string // in the words of the API
	Source   string
	KeyID    string // empty: it was made without a key
	AnyKey   bool   // the reader is an admin, who has no pages of keys
}

// About says what the request is for.
func (e *Explanation) About() string { return pages.AboutKey(plan.QuotaKey(e.QuotaKey)) }

// QuotaName is the name of its quota key.
func (e *Explanation) QuotaName() string { return plan.QuotaKey(e.QuotaKey).String() }

// Outcome is how the request ended.
func (e *Explanation) Outcome() string {
	return Request{Decision: e.Decision, Status: e.Settlement}.Outcome()
}

// Admitted tells whether it was counted.
func (e *Explanation) Admitted() bool { return e.Decision == "admitted" }

// Limit is the number of requests that the rule admits without credits.
func (e *Explanation) Limit() string { return limit(e.GetVerdict().GetLimit()) }

// Tier is the name of the plan that decided; empty for a caller without a key.
func (e *Explanation) Tier() string {
	if t := e.GetVerdict().GetTier(); t != 0 {
		return title(t)
	}
	return ""
}

// Window is how long a keyless request counts.
func (e *Explanation) Window() string {
	return pages.Duration(time.Duration(e.WindowMs) * time.Millisecond)
}

// Price is what a request beyond the limit costs; empty where there are none.
func (e *Explanation) Price() string {
	if e.PriceMicros == 0 {
		return ""
	}
	return credits(e.PriceMicros)
}

// Cost is what it cost in the end.
func (e *Explanation) Cost() string { return credits(e.CostMicros) }

// Balance is the balance after it; empty where credits did not pay.
func (e *Explanation) Balance() string {
	if e.Charge != event.ChargeSource_CHARGE_CREDITS || e.GetVerdict().GetCharge() != e.Charge {
		return ""
	}
	return credits(e.GetVerdict().GetBalanceMicros())
}

// Uses are the grants that paid.
func (e *Explanation) Uses() (out []GrantUse) {
	for _, g := range e.Grants {
		out = append(out, GrantUse{Amount: credits(g.AmountMicros), Reason: g.Reason, Position: g.Grant >> 12})
	}
	return out
}

// GrantUse is what a grant has paid.
type GrantUse struct {
	Amount, Reason string
	Position       uint64 // message of the journal that has the grant
}

// Fold is the journal folded again for a request, beside what billing has recorded of it.
type Fold struct {
	Path        string // of the request's page
	Run         string
	Done, Total uint64 // messages that are read, and to be read; 0: it has ended
	Folded      uint64 // messages that were folded
	Forgotten   bool   // the log has the request no longer
	SignedOut   bool   // its reader's session has ended
	Admin       bool   // its reader is an admin
	Open        bool   // the request is under way, so that both may change
	Rows        []Compared
	Problem     string // why it was not folded; empty: it was
}

// Compared is a value as it was recorded, and as it is folded again.
type Compared struct {
	Name, Recorded, Folded string
}

// Same tells whether both are the same.
func (c Compared) Same() bool { return c.Recorded == c.Folded }

// Matches tells whether all are.
func (f *Fold) Matches() bool {
	for _, row := range f.Rows {
		if !row.Same() {
			return false
		}
	}
	return true
}

// Compare notes a value as it was recorded, and as it is folded again.
func (f *Fold) Compare(name, recorded, folded string) {
	f.Rows = append(f.Rows, Compared{Name: name, Recorded: recorded, Folded: folded})
}

// Explained shows how a request was decided.
func (c *Console) Explained(ctx *fiber.Ctx, e *Explained) error {
	return c.render(ctx, page{template: "request", title: "Request", section: RequestsPath, holder: e.Holder, live: true, data: e})
}

// Folded answers with the journal folded again, for the page of the request.
func (c *Console) Folded(ctx *fiber.Ctx, f *Fold) error { return c.fragment(ctx, "fold", f) }

// fragment answers with a part of a page.
func (c *Console) fragment(ctx *fiber.Ctx, name string, data any) error {
	var out bytes.Buffer
	if err := c.templates.ExecuteTemplate(&out, name, data); err != nil {
		return fmt.Errorf("render the part %s: %w", name, err)
	}
	return c.pages.Fragment(ctx, template.HTML(out.String())) //nolint:gosec // a template made it
}
