package admin

import (
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
)

type explanationView struct {
	endpoint.Success
	Request accounts.ExplainedView `json:"request"`
	Timing  *timingView            `json:"timing"` // null: the request log can't be read
}

// timingView has the time of a request. A keyless request is not in a request log.
type timingView struct {
	StartedAt  string     `json:"startedAt"`  // by the clock of its edge
	AdmittedAt *string    `json:"admittedAt"` // by the journal's clock, like settledAt
	SettledAt  *string    `json:"settledAt"`
	DurationMs *uint32    `json:"durationMs"` // null: not in the log
	Parts      *partsView `json:"parts"`      // null: not in the log, or it did not take long
}

// partsView is event.RequestTiming with the names of the access log.
type partsView struct {
	BodyMs       uint32 `json:"bodyMs"`
	AdmitQueueMs uint32 `json:"admitQueueMs"`
	AdmitSyncMs  uint32 `json:"admitSyncMs"`
	AdmitFoldMs  uint32 `json:"admitFoldMs"`
	WriteQueueMs uint32 `json:"writeQueueMs"`
	WriteSyncMs  uint32 `json:"writeSyncMs"`
	WriteFoldMs  uint32 `json:"writeFoldMs"`
	ReadMs       uint32 `json:"readMs"`
	BlobMs       uint32 `json:"blobMs"`
}

// timingOf returns the time of an explained request. A request log that can't be read is logged: the explanation does without.
func (s *Admin) timingOf(c *endpoint.Call, e *event.ExplainAnswer) *timingView {
	recorded, err := s.recordOf(e)
	if err != nil {
		s.LogFailure(c.Context(), c.Row.Path, endpoint.AsFault(err))
		return nil
	}
	return viewTiming(e, recorded)
}

// recordOf returns the request's entry in its account's log, nil without one. It does not wait for the account's calls to settle.
func (s *Admin) recordOf(e *event.ExplainAnswer) (*event.RecentRequest, error) {
	if e.Anonymous {
		return nil, nil
	}
	page, err := s.accounts.RecentNow(event.AccountID(e.Account), &event.RecentQuery{Limit: 1, RequestId: e.RequestId})
	switch {
	case fault.KindOf(err) == fault.NotFound: // the account is deleted, or never was
		return nil, nil
	case err != nil || len(page.Requests) == 0:
		return nil, err
	}
	return page.Requests[0], nil
}

// viewTiming returns a request's time. recorded is nil if the log does not have it.
func viewTiming(e *event.ExplainAnswer, recorded *event.RecentRequest) *timingView {
	out := &timingView{AdmittedAt: endpoint.OptionalTime(e.StoredMs), SettledAt: endpoint.OptionalTime(e.SettlementStoredMs)}
	if id, err := event.RequestIDFrom(e.RequestId); err == nil {
		out.StartedAt = endpoint.FormatTime(id.UnixMilli())
	}
	if recorded.GetHttpStatus() == 0 {
		return out
	}
	out.DurationMs = &recorded.DurationMs
	if t := recorded.Timing; t != nil {
		out.Parts = &partsView{
			BodyMs: t.BodyMs, AdmitQueueMs: t.AdmitQueueMs, AdmitSyncMs: t.AdmitSyncMs, AdmitFoldMs: t.AdmitFoldMs,
			WriteQueueMs: t.WriteQueueMs, WriteSyncMs: t.WriteSyncMs, WriteFoldMs: t.WriteFoldMs, ReadMs: t.ReadMs, BlobMs: t.BlobMs,
		}
	}
	return out
}
