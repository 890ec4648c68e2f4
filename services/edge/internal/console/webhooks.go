package console

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/alert"
	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/pages"
)

const (
	// ShownDeliveries is the number of deliveries on a page.
	ShownDeliveries = 10

	shownAnswer = 300 // characters of a receiver's response
)

// Webhooks are the webhooks of an account.
type Webhooks struct {
	Holder Holder
	List   []Webhook
	Most   int // webhooks per account
	Create *Form
	Done   string
}

// Full reports whether the account has the maximum number of webhooks.
func (w *Webhooks) Full() bool { return len(w.List) >= w.Most }

// Webhook is a URL that is notified about an account's alerts.
type Webhook struct {
	*event.WebhookRules
	URL string
}

// ID is its id in the API.
func (w Webhook) ID() string { return alert.WebhookName(w.Webhook) }

// Path is the path of its page.
func (w Webhook) Path() string { return WebhooksPath + "/" + w.ID() }

// Told describes the events it receives.
func (w Webhook) Told() (out []string) {
	for _, t := range alert.Types() {
		if !w.wants(t.AlertType) {
			continue
		}
		text := t.Words
		switch t.AlertType {
		case event.AlertType_ALERT_QUOTA, event.AlertType_ALERT_CAP:
			text += " (" + percents(w.thresholds(), " %") + ")"
		case event.AlertType_ALERT_BALANCE:
			text += " (" + credits(w.BalanceBelowMicros) + ")"
		}
		out = append(out, text)
	}
	return out
}

func (w Webhook) wants(t event.AlertType) bool { return w.Events&alert.Bit(t) != 0 }

func (w Webhook) thresholds() []uint32 {
	if len(w.Thresholds) == 0 {
		return alert.DefaultThresholds()
	}
	return w.Thresholds
}

func percents(list []uint32, unit string) string {
	out := make([]string, 0, len(list))
	for _, p := range list {
		out = append(out, strconv.FormatUint(uint64(p), 10)+unit)
	}
	return strings.Join(out, ", ")
}

// webhookFields are the fields of a webhook: its URL, events and thresholds.
func webhookFields() []Field {
	out := []Field{
		{Name: "url", Label: "URL", Type: "url", Most: 2048, Required: true, Hint: "For example https://example.com/webhooks. Each event is sent as a signed POST request.", Subject: "The URL"},
		{Name: "events", Label: "Events", Subject: "The events"},
		{Name: "thresholds", Label: "Thresholds of limits and caps, in percent", Type: "text", Most: 60, Hint: "Up to 10. Leave empty for 50, 80 and 100.", Subject: "The thresholds"},
		{Name: "balanceBelow", Label: "Balance below, in credits", Type: "text", Most: 24, Hint: "For example 5 or 0.25. Used by the balance event.", Subject: "The amount"},
	}
	for _, t := range alert.Types() {
		out = append(out, Field{Name: "events." + t.Name, Label: t.Words, Type: "checkbox"})
	}
	return out
}

// MarkGroup is a group of checkboxes.
type MarkGroup struct {
	Name  string
	Marks []Mark
}

// EventGroups are the checkboxes of a webhook's events.
func (f *Form) EventGroups() (out []MarkGroup) {
	for _, t := range alert.Types() {
		if len(out) == 0 || out[len(out)-1].Name != t.Group {
			out = append(out, MarkGroup{Name: t.Group})
		}
		last := &out[len(out)-1]
		last.Marks = append(last.Marks, Mark{t.Name, f.Field("events." + t.Name)})
	}
	return out
}

// CreateWebhook is the form to create a webhook.
func CreateWebhook(account, once string) *Form {
	return &Form{ID: "create", Action: WebhooksPath, Account: account, Once: once, fields: webhookFields(), Values: map[string]string{
		"events." + alert.TypeOf(event.AlertType_ALERT_QUOTA).Name: "on",
	}}
}

// ChangeWebhook is the form to edit a webhook.
func ChangeWebhook(account, once string, w Webhook) *Form {
	f := &Form{ID: "change", Action: w.Path(), Account: account, Once: once, fields: webhookFields(), Values: map[string]string{"url": w.URL}}
	for _, t := range alert.Types() {
		if w.wants(t.AlertType) {
			f.Values["events."+t.Name] = "on"
		}
	}
	if !slices.Equal(w.thresholds(), alert.DefaultThresholds()) {
		f.Values["thresholds"] = percents(w.Thresholds, "")
	}
	if w.BalanceBelowMicros != 0 {
		f.Values["balanceBelow"] = plan.Short(w.BalanceBelowMicros)
	}
	return f
}

// ActOnWebhook is a form without fields. act ends its path: RotateSecret, TestWebhook or the path of a delivery.
func ActOnWebhook(account, once string, w Webhook, act string) *Form {
	return &Form{ID: "act", Action: w.Path() + "/" + act, Account: account, Once: once, Values: map[string]string{}}
}

// Last segments of the paths below a webhook's page.
const (
	RotateSecret   = "rotate-secret"
	TestWebhook    = "test"
	Deletion       = "delete"
	Deliveries     = "deliveries" // the live part of the page
	DeliveryEvents = "events"     // signals its changes
)

// DeleteWebhook is the form to delete a webhook.
func DeleteWebhook(account, once string, w Webhook) *Form {
	return &Form{
		ID: "delete", Action: w.Path() + "/" + Deletion, Account: account, Once: once, Values: map[string]string{},
		fields: []Field{{Name: "confirm", Label: "Type the id of the webhook", Type: "text", Hint: w.ID(), Required: true}},
	}
}

// Webhooks shows the webhooks of an account. status is fiber.StatusOK, or the error status of a refused form.
func (c *Console) Webhooks(ctx *fiber.Ctx, status int, w *Webhooks) error {
	return c.render(ctx, page{template: "webhooks", title: "Webhooks", section: BillingPath, done: w.Done, status: status, data: w})
}

// OneWebhook is a webhook with its deliveries and the forms of its actions.
type OneWebhook struct {
	Holder                       Holder
	Webhook                      Webhook
	Deliveries                   []Delivery
	Cursor, Next                 string // as in Ledger
	Change, Rotate, Test, Delete *Form
	Refused                      *Problem // why a delivery can't be sent again
	Done                         string
}

// OneWebhook shows a webhook.
func (c *Console) OneWebhook(ctx *fiber.Ctx, status int, w *OneWebhook) error {
	return c.render(ctx, page{template: "one-webhook", title: "Webhook", section: BillingPath, done: w.Done, status: status, live: w.Live(), data: w})
}

// DeliveryList answers with the live part of the page.
func (c *Console) DeliveryList(ctx *fiber.Ctx, w *OneWebhook) error {
	return c.fragment(ctx, "delivery-list", w)
}

// Live reports whether the page updates itself: it shows the newest deliveries.
func (w *OneWebhook) Live() bool { return w.Cursor == "" }

// ListPath is the address of the live part.
func (w *OneWebhook) ListPath() string { return w.Webhook.Path() + "/" + Deliveries }

// EventsPath signals changes of the live part.
func (w *OneWebhook) EventsPath() string { return w.Webhook.Path() + "/" + DeliveryEvents }

// OlderPath is the next page of deliveries; empty on the last.
func (w *OneWebhook) OlderPath() string {
	if w.Next == "" {
		return ""
	}
	return w.Webhook.Path() + "?" + url.Values{"cursor": {w.Next}}.Encode() + "#deliveries"
}

// Delivery is an event for a webhook, sent or pending.
type Delivery struct {
	*event.Delivery
	Replay *Form // sends it again
}

// What describes the event.
func (d Delivery) What() string {
	a := d.Alert
	if c := a.GetContent(); c != nil {
		return alert.TypeOf(a.GetType()).Words + ": " + c.Item
	}
	switch a.GetType() {
	case event.AlertType_ALERT_QUOTA:
		return pages.AboutKey(plan.QuotaKey(a.QuotaKey)) + ": " + percents([]uint32{a.Threshold}, " %") + " of the limit, " + number(a.Used) + " of " + number(a.Limit)
	case event.AlertType_ALERT_CAP:
		whose := "Spending cap"
		if a.KeyCap {
			whose = "Spending cap of the key " + apikey.ID(a.Key)
		}
		return whose + ": " + percents([]uint32{a.Threshold}, " %") + ", " + credits(a.Used) + " of " + credits(a.Limit)
	case event.AlertType_ALERT_PAYMENT:
		return "Payment " + number(a.GetPayment().GetNumber())
	case event.AlertType_ALERT_BALANCE:
		return "Balance " + credits(a.BalanceMicros) + ", below " + credits(a.BelowMicros)
	case event.AlertType_ALERT_KEY:
		return "The key " + apikey.ID(a.Key) + " expires in " + days(a.DaysBefore)
	case event.AlertType_ALERT_KEY_CREATED:
		return "The key “" + a.KeyName + "” was created"
	case event.AlertType_ALERT_KEY_REVOKED:
		if a.ExpiresMs != 0 {
			return "The key “" + a.KeyName + "” was replaced"
		}
		return "The key “" + a.KeyName + "” was revoked"
	}
	return alert.TypeOf(a.GetType()).Words
}

func days(n uint32) string {
	if n == 1 {
		return "1 day"
	}
	return number(n) + " days"
}

// Type is its name in the API.
func (d Delivery) Type() string { return alert.TypeOf(d.Alert.GetType()).Name }

// Delivered reports whether the receiver accepted it.
func (d Delivery) Delivered() bool { return d.Status == event.DeliveryStatus_DELIVERY_DELIVERED }

// Failed reports whether all attempts failed.
func (d Delivery) Failed() bool { return d.Status == event.DeliveryStatus_DELIVERY_FAILED }

// Answer is the beginning of the response to the last attempt.
func (d Delivery) Answer() string {
	if len(d.Attempts) == 0 {
		return ""
	}
	answer := d.Attempts[len(d.Attempts)-1].Answer
	if runes := []rune(answer); len(runes) > shownAnswer {
		return string(runes[:shownAnswer]) + "…"
	}
	return answer
}

// NewSecret is a webhook's new secret.
type NewSecret struct {
	Holder  Holder
	Webhook Webhook
	Secret  string
	UntilMs int64 // end of the previous secret's validity; 0 without one
	Rotated bool
}

// NewSecret shows a secret; it is not shown again.
func (c *Console) NewSecret(ctx *fiber.Ctx, n *NewSecret) error {
	heading := "Your new webhook"
	if n.Rotated {
		heading = "Your new secret"
	}
	return c.render(ctx, page{template: "new-secret", title: heading, section: BillingPath, secret: true, data: n})
}
