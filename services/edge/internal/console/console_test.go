package console

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/alert"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/pages"
)

// shown renders a page.
func shown(t testing.TB, h fiber.Handler) (string, http.Header) {
	t.Helper()
	app := fiber.New()
	app.Get("/", h)
	res, err := app.Test(httptest.NewRequest("GET", "/", nil), -1)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body), res.Header
}

const hostile = `</script><script>alert(1)</script>" onload="x`

func month() (now time.Time, u *event.UsageAnswer, days *event.UsageDaysAnswer) {
	now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	u = &event.UsageAnswer{
		Account: 1, Tier: uint32(plan.Pro), PeriodStartMs: start.UnixMilli(), PeriodEndMs: start.AddDate(0, 1, 0).UnixMilli(),
		BalanceMicros: 1_234_567_500_000, SpentMicros: 70_000, CreatedMs: start.AddDate(-1, 0, 0).UnixMilli(), KeyVersion: 1, StorageFreeBytes: 10 << 30,
		Cap: &event.CapStatus{Cap: &event.SpendingCap{AmountMicros: 5_000_000, Period: event.CapPeriod_CAP_MONTH}, SpentMicros: 70_000, ResetMs: now.UnixMilli()},
	}
	for _, key := range plan.QuotaKeys() {
		u.Usage = append(u.Usage, &event.KeyUsage{QuotaKey: uint32(key), Used: 600, Limit: 500, Overage: 100, SpentMicros: 70_000})
	}
	days = &event.UsageDaysAnswer{SinceMs: start.AddDate(-1, 0, 0).UnixMilli()}
	for d := range 30 {
		day := &event.UsageDay{Day: uint32(start.AddDate(0, 0, d).Unix() / 86400)}
		for _, key := range plan.QuotaKeys() {
			day.Usage = append(day.Usage, &event.DayUsage{QuotaKey: uint32(key), Used: int64(d), Overage: int64(d / 2), SpentMicros: 10_000})
		}
		days.Days = append(days.Days, day)
	}
	return now, u, days
}

// full are the pages with as much on them as an account can have.
func full() map[string]func(*Console) fiber.Handler {
	now, u, days := month()
	holder := Holder{Account: "AAAAAAAAAAA", Email: strings.Repeat("e", 240) + "@example.com"}
	var keys []Key
	for n := range 40 {
		k := &event.ApiKey{
			Number: uint32(n), Name: strings.Repeat("n", 90) + hostile[:10], Prefix: "qk_AAAAA", CreatedMs: 1, LastUsedMs: 2, ExpiresMs: now.UnixMilli() + int64(n) - 20,
			Cap: u.Cap, Usage: u.Usage,
		}
		for _, key := range plan.QuotaKeys() {
			k.Scopes = append(k.Scopes, uint32(key))
			k.Quotas = append(k.Quotas, &event.KeyQuota{QuotaKey: uint32(key), Limit: 1_000_000_000})
		}
		keys = append(keys, Key{ApiKey: k, ID: fmt.Sprintf("k%d", n), Status: "capped", Now: now.UnixMilli()})
	}
	sessions := make([]Session, 0, 100)
	for n := range 100 {
		sessions = append(sessions, Session{
			OpenSession: &event.OpenSession{CreatedMs: 1, SeenMs: 2, Agent: "Chrome on Linux", Network: "2001:db8:aaaa::/48"}, ID: fmt.Sprintf("%024d", n),
		})
	}
	live := keys[30]
	u.GrantCount = 4096
	for range MostGrants {
		u.Grants = append(u.Grants, &event.HeldGrant{AmountMicros: 1 << 60, LeftMicros: 1 << 59, ExpiresMs: 2, CreatedMs: 1, Reason: strings.Repeat(`"`, 200)})
	}
	var entries []Entry
	for n := range 50 {
		entries = append(entries, Entry{LedgerEntry: &event.LedgerEntry{
			TimeMs: now.UnixMilli(), Type: event.LedgerType_LEDGER_CHARGE, QuotaKey: uint32(plan.FilesUpload), AmountMicros: -int64(n) * 1_000_000_000, BalanceMicros: 1 << 60,
			Reason: strings.Repeat(`"`, 200),
		}, RequestID: "01a1fff9-83d3-743f-9a6d-5290a1beb664"})
	}
	hook := Webhook{&event.WebhookRules{
		Webhook: 1 << 63, Events: alert.Bits(), Thresholds: []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 100}, BalanceBelowMicros: 1 << 57, CreatedMs: 1,
	}, "https://example.com/" + strings.Repeat("x", 2000) + hostile[:10]}
	var deliveries []Delivery
	for n := range ShownDeliveries {
		sent := &event.Delivery{Alert: &event.Alert{
			Id: fmt.Sprintf("evt_5NwK2pQ7rT1sXv8ZbCd3%02d", n), Type: event.AlertType_ALERT_CAP, KeyCap: true, Key: 7, Threshold: 80, Used: 1 << 57, Limit: 1 << 57, TimeMs: 1,
		}, NextMs: 1}
		for range 20 {
			sent.Attempts = append(sent.Attempts, &event.DeliveryAttempt{
				TimeMs: 1, Status: 500, DurationMs: 10_000, Error: "the connection was closed before an answer came: " + strings.Repeat("x", 50), Answer: strings.Repeat(`"`, 1024),
			})
		}
		deliveries = append(deliveries, Delivery{sent, ActOnWebhook(holder.Account, "once", hook, "deliveries/"+sent.Alert.Id+"/replay")})
	}
	admin, prices := Admin{Name: "ann", Site: "https://quire.example"}, &AdminPrices{Book: plan.Published(10), Current: PriceBook{ID: strings.Repeat("f", 32), FromMs: 1}, Apply: ApplyPrices(), Tried: &PriceChanges{}}
	prices.Admin = admin
	prices.Apply.Values["book"] = strings.Repeat(hostile, 100)
	for n := range ShownBooks {
		id := fmt.Sprintf("%032d", n)
		prices.Upcoming = append(prices.Upcoming, PriceBook{ID: id, FromMs: 1, Withdraw: WithdrawPrices(id)})
		prices.Past = append(prices.Past, PriceBook{ID: id, FromMs: 1})
		prices.Tried.Rows = append(prices.Tried.Rows, PriceChange{"enterprise", "1000000", "pasteLite.create price", "1000.000000", "unlimited"})
	}
	over := &Overview{Holder: holder, Usage: u, View: View{Days: 90, ByKey: true}, Recent: days, Days: &event.UsageDaysAnswer{}, Now: now, Key: FirstKey(holder.Account, "once")}
	for d := range 90 {
		day := &event.UsageDay{Day: uint32(now.AddDate(0, 0, -d).Unix() / 86400)}
		for _, k := range keys {
			day.Usage = append(day.Usage, &event.DayUsage{QuotaKey: uint32(plan.LiteGet), Key: k.Number, Used: 1_000_000_000 + int64(d*d), Overage: 1_000_000_000, SpentMicros: 1 << 40})
		}
		over.Days.Days = append(over.Days.Days, day)
	}
	for _, k := range keys {
		u.Keys = append(u.Keys, k.ApiKey)
	}
	docs := make([]*event.Document, 0, ContentPage)
	for n := range ContentPage {
		doc := &event.Document{
			Id: fmt.Sprintf("%012d", n), Title: strings.Repeat("t", 190) + hostile[:10], Language: strings.Repeat("l", 50), ContentType: strings.Repeat("c/", 50),
			Visibility: uint32(event.Unlisted), Version: 1 << 60, CreatedMs: 1, UpdatedMs: 1, ExpiresMs: 1 << 40, PasswordHash: []byte{1}, BurnAfterRead: true,
			Content: &event.Content{SizeBytes: 1 << 40, Sha256: make([]byte, 32)},
		}
		for tag := range 10 {
			doc.Tags = append(doc.Tags, strings.Repeat("&", 31)+strconv.Itoa(tag))
		}
		docs = append(docs, doc)
	}
	for len(docs) < 100 { // what one form deletes
		docs = append(docs, docs[len(docs)-ContentPage])
	}
	meter := &Meter{Key: plan.PastesCreate, Keys: keys[20:40], Known: true, Left: 1, Limit: 500, Sold: true, PriceMicros: 2000, BalanceMicros: 1 << 40, Tier: "Pro"}
	contents := func(k *Kind) func(*Console) fiber.Handler {
		l := &Contents{Holder: holder, Kind: k, List: docs[:ContentPage], Filter: Filter(k), Next: strings.Repeat("c", 60), Later: true, Done: "deleted", Meter: meter}
		if !k.Text {
			l.Upload = UploadFile(holder.Account, "once")
		}
		return func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error { return c.Contents(ctx, 200, l) }
		}
	}
	return map[string]func(*Console) fiber.Handler{
		"pastes": contents(Pastes()), "quick pastes": contents(QuickPastes()), "files": contents(Files()),
		"a text": func(c *Console) fiber.Handler {
			form := UpdateText(Pastes(), holder.Account, "once", docs[0])
			form.Values["content"] = strings.Repeat(hostile, 100)
			form.Refuse(KeyField, Problem{Message: "key must be x."})
			return func(ctx *fiber.Ctx) error {
				return c.OneText(ctx, 412, &OneText{Holder: holder, Kind: Pastes(), Document: docs[0], Form: form, Meter: meter, Conflict: &Conflict{Newer: docs[0], Compared: true}})
			}
		},
		"a text with a password": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error {
				return c.OneText(ctx, 200, &OneText{Holder: holder, Kind: QuickPastes(), Document: docs[0], Form: UpdateText(QuickPastes(), holder.Account, "once", docs[0]), Meter: meter, Locked: true, Wrong: true})
			}
		},
		"a new text": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error {
				return c.OneText(ctx, 404, &OneText{Holder: holder, Kind: Pastes(), Form: CreateText(Pastes(), holder.Account, "once"), Meter: &Meter{}, Gone: true})
			}
		},
		"a kept text": func(c *Console) fiber.Handler {
			form := KeptText(Pastes(), docs[0].Id)
			form.Account, form.Once, form.Values = hostile, hostile, map[string]string{"content": strings.Repeat(hostile, 100), "title": hostile, "tags": hostile, "password": "x"}
			return func(ctx *fiber.Ctx) error { return c.KeptText(ctx, 401, Pastes(), form) }
		},
		"a deletion": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error {
				return c.Removal(ctx, 200, &Removal{Holder: holder, Kind: Files(), List: docs, Form: DeleteContent(Files(), holder.Account, "once", nil), Meter: meter})
			}
		},
		"sign up": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error {
				return c.SignUp(ctx, 200, &Sign{Form: SignUpForm(hostile, "once"), Next: hostile})
			}
		},
		"overview": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error { return c.Overview(ctx, 200, over) }
		},
		"keys": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error {
				return c.Keys(ctx, 200, &Keys{
					Holder: holder, List: keys, Cap: u.Cap, First: FirstKey(holder.Account, "once"),
					Create: CreateKey(holder.Account, "once"), Capping: CapSpending(holder.Account, "once", u.Cap),
				})
			}
		},
		"one key": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error {
				return c.OneKey(ctx, 200, &OneKey{
					Holder: holder, Key: live, Change: ChangeKey(holder.Account, "once", live),
					Rotate: RotateKey(holder.Account, "once", live), Revoke: RevokeKey(holder.Account, "once", live),
				})
			}
		},
		"new key": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error {
				return c.NewKey(ctx, &NewKey{Holder: holder, APIKey: "qk_" + strings.Repeat("A", 59), URL: "https://quire.example", Welcome: true, Once: "once", CanPaste: true, Known: true, Left: 100, Limit: 100})
			}
		},
		"admin sign in": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error {
				return c.AdminSignIn(ctx, 200, &AdminSign{Form: AdminToken(hostile)})
			}
		},
		"admin accounts": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error {
				a := &AdminAccounts{Admin: admin, Search: FindAccount(hostile), Next: "AAAAAAAAAAA"}
				for range 50 {
					a.List = append(a.List, AdminAccount{ID: "AAAAAAAAAAA", Email: holder.Email, Tier: "pro", Created: "2026-11-22T12:00:00Z", Suspended: true})
				}
				return c.AdminAccounts(ctx, 200, a)
			}
		},
		"admin account": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error {
				a := &AdminOne{Admin: admin, ID: "AAAAAAAAAAA", Email: hostile, Usage: u, Forms: map[string]*Form{}}
				for _, name := range AdminActions() {
					a.Forms[name] = AdminForm(name, a.ID, "once")
				}
				a.Forms["tier"].OfferPlans(plan.Published(10))
				return c.AdminOne(ctx, 200, a)
			}
		},
		"admin request": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error {
				e := fullExplanation(holder)
				return c.AdminRequest(ctx, 200, &AdminRequest{Admin: admin, Search: FindRequest(hostile), ID: e.ID, Account: "AAAAAAAAAAA", Explanation: e.Explanation, Fold: e.Fold})
			}
		},
		"admin audit": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error {
				a := &AdminAudit{Admin: admin, Begin: BeginAudit(), ID: "x"}
				for n := range 64 {
					a.Partitions = append(a.Partitions, AuditedPartition{Partition: n, Done: 1, Total: 1 << 40, Ended: n%2 == 0, Live: strings.Repeat("a", 64), Replay: strings.Repeat("b", 64)})
				}
				return c.AdminAudit(ctx, 200, a)
			}
		},
		"admin log": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error {
				l := &AdminLog{Admin: admin, Next: "x"}
				for range 50 {
					l.List = append(l.List, AdminEntry{Time: "2026-11-22T12:00:00Z", Token: "ann", Action: "account.suspend", Account: "AAAAAAAAAAA", Outcome: "done", Detail: strings.Repeat("r", 190) + hostile[:10]})
				}
				return c.AdminLog(ctx, l)
			}
		},
		"admin revenue": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error {
				r := &AdminRevenue{Admin: admin, Outstanding: CreditSum{"1000000000.000000", 1 << 40}, Owed: CreditSum{"1000000000.000000", 1 << 40}, Active: 1 << 40, PastDue: 1 << 40, FailingTopUps: 1 << 40}
				for range 12 {
					r.Months = append(r.Months, RevenueMonth{"2026-11", 1 << 40, "1000000000.00", "100000000.00", "100000000.00", "1000000000.000000"})
				}
				for range 100 {
					r.Failed = append(r.Failed, FailedCharge{Account: "AAAAAAAAAAA", Plan: hostile}, FailedCharge{Account: "AAAAAAAAAAA", Reason: hostile, TopUpOff: true})
				}
				return c.AdminRevenue(ctx, r)
			}
		},
		"admin health": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error { return c.AdminHealth(ctx, fullHealth(admin)) }
		},
		"admin prices": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error { return c.AdminPrices(ctx, fiber.StatusOK, prices) }
		},
		"requests": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error { return c.Requests(ctx, 200, fullLog(holder)) }
		},
		"refused filters": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error {
				r := fullLog(holder)
				r.Filter.Values["from"] = hostile
				r.Filter.Refuse("from", Problem{Message: "from must be a time.", Suggestion: hostile})
				return c.Requests(ctx, 400, r)
			}
		},
		"request": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error { return c.Explained(ctx, fullExplanation(holder)) }
		},
		"account": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error {
				return c.Account(ctx, 200, &Account{
					Holder: holder, Usage: u, Sessions: sessions, Email: ChangeEmail(holder.Account, "once"), Password: ChangePassword(holder.Account, "once"),
					Delete: DeleteAccount(holder.Account, "once", holder.Email), End: EndSessions(holder.Account, ""),
				})
			}
		},
		"billing": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error {
				return c.Billing(ctx, &Billing{Holder: holder, Usage: u, Keys: keys, Latest: entries[:LatestEntries], Webhooks: 10})
			}
		},
		"ledger": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error {
				return c.Ledger(ctx, 200, &Ledger{
					Holder: holder, Entries: entries, Cursor: hostile, Next: strings.Repeat("A", 512),
					Search: SearchLedger(map[string]string{"q": strings.Repeat(`"`, 200), "from": "2026-11-01", "to": hostile}),
				})
			}
		},
		"webhooks": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error {
				return c.Webhooks(ctx, 200, &Webhooks{Holder: holder, List: slices.Repeat([]Webhook{hook}, 10), Most: 10, Create: CreateWebhook(holder.Account, "once")})
			}
		},
		"one webhook": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error {
				return c.OneWebhook(ctx, 200, &OneWebhook{
					Holder: holder, Webhook: hook, Cursor: hostile, Next: "00000000000000000", Change: ChangeWebhook(holder.Account, "once", hook),
					Rotate: ActOnWebhook(holder.Account, "once", hook, RotateSecret), Test: ActOnWebhook(holder.Account, "once", hook, TestWebhook),
					Delete:     DeleteWebhook(holder.Account, "once", hook),
					Deliveries: deliveries,
				})
			}
		},
		"new secret": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error {
				return c.NewSecret(ctx, &NewSecret{Holder: holder, Webhook: hook, Secret: "whsec_" + strings.Repeat("A", 44), UntilMs: 1, Rotated: true})
			}
		},
		"plan": func(c *Console) fiber.Handler {
			p := planOf(plan.Pro, subscribed(nil))
			p.Holder, p.Paid, p.Reached, p.Usage = holder, true, plan.PastesCreate, u
			p.Answer.TopUp = &event.TopUpState{Rule: &event.SetTopUp{BelowMicros: 1 << 57, CreditsMicros: 1 << 57, MonthMicros: 1 << 57}, Off: true, Reason: hostile}
			for t := plan.Admin + 1; t < plan.MaxTiers; t++ {
				p.Book.Plans[t] = p.Book.Plans[plan.Pro]
				p.Book.Plans[t].Name = strings.Repeat(fmt.Sprint(t%10), 32)
			}
			for n := range uint64(ShownPayments) {
				p.Payments.Payments = append(p.Payments.Payments, &event.PaymentState{
					Provider: "stripe", Id: strings.Repeat("x", 255), CreditsMicros: 1 << 57, ReversedMicros: 1 << 56, Number: 1<<60 - n, TimeMs: 1, AmountCents: 1 << 50, TaxCents: 1 << 40, TopUp: 1,
				})
			}
			p.Payments.More, p.Before = true, 1<<61
			return func(ctx *fiber.Ctx) error { return c.Plan(ctx, 200, p) }
		},
		"receipt": func(c *Console) fiber.Handler {
			paid := &event.PaymentState{Provider: "stripe", Id: hostile, Plan: hostile, Number: 1 << 60, TimeMs: 1, AmountCents: 1 << 50, ReversedMicros: 1 << 57}
			return func(ctx *fiber.Ctx) error {
				return c.Receipt(ctx, &Receipt{Holder: holder, Payment: Payment{paid}, Operator: Operator{hostile, hostile}})
			}
		},
		"way to the provider": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error { return c.Leave(ctx, "https://pay.example.com/"+strings.Repeat("x", 2000)) }
		},
		"statement": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error {
				return c.Statement(ctx, &Statement{Holder: holder, Start: utc(u.PeriodStartMs), Answer: statementOf(u), Created: 1, Present: now.UnixMilli()})
			}
		},
		"export": func(c *Console) fiber.Handler {
			e := &event.Export{State: event.ExportState_EXPORT_READY, CreatedMs: 1, ExpiresMs: 2, SizeBytes: 1 << 40}
			return func(ctx *fiber.Ctx) error {
				return c.Export(ctx, 200, &Export{Holder: holder, Export: e, URL: "https://quire.example/exports/a?b=" + hostile, Make: MakeExport(holder.Account, "once")})
			}
		},
		"goodbye": func(c *Console) fiber.Handler {
			return func(ctx *fiber.Ctx) error { return c.Goodbye(ctx, &Goodbye{Email: holder.Email, DeletesMs: 1}) }
		},
	}
}

func statementOf(u *event.UsageAnswer) *event.StatementAnswer {
	out := &event.StatementAnswer{Tier: u.Tier, Usage: u.Usage, SpentMicros: u.SpentMicros}
	for n := range int64(2) {
		p := &event.StatementPeriod{StartMs: n, EndMs: n + 1, Tier: u.Tier}
		for _, k := range u.Usage {
			p.Lines = append(p.Lines, &event.StatementLine{QuotaKey: k.QuotaKey, Limit: k.Limit, Overage: n == 0, PriceMicros: 5, Used: k.Used, Paid: k.Overage})
		}
		out.Periods = append(out.Periods, p)
	}
	out.Credits = &event.StatementCredits{OpeningMicros: 5, AdjustedMicros: -5, PendingMicros: 1}
	for d := range uint32(31) {
		out.StorageDays = append(out.StorageDays, &event.StorageDay{Day: 20_000 + d, ByteMsHigh: 1000})
	}
	return out
}

// fullLog is a page of the log with as many requests as a page can have.
func fullLog(holder Holder) *Requests {
	keys, decisions := make([][2]string, 0, 120), []string{"admitted", "quota_exhausted"}
	for n := range 120 {
		keys = append(keys, [2]string{fmt.Sprintf("k%d", n), strings.Repeat("n", 90) + hostile[:10]})
	}
	r := &Requests{Holder: holder, Filter: RequestFilters(keys, decisions), Next: "AAAA"}
	r.Filter.Values["decision"] = "admitted"
	for n := range 50 {
		r.List = append(r.List, Request{
			ID: fmt.Sprintf("019a9a1e-7c00-7000-8000-%012d", n), TimeMs: int64(n), QuotaKey: plan.LiteCreate.String(), Key: "k1", Decision: "admitted",
			Status: "served_unsettled", Source: "credits", Cost: "1000000.000000", KeyLabel: strings.Repeat("n", 90) + hostile[:10],
			Method: "DELETE", Target: "/api/" + strings.Repeat("p", 240) + hostile[:10], HTTPStatus: 201, DurationMs: 100_000,
		})
	}
	return r
}

func fullExplanation(holder Holder) *Explained {
	answer := &event.ExplainAnswer{
		QuotaKey: uint32(plan.LiteCreate), TimeMs: 1, UsedBefore: 1_000_000, UsedAfter: 1_000_001, PriceMicros: 5, CostMicros: 5, Settlement: "served",
		SettlementSequence: 77, SettledMs: 2, Stream: "BILLING_0", Sequence: 7, Charge: event.ChargeSource_CHARGE_CREDITS, BookMs: 1,
		Verdict: &event.Verdict{Decision: event.Decision_ADMITTED, Charge: event.ChargeSource_CHARGE_CREDITS, Limit: 5000, Tier: uint32(plan.Pro)},
	}
	for n := range 40 {
		answer.Grants = append(answer.Grants, &event.GrantUse{Grant: uint64(n) << 12, AmountMicros: 1, Reason: strings.Repeat("r", 190) + hostile[:10]})
	}
	f := &Fold{Path: RequestsPath + "/x", Folded: 1_000_000}
	f.Compare("Decision", "Admitted", "Admitted")
	f.Compare("Credits", "0.000005", "0.000006")
	return &Explained{Holder: holder, ID: "x", Explanation: &Explanation{ExplainAnswer: answer, Words: hostile, Decision: "admitted", Source: "credits", KeyID: "k1"}, Fold: f, Log: &fullLog(holder).List[0]}
}

// fullHealth is a page of the health of as many partitions as there can be, while those of billing move from one instance to another.
func fullHealth(admin Admin) *AdminHealth {
	const most = 256 // QUIRE_PARTITIONS
	lag, holds := uint64(1_000_000), 1_000_000
	h := &AdminHealth{Admin: admin, First: HealthPage, Count: most}
	for _, service := range []struct {
		name    string
		members int
	}{{"billing", 3}, {"paste", 1}, {"lite", 1}, {"file", 1}} {
		for p := range most {
			h.Unserved = append(h.Unserved, fmt.Sprint(service.name, " ", p))
		}
		for p := range HealthPage {
			for m := range service.members {
				h.Rows = append(h.Rows, HealthRow{
					Partition: fmt.Sprint(service.name, " ", h.First+p), Member: fmt.Sprintf("%063d%d", p, m), Lag: &lag, Holds: &holds, CanHold: true,
				})
			}
		}
		h.Silent = append(h.Silent, service.name+" "+hostile)
	}
	return h
}

// TestHealthIsSaidInWords: above all, that no instance serves a partition.
func TestHealthIsSaidInWords(t *testing.T) {
	c := New(pages.New())
	none, five, two := uint64(0), uint64(5), 2
	for _, test := range []struct {
		health      AdminHealth
		says, hides []string
	}{
		{
			AdminHealth{Rows: []HealthRow{{Partition: "billing 0", Member: "a", Serves: true, Lag: &none, Holds: &two, CanHold: true}}},
			[]string{"Every partition is served.", `<th scope="row">billing 0</th><td>a</td><td>serving</td><td>0</td><td>2</td>`},
			[]string{"No instance serves", "No response from", "not served"},
		},
		{
			AdminHealth{Rows: []HealthRow{{Partition: "lite 3"}}, Unserved: []string{"lite 3"}},
			[]string{"No instance serves this partition: lite 3. Requests to it fail until one does.", `<th scope="row">lite 3</th><td>none</td><td><b class="refused">not served</b></td><td>–</td><td>–</td>`},
			[]string{"Every partition is served."},
		},
		{
			AdminHealth{Rows: []HealthRow{
				{Partition: "billing 1", Member: "a", CanHold: true},
				{Partition: "billing 1", Member: "b", Lag: &five, Holds: &two, CanHold: true},
				{Partition: "paste 1", Member: "c", Lag: &none, CanHold: false},
				{Partition: "file 1", Member: "d", Serves: true},
			}, Unserved: []string{"billing 1", "paste 1"}, Silent: []string{"billing x"}},
			[]string{
				"No instance serves these partitions: billing 1, paste 1. Requests to them fail until one does.", "No response from <code>billing x</code>, which other instances consider alive. The table omits it.",
				"<td>a</td><td>starting</td><td>unknown</td><td>unknown</td>", "<td>b</td><td>catching up</td><td>5</td><td>2</td>",
				"<td>c</td><td>waiting to serve</td><td>0</td><td>–</td>", "<td>d</td><td>serving</td><td>unknown</td><td>–</td>",
			},
			nil,
		},
		{*fullHealth(Admin{}), []string{"No instance serves 1024 partitions: billing 0, billing 1, ", "billing 19 and 1004 more.", "omits them"}, []string{"billing 20,"}},
	} {
		body, _ := shown(t, func(ctx *fiber.Ctx) error { return c.HealthTable(ctx, &test.health) })
		body = strings.ReplaceAll(body, ` class="n"`, "")
		for _, text := range test.says {
			if !strings.Contains(body, text) {
				t.Errorf("without %q: %.2000s", text, body)
			}
		}
		for _, text := range test.hides {
			if strings.Contains(body, text) {
				t.Errorf("with %q: %.2000s", text, body)
			}
		}
	}
}

// TestHealthHasPagesOfPartitions, each as long as the others.
func TestHealthHasPagesOfPartitions(t *testing.T) {
	for _, test := range []struct {
		first, count                int
		path, table, earlier, later string
	}{
		{0, 1, "/console/admin/health", "/console/admin/health/table", "", ""},
		{0, 64, "/console/admin/health", "/console/admin/health/table", "", ""},
		{0, 65, "/console/admin/health", "/console/admin/health/table", "", "/console/admin/health?from=64"},
		{64, 65, "/console/admin/health?from=64", "/console/admin/health/table?from=64", "/console/admin/health", ""},
		{100, 256, "/console/admin/health?from=100", "/console/admin/health/table?from=100", "/console/admin/health?from=36", "/console/admin/health?from=164"},
		{10, 256, "/console/admin/health?from=10", "/console/admin/health/table?from=10", "/console/admin/health", "/console/admin/health?from=74"},
	} {
		h := &AdminHealth{First: test.first, Count: test.count}
		if h.Path() != test.path || h.TablePath() != test.table || h.EarlierPath() != test.earlier || h.LaterPath() != test.later {
			t.Errorf("from %d of %d: %q, %q, %q, %q", test.first, test.count, h.Path(), h.TablePath(), h.EarlierPath(), h.LaterPath())
		}
	}
}

// TestAFoldSaysWhetherItMatches: beside one that differs it never says so, and while a request is under way it says neither.
func TestAFoldSaysWhetherItMatches(t *testing.T) {
	c := New(pages.New())
	text := func(f *Fold) string {
		body, _ := shown(t, func(ctx *fiber.Ctx) error { return c.Folded(ctx, f) })
		return body
	}
	same := &Fold{Folded: 12_345}
	same.Compare("Decision", "Admitted", "Admitted")
	if got := text(same); !strings.Contains(got, "Verified: 12,345 messages") || strings.Contains(got, "differs") {
		t.Error(got)
	}
	same.Compare("Credits", "0.000001", "0.000002")
	if got := text(same); !strings.Contains(got, "The results differ") || !strings.Contains(got, "differs") || strings.Contains(got, "Verified") {
		t.Error(got)
	}
	same.Open = true
	if got := text(same); !strings.Contains(got, "is still pending") || strings.Contains(got, "Verified") || strings.Contains(got, "results differ") {
		t.Error(got)
	}
	if got := text(&Fold{Path: "/p", Run: "r", Done: 5000, Total: 20_000}); !strings.Contains(got, "5,000 of 20,000") || !strings.Contains(got, "/p?run=r") {
		t.Error(got)
	}
	if got := text(&Fold{Problem: "Too many."}); !strings.Contains(got, "Too many.") || strings.Contains(got, "matches") {
		t.Error(got)
	}
}

// TestAFullPageIsLight: with all that an account can have, a page is below 100 KB before it is compressed. Nothing on it is run,
// and each of its fields is a field of its form.
func TestAFullPageIsLight(t *testing.T) {
	const mostBytes = 100_000
	c := New(pages.New())
	for name, page := range full() {
		body, header := shown(t, page(c))
		t.Logf("%s: %d bytes", name, len(body))
		if len(body) > mostBytes {
			t.Errorf("%s has %d bytes", name, len(body))
		}
		if policy := header.Get("Content-Security-Policy"); strings.Contains(policy, "unsafe") || !strings.Contains(policy, "default-src 'none'") {
			t.Errorf("%s: %s", name, policy)
		}
		if strings.Count(body, "<script>") != 1 || strings.Contains(body, `" onload=`) || strings.Contains(body, ` style="`) {
			t.Errorf("%s has what a policy would have to stop", name)
		}
		for _, empty := range []string{`name=""`, `id=""`, `for=""`, `type=""`, `action=""`} {
			if strings.Contains(body, empty) {
				t.Errorf("%s: a field is none of its form's: %s", name, empty)
			}
		}
		seen := map[string]bool{}
		for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			if seen[m[1]] {
				t.Errorf("%s has two elements of the id %s", name, m[1])
			}
			seen[m[1]] = true
		}
		for _, m := range regexp.MustCompile(` aria-(?:labelledby|describedby)="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			for id := range strings.FieldsSeq(m[1]) {
				if !seen[id] {
					t.Errorf("%s is described by %s, which it has not", name, id)
				}
			}
		}
	}
}

// TestTheArchiveOfAnAccountIsShown: a page asks again as long as the archive is being made, and has a form to make one otherwise.
func TestTheArchiveOfAnAccountIsShown(t *testing.T) {
	c := New(pages.New())
	for _, e := range []struct {
		export        *event.Export
		refresh, text string
		form          bool
	}{
		{nil, "", "Create an archive", true},
		{&event.Export{State: event.ExportState_EXPORT_WAITING}, "3", "Creating the archive. This page", false},
		{&event.Export{State: event.ExportState_EXPORT_RUNNING, Done: 1234, Total: 5678}, "3", "1,234 of 5,678 documents done.", false},
		{&event.Export{State: event.ExportState_EXPORT_FAILED}, "", "The last export failed", true},
		{&event.Export{State: event.ExportState_EXPORT_READY, SizeBytes: 2048}, "", "Download 2", true},
	} {
		shownExport := &Export{Export: e.export, Make: MakeExport("a", "once")}
		if e.export.GetState() == event.ExportState_EXPORT_READY {
			shownExport.URL = "/exports/a"
		}
		body, header := shown(t, func(ctx *fiber.Ctx) error { return c.Export(ctx, fiber.StatusOK, shownExport) })
		if header.Get("Refresh") != e.refresh || !strings.Contains(body, e.text) || strings.Contains(body, "<form") != e.form {
			t.Errorf("%v: Refresh %q\n%s", e.export, header.Get("Refresh"), body)
		}
	}
}

func BenchmarkFullPages(b *testing.B) {
	c := New(pages.New())
	for name, page := range full() {
		b.Run(name, func(b *testing.B) {
			app := fiber.New()
			app.Get("/", page(c))
			for b.Loop() {
				res, err := app.Test(httptest.NewRequest("GET", "/", nil), -1)
				if err != nil {
					b.Fatal(err)
				}
				res.Body.Close()
			}
		})
	}
}

// TestTemplatesEvaluateNothing: htmx runs the code of some attributes, which the policy of a page forbids; a template that has
// one is a mistake.
func TestTemplatesEvaluateNothing(t *testing.T) {
	banned := regexp.MustCompile(`(?i)hx-on|hx-vals|hx-headers|hx-confirm="js|\bjs:|javascript:|hx-trigger="[^"]*\[|\son[a-z]+=|\sstyle=|<style|<script`)
	for _, text := range []string{`<a hx-on:click="x">`, `<a data-hx-on="x">`, `hx-trigger="click[x]"`, `<p onclick="x">`, `<p style="x">`, "js:x"} {
		if !banned.MatchString(text) {
			t.Errorf("%s is not found", text)
		}
	}
	read := 0
	err := fs.WalkDir(files, "templates", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		read++
		text, err := files.ReadFile(path)
		if found := banned.FindAllString(string(text), -1); found != nil {
			t.Errorf("%s has %q", path, found)
		}
		return err
	})
	if err != nil || read < 5 {
		t.Errorf("%d templates, %v", read, err)
	}
}

func TestABalanceLastsAsLongAsItsBurnRateSays(t *testing.T) {
	now, u, days := month()
	o := &Overview{Usage: u, Recent: days, Now: now}
	// 13 quota keys of 0.01 a day, for six days and a half, which are seven days of the calendar.
	spent := uint64(7 * (plan.KeyCount - 1) * 10_000)
	burn := o.Burn()
	if want := spent * 2 / 13; burn == nil || burn.PerDay != want {
		t.Fatalf("%+v, want %d a day", burn, want)
	}
	if burn.Until != "" {
		t.Errorf("a balance for centuries ends in %s", burn.Until)
	}
	day := spent * 2 / 13
	for balance, want := range map[uint64]string{
		0: "", 1: "22\u00a0November", spent: "29\u00a0November", 39 * day: "31\u00a0December", 40 * day: "1\u00a0January\u00a02027",
		60 * day: "21\u00a0January\u00a02027", 61 * day: "January\u00a02027", 100 * day: "March\u00a02027", 729 * day: "November\u00a02028", 731 * day: "",
	} {
		u.BalanceMicros = int64(balance)
		if got := o.Burn().Until; got != want {
			t.Errorf("a balance of %d ends %q, want %q", balance, got, want)
		}
	}
	u.CreatedMs = now.Add(-time.Hour).UnixMilli() // what a new account spends in an hour is not taken for its rate
	if got := o.Burn(); got.PerDay != uint64((plan.KeyCount-1)*10_000) {
		t.Errorf("%+v on the first day", got)
	}
	days.Days = nil
	if got := o.Burn(); got != nil {
		t.Errorf("%+v where nothing was spent", got)
	}
}

func TestABarHasWhatIsWithinTheLimitAndWhatIsBeyond(t *testing.T) {
	for _, test := range []struct {
		used  uint64
		limit int64
		want  bar
	}{
		{0, 500, bar{0, 0}},
		{1, 1_000_000, bar{1, 0}},
		{250, 500, bar{500, 0}},
		{500, 500, bar{1000, 0}},
		{1000, 500, bar{500, 500}},
		{1_000_000_001, 1_000_000_000, bar{999, 1}},
	} {
		if got := barOf(&event.KeyUsage{Used: test.used, Limit: test.limit}); *got != test.want {
			t.Errorf("%d of %d: %+v, want %+v", test.used, test.limit, *got, test.want)
		}
	}
	for _, none := range []int64{0, plan.Unlimited} {
		if barOf(&event.KeyUsage{Used: 1, Limit: none}) != nil {
			t.Errorf("a bar of a limit of %d", none)
		}
	}
}

func TestAnErrorFindsItsField(t *testing.T) {
	f := CreateKey("AAAAAAAAAAA", "once")
	for field, want := range map[string]string{
		"name": "The name must be x.", "spendingCap.amount": "The amount must be x.", "quotas.pastes.get": "The limit must be x.", "scopes": "The scopes must be x.",
	} {
		f.Refuse(field, Problem{Message: field + " must be x."})
		if got := f.Field(field); got.Problem == nil || got.Problem.Message != want || !got.Focus || f.Whole() != nil {
			t.Errorf("%s: %+v", field, got.Problem)
		}
	}
	f.Refuse("quotas.nonsense", Problem{Message: "No."})
	if f.Field("quotas").Problem == nil {
		t.Error("an error of a part is not that of the whole list")
	}
	f.Refuse("other", Problem{Message: "other is wrong."})
	if whole := f.Whole(); whole == nil || whole.Message != "other is wrong." || !f.Wrong() {
		t.Errorf("%+v", whole)
	}
	secret := ChangePassword("AAAAAAAAAAA", "once")
	secret.Values["password"] = "secret"
	if secret.Field("password").Value != "" {
		t.Error("a password is shown again")
	}
}

func TestTheGrantsAndMonthsOfAnAccountAreShown(t *testing.T) {
	_, u, _ := month()
	b := &Billing{Usage: u}
	if months := b.Months(); len(months) != shownMonths || months[0] != (Month{"2026-11", "November 2026"}) || months[11].Period != "2025-12" {
		t.Errorf("%v", months)
	}
	u.CreatedMs = u.PeriodStartMs
	if months := b.Months(); len(months) != 1 {
		t.Errorf("%v before the account was made", months)
	}
	u.CreatedMs--
	if months := b.Months(); len(months) != 2 || months[1].Name != "October 2026" {
		t.Errorf("%v", months)
	}
	u.Grants = []*event.HeldGrant{{AmountMicros: 1000, LeftMicros: 1}, {AmountMicros: 1000, LeftMicros: 1000}}
	u.GrantCount = 2
	if g := b.Grants(); *g[0].Bar() != (bar{1, 0}) || *g[1].Bar() != (bar{1000, 0}) || b.MoreGrants() != "" {
		t.Errorf("%v", g)
	}
	if u.GrantCount = 1002; b.MoreGrants() != "1,000" {
		t.Error(b.MoreGrants())
	}
	for micros, want := range map[int64]string{1_234_500_000: "+1,234.500000", -2000: "\u22120.002000", 0: "+0.000000", -1 << 57: "\u2212144,115,188,075.855872"} {
		if got := (Entry{LedgerEntry: &event.LedgerEntry{AmountMicros: micros}}).Amount(); got != want {
			t.Errorf("%d: %s, want %s", micros, got, want)
		}
	}
}

func TestASearchGoesOnWithItsPages(t *testing.T) {
	l := &Ledger{Search: SearchLedger(map[string]string{"q": "a&b", "type": "charge"}), Next: "n"}
	if l.OlderPath() != LedgerPath+"?cursor=n&q=a%26b&type=charge" || l.NewestPath() != LedgerPath+"?q=a%26b&type=charge" || l.TablePath() != LedgerTablePath+"?q=a%26b&type=charge" || !l.Searched() {
		t.Errorf("%s, %s, %s", l.OlderPath(), l.NewestPath(), l.TablePath())
	}
	l = &Ledger{Search: SearchLedger(map[string]string{})}
	if l.OlderPath() != "" || l.NewestPath() != LedgerPath || l.Searched() {
		t.Errorf("%s, %s", l.OlderPath(), l.NewestPath())
	}
	for text, want := range map[string]string{"": "date", "2026-11-01": "date", "2026-11-01T12:00:00Z": "text", "soon": "text"} {
		if got := SearchLedger(map[string]string{"from": text}).Field("from").Type; got != want {
			t.Errorf("a field for %q is a %s", text, got)
		}
	}
}

func TestAnEventOfAWebhookIsSaidInWords(t *testing.T) {
	for want, a := range map[string]*event.Alert{
		"Upload a file: 80 % of the limit, 800 of 1,000":                  {Type: event.AlertType_ALERT_QUOTA, QuotaKey: uint32(plan.FilesUpload), Threshold: 80, Used: 800, Limit: 1000},
		"Spending cap: 50 %, 2.500000 of 5.000000":                        {Type: event.AlertType_ALERT_CAP, Threshold: 50, Used: 2_500_000, Limit: 5_000_000},
		"Spending cap of the key k7: 100 %, 1,000.000000 of 1,000.000000": {Type: event.AlertType_ALERT_CAP, KeyCap: true, Key: 7, Threshold: 100, Used: 1_000_000_000, Limit: 1_000_000_000},
		"Balance 0.999999, below 1.000000":                                {Type: event.AlertType_ALERT_BALANCE, BalanceMicros: 999_999, BelowMicros: 1_000_000},
		"The key default expires in 1 day":                                {Type: event.AlertType_ALERT_KEY, DaysBefore: 1},
		"The key k2 expires in 7 days":                                    {Type: event.AlertType_ALERT_KEY, Key: 2, DaysBefore: 7},
		"The key “deploy” was created":                                    {Type: event.AlertType_ALERT_KEY_CREATED, Key: 3, KeyName: "deploy"},
		"The key “deploy” was replaced":                                   {Type: event.AlertType_ALERT_KEY_REVOKED, Key: 3, KeyName: "deploy", ExpiresMs: 1},
		"The key “deploy” was revoked":                                    {Type: event.AlertType_ALERT_KEY_REVOKED, Key: 3, KeyName: "deploy"},
		"Test event":                                                      {Type: event.AlertType_ALERT_TEST},
		"An event":                                                        {Type: 99}, // of a later version
	} {
		if got := (Delivery{Delivery: &event.Delivery{Alert: a}}).What(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	w := Webhook{WebhookRules: &event.WebhookRules{Webhook: 1, Events: 1}}
	if got := w.Told(); len(got) != 1 || got[0] != "Requests reach a threshold of their monthly limit (50 %, 80 %, 100 %)" {
		t.Errorf("%q", got)
	}
	if f := ChangeWebhook("a", "once", w); f.Values["thresholds"] != "" || f.Values["events.quota.threshold"] != "on" || f.Values["events.balance.low"] != "" {
		t.Errorf("%v", f.Values)
	}
	w.Thresholds, w.BalanceBelowMicros, w.Events = []uint32{10, 90}, 2_500_000, 4
	if f := ChangeWebhook("a", "once", w); f.Values["thresholds"] != "10, 90" || f.Values["balanceBelow"] != "2.5" || f.Values["events.quota.threshold"] != "" {
		t.Errorf("%v", f.Values)
	}
	long := Delivery{Delivery: &event.Delivery{Attempts: []*event.DeliveryAttempt{{Answer: "first"}, {Answer: strings.Repeat("ü", shownAnswer+1)}}}}
	if got := long.Answer(); got != strings.Repeat("ü", shownAnswer)+"…" {
		t.Errorf("%q", got)
	}
}

// TestAFormSaysWhatItIsCountedAs before it is sent, and is not offered where it can't succeed.
func TestAFormSaysWhatItIsCountedAs(t *testing.T) {
	one := []Key{{}}
	for _, test := range []struct {
		meter   Meter
		blocked bool
		says    string
	}{
		{Meter{Key: plan.LiteCreate, Keys: one, Known: true, Left: 100, Limit: 100}, false, "This uses 1 of the 100 quick pastes you have left this month."},
		{Meter{Key: plan.FilesUpload, Keys: one, Known: true, Left: 1, Limit: 100}, false, "Each file uses 1 of the 1 uploads you have left this month."},
		{Meter{Key: plan.LiteDelete, Count: 51, Keys: one, Known: true, Left: 50, Limit: 50}, false, "You have 50 quick paste deletions left this month. The rest of these 51 will be refused."},
		{Meter{Key: plan.LiteCreate, Keys: one, Known: true, Left: 0, Limit: 100}, true, "You have used all 100 quick pastes this month."},
		{Meter{Key: plan.PastesCreate, Keys: one, Known: true, Tier: "Free"}, true, "The Free plan doesn’t include pastes."},
		{Meter{Key: plan.PastesDelete, Count: 3, Keys: one, Known: true, Left: 1, Limit: 500, Sold: true, PriceMicros: 500, BalanceMicros: 2_000_000}, false, "This is over the quota of 500 paste deletions per month and costs 0.001 of your 2 credits."},
		{Meter{Key: plan.PastesUpdate, Keys: one, Known: true, Left: 0, Limit: 500, Sold: true, PriceMicros: 1000, BalanceMicros: 999}, true, "You have used all 500 paste edits this month. The next one costs 0.001 credits, more than you have."},
		{Meter{Key: plan.PastesUpdate, Keys: one, Known: true, Left: 0, Limit: 500, Sold: true, PriceMicros: 1000, BalanceMicros: 1000}, false, "This is over the quota of 500 paste edits per month and costs 0.001 of your 0.001 credits."},
		{Meter{Key: plan.PastesCreate, Keys: one, Known: true, Left: -1, Limit: plan.Unlimited}, false, "Your plan has unlimited pastes."},
		{Meter{Key: plan.FilesDelete, Count: 2, Keys: one}, false, "This uses 2 of this month’s file deletions."},
		{Meter{Key: plan.PastesCreate, Known: true, Left: 5, Limit: 5}, true, "None of your API keys can do this."},
	} {
		if got := test.meter.Says(); got != test.says || test.meter.Blocked() != test.blocked {
			t.Errorf("%+v: %q, blocked %v", test.meter, got, test.meter.Blocked())
		}
	}
}
