package fold

import (
	"reflect"

	"quire.dev/pkg/event"
)

// copyTo makes to, which is empty, a shallow copy of from, sharing its immutable lists and messages. It iterates over the
// fields, so that fields added to the schema are copied too; this takes about as long as assigning each. The copy of nil is an
// empty message.
func copyTo[M event.Document | event.Content | event.Outcome](to, from *M) {
	if from == nil {
		return
	}
	source, target := reflect.ValueOf(from).Elem(), reflect.ValueOf(to).Elem()
	for i := range target.NumField() {
		if field := target.Field(i); field.CanSet() { // unexported fields are protobuf's own
			field.Set(source.Field(i))
		}
	}
}

func clone(d *event.Document) *event.Document {
	c := &event.Document{}
	copyTo(c, d)
	return c
}

// Space is memory for a document and its content in one allocation.
type Space struct {
	document event.Document
	content  event.Content
}

// clone copies d and its content.
func (s *Space) clone(d *event.Document) *event.Document {
	copyTo(&s.document, d)
	if content := d.GetContent(); content != nil {
		copyTo(&s.content, content)
		s.document.Content = &s.content
	}
	return &s.document
}

// Head is Head(d), valid until the space is reused.
func (s *Space) Head(d *event.Document) *event.Document {
	if len(d.GetContent().GetInline()) == 0 {
		return d
	}
	h := s.clone(d)
	h.Content.Inline = nil
	return h
}

// Head returns d without the bytes of its content.
func Head(d *event.Document) *event.Document {
	if len(d.GetContent().GetInline()) == 0 {
		return d
	}
	return new(Space).Head(d)
}

// Whole restores the content's bytes in a document made by Head. It takes ownership of both.
func Whole(head *event.Document, inline []byte) *event.Document {
	if len(inline) > 0 && head.Content != nil {
		head.Content.Inline = inline
	}
	return head
}

// Earlier returns an earlier version as it is read now: with the current password and expiry.
func Earlier(current, earlier *event.Document) *event.Document {
	d := clone(earlier)
	d.PasswordHash, d.ExpiresMs = current.PasswordHash, current.ExpiresMs
	return d
}
