package accounts

import (
	"math/big"
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
	Period       string                        `json:"period"`
	Start        string                        `json:"start"`
	End          string                        `json:"end"`
	Closed       bool                          `json:"closed"`
	Tier         string                        `json:"tier"`
	Requests     uint64                        `json:"requests"`
	Usage        map[string]statementUsageView `json:"usage"`
	CreditsSpent string                        `json:"creditsSpent"`
	Storage      statementStorageView          `json:"storage"`
}

type statementUsageView struct {
	Requests     uint64 `json:"requests"`
	Overage      uint64 `json:"overage"`
	CreditsSpent string `json:"creditsSpent"`
}

type statementStorageView struct {
	AverageBytes uint64 `json:"averageBytes"`
	FreeBytes    uint64 `json:"freeBytes"`
	BilledBytes  uint64 `json:"billedBytes"`
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
	return s.JSON(c.Ctx, fiber.StatusOK, ViewStatement(a, start))
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

func ViewStatement(a *event.StatementAnswer, start time.Time) statementView {
	out := statementView{
		Success: endpoint.Succeeded(), Period: a.Period, Closed: a.Closed, Tier: plan.Tier(a.Tier).String(),
		Start: endpoint.FormatTime(start.UnixMilli()), End: endpoint.FormatTime(start.AddDate(0, 1, 0).UnixMilli()),
		Usage: make(map[string]statementUsageView, plan.KeyCount), CreditsSpent: endpoint.Credits(a.SpentMicros),
		Storage: statementStorageView{
			AverageBytes: a.StorageAverageBytes, FreeBytes: a.StorageFreeBytes,
			BilledBytes: a.StorageBilledBytes, AmountUSD: endpoint.Dollars(a.StorageOverageCents),
			Days: viewStorageDays(a),
		},
	}
	if a.StorageByDay {
		out.Storage.ByteMilliseconds = new(byteMilliseconds(a.StorageByteMsHigh, a.StorageByteMsLow).String())
	}
	for _, k := range plan.QuotaKeys() {
		out.Usage[k.String()] = statementUsageView{CreditsSpent: endpoint.Credits(0)}
	}
	for _, k := range a.Usage {
		out.Requests += k.Used
		out.Usage[plan.QuotaKey(k.QuotaKey).String()] = statementUsageView{
			Requests: k.Used, Overage: k.Overage, CreditsSpent: endpoint.Credits(k.SpentMicros),
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
