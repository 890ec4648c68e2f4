package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/num"
	"quire.dev/pkg/proof"
	"quire.dev/pkg/segment"
	"quire.dev/pkg/tilelog"
	"quire.dev/services/archive"
)

// RestoreArchived makes the billing journals of an installation from its archive, which is in a blob store, and the journals of documents
// that are missing, empty. All of the archive is checked first. The archive and its log are copied to the installation's blobs, unless
// they are there. Read models are not written. It returns where the journals end, by partition.
//
// Stores may have data of the same installation. The error is installation.ErrMixed for stores of another one, ErrNotEmpty for a billing
// journal or a log that is not the archived one, and what archive.Archived.Check returns. It may be repeated after an error.
func RestoreArchived(ctx context.Context, a *archive.Archived, from blob.Store, to Destination) ([]archive.Ending, error) {
	if to.Progress == nil {
		to.Progress = func(string, uint64, uint64) {}
	}
	if err := to.checkOwners(ctx, a); err != nil {
		return nil, err
	}
	if err := to.checkLog(ctx, from); err != nil {
		return nil, err
	}
	ends, err := a.Check(ctx, func(done, total int64) {
		to.Progress("checking the archive, in messages", num.Uint64(done), num.Uint64(total))
	})
	if err != nil {
		return nil, err
	}
	if err := to.copyArchive(ctx, a, from); err != nil {
		return nil, err
	}
	streams := streamsOf(a.Partitions, append(event.Documents(), event.Billing)...)
	for i, s := range streams {
		to.Progress("restoring journals", uint64(i), uint64(len(streams)))
		if err := to.restoreArchived(ctx, a, s, ends); err != nil {
			return nil, err
		}
	}
	return ends, nil
}

// checkOwners looks for data of other installations.
func (to Destination) checkOwners(ctx context.Context, a *archive.Archived) error {
	places := []installation.Place{
		{Name: "the archive", Owner: func(context.Context) (string, error) { return a.Installation, nil }},
		installation.Blobs(to.Blobs, false),
	}
	for service, store := range to.Models {
		places = append(places, installation.ReadModel(string(service), store))
	}
	for _, s := range streamsOf(a.Partitions, event.Domains()...) {
		if _, err := journal.Open(to.NC, s.name).State(ctx); errors.Is(err, journal.ErrNoStream) {
			continue
		} else if err != nil {
			return err
		}
		places = append(places, installation.Journals(to.NC, s.name))
	}
	_, err := installation.Owners(ctx, places...)
	return err
}

// checkLog returns ErrNotEmpty if the installation's blobs have another checkpoint than the archive: they are a log that went on
// without it, or an older copy.
func (to Destination) checkLog(ctx context.Context, from blob.Store) error {
	there, err := blob.Read(ctx, to.Blobs, proof.LogCheckpoint, tilelog.MaxCheckpoint)
	if errors.Is(err, blob.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	archived, err := blob.Read(ctx, from, proof.LogCheckpoint, tilelog.MaxCheckpoint)
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		return err
	}
	if !bytes.Equal(there, archived) {
		return fmt.Errorf("the blob store %w: its %s is not the archive's. Move log/ and archive/ elsewhere", ErrNotEmpty, proof.LogCheckpoint)
	}
	return nil
}

// copyArchive copies what the installation's blobs do not have of the archive and the log.
func (to Destination) copyArchive(ctx context.Context, a *archive.Archived, from blob.Store) error {
	if err := installation.Blobs(to.Blobs, true).Take(ctx, a.Installation); err != nil {
		return err
	}
	for _, prefix := range []string{segment.Root, proof.LogPrefix} {
		there := map[string]int64{}
		if err := sweepAll(ctx, to.Blobs, prefix, func(info blob.Info) error { there[info.Key] = info.Size; return nil }); err != nil {
			return err
		}
		copied := uint64(0)
		err := sweepAll(ctx, from, prefix, func(info blob.Info) error {
			if size, found := there[info.Key]; found && size == info.Size {
				return nil
			}
			to.Progress("copying the archive, in blobs", copied, copied+1)
			copied++
			return copyBlob(ctx, from, to.Blobs, info)
		})
		if err != nil {
			return fmt.Errorf("copy the archive: %w", err)
		}
	}
	return nil
}

func copyBlob(ctx context.Context, from, to blob.Store, info blob.Info) (err error) {
	r, _, err := from.Get(ctx, info.Key, 0, -1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	_, err = to.Put(ctx, info.Key, r, info.Size)
	return err
}

// restoreArchived makes a journal that does not exist.
func (to Destination) restoreArchived(ctx context.Context, a *archive.Archived, s stream, ends []archive.Ending) error {
	description := installation.Stream(s.domain, s.partition)
	description.Replicas, description.Installation = to.Replicas, a.Installation
	next, stop := func() (journal.Message, bool, error) { return journal.Message{}, false, nil }, func() {}
	if s.domain == event.Billing {
		next, stop = a.Restored(ctx, s.partition)
	}
	defer stop()
	err := journal.Restore(ctx, to.NC, description, a.Partitions, time.Now().UTC(), 0, next)
	switch {
	case !errors.Is(err, journal.ErrExists):
		return err
	case s.domain != event.Billing:
		return nil // it stays as it is
	default:
		return to.sameEnd(ctx, ends[s.partition])
	}
}

// sameEnd returns ErrNotEmpty unless a journal ends as the archive does: an earlier run has made it.
func (to Destination) sameEnd(ctx context.Context, end archive.Ending) error {
	j := journal.Open(to.NC, end.Stream)
	state, err := j.State(ctx)
	if err != nil {
		return err
	}
	same := state.Last == end.Archived
	if same && end.Archived > 0 {
		m, err := j.Get(ctx, end.Archived)
		if err != nil {
			return err
		}
		same = m.Time.Equal(end.Time)
	}
	if !same {
		return fmt.Errorf("the journal server %w: it has %s, up to message %d", ErrNotEmpty, end.Stream, state.Last)
	}
	return nil
}
