package handlers

import (
	"crypto/rand"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/pricebook"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/admin"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/input"
)

// showAdminAccounts lists accounts, or finds one by email, as listAccounts does.
func (s *Admins) showAdminAccounts(c *endpoint.Call) error {
	email, cursor := strings.TrimSpace(strings.Clone(c.Query("email"))), strings.Clone(c.Query("cursor"))
	found, err := s.admin.AccountsShown(c, email, cursor)
	shown := &console.AdminAccounts{Admin: s.adminHead(c), Search: console.FindAccount(email), Cursor: cursor}
	if err != nil {
		e := endpoint.AsFault(err)
		if e.Kind != fault.InvalidField {
			return err
		}
		refuse(shown.Search, e)
		return s.console.AdminAccounts(c.Ctx, e.Kind.Status(), shown)
	}
	for _, a := range found.Accounts {
		shown.List = append(shown.List, console.AdminAccount{ID: a.ID, Email: a.Email, Tier: a.Tier, Created: a.CreatedAt, Suspended: a.SuspendedAt != nil, Deletes: a.DeletesAt != nil})
	}
	shown.Next = endpoint.Optional(found.NextCursor)
	return s.console.AdminAccounts(c.Ctx, fiber.StatusOK, shown)
}

func (s *Admins) showAdminAccount(c *endpoint.Call) error {
	return s.showAdminAccountWith(c, fiber.StatusOK, nil)
}

// showAdminAccountWith shows an account with a refused form; nil: all forms are new.
func (s *Admins) showAdminAccountWith(c *endpoint.Call, status int, refused *console.Form) error {
	account, err := admin.PathAccount(c)
	if err != nil {
		return err
	}
	u, err := s.Usage(account)
	if err != nil {
		return err
	}
	email, err := s.accounts.EmailOf(account)
	if err != nil {
		return err
	}
	prices, err := s.Prices()
	if prices == nil {
		return err
	}
	shown := &console.AdminOne{Admin: s.adminHead(c), ID: account.String(), Email: email, Usage: u, Done: doneQuery(c), Forms: map[string]*console.Form{}}
	for _, name := range console.AdminActions() {
		shown.Forms[name] = console.AdminForm(name, account.String(), rand.Text())
		if refused != nil && refused.ID == name {
			shown.Forms[name] = refused
		}
	}
	shown.Forms["tier"].OfferPlans(pricebook.Of(prices))
	return s.console.AdminOne(c.Ctx, status, shown)
}

// adminAction handles a form about an account. do is the operation of the API, with the request in the form.
func (s *Admins) adminAction(name string, do func(*endpoint.Call, *console.Form) error) func(*endpoint.Call) error {
	return func(c *endpoint.Call) error {
		account, err := admin.PathAccount(c)
		if err != nil {
			return err
		}
		form := console.AdminForm(name, account.String(), "")
		return s.submit(c, form, submission{
			unlimited: true,
			do: func() error {
				if form.Has("confirm") {
					if err := confirmed(form, account.String()); err != nil {
						return err
					}
				}
				return redirectAfter(do(c, form), c, console.Done(console.AdminAccountPath+"/"+account.String(), name))
			},
			show: func(status int) error { return s.showAdminAccountWith(c, status, form) },
		})
	}
}

func (s *Admins) adminTier() func(*endpoint.Call) error {
	return s.adminAction("tier", func(c *endpoint.Call, f *console.Form) error {
		names := []string{"tier", "when"}
		if f.Values["when"] == "" {
			names = names[:1]
		}
		tier, err := s.admin.ReadTier(fieldsOf(f, names...))
		if err == nil {
			_, _, err = s.admin.TierSet(c, tier)
		}
		return err
	})
}

func (s *Admins) adminCredits() func(*endpoint.Call) error {
	return s.adminAction("credits", func(c *endpoint.Call, f *console.Form) error {
		fields := []input.Member{textField("amount", strings.TrimSpace(f.Values["amount"]))}
		if at := f.Values["expiresAt"]; at != "" {
			fields = append(fields, textField("expiresAt", momentOfForm(at)))
		}
		grant, err := admin.ReadGrant(input.List(append(fields, textField("reason", f.Values["reason"]))...), s.Now())
		if err == nil {
			_, err = s.admin.Granted(c, grant)
		}
		return err
	})
}

func (s *Admins) adminSuspend() func(*endpoint.Call) error {
	return s.adminAction("suspend", withReason(s.admin.Suspended))
}

func (s *Admins) adminResume() func(*endpoint.Call) error {
	return s.adminAction("resume", withReason(s.admin.Resumed))
}

// withReason reads the reason for an operation from its form.
func withReason(do func(*endpoint.Call, string) (*event.User, *event.CommandOutcome, error)) func(*endpoint.Call, *console.Form) error {
	return func(c *endpoint.Call, f *console.Form) error {
		reason, err := admin.ReadReason(fieldsOf(f, "reason"))
		if err == nil {
			_, _, err = do(c, reason)
		}
		return err
	}
}

// adminKey replaces all keys of an account with a new one, as regenerateKeyOf does, and shows it once.
func (s *Admins) adminKey(c *endpoint.Call) error {
	account, err := admin.PathAccount(c)
	if err != nil {
		return err
	}
	form := console.AdminForm("key", account.String(), "")
	return s.submit(c, form, submission{
		unlimited: true,
		do: func() error {
			if err := confirmed(form, account.String()); err != nil {
				return err
			}
			made, err := s.admin.KeyReplaced(c)
			if err != nil {
				return err
			}
			return s.console.AdminKey(c.Ctx, &console.AdminNewKey{Admin: s.adminHead(c), Account: account.String(), APIKey: made.APIKey})
		},
		show: func(status int) error { return s.showAdminAccountWith(c, status, form) },
	})
}

// findAdminRequest explains the request whose id was entered, as explainAny does. Without an id it shows only the form.
func (s *Admins) findAdminRequest(c *endpoint.Call) error {
	text := strings.TrimSpace(strings.Clone(c.Query("id")))
	shown := &console.AdminRequest{Admin: s.adminHead(c), Search: console.FindRequest(text)}
	if text == "" {
		return s.console.AdminRequest(c.Ctx, fiber.StatusOK, shown)
	}
	refuse := func(message string) error {
		shown.Search.Refuse("id", console.Problem{Message: message})
		return s.console.AdminRequest(c.Ctx, fiber.StatusBadRequest, shown)
	}
	id, err := event.ParseRequestID(strings.ToLower(text))
	if err != nil {
		return refuse("id must be a request id such as 01a1fff9-83d3-743f-9a6d-5290a1beb664.")
	}
	switch err := s.explainToAdmin(c, shown, id); {
	case fault.KindOf(err) == fault.NotFound:
		return refuse("No such request.")
	case err != nil:
		return err
	}
	return s.console.AdminRequest(c.Ctx, fiber.StatusOK, shown)
}

// showAdminRequest explains a request of any account. With a run it also verifies its charge.
func (s *Admins) showAdminRequest(c *endpoint.Call) error {
	id, err := accounts.ExplainedID(c)
	if err != nil {
		return err
	}
	run, err := foldRun(c)
	if err != nil {
		return err
	}
	shown := &console.AdminRequest{Admin: s.adminHead(c), Search: console.FindRequest(id.String())}
	if err := s.explainToAdmin(c, shown, id); err != nil {
		return err
	}
	if shown.Explanation != nil && run != (event.RequestID{}) {
		shown.Fold = s.foldOf(c, adminFold(id), bus.Question{Request: id, Run: run}, func(_ *endpoint.Call, q bus.Question) (*bus.Explanation, error) {
			return s.bus.ExplainAny(s.ctx, q) // the log already has this call's explanation
		})
	}
	return s.console.AdminRequest(c.Ctx, fiber.StatusOK, shown)
}

func (s *Admins) explainToAdmin(c *endpoint.Call, shown *console.AdminRequest, id event.RequestID) error {
	e, err := s.admin.ExplainForAdmin(c, bus.Question{Request: id})
	if err != nil {
		return err
	}
	shown.ID, shown.Done, shown.Total = id.String(), e.Done, e.Total
	if shown.Explanation = explanationOf(e.Answer); e.Answer != nil {
		shown.Explanation.AnyKey = true
		if !e.Answer.Anonymous {
			shown.Account = event.AccountID(e.Answer.Account).String()
		}
	}
	return nil
}

func adminFold(id event.RequestID) *console.Fold {
	return &console.Fold{Path: console.AdminRequestsPath + "/" + id.String(), Admin: true}
}

// foldAdminRequest answers with the verification of a request of any account.
func (s *Admins) foldAdminRequest(c *endpoint.Call) error {
	q, err := foldQuestion(c)
	if err != nil {
		return err
	}
	return s.console.Folded(c.Ctx, s.foldOf(c, adminFold(q.Request), q, s.admin.ExplainForAdmin))
}

func (s *Admins) showAdminAudits(c *endpoint.Call) error {
	return s.console.AdminAudit(c.Ctx, fiber.StatusOK, &console.AdminAudit{Admin: s.adminHead(c), Begin: console.BeginAudit()})
}

// beginAdminAudit starts an audit, as audit does without waiting.
func (s *Admins) beginAdminAudit(c *endpoint.Call) error {
	form := console.BeginAudit()
	return s.submit(c, form, submission{
		unlimited: true,
		do: func() error {
			id := event.NewRequestID()
			_, err := s.admin.AuditStarted(c, id, bus.AuditOptions{})
			if err != nil {
				return err
			}
			return redirect(c.Ctx, console.AdminAuditsPath+"/"+id.String())
		},
		show: func(status int) error {
			return s.console.AdminAudit(c.Ctx, status, &console.AdminAudit{Admin: s.adminHead(c), Begin: form})
		},
	})
}

func (s *Admins) showAdminAudit(c *endpoint.Call) error {
	shown, err := s.auditShown(c)
	if err != nil {
		return err
	}
	return s.console.AdminAudit(c.Ctx, fiber.StatusOK, shown)
}

// showAuditProgress answers with the live part of an audit's page.
func (s *Admins) showAuditProgress(c *endpoint.Call) error {
	shown, err := s.auditShown(c)
	if err != nil {
		return err
	}
	return s.console.AuditProgress(c.Ctx, shown)
}

func (s *Admins) auditShown(c *endpoint.Call) (*console.AdminAudit, error) {
	id, err := event.ParseRequestID(strings.ToLower(c.Params("id")))
	if err != nil {
		return nil, endpoint.NotFound()
	}
	audit, err := s.bus.ReadAudit(s.ctx, id, bus.AuditOptions{})
	if err != nil {
		return nil, err
	}
	view := admin.ViewAudit(id, audit)
	shown := &console.AdminAudit{Admin: s.adminHead(c), Begin: console.BeginAudit(), ID: id.String(), Ended: audit.Ended, Restarted: audit.Again, Match: view.Match != nil && *view.Match}
	for n, at := range audit.Progress {
		shown.Partitions = append(shown.Partitions, console.AuditedPartition{Partition: n, Done: at.Done, Total: at.Total})
	}
	for _, p := range view.Partitions {
		if int(p.Partition) < len(shown.Partitions) {
			at := &shown.Partitions[p.Partition]
			at.Ended, at.Match, at.Live, at.Replay = true, p.Match, p.LiveHash, p.ReplayHash
			for _, t := range p.Tables {
				shown.Tables = append(shown.Tables, console.AuditedTable{Partition: int(p.Partition), Table: t.Table, Rows: t.Rows, Differences: t.Differences, More: t.More})
			}
			for _, d := range p.Differences {
				shown.Differences = append(shown.Differences, console.AuditDifference{
					Table: d.Table, Account: endpoint.Optional(d.Account), Row: d.Row, Field: d.Field, Expected: d.Expected, Found: d.Found,
				})
			}
		}
	}
	return shown, nil
}

// showAdminLog shows a page of the log of admins' actions, like adminLog.
func (s *Admins) showAdminLog(c *endpoint.Call) error {
	cursor := strings.Clone(c.Query("cursor"))
	page, err := s.admin.AdminLogPage(cursor)
	if err != nil {
		return err
	}
	shown := &console.AdminLog{Admin: s.adminHead(c), Cursor: cursor, Next: endpoint.Optional(page.NextCursor)}
	for _, e := range page.Entries {
		shown.List = append(shown.List, console.AdminEntry{
			Time: e.Time, Token: e.Token, Action: e.Action, Account: endpoint.Optional(e.Account), Outcome: e.Outcome,
			Detail: strings.Join(notEmpty(endpoint.Optional(e.Tier), endpoint.Optional(e.Amount), endpoint.Optional(e.Detail)), ", "),
		})
	}
	return s.console.AdminLog(c.Ctx, shown)
}

// showAdminRevenue shows what was paid, like GET /api/admin/revenue.
func (s *Admins) showAdminRevenue(c *endpoint.Call) error {
	sums, err := s.admin.Revenue()
	if err != nil {
		return err
	}
	shown := &console.AdminRevenue{
		Admin: s.adminHead(c), Outstanding: console.CreditSum(sums.Outstanding), Owed: console.CreditSum(sums.Owed),
		Active: sums.Subscriptions.Active, PastDue: sums.Subscriptions.PastDue, FailingTopUps: sums.FailingTopUps,
	}
	for _, m := range sums.Months {
		shown.Months = append(shown.Months, console.RevenueMonth(m))
	}
	for _, f := range sums.FailedPayments {
		shown.Failed = append(shown.Failed, console.FailedCharge{
			Account: f.Account, Plan: endpoint.Optional(f.Plan), Reason: endpoint.Optional(f.Reason), TopUpOff: f.TopUpOff,
		})
	}
	return s.console.AdminRevenue(c.Ctx, shown)
}

func notEmpty(texts ...string) (out []string) {
	for _, text := range texts {
		if text != "" {
			out = append(out, text)
		}
	}
	return out
}
