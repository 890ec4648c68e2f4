package fold_test

import (
	"bytes"
	"testing"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
)

// BenchmarkDecide folds one write of a kilobyte.
func BenchmarkDecide(b *testing.B) {
	content := &event.Content{Inline: bytes.Repeat([]byte("x"), 1024), SizeBytes: 1024}
	made := &event.Document{Title: "title", Language: "go", Visibility: uint32(event.Unlisted), Content: content}
	for name, c := range map[string]struct {
		state  *event.Document
		action any
	}{
		"create": {nil, fold.Create(made, &event.Update{})},
		"update": {storageOf(nil), &event.Update{Content: content}},
	} {
		b.Run(name, func(b *testing.B) {
			r := request(owner, c.action)
			b.ReportAllocs()
			for b.Loop() {
				if _, o := decide(fold.QuickPastes(), c.state, nil, r, at); o.Status != event.OutcomeStatus_OK {
					b.Fatal(o.Status)
				}
			}
		})
	}
}
