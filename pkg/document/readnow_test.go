package document_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
)

// TestReadsOfTheSameProcessAgreeWithMessages for every caller, and for everything in memory.
func TestReadsOfTheSameProcessAgreeWithMessages(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	engine := w.start()
	e := w.newEdge("edge")
	var items []string
	made := func(d *event.Document) string {
		items = append(items, e.want(event.OutcomeStatus_OK, create(alice, d)).Item)
		return items[len(items)-1]
	}
	changed := made(text("one"))
	e.want(event.OutcomeStatus_OK, retitle(alice, changed, "two"))
	private := text("private")
	private.Visibility = uint32(event.Private)
	made(private)
	burning := text("burns")
	burning.BurnAfterRead = true
	made(burning)
	locked := text("locked")
	locked.PasswordHash = []byte("hash")
	made(locked)
	gone := made(text("gone"))
	e.want(event.OutcomeStatus_OK, remove(alice, gone))
	repeated := keyed(create(alice, text("repeated")), "key", 1)
	e.want(event.OutcomeStatus_OK, repeated)

	reads := []*event.Read{{Item: "no id"}, {IdempotencyId: []byte("short")}, {Item: changed, IdempotencyId: repeated.IdempotencyId}}
	for _, item := range append(items, event.NewItemID()) {
		for _, requester := range []uint64{0, alice, bob} {
			for version := range uint64(4) {
				for _, bare := range []bool{false, true} {
					reads = append(reads, &event.Read{Item: item, Requester: requester, Version: version, WithoutContent: bare})
				}
			}
		}
		reads = append(reads, &event.Read{Item: item, Requester: alice, ListVersions: 5})
	}
	now := time.Now().UnixMilli()
	statuses, contents := map[event.OutcomeStatus]int{}, 0
	for _, read := range reads {
		sent, err := w.tryRead(&event.ReadBatch{NowMs: now, Reads: []*event.Read{read}})
		if err != nil {
			t.Fatal(err)
		}
		got := engine.ReadNow(0, read, e.sequence, now)
		if got == nil {
			continue
		}
		if !proto.Equal(got, sent[0]) {
			t.Errorf("%v: %v, by message %v", read, got, sent[0])
		}
		statuses[got.Status]++
		contents += len(got.GetDocument().GetContent().GetInline())
	}
	if statuses[event.OutcomeStatus_OK] == 0 || statuses[event.OutcomeStatus_NOT_FOUND] == 0 || contents == 0 {
		t.Errorf("%d reads were answered at once: %v with %d bytes", len(reads), statuses, contents)
	}

	own := &event.Read{Item: changed, Requester: alice}
	if engine.ReadNow(0, own, e.sequence+1<<40, now) != nil { // read leases are messages too
		t.Error("a state from before a write that the edge knows of is shown")
	}
	if engine.ReadNow(0, &event.Read{Item: event.NewItemID()}, 0, now) != nil {
		t.Error("a document that is not in memory is answered without a look at the read model")
	}
	w.stop(engine)
	if engine.ReadNow(0, own, 0, now) != nil {
		t.Error("a partition that is not served answers")
	}
}
