// Package prices has the price books of an installation: the document that an operator writes (docs/price-book.md), and the public
// endpoints that show them.
package prices

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

// Document is a price book. Amounts of dollars and credits are decimal strings.
type Document struct {
	CreditPrice string    `json:"creditPrice"` // dollars for a credit
	Anonymous   Anonymous `json:"anonymous"`
	Plans       []Plan    `json:"plans"`
}

// Anonymous bounds the quick pastes without a key.
type Anonymous struct {
	Limit         int   `json:"limit"` // of one source in a window
	WindowSeconds int64 `json:"windowSeconds"`
}

// Plan is what accounts on it include and pay.
type Plan struct {
	Name       string  `json:"name"`
	MonthlyFee string  `json:"monthlyFee"` // dollars
	Quotas     []Quota `json:"quotas"`     // of every quota key
	Storage    Storage `json:"storage"`
}

// Quota is the limit and the price of a quota key.
type Quota struct {
	QuotaKey string  `json:"quotaKey"`
	Limit    *int64  `json:"limit"` // requests a month; null: unlimited
	Price    *string `json:"price"` // credits for a request over quota; null: none are sold
}

// Storage is what a plan includes, and what more costs.
type Storage struct {
	IncludedBytes   uint64 `json:"includedBytes"`
	PricePerGBMonth string `json:"pricePerGBMonth"` // dollars
}

// Bounds of a document. They leave room for every sum that billing makes of them.
const (
	maxLimit         = 1_000_000_000_000
	maxDollars       = 1_000_000
	maxAnonymous     = 1_000_000
	minWindowSeconds = 60
	maxWindowSeconds = 30 * 24 * 60 * 60
	maxStorage       = 1 << 50
	maxName          = 32
)

// Of is the document of a book.
func Of(book *plan.Book) Document {
	d := Document{
		CreditPrice: trimmed(book.CreditPrice),
		Anonymous:   Anonymous{Limit: book.AnonymousLimit, WindowSeconds: book.AnonymousWindowMillis / 1000},
	}
	for _, tier := range book.Tiers() {
		of := &book.Plans[tier]
		p := Plan{
			Name: of.Name, MonthlyFee: plan.Dollars(of.FeeCents),
			Storage: Storage{IncludedBytes: of.FreeStorageBytes, PricePerGBMonth: plan.Dollars(of.StorageCentsPerGBMonth)},
		}
		for _, key := range plan.QuotaKeys() {
			term := of.Terms[key]
			q := Quota{QuotaKey: key.String()}
			if term.Limit != plan.Unlimited {
				q.Limit = new(term.Limit)
			}
			if term.Overage {
				q.Price = new(term.Price.String())
			}
			p.Quotas = append(p.Quotas, q)
		}
		d.Plans = append(d.Plans, p)
	}
	return d
}

// trimmed formats an amount with two to six places.
func trimmed(m plan.Micros) string {
	text := m.String()
	point := strings.IndexByte(text, '.')
	return text[:point+3] + strings.TrimRight(text[point+3:], "0")
}

// Read reads a document at a field. tiers are the numbers of the plans that earlier books have, by name: a plan keeps its number,
// and another one gets the next.
func Read(at string, v input.Value, tiers map[string]plan.Tier) (*plan.Book, error) {
	book := &plan.Book{}
	var window int64
	err := object(at, v, input.Fields{
		"creditPrice": input.To(&book.CreditPrice, in(at, dollars(6))),
		"anonymous": func(name string, v input.Value) error {
			return object(at+"."+name, v, input.Fields{
				"limit":         input.To(&book.AnonymousLimit, in(at+".anonymous", whole[int](0, maxAnonymous))),
				"windowSeconds": input.To(&window, in(at+".anonymous", whole[int64](minWindowSeconds, maxWindowSeconds))),
			})
		},
		"plans": func(name string, v input.Value) error { return readPlans(at+"."+name, v, book, tiers) },
	})
	book.AnonymousWindowMillis = window * 1000
	if err == nil && book.CreditPrice == 0 {
		err = httperr.InvalidField(at+".creditPrice", "must be above zero")
	}
	return book, err
}

func readPlans(at string, v input.Value, book *plan.Book, tiers map[string]plan.Tier) error {
	if v.Kind != input.Array {
		return httperr.InvalidField(at, "must be an array")
	}
	next := plan.Admin + 1
	for _, tier := range tiers {
		next = max(next, tier+1)
	}
	for i, item := range v.Items {
		place := fmt.Sprintf("%s[%d]", at, i)
		of, err := readPlan(place, item)
		if err != nil {
			return err
		}
		tier, known := tiers[of.Name]
		if !known {
			tier = next
			next++
		}
		switch {
		case !tier.Valid():
			return httperr.InvalidField(place, fmt.Sprintf("is one plan too many: all books together may have %d", plan.MaxTiers-1))
		case book.Plans[tier].Name != "", !known && hasPlan(book, of.Name):
			return httperr.InvalidField(place+".name", "is the name of an earlier plan")
		}
		book.Plans[tier] = of
	}
	for _, tier := range plan.Tiers() {
		if book.Plans[tier].Name == "" {
			return httperr.InvalidField(at, fmt.Sprintf("must have the plan %s", tier))
		}
	}
	return nil
}

func hasPlan(book *plan.Book, name string) bool {
	_, found := book.Tier(name)
	return found
}

var planName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,` + strconv.Itoa(maxName-1) + `}$`)

func readPlan(at string, v input.Value) (of plan.Plan, err error) {
	err = object(at, v, input.Fields{
		"name": input.To(&of.Name, in(at, func(name string, v input.Value) (string, error) {
			text, err := input.StringField(name, v)
			if err == nil && !planName.MatchString(text) {
				err = httperr.InvalidField(name, fmt.Sprintf("must be 1 to %d lower-case letters, digits and hyphens, beginning with a letter", maxName))
			}
			return text, err
		})),
		"monthlyFee": input.To(&of.FeeCents, in(at, CentsField)),
		"storage": func(name string, v input.Value) error {
			at := at + "." + name
			return object(at, v, input.Fields{
				"includedBytes":   input.To(&of.FreeStorageBytes, in(at, whole[uint64](0, maxStorage))),
				"pricePerGBMonth": input.To(&of.StorageCentsPerGBMonth, in(at, CentsField)),
			})
		},
		"quotas": func(name string, v input.Value) error { return readQuotas(at+"."+name, v, &of) },
	})
	return of, err
}

func readQuotas(at string, v input.Value, of *plan.Plan) error {
	if v.Kind != input.Array {
		return httperr.InvalidField(at, "must be an array")
	}
	var seen [plan.KeyCount]bool
	for i, item := range v.Items {
		place := fmt.Sprintf("%s[%d]", at, i)
		key, term, err := readQuota(place, item)
		switch {
		case err != nil:
			return err
		case seen[key]:
			return httperr.InvalidField(place+".quotaKey", "has come before")
		}
		seen[key], of.Terms[key] = true, term
	}
	for _, key := range plan.QuotaKeys() {
		if !seen[key] {
			return httperr.InvalidField(at, "must have the quota key "+key.String())
		}
	}
	return nil
}

func readQuota(at string, v input.Value) (key plan.QuotaKey, term plan.Term, err error) {
	err = object(at, v, input.Fields{
		"quotaKey": input.To(&key, in(at, func(name string, v input.Value) (plan.QuotaKey, error) {
			text, err := input.StringField(name, v)
			if err != nil {
				return 0, err
			}
			i := slices.IndexFunc(plan.QuotaKeys(), func(k plan.QuotaKey) bool { return k.String() == text })
			if i < 0 {
				return 0, httperr.InvalidField(name, "is not a quota key")
			}
			return plan.QuotaKeys()[i], nil
		})),
		"limit": input.To(&term.Limit, in(at, func(name string, v input.Value) (int64, error) {
			if v.Kind == input.Null {
				return plan.Unlimited, nil
			}
			return whole[int64](0, maxLimit)(name, v)
		})),
		"price": func(_ string, v input.Value) (err error) {
			if term.Overage = v.Kind != input.Null; term.Overage {
				term.Price, err = creditsField(at+".price", v)
			}
			return err
		},
	})
	if err == nil && term.Overage && term.Limit == plan.Unlimited {
		err = httperr.InvalidField(at+".price", "must be null: an unlimited quota sells no requests")
	}
	return key, term, err
}

// object reads an object that must have each of the fields.
func object(at string, v input.Value, fields input.Fields) error {
	if v.Kind != input.Object {
		return httperr.InvalidField(at, "must be an object")
	}
	for _, m := range v.Members {
		if err := fields.Set(m.Name, m.Value); err != nil {
			return err
		}
	}
	for name := range fields {
		if !slices.ContainsFunc(v.Members, func(m input.Member) bool { return m.Name == name }) {
			return httperr.InvalidField(at+"."+name, "is required")
		}
	}
	return nil
}

// in names the field of a reader with its place.
func in[T any](at string, read func(string, input.Value) (T, error)) func(string, input.Value) (T, error) {
	return func(name string, v input.Value) (T, error) { return read(at+"."+name, v) }
}

func whole[T int | int64 | uint64](least, most T) func(string, input.Value) (T, error) {
	return func(name string, v input.Value) (T, error) {
		n, err := strconv.ParseInt(string(v.Text), 10, 64)
		if v.Kind != input.Number || err != nil || n < int64(least) || n > int64(most) {
			return 0, httperr.InvalidField(name, fmt.Sprintf("must be a whole number from %d to %d", least, most))
		}
		return T(n), nil
	}
}

// dollars reads an amount of dollars with a number of places at most.
func dollars(places int) func(string, input.Value) (plan.Micros, error) {
	return func(name string, v input.Value) (plan.Micros, error) {
		return amount(name, v, places, 0, maxDollars*plan.Credit, "dollars")
	}
}

// CentsField reads an amount of dollars with at most two places, in cents.
func CentsField(name string, v input.Value) (uint64, error) {
	m, err := dollars(2)(name, v)
	return num.Uint64(m / 10_000), err
}

func creditsField(name string, v input.Value) (plan.Micros, error) {
	return amount(name, v, 6, 1, plan.MaxBalance, "credits")
}

var decimal = regexp.MustCompile(`^(0|[1-9][0-9]{0,9})(\.[0-9]{1,6})?$`)

func amount(name string, v input.Value, places int, least, most plan.Micros, unit string) (plan.Micros, error) {
	text := string(v.Text)
	whole, fraction, _ := strings.Cut(text, ".")
	m, err := plan.ParseCredits(text)
	if v.Kind != input.String || !decimal.MatchString(text) || len(fraction) > places || len(whole) == 0 || err != nil || m < least || m > most {
		return 0, httperr.InvalidField(name, fmt.Sprintf(`must be %s as a decimal string with at most %d places, from "%s" to "%s"`, unit, places, least, most))
	}
	return m, nil
}
