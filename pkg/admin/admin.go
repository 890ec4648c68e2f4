// Package admin is a client of Quire's admin API. It also prints the first steps for the owner of a new Quire.
package admin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"quire.dev/pkg/wait"
)

// Client calls the admin API at Base with Token. Safe for concurrent use.
type Client struct {
	Base, Token string
	Site        string            // base URL of the rest of the API; empty: Base
	Transport   http.RoundTripper // nil: http.DefaultTransport
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
	err := c.call(ctx, http.MethodPost, "/api/admin/accounts", header, account, &created)
	return created, err
}

// Failure is a response other than 2xx. Reason and Code are empty if it is not from Quire's API.
type Failure struct {
	Base         string `json:"-"`
	Status       int    `json:"-"`
	Reason, Code string
}

func (f *Failure) Error() string {
	if f.Reason == "" {
		return fmt.Sprintf("%s answered %d %s", f.Base, f.Status, http.StatusText(f.Status))
	}
	return fmt.Sprintf("%s (%d %s)", f.Reason, f.Status, f.Code)
}

const changeAttempts = 3

// Change is Call for a request that changes something. It has an Idempotency-Key, and is sent again, three times in all, while
// its outcome is unknown: without an answer, or with a status of 500 or above.
func (c Client) Change(ctx context.Context, method, path string, body, out any) error {
	key := rand.Text()
	for attempt := 1; ; attempt++ {
		err := c.call(ctx, method, path, http.Header{"Idempotency-Key": {key}}, body, out)
		if attempt == changeAttempts || !isUnknown(err) || !wait.For(ctx, time.Second) {
			return err
		}
	}
}

// isUnknown reports whether a request may have been carried out although it failed.
func isUnknown(err error) bool {
	var f *Failure
	if errors.As(err, &f) {
		return f.Status >= http.StatusInternalServerError
	}
	var dial *net.OpError
	return err != nil && (!errors.As(err, &dial) || dial.Op != "dial")
}

// Call sends body, unless it is nil, and decodes the response into out. A response other than 2xx is a *Failure. Only ctx bounds the call.
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
	response, err := (&http.Client{Transport: c.Transport}).Do(request)
	if err != nil {
		return fmt.Errorf("call quire: %w", err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("call quire: %w", err)
	}
	if response.StatusCode/100 != 2 {
		failure := &Failure{Base: c.Base, Status: response.StatusCode}
		_ = json.Unmarshal(data, failure) // of another server it may be anything
		return failure
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
