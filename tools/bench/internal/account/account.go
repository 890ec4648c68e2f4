// Package account has the accounts whose requests are measured: their keys, and the counts that the server must agree with.
package account

import (
	"context"
	"net/http"
	"strings"

	"quire.dev/pkg/admin"
	"quire.dev/tools/bench/internal/wrk"
)

// Quota keys of the requests that are measured.
const (
	Get      = "pasteLite.get"
	Create   = "pasteLite.create"
	Upload   = "files.upload"
	Download = "files.get"
)

// Account sends requests. Not safe for concurrent use.
type Account struct {
	ID, Key string
	Counted map[string]wrk.Tally // by quota key
}

// New creates an account. One of the tier "admin" has no limit and is never charged, and its requests are counted as any.
func New(ctx context.Context, api admin.Client, email, tier string) (*Account, error) {
	made, err := api.CreateAccount(ctx, admin.NewAccount{Email: email, Tier: tier}, "")
	if err != nil {
		return nil, err
	}
	return &Account{ID: made.Account.ID, Key: made.APIKey, Counted: map[string]wrk.Tally{}}, nil
}

// Succeeded notes a request.
func (a *Account) Succeeded(quotaKey string) {
	a.Counted[quotaKey] = a.Counted[quotaKey].Plus(wrk.Tally{Succeeded: 1})
}

// Count notes the requests of a run of wrk.
func (a *Account) Count(quotaKey string, r wrk.Result, connections int) {
	a.Counted[quotaKey] = a.Counted[quotaKey].With(r, connections)
}

// Usage is what a server has counted under a quota key. Remaining is -1 for unlimited.
type Usage struct {
	Used      uint64
	Remaining int64
}

// Used returns what the server has counted for the account, by quota key.
func (a *Account) Used(ctx context.Context, api admin.Client) (map[string]Usage, error) {
	var answer struct{ Usage map[string]Usage }
	err := api.Call(ctx, http.MethodGet, "/api/admin/accounts/"+a.ID, nil, &answer)
	return answer.Usage, err
}

// WrongKey returns a key of the right form with a wrong signature.
func WrongKey(key string) string {
	last := "a"
	if strings.HasSuffix(key, last) {
		last = "b"
	}
	return key[:len(key)-1] + last
}
