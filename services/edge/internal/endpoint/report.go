package endpoint

import (
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
)

// report adds a call of an account to its request log, with err as the failure it is answered with. Calls that no quota counts are
// not in the log.
func (s *Base) report(c *Call, err error) {
	if c.Who.Account == 0 || c.Row.Key == Unmetered {
		return
	}
	r := bus.Report{
		Request: c.ID(), Account: c.Who.Account, Key: c.Who.Key.Number, QuotaKey: c.Row.Key, Started: httpin.Started(c.Ctx),
		Status: c.Response().StatusCode(), Method: c.Row.Method, Path: c.Context().URI().PathOriginal(), Source: s.http.Address(c.Ctx),
	}
	r.Took = time.Since(r.Started)
	if c.Context().IsHead() {
		r.Method = fiber.MethodHead
	}
	if err != nil {
		kind := fault.KindOf(err)
		r.Status, r.Error = kind.Status(), string(kind)
	}
	s.bus.Report(r)
}
