package accounts

import (
	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/alert"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/input"
)

// tryWebhook counts a call that triggers an immediate delivery, and refuses an account with too many.
func (s *Accounts) tryWebhook(c *endpoint.Call) error {
	now := s.Now()
	if seconds := s.WebhookTries.Wait(c.Who.Account, now); seconds > 0 {
		return endpoint.WaitFor(fault.New(fault.RateLimited, "Limit of %d test events and redeliveries per minute reached. Try again later.", endpoint.WebhookTries),
			endpoint.WebhookTries, seconds, now)
	}
	s.WebhookTries.Add(c.Who.Account, now)
	return nil
}

type deliveryIDView struct {
	endpoint.Success
	Delivery string `json:"delivery"`
}

func (s *Accounts) testWebhook(c *endpoint.Call) error {
	delivery, err := s.TestedWebhook(c)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusAccepted, deliveryIDView{Success: endpoint.Succeeded(), Delivery: delivery})
}

// TestedWebhook sends a test event to the webhook in the path, and returns the delivery's id.
func (s *Accounts) TestedWebhook(c *endpoint.Call) (string, error) {
	id, err := pathWebhook(c)
	if err != nil {
		return "", err
	}
	if err := s.tryWebhook(c); err != nil {
		return "", err
	}
	o, err := s.OwnCommand(c, &event.Command{Action: &event.Command_TestWebhook{TestWebhook: &event.TestWebhook{Webhook: id}}})
	if err != nil {
		return "", err
	}
	return o.Alert, nil
}

type deliveriesView struct {
	endpoint.Success
	Deliveries []deliveryView `json:"deliveries"`
	NextCursor *string        `json:"nextCursor"`
	HasMore    bool           `json:"hasMore"`
}

type deliveryView struct {
	ID            string        `json:"id"`
	Status        string        `json:"status"`
	Event         alert.Payload `json:"event"`
	Attempts      []attemptView `json:"attempts"`
	NextAttemptAt *string       `json:"nextAttemptAt"`
}

type attemptView struct {
	Time       string  `json:"time"`
	Status     *uint32 `json:"status"`
	DurationMS uint32  `json:"durationMs"`
	Error      *string `json:"error"`
	Answer     *string `json:"answer"`
}

func viewDelivery(d *event.Delivery) deliveryView {
	out := deliveryView{ID: d.Alert.GetId(), Event: alert.Of(d.Alert), Attempts: make([]attemptView, 0, len(d.Attempts))}
	switch d.Status {
	case event.DeliveryStatus_DELIVERY_DELIVERED:
		out.Status = "delivered"
	case event.DeliveryStatus_DELIVERY_FAILED:
		out.Status = "failed"
	default:
		out.Status, out.NextAttemptAt = "pending", new(endpoint.FormatTime(d.NextMs))
	}
	for _, a := range d.Attempts {
		v := attemptView{Time: endpoint.FormatTime(a.TimeMs), DurationMS: a.DurationMs, Error: endpoint.OptionalText(a.Error), Answer: endpoint.OptionalText(a.Answer)}
		if a.Status != 0 {
			v.Status = &a.Status
		}
		out.Attempts = append(out.Attempts, v)
	}
	return out
}

// listDeliveries answers with a page of a webhook's past and pending deliveries, newest first.
func (s *Accounts) listDeliveries(c *endpoint.Call) error {
	q := &event.ListDeliveries{Limit: endpoint.DefaultPage}
	err := input.QueryFields(c.Ctx, input.Fields{
		"limit": input.To(&q.Limit, endpoint.PageLimit), "cursor": input.To(&q.Before, PositionField),
	}.Set)
	if err != nil {
		return err
	}
	rules, err := s.OwnWebhook(c)
	if err != nil {
		return err
	}
	list, next, err := s.DeliveriesOf(c, rules.Webhook, q)
	if err != nil {
		return err
	}
	out := deliveriesView{Success: endpoint.Succeeded(), Deliveries: make([]deliveryView, 0, len(list)), NextCursor: endpoint.OptionalText(next), HasMore: next != ""}
	for _, d := range list {
		out.Deliveries = append(out.Deliveries, viewDelivery(d))
	}
	return s.JSON(c.Ctx, fiber.StatusOK, out)
}

// DeliveriesOf returns a page of a webhook's deliveries, and the cursor of the next page; empty for the last one.
func (s *Accounts) DeliveriesOf(c *endpoint.Call, webhook uint64, q *event.ListDeliveries) (list []*event.Delivery, next string, err error) {
	a, err := s.webhookRequest(c, &event.WebhookRequest{Webhook: webhook, Action: &event.WebhookRequest_Deliveries{Deliveries: q}})
	if err != nil {
		return nil, "", err
	}
	if a.More {
		next = a.Deliveries[len(a.Deliveries)-1].Alert.GetPosition()
	}
	return a.Deliveries, next, nil
}

// DeliveriesNow returns a webhook's newest deliveries, for a page that is already shown.
func (s *Accounts) DeliveriesNow(account event.AccountID, webhook uint64, limit uint32) (*event.WebhookAnswer, error) {
	return s.bus.Webhooks(s.ctx, &event.WebhookRequest{
		Account: uint64(account), Webhook: webhook, Action: &event.WebhookRequest_Deliveries{Deliveries: &event.ListDeliveries{Limit: limit}},
	})
}

// PositionField parses the position of an event.
func PositionField(_ string, v input.Value) (string, error) {
	const digits, ordinal = 11, 6 // of event.Alert.position
	text := string(v.Text)
	if len(text) != digits+ordinal {
		return "", endpoint.InvalidCursor()
	}
	_, ok1 := event.ParseBase62(text[:digits], digits)
	_, ok2 := event.ParseBase62(text[digits:], ordinal)
	if !ok1 || !ok2 {
		return "", endpoint.InvalidCursor()
	}
	return text, nil
}

type oneDeliveryView struct {
	endpoint.Success
	Delivery deliveryView `json:"delivery"`
}

func (s *Accounts) replayDelivery(c *endpoint.Call) error {
	d, err := s.ReplayedDelivery(c)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusAccepted, oneDeliveryView{Success: endpoint.Succeeded(), Delivery: viewDelivery(d)})
}

// ReplayedDelivery resends the delivery in the path.
func (s *Accounts) ReplayedDelivery(c *endpoint.Call) (*event.Delivery, error) {
	rules, err := s.OwnWebhook(c)
	if err != nil {
		return nil, err
	}
	if err := s.tryWebhook(c); err != nil {
		return nil, err
	}
	a, err := s.webhookRequest(c, &event.WebhookRequest{Webhook: rules.Webhook, Action: &event.WebhookRequest_Replay{
		Replay: &event.ReplayDelivery{Alert: c.Param("delivery"), Change: c.Idem},
	}})
	if err != nil {
		return nil, err
	}
	if len(a.Deliveries) != 1 {
		return nil, endpoint.Unavailable(endpoint.ErrUserAnswer)
	}
	return a.Deliveries[0], nil
}
