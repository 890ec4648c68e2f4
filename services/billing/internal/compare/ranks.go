package compare

import (
	"fmt"
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/projection"
)

// ranks gives rows their keys. The ids of ledger rows and the positions of events end with an ordinal within their message,
// which the fold of a part does not know. There a row's rank among those of its account and message replaces it.
type ranks struct {
	exact bool
	last  map[string]rank // by table and account
}

type rank struct {
	sequence uint64
	count    int
}

// key returns the row's identity within its table.
func (r *ranks) key(t table, doc views.Doc) string {
	if r.exact || t != ledger && t != agedLedger && t != events || len(doc.ID) < accountDigits {
		return doc.ID
	}
	owner := doc.ID[:accountDigits]
	if r.last == nil {
		r.last = map[string]rank{}
	}
	of := t.name() + owner
	at := r.last[of]
	if at.sequence == doc.Seq {
		at.count++
	} else {
		at = rank{sequence: doc.Seq}
	}
	r.last[of] = at
	return fmt.Sprintf("%s.%d.%d", owner, at.sequence, at.count)
}

// normal returns the row without what the fold of a part does not know.
func (r *ranks) normal(t table, doc views.Doc) views.Doc {
	if r.exact || t != ledger && t != agedLedger && t != events {
		return doc
	}
	if t == agedLedger {
		return projection.WithoutOrdinals(doc)
	}
	var m event.Message
	switch t {
	case ledger:
		row := &event.LedgerEntry{}
		if event.Decode(doc.Head, row) != nil {
			return doc
		}
		row.Id = account.WithoutLedgerOrdinal(row.Id)
		for _, e := range row.Later {
			e.Id = account.WithoutLedgerOrdinal(e.Id)
		}
		m = row
	default:
		a := &event.Alert{}
		if event.Decode(doc.Head, a) != nil {
			return doc
		}
		a.Position = account.WithoutLedgerOrdinal(a.Position)
		m = a
	}
	if head, err := event.Encode(m); err == nil {
		doc.Head = head
	}
	doc.ID, doc.Keys = account.WithoutLedgerOrdinal(doc.ID), slices.Clone(doc.Keys)
	for i, key := range doc.Keys {
		if position, isText := key.Value.Any().(string); isText && key.Name == "position" {
			doc.Keys[i].Value = views.String(account.WithoutLedgerOrdinal(position))
		}
	}
	return doc
}
