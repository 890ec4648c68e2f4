// Package natsfilestest edits the journals of a stopped server in its files, with right checksums, as somebody with access to them
// can.
package natsfilestest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/minio/highwayhash"

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
		block = appendRecord(block, stream, m)
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

// appendRecord appends a message to the first block of a stream, in the layout that natsfiles describes.
func appendRecord(block []byte, stream string, m natsfiles.Message) []byte {
	key := sha256.Sum256(fmt.Appendf(nil, "%s-1", stream))
	sum, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		panic(err) // a key of 32 bytes is valid
	}
	const withoutData = 22 + 8
	body := binary.LittleEndian.AppendUint64(nil, m.Sequence)
	body = binary.LittleEndian.AppendUint64(body, uint64(m.Time.UnixNano()))
	_, _ = sum.Write(body) // never fails
	_, _ = sum.Write([]byte(m.Subject))
	_, _ = sum.Write(m.Data)
	block = binary.LittleEndian.AppendUint32(block, uint32(withoutData+len(m.Subject)+len(m.Data)))
	block = append(block, body...)
	block = binary.LittleEndian.AppendUint16(block, uint16(len(m.Subject)))
	block = append(block, m.Subject...)
	block = append(block, m.Data...)
	return sum.Sum(block)
}
