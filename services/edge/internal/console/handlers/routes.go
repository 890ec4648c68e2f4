package handlers

import (
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/endpoint"
)

// Rows are the endpoints of the console.
func (s *Handlers) Rows() []endpoint.Row {
	pastes, quickPastes, files := s.pasteContents(), s.quickContents(), s.fileContents()
	row := endpoint.NewRow
	return []endpoint.Row{
		// method, path, who may call, counted under, body, rules, handler
		row("GET", console.Path, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, s.inConsole(s.showOverview)),
		row("GET", console.UsagePath, endpoint.Session, endpoint.Unmetered, endpoint.NoBody, endpoint.Limited|endpoint.OwnQuery, s.showUsage),
		row("GET", console.EventsPath, endpoint.Session, endpoint.Unmetered, endpoint.NoBody, endpoint.Views, endpoint.With(s.changeMark, s.showEvents)),
		row("GET", console.SignUpPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.showSignUp),
		row("POST", console.SignUpPath, endpoint.Anybody, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.signUpFromPage),
		row("GET", console.SignInPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.showSignIn),
		row("POST", console.SignInPath, endpoint.Anybody, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.signInFromPage),
		row("POST", console.KeepPath, endpoint.Anybody, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.keepAccountFromPage),
		row("POST", console.SignOutPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.signOutFromPage),
		row("POST", console.KeyPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.inConsole(s.makeKeyFromPage)),
		row("GET", console.KeysPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.inConsole(s.showKeys)),
		row("POST", console.KeysPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.inConsole(s.createKeyFromPage)),
		row("GET", console.KeysPath+"/:id", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.inConsole(s.showKey)),
		row("POST", console.KeysPath+"/:id", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.inConsole(s.changeKeyFromPage)),
		row("POST", console.KeysPath+"/:id/rotate", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.inConsole(s.rotateKeyFromPage)),
		row("POST", console.KeysPath+"/:id/revoke", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.inConsole(s.revokeKeyFromPage)),
		row("POST", console.SpendingCapPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.inConsole(s.capSpendingFromPage)),
		row("GET", console.RequestsPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, s.inConsole(s.showRequests)),
		row("GET", console.RequestTablePath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, s.inConsole(s.showRequestTable)),
		row("GET", console.RequestListPath, endpoint.Session, endpoint.Unmetered, endpoint.NoBody, endpoint.Limited|endpoint.OwnQuery, s.showRequestList),
		row("GET", console.RequestEventsPath, endpoint.Session, endpoint.Unmetered, endpoint.NoBody, endpoint.Views, endpoint.With(s.requestMark, s.showEvents)),
		row("GET", console.RequestsPath+"/:requestId", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, s.inConsole(s.showRequest)),
		row("GET", console.RequestsPath+"/:requestId/fold", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, s.foldRequest),
		row("GET", console.AccountPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.inConsole(s.showAccountPage)),
		row("POST", console.EmailPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.inConsole(s.changeEmailFromPage)),
		row("POST", console.PasswordPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.inConsole(s.changePasswordFromPage)),
		row("POST", console.SessionsPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.inConsole(s.endSessionsFromPage)),
		row("POST", console.SessionsPath+"/:id", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.inConsole(s.endSessionFromPage)),
		row("GET", console.ExportPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.inConsole(s.showExportPage)),
		row("POST", console.ExportPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.inConsole(s.startExportFromPage)),
		row("POST", console.DeletePath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.inConsole(s.deleteAccountFromPage)),
		row("GET", console.BillingPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.inConsole(s.showBilling)),
		row("GET", console.PlanPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, s.inConsole(s.showPlan)),
		row("POST", console.CheckoutPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.inConsole(s.checkoutFromPage)),
		row("POST", console.PortalPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.inConsole(s.openPortalFromPage)),
		row("POST", console.CancelPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.inConsole(s.cancelPlanFromPage)),
		row("POST", console.TopUpPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.inConsole(s.setTopUpFromPage)),
		row("GET", console.PaymentsPath+"/:number", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.inConsole(s.showReceipt)),
		row("GET", console.LedgerPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, s.inConsole(s.showLedger)),
		row("GET", console.LedgerTablePath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, s.inConsole(s.showLedgerTable)),
		row("GET", console.WebhooksPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.inConsole(s.showWebhooksPage)),
		row("POST", console.WebhooksPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.inConsole(s.createWebhookFromPage)),
		row("GET", console.WebhooksPath+"/:id", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, s.inConsole(s.showWebhookPage)),
		row("POST", console.WebhooksPath+"/:id", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.inConsole(s.changeWebhookFromPage)),
		row("POST", console.WebhooksPath+"/:id/"+console.RotateSecret, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.inConsole(s.rotateSecretFromPage)),
		row("POST", console.WebhooksPath+"/:id/"+console.TestWebhook, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.inConsole(s.testWebhookFromPage)),
		row("POST", console.WebhooksPath+"/:id/"+console.Deletion, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.inConsole(s.deleteWebhookFromPage)),
		row("GET", console.WebhooksPath+"/:id/"+console.DeliveryEvents, endpoint.Session, endpoint.Unmetered, endpoint.NoBody, endpoint.Views, s.showDeliveryEvents),
		row("GET", console.WebhooksPath+"/:id/"+console.Deliveries, endpoint.Session, endpoint.Unmetered, endpoint.NoBody, endpoint.Limited, s.showDeliveryList),
		row("POST", console.WebhooksPath+"/:id/deliveries/:delivery/replay", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.inConsole(s.replayDeliveryFromPage)),

		row("GET", "/", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Page|endpoint.Terminal, s.showHome),
		row("POST", "/paste/create", endpoint.KeyOrVisitor, plan.LiteCreate, endpoint.QuickText, endpoint.Idempotent|endpoint.HTML, s.createFromHome),

		row("GET", console.PastesPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, s.contentPage(pastes, s.showContents)),
		row("POST", console.PastesPath, endpoint.SessionOrNone, plan.PastesCreate, endpoint.PasteText, endpoint.Page, s.contentPage(pastes, s.createTextFromPage)),
		row("GET", console.PastesPath+"/new", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.contentPage(pastes, s.showNewText)),
		row("GET", console.PastesPath+"/delete", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, s.contentPage(pastes, s.askToDelete)),
		row("POST", console.PastesPath+"/delete", endpoint.SessionOrNone, plan.PastesDelete, endpoint.Form, endpoint.Page, s.contentPage(pastes, s.deleteFromPage)),
		row("GET", console.PastesPath+"/:ref", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.contentPage(pastes, s.showOwnText)),
		row("POST", console.PastesPath+"/:ref", endpoint.SessionOrNone, plan.PastesUpdate, endpoint.PasteText, endpoint.Page, s.contentPage(pastes, s.changeTextFromPage)),
		row("POST", console.PastesPath+"/:ref/open", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.contentPage(pastes, s.openOwnText)),
		row("POST", console.PastesPath+"/:ref"+console.AccessPath, endpoint.SessionOrNone, plan.PastesUpdate, endpoint.Form, endpoint.Page, s.contentPage(pastes, s.changeAccessFromPage)),
		row("GET", console.QuickPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, s.contentPage(quickPastes, s.showContents)),
		row("POST", console.QuickPath, endpoint.SessionOrNone, plan.LiteCreate, endpoint.QuickText, endpoint.Page, s.contentPage(quickPastes, s.createTextFromPage)),
		row("GET", console.QuickPath+"/new", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.contentPage(quickPastes, s.showNewText)),
		row("GET", console.QuickPath+"/delete", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, s.contentPage(quickPastes, s.askToDelete)),
		row("POST", console.QuickPath+"/delete", endpoint.SessionOrNone, plan.LiteDelete, endpoint.Form, endpoint.Page, s.contentPage(quickPastes, s.deleteFromPage)),
		row("GET", console.QuickPath+"/:ref", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.contentPage(quickPastes, s.showOwnText)),
		row("POST", console.QuickPath+"/:ref", endpoint.SessionOrNone, plan.LiteUpdate, endpoint.QuickText, endpoint.Page, s.contentPage(quickPastes, s.changeTextFromPage)),
		row("POST", console.QuickPath+"/:ref/open", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.contentPage(quickPastes, s.openOwnText)),
		row("POST", console.QuickPath+"/:ref"+console.AccessPath, endpoint.SessionOrNone, plan.LiteUpdate, endpoint.Form, endpoint.Page, s.contentPage(quickPastes, s.changeAccessFromPage)),
		row("GET", console.FilesPath, endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, s.contentPage(files, s.showContents)),
		row("POST", console.FilesPath, endpoint.SessionOrNone, plan.FilesUpload, endpoint.File, endpoint.Page, s.contentPage(files, s.uploadFromPage)),
		row("GET", console.FilesPath+"/delete", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, s.contentPage(files, s.askToDelete)),
		row("POST", console.FilesPath+"/delete", endpoint.SessionOrNone, plan.FilesDelete, endpoint.Form, endpoint.Page, s.contentPage(files, s.deleteFromPage)),
		row("GET", console.StatementPath+"/:period/lines.csv", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.inConsole(s.showStatementTable)),
		row("GET", console.StatementPath+"/:period", endpoint.SessionOrNone, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.inConsole(s.showStatement)),
	}
}

// Rows are the pages for admins.
func (s *Admins) Rows() []endpoint.Row {
	row := endpoint.NewRow
	return []endpoint.Row{
		// method, path, who may call, counted under, body, rules, handler
		row("GET", console.AdminSignInPath, endpoint.AdminPage, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.showAdminSignIn),
		row("POST", console.AdminSignInPath, endpoint.AdminPage, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.signInAdmin),
		row("POST", console.AdminSignOutPath, endpoint.AdminPage, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.signOutAdmin),
		row("GET", console.AdminPath, endpoint.AdminPage, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, s.forAdmins(s.showAdminAccounts)),
		row("GET", console.AdminAccountPath+"/:id", endpoint.AdminPage, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.forAdmins(s.showAdminAccount)),
		row("POST", console.AdminAccountPath+"/:id/tier", endpoint.AdminPage, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.forAdmins(s.adminTier())),
		row("POST", console.AdminAccountPath+"/:id/credits", endpoint.AdminPage, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.forAdmins(s.adminCredits())),
		row("POST", console.AdminAccountPath+"/:id/suspend", endpoint.AdminPage, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.forAdmins(s.adminSuspend())),
		row("POST", console.AdminAccountPath+"/:id/resume", endpoint.AdminPage, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.forAdmins(s.adminResume())),
		row("POST", console.AdminAccountPath+"/:id/key", endpoint.AdminPage, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.forAdmins(s.adminKey)),
		row("GET", console.AdminRequestsPath, endpoint.AdminPage, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, s.forAdmins(s.findAdminRequest)),
		row("GET", console.AdminRequestsPath+"/:requestId", endpoint.AdminPage, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, s.forAdmins(s.showAdminRequest)),
		row("GET", console.AdminRequestsPath+"/:requestId/fold", endpoint.AdminPage, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, s.forAdmins(s.foldAdminRequest)),
		row("GET", console.AdminAuditsPath, endpoint.AdminPage, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.forAdmins(s.showAdminAudits)),
		row("POST", console.AdminAuditsPath, endpoint.AdminPage, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.forAdmins(s.beginAdminAudit)),
		row("GET", console.AdminAuditsPath+"/:id", endpoint.AdminPage, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.forAdmins(s.showAdminAudit)),
		row("GET", console.AdminAuditsPath+"/:id/progress", endpoint.AdminPage, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.forAdmins(s.showAuditProgress)),
		row("GET", console.AdminLogPath, endpoint.AdminPage, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, s.forAdmins(s.showAdminLog)),
		row("GET", console.AdminRevenuePath, endpoint.AdminPage, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.forAdmins(s.showAdminRevenue)),
		row("GET", console.AdminPricesPath, endpoint.AdminPage, endpoint.Unmetered, endpoint.NoBody, endpoint.Page, s.forAdmins(s.showAdminPrices)),
		row("POST", console.AdminPricesPath, endpoint.AdminPage, endpoint.Unmetered, endpoint.BookForm, endpoint.Page, s.forAdmins(s.applyPricesByForm)),
		row("POST", console.AdminPricesPath+"/:id/withdraw", endpoint.AdminPage, endpoint.Unmetered, endpoint.Form, endpoint.Page, s.forAdmins(s.withdrawPricesByForm)),
		row("GET", console.AdminHealthPath, endpoint.AdminPage, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, s.forAdmins(s.showAdminHealth)),
		row("GET", console.AdminHealthTable, endpoint.AdminPage, endpoint.Unmetered, endpoint.NoBody, endpoint.Asked, s.forAdmins(s.showHealthTable)),
	}
}
