package document_test

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
)

func (w *world) versions(r *event.Read) *event.ReadAnswer {
	w.t.Helper()
	return w.read(r)[0]
}

// TestVersionsAreListedNewestFirst lists versions that are decided and not projected, projected, and cached.
func TestVersionsAreListedNewestFirst(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	running := w.start()
	e := w.newEdge("edge1")
	made := create(alice, text("secret"))
	e.want(event.OutcomeStatus_OK, made)
	const count = 250
	var batch []*event.Request
	for n := 2; n <= count; n++ {
		u := &event.Update{Title: new(fmt.Sprint("title ", n)), Language: new(fmt.Sprint("lang", n))}
		u.Content = &event.Content{Inline: bytes.Repeat([]byte("s"), n), SizeBytes: uint64(n)}
		batch = append(batch, update(alice, made.Item, u))
		if len(batch) == 60 { // several versions per message
			e.do(batch...)
			batch = nil
		}
	}
	e.do(batch...)
	check := func(from string) {
		t.Helper()
		next := uint64(count)
		request := &event.Read{Item: made.Item, Requester: alice, ListVersions: 100}
		for page, size := range []int{100, 100, 50} {
			got := w.versions(request)
			if got.Status != event.OutcomeStatus_OK || len(got.Versions) != size || got.MoreVersions != (page < 2) || got.Document != nil {
				t.Fatalf("%s, page %d: %v, %d versions, more %v", from, page, got.Status, len(got.Versions), got.MoreVersions)
			}
			for _, v := range got.Versions {
				want := &event.Document{Version: next, Title: fmt.Sprint("title ", next), Language: fmt.Sprint("lang", next), Content: &event.Content{SizeBytes: next}}
				if next == 1 {
					want.Title, want.Language, want.Content.SizeBytes = "t", "go", 6
				}
				if v.UpdatedMs == 0 {
					t.Errorf("%s: version %d has no time", from, v.Version)
				}
				v.UpdatedMs = 0
				if !proto.Equal(v, want) {
					t.Fatalf("%s: listed %v, want %v", from, v, want)
				}
				next--
			}
			request.BelowVersion = next + 1
		}
		if beyond := w.versions(&event.Read{Item: made.Item, Requester: alice, ListVersions: 10, BelowVersion: 1}); len(beyond.Versions) != 0 || beyond.MoreVersions {
			t.Errorf("%s: below the first: %v", from, beyond)
		}
		if most := w.versions(&event.Read{Item: made.Item, Requester: alice, ListVersions: 1000}); len(most.Versions) != 100 {
			t.Errorf("%s: a page of %d", from, len(most.Versions))
		}
	}
	check("from memory")
	w.projected()
	w.stop(running)
	w.start()
	check("from the read model")
	check("again")
	// A new version does not change the pages after a cursor.
	e.want(event.OutcomeStatus_OK, retitle(alice, made.Item, "newest"))
	got := w.versions(&event.Read{Item: made.Item, Requester: alice, ListVersions: 3, BelowVersion: 4})
	if len(got.Versions) != 3 || got.Versions[0].Version != 3 || got.MoreVersions {
		t.Errorf("%v", got)
	}
	if got := w.versions(&event.Read{Item: made.Item, Requester: alice, ListVersions: 1}); got.Versions[0].Title != "newest" || !got.MoreVersions {
		t.Errorf("%v", got)
	}
}

func TestVersionsAreListedForTheOwnerOnly(t *testing.T) {
	w := newWorld(t, fold.QuickPastes())
	w.start()
	e := w.newEdge("edge1")
	made := func(owner uint64, change func(*event.Document)) string {
		d := text("x")
		change(d)
		r := create(owner, d)
		if owner == 0 {
			r.Charge = nil
		}
		e.want(event.OutcomeStatus_OK, r)
		return r.Item
	}
	private := made(alice, func(d *event.Document) { d.Visibility = uint32(event.Private) })
	burning := made(alice, func(d *event.Document) { d.BurnAfterRead = true })
	gone := made(alice, func(*event.Document) {})
	e.want(event.OutcomeStatus_OK, remove(alice, gone))
	expired := made(alice, func(d *event.Document) { d.ExpiresMs = 1 })
	for name, c := range map[string]struct {
		item   string
		reader uint64
		want   event.OutcomeStatus
	}{
		"unlisted, of another": {made(alice, func(*event.Document) {}), bob, event.OutcomeStatus_NOT_OWNER},
		"of nobody":            {made(0, func(*event.Document) {}), bob, event.OutcomeStatus_NOT_OWNER},
		"private":              {private, alice, event.OutcomeStatus_OK},
		"private, of another":  {private, bob, event.OutcomeStatus_NOT_FOUND},
		"burning":              {burning, alice, event.OutcomeStatus_OK},
		"burning, of another":  {burning, bob, event.OutcomeStatus_NOT_OWNER},
		"deleted":              {gone, alice, event.OutcomeStatus_NOT_FOUND},
		"expired":              {expired, alice, event.OutcomeStatus_NOT_FOUND},
		"never made":           {event.NewItemID(), alice, event.OutcomeStatus_NOT_FOUND},
		"no id":                {"x", alice, event.OutcomeStatus_NOT_FOUND},
	} {
		got := w.versions(&event.Read{Item: c.item, Requester: c.reader, ListVersions: 5})
		if got.Status != c.want || len(got.Versions) > 0 != (c.want == event.OutcomeStatus_OK) {
			t.Errorf("%s: %v, %d versions, want %v", name, got.Status, len(got.Versions), c.want)
		}
	}
	if still := w.get(alice, burning); still.Status != event.OutcomeStatus_OK {
		t.Errorf("a list has burned the document: %v", still.Status)
	}
}
