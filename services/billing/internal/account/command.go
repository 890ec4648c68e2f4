package account

import (
	"cmp"
	"fmt"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

func (f *Fold) applyCommands(m Message) error {
	b := &event.CommandBatch{}
	if err := b.UnmarshalVT(m.Data); err != nil {
		return fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
	f.advance(f.timeOf(m, b.StampMs, f.offset))
	s := f.sources.get(b.Source, f.time)
	s.numbered = true
	if b.Number <= s.commandWatermark {
		if b.Number == s.commandWatermark {
			f.answer(b.Source, Outcomes, s.commandAnswer)
		}
		return nil
	}
	answer := event.CommandOutcomeBatch{Source: b.Source, Number: b.Number, Sequence: m.Sequence}
	for i, c := range b.Commands {
		answer.Outcomes = append(answer.Outcomes, f.command(c, i))
	}
	f.entries += uint64(len(b.Commands))
	data, err := answer.MarshalVT()
	if err != nil {
		return err
	}
	s.commandWatermark, s.commandAnswer = b.Number, data
	f.answer(b.Source, Outcomes, data)
	return nil
}

// command decides a command, and logs it if an admin sent it.
func (f *Fold) command(c *event.Command, index int) *event.CommandOutcome {
	o := f.decide(c, index)
	if c.Admin != nil {
		e := f.adminEntry(c, o)
		e.Plan = f.prices.given(plan.Tier(e.Tier))
		f.effects.Admin = append(f.effects.Admin, e)
	}
	return o
}

// decide executes a command unless its idempotency id already has an outcome.
func (f *Fold) decide(c *event.Command, index int) *event.CommandOutcome {
	if len(c.IdempotencyId) != 16 {
		return f.execute(c, index)
	}
	id := event.IdempotencyID(c.IdempotencyId)
	if k := f.kept.byID[id]; k != nil {
		if k.body != c.BodyHash {
			return &event.CommandOutcome{Status: event.CommandStatus_COMMAND_IDEMPOTENCY_MISMATCH, TimeMs: f.time}
		}
		return k.replay()
	}
	k := &keptCommand{id: id, body: c.BodyHash, time: f.time, outcome: f.execute(c, index)}
	f.kept.add(k)
	return k.outcome
}

func (f *Fold) execute(c *event.Command, index int) *event.CommandOutcome {
	if !f.keep.has(c.Account) {
		return &event.CommandOutcome{}
	}
	a := f.account(c.Account)
	create, note := c.GetCreate(), c.GetNote()
	switch {
	case c.Action == nil:
		return f.outcome(event.CommandStatus_COMMAND_INVALID, nil)
	case c.Account == 0 && note != nil:
		return f.outcome(event.CommandStatus_COMMAND_OK, nil)
	case c.Account == 0:
		return f.outcome(event.CommandStatus_COMMAND_INVALID, nil)
	case create != nil && a != nil:
		return f.outcome(event.CommandStatus_COMMAND_ACCOUNT_EXISTS, a)
	case create != nil:
		return f.create(c.Account, create)
	case a == nil:
		return f.outcome(event.CommandStatus_COMMAND_ACCOUNT_NOT_FOUND, nil)
	case note != nil:
		return f.outcome(event.CommandStatus_COMMAND_OK, a)
	case a.erased != 0:
		return f.outcome(event.CommandStatus_COMMAND_ACCOUNT_NOT_FOUND, nil)
	}
	alerts, keys := a.alerts, a.knownKeys(f.time)
	o := f.change(a, c, index)
	f.alerts.watchKeys(a, alerts)
	f.alerts.keysChanged(a, keys)
	return o
}

// change executes a command on an account.
func (f *Fold) change(a *account, c *event.Command, index int) *event.CommandOutcome {
	status := event.CommandStatus_COMMAND_INVALID
	switch action := c.Action.(type) {
	case *event.Command_SetTier:
		if f.setTier(a, plan.Tier(action.SetTier.GetTier())) {
			status = event.CommandStatus_COMMAND_OK
		}
	case *event.Command_SetNextTier:
		status = f.setNextTier(a, plan.Tier(action.SetNextTier.GetTier()))
	case *event.Command_Grant:
		actor := c.Admin.GetToken()
		if f.rules < Rules4 {
			actor = ""
		}
		status = f.credits.grant(a, action.Grant, actor, index)
	case *event.Command_Refund:
		status = f.refund(a, action.Refund, c.Admin.GetToken(), index)
	case *event.Command_Payment:
		status = f.credits.recordPayment(a, action.Payment, actorOf(c, action.Payment.GetProvider()), index)
	case *event.Command_Reverse:
		status = f.credits.reverse(a, action.Reverse, actorOf(c, action.Reverse.GetProvider()), index)
	case *event.Command_SetSubscription:
		status = f.subscribe(a, action.SetSubscription)
	case *event.Command_SetTopUp:
		status = f.topUps.set(a, action.SetTopUp)
	case *event.Command_TopUpFailed:
		status = f.topUps.fail(a, action.TopUpFailed)
	case *event.Command_RotateKey:
		a.rotate(&f.base, action.RotateKey)
		status = event.CommandStatus_COMMAND_OK
	case *event.Command_Suspend:
		if a.suspended == 0 {
			a.suspended = max(f.time, 1)
		}
		a.suspensionReason = action.Suspend.GetReason()
		status = event.CommandStatus_COMMAND_OK
	case *event.Command_Resume:
		a.suspended, a.suspensionReason = 0, ""
		f.release(a)
		status = event.CommandStatus_COMMAND_OK
	case *event.Command_DeleteAccount, *event.Command_KeepAccount, *event.Command_EraseAccount:
		status = a.deletion(&f.base, c)
	case *event.Command_SetWebhook, *event.Command_DeleteWebhook, *event.Command_TestWebhook:
		return f.webhookCommand(a, c)
	case *event.Command_CreateKey, *event.Command_UpdateKey, *event.Command_ReplaceKey, *event.Command_RevokeKey,
		*event.Command_SetSpendingCap:
		return f.keyCommand(a, c)
	}
	f.changed(a.id)
	return f.outcome(status, a)
}

// actorOf is the admin who sent a command about a payment, or else its provider.
func actorOf(c *event.Command, provider string) string { return cmp.Or(c.Admin.GetToken(), provider) }

// setNextTier changes the tier from the next month on.
func (f *Fold) setNextTier(a *account, tier plan.Tier) event.CommandStatus {
	if f.rules < Rules4 || tier != 0 && !f.prices.hasPlan(tier) {
		return event.CommandStatus_COMMAND_INVALID
	}
	if a.nextTier = tier; tier == a.tier {
		a.nextTier = 0
	}
	return event.CommandStatus_COMMAND_OK
}

// outcome is the answer to a command, with the account's state after it, if the account exists.
func (f *Fold) outcome(status event.CommandStatus, a *account) *event.CommandOutcome {
	o := &event.CommandOutcome{Status: status, TimeMs: f.time}
	if a != nil {
		o.Plan, o.NextTier, o.NextPlan = f.prices.given(a.tier), uint32(a.nextTier), f.prices.given(a.nextTier)
		o.Tier, o.KeyVersion, o.KeyCreatedMs, o.BalanceMicros = uint32(a.tier), a.keyVersion, a.keyCreated, a.available-a.owed
		o.SuspendedMs, o.DeletesMs = a.suspended, a.deletes
	}
	return o
}

func (f *Fold) create(id uint64, c *event.CreateAccount) *event.CommandOutcome {
	tier := plan.Tier(c.Tier)
	if !f.prices.hasPlan(tier) {
		return f.outcome(event.CommandStatus_COMMAND_INVALID, nil)
	}
	a := &account{
		principal: newPrincipal(id), tier: tier, created: f.time, month: f.month.number, storageSince: f.time, tierThen: tier,
		terms: f.prices.terms,
	}
	a.principal.account = a
	f.principals.accounts[id] = a
	f.touch(&a.principal)
	if c.Key != nil {
		a.rotate(&f.base, c.Key)
	}
	f.changed(id)
	return f.outcome(event.CommandStatus_COMMAND_OK, a)
}

// rotate replaces the current key.
func (a *account) rotate(b *base, key *event.RotateKey) {
	a.keyVersion++
	a.fingerprint, a.keyPrefix, a.keyCreated = key.GetFingerprint(), key.GetPrefix(), b.time
	a.defaultReplaced(b.time)
}
