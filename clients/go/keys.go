package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Keys has the operations of the account's API keys. They require a session: see LogIn.
type Keys struct{ c *Client }

// Key is an API key as its owner sees it. The key itself is shown only when it is created.
type Key struct {
	ID         string    `json:"id"` // "default", or such as "k1"
	Name       string    `json:"name"`
	Prefix     string    `json:"prefix"` // its first characters
	Status     string    `json:"status"` // active, capped, expired or revoked; more may be added
	Scopes     []string  `json:"scopes"` // quota keys it may use, and payments.checkout; nil for all
	CreatedAt  time.Time `json:"createdAt"`
	LastUsedAt time.Time `json:"lastUsedAt"` // zero if never
	// LastUsedAddress is the source of the last use, in lists; empty if unknown.
	LastUsedAddress string                `json:"lastUsedAddress"`
	ExpiresAt       time.Time             `json:"expiresAt"`  // zero if never
	RevokedAt       time.Time             `json:"revokedAt"`  // zero if it was not
	ReplacedBy      string                `json:"replacedBy"` // id of the key that replaced it
	Quotas          map[string]int64      `json:"quotas"`     // calls per month by quota key
	SpendingCap     *SpendingCap          `json:"spendingCap"`
	Usage           map[string]UsageOfKey `json:"usage"` // this month's, by quota key, omitting unused ones
}

// UsageOfKey is an API key's usage under a quota key this month.
type UsageOfKey struct {
	Used         int64   `json:"used"`
	Overage      int64   `json:"overage"` // calls paid with credits
	CreditsSpent Credits `json:"creditsSpent"`
}

// KeyList is the list of the account's API keys.
type KeyList struct {
	Meta
	Keys        []*Key       `json:"keys"`        // the default key first; includes the last 20 inactive ones
	SpendingCap *SpendingCap `json:"spendingCap"` // of the account; nil if not set
}

// List lists the account's API keys.
func (k *Keys) List(ctx context.Context, options ...CallOption) (*KeyList, error) {
	return fetch[KeyList](ctx, k.c, newRequest(http.MethodGet, "/api/users/user/keys", options))
}

// NewKey is an API key to create. Without a Name it becomes "default 2", or the next such name that is free.
type NewKey struct {
	Name        string           `json:"name,omitempty"`   // 1 to 100 characters, unique among the active keys. Stored permanently: avoid personal data
	Scopes      []string         `json:"scopes,omitempty"` // quota keys it may use, and payments.checkout; empty for all
	ExpiresIn   Lifetime         `json:"expiresIn,omitempty"`
	ExpiresAt   time.Time        `json:"expiresAt,omitzero"` // instead of ExpiresIn
	Quotas      map[string]int64 `json:"quotas,omitempty"`   // calls per month by quota key
	SpendingCap *CapChange       `json:"spendingCap,omitempty"`
}

// KeyChange is an edit of an API key. A zero field stays unchanged: use Set and Reset.
type KeyChange struct {
	Name        Change[string]           `json:"name,omitzero"`
	Scopes      Change[[]string]         `json:"scopes,omitzero"`
	ExpiresIn   Change[Lifetime]         `json:"expiresIn,omitzero"`
	ExpiresAt   Change[time.Time]        `json:"expiresAt,omitzero"`
	Quotas      Change[map[string]int64] `json:"quotas,omitzero"`
	SpendingCap Change[CapChange]        `json:"spendingCap,omitzero"`
}

// CreatedKey is a newly created API key.
type CreatedKey struct {
	Meta
	APIKey string `json:"apiKey"` // shown only here
	Key    Key    `json:"key"`
}

// UpdatedKey is the current API key.
type UpdatedKey struct {
	Meta
	Key        Key  `json:"key"`
	CapCleared bool `json:"capCleared"` // the update removed the key's spending cap
}

// RotatedKey is the API key created by a rotation.
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

// Create creates an API key in addition to the default one. An account has at most 20 active ones.
func (k *Keys) Create(ctx context.Context, key NewKey, options ...CallOption) (*CreatedKey, error) {
	r := once(http.MethodPost, "/api/users/user/keys", options)
	if err := r.json(key); err != nil {
		return nil, err
	}
	return fetch[CreatedKey](ctx, k.c, r)
}

// Update edits an API key. The change has to set or reset at least one field.
func (k *Keys) Update(ctx context.Context, id string, change KeyChange, options ...CallOption) (*UpdatedKey, error) {
	r := once(http.MethodPut, keyPath(id), options)
	if err := r.json(change); err != nil {
		return nil, err
	}
	return fetch[UpdatedKey](ctx, k.c, r)
}

// Revoke revokes an API key. Once it has returned, calls with the key are refused.
func (k *Keys) Revoke(ctx context.Context, id string, options ...CallOption) (*UpdatedKey, error) {
	return fetch[UpdatedKey](ctx, k.c, once(http.MethodDelete, keyPath(id), options))
}

// Rotate replaces an API key with a new one. Both are valid during overlap, 0 to 7 days, in whole seconds.
func (k *Keys) Rotate(ctx context.Context, id string, overlap time.Duration, options ...CallOption) (*RotatedKey, error) {
	r := once(http.MethodPost, keyPath(id)+"/rotate", options)
	if err := r.json(map[string]string{"overlap": strconv.FormatInt(int64(overlap/time.Second), 10) + "s"}); err != nil {
		return nil, err
	}
	return fetch[RotatedKey](ctx, k.c, r)
}

// RegenerateDefault replaces the default key. Once it has returned, calls with the old one are refused.
func (k *Keys) RegenerateDefault(ctx context.Context, options ...CallOption) (*RegeneratedKey, error) {
	return fetch[RegeneratedKey](ctx, k.c, once(http.MethodPost, "/api/users/user/dev-key/regenerate", options))
}
