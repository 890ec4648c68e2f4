package account

import (
	"fmt"
	"slices"
	"testing"

	"quire.dev/pkg/alert"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// TestContentIsAnnouncedOnce: a verdict asks for it only for a write of an account with a webhook that wants it, each settlement
// notifies once, and each domain of its own content.
func TestContentIsAnnouncedOnce(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Max)
	h.account(bob, plan.Max)
	h.webhook(webhookOf(bob, 9, alert.Bits()&^alert.ContentBits(), 1))
	write := func(id uint64, key plan.QuotaKey) (*event.Admission, *event.Verdict) {
		a := h.admission(id, key)
		a.Write = true
		return a, h.usage([]*event.Admission{a}, nil).Verdicts[0]
	}
	asks := func(id uint64, key plan.QuotaKey, want bool) *event.Admission {
		t.Helper()
		a, v := write(id, key)
		if v.Decision != admitted || v.Announce != want {
			t.Fatalf("%v, want announce %v", v, want)
		}
		return a
	}
	asks(alice, plan.PastesCreate, false)
	h.webhook(webhookOf(alice, 7, alert.ContentBits(), 0))
	h.webhook(webhookOf(alice, 8, alert.Bit(event.AlertType_ALERT_PASTE_DELETED), 0))
	asks(bob, plan.PastesCreate, false)
	if v := h.usage([]*event.Admission{h.admission(alice, plan.PastesGet)}, nil).Verdicts[0]; v.Announce {
		t.Fatalf("a read: %v", v)
	}
	sequence := uint64(0)
	settle := func(a *event.Admission, action event.ContentAction) *event.Settlement {
		s := settlementOf(a, event.Result_SERVED)
		s.Content = &event.ContentChange{Action: action, Item: "theItem", Version: 3, Visibility: uint32(event.Private), SizeBytes: 5, ExpiresMs: 6}
		sequence++
		h.domain(sequence, s)
		return s
	}
	seen := 0
	wants := func(want ...string) {
		t.Helper()
		var got []string
		for _, a := range h.alerts[seen:] {
			got = append(got, fmt.Sprint(alert.TypeOf(a.Type).Name, " ", a.Content.GetItem(), " ", a.Webhooks))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
		seen = len(h.alerts)
	}
	s := settle(asks(alice, plan.PastesCreate, true), event.ContentAction_CONTENT_CREATED)
	wants("paste.created theItem [7]")
	h.domain(sequence, s) // again, after a crash
	wants()
	settle(asks(alice, plan.PastesDelete, true), event.ContentAction_CONTENT_DELETED)
	settle(asks(alice, plan.LiteUpdate, true), event.ContentAction_CONTENT_UPDATED)
	settle(asks(alice, plan.FilesUpload, true), event.ContentAction_CONTENT_CREATED)
	wants("paste.deleted theItem [7 8]", "pasteLite.updated theItem [7]", "file.created theItem [7]")
	settle(asks(alice, plan.FilesUpload, true), event.ContentAction_CONTENT_BURNED) // no such type
	settle(asks(alice, plan.FilesUpload, true), 99)
	settle(asks(bob, plan.PastesCreate, false), event.ContentAction_CONTENT_CREATED)
	wants()

	// A burn is no request of its owner.
	sequence++
	h.append(SettledLite, &event.UsageBatch{Source: event.Lite.Stream(0), StampMs: h.now, Settlements: []*event.Settlement{
		{Account: alice, Sequence: sequence, StoredMs: h.now, Content: &event.ContentChange{Action: event.ContentAction_CONTENT_BURNED, Item: "other"}},
		{Account: 12345, Sequence: sequence, StoredMs: h.now, Content: &event.ContentChange{Action: event.ContentAction_CONTENT_BURNED, Item: "nobody's"}},
	}})
	wants("pasteLite.burned other [7]")
	// An edge can't announce.
	a := asks(alice, plan.PastesCreate, true)
	forged := settlementOf(a, event.Result_SERVED)
	forged.Content = &event.ContentChange{Action: event.ContentAction_CONTENT_CREATED, Item: "forged"}
	h.usage(nil, []*event.Settlement{forged})
	wants()
	h.replaysAlerts()
	h.sound()
}

// TestEachTypeOfContentHasABit: what a webhook may subscribe to is what a domain can report.
func TestEachTypeOfContentHasABit(t *testing.T) {
	var bits uint32
	for _, domain := range event.Documents() {
		for action := range event.ContentAction_name {
			if kind := alert.ContentType(domain, event.ContentAction(action)); kind != event.AlertType_ALERT_UNSPECIFIED {
				bits |= alert.Bit(kind)
			}
		}
	}
	if bits != alert.ContentBits() || bits&^alert.Bits() != 0 {
		t.Errorf("%b, want %b of %b", bits, alert.ContentBits(), alert.Bits())
	}
}
