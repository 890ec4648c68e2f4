package endpoint

import (
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/httpin"
)

// report adds a call of an account to its request log. Calls that no quota counts are not in the log.
func (s *Base) report(c *Call) {
	if c.Who.Account == 0 || c.Row.Key == Unmetered {
		return
	}
	r := bus.Report{
		Request: c.ID(), Account: c.Who.Account, Key: c.Who.Key.Number, QuotaKey: c.Row.Key, Started: httpin.Started(c.Ctx),
		Status: c.Response().StatusCode(), Method: c.Row.Method, Path: c.Context().URI().PathOriginal(), Source: s.http.Address(c.Ctx),
		Client: clientRequestID(&c.Context().Request.Header), Timing: c.Timing, Body: httpin.BodyWait(c.Ctx),
	}
	r.Took = time.Since(r.Started)
	if c.Context().IsHead() {
		r.Method = fiber.MethodHead
	}
	if c.failure != "" {
		r.Status, r.Error = c.failure.Status(), string(c.failure)
	}
	s.bus.Report(r)
}
