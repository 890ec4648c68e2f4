package document

import (
	"bytes"
	"crypto/sha256"

	"quire.dev/pkg/event"
)

// loadedEntry makes the entry of a document loaded completely from the read model. Content that does not match the SHA-256 stored
// beside it is never shown: readers get an error for now.
func (s *scope) loadedEntry(id string, doc *event.Document) *entry {
	e := newEntry(doc)
	e.damaged = damaged(doc.GetContent())
	if e.damaged {
		s.metrics.damaged.Inc()
		s.log.Error("stored content is damaged and not shown; restore it from a backup of the read model", "document", id)
	}
	return e
}

// damaged reports whether inline content differs from its hash. Readers of blobs verify those. Requests of the first version
// had no hash.
func damaged(c *event.Content) bool {
	if c.GetBlob() != "" || len(c.GetSha256()) != sha256.Size {
		return false
	}
	sum := sha256.Sum256(c.Inline)
	return !bytes.Equal(sum[:], c.Sha256)
}

// entryOf makes the entry of a document decided from known ones. Content kept from a damaged document stays damaged.
func (k known) entryOf(item string, doc *event.Document) *entry {
	e := newEntry(doc)
	from := k.damaged[item]
	e.damaged = from != nil && from == doc.GetContent()
	return e
}
