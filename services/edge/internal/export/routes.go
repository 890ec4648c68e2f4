package export

import "quire.dev/services/edge/internal/endpoint"

// Rows are the endpoints for exports.
func (s *Exports) Rows() []endpoint.Row {
	row := endpoint.NewRow
	return []endpoint.Row{
		// method, path, who may call, counted under, body, rules, handler
		row("POST", "/api/users/user/export", endpoint.Session, endpoint.Unmetered, endpoint.Empty, endpoint.Idempotent, s.startExport),
		row("GET", "/api/users/user/export", endpoint.Session, endpoint.Unmetered, endpoint.NoBody, 0, s.showExport),
		row("GET", "/exports/:id", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Limited|endpoint.OwnQuery, s.downloadExport),
	}
}
