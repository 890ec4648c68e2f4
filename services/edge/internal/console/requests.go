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

// Requests are the last requests of an account.
type Requests struct {
	Holder Holder
	Filter *Form
	List   []Request
	Cursor string // of this page; empty for the newest
	Next   string // of the next page; empty on the last
}

// Request is an entry of the log, as the API names its values.
type Request struct {
	ID                                      string
	TimeMs                                  int64
	QuotaKey, Key, Decision, Status, Source string
	KeyLabel                                string // name of the API key
	Cost                                    string // credits
	Undecided                               bool   // billing was not asked

	// Reported by the edge; zero until then.
	Method, Target string // Target is the path of the request
	HTTPStatus     uint32
	DurationMs     uint32
	Address        string // of the caller
	ClientID       string // the client's own id of the request; empty: none
}

// Path is the path of its page.
func (r Request) Path() string { return RequestsPath + "/" + r.ID }

// About describes the request.
func (r Request) About() string {
	for _, key := range plan.QuotaKeys() {
		if key.String() == r.QuotaKey {
			return pages.AboutKey(key)
		}
	}
	return r.QuotaKey
}

// Refused reports whether it was not admitted.
func (r Request) Refused() bool { return r.Decision != "admitted" && r.Decision != "not_charged" }

// Failed reports whether the answer was an error.
func (r Request) Failed() bool { return r.HTTPStatus >= fiber.StatusBadRequest }

// Duration is how long the answer took; empty if unknown.
func (r Request) Duration() string {
	if r.HTTPStatus == 0 {
		return ""
	}
	return pages.Number(int64(r.DurationMs)) + " ms"
}

// Outcome is how the request ended.
func (r Request) Outcome() string {
	if r.Refused() || r.Undecided {
		return Words(r.Decision)
	}
	return SettlementText(r.Status)
}

// Words turns an API name into text: "quota_exhausted" becomes "Quota exhausted".
func Words(name string) string {
	text := strings.ReplaceAll(name, "_", " ")
	if text == "" {
		return "–"
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// SettlementText describes how an admitted request ended.
func SettlementText(status string) string {
	switch status {
	case "open":
		return "Pending"
	case "void":
		return "Refunded"
	case "served_unsettled":
		return "Served, not confirmed"
	case "waived":
		return "Served, not charged"
	}
	return Words(status)
}

// RequestFilters is the form to filter the log. keys are ids and names of the account's keys; decisions are API names.
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
		{Name: "quotaKey", Label: "Quota key", Type: "select", Options: quotas, Subject: "The quota key"},
		{Name: "key", Label: "API key", Type: "select", Options: append([][2]string{{"", "All"}}, keys...), Subject: "The API key"},
		{Name: "decision", Label: "Decision", Type: "select", Options: outcomes, Subject: "The decision"},
		{Name: "httpStatus", Label: "Status", Type: "select", Options: [][2]string{
			{"", "All"},
			{"2xx", "2xx Success"},
			{"3xx", "3xx Not modified"},
			{"4xx", "4xx Client error"},
			{"401", "401 Unauthorized"},
			{"404", "404 Not found"},
			{"429", "429 Too many requests"},
			{"5xx", "5xx Server error"},
		}, Subject: "The status"},
		{Name: "requestId", Label: "Request id", Type: "text", Most: 36, Subject: "The request id"},
		{Name: "clientRequestId", Label: "Your request id", Type: "text", Most: 128, Subject: "Your request id"},
		{Name: "from", Label: "From", Type: "datetime-local", Subject: "The start"},
		{Name: "to", Label: "To", Type: "datetime-local", Subject: "The end"},
	}}
}

// Requests shows the log. status is fiber.StatusOK, or the error status of refused filters.
func (c *Console) Requests(ctx *fiber.Ctx, status int, r *Requests) error {
	return c.render(ctx, page{
		template: "requests", title: "Requests", section: RequestsPath, status: status, live: true, script: "local.js", data: r,
	})
}

// RequestList answers with the live part of the log.
func (c *Console) RequestList(ctx *fiber.Ctx, r *Requests) error {
	return c.fragment(ctx, "request-list", r)
}

// Filtered reports whether a filter is set.
func (r *Requests) Filtered() bool { return r.query().Encode() != "" }

// Live reports whether the page updates itself: it is the first one, and its filters are valid.
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

// MovingPath is the address of the live part.
func (r *Requests) MovingPath() string { return address(RequestListPath, r.query()) }

// TablePath is the address of the same requests in CSV.
func (r *Requests) TablePath() string { return address(RequestTablePath, r.query()) }

// NewestPath is the address of the first page with the same filters.
func (r *Requests) NewestPath() string { return address(RequestsPath, r.query()) }

// OlderPath is the address of the next page; empty on the last.
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

// Explained is the page of a request: how it was billed, found by folding the journal again.
type Explained struct {
	Holder      Holder
	ID          string
	Explanation *Explanation // nil while billing reads the journal, and of a request that billing was not asked about
	Log         *Request     // entry in the log; nil if it is no longer there
	Done, Total uint64       // journal messages read, and in total
	Fold        *Fold        // nil unless verification was asked for
}

// Path is the path of the page.
func (e *Explained) Path() string { return RequestsPath + "/" + e.ID }

// Explanation is how a request was decided and billed.
type Explanation struct {
	*event.ExplainAnswer
	Words    string // the explanation in sentences
	Decision string // as the API names it
	Source   string
	KeyID    string // empty if the request had no key
	AnyKey   bool   // the viewer is an admin: keys are not linked, since they have no pages for admins
}

// About describes the request.
func (e *Explanation) About() string { return pages.AboutKey(plan.QuotaKey(e.QuotaKey)) }

// QuotaName is the name of its quota key.
func (e *Explanation) QuotaName() string { return plan.QuotaKey(e.QuotaKey).String() }

// Outcome is how the request ended.
func (e *Explanation) Outcome() string {
	return Request{Decision: e.Decision, Status: e.Settlement}.Outcome()
}

// Admitted reports whether it was counted.
func (e *Explanation) Admitted() bool { return e.Decision == "admitted" }

// Limit is the quota of the rule.
func (e *Explanation) Limit() string { return limit(e.GetVerdict().GetLimit()) }

// Tier is the account's plan; empty for a request without a key.
func (e *Explanation) Tier() string {
	if v := e.GetVerdict(); v.GetTier() != 0 {
		return title(v.Tier, v.Plan)
	}
	return ""
}

// Window is the period of the quota for requests without a key.
func (e *Explanation) Window() string {
	return pages.Duration(time.Duration(e.WindowMs) * time.Millisecond)
}

// Price is the price of a request over quota; empty if none is sold.
func (e *Explanation) Price() string {
	if e.PriceMicros == 0 {
		return ""
	}
	return credits(e.PriceMicros)
}

// Cost is the final cost.
func (e *Explanation) Cost() string { return credits(e.CostMicros) }

// Balance is the balance afterwards; empty unless credits paid.
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

// GrantUse is the part of a price that a grant paid.
type GrantUse struct {
	Amount, Reason string
	Position       uint64 // message of the journal that has the grant
}

// Fold compares a request's replayed decision with the recorded one.
type Fold struct {
	Path        string // of the request's page
	Run         string
	Done, Total uint64 // messages read, and in total; 0 once done
	Folded      uint64 // messages replayed
	Forgotten   bool   // the request is no longer in the log
	SignedOut   bool   // the viewer's session has ended
	Admin       bool   // the viewer is an admin
	Open        bool   // the request is pending, so both values may change
	Rows        []Compared
	Problem     string // why the replay failed; empty if it did not
}

// Compared is a value as recorded and as replayed.
type Compared struct {
	Name, Recorded, Folded string
}

// Same reports whether the values are equal.
func (c Compared) Same() bool { return c.Recorded == c.Folded }

// Matches reports whether all values are equal.
func (f *Fold) Matches() bool {
	for _, row := range f.Rows {
		if !row.Same() {
			return false
		}
	}
	return true
}

// Compare adds a value as recorded and as replayed.
func (f *Fold) Compare(name, recorded, folded string) {
	f.Rows = append(f.Rows, Compared{Name: name, Recorded: recorded, Folded: folded})
}

// Explained shows the page of a request.
func (c *Console) Explained(ctx *fiber.Ctx, e *Explained) error {
	return c.render(ctx, page{template: "request", title: "Request", section: RequestsPath, live: true, data: e})
}

// Folded answers with the verification part of a request's page.
func (c *Console) Folded(ctx *fiber.Ctx, f *Fold) error { return c.fragment(ctx, "fold", f) }

// fragment answers with a part of a page.
func (c *Console) fragment(ctx *fiber.Ctx, name string, data any) error {
	var out bytes.Buffer
	if err := c.templates.ExecuteTemplate(&out, name, data); err != nil {
		return fmt.Errorf("render the part %s: %w", name, err)
	}
	return c.pages.Fragment(ctx, template.HTML(out.String())) //nolint:gosec // a template made it
}
