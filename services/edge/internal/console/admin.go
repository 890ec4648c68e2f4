package console

import (
	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/pages"
)

// Admin is who sees a page for admins.
type Admin struct {
	Name string // of the token
	Site string // origin of the other pages; empty: they are beside this one
}

func adminSections(current string) []pages.Link {
	out := []pages.Link{
		{Name: "Accounts", Path: AdminPath},
		{Name: "Explain", Path: AdminRequestsPath},
		{Name: "Audit", Path: AdminAuditsPath},
		{Name: "Prices", Path: AdminPricesPath},
		{Name: "Health", Path: AdminHealthPath},
		{Name: "Log", Path: AdminLogPath},
	}
	for i := range out {
		out[i].Current = out[i].Path == current
	}
	return out
}

// AdminSign is the form to open a session with an admin token.
type AdminSign struct {
	Admin Admin
	Form  *Form
}

// AdminToken is that form. next is the path to go on to.
func AdminToken(next string) *Form {
	return &Form{ID: "admin", Action: AdminSignInPath, Values: map[string]string{"next": next}, fields: []Field{
		{Name: "token", Label: "Admin token", Type: "password", Required: true, Subject: "The token"}, {Name: "next", Type: "hidden"},
	}}
}

// AdminSignIn shows the form. status is that of a token that was refused, else fiber.StatusOK.
func (c *Console) AdminSignIn(ctx *fiber.Ctx, status int, s *AdminSign) error {
	return c.render(ctx, page{template: "admin-sign-in", title: "Admin", admin: &s.Admin, status: status, data: s})
}

// AdminAccounts are accounts that an admin looks for.
type AdminAccounts struct {
	Admin        Admin
	Search       *Form
	List         []AdminAccount
	Cursor, Next string // of the page, and of the page after
}

// AdminAccount is an account in a list.
type AdminAccount struct {
	ID, Email, Tier    string
	Created            string // RFC 3339
	Suspended, Deletes bool
}

// FindAccount is the form that looks an email up.
func FindAccount(email string) *Form {
	return &Form{ID: "find", Action: AdminPath, Values: map[string]string{"email": email}, fields: []Field{
		{Name: "email", Label: "Email", Type: "text", Most: event.MaxEmailBytes, Subject: "The email"},
	}}
}

// AdminAccounts shows them. status is that of a search that was refused, else fiber.StatusOK.
func (c *Console) AdminAccounts(ctx *fiber.Ctx, status int, a *AdminAccounts) error {
	return c.render(ctx, page{template: "admin-accounts", title: "Accounts", section: AdminPath, admin: &a.Admin, status: status, data: a})
}

// AdminOne is an account with what an admin can do about it.
type AdminOne struct {
	Admin     Admin
	ID, Email string
	Usage     *event.UsageAnswer
	Forms     map[string]*Form // by the names of AdminActions
	Done      string
}

// AdminActions are the names of the forms about an account.
func AdminActions() []string { return []string{"tier", "credits", "suspend", "resume", "key"} }

// AdminForm is one of them.
func AdminForm(name, account, once string) *Form {
	f := &Form{ID: name, Action: AdminAccountPath + "/" + account + "/" + name, Once: once, Values: map[string]string{}}
	reason := Field{Name: "reason", Label: "Reason", Type: "text", Most: 200, Required: true, Hint: "It stays in the journal for ever: write nothing personal.", Subject: "The reason"}
	confirm := Field{Name: "confirm", Label: "Type the id of the account", Type: "text", Hint: account, Required: true, Subject: "This"}
	switch name {
	case "tier":
		field := Field{Name: "tier", Label: "Plan", Type: "select", Subject: "The plan"}
		for _, t := range plan.Tiers() {
			field.Options = append(field.Options, [2]string{t.String(), t.Title()})
		}
		f.fields = []Field{field}
	case "credits":
		f.fields = []Field{
			{Name: "amount", Label: "Credits", Type: "text", Required: true, Hint: "Like 12.5; with a minus they are taken away.", Subject: "The amount"},
			reason,
			{Name: "expiresAt", Label: "Expires, UTC", Type: "datetime-local", Hint: "Empty: never.", Subject: "The time"},
		}
	case "suspend":
		f.fields = []Field{reason, confirm}
	case "resume":
		f.fields = []Field{reason}
	case "key":
		f.fields = []Field{confirm}
	}
	return f
}

// AdminOne shows an account. status is that of a form that was refused, else fiber.StatusOK.
func (c *Console) AdminOne(ctx *fiber.Ctx, status int, a *AdminOne) error {
	if f := a.Forms["tier"]; f.Values["tier"] == "" {
		f.Values["tier"] = plan.Tier(a.Usage.Tier).String()
	}
	return c.render(ctx, page{template: "admin-account", title: "Account", section: AdminPath, admin: &a.Admin, done: a.Done, status: status, data: a})
}

// Rows are the usage under each quota key.
func (a *AdminOne) Rows() (out []row) {
	for _, u := range a.Usage.Usage {
		out = append(out, rowOf(u))
	}
	return out
}

// AdminNewKey is a key that an admin has made for an account.
type AdminNewKey struct {
	Admin           Admin
	Account, APIKey string
}

// AdminKey shows it, this once.
func (c *Console) AdminKey(ctx *fiber.Ctx, k *AdminNewKey) error {
	return c.render(ctx, page{template: "admin-key", title: "New API key", section: AdminPath, admin: &k.Admin, secret: true, data: k})
}

// AdminRequest is a request of any account that an admin has explained.
type AdminRequest struct {
	Admin       Admin
	Search      *Form
	ID          string       // of the request; empty: nothing is asked for
	Account     string       // id; empty: it was made without a key
	Explanation *Explanation // nil: there is none yet
	Done, Total uint64       // messages that are read, and to be read
	Fold        *Fold        // that the admin has asked for; nil: none
}

// Path is the path of the request's page.
func (r *AdminRequest) Path() string { return AdminRequestsPath + "/" + r.ID }

// FindRequest is the form that explains a request.
func FindRequest(id string) *Form {
	return &Form{ID: "explain", Action: AdminRequestsPath, Values: map[string]string{"id": id}, fields: []Field{
		{Name: "id", Label: "X-Request-Id", Type: "text", Most: 64, Required: true, Subject: "This"},
	}}
}

// AdminRequest shows how a request was decided. status is that of an id that was refused, else fiber.StatusOK.
func (c *Console) AdminRequest(ctx *fiber.Ctx, status int, r *AdminRequest) error {
	return c.render(ctx, page{template: "admin-request", title: "Explain a request", section: AdminRequestsPath, admin: &r.Admin, status: status, live: true, data: r})
}

// AdminAudit is an audit, or the form that begins one.
type AdminAudit struct {
	Admin                   Admin
	Begin                   *Form
	ID                      string // empty: none is shown
	Ended, Match, Restarted bool
	Partitions              []AuditedPartition
}

// AuditedPartition is how far an audit is with a partition.
type AuditedPartition struct {
	Partition    int
	Done, Total  uint64 // messages of all its replicas
	Ended, Match bool
	Live, Replay string // hashes
}

// BeginAudit is the form that begins an audit.
func BeginAudit() *Form { return &Form{ID: "audit", Action: AdminAuditsPath} }

// Path is the path of the audit's page.
func (a *AdminAudit) Path() string { return AdminAuditsPath + "/" + a.ID }

// AdminAudit shows an audit, or the form that begins one.
func (c *Console) AdminAudit(ctx *fiber.Ctx, status int, a *AdminAudit) error {
	return c.render(ctx, page{template: "admin-audit", title: "Audit", section: AdminAuditsPath, admin: &a.Admin, status: status, live: true, data: a})
}

// AuditProgress answers with the part of the page that moves.
func (c *Console) AuditProgress(ctx *fiber.Ctx, a *AdminAudit) error {
	return c.fragment(ctx, "audit-progress", a)
}

// AdminLog is a page of the log of admins' actions.
type AdminLog struct {
	Admin        Admin
	List         []AdminEntry
	Cursor, Next string
}

// AdminEntry is an action of an admin, in the words of the API.
type AdminEntry struct {
	Time                                    string // RFC 3339
	Token, Action, Account, Outcome, Detail string
}

// AdminLog shows a page of the log.
func (c *Console) AdminLog(ctx *fiber.Ctx, l *AdminLog) error {
	return c.render(ctx, page{template: "admin-log", title: "Log", section: AdminLogPath, admin: &l.Admin, data: l})
}

// AdminPrices is the price book in force.
type AdminPrices struct {
	Admin Admin
	Book  *event.PriceBook
}

// AdminPrices shows it.
func (c *Console) AdminPrices(ctx *fiber.Ctx, p *AdminPrices) error {
	return c.render(ctx, page{template: "admin-prices", title: "Prices", section: AdminPricesPath, admin: &p.Admin, data: p})
}

// Plans are the plans of the book.
func (p *AdminPrices) Plans() (out []string) {
	for _, t := range p.Book.Tiers {
		out = append(out, title(t.Tier))
	}
	return out
}

// PricedRow is what every plan has of a quota key.
type PricedRow struct {
	Key, About string
	Cells      []string
}

// Rows have a limit, and the price of a further request, for each plan.
func (p *AdminPrices) Rows() (out []PricedRow) {
	for _, key := range plan.QuotaKeys() {
		row := PricedRow{Key: key.String(), About: pages.AboutKey(key)}
		for _, t := range p.Book.Tiers {
			cell := "–"
			for _, term := range t.Terms {
				if plan.QuotaKey(term.QuotaKey) != key {
					continue
				}
				cell = limit(term.Limit)
				if term.Overage {
					cell += ", then " + credits(term.PriceMicros)
				}
			}
			row.Cells = append(row.Cells, cell)
		}
		out = append(out, row)
	}
	return out
}
