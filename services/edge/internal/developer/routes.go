package developer

import (
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/kind"
)

// Rows are the developer API, and the routes that create quick pastes from a terminal.
func (s *API) Rows() []endpoint.Row {
	paste, quick, file := kind.Pastes(), kind.QuickPastes(), kind.Files()
	row := endpoint.NewRow
	return []endpoint.Row{
		// method, path, who may call, counted under, body, rules, handler
		row("POST", "/api/dev/pastes/create", endpoint.APIKey, paste.Create, endpoint.PasteText, endpoint.Idempotent|endpoint.OwnQuery, endpoint.With(paste, s.createText)),
		row("GET", "/api/dev/pastes/get/:ref", endpoint.APIKey, paste.Read, endpoint.NoBody, endpoint.Repeatable|endpoint.OwnQuery, endpoint.With(paste, s.getText)),
		row("PUT", "/api/dev/pastes/update/:ref", endpoint.APIKey, paste.Update, endpoint.PasteJSON, endpoint.Idempotent, endpoint.With(paste, s.updateText)),
		row("DELETE", "/api/dev/pastes/delete/:ref", endpoint.APIKey, paste.Delete, endpoint.NoBody, endpoint.Idempotent, endpoint.With(paste, s.deleteText)),
		row("GET", "/api/dev/pastes/list", endpoint.APIKey, paste.List, endpoint.NoBody, endpoint.OwnQuery, endpoint.With(s.TextList(paste), s.list)),
		row("GET", "/api/dev/pastes/versions/:ref", endpoint.APIKey, paste.Versions, endpoint.NoBody, endpoint.OwnQuery, endpoint.With(paste, s.listVersions)),

		row("POST", "/api/dev/paste-lite/create", endpoint.KeyOrKeyless, quick.Create, endpoint.QuickText, endpoint.Idempotent|endpoint.OwnQuery, endpoint.With(quick, s.createText)),
		row("GET", "/api/dev/paste-lite/get/:ref", endpoint.APIKey, quick.Read, endpoint.NoBody, endpoint.Repeatable|endpoint.OwnQuery, endpoint.With(quick, s.getText)),
		row("PUT", "/api/dev/paste-lite/update/:ref", endpoint.KeyOrToken, quick.Update, endpoint.QuickJSON, endpoint.Idempotent, endpoint.With(quick, s.updateText)),
		row("DELETE", "/api/dev/paste-lite/delete/:ref", endpoint.KeyOrToken, quick.Delete, endpoint.NoBody, endpoint.Idempotent, endpoint.With(quick, s.deleteText)),
		row("GET", "/api/dev/paste-lite/versions/:ref", endpoint.APIKey, quick.Versions, endpoint.NoBody, endpoint.OwnQuery, endpoint.With(quick, s.listVersions)),
		row("GET", "/api/dev/paste-lite/list", endpoint.APIKey, quick.List, endpoint.NoBody, endpoint.OwnQuery, endpoint.With(s.TextList(quick), s.list)),

		row("POST", "/api/dev/files/upload", endpoint.APIKey, file.Create, endpoint.File, endpoint.Idempotent|endpoint.OwnQuery, s.uploadFile),
		row("GET", "/api/dev/files/get/:id", endpoint.APIKey, file.Read, endpoint.NoBody, endpoint.Repeatable|endpoint.OwnQuery, s.getFile),
		row("DELETE", "/api/dev/files/delete/:id", endpoint.APIKey, file.Delete, endpoint.NoBody, endpoint.Idempotent, s.deleteFile),
		row("GET", "/api/dev/files/list", endpoint.APIKey, file.List, endpoint.NoBody, endpoint.OwnQuery, endpoint.With(s.FileList(), s.list)),

		row("GET", "/f/:id/download", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Limited|endpoint.OwnQuery|endpoint.Content, s.downloadFile),
		row("POST", "/", endpoint.KeyOrKeyless, quick.Create, endpoint.QuickBytes, endpoint.Idempotent|endpoint.OwnQuery|endpoint.Terminal, s.createFromTerminal),
		row("PUT", "/", endpoint.KeyOrKeyless, quick.Create, endpoint.QuickBytes, endpoint.Idempotent|endpoint.OwnQuery|endpoint.Terminal, s.createFromTerminal),
		row("PUT", "/:name", endpoint.KeyOrKeyless, quick.Create, endpoint.QuickBytes, endpoint.Idempotent|endpoint.OwnQuery|endpoint.Terminal|endpoint.Otherwise, s.createFromTerminal),
	}
}
