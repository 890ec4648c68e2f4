package web

import (
	"slices"

	"quire.dev/services/edge/internal/endpoint"
)

// routes is the table of all endpoints. docs/openapi.yaml describes the API and docs/openapi-pages.yaml the other ones; a
// test compares them with the table.
func (s *Server) routes() []endpoint.Row {
	return slices.Concat(s.developer.Rows(), s.accounts.Rows(), s.prices.Rows(), s.purchases.Rows(), s.exports.Rows(), s.admin.Rows(), s.readers.Rows(), s.proofs.Rows(), s.handlers.Rows(), s.adminPages.Rows(), s.otherRows())
}

// otherRows are the assets, the documentation and the probes.
func (s *Server) otherRows() []endpoint.Row {
	row := endpoint.NewRow
	return []endpoint.Row{
		// method, path, who may call, counted under, body, rules, handler
		row("GET", assetPath, endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.AnyQuery|endpoint.Unlimited, s.asset),

		row("GET", "/docs", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.documentation),
		row("GET", "/docs/api/:tag", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.documentation),
		row("GET", "/docs/guides/:name", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.documentation),
		row("GET", "/docs/errors", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.documentation),
		row("GET", "/docs/search", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Limited|endpoint.HTML|endpoint.OwnQuery, s.searchDocumentation),
		row("GET", "/docs/openapi.yaml", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.AnyQuery, s.openapi),
		row("GET", "/docs/openapi-pages.yaml", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.AnyQuery, s.pagesOpenAPI),
		row("GET", "/verify", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.documentation),
		row("GET", "/llms.txt", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Views, s.documentation),
		row("GET", "/llms-full.txt", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.Views, s.documentation),

		row("GET", "/livez", endpoint.Operators, endpoint.Unmetered, endpoint.NoBody, endpoint.AnyQuery|endpoint.Unlimited, s.operate),
		row("GET", "/readyz", endpoint.Operators, endpoint.Unmetered, endpoint.NoBody, endpoint.AnyQuery|endpoint.Unlimited, s.operate),
		row("GET", "/metrics", endpoint.Operators, endpoint.Unmetered, endpoint.NoBody, endpoint.AnyQuery|endpoint.Unlimited, s.operate),
	}
}

// assetPath serves the assets of pages, including those for admins.
const assetPath = "/assets/:name"

// register adds the routes that this configuration enables.
func (s *Server) register() {
	routes := s.routes()
	var last []endpoint.Row
	for _, r := range routes {
		if r.ForAdmins() && len(s.cfg.AdminTokens) == 0 || s.cfg.AdminOnly && !r.ForAdmins() && r.Path != assetPath || r.Who == endpoint.Operators && s.ops == nil {
			continue
		}
		if r.Rules.Has(endpoint.Otherwise) {
			last = append(last, r)
			continue
		}
		s.http.Handle(r.Method, r.Path, s.Handler(&r))
	}
	if s.cfg.AdminOnly {
		return
	}
	s.HandlePreflights(routes)
	for _, r := range last {
		s.http.HandleName(r.Method, s.Handler(&r))
	}
	s.http.HandleMissing(s.missingPage)
}
