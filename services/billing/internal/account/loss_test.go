package account

import (
	"strings"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// TestALossIsKeptAndDecidesNothing: an operator has accepted what a journal of documents has lost.
func TestALossIsKeptAndDecidesNothing(t *testing.T) {
	h := newHistory(t, plan.Published(10))
	send := func(kind Kind, l *event.Loss) {
		t.Helper()
		h.append(kind, &event.UsageBatch{Source: l.Stream, StampMs: h.now, Loss: l})
	}
	loss := &event.Loss{Stream: "LITE_3", First: 1, Last: 399, Actor: "ann", Logged: true}
	send(SettledLite, loss)
	if len(h.told) != 1 || h.told[0].Action != actionLoss || h.told[0].Token != "ann" || h.told[0].Detail != "LITE_3: messages 1 to 399" {
		t.Fatalf("%v", h.told)
	}
	send(SettledLite, loss)
	if len(h.told) != 1 || len(h.fold.Losses()) != 1 {
		t.Errorf("the same again: %v, %v", h.told, h.fold.Losses())
	}
	for name, bad := range map[string]struct {
		kind Kind
		loss *event.Loss
	}{
		"another domain's":  {SettledPaste, &event.Loss{Stream: "LITE_0", First: 1, Last: 2, Actor: "ann"}},
		"no journal's":      {SettledLite, &event.Loss{Stream: "LITE_x", First: 1, Last: 2, Actor: "ann"}},
		"billing's":         {SettledLite, &event.Loss{Stream: "BILLING_0", First: 1, Last: 2, Actor: "ann"}},
		"no first message":  {SettledLite, &event.Loss{Stream: "LITE_0", First: 0, Last: 2, Actor: "ann"}},
		"ends before it":    {SettledLite, &event.Loss{Stream: "LITE_0", First: 3, Last: 2, Actor: "ann"}},
		"nobody":            {SettledLite, &event.Loss{Stream: "LITE_0", First: 1, Last: 2}},
		"a name too long":   {SettledLite, &event.Loss{Stream: "LITE_0", First: 1, Last: 2, Actor: strings.Repeat("a", maxActorBytes+1)}},
		"an edge's subject": {Usage, &event.Loss{Stream: "LITE_0", First: 1, Last: 2, Actor: "ann"}},
	} {
		send(bad.kind, bad.loss)
		if len(h.fold.Losses()) != 1 {
			t.Errorf("%s is taken: %v", name, h.fold.Losses())
		}
	}
	send(SettledLite, &event.Loss{Stream: "LITE_0", First: 1, Last: 1, Actor: strings.Repeat("a", maxActorBytes)})
	if len(h.fold.Losses()) != 2 || len(h.told) != 1 {
		t.Errorf("the longest name and the shortest loss, for another journal's log: %v, %v", h.fold.Losses(), h.told)
	}
	at := h.fold.Losses()[0].TimeMs
	for key, want := range map[plan.QuotaKey]int{plan.LiteCreate: 2, plan.LiteGet: 0, plan.PastesCreate: 0} {
		if got := h.fold.LossesSince(uint32(key), at); len(got) != want {
			t.Errorf("%s: %v, want %d", key, got, want)
		}
	}
	if got := h.fold.LossesSince(uint32(plan.LiteCreate), at+1); len(got) != 0 {
		t.Errorf("of a later write: %v", got)
	}
	image, err := h.fold.Image()
	if err != nil {
		t.Fatal(err)
	}
	state := &event.BillingState{}
	if err := event.Decode(image.Encode(), state); err != nil {
		t.Fatal(err)
	}
	restored, err := Restore(state)
	if err != nil || len(restored.Losses()) != 2 || restored.Losses()[0].Last != 399 {
		t.Errorf("from a snapshot: %v", err)
	}
}

// TestOnlyTheLastLossesAreKept bounds the state.
func TestOnlyTheLastLossesAreKept(t *testing.T) {
	s := losses{base: newBase(1000)}
	for n := range uint64(maxLosses + 1) {
		s.lose(event.Lite, "LITE_0", &event.Loss{Stream: "LITE_0", First: n + 1, Last: n + 1, Actor: "ann"})
		if want := min(n+1, maxLosses); uint64(len(s.Losses())) != want {
			t.Fatalf("%d are kept, want %d", len(s.Losses()), want)
		}
	}
	if first := s.Losses()[0].First; first != 2 {
		t.Errorf("the oldest is %d", first)
	}
}
