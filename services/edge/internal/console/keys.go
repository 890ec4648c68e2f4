package console

import (
	"cmp"
	"slices"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
	"quire.dev/services/edge/internal/pages"
)

// The values of the field "scopes": a key may do all, or what is marked.
const (
	ScopesAll  = "all"
	ScopesSome = "some"
)

// Keys is the page of API keys and the account's spending cap.
type Keys struct {
	Holder  Holder
	List    []Key
	Cap     *event.CapStatus
	Create  *Form
	Capping *Form
	First   *Form // to create the default key; nil if it exists
	Call    *FirstCall
	Done    string
}

// Used reports whether an active key was ever used.
func (k *Keys) Used() bool {
	return slices.ContainsFunc(k.Live(), func(k Key) bool { return k.LastUsedMs != 0 })
}

// FirstCall is a command that creates something with a key, as the plan and the scopes of the key allow.
type FirstCall struct {
	What string // that the command creates, with an article
	Path string // of the operation
	URL  string // of this site, without a trailing slash
	Open bool   // shown unfolded
}

// FirstCallOf returns the first call for keys with scopes, none meaning all, on the plan of an account: a paste, or a quick paste where the
// plan has no pastes. It is nil if the keys can create neither. open unfolds it.
func FirstCallOf(u *event.UsageAnswer, scopes []uint32, url string, open bool) *FirstCall {
	for _, call := range []struct {
		key        plan.QuotaKey
		what, path string
	}{
		{plan.PastesCreate, "a paste", "/api/dev/pastes/create"},
		{plan.LiteCreate, "a quick paste", "/api/dev/paste-lite/create"},
	} {
		included := slices.ContainsFunc(u.Usage, func(k *event.KeyUsage) bool { return plan.QuotaKey(k.QuotaKey) == call.key && k.Limit != 0 })
		if included && (len(scopes) == 0 || slices.Contains(scopes, uint32(call.key))) {
			return &FirstCall{What: call.what, Path: call.path, URL: url, Open: open}
		}
	}
	return nil
}

// Key is an API key.
type Key struct {
	*event.ApiKey
	ID     string     // in the API and in its page's path
	Status string     // as in the API
	Now    int64      // Unix milliseconds
	Call   *FirstCall // set for the key's own page
}

// Live reports whether calls with the key are admitted.
func (k Key) Live() bool { return k.RevokedMs == 0 && (k.ExpiresMs == 0 || k.ExpiresMs > k.Now) }

// Label is the key's name, or "Default key" for one without a name.
func (k Key) Label() string {
	if k.Name == "" {
		return "Default key"
	}
	return k.Name
}

// Path is the path of its page.
func (k Key) Path() string { return KeysPath + "/" + k.ID }

// Allowed are the key's scopes; none means all.
func (k Key) Allowed() (out []string) {
	for _, scope := range k.Scopes {
		out = append(out, plan.QuotaKey(scope).String())
	}
	return out
}

// Requests is this month's number of requests under all quota keys.
func (k Key) Requests() string {
	var sum uint64
	for _, u := range k.Usage {
		sum += u.Used
	}
	return number(sum)
}

// Spent is this month's micro-credits.
func (k Key) Spent() (sum uint64) {
	for _, u := range k.Usage {
		sum += u.SpentMicros
	}
	return sum
}

// SpendingCap is the key's cap; nil if not set.
func (k Key) SpendingCap() *Cap { return capOf(k.Cap) }

// Rows are this month's usage per quota key, with the key's limits.
func (k Key) Rows() (out []row) {
	for _, key := range plan.QuotaKeys() {
		r := row{Key: key.String(), About: pages.AboutKey(key), Limit: "–"}
		u := &event.KeyUsage{}
		if i := slices.IndexFunc(k.Usage, func(u *event.KeyUsage) bool { return plan.QuotaKey(u.QuotaKey) == key }); i >= 0 {
			u = k.Usage[i]
		}
		q := slices.IndexFunc(k.Quotas, func(q *event.KeyQuota) bool { return plan.QuotaKey(q.QuotaKey) == key })
		if q >= 0 {
			r.Limit = number(k.Quotas[q].Limit)
			r.Bar = barOf(&event.KeyUsage{Used: u.Used, Limit: int64(k.Quotas[q].Limit)})
		}
		if q < 0 && u.Used == 0 {
			continue
		}
		r.Used, r.Overage, r.Spent = number(u.Used), number(u.Overage), u.SpentMicros
		out = append(out, r)
	}
	return out
}

// Live are the active keys.
func (k *Keys) Live() []Key { return k.only(true) }

// Ended are the latest revoked and expired keys.
func (k *Keys) Ended() []Key { return k.only(false) }

func (k *Keys) only(live bool) (out []Key) {
	for _, key := range k.List {
		if key.Live() == live {
			out = append(out, key)
		}
	}
	return out
}

// SpendingCap is the account's cap; nil if not set.
func (k *Keys) SpendingCap() *Cap { return capOf(k.Cap) }

// ruleFields are the fields of a key's name, expiry, scopes and limits. A new key needs no name.
func ruleFields(create bool) []Field {
	hint := "Unique among your active keys. Stored permanently. Avoid personal data."
	if create {
		hint = "For example “office backup”. Leave empty for “default 2” or the next free name. Stored permanently. Avoid personal data."
	}
	out := append([]Field{
		{Name: "name", Label: "Name", Type: "text", Most: 100, Required: !create, Hint: hint, Subject: "The name"},
		{Name: "expiresIn", Label: "Expires", Type: "select", Options: lifetimes(), Subject: "The expiry"},
		{Name: "scopes", Label: "Scopes", Subject: "The scopes"},
		{Name: "quotas", Label: "Limits", Subject: "The limit"},
		{Name: "spendingCap", Label: "Spending cap", Subject: "The spending cap"},
	}, capFields("spendingCap.")...)
	for _, scope := range plan.Scopes() {
		out = append(out, Field{Name: "scopes." + scope.String(), Label: pages.AboutKey(scope), Type: "checkbox"})
	}
	for _, key := range plan.QuotaKeys() {
		out = append(out, Field{Name: "quotas." + key.String(), Label: pages.AboutKey(key), Type: "text", Most: 10, Subject: "The limit"})
	}
	return out
}

// Marks are the checkboxes of a key's scopes.
func (f *Form) Marks() []Mark {
	out := make([]Mark, 0, plan.KeyCount)
	for _, scope := range plan.Scopes() {
		out = append(out, Mark{scope.String(), f.Field("scopes." + scope.String())})
	}
	return out
}

// Limits are the fields of a key's monthly limits.
func (f *Form) Limits() []Mark {
	out := make([]Mark, 0, plan.KeyCount)
	for _, key := range plan.QuotaKeys() {
		out = append(out, Mark{key.String(), f.Field("quotas." + key.String())})
	}
	return out
}

// Limited reports whether a limit is set or wrong, so that the page opens that part.
func (f *Form) Limited() bool {
	return slices.ContainsFunc(f.Limits(), func(m Mark) bool { return m.Value != "" || m.Problem != nil }) || f.Field("quotas").Problem != nil
}

// Mark is a field about a quota key.
type Mark struct {
	Key string
	Field
}

// CreateKey is the form to create a key.
func CreateKey(account, once string) *Form {
	return &Form{
		ID: "create", Action: KeysPath, Account: account, Once: once, fields: ruleFields(true),
		Values: map[string]string{"expiresIn": "never", "scopes": ScopesAll, "spendingCap.period": "month"},
	}
}

// KeepExpiry is the value of the field "expiresIn" that keeps the current expiry.
const KeepExpiry = "keep"

// ChangeKey is the form to edit a key.
func ChangeKey(account, once string, k Key) *Form {
	f := &Form{ID: "change", Action: k.Path(), Account: account, Once: once, fields: ruleFields(false), Values: map[string]string{
		"name": k.Label(), "expiresIn": KeepExpiry, "scopes": ScopesAll, "spendingCap.period": "month",
	}}
	for i := range f.fields {
		if f.fields[i].Name == "expiresIn" {
			f.fields[i].Options = append([][2]string{{KeepExpiry, "Keep current"}}, f.fields[i].Options...)
		}
	}
	for _, scope := range k.Allowed() {
		f.Values["scopes"], f.Values["scopes."+scope] = ScopesSome, "on"
	}
	for _, q := range k.Quotas {
		f.Values["quotas."+plan.QuotaKey(q.QuotaKey).String()] = plainNumber(q.Limit)
	}
	fillCap(f, "spendingCap.", k.Cap)
	return f
}

// CapSpending is the form for the spending cap of the account.
func CapSpending(account, once string, c *event.CapStatus) *Form {
	f := &Form{
		ID: "cap", Action: SpendingCapPath, Account: account, Once: once, fields: capFields(""),
		Values: map[string]string{"period": "month"},
	}
	fillCap(f, "", c)
	return f
}

func fillCap(f *Form, before string, c *event.CapStatus) {
	if c == nil {
		return
	}
	f.Values[before+"amount"] = plan.Short(c.Cap.GetAmountMicros())
	switch c.Cap.GetPeriod() {
	case event.CapPeriod_CAP_DAY:
		f.Values[before+"period"] = "day"
	case event.CapPeriod_CAP_TOTAL:
		f.Values[before+"period"] = "total"
	}
}

// RotateKey is the form to rotate a key.
func RotateKey(account, once string, k Key) *Form {
	return &Form{
		ID: "rotate", Action: k.Path() + "/rotate", Account: account, Once: once, Values: map[string]string{"overlap": "1d"},
		fields: []Field{
			{
				Name: "overlap", Label: "Old key", Type: "select", Subject: "The overlap",
				Options: [][2]string{{"1h", "Valid for 1 hour"}, {"1d", "Valid for 1 day"}, {"3d", "Valid for 3 days"}, {"7d", "Valid for 7 days"}, {"0s", "Revoke immediately"}},
			},
			{Name: "confirm", Label: "To revoke immediately, type the name of the key", Type: "text", Hint: k.Label()},
		},
	}
}

// RevokeKey is the form to revoke a key.
func RevokeKey(account, once string, k Key) *Form {
	return &Form{
		ID: "revoke", Action: k.Path() + "/revoke", Account: account, Once: once, Values: map[string]string{},
		fields: []Field{{Name: "confirm", Label: "Type the name of the key", Type: "text", Hint: k.Label(), Required: true}},
	}
}

// Keys shows the API keys of an account. status is fiber.StatusOK, or the error status of a refused form.
func (c *Console) Keys(ctx *fiber.Ctx, status int, k *Keys) error {
	return c.render(ctx, page{template: "keys", title: "API keys", section: KeysPath, done: k.Done, status: status, data: k})
}

// OneKey is an API key with the forms to edit, rotate and revoke it.
type OneKey struct {
	Holder                 Holder
	Key                    Key
	Change, Rotate, Revoke *Form
	Done                   string
}

// OneKey shows an API key.
func (c *Console) OneKey(ctx *fiber.Ctx, status int, k *OneKey) error {
	return c.render(ctx, page{template: "one-key", title: k.Key.Label(), section: KeysPath, done: k.Done, status: status, data: k})
}

// NewKey is a key that was just created.
type NewKey struct {
	Holder    Holder
	APIKey    string
	URL       string // of this site, without a trailing slash
	Welcome   bool   // the account is new too
	OldEndsMs int64  // when the replaced key expires; 0 if no replaced key is active
	Once      string // idempotency token of the form for a first paste
	Offers    *Offers
	CanPaste  bool  // the key can create quick pastes
	Known     bool  // Left and Limit are set
	Left      int64 // quick pastes of this month
	Limit     int64 // plan.Unlimited for none
}

// NewKey shows a new API key; it is not shown again.
func (c *Console) NewKey(ctx *fiber.Ctx, k *NewKey) error {
	heading := "Your new API key"
	if k.Welcome {
		heading = "Welcome to Quire"
	}
	return c.render(ctx, page{template: "new-key", title: heading, section: KeysPath, secret: true, data: k})
}

// Offers compares the limits of the account's plan with the next larger one.
type Offers struct {
	Tier, Next string
	Rows       []Offer
	UpgradeURL string
}

// Offer is the monthly limit of a request on the account's plan and on the next one, as text.
type Offer struct{ About, Has, Next string }

// OffersOf compares a plan with the next larger one; nil if no larger plan is on sale.
func OffersOf(prices *event.PriceBook, tier plan.Tier, upgradeURL string) *Offers {
	if prices == nil {
		return nil
	}
	book := pricebook.Of(prices)
	next := larger(book, tier)
	if next == plan.TierUnspecified {
		return nil
	}
	has, more := &book.Plans[tier], &book.Plans[next]
	out := &Offers{Tier: tier.Title(has.Name), Next: next.Title(more.Name), UpgradeURL: upgradeURL}
	if has.FeeCents != more.FeeCents {
		out.Rows = append(out.Rows, Offer{"Monthly fee", cmp.Or(feeText(has.FeeCents), "none"), feeText(more.FeeCents)})
	}
	for _, key := range plan.QuotaKeys() {
		mine, theirs := has.Terms[key].Limit, more.Terms[key].Limit
		if mine == theirs {
			continue
		}
		out.Rows = append(out.Rows, Offer{pages.AboutKey(key), offered(mine), offered(theirs)})
	}
	return out
}

// larger is the next plan on sale after a tier: one with a higher fee, or while nothing has a fee, the next of the book.
func larger(book *plan.Book, tier plan.Tier) plan.Tier {
	all := onSale(book)
	i := slices.Index(all, tier)
	if i < 0 {
		return plan.TierUnspecified
	}
	fees := book.Plans[all[len(all)-1]].FeeCents > 0
	for _, t := range all[i+1:] {
		if !fees || book.Plans[t].FeeCents > book.Plans[tier].FeeCents {
			return t
		}
	}
	return plan.TierUnspecified
}

func offered(n int64) string {
	if n == 0 {
		return "–"
	}
	return limit(n)
}
