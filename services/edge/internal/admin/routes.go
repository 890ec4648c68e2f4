package admin

import "quire.dev/services/edge/internal/endpoint"

// Rows are the API for admins.
func (s *Admin) Rows() []endpoint.Row {
	row := endpoint.NewRow
	return []endpoint.Row{
		// method, path, who may call, counted under, body, rules, handler
		row("POST", "/api/admin/accounts", endpoint.Admin, endpoint.Unmetered, endpoint.Fields, endpoint.Idempotent, s.createAccount),
		row("GET", "/api/admin/accounts", endpoint.Admin, endpoint.Unmetered, endpoint.NoBody, endpoint.OwnQuery, s.listAccounts),
		row("GET", "/api/admin/accounts/:id", endpoint.Admin, endpoint.Unmetered, endpoint.NoBody, 0, s.showAccount),
		row("GET", "/api/admin/accounts/:id/keys", endpoint.Admin, endpoint.Unmetered, endpoint.NoBody, 0, s.showKeysOf),
		row("DELETE", "/api/admin/accounts/:id/keys/:key", endpoint.Admin, endpoint.Unmetered, endpoint.NoBody, endpoint.Idempotent, s.revokeKeyOf),
		row("PUT", "/api/admin/accounts/:id/tier", endpoint.Admin, endpoint.Unmetered, endpoint.Fields, endpoint.Idempotent, s.setTier),
		row("POST", "/api/admin/accounts/:id/credits", endpoint.Admin, endpoint.Unmetered, endpoint.Fields, endpoint.Idempotent, s.grantCredits),
		row("POST", "/api/admin/accounts/:id/refunds", endpoint.Admin, endpoint.Unmetered, endpoint.Fields, endpoint.Idempotent, s.refund),
		row("POST", "/api/admin/accounts/:id/payments", endpoint.Admin, endpoint.Unmetered, endpoint.Fields, endpoint.Idempotent, s.recordPayment),
		row("POST", "/api/admin/accounts/:id/reversals", endpoint.Admin, endpoint.Unmetered, endpoint.Fields, endpoint.Idempotent, s.reversePayment),
		row("POST", "/api/admin/accounts/:id/key/regenerate", endpoint.Admin, endpoint.Unmetered, endpoint.Empty, endpoint.Idempotent, s.regenerateKeyOf),
		row("POST", "/api/admin/accounts/:id/suspend", endpoint.Admin, endpoint.Unmetered, endpoint.Fields, endpoint.Idempotent, s.suspendAccount),
		row("POST", "/api/admin/accounts/:id/resume", endpoint.Admin, endpoint.Unmetered, endpoint.Fields, endpoint.Idempotent, s.resumeAccount),
		row("POST", "/api/admin/accounts/:id/password", endpoint.Admin, endpoint.Unmetered, endpoint.Fields, endpoint.Idempotent, s.setPassword),
		row("GET", "/api/admin/prices", endpoint.Admin, endpoint.Unmetered, endpoint.NoBody, 0, s.showPrices),
		row("GET", "/api/admin/prices/:id", endpoint.Admin, endpoint.Unmetered, endpoint.NoBody, 0, s.showOnePrices),
		row("POST", "/api/admin/prices", endpoint.Admin, endpoint.Unmetered, endpoint.BookJSON, endpoint.OwnQuery, s.applyPrices),
		row("DELETE", "/api/admin/prices/:id", endpoint.Admin, endpoint.Unmetered, endpoint.NoBody, 0, s.withdrawPrices),
		row("GET", "/api/admin/revenue", endpoint.Admin, endpoint.Unmetered, endpoint.NoBody, 0, s.revenue),
		row("GET", "/api/admin/log", endpoint.Admin, endpoint.Unmetered, endpoint.NoBody, endpoint.OwnQuery, s.adminLog),
		row("GET", "/api/admin/requests/:requestId", endpoint.Admin, endpoint.Unmetered, endpoint.NoBody, 0, s.explainAny),
		row("POST", "/api/admin/audit", endpoint.Admin, endpoint.Unmetered, endpoint.Empty, endpoint.OwnQuery, s.audit),
		row("POST", "/api/admin/repair", endpoint.Admin, endpoint.Unmetered, endpoint.Empty, endpoint.OwnQuery, s.repair),
		row("GET", "/api/admin/audits/:id", endpoint.Admin, endpoint.Unmetered, endpoint.NoBody, endpoint.OwnQuery, s.showAudit),
	}
}
