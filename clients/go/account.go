package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Account are the operations of the account that the API key or the session belongs to. They are not metered.
type Account struct{ c *Client }

// AccountInfo is what is known of an account.
type AccountInfo struct {
	ID          string    `json:"id"`
	Email       string    `json:"email"`
	Tier        string    `json:"tier"`        // free, pro, max or admin
	CreatedAt   time.Time `json:"createdAt"`   // zero in a Usage
	SuspendedAt time.Time `json:"suspendedAt"` // zero: it is not suspended
	DeletesAt   time.Time `json:"deletesAt"`   // when it will be deleted for good; zero: it will not
}

// KeyInfo is what is known of the default API key.
type KeyInfo struct {
	Prefix    string    `json:"prefix"`  // its first characters
	Version   int64     `json:"version"` // how many keys there have been
	CreatedAt time.Time `json:"createdAt"`
}

// Profile is the account that calls.
type Profile struct {
	Meta
	Account        AccountInfo `json:"account"`
	Key            *KeyInfo    `json:"key"`            // nil: it has none yet
	DeletionUndone bool        `json:"deletionUndone"` // the account was about to be deleted, and this log-in has stopped that
}

// Profile tells which account calls.
func (a *Account) Profile(ctx context.Context, options ...CallOption) (*Profile, error) {
	return fetch[Profile](ctx, a.c, newRequest(http.MethodGet, "/api/users/user", options))
}

// Usage is what an account has used, has left and has paid this month.
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
	Key *KeyInfo `json:"key"` // nil: it has none yet
}

// Period is a calendar month in UTC.
type Period struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"` // when the next one begins
}

// KeyUsage is what was used under one quota key this month.
type KeyUsage struct {
	Used         int64   `json:"used"`
	Limit        int64   `json:"limit"`     // free calls a month; 0: not on this tier, -1: unlimited
	Remaining    int64   `json:"remaining"` // free calls that are left; -1: unlimited
	Overage      int64   `json:"overage"`   // calls that credits paid
	CreditsSpent Credits `json:"creditsSpent"`
}

// Usage tells what is used, left and paid this month.
func (a *Account) Usage(ctx context.Context, options ...CallOption) (*Usage, error) {
	return fetch[Usage](ctx, a.c, newRequest(http.MethodGet, "/api/users/user/dev-usage", options))
}

// dayFormat is that of a day of UTC.
const dayFormat = "2006-01-02"

// DaysQuery says which days of usage are asked for, and how they are split.
type DaysQuery struct {
	From       time.Time // its day in UTC is the first; zero: the first of the month of To
	To         time.Time // its day in UTC is the last, at most 399 days after From; zero: today
	ByQuotaKey bool      // each day is split by quota key
	ByKey      bool      // each day is split by API key
}

// UsageDays is the usage by day.
type UsageDays struct {
	Meta
	Days  []UsageDay `json:"days"`  // days without calls are left out
	Since time.Time  `json:"since"` // calls before were not counted by day
}

// UsageDay is what counted on a day.
type UsageDay struct {
	Day          string  `json:"day"`      // such as "2026-11-22", in UTC
	QuotaKey     string  `json:"quotaKey"` // empty where the days are not split by quota key
	Key          string  `json:"key"`      // id of the API key; empty where the days are not split by key
	Used         int64   `json:"used"`
	Overage      int64   `json:"overage"` // calls that credits paid
	CreditsSpent Credits `json:"creditsSpent"`
}

// UsageByDay lists what counted on each day.
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

// LedgerFilter says which entries are listed: those that fit all fields that are set.
type LedgerFilter struct {
	Type           string    // grant, adjustment, charge or expiry
	QuotaKey       string    // of the call
	From           time.Time // the earliest time
	To             time.Time // only earlier than this
	RequestID      string    // of the call that was charged
	ReasonContains string
	PageSize       int    // entries that one call fetches, 1 to 100; 0: 100
	Cursor         string // to go on where an earlier list ended
}

// LedgerEntry is a change of the balance. With no call in flight, all amounts sum to the balance.
type LedgerEntry struct {
	ID        string    `json:"id"`
	Time      time.Time `json:"time"`
	Type      string    `json:"type"`     // grant, adjustment, charge or expiry; more may come
	QuotaKey  string    `json:"quotaKey"` // of a charge
	Amount    Credits   `json:"amount"`   // below zero where credits were taken
	Balance   Credits   `json:"balance"`  // after it
	RequestID string    `json:"requestId"`
	Reason    string    `json:"reason"` // of a grant or an adjustment
}

type ledgerPage struct {
	page
	Entries []*LedgerEntry `json:"entries"`
}

// Ledger goes through the changes of the balance, the newest first.
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
	Period       string                    `json:"period"` // such as "2026-11"
	Start        time.Time                 `json:"start"`
	End          time.Time                 `json:"end"`    // when the next month begins
	Closed       bool                      `json:"closed"` // the month is over, and the statement does not change any more
	Tier         string                    `json:"tier"`
	Requests     int64                     `json:"requests"` // calls that were counted under all quota keys
	Usage        map[string]StatementUsage `json:"usage"`    // by quota key
	CreditsSpent Credits                   `json:"creditsSpent"`
	Storage      struct {
		AverageBytes     int64        `json:"averageBytes"`
		FreeBytes        int64        `json:"freeBytes"`
		BilledBytes      int64        `json:"billedBytes"`
		AmountUSD        string       `json:"amountUsd"`        // such as "0.30"
		ByteMilliseconds string       `json:"byteMilliseconds"` // the exact sum, an integer that may be too large for 64 bits
		Days             []StorageDay `json:"days"`
	} `json:"storage"`
}

// StatementUsage is a quota key on a statement.
type StatementUsage struct {
	Requests     int64   `json:"requests"`
	Overage      int64   `json:"overage"` // calls that credits paid
	CreditsSpent Credits `json:"creditsSpent"`
}

// StorageDay is a day's part of the month's storage.
type StorageDay struct {
	Day              string `json:"day"`
	AverageBytes     int64  `json:"averageBytes"`
	ByteMilliseconds string `json:"byteMilliseconds"` // the exact sum, an integer
}

// Statement is that of a calendar month in UTC, such as "2026-11".
func (a *Account) Statement(ctx context.Context, period string, options ...CallOption) (*Statement, error) {
	return fetch[Statement](ctx, a.c, newRequest(http.MethodGet, "/api/users/user/statements/"+url.PathEscape(period), options))
}

// CapPeriod is the period that a spending cap counts in.
type CapPeriod string

// A day or a month of UTC, or all time.
const (
	CapPerDay   CapPeriod = "day"
	CapPerMonth CapPeriod = "month"
	CapInTotal  CapPeriod = "total"
)

// SpendingCap is the most that calls may take from the credits in a period.
type SpendingCap struct {
	Amount  Credits   `json:"amount"`
	Period  CapPeriod `json:"period"`
	Spent   Credits   `json:"spent"`   // what the period's calls have taken, those in flight included
	ResetAt time.Time `json:"resetAt"` // when the period ends; zero for a total
}

// CapChange is a spending cap to set.
type CapChange struct {
	Amount Credits   `json:"amount"`
	Period CapPeriod `json:"period,omitempty"` // empty: a month
}

// SpendingCapSet is the account's spending cap as it is now.
type SpendingCapSet struct {
	Meta
	SpendingCap *SpendingCap `json:"spendingCap"` // nil: there is none
}

// SetSpendingCap sets the most that the account's calls may take from the credits; nil takes the cap away. It wants a session.
func (a *Account) SetSpendingCap(ctx context.Context, limit *CapChange, options ...CallOption) (*SpendingCapSet, error) {
	r := once(http.MethodPut, "/api/users/user/spending-cap", options)
	var body any = limit
	if limit == nil {
		body = map[string]any{"amount": nil}
	}
	if err := r.json(body); err != nil {
		return nil, err
	}
	return fetch[SpendingCapSet](ctx, a.c, r)
}
