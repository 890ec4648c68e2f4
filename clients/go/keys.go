package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Keys are the operations of the account's API keys. They want a session: see LogIn.
type Keys struct{ c *Client }

// Key is an API key as its owner sees it. The key itself is shown only when it is created.
type Key struct {
	ID          string                `json:"id"` // "default", or one such as "k1"
	Name        string                `json:"name"`
	Prefix      string                `json:"prefix"` // its first characters
	Scopes      []string              `json:"scopes"` // quota keys that it may use; nil: all
	CreatedAt   time.Time             `json:"createdAt"`
	LastUsedAt  time.Time             `json:"lastUsedAt"` // zero if never
	ExpiresAt   time.Time             `json:"expiresAt"`  // zero if never
	RevokedAt   time.Time             `json:"revokedAt"`  // zero: it was not
	ReplacedBy  string                `json:"replacedBy"` // id of the key in its place
	Quotas      map[string]int64      `json:"quotas"`     // calls a month by quota key
	SpendingCap *SpendingCap          `json:"spendingCap"`
	Usage       map[string]UsageOfKey `json:"usage"` // this month's, by quota key, of those that have any
}

// UsageOfKey is what an API key has used under one quota key this month.
type UsageOfKey struct {
	Used         int64   `json:"used"`
	Overage      int64   `json:"overage"` // calls paid with credits
	CreditsSpent Credits `json:"creditsSpent"`
}

// KeyList are the account's API keys.
type KeyList struct {
	Meta
	Keys        []*Key       `json:"keys"`        // the default key first; the last 20 that have ended are among them
	SpendingCap *SpendingCap `json:"spendingCap"` // of the account; nil: none
}

// List lists the account's API keys.
func (k *Keys) List(ctx context.Context, options ...CallOption) (*KeyList, error) {
	return fetch[KeyList](ctx, k.c, newRequest(http.MethodGet, "/api/users/user/keys", options))
}

// NewKey is an API key to make. Only Name is needed.
type NewKey struct {
	Name        string           `json:"name"`             // 1 to 100 characters. Stored permanently: avoid personal data
	Scopes      []string         `json:"scopes,omitempty"` // quota keys that it may use; none: all
	ExpiresIn   Lifetime         `json:"expiresIn,omitempty"`
	ExpiresAt   time.Time        `json:"expiresAt,omitzero"` // instead of ExpiresIn
	Quotas      map[string]int64 `json:"quotas,omitempty"`   // calls a month by quota key
	SpendingCap *CapChange       `json:"spendingCap,omitempty"`
}

// KeyChange is a change of an API key. The zero value of a field leaves it as it is: use Set and Reset.
type KeyChange struct {
	Name        Change[string]           `json:"name,omitzero"`
	Scopes      Change[[]string]         `json:"scopes,omitzero"`
	ExpiresIn   Change[Lifetime]         `json:"expiresIn,omitzero"`
	ExpiresAt   Change[time.Time]        `json:"expiresAt,omitzero"`
	Quotas      Change[map[string]int64] `json:"quotas,omitzero"`
	SpendingCap Change[CapChange]        `json:"spendingCap,omitzero"`
}

// MadeKey is an API key that was made.
type MadeKey struct {
	Meta
	APIKey string `json:"apiKey"` // shown only here
	Key    Key    `json:"key"`
}

// ChangedKey is an API key as it is now.
type ChangedKey struct {
	Meta
	Key Key `json:"key"`
}

// RotatedKey is an API key in place of another one.
type RotatedKey struct {
	Meta
	APIKey          string    `json:"apiKey"` // shown only here
	Key             Key       `json:"key"`
	OldKeyExpiresAt time.Time `json:"oldKeyExpiresAt"`
}

// RegeneratedKey is a new default key.
type RegeneratedKey struct {
	Meta
	APIKey string  `json:"apiKey"` // shown only here
	Key    KeyInfo `json:"key"`
}

func keyPath(id string) string { return "/api/users/user/keys/" + url.PathEscape(id) }

// Create makes an API key beside the default one. An account has 20 live ones at most.
func (k *Keys) Create(ctx context.Context, key NewKey, options ...CallOption) (*MadeKey, error) {
	r := once(http.MethodPost, "/api/users/user/keys", options)
	if err := r.json(key); err != nil {
		return nil, err
	}
	return fetch[MadeKey](ctx, k.c, r)
}

// Update changes the rules of an API key. At least one field of the change is set or reset.
func (k *Keys) Update(ctx context.Context, id string, change KeyChange, options ...CallOption) (*ChangedKey, error) {
	r := once(http.MethodPut, keyPath(id), options)
	if err := r.json(change); err != nil {
		return nil, err
	}
	return fetch[ChangedKey](ctx, k.c, r)
}

// Revoke ends an API key: once it has answered, the key is admitted nowhere.
func (k *Keys) Revoke(ctx context.Context, id string, options ...CallOption) (*ChangedKey, error) {
	return fetch[ChangedKey](ctx, k.c, once(http.MethodDelete, keyPath(id), options))
}

// Rotate makes an API key in place of another one. Both are admitted for the time of overlap, 0 to 7 days, in whole seconds.
func (k *Keys) Rotate(ctx context.Context, id string, overlap time.Duration, options ...CallOption) (*RotatedKey, error) {
	r := once(http.MethodPost, keyPath(id)+"/rotate", options)
	if err := r.json(map[string]string{"overlap": strconv.FormatInt(int64(overlap/time.Second), 10) + "s"}); err != nil {
		return nil, err
	}
	return fetch[RotatedKey](ctx, k.c, r)
}

// RegenerateDefault replaces the default key: once it has answered, the old one is admitted nowhere.
func (k *Keys) RegenerateDefault(ctx context.Context, options ...CallOption) (*RegeneratedKey, error) {
	return fetch[RegeneratedKey](ctx, k.c, once(http.MethodPost, "/api/users/user/dev-key/regenerate", options))
}
