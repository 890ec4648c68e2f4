package document

import (
	"bytes"
	"crypto/sha256"

	"quire.dev/pkg/event"
)

// stored makes the entry of a document that was loaded whole from the read model. Content that is not what was stored, by the
// SHA-256 beside it, is never shown: its readers are told that it can't be read now.
func (s *scope) stored(id string, doc *event.Document) *entry {
	e := newEntry(doc)
	e.damaged = damaged(doc.GetContent())
	if e.damaged {
		s.metrics.damaged.Inc()
		s.log.Error("stored content is damaged and is not shown; restore it from a back-up of the read model", "document", id)
	}
	return e
}

// damaged tells whether inline content differs from its hash. Blobs are checked by those who read them. Requests of the
// first version had no hash.
func damaged(c *event.Content) bool {
	if c.GetBlob() != "" || len(c.GetSha256()) != sha256.Size {
		return false
	}
	sum := sha256.Sum256(c.Inline)
	return !bytes.Equal(sum[:], c.Sha256)
}

// entryOf makes the entry of a document that was decided on from known ones. It has damaged content where it keeps that of a
// damaged document.
func (k known) entryOf(item string, doc *event.Document) *entry {
	e := newEntry(doc)
	from := k.damaged[item]
	e.damaged = from != nil && from == doc.GetContent()
	return e
}
