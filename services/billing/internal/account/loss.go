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

// losses are the accepted losses of a fold.
type losses struct {
	*base
	list []*event.Loss // oldest first
}

// lose records a loss of one of the domain's journals, once.
func (s *losses) lose(domain event.Domain, source string, l *event.Loss) {
	if !isStream(l.Stream, domain) || l.First == 0 || l.First > l.Last || l.Actor == "" || len(l.Actor) > maxActorBytes {
		s.refuse(source, RefusedMalformed, 1)
		return
	}
	for _, known := range s.list {
		if known.Stream == l.Stream && known.First == l.First && known.Last == l.Last {
			return
		}
	}
	s.list = append(s.list, &event.Loss{
		Stream: l.Stream, First: l.First, Last: l.Last, Actor: l.Actor, Projected: l.Projected, TimeMs: s.time, Sequence: s.sequence, Logged: l.Logged,
	})
	if len(s.list) > maxLosses {
		s.list = s.list[1:]
	}
	if !l.Logged {
		return
	}
	detail := fmt.Sprintf("%s: messages %d to %d", l.Stream, l.First, l.Last)
	s.effects.Admin = append(s.effects.Admin, &event.AdminEntry{
		TimeMs: s.time, Token: l.Actor, Action: actionLoss, Status: event.CommandStatus_COMMAND_OK, Detail: detail,
	})
}

// Losses are the accepted losses, oldest first. They must not be changed.
func (s *losses) Losses() []*event.Loss { return s.list[:len(s.list):len(s.list)] }

// LossesSince returns the losses, accepted at that time or later, of the journals that may have had a write of the quota key.
func (s *losses) LossesSince(quotaKey uint32, millis int64) (list []*event.Loss) {
	for _, l := range s.list {
		if domain := domainOf(plan.QuotaKey(quotaKey)); domain != "" && l.TimeMs >= millis && isStream(l.Stream, domain) {
			list = append(list, l)
		}
	}
	return list
}
