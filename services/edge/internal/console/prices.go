package console

import (
	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/pages"
)

// AdminPrices are the price books.
type AdminPrices struct {
	Admin    Admin
	Done     string     // name of a notice
	Book     *plan.Book // in force
	Credit   string     // price of a credit in dollars, as in the document
	Current  PriceBook
	Upcoming []PriceBook
	Past     []PriceBook // the newest ones, ShownBooks at most
	Apply    *Form
	Tried    *PriceChanges // of a dry run; nil without one
}

// ShownBooks bounds the past price books on the page.
const ShownBooks = 20

// PriceBook is a row of a list of price books.
type PriceBook struct {
	ID       string
	FromMs   int64
	Withdraw *Form // of an upcoming one
}

// PriceChanges is what a price book would change.
type PriceChanges struct {
	Rows []PriceChange
}

// PriceChange is a difference between price books. An empty Plan concerns all.
type PriceChange struct{ Plan, Accounts, What, From, To string }

// ApplyPrices is the form to apply a price book.
func ApplyPrices() *Form {
	return &Form{ID: "apply", Action: AdminPricesPath, Values: map[string]string{}, fields: []Field{
		{Name: "book", Label: "Document", Type: "textarea", Required: true, Subject: "The document"},
		{Name: "effectiveAt", Label: "In force from, UTC", Type: "datetime-local", Required: true, Hint: "At least a minute from now.", Subject: "The time"},
		{Name: "dryRun"},
	}}
}

// WithdrawPrices is the form to withdraw an upcoming price book.
func WithdrawPrices(id string) *Form {
	return &Form{ID: "withdraw-" + id, Action: AdminPricesPath + "/" + id + "/withdraw"}
}

// AdminPrices shows the price books.
func (c *Console) AdminPrices(ctx *fiber.Ctx, status int, p *AdminPrices) error {
	return c.render(ctx, page{template: "admin-prices", title: "Prices", section: AdminPricesPath, admin: &p.Admin, done: p.Done, status: status, data: p})
}

// Plans are the plans of the book.
func (p *AdminPrices) Plans() (out []string) {
	for _, t := range p.Book.Tiers() {
		out = append(out, t.Title(p.Book.Plans[t].Name))
	}
	return out
}

// PricedRow is what a plan includes or costs, for each plan. Key is empty if it is not about a quota key.
type PricedRow struct {
	Key, About string
	Cells      []string
}

// Rows list each quota key's limit and price over quota, the fee and the storage, per plan.
func (p *AdminPrices) Rows() (out []PricedRow) {
	row := func(key, about string, cell func(*plan.Plan) string) {
		r := PricedRow{Key: key, About: about}
		for _, t := range p.Book.Tiers() {
			r.Cells = append(r.Cells, cell(&p.Book.Plans[t]))
		}
		out = append(out, r)
	}
	for _, key := range plan.QuotaKeys() {
		row(key.String(), pages.AboutKey(key), func(of *plan.Plan) string {
			text := limit(of.Terms[key].Limit)
			if of.Terms[key].Overage {
				text += ", then " + credits(num.Uint64(of.Terms[key].Price))
			}
			return text
		})
	}
	row("", "Storage", func(of *plan.Plan) string {
		return pages.Size(of.FreeStorageBytes) + ", then " + usd(of.StorageCentsPerGBMonth) + " per GB"
	})
	row("", "Monthly fee", func(of *plan.Plan) string { return usd(of.FeeCents) })
	return out
}
