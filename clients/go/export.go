package client

import (
	"context"
	"net/http"
	"time"
)

// ExportStatus is the progress of an export.
type ExportStatus string

const (
	ExportWaiting ExportStatus = "waiting"
	ExportRunning ExportStatus = "running"
	ExportReady   ExportStatus = "ready"
	ExportFailed  ExportStatus = "failed" // CreateExport starts another one
)

// Export is an archive of everything that an account owns.
type Export struct {
	Status    ExportStatus `json:"status"`
	Done      int64        `json:"done"`  // documents in the archive so far
	Total     int64        `json:"total"` // documents of the account; 0 until they are counted
	CreatedAt time.Time    `json:"createdAt"`
	EndedAt   time.Time    `json:"endedAt"`   // zero while in progress
	ExpiresAt time.Time    `json:"expiresAt"` // when it is deleted; zero while in progress
	SizeBytes int64        `json:"sizeBytes"` // of the zip archive; 0 until it is ready
	URL       string       `json:"url"`       // valid for an hour without a session; empty until it is ready
}

// ExportResult is the account's last export.
type ExportResult struct {
	Meta
	Export Export `json:"export"`
}

const exportPath = "/api/users/user/export"

// CreateExport starts an export of everything the account owns, or returns the one in progress. It requires a session.
func (a *Account) CreateExport(ctx context.Context, options ...CallOption) (*ExportResult, error) {
	return fetch[ExportResult](ctx, a.c, once(http.MethodPost, exportPath, options))
}

// Export returns the state of the last export. The error is a *NotFoundError without one. It requires a session.
func (a *Account) Export(ctx context.Context, options ...CallOption) (*ExportResult, error) {
	return fetch[ExportResult](ctx, a.c, newRequest(http.MethodGet, exportPath, options))
}
