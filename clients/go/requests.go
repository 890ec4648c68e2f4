package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// RequestFilter selects calls that match all fields that are set.
type RequestFilter struct {
	QuotaKey   string // such as "pastes.get"
	Key        string // id of the API key, such as "default"
	Decision   string // admitted, or the code of a refusal
	HTTPStatus string // such as "404", or a class such as "4xx"
	RequestID  string // of a single call
	// ClientRequestID is the X-Request-Id that the program sent with the call.
	ClientRequestID string
	From            time.Time // inclusive
	To              time.Time // exclusive
	PageSize        int       // calls per page, 1 to 100; 0 is 100
	Cursor          string    // continues an earlier list
}

// RecentRequest is a recent metered call.
type RecentRequest struct {
	RequestID    string       `json:"requestId"` // for Account.Explain
	Time         time.Time    `json:"time"`
	QuotaKey     string       `json:"quotaKey"`
	Key          string       `json:"key"`      // id of the API key
	KeyName      string       `json:"keyName"`  // its present name; empty for a key that is gone
	Decision     string       `json:"decision"` // admitted, not_charged, or the code of the refusal; more may be added
	Status       string       `json:"status"`   // open, served, void, served_unsettled, waived; empty for a refusal
	ChargeSource ChargeSource `json:"chargeSource"`
	Cost         Credits      `json:"cost"`
	Remaining    *int64       `json:"remaining"` // free calls left; -1 if unlimited; nil if billing did not decide

	// From the edge, within some seconds. Empty until then.
	Method        string `json:"method"`
	Path          string `json:"path"` // without its query
	HTTPStatus    int    `json:"httpStatus"`
	DurationMs    int64  `json:"durationMs"` // until the answer began
	SourceAddress string `json:"sourceAddress"`
	// ClientRequestID is the X-Request-Id that the program sent with the call, if it is a valid one.
	ClientRequestID string `json:"clientRequestId"`
}

type requestPage struct {
	page
	Requests []*RecentRequest `json:"requests"`
}

// Requests iterates over the account's latest metered calls, newest first: at most 10,000, of 30 days unless
// the operator chose another retention.
func (a *Account) Requests(ctx context.Context, filter RequestFilter, options ...CallOption) iter.Seq2[*RecentRequest, error] {
	return pages(ctx, a.c, func(cursor string) *request {
		r := newRequest(http.MethodGet, "/api/users/user/requests", options)
		setPage(r.query, filter.PageSize, cursor, filter.Cursor)
		setText(r.query, "quotaKey", filter.QuotaKey)
		setText(r.query, "key", filter.Key)
		setText(r.query, "decision", filter.Decision)
		setText(r.query, "httpStatus", filter.HTTPStatus)
		setText(r.query, "requestId", filter.RequestID)
		setText(r.query, "clientRequestId", filter.ClientRequestID)
		setTime(r.query, "from", filter.From)
		setTime(r.query, "to", filter.To)
		return r
	}, func(p requestPage) []*RecentRequest { return p.Requests })
}

// Explanation is how a call was billed.
type Explanation struct {
	Meta         `json:"-"`
	ID           string           `json:"id"`
	Text         string           `json:"explanation"` // in English, for people
	Account      string           `json:"account"`     // empty for a call without an API key
	Anonymous    bool             `json:"anonymous"`
	Key          string           `json:"key"` // id of the API key
	QuotaKey     string           `json:"quotaKey"`
	Time         time.Time        `json:"time"`
	Decision     string           `json:"decision"` // admitted, or the code of the refusal; more may be added
	ChargeSource ChargeSource     `json:"chargeSource"`
	Settlement   string           `json:"settlement"` // open, served, void, served_unsettled or waived; empty for a refusal
	Tier         string           `json:"tier"`
	Limit        int64            `json:"limit"` // -1 if unlimited
	UsedBefore   int64            `json:"usedBefore"`
	UsedAfter    int64            `json:"usedAfter"`
	Price        Credits          `json:"price"`        // of a call over quota
	PricesSince  time.Time        `json:"pricesSince"`  // when they came into force
	Cost         Credits          `json:"cost"`         // in the end
	BalanceAfter *Credits         `json:"balanceAfter"` // nil unless paid from credits
	Grants       []GrantUse       `json:"grants"`       // that paid the cost
	Journal      JournalPosition  `json:"journal"`      // of the decision
	SettledAt    *JournalPosition `json:"settledAt"`    // nil if not settled
}

// GrantUse is the part of a cost that a grant paid.
type GrantUse struct {
	Grant  string  `json:"grant"`
	Amount Credits `json:"amount"`
	Reason string  `json:"reason"`
}

// JournalPosition is a position in a journal.
type JournalPosition struct {
	Stream   string `json:"stream"`
	Sequence int64  `json:"sequence"`
	Index    int64  `json:"index"` // offset in the message
}

// minPoll is the minimum polling interval of an explanation.
const minPoll = time.Second

// Explain returns how a metered call was billed. requestID is a Meta.RequestID or APIError.RequestID. It polls for a slow
// explanation until ctx ends.
func (a *Account) Explain(ctx context.Context, requestID string, options ...CallOption) (*Explanation, error) {
	for {
		found, err := fetch[struct {
			Meta
			Request *Explanation `json:"request"` // absent while in progress
		}](ctx, a.c, newRequest(http.MethodGet, "/api/users/user/requests/"+url.PathEscape(requestID), options))
		if err != nil {
			return nil, err
		}
		if found.Request != nil {
			found.Request.Meta = found.Meta
			return found.Request, nil
		}
		if err := a.c.wait(ctx, max(minPoll, found.retryAfter)); err != nil {
			return nil, err
		}
	}
}
