package endpoint

import (
	"context"
	"fmt"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/fault"
)

// othersUse is a keyless caller's usage under the other accepted secrets. While a secret is being replaced, its network has a
// pseudo-account under each, and billing counts each separately.
type othersUse struct {
	used         uint32
	resetSeconds uint32 // until one use expires; 0: no usage
}

func (s *Base) othersUse(ctx context.Context, c *Call) (o othersUse, err error) {
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

// allowanceOf returns nil if billing has no prices yet.
func (s *Base) allowanceOf(ctx context.Context, network event.AccountID) (*event.AllowanceAnswer, error) {
	answer, err := s.bus.Query(ctx, network, &event.Query{Query: &event.Query_Allowance{Allowance: &event.AllowanceQuery{}}})
	return answer.GetAllowance(), err
}

// sooner is the smaller of two times; 0 means none.
func sooner(a, b uint32) uint32 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// AdmitKeyless is Start and Wait for a keyless creation. It also counts the network's usage under other secrets. It queries
// that first, so that a refused call is not admitted, and checks it against the verdict too, because of concurrent calls.
func (m *Metered) AdmitKeyless() error {
	s, now := m.s, m.s.Now()
	if limit, seconds := s.Keyless.Wait(s.http.Source(m.c.Ctx), now); seconds > 0 {
		e := fault.New(fault.AnonymousLimit, "Anonymous limit of %d quick pastes per 24 hours reached for this IPv6 /48. Use an API key to continue.", limit).
			InForm(fmt.Sprintf("Your network has created %d quick pastes in 24 hours, the most without an account. Sign up or sign in to create more.", limit))
		return Receipt{Source: SourceNone}.Fail(WaitFor(e, limit, seconds, now))
	}
	if !s.secret.Several() {
		return m.Start().Wait()
	}
	others, err := s.othersUse(s.ctx, m.c)
	if err != nil {
		return err
	}
	if others.used > 0 {
		own, err := s.allowanceOf(s.ctx, m.Admission.Account)
		if err != nil {
			return err
		}
		if own != nil && own.Remaining <= others.used {
			return m.refusedFor(int64(own.Limit), sooner(own.ResetSeconds, others.resetSeconds))
		}
	}
	if err := m.Start().Wait(); err != nil || others.used == 0 {
		return err
	}
	v := m.Verdict
	reset := sooner(v.ResetSeconds, others.resetSeconds)
	m.Verdict = &bus.Verdict{TimeMs: v.TimeMs, Verdict: &event.Verdict{
		Decision: v.Decision, Charge: v.Charge, Limit: v.Limit, Remaining: v.Remaining - int64(others.used), ResetSeconds: reset,
	}}
	if m.Verdict.Remaining >= 0 {
		return nil
	}
	return m.VoidAs(m.refusedFor(v.Limit, reset), false)
}

// refusedFor is the refusal of a network with no allowance left.
func (m *Metered) refusedFor(limit int64, resetSeconds uint32) error {
	return m.refused(&bus.Verdict{TimeMs: m.s.Now().UnixMilli(), Verdict: &event.Verdict{
		Decision: event.Decision_ANONYMOUS_LIMIT, Limit: limit, RetryAfterSeconds: resetSeconds, ResetSeconds: resetSeconds,
	}})
}

// Allowance is the caller's remaining keyless allowance; nil if billing can't be asked, since the usage text is useful
// without it.
func (s *Base) Allowance(c *Call) *event.AllowanceAnswer {
	ctx, cancel := context.WithTimeout(s.ctx, QuotaNowWait)
	defer cancel()
	a, err := s.allowanceOf(ctx, s.Network(c.Ctx))
	if err != nil || a == nil {
		return nil
	}
	others, err := s.othersUse(ctx, c)
	if err != nil {
		return nil
	}
	a.Remaining -= min(a.Remaining, others.used)
	a.ResetSeconds = sooner(a.ResetSeconds, others.resetSeconds)
	return a
}
