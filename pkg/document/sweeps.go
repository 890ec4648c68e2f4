package document

import (
	"context"
	"slices"

	"quire.dev/pkg/document/sweep"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/views"
)

// sweeps is the partition as its sweeps know it.
func (s *scope) sweeps(j *journal.Journal) *sweep.Config {
	b := s.cfg.Bounds
	return &sweep.Config{
		Domain: s.cfg.Policy.Domain, Partition: s.number, Expiring: s.names.byExpiry(), Outcomes: s.names.byDecision(),
		Offset: s.cfg.Offset, Bounds: b.Sweep, CallWait: b.ViewWait, EraseWait: b.ReadWait,
		NC: s.deps.NC, Files: s.deps.Shared.Files, Journal: j, Journals: s.metrics.journals, Views: s.deps.Views, Blobs: s.deps.Blobs, Clock: s.deps.Clock, Logger: s.log,
		Failures: s.metrics.failures, Swept: s.metrics.swept,
	}
}

// blobNames finds the blobs that documents name, for the sweep of those that none does.
type blobNames struct {
	*scope
	model  *readModel
	memory *memory
}

// of calls name with the key of each blob that the documents with these ids, or their earlier versions, name. It asks the read
// model once for all documents, and once for all versions or each views.MaxLoad of them.
func (b *blobNames) of(ctx context.Context, ids []string, name func(key string)) error {
	nameBlob := func(d *event.Document) {
		if key := d.GetContent().GetBlob(); key != "" {
			name(key)
		}
	}
	var documents, versions []string // not in memory
	known := func(id string, d *event.Document) {
		if d == nil {
			return
		}
		nameBlob(d)
		for v := max(d.FirstVersionKept, 1); v < d.Version; v++ {
			id := versionID(id, v)
			if e, _ := b.memory.get(id); e != nil {
				nameBlob(e.doc)
			} else {
				versions = append(versions, id)
			}
		}
	}
	for _, id := range ids {
		if e, _ := b.memory.get(id); e != nil {
			known(id, e.doc)
		} else {
			documents = append(documents, id)
		}
	}
	if err := b.heads(ctx, b.names.documents, documents, known); err != nil {
		return err
	}
	return b.heads(ctx, b.names.versions, versions, func(_ string, d *event.Document) { nameBlob(d) })
}

// heads calls take with each of the documents or versions that the read model holds.
func (b *blobNames) heads(ctx context.Context, collection string, ids []string, take func(id string, d *event.Document)) error {
	for chunk := range slices.Chunk(ids, views.MaxLoad) {
		bounded, cancel := context.WithTimeout(ctx, b.cfg.Bounds.ViewWait)
		err := b.model.loadCurrent(bounded, collection, chunk, views.Heads, func(d views.Doc) error {
			doc, err := readDocument(d)
			if err == nil {
				take(d.ID, doc)
			}
			return err
		})
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}
