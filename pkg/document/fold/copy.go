package fold

import (
	"reflect"

	"quire.dev/pkg/event"
)

// copyTo makes to, which is empty, a shallow copy of from: the lists and messages in it are shared, since
// nothing changes them. It walks the fields, so that one added to the schema is copied too; walking the
// struct takes about as long as an assignment of each. The copy of nil is an empty message.
func copyTo[M event.Document | event.Content | event.Outcome](to, from *M) {
	if from == nil {
		return
	}
	source, target := reflect.ValueOf(from).Elem(), reflect.ValueOf(to).Elem()
	for i := range target.NumField() {
		if field := target.Field(i); field.CanSet() { // the unexported fields are protobuf's own
			field.Set(source.Field(i))
		}
	}
}

func clone(d *event.Document) *event.Document {
	c := &event.Document{}
	copyTo(c, d)
	return c
}

// Space is room for a document and its content, made at once.
type Space struct {
	document event.Document
	content  event.Content
}

// clone is the copy of d with a content of its own.
func (s *Space) clone(d *event.Document) *event.Document {
	copyTo(&s.document, d)
	if content := d.GetContent(); content != nil {
		copyTo(&s.content, content)
		s.document.Content = &s.content
	}
	return &s.document
}

// Head is Head(d) for as long as the space is not used again.
func (s *Space) Head(d *event.Document) *event.Document {
	if len(d.GetContent().GetInline()) == 0 {
		return d
	}
	h := s.clone(d)
	h.Content.Inline = nil
	return h
}

// Head is d without the bytes of its content.
func Head(d *event.Document) *event.Document {
	if len(d.GetContent().GetInline()) == 0 {
		return d
	}
	return new(Space).Head(d)
}

// Whole puts the content's bytes back into what Head left of a document. It takes over both.
func Whole(head *event.Document, inline []byte) *event.Document {
	if len(inline) > 0 && head.Content != nil {
		head.Content.Inline = inline
	}
	return head
}

// Earlier is an earlier version as it is read now: with the password and the expiry of the current one.
func Earlier(current, earlier *event.Document) *event.Document {
	d := clone(earlier)
	d.PasswordHash, d.ExpiresMs = current.PasswordHash, current.ExpiresMs
	return d
}
