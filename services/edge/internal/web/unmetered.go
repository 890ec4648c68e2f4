package web

import (
	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/limit"
)

// admitNetwork counts a call that no quota counts for its network, before its session or token is looked up. A call with an API key
// counts for its account instead, which admitAccount sees to.
func (s *Server) admitNetwork(c *call) error {
	r := c.route
	if s.unmetered == nil || r.key != unmetered || r.rules.has(unlimited) || r.who.takesKey() && sendsKey(c) {
		return nil
	}
	return s.takeNetwork(c)
}

// admitAccount counts a call that no quota counts for the account of its key or session. So it does a conditional read, of which it is
// not known yet whether a quota counts it: it is refused here rather than read and charged against the client's condition.
func (s *Server) admitAccount(c *call) error {
	r := c.route
	switch {
	case s.unmetered == nil || r.rules.has(unlimited):
		return nil
	case c.who.free():
		return s.takeNetwork(c)
	case r.key != unmetered && !c.conditional() || c.who.account == 0:
		return nil
	}
	return s.takeAccount(c)
}

// admitReplay counts a call that turns out to be answered again, without a charge.
func (s *Server) admitReplay(c *call) error {
	switch {
	case s.unmetered == nil || c.who.free(): // which admitAccount has counted
		return nil
	case c.who.anonymous:
		return s.takeNetwork(c)
	}
	return s.takeAccount(c)
}

func sendsKey(c *call) bool {
	_, sent := sentKey(c.Ctx)
	return sent
}

// conditional tells whether the call is a metered read that may end in 304.
func (c *call) conditional() bool {
	if !c.route.rules.has(repeatable) {
		return false
	}
	header := &c.Context().Request.Header
	return len(header.Peek(fiber.HeaderIfNoneMatch)) > 0 || len(header.Peek(fiber.HeaderIfModifiedSince)) > 0
}

func (s *Server) takeNetwork(c *call) error {
	c.free = true
	limit, seconds := s.unmetered.TakeNetwork(&c.turn, s.http.Source(c.Ctx), s.now())
	return s.tooManyUnmetered(limit, seconds)
}

func (s *Server) takeAccount(c *call) error {
	c.free = !c.conditional()
	var key uint64
	if c.who.key.Version != 0 {
		key = c.who.keyFingerprint()
	}
	return s.tooManyUnmetered(s.unmetered.PerSecond, s.unmetered.TakeAccount(&c.turn, c.who.account, key, s.now()))
}

// tooManyUnmetered is nil for 0 seconds.
func (s *Server) tooManyUnmetered(limit int64, seconds int) error {
	if seconds == 0 {
		return nil
	}
	return waitFor(fault.New(fault.RateLimited, "More than %d calls a second that no quota counts. Try again later.", limit), limit, seconds, s.now())
}

// endTurn makes the call count, or gives back what it took: a conditional read counts if it ended in 304. A key that is not the
// account's counts for itself alone.
func (s *Server) endTurn(c *call, err error) {
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
