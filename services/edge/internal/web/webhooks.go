package web

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/alert"
	"quire.dev/pkg/event"
	"quire.dev/pkg/wait"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
)

const (
	maxWebhooks    = 10 // of an account: the fold counts
	maxThresholds  = 10
	webhookTries   = 30 // tests and repeated deliveries of an account in webhookWindow; each edge counts its own
	webhookWindow  = time.Minute
	maxWaitSeconds = 30
	maxListeners   = 5           // calls of an account that wait for an event at a time; each edge counts its own
	eventPoll      = time.Second // between two looks for an event that somebody waits for
)

type webhookView struct {
	ID           string   `json:"id"`
	URL          string   `json:"url"`
	Events       []string `json:"events"`
	Thresholds   []uint32 `json:"thresholds"`
	BalanceBelow *string  `json:"balanceBelow"`
	CreatedAt    string   `json:"createdAt"`
}

// viewWebhook puts together what the journal and the read model know of a webhook.
func viewWebhook(rules *event.WebhookRules, url string) webhookView {
	out := webhookView{
		ID: alert.WebhookName(rules.Webhook), URL: url, Events: []string{}, Thresholds: rules.Thresholds, CreatedAt: formatTime(rules.CreatedMs),
	}
	for _, t := range alert.Types() {
		if rules.Events&alert.Bit(t) != 0 {
			out.Events = append(out.Events, alert.TypeName(t))
		}
	}
	if len(out.Thresholds) == 0 {
		out.Thresholds = alert.DefaultThresholds()
	}
	if rules.BalanceBelowMicros != 0 {
		out.BalanceBelow = new(credits(rules.BalanceBelowMicros))
	}
	return out
}

type webhooksView struct {
	success
	Webhooks []webhookView `json:"webhooks"`
}

type oneWebhookView struct {
	success
	Webhook webhookView `json:"webhook"`
	Secret  string      `json:"secret,omitempty"`
}

// webhookDraft is the body of a creation or a change. What is nil was not sent.
type webhookDraft struct {
	url   *string
	rules *event.SetWebhook
}

func readWebhook(body []byte) (d webhookDraft, err error) {
	d.rules = &event.SetWebhook{}
	err = httpin.ParseObject(body, httpin.Fields{
		"url": func(name string, v httpin.Value) error {
			text, err := httpin.StringField(name, v)
			d.url = &text
			return err
		},
		"events": func(name string, v httpin.Value) error {
			events, err := eventsField(name, v)
			d.rules.Events = &events
			return err
		},
		"thresholds":   httpin.To(&d.rules.Thresholds, thresholdsField),
		"balanceBelow": httpin.To(&d.rules.BalanceBelowMicros, balanceBelowField),
	}.Set)
	return d, err
}

// eventsField reads the names of events as the bits of their types.
func eventsField(name string, v httpin.Value) (bits uint32, err error) {
	if v.Kind != httpin.Array || len(v.Items) == 0 {
		return 0, httpin.InvalidField(name, "must be a list of one event or more")
	}
	var names []string
	for _, t := range alert.Types() {
		names = append(names, alert.TypeName(t))
	}
	for _, item := range v.Items {
		i := slices.Index(names, string(item.Text))
		if item.Kind != httpin.String || i < 0 {
			return 0, httpin.NotAnOption(name, string(item.Text), names...)
		}
		bits |= alert.Bit(alert.Types()[i])
	}
	return bits, nil
}

// thresholdsField reads percents. Null stands for the default.
func thresholdsField(name string, v httpin.Value) (*event.Percents, error) {
	out := &event.Percents{}
	if v.Kind == httpin.Null {
		return out, nil
	}
	why := fmt.Sprintf("must be a list of 1 to %d whole numbers from 1 to 100", maxThresholds)
	if v.Kind != httpin.Array || len(v.Items) == 0 {
		return nil, httpin.InvalidField(name, why)
	}
	for _, item := range v.Items {
		n, err := strconv.ParseUint(string(item.Text), 10, 32)
		if item.Kind != httpin.Number || err != nil || n < 1 || n > 100 {
			return nil, httpin.InvalidField(name, why)
		}
		out.Values = append(out.Values, uint32(n))
	}
	slices.Sort(out.Values)
	if out.Values = slices.Compact(out.Values); len(out.Values) > maxThresholds {
		return nil, httpin.OverLimit(name, maxThresholds, why)
	}
	return out, nil
}

// balanceBelowField reads an amount of credits. Null stands for none.
func balanceBelowField(name string, v httpin.Value) (*uint64, error) {
	if v.Kind == httpin.Null {
		return new(uint64), nil
	}
	amount, err := amountField(name, v)
	if err == nil && amount < 0 {
		err = httpin.InvalidField(name, "must be above zero")
	}
	return new(uint64(amount)), err
}

func balanceRequired() error {
	return httpin.InvalidField("balanceBelow", "is required with the event balance.low")
}

func tooManyWebhooks() error {
	e := fault.New(fault.TooManyWebhooks, "An account has at most %d webhooks. Delete one first.", maxWebhooks)
	e.Limit = new(int64(maxWebhooks))
	return e
}

// pathWebhook is the webhook in the path; 404 for text that is no id of one.
func pathWebhook(c *call) (uint64, error) {
	id, ok := alert.ParseWebhookName(c.Params("id"))
	if !ok {
		return 0, notFound()
	}
	return id, nil
}

// webhookRequest asks billing's read model about webhooks of the caller. A webhook that is not there is 404.
func (s *Server) webhookRequest(c *call, r *event.WebhookRequest) (*event.WebhookAnswer, error) {
	r.Account = uint64(c.who.account)
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_Webhook{Webhook: r}})
	if err != nil {
		return nil, err
	}
	if a.GetWebhook().GetReplayed() {
		c.Set(headerReplayed, "true")
	}
	switch a.GetWebhook().GetStatus() {
	case event.WebhookStatus_WEBHOOK_OK:
		return a.Webhook, nil
	case event.WebhookStatus_WEBHOOK_NOT_FOUND:
		return nil, notFound()
	case event.WebhookStatus_WEBHOOK_BAD_URL:
		return nil, httpin.InvalidField("url", "must "+a.Webhook.Reason)
	}
	return nil, unavailable(errUserAnswer)
}

// webhookRules asks what the webhooks of the caller are told of.
func (s *Server) webhookRules(c *call) ([]*event.WebhookRules, error) {
	a, err := s.query(c.who.account, &event.Query{Query: &event.Query_Webhooks{Webhooks: &event.WebhooksQuery{}}})
	if err != nil {
		return nil, err
	}
	if a.GetWebhooks() == nil {
		return nil, unavailable(errQueryAnswer)
	}
	return a.GetWebhooks().Webhooks, nil
}

// ownWebhook is the webhook in the path with its rules, 404 where the caller has none of that id.
func (s *Server) ownWebhook(c *call) (*event.WebhookRules, error) {
	id, err := pathWebhook(c)
	if err != nil {
		return nil, err
	}
	rules, err := s.webhookRules(c)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(rules, func(w *event.WebhookRules) bool { return w.Webhook == id })
	if i < 0 {
		return nil, notFound()
	}
	return rules[i], nil
}

func (s *Server) listWebhooks(c *call) error {
	rules, err := s.webhookRules(c)
	if err != nil {
		return err
	}
	a, err := s.webhookRequest(c, &event.WebhookRequest{Action: &event.WebhookRequest_Find{Find: &event.FindAddresses{}}})
	if err != nil {
		return err
	}
	urls := map[uint64]string{}
	for _, address := range a.Addresses {
		urls[address.Webhook] = address.Url
	}
	out := webhooksView{success: succeeded(), Webhooks: make([]webhookView, 0, len(rules))}
	for _, w := range rules {
		if url, found := urls[w.Webhook]; found { // else it is being deleted
			out.Webhooks = append(out.Webhooks, viewWebhook(w, url))
		}
	}
	return s.json(c.Ctx, fiber.StatusOK, out)
}

func (s *Server) showWebhook(c *call) error {
	rules, err := s.ownWebhook(c)
	if err != nil {
		return err
	}
	url, err := s.webhookURL(c, rules.Webhook)
	if err != nil {
		return err
	}
	return s.json(c.Ctx, fiber.StatusOK, oneWebhookView{success: succeeded(), Webhook: viewWebhook(rules, url)})
}

func (s *Server) webhookURL(c *call, webhook uint64) (string, error) {
	a, err := s.webhookRequest(c, &event.WebhookRequest{Webhook: webhook, Action: &event.WebhookRequest_Find{Find: &event.FindAddresses{}}})
	if err != nil {
		return "", err
	}
	if len(a.Addresses) != 1 {
		return "", unavailable(errUserAnswer)
	}
	return a.Addresses[0].Url, nil
}

// createWebhook stores the address first and then the rules. Where something stops in between, the address is swept, or the same
// creation under its Idempotency-Key finishes it.
func (s *Server) createWebhook(c *call) error {
	d, err := readWebhook(c.json)
	switch {
	case err != nil:
		return err
	case d.url == nil:
		return httpin.InvalidField("url", "is required")
	case d.rules.Events == nil:
		return httpin.InvalidField("events", "is required")
	case *d.rules.Events&alert.Bit(event.AlertType_ALERT_BALANCE) != 0 && d.rules.GetBalanceBelowMicros() == 0:
		return balanceRequired()
	}
	a, err := s.webhookRequest(c, &event.WebhookRequest{Action: &event.WebhookRequest_Create{
		Create: &event.CreateAddress{Url: *d.url, Change: c.idem},
	}})
	if err != nil {
		return err
	}
	if len(a.Addresses) != 1 {
		return unavailable(errUserAnswer)
	}
	c.Response().Header.Del(headerReplayed) // the command tells
	d.rules.Webhook, d.rules.Create = a.Addresses[0].Webhook, true
	o, err := s.setWebhook(c, d.rules)
	if err != nil {
		if fault.KindOf(err) == fault.TooManyWebhooks && !a.Replayed {
			s.forgetAddress(c, d.rules.Webhook)
		}
		return err
	}
	return s.json(c.Ctx, fiber.StatusCreated, oneWebhookView{
		success: succeeded(), Webhook: viewWebhook(o.Webhook, a.Addresses[0].Url), Secret: a.Secret,
	})
}

// forgetAddress deletes the address of a creation that was refused. If it fails, the address is swept.
func (s *Server) forgetAddress(c *call, webhook uint64) {
	_, err := s.webhookRequest(c, &event.WebhookRequest{Webhook: webhook, Action: &event.WebhookRequest_Delete{Delete: &event.DeleteAddress{}}})
	if err != nil {
		s.log.Debug("the address of a refused webhook stays for now", "error", err)
	}
}

func (s *Server) setWebhook(c *call, set *event.SetWebhook) (*event.CommandOutcome, error) {
	o, err := s.command(c, &event.Command{
		Account: uint64(c.who.account), IdempotencyId: c.idem, BodyHash: c.hash, Action: &event.Command_SetWebhook{SetWebhook: set},
	})
	if err == nil && o.Webhook == nil {
		err = unavailable(errQueryAnswer)
	}
	return o, err
}

// changeWebhook merges: what is absent stays.
func (s *Server) changeWebhook(c *call) error {
	d, err := readWebhook(c.json)
	if err != nil {
		return err
	}
	if d.url == nil && d.rules.Events == nil && d.rules.Thresholds == nil && d.rules.BalanceBelowMicros == nil {
		return httpin.Malformed("The body has no field to change.")
	}
	id, err := pathWebhook(c)
	if err != nil {
		return err
	}
	var url string
	if d.url == nil {
		url, err = s.webhookURL(c, id)
	} else {
		url, err = *d.url, s.setAddress(c, id, &event.SetAddress{Url: *d.url, Check: true})
	}
	if err != nil {
		return err
	}
	d.rules.Webhook = id
	o, err := s.setWebhook(c, d.rules)
	if err != nil {
		return err
	}
	if d.url != nil { // after the command, which refuses another change under the same Idempotency-Key
		if err := s.setAddress(c, id, &event.SetAddress{Url: url}); err != nil {
			return err
		}
	}
	return s.json(c.Ctx, fiber.StatusOK, oneWebhookView{success: succeeded(), Webhook: viewWebhook(o.Webhook, url)})
}

func (s *Server) setAddress(c *call, webhook uint64, set *event.SetAddress) error {
	_, err := s.webhookRequest(c, &event.WebhookRequest{Webhook: webhook, Action: &event.WebhookRequest_Set{Set: set}})
	return err
}

type webhookDeletedView struct {
	success
	ID string `json:"id"`
}

// deleteWebhook takes the rules away first. Where it stops before the address is gone, that is swept.
func (s *Server) deleteWebhook(c *call) error {
	id, err := pathWebhook(c)
	if err != nil {
		return err
	}
	_, err = s.command(c, &event.Command{
		Account: uint64(c.who.account), IdempotencyId: c.idem, BodyHash: c.hash,
		Action: &event.Command_DeleteWebhook{DeleteWebhook: &event.DeleteWebhook{Webhook: id}},
	})
	if err != nil {
		return err
	}
	if _, err = s.webhookRequest(c, &event.WebhookRequest{Webhook: id, Action: &event.WebhookRequest_Delete{Delete: &event.DeleteAddress{}}}); err != nil {
		return err
	}
	return s.json(c.Ctx, fiber.StatusOK, webhookDeletedView{success: succeeded(), ID: alert.WebhookName(id)})
}

type webhookSecretView struct {
	success
	Secret                  string  `json:"secret"`
	PreviousSecretExpiresAt *string `json:"previousSecretExpiresAt"`
}

func (s *Server) rotateWebhookSecret(c *call) error {
	id, err := pathWebhook(c)
	if err != nil {
		return err
	}
	a, err := s.webhookRequest(c, &event.WebhookRequest{Webhook: id, Action: &event.WebhookRequest_Rotate{Rotate: &event.RotateSecret{Change: c.idem}}})
	if err != nil {
		return err
	}
	out := webhookSecretView{success: succeeded(), Secret: a.Secret}
	if a.PreviousUntilMs != 0 {
		out.PreviousSecretExpiresAt = new(formatTime(a.PreviousUntilMs))
	}
	return s.json(c.Ctx, fiber.StatusOK, out)
}

// tryWebhook counts a call that has something sent at once, and refuses the account that makes too many.
func (s *Server) tryWebhook(c *call) error {
	now := s.now()
	if seconds := s.webhookTries.wait(c.who.account, now); seconds > 0 {
		return waitFor(fault.New(fault.RateLimited, "Limit of %d tests and repeated deliveries a minute reached. Try again later.", webhookTries),
			webhookTries, seconds, now)
	}
	s.webhookTries.add(c.who.account, now)
	return nil
}

type deliveryIDView struct {
	success
	Delivery string `json:"delivery"`
}

func (s *Server) testWebhook(c *call) error {
	id, err := pathWebhook(c)
	if err != nil {
		return err
	}
	if err := s.tryWebhook(c); err != nil {
		return err
	}
	o, err := s.command(c, &event.Command{
		Account: uint64(c.who.account), IdempotencyId: c.idem, BodyHash: c.hash,
		Action: &event.Command_TestWebhook{TestWebhook: &event.TestWebhook{Webhook: id}},
	})
	if err != nil {
		return err
	}
	return s.json(c.Ctx, fiber.StatusAccepted, deliveryIDView{success: succeeded(), Delivery: o.Alert})
}

type deliveriesView struct {
	success
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
		out.Status, out.NextAttemptAt = "pending", new(formatTime(d.NextMs))
	}
	for _, a := range d.Attempts {
		v := attemptView{Time: formatTime(a.TimeMs), DurationMS: a.DurationMs, Error: optionalText(a.Error), Answer: optionalText(a.Answer)}
		if a.Status != 0 {
			v.Status = &a.Status
		}
		out.Attempts = append(out.Attempts, v)
	}
	return out
}

// listDeliveries answers with a page of what was and will be sent to a webhook, the newest first.
func (s *Server) listDeliveries(c *call) error {
	q := &event.ListDeliveries{Limit: defaultPage}
	err := httpin.QueryFields(c.Ctx, httpin.Fields{
		"limit": httpin.To(&q.Limit, pageLimit), "cursor": httpin.To(&q.Before, positionField),
	}.Set)
	if err != nil {
		return err
	}
	rules, err := s.ownWebhook(c)
	if err != nil {
		return err
	}
	a, err := s.webhookRequest(c, &event.WebhookRequest{Webhook: rules.Webhook, Action: &event.WebhookRequest_Deliveries{Deliveries: q}})
	if err != nil {
		return err
	}
	out := deliveriesView{success: succeeded(), Deliveries: make([]deliveryView, 0, len(a.Deliveries)), HasMore: a.More}
	for _, d := range a.Deliveries {
		out.Deliveries = append(out.Deliveries, viewDelivery(d))
	}
	if a.More {
		out.NextCursor = &a.Deliveries[len(a.Deliveries)-1].Alert.Position
	}
	return s.json(c.Ctx, fiber.StatusOK, out)
}

// positionField reads the position of an event.
func positionField(_ string, v httpin.Value) (string, error) {
	const digits, ordinal = 11, 6 // of event.Alert.position
	text := string(v.Text)
	if len(text) != digits+ordinal {
		return "", invalidCursor()
	}
	_, ok1 := event.ParseBase62(text[:digits], digits)
	_, ok2 := event.ParseBase62(text[digits:], ordinal)
	if !ok1 || !ok2 {
		return "", invalidCursor()
	}
	return text, nil
}

func afterField(name string, v httpin.Value) (string, error) {
	position, err := positionField(name, v)
	if err != nil {
		err = httpin.InvalidField(name, "must be `last` of an earlier answer")
	}
	return position, err
}

type oneDeliveryView struct {
	success
	Delivery deliveryView `json:"delivery"`
}

func (s *Server) replayDelivery(c *call) error {
	rules, err := s.ownWebhook(c)
	if err != nil {
		return err
	}
	if err := s.tryWebhook(c); err != nil {
		return err
	}
	a, err := s.webhookRequest(c, &event.WebhookRequest{Webhook: rules.Webhook, Action: &event.WebhookRequest_Replay{
		Replay: &event.ReplayDelivery{Alert: c.param("delivery"), Change: c.idem},
	}})
	if err != nil {
		return err
	}
	if len(a.Deliveries) != 1 {
		return unavailable(errUserAnswer)
	}
	return s.json(c.Ctx, fiber.StatusAccepted, oneDeliveryView{success: succeeded(), Delivery: viewDelivery(a.Deliveries[0])})
}

type eventsView struct {
	success
	Events []eventView `json:"events"`
	Last   string      `json:"last"`
}

type eventView struct {
	ID string `json:"id"`
	alert.Payload
}

// listEvents answers with the events of the account after one, the oldest first. It waits for one as long as it is asked to.
func (s *Server) listEvents(c *call) error {
	q, seconds := &event.AlertsQuery{Limit: defaultPage}, uint64(0)
	err := httpin.QueryFields(c.Ctx, httpin.Fields{
		"limit": httpin.To(&q.Limit, pageLimit), "after": httpin.To(&q.After, afterField), "wait": httpin.To(&seconds, httpin.CountField(maxWaitSeconds)),
	}.Set)
	if err != nil {
		return err
	}
	if err := s.checkHolder(c); err != nil {
		return err
	}
	if seconds > 0 {
		if !s.listeners.begin(c.who.account) {
			return waitFor(fault.New(fault.RateLimited, "%d calls of the account wait for events already. Try again later.", maxListeners),
				maxListeners, 1, s.now())
		}
		defer s.listeners.end(c.who.account)
	}
	for end := time.Now().Add(time.Duration(seconds) * time.Second); ; {
		a, err := s.query(c.who.account, &event.Query{Query: &event.Query_Alerts{Alerts: q}})
		if err != nil {
			return err
		}
		page := a.GetAlerts()
		if page == nil {
			return unavailable(errQueryAnswer)
		}
		if len(page.Alerts) > 0 || q.After == "" || !time.Now().Add(eventPoll).Before(end) || !wait.For(s.ctx, eventPoll) {
			out := eventsView{success: succeeded(), Events: make([]eventView, 0, len(page.Alerts)), Last: page.Last}
			if out.Last == "" {
				out.Last = noPosition
			}
			for _, e := range page.Alerts {
				out.Events = append(out.Events, eventView{ID: e.Id, Payload: alert.Of(e)})
			}
			return s.json(c.Ctx, fiber.StatusOK, out)
		}
	}
}

// noPosition is before every event.
const noPosition = "00000000000000000"
