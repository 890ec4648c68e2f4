package document_test

import (
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// bitFlips flips a bit of every content that is loaded.
type bitFlips struct {
	views.Store
	on atomic.Bool
}

func (b *bitFlips) Load(ctx context.Context, collection string, ids []string, parts views.Parts) ([]views.Doc, error) {
	docs, err := b.Store.Load(ctx, collection, ids, parts)
	for i := range docs {
		if b.on.Load() && len(docs[i].Body) > 0 {
			docs[i].Body = slices.Clone(docs[i].Body)
			docs[i].Body[0] ^= 1
		}
	}
	return docs, err
}

func hashed(s string) *event.Document {
	d, sum := text(s), sha256.Sum256([]byte(s))
	d.Content.Sha256 = sum[:]
	return d
}

// TestDamagedContentIsNotShown: neither by a read, nor after an update that keeps it, nor as an earlier version, nor by a burn.
func TestDamagedContentIsNotShown(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	flips := &bitFlips{Store: w.views}
	running := w.launch(flips)
	w.await(running)
	e := w.newEdge("edge1")
	made, other, burning := create(alice, hashed("first")), create(alice, hashed("of another")), create(alice, hashed("once"))
	burning.GetCreate().Document.BurnAfterRead = true
	burning.GetCreate().Document.Visibility = uint32(event.Public)
	for _, r := range []*event.Request{made, other, burning} {
		e.want(event.OutcomeStatus_OK, r)
	}
	second := hashed("second").Content
	e.want(event.OutcomeStatus_OK, update(alice, made.Item, &event.Update{Content: second}))
	e.want(event.OutcomeStatus_OK, update(alice, made.Item, &event.Update{Content: hashed("third").Content}))
	w.projected()
	w.stop(running) // nothing is in memory any more

	flips.on.Store(true)
	running = w.launch(flips)
	w.await(running)
	hidden := func(what string, read *event.Read) {
		t.Helper()
		if a := w.read(read)[0]; !a.Unavailable || a.Document != nil {
			t.Errorf("%s: %v", what, a)
		}
	}
	whole := &event.Read{Item: made.Item, Requester: alice}
	hidden("a read", whole)
	hidden("another read, from memory", whole)
	hidden("an earlier version", &event.Read{Item: made.Item, Requester: alice, Version: 2})
	hidden("a read that would burn", &event.Read{Item: burning.Item, Requester: bob})
	if a := w.read(&event.Read{Item: made.Item, Requester: alice, WithoutContent: true})[0]; a.Document.GetVersion() != 3 {
		t.Errorf("what is not damaged: %v", a)
	}
	e.want(event.OutcomeStatus_OK, retitle(alice, made.Item, "new title"))
	e.want(event.OutcomeStatus_OK, retitle(alice, other.Item, "new title"))
	hidden("a read after an update of the title", whole)
	hidden("a read after an update, never read before", &event.Read{Item: other.Item, Requester: alice})
	hidden("the version before that", &event.Read{Item: made.Item, Requester: alice, Version: 3})
	if !strings.Contains(w.log.String(), "damaged") {
		t.Error("operators are not told")
	}
	e.want(event.OutcomeStatus_OK, update(alice, other.Item, &event.Update{Content: hashed("mended").Content}))
	if a := w.get(alice, other.Item); string(a.Document.GetContent().GetInline()) != "mended" {
		t.Errorf("after new content: %v", a)
	}
	w.projected()
	w.stop(running)
}
