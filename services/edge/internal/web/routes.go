package web

import (
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/httpin"
)

// route is one endpoint. Its checks run in call.go, before its handler.
type route struct {
	method string // GET answers HEAD too
	path   string
	who    credential
	key    plan.QuotaKey // that the call is counted under
	body   body
	rules  rules
	handle func(*call) error
}

// routes is every endpoint. docs/openapi.yaml describes those of the API and docs/openapi-pages.yaml the others. A test holds
// them to the table.
func (s *Server) routes() []route {
	paste, quick := pasteKind(), quickKind()
	pastes, quickPastes, files := s.pasteContents(), s.quickContents(), s.fileContents()
	return []route{
		// method, path, who may call, counted under, body, rules, handler
		{"POST", "/api/dev/pastes/create", apiKey, plan.PastesCreate, pasteText, idempotent | ownQuery, with(paste, s.createText)},
		{"GET", "/api/dev/pastes/get/:ref", apiKey, plan.PastesGet, noBody, repeatable | ownQuery, with(paste, s.getText)},
		{"PUT", "/api/dev/pastes/update/:ref", apiKey, plan.PastesUpdate, pasteJSON, idempotent, with(paste, s.updateText)},
		{"DELETE", "/api/dev/pastes/delete/:ref", apiKey, plan.PastesDelete, noBody, idempotent, with(paste, s.deleteText)},
		{"GET", "/api/dev/pastes/list", apiKey, unmetered, noBody, ownQuery, with(s.textList(paste), s.list)},
		{"GET", "/api/dev/pastes/versions/:ref", apiKey, unmetered, noBody, ownQuery, with(paste, s.listVersions)},

		{"POST", "/api/dev/paste-lite/create", keyOrKeyless, plan.LiteCreate, quickText, idempotent | ownQuery, with(quick, s.createText)},
		{"GET", "/api/dev/paste-lite/get/:ref", apiKey, plan.LiteGet, noBody, repeatable | ownQuery, with(quick, s.getText)},
		{"PUT", "/api/dev/paste-lite/update/:ref", keyOrToken, plan.LiteUpdate, quickJSON, idempotent, with(quick, s.updateText)},
		{"DELETE", "/api/dev/paste-lite/delete/:ref", keyOrToken, plan.LiteDelete, noBody, idempotent, with(quick, s.deleteText)},
		{"GET", "/api/dev/paste-lite/versions/:ref", apiKey, unmetered, noBody, ownQuery, with(quick, s.listVersions)},
		{"GET", "/api/dev/paste-lite/list", apiKey, plan.LiteList, noBody, ownQuery, with(s.textList(quick), s.list)},

		{"POST", "/api/dev/files/upload", apiKey, plan.FilesUpload, file, idempotent | ownQuery, s.uploadFile},
		{"GET", "/api/dev/files/get/:id", apiKey, plan.FilesGet, noBody, repeatable | ownQuery, s.getFile},
		{"DELETE", "/api/dev/files/delete/:id", apiKey, plan.FilesDelete, noBody, idempotent, s.deleteFile},
		{"GET", "/api/dev/files/list", apiKey, plan.FilesList, noBody, ownQuery, with(s.fileList(), s.list)},

		{"POST", "/api/users/register", anybody, unmetered, fields, idempotent, s.registerUser},
		{"POST", "/api/users/login", anybody, unmetered, fields, idempotent, s.login},
		{"POST", "/api/users/logout", sessionOrNone, unmetered, empty, idempotent, s.logout},
		{"GET", "/api/users/user", keyOrSession, unmetered, noBody, 0, s.profile},
		{"DELETE", "/api/users/user", session, unmetered, fields, idempotent | command, s.deleteAccount},
		{"GET", "/api/users/user/dev-usage", keyOrSession, unmetered, noBody, 0, s.devUsage},
		{"POST", "/api/users/user/dev-key/regenerate", session, unmetered, empty, idempotent | command, s.regenerateKey},
		{"GET", "/api/users/user/keys", session, unmetered, noBody, 0, s.listKeys},
		{"POST", "/api/users/user/keys", session, unmetered, fields, idempotent | command, s.createKey},
		{"PUT", "/api/users/user/keys/:id", session, unmetered, fields, idempotent | command, s.updateKey},
		{"POST", "/api/users/user/keys/:id/rotate", session, unmetered, fields, idempotent | command, s.rotateKey},
		{"DELETE", "/api/users/user/keys/:id", session, unmetered, noBody, idempotent | command, s.revokeKey},
		{"PUT", "/api/users/user/spending-cap", session, unmetered, fields, idempotent | command, s.setSpendingCap},
		{"PUT", "/api/users/user/password", session, unmetered, fields, idempotent | command, s.changePassword},
		{"POST", "/api/users/user/export", session, unmetered, empty, idempotent, s.startExport},
		{"GET", "/api/users/user/export", session, unmetered, noBody, 0, s.showExport},
		{"PUT", "/api/users/user/email", session, unmetered, fields, idempotent | command, s.changeEmail},
		{"GET", "/api/users/user/sessions", session, unmetered, noBody, 0, s.listSessions},
		{"DELETE", "/api/users/user/sessions", session, unmetered, noBody, idempotent | command, s.endSessions},
		{"DELETE", "/api/users/user/sessions/:id", session, unmetered, noBody, idempotent | command, s.endSession},
		{"GET", "/api/users/user/credits", keyOrSession, unmetered, noBody, ownQuery, s.ledger},
		{"GET", "/api/users/user/usage", keyOrSession, unmetered, noBody, ownQuery, s.usageDays},
		{"GET", "/api/users/user/statements/:period", keyOrSession, unmetered, noBody, 0, s.statement},
		{"GET", "/api/users/user/requests", keyOrSession, unmetered, noBody, ownQuery, s.recentRequests},
		{"GET", "/api/users/user/requests/:requestId", keyOrSession, unmetered, noBody, 0, s.explain},

		{"GET", "/api/users/user/webhooks", session, unmetered, noBody, 0, s.listWebhooks},
		{"POST", "/api/users/user/webhooks", session, unmetered, fields, idempotent | command, s.createWebhook},
		{"GET", "/api/users/user/webhooks/:id", session, unmetered, noBody, 0, s.showWebhook},
		{"PUT", "/api/users/user/webhooks/:id", session, unmetered, fields, idempotent | command, s.changeWebhook},
		{"DELETE", "/api/users/user/webhooks/:id", session, unmetered, noBody, idempotent | command, s.deleteWebhook},
		{"POST", "/api/users/user/webhooks/:id/rotate-secret", session, unmetered, empty, idempotent | command, s.rotateWebhookSecret},
		{"POST", "/api/users/user/webhooks/:id/test", session, unmetered, empty, idempotent | command, s.testWebhook},
		{"GET", "/api/users/user/webhooks/:id/deliveries", session, unmetered, noBody, ownQuery, s.listDeliveries},
		{"POST", "/api/users/user/webhooks/:id/deliveries/:delivery/replay", session, unmetered, empty, idempotent, s.replayDelivery},
		{"GET", "/api/users/user/events", keyOrSession, unmetered, noBody, ownQuery, s.listEvents},

		{"POST", "/api/admin/accounts", admin, unmetered, fields, idempotent, s.createAccount},
		{"GET", "/api/admin/accounts", admin, unmetered, noBody, ownQuery, s.listAccounts},
		{"GET", "/api/admin/accounts/:id", admin, unmetered, noBody, 0, s.showAccount},
		{"GET", "/api/admin/accounts/:id/keys", admin, unmetered, noBody, 0, s.showKeysOf},
		{"PUT", "/api/admin/accounts/:id/tier", admin, unmetered, fields, idempotent, s.setTier},
		{"POST", "/api/admin/accounts/:id/credits", admin, unmetered, fields, idempotent, s.grantCredits},
		{"POST", "/api/admin/accounts/:id/key/regenerate", admin, unmetered, empty, idempotent, s.regenerateKeyOf},
		{"POST", "/api/admin/accounts/:id/suspend", admin, unmetered, fields, idempotent, s.suspendAccount},
		{"POST", "/api/admin/accounts/:id/resume", admin, unmetered, fields, idempotent, s.resumeAccount},
		{"POST", "/api/admin/accounts/:id/password", admin, unmetered, fields, idempotent, s.setPassword},
		{"GET", "/api/admin/log", admin, unmetered, noBody, ownQuery, s.adminLog},
		{"GET", "/api/admin/requests/:requestId", admin, unmetered, noBody, 0, s.explainAny},
		{"POST", "/api/admin/audit", admin, unmetered, empty, 0, s.audit},
		{"GET", "/api/admin/audits/:id", admin, unmetered, noBody, 0, s.showAudit},

		{"GET", "/p/:ref", anybody, unmetered, noBody, asked, with(paste, s.showText)},
		{"POST", "/p/:ref", anybody, unmetered, form, asked, with(paste, s.revealText)},
		{"GET", "/p/:ref/versions", anybody, unmetered, noBody, asked, with(paste, s.showVersions)},
		{"GET", "/p/:ref/diff", anybody, unmetered, noBody, asked, with(paste, s.showDiff)},
		{"POST", "/p/:ref/diff", anybody, unmetered, form, asked, with(paste, s.revealDiff)},
		{"GET", "/p/:ref/raw", anybody, unmetered, noBody, views | content, with(paste, s.rawText)},
		{"GET", "/p/:ref/download", anybody, unmetered, noBody, views | content, with(paste, s.downloadText)},
		{"GET", "/q/:ref", anybody, unmetered, noBody, asked, with(quick, s.showText)},
		{"POST", "/q/:ref", anybody, unmetered, form, asked, with(quick, s.revealText)},
		{"GET", "/q/:ref/versions", anybody, unmetered, noBody, asked, with(quick, s.showVersions)},
		{"GET", "/q/:ref/diff", anybody, unmetered, noBody, asked, with(quick, s.showDiff)},
		{"POST", "/q/:ref/diff", anybody, unmetered, form, asked, with(quick, s.revealDiff)},
		{"GET", "/q/:ref/raw", anybody, unmetered, noBody, views | content, with(quick, s.rawText)},
		{"GET", "/q/:ref/download", anybody, unmetered, noBody, views | content, with(quick, s.downloadText)},
		{"GET", "/f/:id", anybody, unmetered, noBody, page, s.showFile},
		{"GET", "/f/:id/raw", anybody, unmetered, noBody, views | content, s.rawFile},
		{"GET", "/f/:id/view", anybody, unmetered, noBody, views | content, s.viewFile},
		{"GET", "/f/:id/download", anybody, unmetered, noBody, limited | ownQuery | content, s.downloadFile},
		{"GET", "/exports/:id", anybody, unmetered, noBody, limited | ownQuery, s.downloadExport},
		{"POST", "/paste/create", keyOrKeyless, plan.LiteCreate, quickText, idempotent | html, s.createFromPage},
		{"GET", console.Path, sessionOrNone, unmetered, noBody, page, s.inConsole(s.showOverview)},
		{"GET", console.UsagePath, session, unmetered, noBody, views, s.showUsage},
		{"GET", console.EventsPath, session, unmetered, noBody, views, with(s.changeMark, s.showEvents)},
		{"GET", console.SignUpPath, sessionOrNone, unmetered, noBody, page, s.showSignUp},
		{"POST", console.SignUpPath, anybody, unmetered, form, page, s.signUpFromPage},
		{"GET", console.SignInPath, sessionOrNone, unmetered, noBody, page, s.showSignIn},
		{"POST", console.SignInPath, anybody, unmetered, form, page, s.signInFromPage},
		{"POST", console.SignOutPath, sessionOrNone, unmetered, form, page, s.signOutFromPage},
		{"POST", console.KeyPath, sessionOrNone, unmetered, form, page, s.inConsole(s.makeKeyFromPage)},
		{"GET", console.KeysPath, sessionOrNone, unmetered, noBody, page, s.inConsole(s.showKeys)},
		{"POST", console.KeysPath, sessionOrNone, unmetered, form, page, s.inConsole(s.createKeyFromPage)},
		{"GET", console.KeysPath + "/:id", sessionOrNone, unmetered, noBody, page, s.inConsole(s.showKey)},
		{"POST", console.KeysPath + "/:id", sessionOrNone, unmetered, form, page, s.inConsole(s.changeKeyFromPage)},
		{"POST", console.KeysPath + "/:id/rotate", sessionOrNone, unmetered, form, page, s.inConsole(s.rotateKeyFromPage)},
		{"POST", console.KeysPath + "/:id/revoke", sessionOrNone, unmetered, form, page, s.inConsole(s.revokeKeyFromPage)},
		{"POST", console.SpendingCapPath, sessionOrNone, unmetered, form, page, s.inConsole(s.capSpendingFromPage)},
		{"GET", console.RequestsPath, sessionOrNone, unmetered, noBody, asked, s.inConsole(s.showRequests)},
		{"GET", console.RequestListPath, session, unmetered, noBody, limited | ownQuery, s.showRequestList},
		{"GET", console.RequestEventsPath, session, unmetered, noBody, views, with(s.requestMark, s.showEvents)},
		{"GET", console.RequestsPath + "/:requestId", sessionOrNone, unmetered, noBody, asked, s.inConsole(s.showRequest)},
		{"GET", console.RequestsPath + "/:requestId/fold", sessionOrNone, unmetered, noBody, asked, s.foldRequest},
		{"GET", console.AccountPath, sessionOrNone, unmetered, noBody, page, s.inConsole(s.showAccountPage)},
		{"POST", console.EmailPath, sessionOrNone, unmetered, form, page, s.inConsole(s.changeEmailFromPage)},
		{"POST", console.PasswordPath, sessionOrNone, unmetered, form, page, s.inConsole(s.changePasswordFromPage)},
		{"POST", console.SessionsPath, sessionOrNone, unmetered, form, page, s.inConsole(s.endSessionsFromPage)},
		{"POST", console.SessionsPath + "/:id", sessionOrNone, unmetered, form, page, s.inConsole(s.endSessionFromPage)},
		{"GET", console.ExportPath, sessionOrNone, unmetered, noBody, page, s.inConsole(s.showExportPage)},
		{"POST", console.ExportPath, sessionOrNone, unmetered, form, page, s.inConsole(s.startExportFromPage)},
		{"POST", console.DeletePath, sessionOrNone, unmetered, form, page, s.inConsole(s.deleteAccountFromPage)},
		{"GET", console.BillingPath, sessionOrNone, unmetered, noBody, page, s.inConsole(s.showBilling)},
		{"GET", console.LedgerPath, sessionOrNone, unmetered, noBody, asked, s.inConsole(s.showLedger)},
		{"GET", console.LedgerTablePath, sessionOrNone, unmetered, noBody, asked, s.inConsole(s.showLedgerTable)},
		{"GET", console.WebhooksPath, sessionOrNone, unmetered, noBody, page, s.inConsole(s.showWebhooksPage)},
		{"POST", console.WebhooksPath, sessionOrNone, unmetered, form, page, s.inConsole(s.createWebhookFromPage)},
		{"GET", console.WebhooksPath + "/:id", sessionOrNone, unmetered, noBody, asked, s.inConsole(s.showWebhookPage)},
		{"POST", console.WebhooksPath + "/:id", sessionOrNone, unmetered, form, page, s.inConsole(s.changeWebhookFromPage)},
		{"POST", console.WebhooksPath + "/:id/" + console.RotateSecret, sessionOrNone, unmetered, form, page, s.inConsole(s.rotateSecretFromPage)},
		{"POST", console.WebhooksPath + "/:id/" + console.TestWebhook, sessionOrNone, unmetered, form, page, s.inConsole(s.testWebhookFromPage)},
		{"POST", console.WebhooksPath + "/:id/" + console.Deletion, sessionOrNone, unmetered, form, page, s.inConsole(s.deleteWebhookFromPage)},
		{"POST", console.WebhooksPath + "/:id/deliveries/:delivery/replay", sessionOrNone, unmetered, form, page, s.inConsole(s.replayDeliveryFromPage)},
		{"GET", console.PastesPath, sessionOrNone, unmetered, noBody, asked, s.contentPage(pastes, s.showContents)},
		{"POST", console.PastesPath, sessionOrNone, plan.PastesCreate, pasteText, page, s.contentPage(pastes, s.createTextFromPage)},
		{"GET", console.PastesPath + "/new", sessionOrNone, unmetered, noBody, page, s.contentPage(pastes, s.showNewText)},
		{"GET", console.PastesPath + "/delete", sessionOrNone, unmetered, noBody, asked, s.contentPage(pastes, s.askToDelete)},
		{"POST", console.PastesPath + "/delete", sessionOrNone, plan.PastesDelete, form, page, s.contentPage(pastes, s.deleteFromPage)},
		{"GET", console.PastesPath + "/:ref", sessionOrNone, unmetered, noBody, page, s.contentPage(pastes, s.showOwnText)},
		{"POST", console.PastesPath + "/:ref", sessionOrNone, plan.PastesUpdate, pasteText, page, s.contentPage(pastes, s.changeTextFromPage)},
		{"POST", console.PastesPath + "/:ref/open", sessionOrNone, unmetered, form, page, s.contentPage(pastes, s.openOwnText)},
		{"GET", console.QuickPath, sessionOrNone, unmetered, noBody, asked, s.contentPage(quickPastes, s.showContents)},
		{"POST", console.QuickPath, sessionOrNone, plan.LiteCreate, quickText, page, s.contentPage(quickPastes, s.createTextFromPage)},
		{"GET", console.QuickPath + "/new", sessionOrNone, unmetered, noBody, page, s.contentPage(quickPastes, s.showNewText)},
		{"GET", console.QuickPath + "/delete", sessionOrNone, unmetered, noBody, asked, s.contentPage(quickPastes, s.askToDelete)},
		{"POST", console.QuickPath + "/delete", sessionOrNone, plan.LiteDelete, form, page, s.contentPage(quickPastes, s.deleteFromPage)},
		{"GET", console.QuickPath + "/:ref", sessionOrNone, unmetered, noBody, page, s.contentPage(quickPastes, s.showOwnText)},
		{"POST", console.QuickPath + "/:ref", sessionOrNone, plan.LiteUpdate, quickText, page, s.contentPage(quickPastes, s.changeTextFromPage)},
		{"POST", console.QuickPath + "/:ref/open", sessionOrNone, unmetered, form, page, s.contentPage(quickPastes, s.openOwnText)},
		{"GET", console.FilesPath, sessionOrNone, unmetered, noBody, asked, s.contentPage(files, s.showContents)},
		{"POST", console.FilesPath, sessionOrNone, plan.FilesUpload, file, page, s.contentPage(files, s.uploadFromPage)},
		{"GET", console.FilesPath + "/delete", sessionOrNone, unmetered, noBody, asked, s.contentPage(files, s.askToDelete)},
		{"POST", console.FilesPath + "/delete", sessionOrNone, plan.FilesDelete, form, page, s.contentPage(files, s.deleteFromPage)},
		{"GET", console.StatementPath + "/:period", sessionOrNone, unmetered, noBody, page, s.inConsole(s.showStatement)},
		{"GET", console.AdminSignInPath, adminPage, unmetered, noBody, page, s.showAdminSignIn},
		{"POST", console.AdminSignInPath, adminPage, unmetered, form, page, s.signInAdmin},
		{"POST", console.AdminSignOutPath, adminPage, unmetered, form, page, s.signOutAdmin},
		{"GET", console.AdminPath, adminPage, unmetered, noBody, asked, s.forAdmins(s.showAdminAccounts)},
		{"GET", console.AdminAccountPath + "/:id", adminPage, unmetered, noBody, page, s.forAdmins(s.showAdminAccount)},
		{"POST", console.AdminAccountPath + "/:id/tier", adminPage, unmetered, form, page, s.forAdmins(s.adminTier())},
		{"POST", console.AdminAccountPath + "/:id/credits", adminPage, unmetered, form, page, s.forAdmins(s.adminCredits())},
		{"POST", console.AdminAccountPath + "/:id/suspend", adminPage, unmetered, form, page, s.forAdmins(s.adminSuspend())},
		{"POST", console.AdminAccountPath + "/:id/resume", adminPage, unmetered, form, page, s.forAdmins(s.adminResume())},
		{"POST", console.AdminAccountPath + "/:id/key", adminPage, unmetered, form, page, s.forAdmins(s.adminKey)},
		{"GET", console.AdminRequestsPath, adminPage, unmetered, noBody, asked, s.forAdmins(s.findAdminRequest)},
		{"GET", console.AdminRequestsPath + "/:requestId", adminPage, unmetered, noBody, asked, s.forAdmins(s.showAdminRequest)},
		{"GET", console.AdminRequestsPath + "/:requestId/fold", adminPage, unmetered, noBody, asked, s.forAdmins(s.foldAdminRequest)},
		{"GET", console.AdminAuditsPath, adminPage, unmetered, noBody, page, s.forAdmins(s.showAdminAudits)},
		{"POST", console.AdminAuditsPath, adminPage, unmetered, form, page, s.forAdmins(s.beginAdminAudit)},
		{"GET", console.AdminAuditsPath + "/:id", adminPage, unmetered, noBody, page, s.forAdmins(s.showAdminAudit)},
		{"GET", console.AdminAuditsPath + "/:id/progress", adminPage, unmetered, noBody, page, s.forAdmins(s.showAuditProgress)},
		{"GET", console.AdminLogPath, adminPage, unmetered, noBody, asked, s.forAdmins(s.showAdminLog)},
		{"GET", console.AdminPricesPath, adminPage, unmetered, noBody, page, s.forAdmins(s.showAdminPrices)},
		{"GET", console.AdminHealthPath, adminPage, unmetered, noBody, asked, s.forAdmins(s.showAdminHealth)},
		{"GET", console.AdminHealthTable, adminPage, unmetered, noBody, asked, s.forAdmins(s.showHealthTable)},
		{"GET", assetPath, anybody, unmetered, noBody, anyQuery | unlimited, s.asset},
		{"GET", "/docs", anybody, unmetered, noBody, page, s.documentation},
		{"GET", "/docs/api/:tag", anybody, unmetered, noBody, page, s.documentation},
		{"GET", "/docs/guides/:name", anybody, unmetered, noBody, page, s.documentation},
		{"GET", "/docs/errors", anybody, unmetered, noBody, page, s.documentation},
		{"GET", "/docs/search", anybody, unmetered, noBody, limited | html | ownQuery, s.searchDocumentation},
		{"GET", "/docs/openapi.yaml", anybody, unmetered, noBody, anyQuery, s.openapi},
		{"GET", "/docs/openapi-pages.yaml", anybody, unmetered, noBody, anyQuery, s.pagesOpenAPI},
		{"GET", "/llms.txt", anybody, unmetered, noBody, views, s.documentation},
		{"GET", "/llms-full.txt", anybody, unmetered, noBody, views, s.documentation},

		{"GET", "/", anybody, unmetered, noBody, page | terminal, s.home},
		{"POST", "/", keyOrKeyless, plan.LiteCreate, quickBytes, idempotent | ownQuery | terminal, s.createFromTerminal},
		{"PUT", "/", keyOrKeyless, plan.LiteCreate, quickBytes, idempotent | ownQuery | terminal, s.createFromTerminal},
		{"PUT", "/:name", keyOrKeyless, plan.LiteCreate, quickBytes, idempotent | ownQuery | terminal | otherwise, s.createFromTerminal},

		{"GET", "/livez", operators, unmetered, noBody, anyQuery | unlimited, s.operate},
		{"GET", "/readyz", operators, unmetered, noBody, anyQuery | unlimited, s.operate},
		{"GET", "/metrics", operators, unmetered, noBody, anyQuery | unlimited, s.operate},
	}
}

// credential says who may call, and by which proof.
type credential uint8

const (
	_             credential = iota
	anybody                  // a write must come from the same origin
	apiKey                   // 401 without one
	keyOrKeyless             // without a key the call is its source's
	keyOrToken               // without a key the call needs a management token; it is not metered
	session                  // a write must come from the same origin
	keyOrSession             // likewise, with a session
	sessionOrNone            // as anybody; the handler looks for the session
	admin                    // the paths exist only where there is an admin token
	adminPage                // as anybody, and the paths exist as those of admin; the handler looks for the session of an admin
	operators                // anybody; the paths exist only where operators have no listener of their own
)

// takesKey tells whether an API key that is sent is the caller's.
func (c credential) takesKey() bool {
	return c == apiKey || c == keyOrKeyless || c == keyOrToken || c == keyOrSession
}

const unmetered = plan.KeyUnspecified

// body says in which form the body of a request is, and how large it may be.
type body uint8

const (
	noBody     body = iota // not looked at
	empty                  // nothing, or an empty JSON object
	fields                 // a JSON object: call.json
	form                   // a form, or nothing: call.form
	pasteJSON              // a JSON object with the content of a paste, which the handler reads
	quickJSON              // likewise, of a quick paste
	pasteText              // JSON or plain text, which the handler reads
	quickText              // likewise
	quickBytes             // the content of a quick paste, or a form with it, which the handler reads
	file                   // bytes, which the handler reads
)

func (b body) limit() httpin.Limit {
	switch b {
	case pasteJSON, pasteText:
		return httpin.Limit{Bytes: 4 << 20, Name: "4 MiB"}
	case quickJSON, quickText, quickBytes:
		return httpin.Limit{Bytes: 256 << 10, Name: "256 KiB"}
	case file:
		return httpin.Limit{Bytes: maxFileBytes, Name: "50 MB"}
	}
	return httpin.Limit{Bytes: 16 << 10, Name: "16 KiB"}
}

// rules are for the other checks.
type rules uint16

const (
	idempotent rules = 1 << iota // takes an Idempotency-Key: call.idem
	repeatable                   // takes one too: a read that is charged once under it
	ownQuery                     // the handler reads the query; without this or anyQuery a parameter is 400
	anyQuery                     // query parameters are ignored
	limited                      // a source may call so often a minute
	html                         // failures are pages where a browser asks
	terminal                     // failures are text unless JSON is asked for
	content                      // exists on the host of Config.ContentURL too; no other row does
	command                      // changes the account of the session: admitChange limits how often
	otherwise                    // the path is of one segment, and no other row has it in any method
	unlimited                    // QUIRE_UNMETERED_RATE does not hold, as it does for the other calls that no quota counts

	views = limited | anyQuery
	page  = views | html
	asked = limited | html | ownQuery // a page whose handler reads the query, and ignores what it does not know
)

func (r rules) has(rule rules) bool { return r&rule != 0 }

// with is a handler that gets v.
func with[T any](v T, h func(*call, T) error) func(*call) error {
	return func(c *call) error { return h(c, v) }
}

// assetPath has what pages load, those for admins too.
const assetPath = "/assets/:name"

// forAdmins tells whether the path exists only where admins are served.
func (r *route) forAdmins() bool { return r.who == admin || r.who == adminPage }

// register adds the routes that exist with this configuration.
func (s *Server) register() {
	routes := s.routes()
	var last []route
	for _, r := range routes {
		if r.forAdmins() && len(s.cfg.AdminTokens) == 0 || s.cfg.AdminOnly && !r.forAdmins() && r.path != assetPath || r.who == operators && s.ops == nil {
			continue
		}
		if r.rules.has(otherwise) {
			last = append(last, r)
			continue
		}
		s.http.Handle(r.method, r.path, s.serve(&r))
	}
	if s.cfg.AdminOnly {
		return
	}
	s.handlePreflights(routes)
	for _, r := range last {
		s.http.HandleName(r.method, s.serve(&r))
	}
	s.http.HandleMissing(s.missingPage)
}
