package account

import (
	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
)

// Commands of admins in the log: the values of AdminEntry.action. The edge defines the actions of notes.
const (
	actionCreate   = "account.create"
	actionTier     = "tier.set"
	actionNextTier = "tier.setNext"
	actionGrant    = "credits.grant"
	actionRefund   = "credits.refund"
	actionPayment  = "payment.record"
	actionReverse  = "payment.reverse"
	actionKey      = "key.regenerate"
	actionRevoke   = "key.revoke"
	actionSuspend  = "account.suspend"
	actionResume   = "account.resume"
)

// adminEntry is the admin log's entry for an admin's command. It decides nothing, and is not part of the state.
func (b *base) adminEntry(c *event.Command, o *event.CommandOutcome) *event.AdminEntry {
	e := &event.AdminEntry{
		TimeMs: b.time, Token: c.Admin.Token, Account: c.Account, RequestId: c.RequestId, Status: o.Status, Replayed: o.Replayed,
	}
	switch action := c.Action.(type) {
	case *event.Command_Create:
		e.Action, e.Tier = actionCreate, action.Create.GetTier()
	case *event.Command_SetTier:
		e.Action, e.Tier = actionTier, action.SetTier.GetTier()
	case *event.Command_SetNextTier:
		e.Action, e.Tier = actionNextTier, action.SetNextTier.GetTier()
	case *event.Command_Grant:
		g := action.Grant
		e.Action, e.AmountMicros, e.ExpiresMs, e.Detail = actionGrant, g.GetAmountMicros(), g.GetExpiresMs(), g.GetReason()
	case *event.Command_Refund:
		e.Action, e.AmountMicros, e.Detail = actionRefund, action.Refund.GetAmountMicros(), action.Refund.GetReason()
	case *event.Command_Payment:
		e.Action, e.AmountMicros, e.Detail = actionPayment, num.Int64(action.Payment.GetCreditsMicros()), action.Payment.GetId()
	case *event.Command_Reverse:
		e.Action, e.AmountMicros, e.Detail = actionReverse, -num.Int64(action.Reverse.GetReversedMicros()), action.Reverse.GetId()
	case *event.Command_RotateKey:
		e.Action = actionKey
	case *event.Command_RevokeKey:
		e.Action, e.Detail = actionRevoke, apikey.ID(action.RevokeKey.GetKey())
	case *event.Command_Suspend:
		e.Action, e.Detail = actionSuspend, action.Suspend.GetReason()
	case *event.Command_Resume:
		e.Action, e.Detail = actionResume, action.Resume.GetReason()
	case *event.Command_Note:
		e.Action, e.Detail = action.Note.GetAction(), action.Note.GetDetail()
	}
	return e
}
