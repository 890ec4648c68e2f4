package web

import (
	"math/big"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/httpin/httperr"
)

// query asks billing about the account. NOT_FOUND is an error too.
func (s *Server) query(account event.AccountID, q *event.Query) (*event.QueryAnswer, error) {
	a, err := s.bus.Query(s.ctx, account, q)
	if err != nil {
		return nil, err
	}
	switch a.Status {
	case event.QueryStatus_QUERY_OK:
		return a, nil
	case event.QueryStatus_QUERY_NOT_FOUND:
		return nil, notFound()
	case event.QueryStatus_QUERY_INVALID_CURSOR:
		return nil, invalidCursor()
	}
	return nil, unavailable(errQueryAnswer)
}

// checkHolder has billing confirm that an API key is a current one of the account and has no scopes. A session needs no check.
// Each endpoint that a session or a key without scopes may call begins with it, or with callerUsage.
func (s *Server) checkHolder(c *call) error { return s.checkKey(c, unmetered) }

// checkKey has billing confirm that an API key is a current one of the account, and that its scopes, if it has any, have the
// quota key. A session needs no check.
func (s *Server) checkKey(c *call, scope plan.QuotaKey) error {
	if c.who.key.Version == 0 {
		return nil
	}
	_, err := s.usageForKey(c, scope)
	return err
}

// quotaKeyName is null for an entry that no request made.
func quotaKeyName(number uint32) *string {
	if number == 0 {
		return nil
	}
	return new(plan.QuotaKey(number).String())
}

func requestIDText(b []byte) *string {
	id, err := event.RequestIDFrom(b)
	if err != nil {
		return nil
	}
	return new(id.String())
}

func optionalText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

type statementView struct {
	success
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

	ByteMilliseconds *string          `json:"byteMilliseconds"` // null: not known by day
	Days             []storageDayView `json:"days"`             // likewise
}

type storageDayView struct {
	Day              string `json:"day"`
	AverageBytes     uint64 `json:"averageBytes"`
	ByteMilliseconds string `json:"byteMilliseconds"`
}

// statement answers for one month. A month that has not begun, or was over before the account was made, is 404.
func (s *Server) statement(c *call) error {
	period := c.param("period")
	start, err := parsePeriod(period)
	if err != nil {
		return err
	}
	if err := s.checkHolder(c); err != nil {
		return err
	}
	a, err := s.statementOf(c, period)
	if err != nil {
		return err
	}
	return s.json(c.Ctx, fiber.StatusOK, viewStatement(a, start))
}

func (s *Server) statementOf(c *call, period string) (*event.StatementAnswer, error) {
	a, err := s.query(c.who.account, &event.Query{Query: &event.Query_Statement{Statement: &event.StatementQuery{Period: period}}})
	if err != nil {
		return nil, err
	}
	if a.GetStatement() == nil {
		return nil, unavailable(errQueryAnswer)
	}
	return a.GetStatement(), nil
}

// parsePeriod reads a month like 2026-11 and returns when it begins.
func parsePeriod(text string) (time.Time, error) {
	start, err := time.Parse("2006-01", text)
	if err != nil || start.Format("2006-01") != text {
		return time.Time{}, httperr.InvalidField("period", "must be a month like 2026-11")
	}
	return start, nil
}

func viewStatement(a *event.StatementAnswer, start time.Time) statementView {
	out := statementView{
		success: succeeded(), Period: a.Period, Closed: a.Closed, Tier: plan.Tier(a.Tier).String(),
		Start: formatTime(start.UnixMilli()), End: formatTime(start.AddDate(0, 1, 0).UnixMilli()),
		Usage: make(map[string]statementUsageView, plan.KeyCount), CreditsSpent: credits(a.SpentMicros),
		Storage: statementStorageView{
			AverageBytes: a.StorageAverageBytes, FreeBytes: a.StorageFreeBytes,
			BilledBytes: a.StorageBilledBytes, AmountUSD: dollars(a.StorageOverageCents),
			Days: viewStorageDays(a),
		},
	}
	if a.StorageByDay {
		out.Storage.ByteMilliseconds = new(byteMilliseconds(a.StorageByteMsHigh, a.StorageByteMsLow).String())
	}
	for _, k := range plan.QuotaKeys() {
		out.Usage[k.String()] = statementUsageView{CreditsSpent: credits(0)}
	}
	for _, k := range a.Usage {
		out.Requests += k.Used
		out.Usage[plan.QuotaKey(k.QuotaKey).String()] = statementUsageView{
			Requests: k.Used, Overage: k.Overage, CreditsSpent: credits(k.SpentMicros),
		}
	}
	return out
}

// byteMilliseconds reads an integral of 128 bits in two's complement.
func byteMilliseconds(high, low uint64) *big.Int {
	n := new(big.Int).SetUint64(high)
	n.Lsh(n, 64).Add(n, new(big.Int).SetUint64(low))
	if high>>63 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), 128))
	}
	return n
}

// viewStorageDays are the days of a month on which anything was stored; nil where they are not known.
func viewStorageDays(a *event.StatementAnswer) []storageDayView {
	if !a.StorageByDay {
		return nil
	}
	days := make([]storageDayView, 0, len(a.StorageDays))
	for _, d := range a.StorageDays {
		sum := byteMilliseconds(d.ByteMsHigh, d.ByteMsLow)
		average := new(big.Int).Div(sum, big.NewInt(day.Milliseconds()))
		days = append(days, storageDayView{
			Day: dayText(d.Day), AverageBytes: uint64(max(0, average.Int64())), ByteMilliseconds: sum.String(),
		})
	}
	return days
}
