package accounts

import (
	"math/big"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin/httperr"
)

// quotaKeyName is null for an entry without a request.
func quotaKeyName(number uint32) *string {
	if number == 0 {
		return nil
	}
	return new(plan.QuotaKey(number).String())
}

type statementView struct {
	endpoint.Success
	Number       string                        `json:"number"`
	Period       string                        `json:"period"`
	Start        string                        `json:"start"`
	End          string                        `json:"end"`
	Closed       bool                          `json:"closed"`
	Tier         string                        `json:"tier"`
	Requests     uint64                        `json:"requests"`
	Usage        map[string]statementUsageView `json:"usage"`
	CreditsSpent string                        `json:"creditsSpent"`
	Periods      []statementPeriodView         `json:"periods"`
	Credits      statementCreditsView          `json:"credits"`
	Storage      statementStorageView          `json:"storage"`
	FeesUSD      string                        `json:"feesUsd"` // of all periods
}

type statementUsageView struct {
	Requests     uint64 `json:"requests"`
	Overage      uint64 `json:"overage"`
	CreditsSpent string `json:"creditsSpent"`

	CreditsRefunded string `json:"creditsRefunded"` // of those spent
}

// statementPeriodView is a part of the month with the same plan, limits and prices.
type statementPeriodView struct {
	Start string                       `json:"start"`
	End   string                       `json:"end"`
	Tier  string                       `json:"tier"`
	Fee   statementFeeView             `json:"fee"`
	Lines map[string]statementLineView `json:"lines"` // every quota key
}

// statementFeeView is the plan's fee in a period.
type statementFeeView struct {
	MonthUSD     string `json:"monthUsd"`
	Seconds      uint64 `json:"seconds"`
	MonthSeconds int64  `json:"monthSeconds"`
	Rounding     string `json:"rounding"` // of the quotient
	AmountUSD    string `json:"amountUsd"`
}

type statementLineView struct {
	Limit  int64   `json:"limit"`
	Price  *string `json:"price"` // null: requests over quota are not sold
	Used   uint64  `json:"used"`
	Free   uint64  `json:"free"`
	Paid   uint64  `json:"paid"`
	Amount string  `json:"amount"`
}

type statementCreditsView struct {
	Opening  string `json:"opening"`
	Granted  string `json:"granted"`
	Refunded string `json:"refunded"`
	Adjusted string `json:"adjusted"`
	Expired  string `json:"expired"`
	Charged  string `json:"charged"`
	Closing  string `json:"closing"`
	Pending  string `json:"pending"`
}

type statementStorageView struct {
	AverageBytes uint64 `json:"averageBytes"`
	FreeBytes    uint64 `json:"freeBytes"`
	BilledBytes  uint64 `json:"billedBytes"`
	GBBytes      uint64 `json:"gbBytes"`
	GBMonthUSD   string `json:"gbMonthUsd"`
	Rounding     string `json:"rounding"` // of every quotient
	AmountUSD    string `json:"amountUsd"`

	ByteMilliseconds *string          `json:"byteMilliseconds"` // null: unknown by day
	Days             []storageDayView `json:"days"`             // null: unknown by day
}

type storageDayView struct {
	Day              string `json:"day"`
	AverageBytes     uint64 `json:"averageBytes"`
	ByteMilliseconds string `json:"byteMilliseconds"`
}

// statement answers for one month. A month in the future, or from before the account existed, is 404.
func (s *Accounts) statement(c *endpoint.Call) error {
	period := c.Param("period")
	start, err := ParsePeriod(period)
	if err != nil {
		return err
	}
	if err := s.CheckHolder(c); err != nil {
		return err
	}
	a, err := s.StatementOf(c, period)
	if err != nil {
		return err
	}
	if wantsCSV(c) {
		return sendStatement(c, a)
	}
	return s.JSON(c.Ctx, fiber.StatusOK, ViewStatement(c.Who.Account, a, start))
}

// StatementTable answers with the lines of a month's statement in CSV.
func (s *Accounts) StatementTable(c *endpoint.Call, period string) error {
	if _, err := ParsePeriod(period); err != nil {
		return err
	}
	a, err := s.StatementOf(c, period)
	if err != nil {
		return err
	}
	return sendStatement(c, a)
}

func sendStatement(c *endpoint.Call, a *event.StatementAnswer) error {
	return sendCSV(c, "statement-"+StatementNumber(c.Who.Account, a.Period)+".csv", statementHeader(), statementRecords(a))
}

// StatementNumber identifies a statement among the statements of all accounts.
func StatementNumber(account event.AccountID, period string) string {
	return period + "-" + account.String()
}

func statementHeader() []string {
	return []string{"start", "end", "tier", "quotaKey", "limit", "price", "used", "free", "paid", "amount"}
}

// statementRecords are the lines of all periods, by quota key.
func statementRecords(a *event.StatementAnswer) (records [][]string) {
	for _, p := range a.Periods {
		for _, l := range p.Lines {
			v := viewLine(l)
			records = append(records, []string{
				endpoint.FormatTime(p.StartMs), endpoint.FormatTime(p.EndMs), plan.Tier(p.Tier).Name(p.Plan), plan.QuotaKey(l.QuotaKey).String(),
				strconv.FormatInt(v.Limit, 10), endpoint.Optional(v.Price), strconv.FormatUint(v.Used, 10), strconv.FormatUint(v.Free, 10),
				strconv.FormatUint(v.Paid, 10), v.Amount,
			})
		}
	}
	return records
}

func viewPeriods(a *event.StatementAnswer, month time.Duration) []statementPeriodView {
	periods := make([]statementPeriodView, 0, len(a.Periods))
	for _, p := range a.Periods {
		lines := make(map[string]statementLineView, len(p.Lines))
		for _, l := range p.Lines {
			lines[plan.QuotaKey(l.QuotaKey).String()] = viewLine(l)
		}
		periods = append(periods, statementPeriodView{
			Start: endpoint.FormatTime(p.StartMs), End: endpoint.FormatTime(p.EndMs), Tier: plan.Tier(p.Tier).Name(p.Plan), Lines: lines,
			Fee: statementFeeView{
				MonthUSD: plan.Dollars(p.FeeCents), Seconds: p.FeeSeconds, MonthSeconds: int64(month.Seconds()), Rounding: "down",
				AmountUSD: plan.Dollars(p.FeeAmountCents),
			},
		})
	}
	return periods
}

func viewLine(l *event.StatementLine) statementLineView {
	v := statementLineView{
		Limit: l.Limit, Used: l.Used, Free: l.Used - min(l.Paid, l.Used), Paid: l.Paid, Amount: plan.Credits(l.AmountMicros),
	}
	if l.Overage {
		v.Price = new(plan.Credits(l.PriceMicros))
	}
	return v
}

func viewStatementCredits(c *event.StatementCredits) statementCreditsView {
	return statementCreditsView{
		Opening: plan.Credits(c.GetOpeningMicros()), Granted: plan.Credits(c.GetGrantedMicros()),
		Refunded: plan.Credits(c.GetRefundedMicros()), Adjusted: plan.Credits(c.GetAdjustedMicros()),
		Expired: plan.Credits(c.GetExpiredMicros()), Charged: plan.Credits(c.GetChargedMicros()),
		Closing: plan.Credits(c.GetClosingMicros()), Pending: plan.Credits(c.GetPendingMicros()),
	}
}

func (s *Accounts) StatementOf(c *endpoint.Call, period string) (*event.StatementAnswer, error) {
	a, err := s.Look(c.Who.Account, &event.Query{Query: &event.Query_Statement{Statement: &event.StatementQuery{Period: period}}})
	if err != nil {
		return nil, err
	}
	if a.GetStatement() == nil {
		return nil, endpoint.Unavailable(endpoint.ErrQueryAnswer)
	}
	return a.GetStatement(), nil
}

// ParsePeriod parses a month like 2026-11 and returns its start.
func ParsePeriod(text string) (time.Time, error) {
	start, err := time.Parse("2006-01", text)
	if err != nil || start.Format("2006-01") != text {
		return time.Time{}, httperr.InvalidField("period", "must be a month like 2026-11")
	}
	return start, nil
}

// ViewStatement is the statement in an answer and an export.
func ViewStatement(account event.AccountID, a *event.StatementAnswer, start time.Time) statementView {
	out := statementView{
		Success: endpoint.Succeeded(), Number: StatementNumber(account, a.Period), Period: a.Period, Closed: a.Closed, Tier: plan.Tier(a.Tier).Name(a.Plan),
		Start: endpoint.FormatTime(start.UnixMilli()), End: endpoint.FormatTime(start.AddDate(0, 1, 0).UnixMilli()),
		Usage: make(map[string]statementUsageView, plan.KeyCount), CreditsSpent: plan.Credits(a.SpentMicros),
		Periods: viewPeriods(a, start.AddDate(0, 1, 0).Sub(start)), Credits: viewStatementCredits(a.Credits),
		FeesUSD: plan.Dollars(a.FeesCents),
		Storage: statementStorageView{
			AverageBytes: a.StorageAverageBytes, FreeBytes: a.StorageFreeBytes,
			BilledBytes: a.StorageBilledBytes, AmountUSD: plan.Dollars(a.StorageOverageCents),
			GBBytes: plan.GB, GBMonthUSD: plan.Dollars(a.StorageCentsPerGbMonth), Rounding: "down",
			Days: viewStorageDays(a),
		},
	}
	if a.StorageByDay {
		out.Storage.ByteMilliseconds = new(byteMilliseconds(a.StorageByteMsHigh, a.StorageByteMsLow).String())
	}
	for _, k := range plan.QuotaKeys() {
		out.Usage[k.String()] = statementUsageView{CreditsSpent: plan.Credits(0), CreditsRefunded: plan.Credits(0)}
	}
	for _, k := range a.Usage {
		out.Requests += k.Used
		out.Usage[plan.QuotaKey(k.QuotaKey).String()] = statementUsageView{
			Requests: k.Used, Overage: k.Overage, CreditsSpent: plan.Credits(k.SpentMicros),
			CreditsRefunded: plan.Credits(k.RefundedMicros),
		}
	}
	return out
}

// byteMilliseconds converts a 128-bit integral in two's complement.
func byteMilliseconds(high, low uint64) *big.Int {
	n := new(big.Int).SetUint64(high)
	n.Lsh(n, 64).Add(n, new(big.Int).SetUint64(low))
	if high>>63 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), 128))
	}
	return n
}

// viewStorageDays are the days of a month with any storage; nil if unknown.
func viewStorageDays(a *event.StatementAnswer) []storageDayView {
	if !a.StorageByDay {
		return nil
	}
	days := make([]storageDayView, 0, len(a.StorageDays))
	for _, d := range a.StorageDays {
		sum := byteMilliseconds(d.ByteMsHigh, d.ByteMsLow)
		average := new(big.Int).Div(sum, big.NewInt(endpoint.Day.Milliseconds()))
		days = append(days, storageDayView{
			Day: dayText(d.Day), AverageBytes: uint64(max(0, average.Int64())), ByteMilliseconds: sum.String(),
		})
	}
	return days
}
