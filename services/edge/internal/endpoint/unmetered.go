package endpoint

import (
	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/limit"
)

// admitNetwork counts an unmetered call for its network, before its session or token is looked up. A call with an API key
// counts for its account instead: see admitAccount.
func (s *Base) admitNetwork(c *Call) error {
	r := c.Row
	if s.unmetered == nil || r.Key != Unmetered || r.Rules.Has(Unlimited) || r.Who.takesKey() && sendsKey(c) {
		return nil
	}
	return s.takeNetwork(c)
}

// admitAccount counts an unmetered call for the account of its key or session. It also counts a conditional read, which may
// turn out metered: it is refused here rather than read and charged against the client's condition.
func (s *Base) admitAccount(c *Call) error {
	r := c.Row
	switch {
	case s.unmetered == nil || r.Rules.Has(Unlimited):
		return nil
	case c.Who.Free():
		return s.takeNetwork(c)
	case r.Key != Unmetered && !c.Conditional() || c.Who.Account == 0:
		return nil
	}
	return s.takeAccount(c)
}

// AdmitReplay counts a call that turns out to be a replay without a charge.
func (s *Base) AdmitReplay(c *Call) error {
	switch {
	case s.unmetered == nil || c.Who.Free(): // counted by admitAccount
		return nil
	case c.Who.Anonymous:
		return s.takeNetwork(c)
	}
	return s.takeAccount(c)
}

func sendsKey(c *Call) bool {
	_, sent := sentKey(c.Ctx)
	return sent
}

// Conditional reports whether the call is a metered read that may end in 304.
func (c *Call) Conditional() bool {
	if !c.Row.Rules.Has(Repeatable) {
		return false
	}
	header := &c.Context().Request.Header
	return len(header.Peek(fiber.HeaderIfNoneMatch)) > 0 || len(header.Peek(fiber.HeaderIfModifiedSince)) > 0
}

func (s *Base) takeNetwork(c *Call) error {
	c.free = true
	limit, seconds := s.unmetered.TakeNetwork(&c.turn, s.http.Source(c.Ctx), s.Now())
	return s.tooManyUnmetered(limit, seconds)
}

func (s *Base) takeAccount(c *Call) error {
	c.free = !c.Conditional()
	var key uint64
	if c.Who.Key.Version != 0 {
		key = c.Who.keyFingerprint()
	}
	return s.tooManyUnmetered(s.unmetered.PerSecond, s.unmetered.TakeAccount(&c.turn, c.Who.Account, key, s.Now()))
}

// tooManyUnmetered is the error for a wait; nil for 0 seconds.
func (s *Base) tooManyUnmetered(limit int64, seconds int) error {
	if seconds == 0 {
		return nil
	}
	return WaitFor(fault.New(fault.RateLimited, "More than %d unmetered calls per second. Try again later.", limit), limit, seconds, s.Now())
}

// endTurn makes the call count, or refunds its turn: a conditional read counts if it ended in 304. A key that is not the
// account's counts for itself alone.
func (s *Base) endTurn(c *Call, err error) {
	if c.turn == (limit.Turn{}) {
		return
	}
	if fault.KindOf(err) == fault.InvalidAPIKey {
		s.unmetered.ReturnAccount(&c.turn)
	} else if !c.free && c.Response().StatusCode() != fiber.StatusNotModified {
		s.unmetered.Return(&c.turn)
		return
	}
	s.unmetered.Keep(&c.turn)
}
