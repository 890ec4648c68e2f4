package account

import (
	"fmt"
	"slices"

	"quire.dev/pkg/event"
)

// keptCommand is the outcome of a command, kept for repeats.
type keptCommand struct {
	id      event.IdempotencyID
	body    uint64
	time    int64
	outcome *event.CommandOutcome
}

// keptCommands are the outcomes of the last CommandMillis.
type keptCommands struct {
	byID  map[event.IdempotencyID]*keptCommand
	queue fifo[*keptCommand]
}

// replay is the outcome for a repeat.
func (k *keptCommand) replay() *event.CommandOutcome {
	o := k.outcome
	if o.Status == event.CommandStatus_COMMAND_UNSPECIFIED {
		return o // of another part
	}
	return &event.CommandOutcome{
		Status: o.Status, Replayed: true, Tier: o.Tier, Plan: o.Plan, NextTier: o.NextTier, NextPlan: o.NextPlan, KeyVersion: o.KeyVersion, KeyCreatedMs: o.KeyCreatedMs,
		BalanceMicros: o.BalanceMicros, TimeMs: o.TimeMs, SuspendedMs: o.SuspendedMs, DeletesMs: o.DeletesMs,
		Webhook: o.Webhook, Alert: o.Alert, Key: o.Key, OldKeyExpiresMs: o.OldKeyExpiresMs, Cap: o.Cap,
	}
}

func (c *keptCommands) add(k *keptCommand) {
	c.byID[k.id] = k
	c.queue.push(k)
}

// trim forgets the outcomes that have been kept for CommandMillis.
func (c *keptCommands) trim(now int64) {
	for c.queue.len() > 0 && c.queue.first().time+CommandMillis <= now {
		delete(c.byID, c.queue.pop().id)
	}
}

func (c *keptCommands) turnBack(to int64) {
	for _, k := range c.queue.waiting() {
		k.time = min(k.time, to)
	}
}

// forgetInvalid forgets commands that the previous rules did not know, or refused. They changed nothing, so the new rules
// decide a retry under the same id.
func (c *keptCommands) forgetInvalid() {
	waiting := c.queue.waiting()
	c.queue = fifo[*keptCommand]{}
	for _, k := range waiting {
		if k.outcome.Status == event.CommandStatus_COMMAND_INVALID {
			delete(c.byID, k.id)
			continue
		}
		c.queue.push(k)
	}
}

func (c *keptCommands) states() (list []*event.CommandKept) {
	for _, k := range c.queue.waiting() {
		list = append(list, &event.CommandKept{
			IdempotencyId: slices.Clone(k.id[:]), BodyHash: k.body, TimeMs: k.time, Outcome: k.outcome,
		})
	}
	return list
}

func (c *keptCommands) restore(list []*event.CommandKept) error {
	for _, s := range list {
		if len(s.IdempotencyId) != 16 {
			return fmt.Errorf("%w: idempotency id of %d bytes", errSnapshot, len(s.IdempotencyId))
		}
		c.add(&keptCommand{id: event.IdempotencyID(s.IdempotencyId), body: s.BodyHash, time: s.TimeMs, outcome: s.Outcome})
	}
	return nil
}
