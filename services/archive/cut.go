package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/proof"
)

// Names in the blob store beside the log, which is after proof.LogPrefix.
const (
	private  = "archive/log/"
	stateKey = private + "state"
	cutsKey  = private + "cuts/"

	// maxRecord bounds a cut and the state, each with all partitions.
	maxRecord = 1 << 20
)

// A cut says which messages the log gets next: partition by partition, the messages after the previous cut up to a sequence. So the log
// is a function of cuts and journals, and instances that agree on cuts write the same log.
//
// Only one instance can create cut n, since its number is its key. Old cuts are deleted in order. So an instance that finds both a cut
// and its predecessor knows that the number was never used before: see keeper.confirm.
type cut struct {
	Number    int64      `json:"number"` // from 1
	Time      time.Time  `json:"time"`   // by the clock of the instance that made it
	Positions []position `json:"positions"`
	// Rewinds come first: journals that were restored from a backup are set back.
	Rewinds []position `json:"rewinds,omitempty"`
}

// position is the last message of a partition that the log has.
type position struct {
	Partition int        `json:"partition"`
	Sequence  uint64     `json:"sequence"`        // 0: none
	Entry     *tlog.Hash `json:"entry,omitempty"` // leaf hash of its entry, in the state
	Bytes     uint64     `json:"bytes,omitempty"` // of all messages' data up to it, in the state
}

// state is the log after a cut.
type state struct {
	Cut       int64      `json:"cut"`
	Size      int64      `json:"size"`
	Root      tlog.Hash  `json:"root"`
	Positions []position `json:"positions"` // of every partition, in order
}

// Beginning returns, in their order, the blobs and prefixes that a copy of a log at work takes first, so that it has the rest of the log
// that they need: what is signed is in the state, and tiles only grow.
func Beginning() []string { return []string{proof.LogCheckpoint, stateKey, cutsKey} }

func cutKey(number int64) string { return fmt.Sprintf("%s%020d", cutsKey, number) }

// readRecord reads a blob in JSON. It returns false if it does not exist.
func readRecord(ctx context.Context, blobs blob.Store, key string, to any) (bool, error) {
	data, err := read(ctx, blobs, key, maxRecord)
	if data == nil || err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, to); err != nil {
		return false, fmt.Errorf("decode %s: %w", key, err)
	}
	return true, nil
}

// read reads a blob of at most limit bytes, and returns nil if it does not exist.
func read(ctx context.Context, blobs blob.Store, key string, limit int64) ([]byte, error) {
	data, err := blob.Read(ctx, blobs, key, limit)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, nil
	}
	return data, err
}

func write(ctx context.Context, blobs blob.Store, key string, data []byte) error {
	if _, err := blobs.Put(ctx, key, bytes.NewReader(data), int64(len(data))); err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	return nil
}
