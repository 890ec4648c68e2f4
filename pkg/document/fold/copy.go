package fold

import (
	"reflect"

	"quire.dev/pkg/event"
)

// clone makes a shallow copy of m: the lists and messages in it are shared, since nothing changes them.
// It walks the fields, so that one added to the schema is copied too; walking the struct takes about as
// long as an assignment of each. The clone of nil is an empty message.
func clone[M event.Document | event.Outcome](m *M) *M {
	c := new(M)
	if m == nil {
		return c
	}
	from, to := reflect.ValueOf(m).Elem(), reflect.ValueOf(c).Elem()
	for i := range to.NumField() {
		if field := to.Field(i); field.CanSet() { // the unexported fields are protobuf's own
			field.Set(from.Field(i))
		}
	}
	return c
}

// Head is d without the bytes of its content.
func Head(d *event.Document) *event.Document {
	if len(d.GetContent().GetInline()) == 0 {
		return d
	}
	h := clone(d)
	h.Content = &event.Content{Blob: d.Content.Blob, SizeBytes: d.Content.SizeBytes, Sha256: d.Content.Sha256}
	return h
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
