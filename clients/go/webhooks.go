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

// Webhooks are the operations of the account's webhooks. They want a session: see LogIn. VerifyWebhook is for the receiver.
type Webhooks struct{ c *Client }

// Events that a webhook is told of. More may come.
const (
	EventQuotaThreshold = "quota.threshold" // a percentage of a month's quota is used
	EventBalanceLow     = "balance.low"     // the credits went below BalanceBelow
)

// Webhook is an address that events of the account are posted to.
type Webhook struct {
	ID           string    `json:"id"`
	URL          string    `json:"url"`
	Events       []string  `json:"events"`
	Thresholds   []int     `json:"thresholds"`   // percents of a quota
	BalanceBelow *Credits  `json:"balanceBelow"` // nil: none
	CreatedAt    time.Time `json:"createdAt"`
}

// NewWebhook is a webhook to make.
type NewWebhook struct {
	URL          string   `json:"url"` // https, and an address of the public internet
	Events       []string `json:"events"`
	Thresholds   []int    `json:"thresholds,omitempty"`   // 1 to 10 percents of a quota; none: 50, 80 and 100
	BalanceBelow *Credits `json:"balanceBelow,omitempty"` // EventBalanceLow needs it
}

// WebhookChange is a change of a webhook. The zero value of a field leaves it as it is: use Set and Reset.
type WebhookChange struct {
	URL          Change[string]   `json:"url,omitzero"`
	Events       Change[[]string] `json:"events,omitzero"`
	Thresholds   Change[[]int]    `json:"thresholds,omitzero"`
	BalanceBelow Change[Credits]  `json:"balanceBelow,omitzero"`
}

// WebhookList are the account's webhooks.
type WebhookList struct {
	Meta
	Webhooks []*Webhook `json:"webhooks"` // in the order in which they were made
}

// MadeWebhook is a webhook that was made.
type MadeWebhook struct {
	Meta
	Webhook Webhook `json:"webhook"`
	Secret  string  `json:"secret"` // for VerifyWebhook; shown only here
}

// WebhookAnswer is a webhook as it is now.
type WebhookAnswer struct {
	Meta
	Webhook Webhook `json:"webhook"`
}

// NewSecret is a new secret of a webhook.
type NewSecret struct {
	Meta
	Secret                  string    `json:"secret"`                  // shown only here
	PreviousSecretExpiresAt time.Time `json:"previousSecretExpiresAt"` // until when the one before signs too
}

// WebhookTest is a test event that is on its way.
type WebhookTest struct {
	Meta
	Delivery string `json:"delivery"` // its id
}

// Delivery is an event on its way to a webhook.
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
	Status     int       `json:"status"` // of the answer; 0: there was none
	DurationMS int64     `json:"durationMs"`
	Error      string    `json:"error"`  // empty: it succeeded
	Answer     string    `json:"answer"` // its beginning
}

// ReplayedDelivery is a delivery that is sent again.
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

// Create makes a webhook.
func (w *Webhooks) Create(ctx context.Context, webhook NewWebhook, options ...CallOption) (*MadeWebhook, error) {
	r := once(http.MethodPost, webhooksPath, options)
	if err := r.json(webhook); err != nil {
		return nil, err
	}
	return fetch[MadeWebhook](ctx, w.c, r)
}

// Get reads a webhook.
func (w *Webhooks) Get(ctx context.Context, id string, options ...CallOption) (*WebhookAnswer, error) {
	return fetch[WebhookAnswer](ctx, w.c, newRequest(http.MethodGet, webhookPath(id), options))
}

// Update changes a webhook. At least one field of the change is set or reset.
func (w *Webhooks) Update(ctx context.Context, id string, change WebhookChange, options ...CallOption) (*WebhookAnswer, error) {
	r := once(http.MethodPut, webhookPath(id), options)
	if err := r.json(change); err != nil {
		return nil, err
	}
	return fetch[WebhookAnswer](ctx, w.c, r)
}

// Delete deletes a webhook.
func (w *Webhooks) Delete(ctx context.Context, id string, options ...CallOption) (*Deleted, error) {
	return fetch[Deleted](ctx, w.c, once(http.MethodDelete, webhookPath(id), options))
}

// RotateSecret gives a webhook a new secret. The one before signs too for a while.
func (w *Webhooks) RotateSecret(ctx context.Context, id string, options ...CallOption) (*NewSecret, error) {
	return fetch[NewSecret](ctx, w.c, once(http.MethodPost, webhookPath(id)+"/rotate-secret", options))
}

// Test sends a webhook a test event.
func (w *Webhooks) Test(ctx context.Context, id string, options ...CallOption) (*WebhookTest, error) {
	return fetch[WebhookTest](ctx, w.c, once(http.MethodPost, webhookPath(id)+"/test", options))
}

type deliveryPage struct {
	page
	Deliveries []*Delivery `json:"deliveries"`
}

// Deliveries goes through the events that were sent to a webhook, the newest first.
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

// EventsQuery says which events are asked for.
type EventsQuery struct {
	After string        // Last of an earlier call; empty: from the oldest that is kept
	Wait  time.Duration // for how long the call may wait for an event, in whole seconds up to 30; 0: not at all
	Limit int           // 1 to 100 events; 0: 100
}

// Event is something that happened to the account. Ignore types that you do not know.
type Event struct {
	ID        string          `json:"id"` // the webhook-id under which it is posted
	Type      string          `json:"type"`
	Timestamp time.Time       `json:"timestamp"`
	Data      json.RawMessage `json:"data"` // its members depend on the type
}

// Events are events of the account.
type Events struct {
	Meta
	Events []*Event `json:"events"` // the oldest first
	Last   string   `json:"last"`   // After of the next call
}

// Events reads what the account's webhooks are told of, without a webhook.
func (a *Account) Events(ctx context.Context, q EventsQuery, options ...CallOption) (*Events, error) {
	r := newRequest(http.MethodGet, "/api/users/user/events", options)
	setText(r.query, "after", q.After)
	if q.Wait >= time.Second {
		r.query.Set("wait", strconv.FormatInt(int64(q.Wait/time.Second), 10))
	}
	setPage(r.query, q.Limit, "", "")
	return fetch[Events](ctx, a.c, r)
}
