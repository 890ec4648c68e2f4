package console

import (
	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/pages"
)

// Admin is the admin who views a page.
type Admin struct {
	Name string // of the admin token
	Site string // origin of the public pages; empty if this listener serves them too
}

func adminSections(current string) []pages.Link {
	out := []pages.Link{
		{Name: "Accounts", Path: AdminPath},
		{Name: "Explain", Path: AdminRequestsPath},
		{Name: "Audit", Path: AdminAuditsPath},
		{Name: "Prices", Path: AdminPricesPath},
		{Name: "Revenue", Path: AdminRevenuePath},
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

// AdminToken is the sign-in form of admins. next is the path to continue to.
func AdminToken(next string) *Form {
	return &Form{ID: "admin", Action: AdminSignInPath, Values: map[string]string{"next": next}, fields: []Field{
		{Name: "token", Label: "Admin token", Type: "password", Required: true, Subject: "The token"}, {Name: "next", Type: "hidden"},
	}}
}

// AdminSignIn shows the sign-in form of admins. status is fiber.StatusOK, or the error status of a refused token.
func (c *Console) AdminSignIn(ctx *fiber.Ctx, status int, s *AdminSign) error {
	return c.render(ctx, page{template: "admin-sign-in", title: "Admin", admin: &s.Admin, status: status, data: s})
}

// AdminAccounts is a page of accounts, or the result of a search.
type AdminAccounts struct {
	Admin        Admin
	Search       *Form
	List         []AdminAccount
	Cursor, Next string // of this page and the next
}

// AdminAccount is an account in a list.
type AdminAccount struct {
	ID, Email, Tier    string
	Created            string // RFC 3339
	Suspended, Deletes bool
}

// FindAccount is the form to find an account by email.
func FindAccount(email string) *Form {
	return &Form{ID: "find", Action: AdminPath, Values: map[string]string{"email": email}, fields: []Field{
		{Name: "email", Label: "Email", Type: "text", Most: event.MaxEmailBytes, Subject: "The email"},
	}}
}

// AdminAccounts shows a page of accounts. status is fiber.StatusOK, or the error status of a refused search.
func (c *Console) AdminAccounts(ctx *fiber.Ctx, status int, a *AdminAccounts) error {
	return c.render(ctx, page{template: "admin-accounts", title: "Accounts", section: AdminPath, admin: &a.Admin, status: status, data: a})
}

// AdminOne is an account with the forms of the actions an admin can take.
type AdminOne struct {
	Admin     Admin
	ID, Email string
	Usage     *event.UsageAnswer
	Forms     map[string]*Form // by the names of AdminActions
	Done      string
}

// AdminActions are the names of the forms about an account.
func AdminActions() []string { return []string{"tier", "credits", "suspend", "resume", "key"} }

// OfferPlans sets the plans to choose from.
func (f *Form) OfferPlans(book *plan.Book) {
	for i := range f.fields {
		if f.fields[i].Name != "tier" {
			continue
		}
		for _, t := range book.Tiers() {
			name := book.Plans[t].Name
			f.fields[i].Options = append(f.fields[i].Options, [2]string{name, t.Title(name)})
		}
	}
}

// AdminForm is the form of the named action. OfferPlans has to set the plans of "tier".
func AdminForm(name, account, once string) *Form {
	f := &Form{ID: name, Action: AdminAccountPath + "/" + account + "/" + name, Once: once, Values: map[string]string{}}
	reason := Field{Name: "reason", Label: "Reason", Type: "text", Most: 200, Required: true, Hint: "Stored permanently. Avoid personal data.", Subject: "The reason"}
	confirm := Field{Name: "confirm", Label: "Type the id of the account", Type: "text", Hint: account, Required: true}
	switch name {
	case "tier":
		f.fields = []Field{{Name: "tier", Label: "Plan", Type: "select", Subject: "The plan"}, {Name: "when", Label: "When", Type: "select", Options: [][2]string{{"now", "Now"}, {"periodEnd", "With the next month"}}, Subject: "The time"}}
	case "credits":
		f.fields = []Field{
			{Name: "amount", Label: "Credits", Type: "text", Required: true, Hint: "For example 12.5. A negative amount deducts credits.", Subject: "The amount"},
			reason,
			{Name: "expiresAt", Label: "Expires, UTC", Type: "datetime-local", Hint: "Leave empty for no expiry.", Subject: "The expiry"},
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

// AdminOne shows an account. status is fiber.StatusOK, or the error status of a refused form.
func (c *Console) AdminOne(ctx *fiber.Ctx, status int, a *AdminOne) error {
	if f := a.Forms["tier"]; f.Values["tier"] == "" {
		f.Values["tier"] = plan.Tier(a.Usage.Tier).Name(a.Usage.Plan)
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

// AdminNewKey is the key that an admin created for an account.
type AdminNewKey struct {
	Admin           Admin
	Account, APIKey string
}

// AdminKey shows the new key; it is not shown again.
func (c *Console) AdminKey(ctx *fiber.Ctx, k *AdminNewKey) error {
	return c.render(ctx, page{template: "admin-key", title: "New API key", section: AdminPath, admin: &k.Admin, secret: true, data: k})
}

// AdminRequest explains a request of any account to an admin.
type AdminRequest struct {
	Admin       Admin
	Search      *Form
	ID          string       // of the request; empty if none was asked for
	Account     string       // id; empty if the request had no key
	Explanation *Explanation // nil while billing reads the journal
	Done, Total uint64       // journal messages read, and in total
	Fold        *Fold        // nil unless verification was asked for
}

// Path is the path of the request's page.
func (r *AdminRequest) Path() string { return AdminRequestsPath + "/" + r.ID }

// FindRequest is the form to find a request by id.
func FindRequest(id string) *Form {
	return &Form{ID: "explain", Action: AdminRequestsPath, Values: map[string]string{"id": id}, fields: []Field{
		{Name: "id", Label: "X-Request-Id", Type: "text", Most: 64, Required: true, Subject: "The id"},
	}}
}

// AdminRequest shows the page of a request. status is fiber.StatusOK, or the error status of a refused id.
func (c *Console) AdminRequest(ctx *fiber.Ctx, status int, r *AdminRequest) error {
	return c.render(ctx, page{template: "admin-request", title: "Explain a request", section: AdminRequestsPath, admin: &r.Admin, status: status, live: true, data: r})
}

// AdminAudit is an audit, or the form to start one.
type AdminAudit struct {
	Admin                   Admin
	Begin                   *Form
	ID                      string // empty: none is shown
	Ended, Match, Restarted bool
	Partitions              []AuditedPartition
	Tables                  []AuditedTable
	Differences             []AuditDifference // the first ones of each partition
}

// AuditedTable counts what was compared in a table of a partition.
type AuditedTable struct {
	Partition         int
	Table             string
	Rows, Differences uint64
	More              bool // at least as many differences
}

// AuditDifference is a field of a row that is not what the journal says.
type AuditDifference struct {
	Table, Account, Row, Field, Expected, Found string
}

// AuditedPartition is the progress of an audit on one partition.
type AuditedPartition struct {
	Partition    int
	Done, Total  uint64 // messages of all its replicas
	Ended, Match bool
	Live, Replay string // hashes
}

// BeginAudit is the form to start an audit.
func BeginAudit() *Form { return &Form{ID: "audit", Action: AdminAuditsPath} }

// Path is the path of the audit's page.
func (a *AdminAudit) Path() string { return AdminAuditsPath + "/" + a.ID }

// AdminAudit shows an audit, or the form to start one.
func (c *Console) AdminAudit(ctx *fiber.Ctx, status int, a *AdminAudit) error {
	return c.render(ctx, page{template: "admin-audit", title: "Audit", section: AdminAuditsPath, admin: &a.Admin, status: status, live: true, data: a})
}

// AuditProgress answers with the live part of the audit page.
func (c *Console) AuditProgress(ctx *fiber.Ctx, a *AdminAudit) error {
	return c.fragment(ctx, "audit-progress", a)
}

// AdminLog is a page of the log of admins' actions.
type AdminLog struct {
	Admin        Admin
	List         []AdminEntry
	Cursor, Next string
}

// AdminEntry is an admin's action, as the API names it.
type AdminEntry struct {
	Time                                    string // RFC 3339
	Token, Action, Account, Outcome, Detail string
}

// AdminLog shows a page of the log.
func (c *Console) AdminLog(ctx *fiber.Ctx, l *AdminLog) error {
	return c.render(ctx, page{template: "admin-log", title: "Log", section: AdminLogPath, admin: &l.Admin, data: l})
}

// AdminRevenue is what was paid, what accounts can still spend, and what could not be charged, as the API names it.
type AdminRevenue struct {
	Admin                          Admin
	Months                         []RevenueMonth // newest first
	Outstanding, Owed              CreditSum
	Active, PastDue, FailingTopUps uint64
	Failed                         []FailedCharge
}

// RevenueMonth is what was paid in a month.
type RevenueMonth struct {
	Period                         string
	Payments                       uint64
	Amount, Tax, Refunded, Credits string
}

// CreditSum is an amount of credits of some accounts together.
type CreditSum struct {
	Credits  string
	Accounts uint64
}

// FailedCharge is a plan's fee or a top-up that could not be charged.
type FailedCharge struct {
	Account      string
	Plan, Reason string // empty without one
	TopUpOff     bool
}

// What names what could not be charged.
func (f FailedCharge) What() string {
	if f.Plan != "" {
		return plan.TierUnspecified.Title(f.Plan) + " plan"
	}
	return "Automatic top-up"
}

// Next is what happens about it.
func (f FailedCharge) Next() string {
	switch {
	case f.Plan != "":
		return "The payment provider tries again, or ends the plan."
	case f.TopUpOff:
		return "Off until the holder sets it again."
	}
	return "One more attempt follows."
}

// AdminRevenue shows it.
func (c *Console) AdminRevenue(ctx *fiber.Ctx, r *AdminRevenue) error {
	return c.render(ctx, page{template: "admin-revenue", title: "Revenue", section: AdminRevenuePath, admin: &r.Admin, data: r})
}
