package partition

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/plan"
	"quire.dev/services/billing/internal/account"
)

// TestAWrongStateStopsThePartition: unlike an undecodable message it is not skipped, and the position does not move past it.
func TestAWrongStateStopsThePartition(t *testing.T) {
	p := New(Config{}, Deps{
		NC: journaltest.Start(t).Conn(t), Clock: time.Now, Turns: NewTurns(), Logger: slog.New(slog.DiscardHandler), Metrics: NewMetrics(nil),
	})
	now := time.Now()
	request := event.NewRequestID()
	fold := account.New()
	prices := account.PriceEvent(plan.Published(10))
	prices.StampMs = now.UnixMilli()
	for i, m := range []struct {
		kind account.Kind
		data event.Message
	}{
		{account.Prices, prices},
		{account.Commands, &event.CommandBatch{Source: "edge", Number: 1, StampMs: now.UnixMilli(), Commands: []*event.Command{
			{Account: 5, Action: &event.Command_Create{Create: &event.CreateAccount{Tier: uint32(plan.Pro), Key: &event.RotateKey{Fingerprint: 1}}}},
		}}},
		{account.Usage, &event.UsageBatch{Source: "edge", Number: 1, StampMs: now.UnixMilli(), Admissions: []*event.Admission{
			{RequestId: request[:], Account: 5, QuotaKey: uint32(plan.PastesGet), KeyVersion: 1, KeyFingerprint: 1},
		}}},
	} {
		message := account.Message{Sequence: uint64(i + 1), TimeNanos: now.UnixNano(), Kind: m.kind, Data: encoded(t, m.data)}
		if _, err := fold.Apply(message); err != nil {
			t.Fatal(err)
		}
	}
	image, err := fold.Image()
	if err != nil {
		t.Fatal(err)
	}
	state := &event.BillingState{}
	if err := event.Decode(image.Encode(), state); err != nil {
		t.Fatal(err)
	}
	if len(state.Accounts) != 1 || len(state.Accounts[0].Holds) != 1 {
		t.Fatalf("the state has no open hold: %v", state)
	}
	state.Accounts[0].Months[0].Usage = nil // in which the hold was counted
	if p.fold, err = account.Restore(state); err != nil {
		t.Fatal(err)
	}
	err = p.handle(t.Context(), journal.Message{
		Sequence: 4, Time: now, Subject: event.UsageSubject(0),
		Data: encoded(t, &event.UsageBatch{Source: "edge", Number: 2, StampMs: now.UnixMilli(), Settlements: []*event.Settlement{
			{RequestId: request[:], Result: event.Result_VOID, Account: 5, QuotaKey: uint32(plan.PastesGet)},
		}}),
	})
	if !errors.Is(err, account.ErrState) {
		t.Errorf("handled with %v", err)
	}
	if at := p.position.Get(); at != 0 {
		t.Errorf("it says that message %d is folded", at)
	}
}

func encoded(t *testing.T, m event.Message) []byte {
	t.Helper()
	data, err := event.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
