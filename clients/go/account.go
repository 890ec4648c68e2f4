package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Account has the operations of the API key's or session's account. They are not metered.
type Account struct{ c *Client }

// AccountInfo describes an account.
type AccountInfo struct {
	ID            string    `json:"id"`
	Email         string    `json:"email"`
	Tier          string    `json:"tier"`          // free, pro, max, admin, or another plan of the price book
	NextTier      string    `json:"nextTier"`      // that begins with the next month; empty if the present one stays
	CreatedAt     time.Time `json:"createdAt"`     // zero in a Usage
	SuspendedAt   time.Time `json:"suspendedAt"`   // zero unless suspended
	QuarantinedAt time.Time `json:"quarantinedAt"` // zero unless in quarantine
	DeletesAt     time.Time `json:"deletesAt"`     // when it will be permanently deleted; zero unless scheduled
}

// KeyInfo describes the default API key.
type KeyInfo struct {
	Prefix    string    `json:"prefix"`  // its first characters
	Version   int64     `json:"version"` // number of keys so far
	CreatedAt time.Time `json:"createdAt"`
}

// Profile is the caller's account.
type Profile struct {
	Meta
	Account        AccountInfo `json:"account"`
	Key            *KeyInfo    `json:"key"`            // nil if not created yet
	DeletionUndone bool        `json:"deletionUndone"` // this log-in canceled the account's deletion
}

// Profile returns the caller's account.
func (a *Account) Profile(ctx context.Context, options ...CallOption) (*Profile, error) {
	return fetch[Profile](ctx, a.c, newRequest(http.MethodGet, "/api/users/user", options))
}

// Usage is an account's usage this month.
type Usage struct {
	Meta
	Account AccountInfo         `json:"account"`
	Period  Period              `json:"period"`
	Usage   map[string]KeyUsage `json:"usage"` // by quota key, such as "pastes.get"
	Credits struct {
		Balance         Credits `json:"balance"`
		SpentThisPeriod Credits `json:"spentThisPeriod"`
	} `json:"credits"`
	Storage struct {
		UsedBytes    int64  `json:"usedBytes"`
		FreeBytes    int64  `json:"freeBytes"`
		AverageBytes int64  `json:"averageBytes"` // of the month so far
		OverageUSD   string `json:"overageUsd"`   // such as "0.30"
	} `json:"storage"`
	Key *KeyInfo `json:"key"` // nil if not created yet
}

// Period is a calendar month in UTC.
type Period struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"` // start of the next period
}

// KeyUsage is this month's usage under a quota key.
type KeyUsage struct {
	Used         int64   `json:"used"`
	Limit        int64   `json:"limit"`     // free calls per month; 0 if not included in the plan, -1 if unlimited
	Remaining    int64   `json:"remaining"` // free calls left; -1 if unlimited
	Overage      int64   `json:"overage"`   // calls paid with credits
	CreditsSpent Credits `json:"creditsSpent"`

	CreditsRefunded Credits `json:"creditsRefunded"` // part of CreditsSpent that was refunded later
}

// Usage returns this month's usage.
func (a *Account) Usage(ctx context.Context, options ...CallOption) (*Usage, error) {
	return fetch[Usage](ctx, a.c, newRequest(http.MethodGet, "/api/users/user/dev-usage", options))
}

// dayFormat is the format of days.
const dayFormat = "2006-01-02"

// DaysQuery selects days of usage and how to split them.
type DaysQuery struct {
	From       time.Time // first day (UTC); zero is the first of the month of To
	To         time.Time // last day (UTC), at most 399 days after From; zero is today
	ByQuotaKey bool      // split each day by quota key
	ByKey      bool      // split each day by API key
}

// UsageDays is usage by day.
type UsageDays struct {
	Meta
	Days  []UsageDay `json:"days"`  // without days that have no calls
	Since time.Time  `json:"since"` // first time counted by day
}

// UsageDay is the usage of a day.
type UsageDay struct {
	Day          string  `json:"day"`      // such as "2026-11-22", in UTC
	QuotaKey     string  `json:"quotaKey"` // empty unless split by quota key
	Key          string  `json:"key"`      // id of the API key; empty unless split by key
	Used         int64   `json:"used"`
	Overage      int64   `json:"overage"` // calls paid with credits
	CreditsSpent Credits `json:"creditsSpent"`
}

// UsageByDay returns usage by day.
func (a *Account) UsageByDay(ctx context.Context, q DaysQuery, options ...CallOption) (*UsageDays, error) {
	r := newRequest(http.MethodGet, "/api/users/user/usage", options)
	setDay(r.query, "from", q.From)
	setDay(r.query, "to", q.To)
	switch {
	case q.ByQuotaKey && q.ByKey:
		r.query.Set("by", "quotaKey,key")
	case q.ByQuotaKey:
		r.query.Set("by", "quotaKey")
	case q.ByKey:
		r.query.Set("by", "key")
	default:
		r.query.Set("by", "day")
	}
	return fetch[UsageDays](ctx, a.c, r)
}

func setDay(q url.Values, name string, t time.Time) {
	if !t.IsZero() {
		q.Set(name, t.UTC().Format(dayFormat))
	}
}

func setTime(q url.Values, name string, t time.Time) {
	if !t.IsZero() {
		q.Set(name, t.UTC().Format(time.RFC3339Nano))
	}
}

// LedgerFilter selects entries that match all fields that are set.
type LedgerFilter struct {
	Type           string    // grant, adjustment, charge or expiry
	QuotaKey       string    // of the call
	From           time.Time // inclusive
	To             time.Time // exclusive
	RequestID      string    // of the charged call
	ReasonContains string
	PageSize       int    // entries per page, 1 to 100; 0 is 100
	Cursor         string // continues an earlier list
}

// LedgerEntry is a change of the balance. With no call in flight, all amounts add up to the balance.
type LedgerEntry struct {
	ID        string    `json:"id"`
	Time      time.Time `json:"time"`     // of the request's admission; without a request, as SettledAt
	Type      string    `json:"type"`     // grant, adjustment, charge, expiry, refund, payment or reversal; more may be added
	QuotaKey  string    `json:"quotaKey"` // of a charge or refund
	Amount    Credits   `json:"amount"`   // negative if credits were deducted
	Balance   Credits   `json:"balance"`  // sum of this entry and all older ones; below zero if credits are owed
	RequestID string    `json:"requestId"`
	Reason    string    `json:"reason"` // of a grant or an adjustment
	SettledAt time.Time `json:"settledAt"`
	Period    string    `json:"period"`  // month that a refund without RequestID is for, such as "2026-11"
	Payment   string    `json:"payment"` // number of a payment that was recorded or reversed
	Actor     string    `json:"actor"`   // admin or payment provider; empty for requests
}

type ledgerPage struct {
	page
	Entries []*LedgerEntry `json:"entries"`
}

// Ledger iterates over the changes of the balance, newest first.
func (a *Account) Ledger(ctx context.Context, filter LedgerFilter, options ...CallOption) iter.Seq2[*LedgerEntry, error] {
	return pages(ctx, a.c, func(cursor string) *request {
		r := newRequest(http.MethodGet, "/api/users/user/credits", options)
		setPage(r.query, filter.PageSize, cursor, filter.Cursor)
		setText(r.query, "type", filter.Type)
		setText(r.query, "quotaKey", filter.QuotaKey)
		setText(r.query, "requestId", filter.RequestID)
		setText(r.query, "q", filter.ReasonContains)
		setTime(r.query, "from", filter.From)
		setTime(r.query, "to", filter.To)
		return r
	}, func(p ledgerPage) []*LedgerEntry { return p.Entries })
}

// Statement is the statement of a month.
type Statement struct {
	Meta
	Number       string                    `json:"number"`
	Period       string                    `json:"period"` // such as "2026-11"
	Start        time.Time                 `json:"start"`
	End          time.Time                 `json:"end"`    // start of the next month
	Closed       bool                      `json:"closed"` // the statement is final
	Tier         string                    `json:"tier"`
	Requests     int64                     `json:"requests"` // calls under all quota keys
	Usage        map[string]StatementUsage `json:"usage"`    // by quota key
	CreditsSpent Credits                   `json:"creditsSpent"`
	Periods      []StatementPeriod         `json:"periods"` // in order, without gaps
	Credits      StatementCredits          `json:"credits"`
	Storage      struct {
		AverageBytes     int64        `json:"averageBytes"`
		FreeBytes        int64        `json:"freeBytes"`
		BilledBytes      int64        `json:"billedBytes"`
		GBBytes          int64        `json:"gbBytes"`
		GBMonthUSD       string       `json:"gbMonthUsd"`       // price of a GB for a month, such as "0.03"
		Rounding         string       `json:"rounding"`         // "down"
		AmountUSD        string       `json:"amountUsd"`        // such as "0.30"
		ByteMilliseconds string       `json:"byteMilliseconds"` // the exact sum, an integer that may be too large for 64 bits
		Days             []StorageDay `json:"days"`
	} `json:"storage"`
	FeesUSD string `json:"feesUsd"` // the plans' fees of all periods, such as "29.00"
}

// StatementUsage is a quota key on a statement.
type StatementUsage struct {
	Requests     int64   `json:"requests"`
	Overage      int64   `json:"overage"` // calls paid with credits
	CreditsSpent Credits `json:"creditsSpent"`

	CreditsRefunded Credits `json:"creditsRefunded"` // part of CreditsSpent that was refunded later
}

// StatementFee is the plan's fee in a period: MonthUSD times Seconds / MonthSeconds.
type StatementFee struct {
	MonthUSD     string `json:"monthUsd"` // for a whole month
	Seconds      int64  `json:"seconds"`
	MonthSeconds int64  `json:"monthSeconds"`
	Rounding     string `json:"rounding"` // "down"
	AmountUSD    string `json:"amountUsd"`
}

// StatementPeriod is a part of a month with one plan and its limits and prices.
type StatementPeriod struct {
	Start time.Time                `json:"start"`
	End   time.Time                `json:"end"`
	Tier  string                   `json:"tier"`
	Fee   StatementFee             `json:"fee"`
	Lines map[string]StatementLine `json:"lines"` // by quota key
}

// StatementLine is a quota key in a period. Free and Paid sum to Used, and Amount is Paid times Price.
type StatementLine struct {
	Limit  int64    `json:"limit"` // of the month; -1: unlimited
	Price  *Credits `json:"price"` // of a call over quota; nil: none are sold
	Used   int64    `json:"used"`
	Free   int64    `json:"free"`
	Paid   int64    `json:"paid"`
	Amount Credits  `json:"amount"`
}

// StatementCredits are the changes of the balance in a month: Closing is Opening + Granted + Refunded + Adjusted - Expired - Charged.
type StatementCredits struct {
	Opening  Credits `json:"opening"`
	Granted  Credits `json:"granted"`
	Refunded Credits `json:"refunded"`
	Adjusted Credits `json:"adjusted"` // by an admin, negative for a removal
	Expired  Credits `json:"expired"`
	Charged  Credits `json:"charged"`
	Closing  Credits `json:"closing"`
	Pending  Credits `json:"pending"` // of calls in flight
}

// StorageDay is a day's part of the month's storage.
type StorageDay struct {
	Day              string `json:"day"`
	AverageBytes     int64  `json:"averageBytes"`
	ByteMilliseconds string `json:"byteMilliseconds"` // the exact sum, an integer
}

// Statement returns the statement of a calendar month in UTC, such as "2026-11".
func (a *Account) Statement(ctx context.Context, period string, options ...CallOption) (*Statement, error) {
	return fetch[Statement](ctx, a.c, newRequest(http.MethodGet, "/api/users/user/statements/"+url.PathEscape(period), options))
}

// CapPeriod is the period of a spending cap.
type CapPeriod string

// Per UTC day, per UTC month, or in total.
const (
	CapPerDay   CapPeriod = "day"
	CapPerMonth CapPeriod = "month"
	CapInTotal  CapPeriod = "total"
)

// SpendingCap limits the credits that calls can spend in a period.
type SpendingCap struct {
	Amount  Credits   `json:"amount"`
	Period  CapPeriod `json:"period"`
	Spent   Credits   `json:"spent"`   // in this period, including calls in flight
	ResetAt time.Time `json:"resetAt"` // end of the period; zero for a total
}

// CapChange is a spending cap to set.
type CapChange struct {
	Amount Credits   `json:"amount"`
	Period CapPeriod `json:"period,omitempty"` // empty is a month
}

// UpdatedSpendingCap is the account's current spending cap.
type UpdatedSpendingCap struct {
	Meta
	SpendingCap *SpendingCap `json:"spendingCap"` // nil if not set
	CapCleared  bool         `json:"capCleared"`  // the call removed the cap
}

// SetSpendingCap sets the account's spending cap; nil removes it. It requires a session.
func (a *Account) SetSpendingCap(ctx context.Context, limit *CapChange, options ...CallOption) (*UpdatedSpendingCap, error) {
	r := once(http.MethodPut, "/api/users/user/spending-cap", options)
	var body any = limit
	if limit == nil {
		body = map[string]any{"amount": nil}
	}
	if err := r.json(body); err != nil {
		return nil, err
	}
	return fetch[UpdatedSpendingCap](ctx, a.c, r)
}
