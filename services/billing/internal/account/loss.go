package account

import (
	"fmt"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// Losses are ranges of messages that document journals have lost, accepted by an operator. The document's service records them here,
// since this journal is kept forever, and in every partition, since any account's writes may be among them. They affect no decision.

const (
	maxLosses     = 256 // kept; the oldest are forgotten
	maxActorBytes = 100
	actionLoss    = "journal.loss"
)

// lose records a loss of one of the domain's journals, once.
func (f *Fold) lose(domain event.Domain, source string, l *event.Loss) {
	if !isStream(l.Stream, domain) || l.First == 0 || l.First > l.Last || l.Actor == "" || len(l.Actor) > maxActorBytes {
		f.refuse(source, RefusedMalformed, 1)
		return
	}
	for _, known := range f.losses {
		if known.Stream == l.Stream && known.First == l.First && known.Last == l.Last {
			return
		}
	}
	f.losses = append(f.losses, &event.Loss{
		Stream: l.Stream, First: l.First, Last: l.Last, Actor: l.Actor, Projected: l.Projected, TimeMs: f.time, Sequence: f.sequence, Logged: l.Logged,
	})
	if len(f.losses) > maxLosses {
		f.losses = f.losses[1:]
	}
	if !l.Logged {
		return
	}
	detail := fmt.Sprintf("%s: messages %d to %d", l.Stream, l.First, l.Last)
	f.effects.Admin = append(f.effects.Admin, &event.AdminEntry{
		TimeMs: f.time, Token: l.Actor, Action: actionLoss, Status: event.CommandStatus_COMMAND_OK, Detail: detail,
	})
}

// Losses are the accepted losses, oldest first. They must not be changed.
func (f *Fold) Losses() []*event.Loss { return f.losses[:len(f.losses):len(f.losses)] }

// LossesSince returns the losses, accepted at that time or later, of the journals that may have had a write of the quota key.
func (f *Fold) LossesSince(quotaKey uint32, millis int64) (list []*event.Loss) {
	for _, l := range f.losses {
		if domain := domainOf(plan.QuotaKey(quotaKey)); domain != "" && l.TimeMs >= millis && isStream(l.Stream, domain) {
			list = append(list, l)
		}
	}
	return list
}
