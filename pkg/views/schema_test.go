package views_test

import (
	"errors"
	"fmt"
	"testing"

	"quire.dev/pkg/views"
)

func TestDocumentsAndBatchesAreTakenUpToTheirBounds(t *testing.T) {
	schema, err := views.NewSchema([]views.Collection{{Name: "items"}})
	if err != nil {
		t.Fatal(err)
	}
	d := views.Doc{ID: "id", Seq: 1}
	d.Body = make([]byte, views.MaxDocBytes-d.SizeBytes())
	if err := schema.CheckDoc("items", d); err != nil {
		t.Errorf("a document of %d bytes: %v", d.SizeBytes(), err)
	}
	larger := d
	larger.Head = []byte{1}
	if err := schema.CheckDoc("items", larger); !errors.Is(err, views.ErrTooLarge) {
		t.Errorf("a document of %d bytes: %v, want ErrTooLarge", larger.SizeBytes(), err)
	}

	var b views.Batch // its documents share one body
	for i := 0; b.SizeBytes()+d.SizeBytes() < views.MaxBatchBytes; i++ {
		d.ID = fmt.Sprintf("%02d", i)
		b.Puts = append(b.Puts, views.Put{Collection: "items", Doc: d})
	}
	rest := views.Doc{ID: "rest"}
	rest.Body = d.Body[:views.MaxBatchBytes-b.SizeBytes()-rest.SizeBytes()]
	b.Puts = append(b.Puts, views.Put{Collection: "items", Doc: rest})
	if err := schema.CheckBatch(b); err != nil || b.SizeBytes() != views.MaxBatchBytes {
		t.Errorf("a batch of %d bytes: %v", b.SizeBytes(), err)
	}
	b.Puts[len(b.Puts)-1].Doc.Head = []byte{1}
	if err := schema.CheckBatch(b); !errors.Is(err, views.ErrTooLarge) {
		t.Errorf("a batch of %d bytes: %v, want ErrTooLarge", b.SizeBytes(), err)
	}
}
