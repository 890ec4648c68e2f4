package console

import (
	"net/url"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/pages"
)

// Ledger is a page of the ledger.
type Ledger struct {
	Holder  Holder
	Search  *Form
	Entries []Entry
	Cursor  string // of this page; empty for the newest
	Next    string // of the next page; empty on the last
}

// Entry is an entry of the ledger.
type Entry struct {
	*event.LedgerEntry
	RequestID string // empty unless a request caused it
}

// Ledger shows a page of the ledger. status is fiber.StatusOK, or the error status of a refused search.
func (c *Console) Ledger(ctx *fiber.Ctx, status int, l *Ledger) error {
	return c.render(ctx, page{template: "ledger", title: "Ledger", section: BillingPath, status: status, data: l})
}

// SearchLedger is the search form of the ledger. Its fields are the parameters of the API.
func SearchLedger(values map[string]string) *Form {
	f := &Form{ID: "search", Action: LedgerPath, Values: values, fields: []Field{
		{Name: "q", Label: "Reason contains", Type: "search", Most: 200, Subject: "The reason"},
		{Name: "type", Label: "Kind", Type: "select", Options: [][2]string{
			{"", "All"},
			{"charge", "Charges"},
			{"grant", "Grants"},
			{"adjustment", "Adjustments"},
			{"expiry", "Expiries"},
			{"payment", "Payments"},
			{"refund", "Refunds"},
			{"reversal", "Reversed payments"},
		}, Subject: "The kind"},
		{Name: "quotaKey", Label: "Request", Type: "select", Options: [][2]string{{"", "All"}}, Subject: "The request"},
		{Name: "from", Label: "First day, UTC", Type: "date", Subject: "The first day"},
		{Name: "to", Label: "Last day, UTC", Type: "date", Subject: "The last day"},
		{Name: "requestId", Label: "Request id", Type: "text", Most: 36, Subject: "The request id"},
	}}
	for i, field := range f.fields {
		switch {
		case field.Name == "quotaKey":
			for _, key := range plan.QuotaKeys() {
				f.fields[i].Options = append(f.fields[i].Options, [2]string{key.String(), pages.AboutKey(key)})
			}
		case field.Type == "date" && values[field.Name] != "" && !isDay(values[field.Name]):
			f.fields[i].Type = "text" // a date field would not show a time or a mistake
		}
	}
	return f
}

// query is the search as a URL query.
func (l *Ledger) query() url.Values {
	out := make(url.Values)
	for _, name := range l.Search.Names() {
		if text := l.Search.Values[name]; text != "" {
			out.Set(name, text)
		}
	}
	return out
}

// Searched reports whether a filter is set.
func (l *Ledger) Searched() bool { return len(l.query()) > 0 }

// NewestPath is the first page of the same search.
func (l *Ledger) NewestPath() string { return withQuery(LedgerPath, l.query()) }

// OlderPath is the next page; empty on the last.
func (l *Ledger) OlderPath() string {
	if l.Next == "" {
		return ""
	}
	query := l.query()
	query.Set("cursor", l.Next)
	return withQuery(LedgerPath, query)
}

// TablePath is the same search as CSV.
func (l *Ledger) TablePath() string { return withQuery(LedgerTablePath, l.query()) }

func withQuery(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// BookedMs is when the entry was made, where that differs from its time by a second or more; otherwise 0.
func (e Entry) BookedMs() int64 {
	if e.SettledMs-e.TimeMs < 1000 {
		return 0
	}
	return e.SettledMs
}

// Kind names what changed the balance.
func (e Entry) Kind() string {
	switch e.Type {
	case event.LedgerType_LEDGER_GRANT:
		return "Grant"
	case event.LedgerType_LEDGER_ADJUSTMENT:
		return "Adjustment"
	case event.LedgerType_LEDGER_CHARGE:
		return "Charge"
	case event.LedgerType_LEDGER_EXPIRY:
		return "Expiry"
	case event.LedgerType_LEDGER_REFUND:
		return "Refund"
	case event.LedgerType_LEDGER_PAYMENT:
		return "Payment"
	case event.LedgerType_LEDGER_REVERSAL:
		return "Payment reversed"
	}
	return "Other"
}

// Key is the quota key of a charge; empty for other entries.
func (e Entry) Key() string {
	if e.QuotaKey == 0 {
		return ""
	}
	return plan.QuotaKey(e.QuotaKey).String()
}

// About is the request of a charge in words.
func (e Entry) About() string { return pages.AboutKey(plan.QuotaKey(e.QuotaKey)) }

// For is the month of the requests that a refund of no single one is for; empty for other entries.
func (e Entry) For() string {
	if e.Month == 0 {
		return ""
	}
	return time.Month(e.Month%12+1).String() + " " + strconv.Itoa(int(e.Month/12))
}

// Amount is the change of the balance, with its sign.
func (e Entry) Amount() string {
	if e.AmountMicros < 0 {
		return "\u2212" + credits(num.Uint64(-e.AmountMicros))
	}
	return "+" + credits(num.Uint64(e.AmountMicros))
}

// Balance is the balance after it.
func (e Entry) Balance() string { return credits(e.BalanceMicros) }

// Path is the page of the request.
func (e Entry) Path() string { return RequestsPath + "/" + e.RequestID }
