package web

import (
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
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
		return time.Time{}, httpin.InvalidField("period", "must be a month like 2026-11")
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

type explanationView struct {
	success
	Request explainedView `json:"request"`
}

type explainedView struct {
	ID           string         `json:"id"`
	Account      *string        `json:"account"` // null: keyless
	Anonymous    bool           `json:"anonymous"`
	QuotaKey     string         `json:"quotaKey"`
	Time         string         `json:"time"`
	Decision     string         `json:"decision"`
	ChargeSource string         `json:"chargeSource"`
	Settlement   *string        `json:"settlement"` // null: refused, nothing to settle
	Tier         *string        `json:"tier"`
	Limit        int64          `json:"limit"`
	UsedBefore   uint64         `json:"usedBefore"`
	UsedAfter    uint64         `json:"usedAfter"`
	Price        string         `json:"price"`
	Cost         string         `json:"cost"`
	BalanceAfter *string        `json:"balanceAfter"` // null: credits did not pay
	Grants       []grantUseView `json:"grants"`
	Journal      positionView   `json:"journal"`
	SettledAt    *positionView  `json:"settledAt"`
}

type grantUseView struct {
	Grant  string `json:"grant"`
	Amount string `json:"amount"`
	Reason string `json:"reason"`
}

// positionView is a place in a journal; index is the position within its message.
type positionView struct {
	Stream   string  `json:"stream"`
	Sequence uint64  `json:"sequence"`
	Index    *uint32 `json:"index,omitempty"`
}

// explain says how a request of the account's own was decided.
func (s *Server) explain(c *call) error {
	id, err := explainedID(c)
	if err != nil {
		return err
	}
	if err := s.checkHolder(c); err != nil {
		return err
	}
	e, err := s.bus.Explain(s.ctx, c.who.account, id)
	if err != nil {
		return err
	}
	if a := e.Answer; a != nil && (a.Anonymous || a.Account != uint64(c.who.account)) {
		return notFound()
	}
	return s.explained(c, e)
}

// explainAny says how a request of any account, or of none, was decided.
func (s *Server) explainAny(c *call) error {
	id, err := explainedID(c)
	if err != nil {
		return err
	}
	if err := s.note(c, 0, noteExplain, id.String()); err != nil {
		return err
	}
	e, err := s.bus.ExplainAny(s.ctx, id)
	if err != nil {
		return err
	}
	return s.explained(c, e)
}

type progressView struct {
	success
	Done  uint64 `json:"done"`
	Total uint64 `json:"total"`
}

// explained answers with the explanation, or with how far billing is. Then the same call leads to it later.
func (s *Server) explained(c *call, e *bus.Explanation) error {
	if e.Answer != nil {
		return s.json(c.Ctx, fiber.StatusOK, explanationView{success: succeeded(), Request: viewExplained(e.Answer)})
	}
	c.Location(c.Path())
	c.Set(fiber.HeaderRetryAfter, "1")
	return s.json(c.Ctx, fiber.StatusAccepted, progressView{success: succeeded(), Done: e.Done, Total: e.Total})
}

// explainedID is the id in the path; 404 for text that is no request id.
func explainedID(c *call) (event.RequestID, error) {
	id, err := event.ParseRequestID(strings.ToLower(c.Params("requestId")))
	if err != nil {
		return event.RequestID{}, notFound()
	}
	return id, nil
}

func viewExplained(e *event.ExplainAnswer) explainedView {
	v := e.GetVerdict()
	out := explainedView{
		Anonymous: e.Anonymous, QuotaKey: plan.QuotaKey(e.QuotaKey).String(), Time: formatTime(e.TimeMs),
		Decision: decisionName(v), ChargeSource: chargeName(e.Charge, v.GetLimit()), Settlement: optionalText(e.Settlement),
		Limit: v.GetLimit(), UsedBefore: e.UsedBefore, UsedAfter: e.UsedAfter,
		Price: credits(e.PriceMicros), Cost: credits(e.CostMicros),
		Grants:  make([]grantUseView, 0, len(e.Grants)),
		Journal: positionView{Stream: e.Stream, Sequence: e.Sequence, Index: &e.Index},
	}
	if id := requestIDText(e.RequestId); id != nil {
		out.ID = *id
	}
	if !e.Anonymous {
		out.Account = new(event.AccountID(e.Account).String())
	}
	if v.GetTier() != 0 {
		out.Tier = new(plan.Tier(v.GetTier()).String())
	}
	if e.Charge == event.ChargeSource_CHARGE_CREDITS && v.GetCharge() == e.Charge {
		out.BalanceAfter = new(credits(v.GetBalanceMicros()))
	}
	for _, g := range e.Grants {
		out.Grants = append(out.Grants, grantUseView{
			Grant: strconv.FormatUint(g.Grant, 10), Amount: credits(g.AmountMicros), Reason: g.Reason,
		})
	}
	if e.SettlementSequence != 0 {
		out.SettledAt = &positionView{Stream: e.Stream, Sequence: e.SettlementSequence}
	}
	return out
}

// decisionName is the code that the decision has in the API.
func decisionName(v *event.Verdict) string {
	switch d := v.GetDecision(); {
	case d == event.Decision_INVALID_KEY:
		return string(fault.InvalidAPIKey)
	case d == event.Decision_QUOTA_EXHAUSTED && v.GetHeld():
		return string(fault.QuotaHeld)
	default:
		return strings.ToLower(d.String())
	}
}

func chargeName(charge event.ChargeSource, limit int64) string {
	switch {
	case charge == event.ChargeSource_CHARGE_CREDITS:
		return "credits"
	case charge == event.ChargeSource_CHARGE_QUOTA && limit != plan.Unlimited:
		return "quota"
	}
	return "none"
}
