package readers

import (
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/kind"
)

// Rows are the pages for readers.
func (s *Readers) Rows() []endpoint.Row {
	paste, quick := kind.Pastes(), kind.QuickPastes()
	row := endpoint.NewRow
	return []endpoint.Row{
		// method, path, who may call, counted under, body, rules, handler
		row("GET", "/p/:ref", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, endpoint.With(paste, s.showText)),
		row("POST", "/p/:ref", endpoint.Anybody, endpoint.Unmetered, endpoint.Form, endpoint.Asked, endpoint.With(paste, s.revealText)),
		row("GET", "/p/:ref/versions", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, endpoint.With(paste, s.showVersions)),
		row("GET", "/p/:ref/diff", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, endpoint.With(paste, s.showDiff)),
		row("POST", "/p/:ref/diff", endpoint.Anybody, endpoint.Unmetered, endpoint.Form, endpoint.Asked, endpoint.With(paste, s.revealDiff)),
		row("GET", "/p/:ref/raw", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Views|endpoint.Content, endpoint.With(paste, s.rawText)),
		row("GET", "/p/:ref/download", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Views|endpoint.Content, endpoint.With(paste, s.downloadText)),

		row("GET", "/q/:ref", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, endpoint.With(quick, s.showText)),
		row("POST", "/q/:ref", endpoint.Anybody, endpoint.Unmetered, endpoint.Form, endpoint.Asked, endpoint.With(quick, s.revealText)),
		row("GET", "/q/:ref/versions", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, endpoint.With(quick, s.showVersions)),
		row("GET", "/q/:ref/diff", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, endpoint.With(quick, s.showDiff)),
		row("POST", "/q/:ref/diff", endpoint.Anybody, endpoint.Unmetered, endpoint.Form, endpoint.Asked, endpoint.With(quick, s.revealDiff)),
		row("GET", "/q/:ref/raw", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Views|endpoint.Content, endpoint.With(quick, s.rawText)),
		row("GET", "/q/:ref/download", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Views|endpoint.Content, endpoint.With(quick, s.downloadText)),

		row("GET", "/f/:id", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.showFile),
		row("GET", "/f/:id/raw", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Views|endpoint.Content, s.rawFile),
		row("GET", "/f/:id/view", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Views|endpoint.Content, s.viewFile),
	}
}
