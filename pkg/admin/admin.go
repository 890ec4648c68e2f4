// Package admin is a client of Quire's admin API. It also prints the first steps for the owner of a new Quire.
package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Client calls the admin API at Base with Token. Safe for concurrent use.
type Client struct {
	Base, Token string
	Site        string // base URL of the rest of the API; empty: Base
}

// NewAccount is a request to create an account. The tier is "free", "pro", "max" or "admin".
type NewAccount struct {
	Email string `json:"email"`
	Tier  string `json:"tier"`
}

// CreatedAccount is a new account with its key, which is shown only this once.
type CreatedAccount struct {
	Account struct {
		ID    string `json:"id"`
		Email string `json:"email"`
		Tier  string `json:"tier"`
	} `json:"account"`
	APIKey string `json:"apiKey"`
}

const (
	callTimeout = 30 * time.Second
	maxAnswer   = 16 << 20
)

// CreateAccount creates an account. Repeated calls with the same non-empty idempotency key create only one.
func (c Client) CreateAccount(ctx context.Context, account NewAccount, idempotencyKey string) (CreatedAccount, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	header := http.Header{}
	if idempotencyKey != "" {
		header.Set("Idempotency-Key", idempotencyKey)
	}
	var created CreatedAccount
	return created, c.call(ctx, http.MethodPost, "/api/admin/accounts", header, account, &created)
}

// Call sends body, unless it is nil, and decodes the response into out. A response other than 2xx is an error with its reason
// and code. Only ctx bounds the call.
func (c Client) Call(ctx context.Context, method, path string, body, out any) error {
	return c.call(ctx, method, path, http.Header{}, body, out)
}

func (c Client) call(ctx context.Context, method, path string, header http.Header, body, out any) error {
	var payload io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		payload = bytes.NewReader(data)
		header.Set("Content-Type", "application/json")
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.Base, "/")+path, payload)
	if err != nil {
		return err
	}
	header.Set("Authorization", "Bearer "+c.Token)
	request.Header = header
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("call quire: %w", err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("call quire: %w", err)
	}
	if response.StatusCode/100 != 2 {
		var failure struct{ Reason, Code string }
		if json.Unmarshal(data, &failure) == nil && failure.Reason != "" {
			return fmt.Errorf("%s (%d %s)", failure.Reason, response.StatusCode, failure.Code)
		}
		return fmt.Errorf("%s answered %s", c.Base, response.Status)
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("unexpected response from %s: %w", c.Base, err)
	}
	return nil
}

// Welcome creates a Pro account and prints the first steps with its key. tokenPlace says where the admin token is kept. Only
// the first call for a Quire creates an account.
func (c Client) Welcome(ctx context.Context, w io.Writer, tokenPlace string) error {
	account, err := c.CreateAccount(ctx, NewAccount{Email: "owner@quire.localhost", Tier: "pro"}, "first-account")
	if err != nil {
		return fmt.Errorf("create the first account: %w", err)
	}
	_, err = fmt.Fprintf(w, `admin token: %s
             (kept in %s)
API key:     %s
             (Pro account %s, shown only this once)

Try it:

curl -sS '%s/api/dev/pastes/create' -H 'x-api-key: %s' -H 'content-type: application/json' -d '{"title":"Hello","content":"Hello, Quire!","visibility":"public"}'

`, c.Token, tokenPlace, account.APIKey, account.Account.Email, cmp.Or(c.Site, c.Base), account.APIKey)
	return err
}
