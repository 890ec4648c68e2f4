package snapshots

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/services/billing/internal/account"
)

// maxField bounds one field of a snapshot read piece by piece: one principal, or a part of the shared state.
const maxField = 256 << 20

// NewestPart is Newest for a part of the principals, and also reads snapshots of all earlier versions of the code. It holds the
// principals selected by keep, and one other at a time, in memory, however large the snapshot is.
func (s *Store) NewestPart(ctx context.Context, upTo uint64, keep func(id uint64) bool) (*account.Fold, error) {
	list, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, snapshot := range list {
		if snapshot.Sequence > upTo || snapshot.Version > account.CodeVersion {
			continue
		}
		fold, err := s.loadPart(ctx, snapshot, keep)
		switch {
		case err == nil:
			return fold, nil
		case errors.Is(err, ErrDamaged) || errors.Is(err, blob.ErrNotFound): // or deleted meanwhile
			s.log.Warn("snapshot is unusable, folding more of the journal instead", "key", snapshot.Key, "error", err)
		default:
			return nil, err
		}
	}
	return account.NewPart(keep), nil
}

// Part loads a part of one snapshot. The error is ErrDamaged or blob.ErrNotFound if there is no such snapshot of this billing.
func (s *Store) Part(ctx context.Context, snapshot Snapshot, keep func(id uint64) bool) (*account.Fold, error) {
	return s.loadPart(ctx, snapshot, keep)
}

// Delete deletes a snapshot.
func (s *Store) Delete(ctx context.Context, snapshot Snapshot) error {
	return s.blobs.Delete(ctx, snapshot.Key)
}

func (s *Store) loadPart(ctx context.Context, snapshot Snapshot, keep func(id uint64) bool) (*account.Fold, error) {
	reader, _, err := s.open(ctx, snapshot)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	fold, err := readPart(bufio.NewReaderSize(reader, 1<<20), snapshot.Hash, keep)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", snapshot.Key, err)
	}
	if fold.Sequence() != snapshot.Sequence {
		return nil, fmt.Errorf("%w: its state is at %d", ErrDamaged, fold.Sequence())
	}
	return fold, nil
}

// readPart reads an encoded account.Image. It returns a fold only if the hash matches.
func readPart(in *bufio.Reader, hash account.Hash, keep func(id uint64) bool) (*account.Fold, error) {
	var global, kept, value []byte
	var sum account.ImageHash
	for {
		tag, err := binary.ReadUvarint(in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			value, err = readValue(in, tag&7, value[:0])
		}
		if err != nil {
			return nil, damaged(err)
		}
		field := tag >> 3
		if tag&7 != bytesType || field != account.AccountsField && field != account.NetworksField {
			global = append(binary.AppendUvarint(global, tag), value...)
			continue
		}
		_, n := binary.Uvarint(value) // skips the length prefix
		sum.Add(field, value[n:])
		if keep(principalID(value[n:])) {
			kept = append(binary.AppendUvarint(kept, tag), value...)
		}
	}
	if got := sum.Sum(global); got != hash {
		return nil, fmt.Errorf("%w: it has the hash %x", ErrDamaged, got)
	}
	state := &event.BillingState{}
	if err := event.Decode(append(global, kept...), state); err != nil {
		return nil, damaged(err)
	}
	fold, err := account.RestorePart(state, keep)
	if err != nil {
		return nil, damaged(err)
	}
	return fold, nil
}

// damaged separates wrong content from a failing store.
func damaged(err error) error {
	if errors.Is(err, blob.ErrUnavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// Protobuf wire types.
const (
	varintType  = 0
	fixed64Type = 1
	bytesType   = 2
	fixed32Type = 5
)

// readValue appends a field's encoded value.
func readValue(in *bufio.Reader, kind uint64, out []byte) ([]byte, error) {
	var size uint64
	switch kind {
	case varintType:
		v, err := binary.ReadUvarint(in)
		return binary.AppendUvarint(out, v), unexpected(err)
	case fixed64Type:
		size = 8
	case fixed32Type:
		size = 4
	case bytesType:
		v, err := binary.ReadUvarint(in)
		if err != nil {
			return out, unexpected(err)
		}
		size, out = v, binary.AppendUvarint(out, v)
	default:
		return out, fmt.Errorf("a field of wire type %d", kind)
	}
	if size > maxField {
		return out, fmt.Errorf("a field of %d bytes", size)
	}
	start := len(out)
	out = append(out, make([]byte, size)...)
	_, err := io.ReadFull(in, out[start:])
	return out, unexpected(err)
}

// unexpected is the error for an end in the middle of a field.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// principalID is the id of an encoded principal, its field 1; 0 without one.
func principalID(data []byte) uint64 {
	if len(data) < 9 || data[0] != 1<<3|fixed64Type {
		return 0
	}
	return binary.LittleEndian.Uint64(data[1:])
}
