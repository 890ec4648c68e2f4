package fold

import "quire.dev/pkg/event"

// CloneDocument copies d's fields; what they refer to is shared, since nothing changes it.
func CloneDocument(d *event.Document) *event.Document {
	return &event.Document{
		Id: d.GetId(), Owner: d.GetOwner(), Title: d.GetTitle(), Language: d.GetLanguage(), Visibility: d.GetVisibility(),
		Tags: d.GetTags(), BurnAfterRead: d.GetBurnAfterRead(), PasswordHash: d.GetPasswordHash(),
		ManageTokenHash: d.GetManageTokenHash(), Version: d.GetVersion(), CreatedMs: d.GetCreatedMs(),
		UpdatedMs: d.GetUpdatedMs(), ExpiresMs: d.GetExpiresMs(), Content: d.GetContent(), ContentType: d.GetContentType(),
		FirstVersionKept: d.GetFirstVersionKept(), CreatedOrder: d.GetCreatedOrder(),
	}
}

// Head is d without the bytes of its content.
func Head(d *event.Document) *event.Document {
	if len(d.GetContent().GetInline()) == 0 {
		return d
	}
	h := CloneDocument(d)
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

// Earlier is an earlier version as it is read now: the password and the expiry are the document's.
func Earlier(current, earlier *event.Document) *event.Document {
	d := CloneDocument(earlier)
	d.PasswordHash, d.ExpiresMs = current.PasswordHash, current.ExpiresMs
	return d
}

// CloneOutcome copies o's fields; what they refer to is shared.
func CloneOutcome(o *event.Outcome) *event.Outcome {
	return &event.Outcome{
		Index: o.Index, Status: o.Status, Replayed: o.Replayed, Item: o.Item, Version: o.Version,
		CreatedMs: o.CreatedMs, UpdatedMs: o.UpdatedMs, ExpiresMs: o.ExpiresMs, Remaining: o.Remaining,
		Document: o.Document, BodyHash: o.BodyHash, RequestId: o.RequestId, Owner: o.Owner, DecidedMs: o.DecidedMs,
	}
}
