package accounts

import (
	"slices"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/alert"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

const MaxWebhooks = 10 // per account: the fold counts

// Webhook joins what the journal and the read model know about a webhook.
type Webhook struct {
	Rules *event.WebhookRules
	URL   string
}

type webhookView struct {
	ID           string   `json:"id"`
	URL          string   `json:"url"`
	Events       []string `json:"events"`
	Thresholds   []uint32 `json:"thresholds"`
	BalanceBelow *string  `json:"balanceBelow"`
	CreatedAt    string   `json:"createdAt"`
}

func viewWebhook(w Webhook) webhookView {
	rules := w.Rules
	out := webhookView{
		ID: alert.WebhookName(rules.Webhook), URL: w.URL, Events: []string{}, Thresholds: rules.Thresholds, CreatedAt: endpoint.FormatTime(rules.CreatedMs),
	}
	for _, t := range alert.Types() {
		if rules.Events&alert.Bit(t.AlertType) != 0 {
			out.Events = append(out.Events, t.Name)
		}
	}
	if len(out.Thresholds) == 0 {
		out.Thresholds = alert.DefaultThresholds()
	}
	if rules.BalanceBelowMicros != 0 {
		out.BalanceBelow = new(plan.Credits(rules.BalanceBelowMicros))
	}
	return out
}

type webhooksView struct {
	endpoint.Success
	Webhooks []webhookView `json:"webhooks"`
}

type oneWebhookView struct {
	endpoint.Success
	Webhook webhookView `json:"webhook"`
	Secret  string      `json:"secret,omitempty"`
}

func tooManyWebhooks() error {
	e := fault.New(fault.TooManyWebhooks, "An account has at most %d webhooks. Delete one first.", MaxWebhooks)
	e.Limit = new(int64(MaxWebhooks))
	return e
}

// pathWebhook parses the webhook id in the path, 404 if it is none.
func pathWebhook(c *endpoint.Call) (uint64, error) {
	id, ok := alert.ParseWebhookName(c.Params("id"))
	if !ok {
		return 0, endpoint.NotFound()
	}
	return id, nil
}

// webhookRequest asks billing's read model about the caller's webhooks. A missing webhook is 404.
func (s *Accounts) webhookRequest(c *endpoint.Call, r *event.WebhookRequest) (*event.WebhookAnswer, error) {
	r.Account = uint64(c.Who.Account)
	a, err := s.bus.Webhooks(s.ctx, r)
	if err != nil {
		return nil, err
	}
	if a.Replayed {
		c.Set(endpoint.HeaderReplayed, "true")
	}
	switch a.Status {
	case event.WebhookStatus_WEBHOOK_OK:
		return a, nil
	case event.WebhookStatus_WEBHOOK_NOT_FOUND:
		return nil, endpoint.NotFound()
	case event.WebhookStatus_WEBHOOK_BAD_URL:
		return nil, httperr.InvalidField("url", "must "+a.Reason)
	}
	return nil, endpoint.Unavailable(endpoint.ErrUserAnswer)
}

// WebhookRules returns the events that the caller's webhooks subscribe to.
func (s *Accounts) WebhookRules(c *endpoint.Call) ([]*event.WebhookRules, error) {
	a, err := s.Query(c.Who.Account, &event.Query{Query: &event.Query_Webhooks{Webhooks: &event.WebhooksQuery{}}})
	if err != nil {
		return nil, err
	}
	if a.GetWebhooks() == nil {
		return nil, endpoint.Unavailable(endpoint.ErrQueryAnswer)
	}
	return a.GetWebhooks().Webhooks, nil
}

// OwnWebhook returns the rules of the webhook in the path, 404 unless the caller has it.
func (s *Accounts) OwnWebhook(c *endpoint.Call) (*event.WebhookRules, error) {
	id, err := pathWebhook(c)
	if err != nil {
		return nil, err
	}
	rules, err := s.WebhookRules(c)
	if err != nil {
		return nil, err
	}
	if i := indexOfWebhook(rules, id); i >= 0 {
		return rules[i], nil
	}
	return nil, endpoint.NotFound()
}

func indexOfWebhook(list []*event.WebhookRules, id uint64) int {
	return slices.IndexFunc(list, func(w *event.WebhookRules) bool { return w.Webhook == id })
}

func (s *Accounts) listWebhooks(c *endpoint.Call) error {
	list, err := s.WebhooksOf(c)
	if err != nil {
		return err
	}
	out := webhooksView{Success: endpoint.Succeeded(), Webhooks: make([]webhookView, 0, len(list))}
	for _, w := range list {
		out.Webhooks = append(out.Webhooks, viewWebhook(w))
	}
	return s.JSON(c.Ctx, fiber.StatusOK, out)
}

// WebhooksOf are the webhooks of the caller.
func (s *Accounts) WebhooksOf(c *endpoint.Call) (list []Webhook, err error) {
	rules, err := s.WebhookRules(c)
	if err != nil {
		return nil, err
	}
	a, err := s.webhookRequest(c, &event.WebhookRequest{Action: &event.WebhookRequest_Find{Find: &event.FindAddresses{}}})
	if err != nil {
		return nil, err
	}
	urls := map[uint64]string{}
	for _, address := range a.Addresses {
		urls[address.Webhook] = address.Url
	}
	for _, w := range rules {
		if url, found := urls[w.Webhook]; found { // otherwise it is being deleted
			list = append(list, Webhook{w, url})
		}
	}
	return list, nil
}

func (s *Accounts) showWebhook(c *endpoint.Call) error {
	w, err := s.WebhookOf(c)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, oneWebhookView{Success: endpoint.Succeeded(), Webhook: viewWebhook(w)})
}

// WebhookOf is the webhook in the path.
func (s *Accounts) WebhookOf(c *endpoint.Call) (w Webhook, err error) {
	if w.Rules, err = s.OwnWebhook(c); err != nil {
		return w, err
	}
	w.URL, err = s.webhookURL(c, w.Rules.Webhook)
	return w, err
}

func (s *Accounts) webhookURL(c *endpoint.Call, webhook uint64) (string, error) {
	a, err := s.webhookRequest(c, &event.WebhookRequest{Webhook: webhook, Action: &event.WebhookRequest_Find{Find: &event.FindAddresses{}}})
	if err != nil {
		return "", err
	}
	if len(a.Addresses) != 1 {
		return "", endpoint.Unavailable(endpoint.ErrUserAnswer)
	}
	return a.Addresses[0].Url, nil
}

func (s *Accounts) createWebhook(c *endpoint.Call) error {
	d, err := ReadWebhook(input.JSON(c.Fields))
	if err != nil {
		return err
	}
	w, secret, err := s.CreatedWebhook(c, d)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusCreated, oneWebhookView{Success: endpoint.Succeeded(), Webhook: viewWebhook(w), Secret: secret})
}

// CreatedWebhook stores the address first and then the rules. If that is interrupted, the address is swept, or repeating the
// creation under its Idempotency-Key completes it.
func (s *Accounts) CreatedWebhook(c *endpoint.Call, d WebhookDraft) (w Webhook, secret string, err error) {
	switch {
	case d.url == nil:
		return w, "", httperr.InvalidField("url", "is required")
	case d.rules.Events == nil:
		return w, "", httperr.InvalidField("events", "is required")
	case *d.rules.Events&alert.Bit(event.AlertType_ALERT_BALANCE) != 0 && d.rules.GetBalanceBelowMicros() == 0:
		return w, "", balanceRequired()
	}
	a, err := s.webhookRequest(c, &event.WebhookRequest{Action: &event.WebhookRequest_Create{
		Create: &event.CreateAddress{Url: *d.url, Change: c.Idem},
	}})
	if err != nil {
		return w, "", err
	}
	if len(a.Addresses) != 1 {
		return w, "", endpoint.Unavailable(endpoint.ErrUserAnswer)
	}
	c.Response().Header.Del(endpoint.HeaderReplayed) // the command decides whether this is a replay
	id := a.Addresses[0].Webhook
	d.rules.Webhook, d.rules.Create = id, true
	o, err := s.setWebhook(c, d.rules)
	if err == nil && o.Replayed {
		err = s.stillThere(c, id)
	}
	if err != nil {
		if kind := fault.KindOf(err); kind == fault.TooManyWebhooks && !a.Replayed || kind == fault.NotFound {
			s.forgetAddress(c, id)
		}
		return w, "", err
	}
	return Webhook{o.Webhook, a.Addresses[0].Url}, a.Secret, nil
}

// stillThere fails if a webhook was deleted since its creation: its address has then been stored anew, with another secret.
func (s *Accounts) stillThere(c *endpoint.Call, id uint64) error {
	rules, err := s.WebhookRules(c)
	if err == nil && indexOfWebhook(rules, id) < 0 {
		err = fault.New(fault.NotFound, "The webhook created with this Idempotency-Key was deleted. Use a new key to create another.")
	}
	return err
}

// forgetAddress deletes the address after a refused creation. If it fails, the address is swept.
func (s *Accounts) forgetAddress(c *endpoint.Call, webhook uint64) {
	_, err := s.webhookRequest(c, &event.WebhookRequest{Webhook: webhook, Action: &event.WebhookRequest_Delete{Delete: &event.DeleteAddress{}}})
	if err != nil {
		s.log.Debug("the address of a refused webhook stays for now", "error", err)
	}
}

func (s *Accounts) setWebhook(c *endpoint.Call, set *event.SetWebhook) (*event.CommandOutcome, error) {
	o, err := s.OwnCommand(c, &event.Command{Action: &event.Command_SetWebhook{SetWebhook: set}})
	if err == nil && o.Webhook == nil {
		err = endpoint.Unavailable(endpoint.ErrQueryAnswer)
	}
	return o, err
}

func (s *Accounts) changeWebhook(c *endpoint.Call) error {
	d, err := ReadWebhook(input.JSON(c.Fields))
	if err != nil {
		return err
	}
	w, err := s.ChangedWebhook(c, d)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, oneWebhookView{Success: endpoint.Succeeded(), Webhook: viewWebhook(w)})
}

// ChangedWebhook changes the fields that were sent, and keeps the others.
func (s *Accounts) ChangedWebhook(c *endpoint.Call, d WebhookDraft) (w Webhook, err error) {
	if d.url == nil && d.rules.Events == nil && d.rules.Thresholds == nil && d.rules.BalanceBelowMicros == nil {
		return w, httperr.Malformed("The body has no field to change.")
	}
	id, err := pathWebhook(c)
	if err != nil {
		return w, err
	}
	if d.url == nil {
		w.URL, err = s.webhookURL(c, id)
	} else {
		w.URL, err = *d.url, s.setAddress(c, id, &event.SetAddress{Url: *d.url, Check: true})
	}
	if err != nil {
		return w, err
	}
	d.rules.Webhook = id
	o, err := s.setWebhook(c, d.rules)
	if err != nil {
		return w, err
	}
	w.Rules = o.Webhook
	if d.url != nil { // after the command, which refuses a different change under the same Idempotency-Key
		err = s.setAddress(c, id, &event.SetAddress{Url: w.URL})
	}
	return w, err
}

func (s *Accounts) setAddress(c *endpoint.Call, webhook uint64, set *event.SetAddress) error {
	_, err := s.webhookRequest(c, &event.WebhookRequest{Webhook: webhook, Action: &event.WebhookRequest_Set{Set: set}})
	return err
}

type webhookDeletedView struct {
	endpoint.Success
	ID string `json:"id"`
}

func (s *Accounts) deleteWebhook(c *endpoint.Call) error {
	id, err := s.DeletedWebhook(c)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, webhookDeletedView{Success: endpoint.Succeeded(), ID: alert.WebhookName(id)})
}

// DeletedWebhook deletes the rules first. If it is interrupted, the address is swept.
func (s *Accounts) DeletedWebhook(c *endpoint.Call) (uint64, error) {
	id, err := pathWebhook(c)
	if err != nil {
		return 0, err
	}
	if _, err = s.OwnCommand(c, &event.Command{Action: &event.Command_DeleteWebhook{DeleteWebhook: &event.DeleteWebhook{Webhook: id}}}); err != nil {
		return 0, err
	}
	_, err = s.webhookRequest(c, &event.WebhookRequest{Webhook: id, Action: &event.WebhookRequest_Delete{Delete: &event.DeleteAddress{}}})
	return id, err
}

type webhookSecretView struct {
	endpoint.Success
	Secret                  string  `json:"secret"`
	PreviousSecretExpiresAt *string `json:"previousSecretExpiresAt"`
}

func (s *Accounts) rotateWebhookSecret(c *endpoint.Call) error {
	a, err := s.RotatedSecret(c)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, webhookSecretView{
		Success: endpoint.Succeeded(), Secret: a.Secret, PreviousSecretExpiresAt: endpoint.OptionalTime(a.PreviousUntilMs),
	})
}

// RotatedSecret rotates the secret of the webhook in the path.
func (s *Accounts) RotatedSecret(c *endpoint.Call) (*event.WebhookAnswer, error) {
	id, err := pathWebhook(c)
	if err != nil {
		return nil, err
	}
	return s.webhookRequest(c, &event.WebhookRequest{Webhook: id, Action: &event.WebhookRequest_Rotate{Rotate: &event.RotateSecret{Change: c.Idem}}})
}
