package reference

import (
	"fmt"
	"strings"
)

// clientCall is an operation in the languages of the clients. The path's variables are set before it.
type clientCall struct {
	result     string // variable for the result, or for an item of a list
	golang     string // uses ctx and c
	typescript string // uses quire
	list       bool   // the result is an iterator over items
	opens      bool   // it opens a session and needs no client
}

// of returns the call with another receiver: pastes and quick pastes have the same methods.
func (c clientCall) of(golang, typescript string) clientCall {
	c.golang, c.typescript = "c."+golang+"."+c.golang, "quire."+typescript+"."+c.typescript
	return c
}

// clientCalls are the operations that the clients have, by their operationId. The snippets' test runs each.
func clientCalls() map[string]clientCall {
	const text = `"package main\n\nfunc main() {}\n"`
	calls := make(map[string]clientCall)
	for name, receivers := range map[string][2]string{"Paste": {"Pastes", "pastes"}, "QuickPaste": {"QuickPastes", "quickPastes"}} {
		for id, call := range map[string]clientCall{
			"create%s":       {result: "made", golang: `Create(ctx, client.NewPaste{Content: "Hello, Quire!\n"})`, typescript: `create({ content: "Hello, Quire!\n" })`},
			"get%s":          {result: "paste", golang: `Get(ctx, pasteID)`, typescript: `get(pasteId)`},
			"update%s":       {result: "updated", golang: `Update(ctx, pasteID, client.PasteChange{Content: client.Set(` + text + `)})`, typescript: `update(pasteId, { content: ` + text + ` })`},
			"delete%s":       {result: "deleted", golang: `Delete(ctx, pasteID)`, typescript: `delete(pasteId)`},
			"list%ss":        {result: "paste", golang: `List(ctx, client.ListFilter{})`, typescript: `list()`, list: true},
			"list%sVersions": {result: "version", golang: `Versions(ctx, pasteID)`, typescript: `versions(pasteId)`, list: true},
		} {
			calls[fmt.Sprintf(id, name)] = call.of(receivers[0], receivers[1])
		}
	}
	for id, call := range map[string]clientCall{
		"uploadFile": {
			result: "file", golang: `Upload(ctx, client.NewFile{Name: "notes.txt", Content: strings.NewReader("Meeting notes\n")})`,
			typescript: `upload({ name: "notes.txt", content: "Meeting notes\n" })`,
		},
		"getFile":    {result: "file", golang: `Get(ctx, fileID)`, typescript: `get(fileId)`},
		"deleteFile": {result: "deleted", golang: `Delete(ctx, fileID)`, typescript: `delete(fileId)`},
		"listFiles":  {result: "file", golang: `List(ctx, client.ListFilter{})`, typescript: `list()`, list: true},
	} {
		calls[id] = call.of("Files", "files")
	}
	for id, call := range accountCalls() {
		calls[id] = call.of("Account", "account")
	}
	for id, call := range keyCalls() {
		calls[id] = call.of("Keys", "keys")
	}
	for id, call := range webhookCalls() {
		calls[id] = call.of("Webhooks", "webhooks")
	}
	const email, password = `"grace@example.org"`, `"correct horse battery staple"`
	for id, method := range map[string][2]string{"registerAccount": {"Register", "register"}, "openSession": {"LogIn", "logIn"}} {
		calls[id] = clientCall{
			result: "session", opens: true,
			golang:     "client." + method[0] + "(ctx, " + email + ", " + password,
			typescript: "Quire." + method[1] + "({ email: " + email + ", password: " + password + " }",
		}
	}
	return calls
}

func accountCalls() map[string]clientCall {
	return map[string]clientCall{
		"getUsage":           {result: "usage", golang: `Usage(ctx)`, typescript: `usage()`},
		"getPrices":          {result: "prices", golang: `Prices(ctx)`, typescript: `prices()`},
		"getPriceBook":       {result: "found", golang: `PriceBook(ctx, priceID)`, typescript: `priceBook(priceId)`},
		"listUsageByDay":     {result: "usage", golang: `UsageByDay(ctx, client.DaysQuery{})`, typescript: `usageByDay()`},
		"listLedgerEntries":  {result: "entry", golang: `Ledger(ctx, client.LedgerFilter{})`, typescript: `ledger()`, list: true},
		"getStatement":       {result: "statement", golang: `Statement(ctx, period)`, typescript: `statement(period)`},
		"listReceipts":       {result: "receipts", golang: `Receipts(ctx, client.ReceiptsQuery{})`, typescript: `receipts()`},
		"listRecentRequests": {result: "request", golang: `Requests(ctx, client.RequestFilter{})`, typescript: `requests()`, list: true},
		"explainRequest":     {result: "explanation", golang: `Explain(ctx, requestID)`, typescript: `explain(requestId)`},
		"listEvents":         {result: "events", golang: `Events(ctx, client.EventsQuery{})`, typescript: `events()`},
		"getProfile":         {result: "profile", golang: `Profile(ctx)`, typescript: `profile()`},
		"closeSession":       {result: "done", golang: `LogOut(ctx)`, typescript: `logOut()`},
		"createExport":       {result: "made", golang: `CreateExport(ctx)`, typescript: `createExport()`},
		"getExport":          {result: "archive", golang: `Export(ctx)`, typescript: `export()`},
		"deleteAccount":      {result: "deletion", golang: `Delete(ctx, "correct horse battery staple")`, typescript: `delete("correct horse battery staple")`},
		"getPlan":            {result: "plan", golang: `Plan(ctx)`, typescript: `plan()`},
		"createCheckout":     {result: "page", golang: `Checkout(ctx, client.Purchase{Credits: 500_000_000})`, typescript: `checkout({ credits: "500" })`},
		"listPayments":       {result: "payment", golang: `Payments(ctx)`, typescript: `payments()`, list: true},
		"setTopUp": {
			result: "rule", golang: `SetTopUp(ctx, &client.TopUpRule{Below: 20_000_000, Credits: 100_000_000, MonthlyLimit: 300_000_000})`,
			typescript: `setTopUp({ below: "20", credits: "100", monthlyLimit: "300" })`,
		},
		"setSpendingCap": {
			result: "limit", golang: `SetSpendingCap(ctx, &client.CapChange{Amount: 5_000_000, Period: client.CapPerMonth})`,
			typescript: `setSpendingCap({ amount: "5.000000", period: "month" })`,
		},
		"changePassword": {
			result: "done", golang: `ChangePassword(ctx, "correct horse battery staple", "Tr0ub4dor and three")`,
			typescript: `changePassword({ currentPassword: "correct horse battery staple", password: "Tr0ub4dor and three" })`,
		},
		"changeEmail": {
			result: "done", golang: `ChangeEmail(ctx, "correct horse battery staple", "lovelace@example.org")`,
			typescript: `changeEmail({ currentPassword: "correct horse battery staple", email: "lovelace@example.org" })`,
		},
		"listSessions":     {result: "sessions", golang: `Sessions(ctx)`, typescript: `sessions()`},
		"deleteSession":    {result: "done", golang: `EndSession(ctx, sessionID)`, typescript: `endSession(sessionId)`},
		"closeAllSessions": {result: "done", golang: `EndAllSessions(ctx)`, typescript: `endAllSessions()`},
	}
}

func keyCalls() map[string]clientCall {
	return map[string]clientCall{
		"regenerateApiKey": {result: "made", golang: `RegenerateDefault(ctx)`, typescript: `regenerateDefault()`},
		"listApiKeys":      {result: "keys", golang: `List(ctx)`, typescript: `list()`},
		"createApiKey":     {result: "made", golang: `Create(ctx, client.NewKey{Name: "laptop"})`, typescript: `create({ name: "laptop" })`},
		"changeApiKey": {
			result: "changed", golang: `Update(ctx, keyID, client.KeyChange{Name: client.Set("laptop"), ExpiresAt: client.Reset[time.Time]()})`,
			typescript: `update(keyId, { name: "laptop", expiresAt: null })`,
		},
		"deleteApiKey":             {result: "revoked", golang: `Revoke(ctx, keyID)`, typescript: `revoke(keyId)`},
		"regenerateKeyWithOverlap": {result: "made", golang: `Rotate(ctx, keyID, 24*time.Hour)`, typescript: `rotate(keyId, "24h")`},
	}
}

func webhookCalls() map[string]clientCall {
	return map[string]clientCall{
		"listWebhooks": {result: "webhooks", golang: `List(ctx)`, typescript: `list()`},
		"createWebhook": {
			result: "made", golang: `Create(ctx, client.NewWebhook{URL: "https://example.com/hooks/quire", Events: []string{client.EventQuotaThreshold}})`,
			typescript: `create({ url: "https://example.com/hooks/quire", events: ["quota.threshold"] })`,
		},
		"getWebhook":          {result: "webhook", golang: `Get(ctx, webhookID)`, typescript: `get(webhookId)`},
		"updateWebhook":       {result: "webhook", golang: `Update(ctx, webhookID, client.WebhookChange{Thresholds: client.Set([]int{50, 90})})`, typescript: `update(webhookId, { thresholds: [50, 90] })`},
		"deleteWebhook":       {result: "deleted", golang: `Delete(ctx, webhookID)`, typescript: `delete(webhookId)`},
		"rotateWebhookSecret": {result: "made", golang: `RotateSecret(ctx, webhookID)`, typescript: `rotateSecret(webhookId)`},
		"testWebhook":         {result: "test", golang: `Test(ctx, webhookID)`, typescript: `test(webhookId)`},
		"listDeliveries":      {result: "delivery", golang: `Deliveries(ctx, webhookID)`, typescript: `deliveries(webhookId)`, list: true},
		"replayDelivery":      {result: "replayed", golang: `ReplayDelivery(ctx, webhookID, delivery)`, typescript: `replay(webhookId, delivery)`},
	}
}

// golangClient is the program that makes a call by the Go client.
func (r *request) golangClient(call clientCall) string {
	p := &goProgram{imports: map[string]bool{"context": true, "fmt": true, "log": true}}
	for _, name := range []string{"strings", "time"} {
		p.imports[name] = strings.Contains(call.golang, name+".")
	}
	for _, part := range r.path {
		if part.name != "" {
			p.line("%s := %q", camel(part.name, "ID"), part.text)
		}
	}
	p.line("ctx := context.Background()")
	base := fmt.Sprintf("client.WithBaseURL(%q)", r.base)
	if call.opens {
		call.golang += ", " + base + ")"
	} else {
		p.imports["os"] = true
		arguments := `os.Getenv("` + secretKey + `"), ` + base
		if r.session == sendsSession {
			arguments = `"", client.WithSession(os.Getenv("` + secretSession + `")), ` + base
		}
		p.line("c, err := client.New(%s)", arguments)
		p.check()
	}
	switch {
	case call.list:
		p.line("for %s, err := range %s {", call.result, call.golang)
		p.line("\tif err != nil {\n\t\t\tlog.Fatal(err)\n\t\t}")
		p.line("\tfmt.Printf(\"%%+v\\n\", *%s)\n\t}", call.result)
	case call.opens:
		p.line("%s, err := %s", call.result, call.golang)
		p.check()
		p.line("fmt.Println(%s.Profile.Account.ID, %[1]s.Cookie)", call.result)
	default:
		p.line("%s, err := %s", call.result, call.golang)
		p.check()
		p.line("fmt.Printf(\"%%+v\\n\", *%s)", call.result)
	}
	return p.text("quire.dev/client")
}

// typescriptClient is the program that makes a call by the TypeScript client.
func (r *request) typescriptClient(call clientCall) string {
	var out strings.Builder
	out.WriteString("import { Quire } from \"quire-client\";\n\n")
	for _, part := range r.path {
		if part.name != "" {
			fmt.Fprintf(&out, "const %s = %s;\n", camel(part.name, "Id"), quote(part.text))
		}
	}
	base := "baseUrl: " + quote(r.base)
	switch {
	case call.opens:
		call.typescript += ", { " + base + " })"
	case r.session == sendsSession:
		fmt.Fprintf(&out, "const quire = new Quire({ session: process.env.%s, %s });\n", secretSession, base)
	default:
		fmt.Fprintf(&out, "const quire = new Quire({ apiKey: process.env.%s, %s });\n", secretKey, base)
	}
	switch {
	case call.list:
		fmt.Fprintf(&out, "for await (const %s of %s) console.log(%[1]s);", call.result, call.typescript)
	case call.opens:
		fmt.Fprintf(&out, "const { account, %s } = await %s;\nconsole.log(account.id, %[1]s);", call.result, call.typescript)
	default:
		fmt.Fprintf(&out, "const %s = await %s;\nconsole.log(%[1]s);", call.result, call.typescript)
	}
	return out.String()
}
