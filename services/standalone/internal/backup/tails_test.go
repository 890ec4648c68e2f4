package backup

import (
	"maps"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
)

func encoded(t *testing.T, m event.Message) []byte {
	t.Helper()
	data, err := event.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A write is an admission in message 5 of billing's journal, a document in message 7 of its own, and a settlement in message 9 of
// billing's. Wherever the journals end, the cut has all of it, or neither the document nor the settlement.
func TestTheCutKeepsTheMessagesOfAWriteTogether(t *testing.T) {
	t.Parallel()
	billing, lite := stream{"BILLING_1", event.Billing, 1}, stream{"LITE_2", event.Lite, 2}
	id := event.NewRequestID()
	admission := journal.Message{Sequence: 5, Subject: event.UsageSubject(1), Data: encoded(t, &event.UsageBatch{
		Source: "edge", Number: 1, Admissions: []*event.Admission{{RequestId: id[:]}},
	})}
	again := journal.Message{Sequence: 6, Subject: admission.Subject, Data: admission.Data} // which billing skips
	document := journal.Message{Sequence: 7, Subject: event.Lite.RequestSubject(2), Data: encoded(t, &event.RequestBatch{
		Source: "edge", Number: 1, Requests: []*event.Request{{RequestId: id[:], Charge: &event.Charge{}, Action: &event.Request_Create{Create: &event.Create{}}}},
	})}
	settlement := journal.Message{Sequence: 9, Subject: event.Lite.SettleSubject(1), Data: encoded(t, &event.UsageBatch{
		Source: "LITE_2", Settlements: []*event.Settlement{{RequestId: id[:], Sequence: 7}, {Sequence: 8}},
	})}
	for _, c := range []struct{ billing, lite, wantBilling, wantLite uint64 }{
		{4, 6, 4, 6},  // nothing of it
		{4, 7, 4, 6},  // a document without its admission would be free
		{5, 7, 5, 7},  // its settlement is under way
		{9, 6, 8, 6},  // a settlement without its document would be paid for nothing
		{9, 7, 8, 7},  // the settlement of message 8 waits with it
		{9, 8, 9, 8},  // all of it
		{12, 4, 8, 4}, // later messages go with it
		{4, 12, 4, 6}, // likewise
		{20, 20, 20, 20},
	} {
		tails := tails{needs: map[string][]need{}, admitted: map[event.RequestID]need{}, erased: map[uint64]need{}}
		for _, m := range []journal.Message{admission, again, settlement} {
			tails.billing(billing, m)
		}
		tails.document(lite, document)
		got := map[string]uint64{"BILLING_1": c.billing, "LITE_2": c.lite}
		cut(got, tails.needs)
		if want := map[string]uint64{"BILLING_1": c.wantBilling, "LITE_2": c.wantLite}; !maps.Equal(got, want) {
			t.Errorf("journals that end at %d and %d are cut at %v, want %v", c.billing, c.lite, got, want)
		}
	}
	for _, c := range []struct {
		cut  uint64
		want int
	}{{6, 0}, {7, 1}, {8, 2}} {
		got := 0
		if batch := underWay(billing, settlement, map[string]uint64{"LITE_2": c.cut}); batch != nil {
			got = len(batch.Settlements)
		}
		if got != c.want {
			t.Errorf("with a cut at %d, %d settlements are under way, want %d", c.cut, got, c.want)
		}
	}
	// What somebody else publishes is no settlement.
	for _, m := range []journal.Message{
		{Subject: admission.Subject, Data: settlement.Data},
		{Subject: event.Lite.SettleSubject(0), Data: settlement.Data},
		{Subject: event.Paste.SettleSubject(1), Data: settlement.Data},
		{Subject: settlement.Subject, Data: []byte("x")},
	} {
		if batch := settlementsOf(billing, m); batch != nil {
			t.Errorf("%s: %v", m.Subject, batch)
		}
	}
}

// The deletion of an erased account's documents needs the erasure.
func TestTheCutKeepsAnErasureBeforeItsDeletions(t *testing.T) {
	t.Parallel()
	tails := tails{needs: map[string][]need{}, admitted: map[event.RequestID]need{}, erased: map[uint64]need{}}
	tails.billing(stream{"BILLING_0", event.Billing, 0}, journal.Message{Sequence: 5, Subject: event.AccountSubject(0), Data: encoded(t, &event.CommandBatch{
		Commands: []*event.Command{{Account: 11, Action: &event.Command_EraseAccount{EraseAccount: &event.EraseAccount{}}}},
	})})
	tails.document(stream{"LITE_0", event.Lite, 0}, journal.Message{Sequence: 3, Subject: event.Lite.RequestSubject(0), Data: encoded(t, &event.RequestBatch{
		Requests: []*event.Request{{Account: 11, Action: &event.Request_Delete{Delete: &event.Delete{}}}},
	})})
	ends := map[string]uint64{"BILLING_0": 4, "LITE_0": 3}
	if cut(ends, tails.needs); ends["LITE_0"] != 2 {
		t.Errorf("the cut is %v", ends)
	}
}
