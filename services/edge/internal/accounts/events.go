package accounts

import (
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/alert"
	"quire.dev/pkg/event"
	"quire.dev/pkg/wait"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

const (
	maxWaitSeconds = 30
	maxListeners   = 5           // waiting calls of an account, on each edge
	eventPoll      = time.Second // interval of checking for an awaited event

	// noPosition sorts before every event.
	noPosition = "00000000000000000"
)

type eventsView struct {
	endpoint.Success
	Events []eventView `json:"events"`
	Last   string      `json:"last"`
}

type eventView struct {
	ID string `json:"id"`
	alert.Payload
}

// listEvents answers with the account's events after a position, oldest first. It waits for one as long as the client asks.
func (s *Accounts) listEvents(c *endpoint.Call) error {
	q, seconds := &event.AlertsQuery{Limit: endpoint.DefaultPage}, uint64(0)
	err := input.QueryFields(c.Ctx, input.Fields{
		"limit": input.To(&q.Limit, endpoint.PageLimit), "after": input.To(&q.After, afterField), "wait": input.To(&seconds, input.CountField(maxWaitSeconds)),
	}.Set)
	if err != nil {
		return err
	}
	if err := s.CheckHolder(c); err != nil {
		return err
	}
	if seconds > 0 {
		if !s.listeners.Begin(c.Who.Account) {
			return endpoint.WaitFor(fault.New(fault.RateLimited, "The account already has %d calls waiting for events. Try again later.", maxListeners),
				maxListeners, 1, s.Now())
		}
		defer s.listeners.End(c.Who.Account)
	}
	for end := time.Now().Add(time.Duration(seconds) * time.Second); ; {
		a, err := s.Query(c.Who.Account, &event.Query{Query: &event.Query_Alerts{Alerts: q}})
		if err != nil {
			return err
		}
		page := a.GetAlerts()
		if page == nil {
			return endpoint.Unavailable(endpoint.ErrQueryAnswer)
		}
		if len(page.Alerts) > 0 || q.After == "" || !time.Now().Add(eventPoll).Before(end) || !wait.For(s.ctx, eventPoll) {
			out := eventsView{Success: endpoint.Succeeded(), Events: make([]eventView, 0, len(page.Alerts)), Last: page.Last}
			if out.Last == "" {
				out.Last = noPosition
			}
			for _, e := range page.Alerts {
				out.Events = append(out.Events, eventView{ID: e.Id, Payload: alert.Of(e)})
			}
			return s.JSON(c.Ctx, fiber.StatusOK, out)
		}
	}
}

func afterField(name string, v input.Value) (string, error) {
	position, err := PositionField(name, v)
	if err != nil {
		err = httperr.InvalidField(name, "must be `last` of an earlier answer")
	}
	return position, err
}
