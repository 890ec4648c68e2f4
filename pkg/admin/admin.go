// Package admin calls Quire's admin API, and prints the first steps for the owner of a new Quire.
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

// Client calls the admin API at Base with Token. It may be used by several goroutines.
type Client struct {
	Base, Token string
	Site        string // where the rest of the API is; empty: Base
}

// NewAccount is an account to make. The tier is "free", "pro", "max" or "admin".
type NewAccount struct {
	Email string `json:"email"`
	Tier  string `json:"tier"`
}

// CreatedAccount is an account that was made, with its key, which is shown only this once.
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

// CreateAccount makes an account. A repeated call with the same idempotency key makes no second one, unless the key is
// empty.
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

// Call sends body, unless it is nil, and decodes the answer into out. An answer other than 2xx is an error with its
// reason and code. Only ctx bounds the call.
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
		return fmt.Errorf("the answer of %s is not one of quire: %w", c.Base, err)
	}
	return nil
}

// Welcome makes a Pro account and prints the first steps with its key. tokenPlace says where the admin token is kept.
// It is called once for a Quire. A second call makes no other account.
func (c Client) Welcome(ctx context.Context, w io.Writer, tokenPlace string) error {
	account, err := c.CreateAccount(ctx, NewAccount{Email: "owner@quire.localhost", Tier: "pro"}, "first-account")
	if err != nil {
		return fmt.Errorf("make the first account: %w", err)
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
