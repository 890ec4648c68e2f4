package handlers

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
)

// docs/api.md, Limits.
const (
	listenersOfAccount = 8
	listenersOfEdge    = 512
)

const (
	lookEvery  = time.Second
	checkEvery = 15 // intervals between checks of the session, which also keep the connection alive
)

// mark returns bytes that change whenever a page of an account has something new to show.
type mark = func(event.AccountID) ([]byte, error)

// markOf is the mark of an answer.
func markOf(answer event.Message, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	text, err := event.Encode(answer)
	sum := sha256.Sum256(text)
	return sum[:], err
}

// showEvents sends server-sent events to a page when it has something new to show. Events have no data: the page then fetches
// it, with its session, so a page without a valid one learns nothing.
func (s *Handlers) showEvents(c *endpoint.Call, of mark) error {
	account, session := c.Who.Account, apikey.HashToken(s.SessionToken(c.Ctx))
	if c.Method() != fiber.MethodHead && !s.pageListeners.Begin(account) {
		return endpoint.WaitFor(fault.New(fault.RateLimited, "More than %d live pages of this account are open. Close one.", listenersOfAccount), listenersOfAccount, checkEvery, s.Now())
	}
	c.Set(fiber.HeaderContentType, "text/event-stream")
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set("X-Accel-Buffering", "no") // otherwise nginx buffers the events
	s.http.Stream(c.Ctx, func(to *httpin.Stream) {
		defer s.pageListeners.End(account)
		s.tellChanges(to, account, session, of)
	})
	return nil
}

// tellChanges checks the mark every second, until nobody listens or the session has ended.
func (s *Handlers) tellChanges(to *httpin.Stream, account event.AccountID, session []byte, of mark) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var last []byte
	for n := 0; ; n++ {
		// The first check precedes the first event, so that a page that fetches on that event misses nothing.
		now, err := of(account)
		if err == nil && !bytes.Equal(now, last) {
			if n > 0 && to.Send([]byte("data: changed\n\n")) != nil {
				return
			}
			last = now
		}
		if n%checkEvery == 0 && (!s.sessionIsOpen(session) || to.Send([]byte("event: rest\ndata:\n\n")) != nil) {
			return
		}
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
		if to.Over() {
			return
		}
	}
}

// sessionIsOpen reports whether the session is valid. It assumes so if it can't ask, since events reveal nothing.
func (s *Handlers) sessionIsOpen(session []byte) bool {
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_CheckSession{CheckSession: &event.CheckSession{SessionHash: session}}})
	return err != nil || a.Status != event.UserStatus_USER_NOT_FOUND
}

// changeMark changes whenever the overview has something new to show, but not with time alone.
func (s *Handlers) changeMark(account event.AccountID) ([]byte, error) {
	u, err := s.UsageOf(nil, account, &event.UsageQuery{})
	if err != nil {
		return nil, err
	}
	mark := fmt.Appendf(nil, "%d %d %d %d %d", u.Tier, u.PeriodStartMs, u.BalanceMicros, u.StorageUsedBytes, u.KeyVersion)
	for _, k := range u.Usage {
		mark = fmt.Appendf(mark, " %d:%d:%d:%d", k.Used, k.Limit, k.Overage, k.SpentMicros)
	}
	return mark, nil
}
