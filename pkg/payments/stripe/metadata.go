package stripe

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"quire.dev/pkg/payments"
)

// Keys of the metadata that Quire sets. Objects that already exist keep theirs, so a key's meaning never changes.
const (
	metaInstallation = "quire_installation"
	metaAccount      = "quire_account"
	metaCredits      = "quire_credits_micros"
	metaPlan         = "quire_plan"
	metaAmount       = "quire_amount"   // minor units, before tax
	metaCurrency     = "quire_currency" // as in the order
	metaKey          = "quire_key"      // of a TopUp
	metaNextPlan     = "quire_next_plan"
	metaNextAmount   = "quire_next_amount" // as metaAmount
	metaNextFrom     = "quire_next_from"   // Unix time: periods from then on are of metaNextPlan
	metaSession      = "quire_session"     // "tax" or "invoice": the Checkout session knows more than the PaymentIntent
)

// sale is what Quire sold, as the metadata of a PaymentIntent or a subscription says.
type sale struct {
	account  string
	credits  int64 // micros; 0 for a plan
	plan     string
	amount   int64 // minor units, before tax
	currency string
	session  string // metaSession
	next     planFee
	nextFrom int64 // Unix time from which next is in force
}

// planFee is a plan that a subscription moves to; the zero value is none.
type planFee struct {
	plan   string
	amount int64 // minor units, before tax
}

// at is the sale as of a time: from nextFrom on, the next plan is the one that was sold.
func (s sale) at(unix int64) sale {
	if s.next.plan != "" && unix >= s.nextFrom {
		s.plan, s.amount, s.next, s.nextFrom = s.next.plan, s.next.amount, planFee{}, 0
	}
	return s
}

// metadata writes the sale down.
func (p *Provider) metadata(s sale) map[string]string {
	m := map[string]string{
		metaInstallation: p.config.Installation,
		metaAccount:      s.account,
		metaAmount:       strconv.FormatInt(s.amount, 10),
		metaCurrency:     s.currency,
	}
	if s.plan != "" {
		m[metaPlan] = s.plan
	} else {
		m[metaCredits] = strconv.FormatInt(s.credits, 10)
	}
	if s.session != "" {
		m[metaSession] = s.session
	}
	return m
}

// errUnmarked: the metadata has nothing of Quire.
var errUnmarked = fmt.Errorf("%w: no metadata of Quire", payments.ErrForeign)

// parse reads a sale back: errUnmarked or another ErrForeign if it isn't this installation's, ErrMismatch if it isn't whole.
func (p *Provider) parse(m map[string]string) (sale, error) {
	marked := false
	for key := range m {
		marked = marked || strings.HasPrefix(key, "quire_")
	}
	switch {
	case !marked:
		return sale{}, errUnmarked
	case m[metaInstallation] != p.config.Installation && m[metaInstallation] != "":
		return sale{}, fmt.Errorf("%w: it belongs to installation %q", payments.ErrForeign, m[metaInstallation])
	}
	s := sale{account: m[metaAccount], plan: m[metaPlan], currency: m[metaCurrency], session: m[metaSession]}
	var amountErr, creditsErr error
	s.amount, amountErr = strconv.ParseInt(m[metaAmount], 10, 64)
	if s.plan == "" {
		s.credits, creditsErr = strconv.ParseInt(m[metaCredits], 10, 64)
	}
	if m[metaNextPlan] != "" {
		var nextErr, fromErr error
		s.next.plan = m[metaNextPlan]
		s.next.amount, nextErr = strconv.ParseInt(m[metaNextAmount], 10, 64)
		s.nextFrom, fromErr = strconv.ParseInt(m[metaNextFrom], 10, 64)
		if nextErr != nil || fromErr != nil || s.next.amount <= 0 || s.plan == "" {
			return sale{}, mismatch("metadata has no valid %s or %s", metaNextAmount, metaNextFrom)
		}
	}
	switch {
	case m[metaInstallation] == "":
		return sale{}, mismatch("metadata has no %s", metaInstallation)
	case !plain(s.account):
		return sale{}, mismatch("metadata has no valid %s", metaAccount)
	case amountErr != nil || s.amount <= 0:
		return sale{}, mismatch("metadata has no valid %s", metaAmount)
	case !currencyCode(s.currency):
		return sale{}, mismatch("metadata has no valid %s", metaCurrency)
	case s.plan == "" && (creditsErr != nil || s.credits <= 0):
		return sale{}, mismatch("metadata has neither a valid %s nor %s", metaCredits, metaPlan)
	}
	return s, nil
}

func mismatch(format string, args ...any) error {
	return fmt.Errorf("%w: %s", payments.ErrMismatch, fmt.Sprintf(format, args...))
}

// check reports what is wrong with the fields that orders and top-ups share.
func (s sale) check(key string) error {
	var errs []error
	if !plain(s.account) {
		errs = append(errs, errors.New("the account must be 1 to 64 of A-Z, a-z, 0-9, _ and -"))
	}
	if s.amount <= 0 {
		errs = append(errs, errors.New("the amount must be positive"))
	}
	if !currencyCode(s.currency) {
		errs = append(errs, errors.New("the currency must be three lower-case letters"))
	}
	if (s.credits > 0) == (s.plan != "") || s.credits < 0 {
		errs = append(errs, errors.New("either credits or a plan must be sold"))
	}
	if len(s.plan) > 500 { // https://docs.stripe.com/api/metadata: values have up to 500 characters
		errs = append(errs, errors.New("the plan's name is too long"))
	}
	if !printable(key) || len(key) > 100 {
		errs = append(errs, errors.New("the key must be 1 to 100 printable ASCII characters"))
	}
	if len(errs) > 0 {
		return fmt.Errorf("%w: %w", payments.ErrInvalid, errors.Join(errs...))
	}
	return nil
}

func currencyCode(c string) bool {
	return len(c) == 3 && strings.Trim(c, "abcdefghijklmnopqrstuvwxyz") == ""
}

// printable reports whether a text can be the value of a header.
func printable(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
