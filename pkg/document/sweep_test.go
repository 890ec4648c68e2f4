package document_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/views"
)

func blobbed(key string, size uint64) *event.Document {
	return &event.Document{Title: "f", ContentType: "text/plain", Content: &event.Content{Blob: key, SizeBytes: size}}
}

func TestFilesCountStorageOnceAndUntilTheirExpiry(t *testing.T) {
	w := newWorld(t, fold.Files())
	running := w.start()
	e := w.newEdge("edge1")
	upload := func(name string, expiresInMS int64) *event.Request {
		r := create(alice, &event.Document{Title: name, ContentType: "text/plain"})
		key := w.putBlob(r.Item, name, "content")
		r.GetCreate().Document.Content = &event.Content{Blob: key, SizeBytes: 7}
		r.GetCreate().ExpiresInMs = expiresInMS
		o := e.want(event.OutcomeStatus_OK, r)
		if o.Document.GetTitle() != name {
			t.Errorf("answered %v", o)
		}
		// Answered only once billing's journal holds it.
		for _, s := range w.settled() {
			if string(s.RequestId) == string(r.RequestId) && s.StorageDelta == 7 {
				return r
			}
		}
		t.Errorf("%s is answered before its storage is counted", name)
		return r
	}
	kept, deleted, expiring := upload("kept", 0), upload("deleted", 0), upload("expiring", 60_000)
	gone := remove(alice, deleted.Item)
	e.want(event.OutcomeStatus_OK, gone)
	key := func(r *event.Request) string { return r.GetCreate().Document.Content.Blob }
	eventually.True(t, "the deleted file's blob is gone", func() bool { return !w.hasBlob(key(deleted)) })
	expires := w.get(alice, expiring.Item).Document.GetExpiresMs()
	w.projected()
	w.stop(running)

	w.offset = time.Hour // the document has expired, and no request comes
	w.start()
	var expiry *event.Settlement
	eventually.True(t, "the expiry is settled", func() bool {
		for _, s := range w.settled() {
			if len(s.RequestId) == 0 {
				expiry = s
			}
		}
		return expiry != nil
	})
	if expiry.Account != alice || expiry.StorageDelta != -7 || expiry.StorageAtMs != expires {
		t.Errorf("expired at %d, settled %v", expires, expiry)
	}
	eventually.True(t, "the expired file's blob is gone", func() bool { return !w.hasBlob(key(expiring)) })
	w.projected()
	total := int64(0)
	for _, s := range w.settled() {
		total += s.StorageDelta
	}
	if total != 7 || !w.hasBlob(key(kept)) {
		t.Errorf("%d bytes are counted of one file of 7, there: %v", total, w.hasBlob(key(kept)))
	}
	if docs, err := w.views.Store.Load(t.Context(), "file", []string{kept.Item, deleted.Item, expiring.Item}, 0); err != nil || len(docs) != 1 {
		t.Errorf("the read model holds %d, %v", len(docs), err)
	}
}

func TestDeleteRemovesTheBlobsOfAllVersions(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	w.start()
	e := w.newEdge("edge1")
	for _, early := range []bool{true, false} { // all in one commit, or long since projected
		made := create(alice, text(""))
		var keys []string
		for _, name := range []string{"one", "two", "three"} {
			keys = append(keys, w.putBlob(made.Item, name, name))
		}
		made.GetCreate().Document = blobbed(keys[0], 3)
		made.GetCreate().Document.Owner = alice
		requests := []*event.Request{
			made,
			update(alice, made.Item, &event.Update{Content: &event.Content{Blob: keys[1], SizeBytes: 3}}),
			update(alice, made.Item, &event.Update{Content: &event.Content{Inline: []byte("small"), SizeBytes: 5}}),
			update(alice, made.Item, &event.Update{Content: &event.Content{Blob: keys[2], SizeBytes: 5}}),
		}
		if early {
			e.do(append(requests, remove(alice, made.Item))...)
		} else {
			e.do(requests...)
			w.projected()
			e.do(remove(alice, made.Item))
		}
		for _, key := range keys {
			eventually.True(t, "blob "+key+" is gone", func() bool { return !w.hasBlob(key) })
		}
		w.projected()
		ids := []string{made.Item + "/1", made.Item + "/2", made.Item + "/3"}
		if docs, err := w.views.Store.Load(t.Context(), "paste_versions", ids, 0); err != nil || len(docs) != 0 {
			t.Errorf("%d versions are left, %v", len(docs), err)
		}
	}
}

func TestBurnedBlobCanStillBeFetched(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	w.bounds.BurnGrace = time.Hour
	running := w.start()
	e := w.newEdge("edge1")
	made := create(alice, text(""))
	key := w.putBlob(made.Item, "large", "large")
	made.GetCreate().Document = blobbed(key, 5)
	made.GetCreate().Document.Owner, made.GetCreate().Document.BurnAfterRead = alice, true
	made.GetCreate().Document.Visibility = uint32(event.Public)
	e.do(made)
	if o := e.want(event.OutcomeStatus_OK, burn(bob, made.Item, 1)); o.Document.GetContent().GetBlob() != key {
		t.Errorf("burned: %v", o)
	}
	w.projected()
	if !w.hasBlob(key) {
		t.Error("it is gone before it could be fetched")
	}
	w.stop(running) // and the queue of the blob deleter is lost
	w.bounds.Sweep.OrphanAge = time.Nanosecond
	w.start()
	eventually.True(t, "it is gone", func() bool { return !w.hasBlob(key) })
}

func TestJournalIsPurgedOnceProjectedAndOld(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	running := w.start()
	e := w.newEdge("edge1")
	made := create(alice, text("x"))
	for _, r := range []*event.Request{made, retitle(alice, made.Item, "new")} {
		e.want(event.OutcomeStatus_OK, r)
	}
	w.projected()
	j := journal.Open(w.nc, event.Paste.Stream(0))
	if state, err := j.State(t.Context()); err != nil || state.Messages != 2 {
		t.Errorf("within the retention it holds %d, %v", state.Messages, err)
	}
	w.stop(running)
	w.bounds.Sweep.ContentRetention = time.Nanosecond
	running = w.start()
	eventually.True(t, "the journal is purged", func() bool {
		state, err := j.State(t.Context())
		return err == nil && state.Messages == 0
	})
	w.stop(running)
	w.start()
	e.want(event.OutcomeStatus_OK, retitle(alice, made.Item, "newer"))
	if a := w.get(alice, made.Item); a.Document.GetVersion() != 3 {
		t.Errorf("reads %v", a)
	}
}

func TestExpiredDocumentsAreNotThereEvenBeforeTheyAreSwept(t *testing.T) {
	w := newWorld(t, fold.QuickPastes())
	w.bounds.Sweep.ExpiryEvery = time.Hour
	w.start()
	e := w.newEdge("edge1")
	made := create(alice, text("x"))
	made.GetCreate().ExpiresInMs = 60_000
	e.want(event.OutcomeStatus_OK, made)
	if a := w.get(bob, made.Item); a.Status != event.OutcomeStatus_OK {
		t.Errorf("before: %v", a)
	}
	w.offset = 2 * time.Minute // the edge's clock
	if a := w.get(alice, made.Item); a.Status != event.OutcomeStatus_NOT_FOUND {
		t.Errorf("after: %v", a)
	}
	if l := w.list(&event.ListRequest{Account: alice, Limit: 10}); len(l.Documents) != 0 {
		t.Errorf("listed: %v", l)
	}
	e.want(event.OutcomeStatus_NOT_FOUND, remove(alice, made.Item))
	if strings.Contains(w.log.String(), "level=ERROR") {
		t.Error("something failed")
	}
}

// More outcomes are kept in 24 hours than a sweep deletes in one commit: it must continue until no old one is left.
func TestASweepDeletesAllOldOutcomes(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	w.bounds.Sweep.OutcomesEvery = time.Hour // at the start, then not again
	long := time.Now().Add(-25 * time.Hour)
	const old = 6001
	var ids []string
	for first := 0; first < old; first += 1000 {
		var b views.Batch
		for n := first; n < min(first+1000, old); n++ {
			ids = append(ids, w.putOutcome(&b, fmt.Sprintf("old %d", n), long))
		}
		if err := w.views.Store.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	var b views.Batch
	young := w.putOutcome(&b, "young", time.Now())
	if err := w.views.Store.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	w.start()
	eventually.NoError(t, "the old outcomes are gone", func() error {
		for chunk := range slices.Chunk(ids, views.MaxLoad) {
			docs, err := w.views.Store.Load(t.Context(), "paste_outcomes", chunk, views.Heads)
			if err != nil {
				return err
			}
			if len(docs) > 0 {
				return fmt.Errorf("%d are left", len(docs))
			}
		}
		return nil
	})
	if docs, err := w.views.Store.Load(t.Context(), "paste_outcomes", []string{young}, views.Heads); err != nil || len(docs) != 1 {
		t.Errorf("of the young one there are %d: %v", len(docs), err)
	}
}

// putOutcome adds the put of an outcome that was decided then, and returns its id.
func (w *world) putOutcome(b *views.Batch, key string, decided time.Time) string {
	w.t.Helper()
	head, err := event.Encode(&event.Outcome{Status: event.OutcomeStatus_OK, DecidedMs: decided.UnixMilli()})
	if err != nil {
		w.t.Fatal(err)
	}
	id := event.NewIdempotencyID([]byte("scope"), "POST", "/", key)
	b.Puts = append(b.Puts, views.Put{Collection: string(w.policy.Domain) + "_outcomes", Doc: views.Doc{
		ID: hex.EncodeToString(id[:]), Seq: 1, Head: head,
		Keys: views.Keys{{Name: "partition", Value: views.Int(0)}, {Name: "decided", Value: views.Int(decided.UnixMilli())}},
	}})
	return hex.EncodeToString(id[:])
}
