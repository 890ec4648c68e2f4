// Package natsfilestest edits the journals of a stopped server in its files, with right checksums, as somebody with access to them
// can.
package natsfilestest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"quire.dev/pkg/natsfiles"
)

// Rewrite replaces the messages of a stream of the server whose StoreDir is folder. They are numbered from 1 in their order, whatever
// sequences edit leaves.
func Rewrite(t testing.TB, folder, stream string, edit func([]natsfiles.Message) []natsfiles.Message) {
	t.Helper()
	messages := edit(read(t, folder, stream))
	found, err := filepath.Glob(filepath.Join(folder, "jetstream", "*", "streams", stream, "msgs"))
	if err != nil || len(found) != 1 {
		t.Fatalf("folders of %s: %v, %v", stream, found, err)
	}
	entries, err := os.ReadDir(found[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries { // with the index, which the server makes again
		if err := os.Remove(filepath.Join(found[0], e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	var block []byte
	for i, m := range messages {
		m.Sequence = uint64(i + 1)
		block = natsfiles.AppendRecord(block, stream, 1, m)
	}
	if err := os.WriteFile(filepath.Join(found[0], "1.blk"), block, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, folder, stream string) (messages []natsfiles.Message) {
	t.Helper()
	r := natsfiles.NewReader(folder, stream)
	defer r.Close()
	for {
		m, err := r.Read(uint64(len(messages) + 1))
		if errors.Is(err, natsfiles.ErrNoRecord) && len(messages) > 0 {
			return messages
		}
		if err != nil {
			t.Fatal(err)
		}
		m.Data = bytes.Clone(m.Data)
		messages = append(messages, m)
	}
}
