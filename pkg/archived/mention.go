package archived

import (
	"quire.dev/pkg/event"
	"quire.dev/pkg/segment"
)

// mention adds the accounts, networks and requests of a message. One that does not decode has none.
func mention(kind byte, data []byte, found *segment.Mentions) {
	add := func(id uint64, anonymous bool, request []byte) {
		switch {
		case anonymous:
			found.Networks = append(found.Networks, id)
		case id != 0:
			found.Accounts = append(found.Accounts, id)
		}
		if id, err := event.RequestIDFrom(request); err == nil {
			found.Request(id.UnixMilli())
		}
	}
	if kind == event.KindCommands {
		var batch event.CommandBatch
		if event.Decode(data, &batch) == nil {
			for _, c := range batch.Commands {
				add(c.Account, false, c.RequestId)
			}
		}
		return
	}
	var batch event.UsageBatch
	if kind == event.KindPrices || event.Decode(data, &batch) != nil {
		return
	}
	for _, a := range batch.Admissions {
		add(a.Account, a.Anonymous, a.RequestId)
	}
	for _, s := range batch.Settlements {
		add(s.Account, s.Anonymous, s.RequestId)
	}
}
