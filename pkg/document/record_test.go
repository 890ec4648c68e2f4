package document

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// creations are the changes of messages that created as many documents of one account.
func creations(documents int, title string) *changes {
	m := &message{sequence: 7}
	for n := range documents {
		m.writes = append(m.writes, write{id: fmt.Sprintf("id%010d", n), entry: newEntry(&event.Document{
			Id: fmt.Sprintf("id%010d", n), Owner: 1 << 60, Title: title, CreatedMs: int64(n), ExpiresMs: int64(n % 2),
			Content: &event.Content{Inline: []byte(fmt.Sprint("content ", n)), SizeBytes: 10},
		})})
	}
	return merge([]*message{m})
}

// TestPutsOfACommitShareNothing: the heads are longer than the buffer that a commit begins with.
func TestPutsOfACommitShareNothing(t *testing.T) {
	c := creations(100, strings.Repeat("t", 10*headBytes))
	c.outcomes[event.IdempotencyID{1}] = keptAt{outcome: &event.Outcome{Item: "x", DecidedMs: 5}, sequence: 7}
	c.kept = append(c.kept, event.IdempotencyID{1})
	b, err := c.encode(namesOf(event.Lite), 3)
	if err != nil || len(b.Puts) != 101 {
		t.Fatalf("%d puts, %v", len(b.Puts), err)
	}
	for n, p := range b.Puts[:100] {
		doc := c.writes[p.Doc.ID].entry.doc
		head, err := event.Encode(fold.Head(doc))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(p.Doc.Head, head) || !bytes.Equal(p.Doc.Body, doc.Content.Inline) || p.Doc.Seq != 7 {
			t.Errorf("%s is put as %v", p.Doc.ID, p)
		}
		want := views.Keys{
			{Name: keyPartition, Value: views.Int(3)},
			{Name: keyAccount, Value: accountValue(1 << 60)},
			{Name: keyCreated, Value: views.Int(doc.ListPosition())},
		}
		if n%2 == 1 {
			want = append(want, views.Key{Name: keyExpires, Value: views.Int(1)})
		}
		if fmt.Sprint(p.Doc.Keys) != fmt.Sprint(want) {
			t.Errorf("%s has keys %v, want %v", p.Doc.ID, p.Doc.Keys, want)
		}
	}
	if id, o, err := readOutcome(b.Puts[100].Doc); err != nil || id != (event.IdempotencyID{1}) || o.DecidedMs != 5 {
		t.Errorf("outcome %v of %v, %v", o, id, err)
	}
}

func TestACommitIsEncodedWithoutAnAllocationForEachDocument(t *testing.T) {
	c := creations(1000, "title")
	allocations := testing.AllocsPerRun(10, func() {
		if _, err := c.encode(namesOf(event.Lite), 3); err != nil {
			t.Fatal(err)
		}
	})
	if allocations > 20 {
		t.Errorf("%v allocations for 1000 documents", allocations)
	}
}
