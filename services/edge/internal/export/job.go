package export

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
)

// Edges make the exports, since they can read everything that an account owns. The job is a record in billing, with a lease.
// If its edge ends, the lease expires, and another edge starts over.
const (
	exportPoll  = 2 * time.Second
	exportLease = 30 * time.Second
	exportSave  = 5 * time.Second // interval of saving the progress, which renews the lease
	exportPage  = 100

	exportAttempts = 5 // allowed by billing
)

var errExportLost = errors.New("another edge has taken the export over, or it is not wanted any more")

// exportKey is the blob of one attempt at an export, so that an abandoned attempt never overwrites another. The rights of an
// edge in the bucket rely on the format: docs/stores.md, Bucket.
func exportKey(id string, attempt uint32) string {
	account, name, _ := strings.Cut(id, "-")
	return fmt.Sprintf("exports/%s/%s/%d.zip", account, name, attempt)
}

// dropExport deletes the blobs of earlier attempts at an export.
func (s *Exports) dropExport(ctx context.Context, id string, attempts uint32) error {
	for n := range attempts {
		if err := s.blobs.Delete(ctx, exportKey(id, n+1)); err != nil {
			return fmt.Errorf("delete an archive: %w", err)
		}
	}
	return nil
}

// MakeExports works on exports, one at a time, until ctx ends.
func (s *Exports) MakeExports(ctx context.Context) {
	worker := rand.Text()
	poll := time.NewTicker(exportPoll)
	defer poll.Stop()
	for {
		if err := s.nextExport(ctx, worker); err != nil && ctx.Err() == nil {
			s.log.Warn("an export will be tried again", "error", err)
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return
		}
	}
}

// nextExport works on a pending export, if any.
func (s *Exports) nextExport(ctx context.Context, worker string) error {
	a, err := s.bus.User(ctx, &event.UserRequest{Action: &event.UserRequest_ClaimExport{
		ClaimExport: &event.ClaimExport{Worker: worker, LeaseMs: exportLease.Milliseconds()},
	}})
	if err != nil || a.Status != event.UserStatus_USER_OK || a.Export == nil {
		return err
	}
	e := a.Export
	for _, id := range e.Stale {
		if err := s.dropExport(ctx, id, exportAttempts); err != nil {
			return err
		}
	}
	e.Stale = nil
	if e.State != event.ExportState_EXPORT_RUNNING {
		if err := s.dropExport(ctx, e.Id, e.Attempts); err != nil {
			return err
		}
		return s.saveExport(ctx, &event.SaveExport{Export: e, LeaseMs: exportLease.Milliseconds(), Remove: true})
	}
	if err := s.dropExport(ctx, e.Id, e.Attempts-1); err != nil { // left by edges that ended
		return err
	}
	return s.makeExport(ctx, e)
}

func (s *Exports) saveExport(ctx context.Context, save *event.SaveExport) error {
	a, err := s.bus.User(ctx, &event.UserRequest{Action: &event.UserRequest_SaveExport{SaveExport: save}})
	if err == nil && a.Status != event.UserStatus_USER_OK {
		err = errExportLost
	}
	return err
}

// makeExport streams the archive into the blob store, holding one document in memory at a time.
func (s *Exports) makeExport(ctx context.Context, e *event.Export) error {
	x := &exporter{s: s, account: event.AccountID(e.Account), sum: sha256.New()}
	group, work := errgroup.WithContext(ctx)
	reader, writer := io.Pipe()
	written := make(chan struct{})
	var size int64
	group.Go(func() error {
		err := x.write(work, writer)
		_ = writer.CloseWithError(err) // nil ends the archive
		return err
	})
	group.Go(func() error {
		defer close(written)
		info, err := s.blobs.Put(work, exportKey(e.Id, e.Attempts), io.TeeReader(reader, x.sum), -1)
		_ = reader.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // so that the writer does not wait for a failed store
		size = info.Size
		return err
	})
	group.Go(func() error {
		tick := time.NewTicker(exportSave)
		defer tick.Stop()
		for {
			select {
			case <-written:
				return nil
			case <-work.Done():
				return nil
			case <-tick.C:
				if err := s.saveExport(work, s.progress(e, x)); err != nil {
					return err
				}
			}
		}
	})
	err := group.Wait()
	if err == nil {
		done := s.progress(e, x)
		done.Export.State, done.Export.SizeBytes, done.Export.Sha256 = event.ExportState_EXPORT_READY, num.Uint64(size), x.sum.Sum(nil)
		err = s.saveExport(ctx, done)
	}
	if err == nil {
		s.log.Info("an export was made", "account", x.account.String(), "documents", e.Done, "bytes", size, "attempt", e.Attempts)
	}
	if errors.Is(err, errExportLost) {
		s.log.Info("an export was given up", "cause", err)
		return s.blobs.Delete(ctx, exportKey(e.Id, e.Attempts))
	}
	return err
}

func (s *Exports) progress(e *event.Export, x *exporter) *event.SaveExport {
	e.Done, e.Total = x.done.Load(), x.total.Load()
	return &event.SaveExport{Export: e, LeaseMs: exportLease.Milliseconds()}
}
