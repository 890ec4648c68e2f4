package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Webhooks has the operations of the account's webhooks. They require a session: see LogIn. Receivers use VerifyWebhook.
type Webhooks struct{ c *Client }

// Events of webhooks. More may be added.
const (
	EventQuotaThreshold = "quota.threshold"  // a threshold of a monthly quota is reached
	EventCapThreshold   = "cap.threshold"    // a threshold of a spending cap is reached
	EventBalanceLow     = "balance.low"      // the balance dropped below BalanceBelow
	EventTopUpOff       = "topup.off"        // top-ups are turned off after two failures
	EventPayment        = "payment.received" // credits or a plan's fee are paid
	EventPasteCreated   = "paste.created"
	EventPasteUpdated   = "paste.updated"
	EventPasteDeleted   = "paste.deleted"
	EventPasteBurned    = "paste.burned"      // by its reader
	EventQuickCreated   = "pasteLite.created" // a quick paste is created
	EventQuickUpdated   = "pasteLite.updated"
	EventQuickDeleted   = "pasteLite.deleted"
	EventQuickBurned    = "pasteLite.burned"
	EventFileCreated    = "file.created"
	EventFileDeleted    = "file.deleted"
	EventKeyCreated     = "key.created"  // an API key is created
	EventKeyRevoked     = "key.revoked"  // an API key is revoked or replaced
	EventKeyExpiring    = "key.expiring" // an API key expires in 7 days, or in 1 day
)

// Webhook is a URL that is notified about events of the account.
type Webhook struct {
	ID           string    `json:"id"`
	URL          string    `json:"url"`
	Events       []string  `json:"events"`
	Thresholds   []int     `json:"thresholds"`   // percentages of a quota
	BalanceBelow *Credits  `json:"balanceBelow"` // nil for none
	CreatedAt    time.Time `json:"createdAt"`
}

// NewWebhook is a webhook to create.
type NewWebhook struct {
	URL          string   `json:"url"` // https, on the public internet
	Events       []string `json:"events"`
	Thresholds   []int    `json:"thresholds,omitempty"`   // 1 to 10 percentages of a quota; empty is 50, 80 and 100
	BalanceBelow *Credits `json:"balanceBelow,omitempty"` // required for EventBalanceLow
}

// WebhookChange is an edit of a webhook. A zero field stays unchanged: use Set and Reset.
type WebhookChange struct {
	URL          Change[string]   `json:"url,omitzero"`
	Events       Change[[]string] `json:"events,omitzero"`
	Thresholds   Change[[]int]    `json:"thresholds,omitzero"`
	BalanceBelow Change[Credits]  `json:"balanceBelow,omitzero"`
}

// WebhookList is the list of the account's webhooks.
type WebhookList struct {
	Meta
	Webhooks []*Webhook `json:"webhooks"` // in order of creation
}

// CreatedWebhook is a newly created webhook.
type CreatedWebhook struct {
	Meta
	Webhook Webhook `json:"webhook"`
	Secret  string  `json:"secret"` // for VerifyWebhook; shown only here
}

// WebhookResult is the current webhook.
type WebhookResult struct {
	Meta
	Webhook Webhook `json:"webhook"`
}

// RotatedSecret is a new secret of a webhook.
type RotatedSecret struct {
	Meta
	Secret                  string    `json:"secret"`                  // shown only here
	PreviousSecretExpiresAt time.Time `json:"previousSecretExpiresAt"` // until when the previous secret stays valid
}

// WebhookTest is a pending test event.
type WebhookTest struct {
	Meta
	Delivery string `json:"delivery"` // its id
}

// Delivery is the delivery of an event to a webhook.
type Delivery struct {
	ID            string            `json:"id"`     // of the event; it is sent as webhook-id
	Status        string            `json:"status"` // pending, delivered or failed
	Event         json.RawMessage   `json:"event"`  // as it is posted
	Attempts      []DeliveryAttempt `json:"attempts"`
	NextAttemptAt time.Time         `json:"nextAttemptAt"` // of a pending one
}

// DeliveryAttempt is one attempt to deliver an event.
type DeliveryAttempt struct {
	Time       time.Time `json:"time"`
	Status     int       `json:"status"` // of the response; 0 if there was none
	DurationMS int64     `json:"durationMs"`
	Error      string    `json:"error"`  // empty on success
	Answer     string    `json:"answer"` // beginning of the response
}

// ReplayedDelivery is a repeated delivery.
type ReplayedDelivery struct {
	Meta
	Delivery Delivery `json:"delivery"`
}

const webhooksPath = "/api/users/user/webhooks"

func webhookPath(id string) string { return webhooksPath + "/" + url.PathEscape(id) }

// List lists the account's webhooks.
func (w *Webhooks) List(ctx context.Context, options ...CallOption) (*WebhookList, error) {
	return fetch[WebhookList](ctx, w.c, newRequest(http.MethodGet, webhooksPath, options))
}

// Create creates a webhook.
func (w *Webhooks) Create(ctx context.Context, webhook NewWebhook, options ...CallOption) (*CreatedWebhook, error) {
	r := once(http.MethodPost, webhooksPath, options)
	if err := r.json(webhook); err != nil {
		return nil, err
	}
	return fetch[CreatedWebhook](ctx, w.c, r)
}

// Get reads a webhook.
func (w *Webhooks) Get(ctx context.Context, id string, options ...CallOption) (*WebhookResult, error) {
	return fetch[WebhookResult](ctx, w.c, newRequest(http.MethodGet, webhookPath(id), options))
}

// Update edits a webhook. The change has to set or reset at least one field.
func (w *Webhooks) Update(ctx context.Context, id string, change WebhookChange, options ...CallOption) (*WebhookResult, error) {
	r := once(http.MethodPut, webhookPath(id), options)
	if err := r.json(change); err != nil {
		return nil, err
	}
	return fetch[WebhookResult](ctx, w.c, r)
}

// Delete deletes a webhook.
func (w *Webhooks) Delete(ctx context.Context, id string, options ...CallOption) (*Deleted, error) {
	return fetch[Deleted](ctx, w.c, once(http.MethodDelete, webhookPath(id), options))
}

// RotateSecret replaces a webhook's secret. The old secret stays valid for a while.
func (w *Webhooks) RotateSecret(ctx context.Context, id string, options ...CallOption) (*RotatedSecret, error) {
	return fetch[RotatedSecret](ctx, w.c, once(http.MethodPost, webhookPath(id)+"/rotate-secret", options))
}

// Test sends a webhook a test event.
func (w *Webhooks) Test(ctx context.Context, id string, options ...CallOption) (*WebhookTest, error) {
	return fetch[WebhookTest](ctx, w.c, once(http.MethodPost, webhookPath(id)+"/test", options))
}

type deliveryPage struct {
	page
	Deliveries []*Delivery `json:"deliveries"`
}

// Deliveries iterates over the events of a webhook, newest first.
func (w *Webhooks) Deliveries(ctx context.Context, id string, options ...CallOption) iter.Seq2[*Delivery, error] {
	return pages(ctx, w.c, func(cursor string) *request {
		r := newRequest(http.MethodGet, webhookPath(id)+"/deliveries", options)
		setPage(r.query, 0, cursor, "")
		return r
	}, func(p deliveryPage) []*Delivery { return p.Deliveries })
}

// ReplayDelivery sends an event once more.
func (w *Webhooks) ReplayDelivery(ctx context.Context, id, delivery string, options ...CallOption) (*ReplayedDelivery, error) {
	path := webhookPath(id) + "/deliveries/" + url.PathEscape(delivery) + "/replay"
	return fetch[ReplayedDelivery](ctx, w.c, once(http.MethodPost, path, options))
}

// EventsQuery selects events.
type EventsQuery struct {
	After string        // Last of an earlier call; empty starts at the oldest event
	Wait  time.Duration // long-poll time in whole seconds, up to 30; 0 returns at once
	Limit int           // 1 to 100 events; 0 is 100
}

// Event is an event of the account. Ignore unknown types.
type Event struct {
	ID        string          `json:"id"` // sent as webhook-id
	Type      string          `json:"type"`
	Timestamp time.Time       `json:"timestamp"`
	Data      json.RawMessage `json:"data"` // its members depend on the type
}

// Events are events of the account.
type Events struct {
	Meta
	Events []*Event `json:"events"` // oldest first
	Last   string   `json:"last"`   // After of the next call
}

// Events polls the account's events without a webhook.
func (a *Account) Events(ctx context.Context, q EventsQuery, options ...CallOption) (*Events, error) {
	r := newRequest(http.MethodGet, "/api/users/user/events", options)
	setText(r.query, "after", q.After)
	if q.Wait >= time.Second {
		r.query.Set("wait", strconv.FormatInt(int64(q.Wait/time.Second), 10))
	}
	setPage(r.query, q.Limit, "", "")
	return fetch[Events](ctx, a.c, r)
}
