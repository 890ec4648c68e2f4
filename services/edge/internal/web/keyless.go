package web

import (
	"context"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/fault"
)

// othersUse is what a keyless caller has used of its allowance under the other secrets that are accepted. While a secret is
// replaced, its network has a pseudo-account by each of them, and billing counts each by itself.
type othersUse struct {
	used         uint32
	resetSeconds uint32 // until there is one less; 0: nothing is used
}

func (s *Server) othersUse(ctx context.Context, c *call) (o othersUse, err error) {
	for _, network := range s.secret.OtherNetworks(s.networkBytes(c.Ctx)) {
		a, err := s.allowanceOf(ctx, network)
		if err != nil {
			return o, err
		}
		o.used += a.GetLimit() - a.GetRemaining()
		o.resetSeconds = sooner(o.resetSeconds, a.GetResetSeconds())
	}
	return o, nil
}

// allowanceOf is nil where billing has no prices yet.
func (s *Server) allowanceOf(ctx context.Context, network event.AccountID) (*event.AllowanceAnswer, error) {
	answer, err := s.bus.Query(ctx, network, &event.Query{Query: &event.Query_Allowance{Allowance: &event.AllowanceQuery{}}})
	return answer.GetAllowance(), err
}

// sooner is the smaller of two times of which 0 is none.
func sooner(a, b uint32) uint32 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// admitKeyless is start and wait for a keyless creation. What its network has made under other secrets counts too: it is asked
// for before, so that a call that is refused is no admission, and holds for those that come at the same time.
func (m *metered) admitKeyless() error {
	s, now := m.s, m.s.now()
	if limit, seconds := s.keyless.Wait(s.http.Source(m.c.Ctx), now); seconds > 0 {
		m.c.Set(headerChargeSource, "none")
		e := fault.New(fault.AnonymousLimit, "Anonymous limit of %d quick pastes per 24 hours reached for this IPv6 /48. Use an API key to continue.", limit)
		return waitFor(e, limit, seconds, now)
	}
	if !s.secret.Several() {
		return m.start().wait()
	}
	others, err := s.othersUse(s.ctx, m.c)
	if err != nil {
		return err
	}
	if others.used > 0 {
		own, err := s.allowanceOf(s.ctx, m.admission.Account)
		if err != nil {
			return err
		}
		if own != nil && own.Remaining <= others.used {
			return m.refusedFor(int64(own.Limit), sooner(own.ResetSeconds, others.resetSeconds))
		}
	}
	if err := m.start().wait(); err != nil || others.used == 0 {
		return err
	}
	v := m.verdict
	reset := sooner(v.ResetSeconds, others.resetSeconds)
	m.verdict = &bus.Verdict{TimeMs: v.TimeMs, Verdict: &event.Verdict{
		Decision: v.Decision, Charge: v.Charge, Limit: v.Limit, Remaining: v.Remaining - int64(others.used), ResetSeconds: reset,
	}}
	if m.verdict.Remaining >= 0 {
		return nil
	}
	return m.giveBack(m.refusedFor(v.Limit, reset), false)
}

// refusedFor is the refusal of a network that has used all of its allowance.
func (m *metered) refusedFor(limit int64, resetSeconds uint32) error {
	return m.refused(&bus.Verdict{TimeMs: m.s.now().UnixMilli(), Verdict: &event.Verdict{
		Decision: event.Decision_ANONYMOUS_LIMIT, Limit: limit, RetryAfterSeconds: resetSeconds, ResetSeconds: resetSeconds,
	}})
}
