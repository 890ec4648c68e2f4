package accounts

import (
	"errors"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
)

// Command has billing execute an account command, and turns its refusals into errors.
func (s *Accounts) Command(c *endpoint.Call, cmd *event.Command) (*event.CommandOutcome, error) {
	id := c.ID()
	cmd.RequestId = id[:]
	if c.Admin != "" {
		cmd.Admin = &event.AdminAction{Token: c.Admin}
	}
	o, err := s.bus.Command(s.ctx, cmd)
	if err != nil {
		return nil, err
	}
	if o.Replayed {
		c.Set(endpoint.HeaderReplayed, "true")
	}
	switch o.Status {
	case event.CommandStatus_COMMAND_OK:
		return o, nil
	case event.CommandStatus_COMMAND_ACCOUNT_NOT_FOUND:
		return nil, endpoint.NotFound()
	case event.CommandStatus_COMMAND_ACCOUNT_EXISTS:
		return nil, EmailTaken()
	case event.CommandStatus_COMMAND_INSUFFICIENT_CREDITS:
		return nil, endpoint.FailedAt("amount", fault.InsufficientCredits, "The adjustment is larger than the balance.")
	case event.CommandStatus_COMMAND_NOT_REFUNDABLE:
		return nil, fault.New(fault.NotRefundable, "Only requests of this and last month that were served more than 10 minutes ago can be refunded, at most 1,000 of a month one by one. Grant credits instead.")
	case event.CommandStatus_COMMAND_OVER_REFUNDED:
		return nil, fault.New(fault.NotRefundable, "No more than this is left to refund or to take back.")
	case event.CommandStatus_COMMAND_PAYMENT_NOT_FOUND:
		return nil, fault.New(fault.NotFound, "No such payment of this account.")
	case event.CommandStatus_COMMAND_PAYMENT_MISMATCH:
		return nil, endpoint.FailedAt("payment", fault.PaymentMismatch, "This payment is already recorded with another amount of credits.")
	case event.CommandStatus_COMMAND_IDEMPOTENCY_MISMATCH:
		return nil, endpoint.IdempotencyMismatch()
	case event.CommandStatus_COMMAND_KEY_NOT_FOUND:
		return nil, fault.New(fault.NotFound, "No such API key, or it was revoked, replaced or has expired.")
	case event.CommandStatus_COMMAND_TOO_MANY_KEYS:
		return nil, tooManyKeys(cmd)
	case event.CommandStatus_COMMAND_KEY_NAME_TAKEN:
		return nil, endpoint.FailedAt("name", fault.NameTaken, "name is already used by another active API key. Choose another.")
	case event.CommandStatus_COMMAND_WEBHOOK_NOT_FOUND:
		return nil, endpoint.NotFound()
	case event.CommandStatus_COMMAND_TOO_MANY_WEBHOOKS:
		return nil, tooManyWebhooks()
	case event.CommandStatus_COMMAND_WEBHOOK_INVALID:
		return nil, balanceRequired() // all else was checked before
	case event.CommandStatus_COMMAND_INVALID:
		switch cmd.Action.(type) {
		case *event.Command_Note:
			return o, nil // it is stored, by instances of billing of which some don't know notes yet
		case *event.Command_CreateKey, *event.Command_UpdateKey, *event.Command_ReplaceKey, *event.Command_RevokeKey,
			*event.Command_SetSpendingCap:
			return nil, endpoint.Unavailable(ErrOldRules) // what they name was checked before
		case *event.Command_Suspend, *event.Command_Resume, *event.Command_DeleteAccount, *event.Command_KeepAccount,
			*event.Command_SetWebhook, *event.Command_DeleteWebhook, *event.Command_TestWebhook, *event.Command_SetTopUp:
			return nil, endpoint.Unavailable(ErrOldRules)
		}
		return nil, fault.New(fault.InvalidField, "Refused: it would exceed an account's limit of credits or grants, or its expiry has passed.")
	}
	return nil, endpoint.ErrUnknownOutcome
}

var ErrOldRules = errors.New("some instances of billing are of a version that does not know this command")

// tooManyKeys names the limit that the command has reached: a new key adds to the live ones, a replaced one to those that were
// replaced and are still valid.
func tooManyKeys(cmd *event.Command) error {
	e := fault.New(fault.TooManyKeys, "The account has %d active API keys. Revoke one first.", maxKeys)
	if cmd.GetReplaceKey() != nil {
		e = fault.New(fault.TooManyKeys, "The account has %d replaced API keys that are still valid. Revoke one, or rotate without an overlap.", maxKeys)
	}
	e.Limit = new(int64(maxKeys))
	return e
}
