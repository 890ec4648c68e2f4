package installation

import (
	"bytes"
	"fmt"
	"strconv"
)

// A complete audit of a billing journal that has matched is noted in the blob store, under AuditedKey: the key of the newest snapshot that
// it has compared, which begins with SnapshotPrefix and the sequence in 20 digits. Only billing may write there. What follows in the note,
// billing's MAC, is for billing alone.

// MaxAudited bounds the note, in bytes.
const MaxAudited = 4 << 10

// SnapshotPrefix begins the keys of a journal's snapshots in the blob store.
func SnapshotPrefix(stream string) string { return "billing/" + stream + "/" }

// AuditedKey is the key of the note about a journal's last audit.
func AuditedKey(stream string) string { return "billing/audited/" + stream + "/snapshot" }

// AuditProgressKey is the key of the progress of an audit of a whole journal, of which only billing knows the content.
func AuditProgressKey(stream string) string { return "billing/audited/" + stream + "/progress" }

// AuditedSequence returns the sequence up to which a journal was audited, from the note.
func AuditedSequence(stream string, note []byte) (uint64, error) {
	const digits = 20
	rest, ok := bytes.CutPrefix(note, []byte(SnapshotPrefix(stream)))
	if !ok || len(rest) <= digits || rest[digits] != '-' {
		return 0, fmt.Errorf("%s names no snapshot of %s", AuditedKey(stream), stream)
	}
	sequence, err := strconv.ParseUint(string(rest[:digits]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", AuditedKey(stream), err)
	}
	return sequence, nil
}
