package client

import (
	"context"
	"net/http"
	"time"
)

// ExportStatus is how far an archive is.
type ExportStatus string

const (
	ExportWaiting ExportStatus = "waiting"
	ExportRunning ExportStatus = "running"
	ExportReady   ExportStatus = "ready"
	ExportFailed  ExportStatus = "failed" // MakeExport begins another one
)

// Export is an archive of everything that an account owns.
type Export struct {
	Status    ExportStatus `json:"status"`
	Done      int64        `json:"done"`  // documents that are in it
	Total     int64        `json:"total"` // documents; 0: they are not counted yet
	CreatedAt time.Time    `json:"createdAt"`
	EndedAt   time.Time    `json:"endedAt"`   // zero: it is being made
	ExpiresAt time.Time    `json:"expiresAt"` // when it is deleted; zero: it is being made
	SizeBytes int64        `json:"sizeBytes"` // of the zip archive; 0: it is not ready
	URL       string       `json:"url"`       // needs no session, and is good for an hour; empty: it is not ready
}

// ExportAnswer is the account's last export.
type ExportAnswer struct {
	Meta
	Export Export `json:"export"`
}

const exportPath = "/api/users/user/export"

// MakeExport has an archive made of all that the account owns, or tells of the one that is being made. It requires a session.
func (a *Account) MakeExport(ctx context.Context, options ...CallOption) (*ExportAnswer, error) {
	return fetch[ExportAnswer](ctx, a.c, once(http.MethodPost, exportPath, options))
}

// Export returns the state of the archive. The error is a *NotFound if there is none. It requires a session.
func (a *Account) Export(ctx context.Context, options ...CallOption) (*ExportAnswer, error) {
	return fetch[ExportAnswer](ctx, a.c, newRequest(http.MethodGet, exportPath, options))
}
