// Package alert defines the public form of alerts: names of their types, ids of webhooks, and the payload of a delivery.
package alert

import (
	"encoding/json"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// Type is a type of alert.
type Type struct {
	event.AlertType
	Name  string // in the API
	Words string // when it occurs, for people
	Group string // what it is about, for people
}

// Groups of types.
const (
	usage    = "Usage"
	payments = "Payments"
	content  = "Content"
	keys     = "Keys"
)

// Types lists the types that a webhook may subscribe to, grouped.
func Types() []Type {
	return []Type{
		{event.AlertType_ALERT_QUOTA, "quota.threshold", "Requests reach a threshold of their monthly limit", usage},
		{event.AlertType_ALERT_CAP, "cap.threshold", "Spending reaches a threshold of its cap", usage},
		{event.AlertType_ALERT_BALANCE, "balance.low", "The balance drops below an amount", usage},
		{event.AlertType_ALERT_TOP_UP_OFF, "topup.off", "Top-ups are turned off after two failures", payments},
		{event.AlertType_ALERT_PAYMENT, "payment.received", "A payment is received", payments},
		{event.AlertType_ALERT_PASTE_CREATED, "paste.created", "A paste is created", content},
		{event.AlertType_ALERT_PASTE_UPDATED, "paste.updated", "A paste is edited", content},
		{event.AlertType_ALERT_PASTE_DELETED, "paste.deleted", "A paste is deleted", content},
		{event.AlertType_ALERT_PASTE_BURNED, "paste.burned", "A paste is burned by its reader", content},
		{event.AlertType_ALERT_LITE_CREATED, "pasteLite.created", "A quick paste is created", content},
		{event.AlertType_ALERT_LITE_UPDATED, "pasteLite.updated", "A quick paste is edited", content},
		{event.AlertType_ALERT_LITE_DELETED, "pasteLite.deleted", "A quick paste is deleted", content},
		{event.AlertType_ALERT_LITE_BURNED, "pasteLite.burned", "A quick paste is burned by its reader", content},
		{event.AlertType_ALERT_FILE_CREATED, "file.created", "A file is uploaded", content},
		{event.AlertType_ALERT_FILE_DELETED, "file.deleted", "A file is deleted", content},
		{event.AlertType_ALERT_KEY_CREATED, "key.created", "An API key is created", keys},
		{event.AlertType_ALERT_KEY_REVOKED, "key.revoked", "An API key is revoked or replaced", keys},
		{event.AlertType_ALERT_KEY, "key.expiring", "An API key expires in 7 days or in 1 day", keys},
	}
}

// ContentType is the type of a change of content in a domain; ALERT_UNSPECIFIED for a change without one.
func ContentType(domain event.Domain, action event.ContentAction) event.AlertType {
	var of [5]event.AlertType // by action
	switch domain {
	case event.Paste:
		of = [...]event.AlertType{
			0, event.AlertType_ALERT_PASTE_CREATED, event.AlertType_ALERT_PASTE_UPDATED, event.AlertType_ALERT_PASTE_DELETED, event.AlertType_ALERT_PASTE_BURNED,
		}
	case event.Lite:
		of = [...]event.AlertType{
			0, event.AlertType_ALERT_LITE_CREATED, event.AlertType_ALERT_LITE_UPDATED, event.AlertType_ALERT_LITE_DELETED, event.AlertType_ALERT_LITE_BURNED,
		}
	case event.File:
		of = [...]event.AlertType{0, event.AlertType_ALERT_FILE_CREATED, 0, event.AlertType_ALERT_FILE_DELETED, 0}
	}
	if action < 0 || int(action) >= len(of) {
		return event.AlertType_ALERT_UNSPECIFIED
	}
	return of[action]
}

// ContentBits are the bits of all types of content.
func ContentBits() uint32 {
	const texts = 1<<event.AlertType_ALERT_LITE_BURNED - 1<<(event.AlertType_ALERT_PASTE_CREATED-1)
	return texts | Bit(event.AlertType_ALERT_FILE_CREATED) | Bit(event.AlertType_ALERT_FILE_DELETED)
}

// TypeOf describes a type, one that nobody subscribes to included. An unknown one has no name.
func TypeOf(t event.AlertType) Type {
	for _, known := range append(Types(), Type{event.AlertType_ALERT_TEST, "webhook.test", "Test event", ""}) {
		if known.AlertType == t {
			return known
		}
	}
	return Type{AlertType: t, Words: "An event"}
}

// DefaultThresholds are the thresholds of a webhook that names none, in percent.
func DefaultThresholds() []uint32 { return []uint32{50, 80, 100} }

// Bits are the bits of all types that a webhook may subscribe to.
func Bits() (all uint32) {
	for _, t := range Types() {
		all |= Bit(t.AlertType)
	}
	return all
}

// Bit is the bit of a type in event.SetWebhook.
func Bit(t event.AlertType) uint32 { return 1 << (t - 1) }

const (
	webhookPrefix = "wh_"
	webhookDigits = 11 // in base62
)

// WebhookName is the id of a webhook in the API.
func WebhookName(id uint64) string {
	return string(event.AppendBase62([]byte(webhookPrefix), id, webhookDigits))
}

// ParseWebhookName is the inverse of WebhookName, for ids other than zero.
func ParseWebhookName(name string) (id uint64, ok bool) {
	if len(name) <= len(webhookPrefix) || name[:len(webhookPrefix)] != webhookPrefix {
		return 0, false
	}
	id, ok = event.ParseBase62(name[len(webhookPrefix):], webhookDigits)
	return id, ok && id != 0
}

// Payload is the body of a delivery.
type Payload struct {
	Type      string `json:"type"`
	Timestamp string `json:"timestamp"` // of the decision, RFC 3339 in UTC
	Data      Data   `json:"data"`
}

// Data is what happened. Which fields are set depends on the type.
type Data struct {
	AccountID    string  `json:"accountId"`
	WebhookID    string  `json:"webhookId,omitempty"`
	QuotaKey     string  `json:"quotaKey,omitempty"`
	Key          string  `json:"key,omitempty"`
	KeyName      string  `json:"keyName,omitempty"`
	Threshold    uint32  `json:"threshold,omitempty"` // percent
	Used         uint64  `json:"used,omitempty"`      // requests
	Limit        uint64  `json:"limit,omitempty"`     // requests
	Spent        string  `json:"spent,omitempty"`     // credits, out of Amount
	Amount       string  `json:"amount,omitempty"`
	Period       *Period `json:"period,omitempty"`
	Balance      string  `json:"balance,omitempty"`
	BalanceBelow string  `json:"balanceBelow,omitempty"`
	ExpiresAt    string  `json:"expiresAt,omitempty"`
	DaysBefore   uint32  `json:"daysBefore,omitempty"` // days until a key expires
	ID           string  `json:"id,omitempty"`         // of content
	Version      uint64  `json:"version,omitempty"`
	Visibility   string  `json:"visibility,omitempty"`
	Size         *uint64 `json:"size,omitempty"` // bytes
	Reason       string  `json:"reason,omitempty"`
	Payment      uint64  `json:"payment,omitempty"` // number of the account's payment
	Credits      string  `json:"credits,omitempty"` // bought
	Plan         string  `json:"plan,omitempty"`    // whose fee is paid
	AmountUSD    string  `json:"amountUsd,omitempty"`
	TaxUSD       string  `json:"taxUsd,omitempty"` // out of AmountUSD
}

// Period is the period of a limit. A total limit has none.
type Period struct {
	Start string `json:"start"`
	End   string `json:"end"`
}

// Of returns the payload of an alert.
func Of(a *event.Alert) Payload {
	d := Data{AccountID: event.AccountID(a.Account).String()}
	if a.UntilMs != 0 {
		d.Period = &Period{Start: event.FormatTime(a.FromMs), End: event.FormatTime(a.UntilMs)}
	}
	if c := a.Content; c != nil {
		d.ID, d.Version, d.Visibility, d.Size = c.Item, c.Version, event.Visibility(c.Visibility).String(), &c.SizeBytes
		if c.ExpiresMs != 0 {
			d.ExpiresAt = event.FormatTime(c.ExpiresMs)
		}
	}
	switch a.Type {
	case event.AlertType_ALERT_QUOTA:
		d.QuotaKey, d.Threshold, d.Used, d.Limit = plan.QuotaKey(a.QuotaKey).String(), a.Threshold, a.Used, a.Limit
	case event.AlertType_ALERT_CAP:
		d.Threshold, d.Spent, d.Amount = a.Threshold, plan.Credits(a.Used), plan.Credits(a.Limit)
		if a.KeyCap {
			d.Key = apikey.ID(a.Key)
		}
	case event.AlertType_ALERT_BALANCE:
		d.Balance, d.BalanceBelow = plan.Credits(a.BalanceMicros), plan.Credits(a.BelowMicros)
	case event.AlertType_ALERT_KEY:
		d.Key, d.ExpiresAt, d.DaysBefore = apikey.ID(a.Key), event.FormatTime(a.ExpiresMs), a.DaysBefore
	case event.AlertType_ALERT_KEY_CREATED, event.AlertType_ALERT_KEY_REVOKED:
		d.Key, d.KeyName = apikey.ID(a.Key), a.KeyName
		if a.ExpiresMs != 0 {
			d.ExpiresAt = event.FormatTime(a.ExpiresMs)
		}
	case event.AlertType_ALERT_TOP_UP_OFF:
		d.Reason = a.Reason
	case event.AlertType_ALERT_PAYMENT:
		p := a.Payment
		d.Payment, d.Plan = p.GetNumber(), p.GetPlan()
		if p.GetAmountCents() > 0 {
			d.AmountUSD, d.TaxUSD = plan.Dollars(p.AmountCents), plan.Dollars(p.GetTaxCents())
		}
		if p.GetCreditsMicros() > 0 {
			d.Credits = plan.Credits(p.GetCreditsMicros())
		}
	case event.AlertType_ALERT_TEST:
		if len(a.Webhooks) == 1 {
			d.WebhookID = WebhookName(a.Webhooks[0])
		}
	}
	return Payload{Type: TypeOf(a.Type).Name, Timestamp: event.FormatTime(a.TimeMs), Data: d}
}

// Encode returns the payload as JSON, always the same bytes for the same alert, because deliveries are signed.
func Encode(a *event.Alert) ([]byte, error) { return json.Marshal(Of(a)) }
