package users

import (
	"context"
	"errors"
	"slices"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/views"
)

// exports has a document for each account that has requested an export: the job, and when it needs attention.
const (
	exports = "billing_exports"
	byDue   = "by_due"

	exportsADay    = 5
	exportAttempts = 5 // before an export counts as failed
	exportKept     = 24 * time.Hour
	claimPage      = 20

	erased = 1 // ExpiresMs of an export whose account has ended
)

// errTaken ends a change of an export that has passed to somebody else.
var errTaken = errors.New("the export belongs to another worker")

// changeExport applies set to an account's export, again after a concurrent change; a nil result deletes it.
func (u *Users) changeExport(ctx context.Context, id event.AccountID, set func(*event.Export) (*event.Export, error)) error {
	for range maxTries {
		at, err := u.store.Checkpoint(ctx, exports)
		if err != nil {
			return err
		}
		before, err := u.export(ctx, id)
		if err != nil {
			return err
		}
		now, err := set(before)
		if err != nil {
			return err
		}
		batch := views.Batch{Stream: exports, From: at, To: at + 1}
		if now == nil {
			batch.Deletes = []views.Delete{{Collection: exports, ID: id.String(), Seq: at + 1}}
		} else {
			head, err := event.Encode(now)
			if err != nil {
				return err
			}
			batch.Puts = []views.Put{{Collection: exports, Doc: views.Doc{
				ID: id.String(), Seq: at + 1, Head: head, Keys: views.Keys{{Name: "due", Value: views.Int(exportDue(now))}},
			}}}
		}
		if err := u.store.Commit(ctx, batch); !errors.Is(err, views.ErrConflict) {
			return err
		}
	}
	return errBusy
}

// exportDue is when a worker may claim the export.
func exportDue(e *event.Export) int64 {
	switch e.State {
	case event.ExportState_EXPORT_WAITING:
		return e.CreatedMs
	case event.ExportState_EXPORT_RUNNING:
		return e.LeasedUntilMs
	case event.ExportState_EXPORT_READY, event.ExportState_EXPORT_FAILED:
		return max(e.ExpiresMs, e.LeasedUntilMs)
	}
	if n := len(e.Begun); n > 0 {
		return e.Begun[n-1].TimeMs + oneDay.Milliseconds()
	}
	return 0
}

// export returns the export of an account, without a state if none exists.
func (u *Users) export(ctx context.Context, id event.AccountID) (*event.Export, error) {
	docs, err := u.store.Load(ctx, exports, []string{id.String()}, views.Heads)
	e := &event.Export{Account: uint64(id)}
	if err == nil && len(docs) > 0 {
		err = event.Decode(docs[0].Head, e)
	}
	return e, err
}

func exported(s event.UserStatus, e *event.Export) *event.UserAnswer {
	return &event.UserAnswer{Status: s, Export: e}
}

func (u *Users) findExport(ctx context.Context, id event.AccountID) (*event.UserAnswer, error) {
	e, err := u.export(ctx, id)
	if err != nil || e.State == event.ExportState_EXPORT_NONE {
		return found(nil), err
	}
	return exported(event.UserStatus_USER_OK, e), nil
}

func (u *Users) startExport(ctx context.Context, r *event.StartExport) (answer *event.UserAnswer, err error) {
	id := event.AccountID(r.GetAccount())
	if id == 0 || r.Id == "" || len(r.Id) > 64 {
		return nil, &rpc.Error{Code: "malformed", Message: "an export needs an account and an id"}
	}
	if user, err := u.byAccount(ctx, id); err != nil || user == nil {
		return found(nil), err
	}
	err = u.changeExport(ctx, id, func(e *event.Export) (*event.Export, error) {
		now := u.clock().UnixMilli()
		if e.State == event.ExportState_EXPORT_WAITING || e.State == event.ExportState_EXPORT_RUNNING {
			answer = exported(event.UserStatus_USER_EXISTS, e)
			return nil, errTaken
		}
		begun := slices.DeleteFunc(slices.Clone(e.Begun), func(b *event.BegunExport) bool { return b.TimeMs+oneDay.Milliseconds() <= now })
		again := slices.ContainsFunc(begun, func(b *event.BegunExport) bool { return b.Id == r.Id })
		if again && e.State != event.ExportState_EXPORT_NONE { // a repeat under an Idempotency-Key
			answer = exported(event.UserStatus_USER_EXISTS, e)
			return nil, errTaken
		}
		if len(begun) >= exportsADay {
			answer = &event.UserAnswer{Status: event.UserStatus_USER_LIMITED, Limit: exportsADay, ResetMs: begun[0].TimeMs + oneDay.Milliseconds()}
			return nil, errTaken
		}
		stale := e.Stale
		if e.State != event.ExportState_EXPORT_NONE {
			stale = append(slices.Clone(stale), e.Id)
		}
		fresh := &event.Export{
			Account: e.Account, Id: r.Id, State: event.ExportState_EXPORT_WAITING, CreatedMs: now, Stale: stale,
			Begun: append(begun, &event.BegunExport{Id: r.Id, TimeMs: now}),
		}
		answer = exported(event.UserStatus_USER_OK, fresh)
		return fresh, nil
	})
	if err != nil && !errors.Is(err, errTaken) {
		return nil, err
	}
	return answer, nil
}

// claimExport assigns the export that has waited longest to a worker.
func (u *Users) claimExport(ctx context.Context, r *event.ClaimExport) (*event.UserAnswer, error) {
	if r.GetWorker() == "" || len(r.Worker) > 64 || r.LeaseMs <= 0 {
		return nil, &rpc.Error{Code: "malformed", Message: "a claim needs a worker and a lease"}
	}
	docs, err := u.store.List(ctx, exports, views.Query{Index: byDue, Limit: claimPage})
	if err != nil {
		return nil, err
	}
	for _, d := range docs {
		if d.Keys.Get("due").Int64() > u.clock().UnixMilli() {
			break
		}
		id, err := event.ParseAccountID(d.ID)
		if err != nil {
			return nil, err
		}
		claimed, err := u.claim(ctx, id, r)
		if err != nil {
			return nil, err
		}
		if claimed != nil {
			return exported(event.UserStatus_USER_OK, claimed), nil
		}
	}
	return found(nil), nil
}

// claim returns nil if an account's export needs no work.
func (u *Users) claim(ctx context.Context, id event.AccountID, r *event.ClaimExport) (claimed *event.Export, err error) {
	err = u.changeExport(ctx, id, func(e *event.Export) (*event.Export, error) {
		now := u.clock().UnixMilli()
		claimed = nil
		if exportDue(e) > now {
			return nil, errTaken // another worker was faster
		}
		switch e.State {
		case event.ExportState_EXPORT_NONE:
			return nil, nil
		case event.ExportState_EXPORT_WAITING, event.ExportState_EXPORT_RUNNING:
			if e.Attempts >= exportAttempts {
				e.State, e.EndedMs, e.ExpiresMs = event.ExportState_EXPORT_FAILED, now, now+exportKept.Milliseconds()
				return e, nil
			}
			e.State, e.Done, e.Total = event.ExportState_EXPORT_RUNNING, 0, 0
			e.Attempts++
		}
		e.Worker, e.LeasedUntilMs = r.Worker, now+r.LeaseMs
		claimed = e
		return e, nil
	})
	if errors.Is(err, errTaken) {
		err = nil
	}
	return claimed, err
}

// saveExport saves a worker's progress on an export that it has claimed.
func (u *Users) saveExport(ctx context.Context, r *event.SaveExport) (*event.UserAnswer, error) {
	sent := r.GetExport()
	if sent.GetAccount() == 0 || sent.Worker == "" || r.LeaseMs <= 0 {
		return nil, &rpc.Error{Code: "malformed", Message: "an export needs an account, a worker and a lease"}
	}
	answer := exported(event.UserStatus_USER_OK, sent)
	err := u.changeExport(ctx, event.AccountID(sent.Account), func(e *event.Export) (*event.Export, error) {
		if e.Id != sent.Id || e.Worker != sent.Worker {
			return nil, errTaken
		}
		now := u.clock().UnixMilli()
		if r.Remove {
			return &event.Export{Account: e.Account, Begun: e.Begun}, nil
		}
		e.State, e.Done, e.Total, e.SizeBytes, e.Sha256, e.Stale = sent.State, sent.Done, sent.Total, sent.SizeBytes, sent.Sha256, sent.Stale
		e.LeasedUntilMs = now + r.LeaseMs
		if e.State == event.ExportState_EXPORT_READY {
			e.Worker, e.LeasedUntilMs, e.EndedMs, e.ExpiresMs = "", 0, now, now+exportKept.Milliseconds()
		}
		answer.Export = e
		return e, nil
	})
	if errors.Is(err, errTaken) {
		return &event.UserAnswer{Status: event.UserStatus_USER_CHANGED}, nil
	}
	return answer, err
}

// EraseExport requests the deletion of an account's archives, and reports whether that is done.
func (u *Users) EraseExport(ctx context.Context, id event.AccountID) (done bool, err error) {
	e, err := u.export(ctx, id)
	if err != nil {
		return false, err
	}
	if e.State == event.ExportState_EXPORT_NONE && len(e.Begun) == 0 {
		return true, nil
	}
	err = u.changeExport(ctx, id, func(e *event.Export) (*event.Export, error) {
		if done = e.State == event.ExportState_EXPORT_NONE; done {
			return nil, nil
		}
		if e.ExpiresMs == erased {
			return nil, errTaken // an edge already has the request
		}
		// Its worker loses it. The next worker finds an expired archive.
		e.State, e.ExpiresMs, e.Worker, e.LeasedUntilMs = event.ExportState_EXPORT_READY, erased, "", 0
		return e, nil
	})
	if errors.Is(err, errTaken) {
		err = nil
	}
	return done, err
}
