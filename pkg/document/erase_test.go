package document_test

import (
	"testing"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/rpc"
)

func (w *world) erase(account uint64) (*event.EraseAnswer, error) {
	w.t.Helper()
	data, err := event.Encode(&event.EraseRequest{Account: account})
	if err != nil {
		w.t.Fatal(err)
	}
	answer := &event.EraseAnswer{}
	reply, err := rpc.Call(w.t.Context(), w.nc, w.policy.Domain.EraseSubject(0), data)
	if err == nil {
		err = event.Decode(reply, answer)
	}
	return answer, err
}

// TestTheDocumentsOfAnErasedAccountGo with their blobs and their storage, page by page, and nobody else's.
func TestTheDocumentsOfAnErasedAccountGo(t *testing.T) {
	w := newWorld(t, fold.Files())
	w.start()
	e := w.newEdge("edge1")
	upload := func(account uint64) (*event.Request, string) {
		r := create(account, &event.Document{Title: "f", ContentType: "text/plain"})
		key := w.putBlob(r.Item, "f", "content")
		r.GetCreate().Document.Content = &event.Content{Blob: key, SizeBytes: 7}
		return r, key
	}
	var requests []*event.Request
	var keys []string
	const total = 130 // more than a page
	for range total {
		r, key := upload(alice)
		requests, keys = append(requests, r), append(keys, key)
	}
	for _, r := range requests {
		e.want(event.OutcomeStatus_OK, r)
	}
	others, otherKey := upload(bob)
	e.want(event.OutcomeStatus_OK, others)
	if _, err := w.erase(0); err == nil {
		t.Error("the documents without an owner are erased")
	}
	calls := 0
	eventually.True(t, "none is left", func() bool {
		answer, err := w.erase(alice)
		if err != nil {
			t.Fatal(err)
		}
		calls++
		return answer.Deleting == 0
	})
	if calls < 3 {
		t.Errorf("%d documents in %d calls", total, calls)
	}
	if left := w.list(&event.ListRequest{Account: alice, Limit: 10}); len(left.Documents) != 0 {
		t.Errorf("left are %v", left.Documents)
	}
	eventually.True(t, "the blobs are gone", func() bool {
		for _, key := range keys {
			if w.hasBlob(key) {
				return false
			}
		}
		return true
	})
	if w.get(bob, others.Item).Status != event.OutcomeStatus_OK || !w.hasBlob(otherKey) {
		t.Error("another account's file is gone too")
	}
	stored := map[uint64]int64{}
	for _, s := range w.settled() {
		stored[s.Account] += s.StorageDelta
	}
	if stored[alice] != 0 || stored[bob] != 7 {
		t.Errorf("stored are %v", stored)
	}
}
