package document_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
)

// settledOn counts the settlements on each subject of a billing journal, and holds them to the order of their sequences.
func (w *world) settledOn(partition int) map[string]int {
	w.t.Helper()
	billing := journal.Open(w.nc, event.Billing.Stream(partition))
	last, err := billing.LastSequence(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	count := map[string]int{}
	var before uint64
	err = billing.Replay(w.t.Context(), 0, last, func(m journal.Message) error {
		if m.Subject == event.PricesSubject(partition) {
			return nil
		}
		batch := &event.UsageBatch{}
		if err := event.Decode(m.Data, batch); err != nil {
			return err
		}
		for _, s := range batch.Settlements {
			if s.Sequence < before {
				w.t.Errorf("%d is settled after %d", s.Sequence, before)
			}
			before = s.Sequence
			count[m.Subject]++
		}
		return nil
	}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return count
}

// TestADomainSettlesOnItsOwnSubjectOnly: billing takes its settlements nowhere else.
func TestADomainSettlesOnItsOwnSubjectOnly(t *testing.T) {
	w := newWorld(t, fold.Files())
	running := w.start()
	e := w.newEdge("edge1")
	first, second := create(alice, text("x")), create(alice, text("y"))
	e.want(event.OutcomeStatus_OK, first)
	w.stop(running)
	w.start()
	e.want(event.OutcomeStatus_OK, second)
	w.settlementsOf(first, second)
	if on := w.settledOn(0); len(on) != 1 || on[event.File.SettleSubject(0)] < 2 {
		t.Errorf("settled on %v", on)
	}
}

// TestARedirectedJournalIsNoRequest: a service with the right to create consumers of its own stream makes one deliver to the
// subject of this journal. NATS stores these messages. They are no requests.
func TestARedirectedJournalIsNoRequest(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	w.ensure(event.Lite)
	w.start()
	e := w.newEdge("edge1")
	forged, own := create(alice, text("forged")), create(alice, text("own"))
	config := fmt.Sprintf(`{"stream_name":"LITE_0","config":{"name":"x","deliver_subject":%q,"deliver_policy":"all","ack_policy":"none"}}`, event.Paste.RequestSubject(0))
	if m, err := w.nc.Request("$JS.API.CONSUMER.CREATE.LITE_0.x", []byte(config), 10*time.Second); err != nil || strings.Contains(string(m.Data), `"error"`) {
		t.Fatalf("make a consumer: %v, %s", err, m.Data)
	}
	if _, err := w.nc.Request(event.Lite.RequestSubject(0), e.encode(forged), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "it is stored", func() bool {
		last, err := journal.Open(w.nc, event.Paste.Stream(0)).LastSequence(t.Context())
		return err == nil && last > 0
	})
	e.want(event.OutcomeStatus_OK, own)
	if a := w.get(alice, forged.Item); a.Document != nil {
		t.Errorf("a request that came from another journal was carried out: %v", a)
	}
	if !strings.Contains(w.log.String(), "another journal's subject") {
		t.Error("it is not told")
	}
}

// TestSettlementsThatNobodyWaitsForShareABatch: they leave with one that an answer waits for.
func TestSettlementsThatNobodyWaitsForShareABatch(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	w.bounds.SettleDelay = time.Hour
	w.start()
	e := w.newEdge("edge")
	requests := []*event.Request{create(alice, text("a")), create(alice, text("b")), create(alice, text("c"))}
	for _, r := range requests {
		e.want(event.OutcomeStatus_OK, r)
	}
	if early := w.settled(); len(early) > 0 {
		t.Errorf("settled before anything waited for it: %v", early)
	}
	void := retitle(alice, event.NewItemID(), "title")
	e.want(event.OutcomeStatus_NOT_FOUND, void) // answered once it is settled
	w.settlementsOf(append(requests, void)...)
	last, err := journal.Open(w.nc, event.Billing.Stream(0)).LastSequence(t.Context())
	if err != nil || last != 1 {
		t.Errorf("%d messages in the journal of billing, %v; want one batch", last, err)
	}
}

// TestSettlementsOfAPartitionThatStopsAreStored: at once, however long they would have waited.
func TestSettlementsOfAPartitionThatStopsAreStored(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	w.bounds.SettleDelay = time.Hour
	engine := w.start()
	made := create(alice, text("a"))
	w.newEdge("edge").want(event.OutcomeStatus_OK, made)
	w.stop(engine)
	w.settlementsOf(made)
}
