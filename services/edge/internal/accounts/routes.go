package accounts

import "quire.dev/services/edge/internal/endpoint"

// Rows are the endpoints for users, their keys, usage and webhooks.
func (s *Accounts) Rows() []endpoint.Row {
	row := endpoint.NewRow
	return []endpoint.Row{
		// method, path, who may call, counted under, body, rules, handler
		row("POST", "/api/users/register", endpoint.Anybody, endpoint.Unmetered, endpoint.Fields, endpoint.Idempotent, s.registerUser),
		row("POST", "/api/users/login", endpoint.Anybody, endpoint.Unmetered, endpoint.Fields, endpoint.Idempotent, s.login),
		row("POST", "/api/users/logout", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Empty, endpoint.Idempotent, s.logout),
		row("GET", "/api/users/user", endpoint.KeyOrSession, endpoint.Unmetered, endpoint.NoBody, 0, s.profile),
		row("DELETE", "/api/users/user", endpoint.Session, endpoint.Unmetered, endpoint.Fields, endpoint.Idempotent|endpoint.Command, s.deleteAccount),
		row("GET", "/api/users/user/dev-usage", endpoint.KeyOrSession, endpoint.Unmetered, endpoint.NoBody, 0, s.devUsage),
		row("POST", "/api/users/user/dev-key/regenerate", endpoint.Session, endpoint.Unmetered, endpoint.Empty, endpoint.Idempotent|endpoint.Command, s.regenerateKey),
		row("GET", "/api/users/user/keys", endpoint.Session, endpoint.Unmetered, endpoint.NoBody, 0, s.listKeys),
		row("POST", "/api/users/user/keys", endpoint.Session, endpoint.Unmetered, endpoint.Fields, endpoint.Idempotent|endpoint.Command, s.createKey),
		row("PUT", "/api/users/user/keys/:id", endpoint.Session, endpoint.Unmetered, endpoint.Fields, endpoint.Idempotent|endpoint.Command, s.updateKey),
		row("POST", "/api/users/user/keys/:id/rotate", endpoint.Session, endpoint.Unmetered, endpoint.Fields, endpoint.Idempotent|endpoint.Command, s.rotateKey),
		row("DELETE", "/api/users/user/keys/:id", endpoint.Session, endpoint.Unmetered, endpoint.NoBody, endpoint.Idempotent|endpoint.Command, s.revokeKey),
		row("PUT", "/api/users/user/spending-cap", endpoint.Session, endpoint.Unmetered, endpoint.Fields, endpoint.Idempotent|endpoint.Command, s.setSpendingCap),
		row("PUT", "/api/users/user/password", endpoint.Session, endpoint.Unmetered, endpoint.Fields, endpoint.Idempotent|endpoint.Command, s.changePassword),
		row("PUT", "/api/users/user/email", endpoint.Session, endpoint.Unmetered, endpoint.Fields, endpoint.Idempotent|endpoint.Command, s.changeEmail),
		row("GET", "/api/users/user/sessions", endpoint.Session, endpoint.Unmetered, endpoint.NoBody, 0, s.listSessions),
		row("DELETE", "/api/users/user/sessions", endpoint.Session, endpoint.Unmetered, endpoint.NoBody, endpoint.Idempotent|endpoint.Command, s.endSessions),
		row("DELETE", "/api/users/user/sessions/:id", endpoint.Session, endpoint.Unmetered, endpoint.NoBody, endpoint.Idempotent|endpoint.Command, s.endSession),
		row("GET", "/api/users/user/credits", endpoint.KeyOrSession, endpoint.Unmetered, endpoint.NoBody, endpoint.OwnQuery, s.ledger),
		row("GET", "/api/users/user/usage", endpoint.KeyOrSession, endpoint.Unmetered, endpoint.NoBody, endpoint.OwnQuery, s.usageDays),
		row("GET", "/api/users/user/receipts", endpoint.KeyOrSession, endpoint.Unmetered, endpoint.NoBody, endpoint.OwnQuery, s.receipts),
		row("GET", "/api/users/user/statements/:period", endpoint.KeyOrSession, endpoint.Unmetered, endpoint.NoBody, 0, s.statement),
		row("GET", "/api/users/user/requests", endpoint.KeyOrSession, endpoint.Unmetered, endpoint.NoBody, endpoint.OwnQuery, s.recentRequests),
		row("GET", "/api/users/user/requests/:requestId", endpoint.KeyOrSession, endpoint.Unmetered, endpoint.NoBody, 0, s.explain),

		row("GET", "/api/users/user/webhooks", endpoint.Session, endpoint.Unmetered, endpoint.NoBody, 0, s.listWebhooks),
		row("POST", "/api/users/user/webhooks", endpoint.Session, endpoint.Unmetered, endpoint.Fields, endpoint.Idempotent|endpoint.Command, s.createWebhook),
		row("GET", "/api/users/user/webhooks/:id", endpoint.Session, endpoint.Unmetered, endpoint.NoBody, 0, s.showWebhook),
		row("PUT", "/api/users/user/webhooks/:id", endpoint.Session, endpoint.Unmetered, endpoint.Fields, endpoint.Idempotent|endpoint.Command, s.changeWebhook),
		row("DELETE", "/api/users/user/webhooks/:id", endpoint.Session, endpoint.Unmetered, endpoint.NoBody, endpoint.Idempotent|endpoint.Command, s.deleteWebhook),
		row("POST", "/api/users/user/webhooks/:id/rotate-secret", endpoint.Session, endpoint.Unmetered, endpoint.Empty, endpoint.Idempotent|endpoint.Command, s.rotateWebhookSecret),
		row("POST", "/api/users/user/webhooks/:id/test", endpoint.Session, endpoint.Unmetered, endpoint.Empty, endpoint.Idempotent|endpoint.Command, s.testWebhook),
		row("GET", "/api/users/user/webhooks/:id/deliveries", endpoint.Session, endpoint.Unmetered, endpoint.NoBody, endpoint.OwnQuery, s.listDeliveries),
		row("POST", "/api/users/user/webhooks/:id/deliveries/:delivery/replay", endpoint.Session, endpoint.Unmetered, endpoint.Empty, endpoint.Idempotent, s.replayDelivery),
		row("GET", "/api/users/user/events", endpoint.KeyOrSession, endpoint.Unmetered, endpoint.NoBody, endpoint.OwnQuery, s.listEvents),
	}
}
