package client

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// Receipts is a page of the account's chain of entries, in order. Account.VerifyReceipts compares them with receipts that you kept.
type Receipts struct {
	Meta
	After    string        `json:"after"` // receipt before the first entry; empty if the chain has no entries
	Entries  []*ChainEntry `json:"entries"`
	Newest   string        `json:"newest"`   // receipt with the newest entry; empty without entries
	KeptFrom int64         `json:"keptFrom"` // number of the first entry that is kept; 0 if none is
	HasMore  bool          `json:"hasMore"`
}

// ChainEntry is an entry of the account's chain: a change of its counters or its balance.
type ChainEntry struct {
	Number    int64     `json:"number"`   // from 1
	Receipt   string    `json:"receipt"`  // with this entry
	Entry     string    `json:"entry"`    // its bytes, in hex
	Kind      string    `json:"kind"`     // begins, admitted, undone, free, late or ledger; more may be added
	Time      time.Time `json:"time"`     // when the change counts
	Month     string    `json:"month"`    // that counts it, such as "2026-11"
	QuotaKey  string    `json:"quotaKey"` // empty if there was none
	Charge    string    `json:"charge"`   // quota, credits, none or waived; empty for begins and ledger
	Type      string    `json:"type"`     // of a ledger entry, such as "charge"; empty for others
	Amount    Credits   `json:"amount"`
	Key       string    `json:"key"`       // id of the API key; empty for begins and ledger
	RequestID string    `json:"requestId"` // empty if there was none
}

// ReceiptsQuery selects a page of the chain.
type ReceiptsQuery struct {
	After    int64 // number of the entry before the page; 0 begins with the first that is kept
	PageSize int   // entries, 1 to 1,000; 0 is 100
}

// Receipts returns a page of the account's chain. An entry that is no longer kept is a *NotFoundError.
func (a *Account) Receipts(ctx context.Context, q ReceiptsQuery, options ...CallOption) (*Receipts, error) {
	r := newRequest(http.MethodGet, "/api/users/user/receipts", options)
	if q.After != 0 {
		r.query.Set("after", strconv.FormatInt(q.After, 10))
	}
	if q.PageSize != 0 {
		r.query.Set("limit", strconv.Itoa(q.PageSize))
	}
	return fetch[Receipts](ctx, a.c, r)
}
