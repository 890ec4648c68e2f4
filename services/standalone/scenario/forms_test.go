package scenario

import (
	"bytes"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"golang.org/x/net/html"
)

// wrongInput is input of a form that is refused.
type wrongInput struct {
	send   []string // names and values in turn, the wrong one first
	says   string   // the message
	status int      // 400 if 0
	whole  bool     // the error is about the form, not a field
}

// triedForm is a form with wrong input.
type triedForm struct {
	who    string // "pro" and "admin": signed in; else a visitor
	page   string // address of the page with the form
	action string // the page's if empty
	shown  string // action of the form that shows the error; the same if empty
	inputs []wrongInput
}

// choices are fields in which nobody can enter something wrong: hidden ones, checkboxes and buttons.
var choices = []string{"account", "once", "next", "apiKey", "burnAfterRead", "removePassword", "version", "sum", "refs", "proof", "dryRun", "off", "now", "plan"}

// withoutForm are operations whose pages answer in another way than with their form again.
var withoutForm = map[string]string{
	"POST /editor/preview":  "a preview has no form",
	"POST /editor/language": "a script asks",
}

// otherForm is described with the form to suspend, and is in that alone.
const otherForm = "POST /console/admin/accounts/{id}/resume confirm"

const typedPassword = "typed and secret"

func over(limit int) string { return strings.Repeat("x", limit+1) }

// triedForms are the forms by their operations. {…} are filled in by newFormTester.
func triedForms(now time.Time) map[string]triedForm {
	forms := map[string]triedForm{
		"POST /paste/create": {page: "/", action: "/paste/create", inputs: []wrongInput{
			{send: []string{"content", "", "title", "kept", "expiresIn", "1d", "language", "go"}, says: "Enter some text."},
			{send: []string{"content", over(quickBytes), "title", "kept"}, status: http.StatusRequestEntityTooLarge, says: "The text must be at most 256 KB (262144 bytes) of UTF-8."},
			{send: []string{"title", over(200), "content", "kept\n</textarea>", "burnAfterRead", "true"}, says: "The title must have at most 200 characters."},
			{send: []string{"language", "no language", "content", "kept", "password", typedPassword}, says: "The language may only have letters, digits and + # . _ -"},
			{send: []string{"visibility", "private", "content", "kept"}, says: "The visibility must not be private without an account."},
			{send: []string{"visibility", "secret", "content", "kept"}, says: "The visibility must be public, unlisted or private."},
			{send: []string{"expiresIn", "1y", "content", "kept"}, says: "The expiry must be between 1 minute and 30 days without an account."},
			{send: []string{"expiresIn", "never", "content", "kept"}, says: "The expiry must be at most 30 days without an account."},
			{send: []string{"password", over(128), "content", "kept"}, says: "The password must have 1 to 128 characters."},
		}},
		"POST /console/files": {who: "pro", page: "/console/files", inputs: []wrongInput{
			{send: []string{"file", "", "visibility", "private", "expiresIn", "7d"}, says: "Choose a file."},
			{send: []string{"file", over(255), "visibility", "public"}, says: `The file’s name must have 1 to 255 characters, and not be "." or "..".`},
			{send: []string{"visibility", "secret", "file", "x"}, says: "The visibility must be public, unlisted or private."},
			{send: []string{"expiresIn", "soon", "file", "x", "visibility", "private"}, says: "The expiry must be a time such as 10m, 12h, 7d or 1y, or never."},
			{send: []string{"key", "k9", "file", "x", "visibility", "private"}, says: "The key must be an active API key of yours whose scopes allow this."},
		}},
	}
	maps.Copy(forms, formsOfSignIn())
	maps.Copy(forms, formsOfTexts())
	maps.Copy(forms, formsOfKeys())
	maps.Copy(forms, formsOfTheAccount())
	maps.Copy(forms, formsOfPayments())
	maps.Copy(forms, formsOfAdmins(now))
	maps.Copy(forms, searchForms())
	return forms
}

func formsOfSignIn() map[string]triedForm {
	both := []wrongInput{
		{send: []string{"email", "", "password", typedPassword}, says: "The email is required."},
		{send: []string{"email", `no"address<b>`, "password", typedPassword}, says: "The email must be an email address such as name@example.com."},
		{send: []string{"email", over(254) + "@example.org", "password", typedPassword}, says: "The email must have at most 254 bytes."},
		{send: []string{"password", "", "email", "a@example.org"}, says: "The password is required."},
		{send: []string{"password", over(128), "email", "a@example.org"}, says: "The password must have 8 to 128 characters."},
	}
	return map[string]triedForm{
		"POST /console/sign-up": {page: "/console/sign-up?next=/docs", action: "/console/sign-up", inputs: append(slices.Clone(both),
			wrongInput{send: []string{"password", "1234567", "email", "a@example.org"}, says: "The password must have 8 to 128 characters."},
			wrongInput{send: []string{"email", "{email}", "password", typedPassword}, status: http.StatusConflict, says: "An account with this email already exists."})},
		"POST /console/sign-in": {page: "/console/sign-in", inputs: append(slices.Clone(both),
			wrongInput{send: []string{"email", "{email}", "password", typedPassword}, status: http.StatusUnauthorized, whole: true, says: "Invalid email or password"})},
		"POST /console/admin/sign-in": {page: "/console/admin/sign-in", inputs: []wrongInput{
			{send: []string{"token", "none of them"}, status: http.StatusUnauthorized, says: "The token is not one of this Quire's."},
			{send: []string{"token", ""}, status: http.StatusUnauthorized, says: "The token is not one of this Quire's."},
		}},
	}
}

func formsOfPayments() map[string]triedForm {
	return map[string]triedForm{
		"POST /console/plan/checkout": {who: "pro", page: "/console/plan", action: "/console/plan/checkout", inputs: []wrongInput{
			{send: []string{"credits", "many"}, says: "The amount must be a decimal number with at most six places."},
			{send: []string{"credits", "-5"}, says: "The amount must be positive."},
			{send: []string{"credits", "0.99"}, says: "Buy credits for $1 to $10000 at a time."},
		}},
		"POST /console/plan/top-up": {who: "pro", page: "/console/plan", action: "/console/plan/top-up", inputs: []wrongInput{
			{send: []string{"below", "0", "credits", "100", "monthlyLimit", "200"}, says: "Enter a balance above zero."},
			{send: []string{"credits", "0", "below", "5", "monthlyLimit", "200"}, says: "Enter how many credits to buy each time."},
			{send: []string{"credits", "0.5", "below", "5", "monthlyLimit", "200"}, says: "Buy at least one credit each time."},
			{send: []string{"monthlyLimit", "99", "below", "5", "credits", "100"}, says: "Enter at least the amount that is bought each time."},
		}},
	}
}

func formsOfTexts() map[string]triedForm {
	text := []wrongInput{
		{send: []string{"title", over(200), "content", "kept\n</textarea>", "tags", "a, b", "visibility", "private", "expiresIn", "1d", "language", "go"}, says: "The title must have at most 200 characters."},
		{send: []string{"title", "a\x01b", "content", "kept", "password", typedPassword}, says: "The title must not contain control characters."},
		{send: []string{"language", "no language", "content", "kept", "burnAfterRead", "on"}, says: "The language may only have letters, digits and + # . _ -"},
		{send: []string{"visibility", "secret", "content", "kept"}, says: "The visibility must be public, unlisted or private."},
		{send: []string{"expiresIn", "11y", "content", "kept"}, says: "The expiry must be between 1 minute and 10 years (3650 days)."},
		{send: []string{"expiresIn", "soon", "content", "kept"}, says: "The expiry must be a time such as 10m, 12h, 7d or 1y, or never."},
		{send: []string{"tags", "1,2,3,4,5,6,7,8,9,10,11", "content", "kept"}, says: "Enter at most 10 different tags."},
		{send: []string{"tags", over(32), "content", "kept"}, says: "The tags must each have 1 to 32 characters and no control characters."},
		{send: []string{"password", over(128), "content", "kept"}, says: "The password must have 1 to 128 characters."},
		{send: []string{"key", "k9", "content", "kept"}, says: "The key must be an active API key of yours whose scopes allow this."},
	}
	empty := wrongInput{send: []string{"content", "", "title", "kept", "tags", "a, b", "visibility", "private", "expiresIn", "1d", "language", "go"}, says: "Enter some text."}
	emptied := wrongInput{send: []string{"content", "", "title", "kept"}, says: "The text must not be empty."}
	access := []wrongInput{
		{send: []string{"key", "k9", "visibility", "private"}, says: "The key must be an active API key of yours whose scopes allow this."},
		{send: []string{"visibility", "secret", "expiresIn", "1d"}, says: "The visibility must be public, unlisted or private."},
		{send: []string{"expiresIn", "soon", "visibility", "private"}, says: "The expiry must be a time such as 10m, 12h, 7d or 1y, or never."},
	}
	locked := []wrongInput{{send: []string{"password", "wrong"}, status: http.StatusForbidden, says: "Wrong password."}}
	removal := []wrongInput{{send: []string{"key", "k9"}, says: "The key must be an active API key of yours whose scopes allow this."}}
	return map[string]triedForm{
		"POST /console/pastes":              {who: "pro", page: "/console/pastes/new", action: "/console/pastes", inputs: append(text, empty)},
		"POST /console/quick":               {who: "pro", page: "/console/quick/new", action: "/console/quick", inputs: append(text, empty)},
		"POST /console/pastes/{ref}":        {who: "pro", page: "/console/pastes/{paste}", inputs: append(text, emptied)},
		"POST /console/quick/{ref}":         {who: "pro", page: "/console/quick/{quick}", inputs: append(text, emptied)},
		"POST /console/pastes/{ref}/access": {who: "pro", page: "/p/{paste}", action: "/console/pastes/{paste}/access", shown: "/console/pastes/{paste}", inputs: access},
		"POST /console/quick/{ref}/access":  {who: "pro", page: "/q/{quick}", action: "/console/quick/{quick}/access", shown: "/console/quick/{quick}", inputs: access},
		"POST /console/pastes/{ref}/open":   {who: "pro", page: "/console/pastes/{locked}", action: "/console/pastes/{locked}/open", inputs: locked},
		"POST /console/quick/{ref}/open":    {who: "pro", page: "/console/quick/{lockedQuick}", action: "/console/quick/{lockedQuick}/open", inputs: locked},
		"POST /console/pastes/delete":       {who: "pro", page: "/console/pastes/delete?ref={paste}", action: "/console/pastes/delete", inputs: removal},
		"POST /console/quick/delete":        {who: "pro", page: "/console/quick/delete?ref={quick}", action: "/console/quick/delete", inputs: removal},
		"POST /console/files/delete":        {who: "pro", page: "/console/files/delete?ref={file}", action: "/console/files/delete", inputs: removal},
		"POST /p/{ref}":                     {page: "/p/{locked}", inputs: locked},
		"POST /q/{ref}":                     {page: "/q/{lockedQuick}", inputs: locked},
		"POST /p/{ref}/diff":                {who: "pro", page: "/p/{locked}/diff?from=1&to=2&view=unified", inputs: locked},
		"POST /q/{ref}/diff":                {who: "pro", page: "/q/{lockedQuick}/diff?from=1&to=2&view=unified", inputs: locked},
	}
}

func formsOfKeys() map[string]triedForm {
	rules := []wrongInput{
		{send: []string{"name", over(100), "expiresIn", "7d", "quotas.pastes.get", "5", "spendingCap.amount", "2.5", "spendingCap.period", "day"}, says: "The name must have at most 100 characters."},
		{send: []string{"name", "default", "expiresIn", "7d"}, status: http.StatusConflict, says: "The name is already used by another active API key. Choose another."},
		{send: []string{"expiresIn", "soon", "name", "kept"}, says: "The expiry must be a time such as 10m, 12h, 7d or 1y, or never."},
		{send: []string{"scopes", "some", "name", "kept"}, says: "Choose at least one request, or allow all requests."},
		{send: []string{"quotas.pastes.get", "many", "name", "kept", "scopes", "some", "scopes.pastes.get", "on"}, says: "The limit must be a whole number from 0 to 1000000000."},
		{send: []string{"quotas.pastes.create", "-1", "name", "kept"}, says: "The limit must be a whole number from 0 to 1000000000."},
		{send: []string{"spendingCap.amount", "much", "spendingCap.period", "day", "name", "kept"}, says: "The amount must be from 0 to 1000000000, with at most six decimal places."},
		{send: []string{"spendingCap.period", "year", "spendingCap.amount", "5", "name", "kept"}, says: "The period must be day, month or total."},
	}
	confirm := wrongInput{send: []string{"confirm", "another"}, says: "Type “ci” to confirm."}
	return map[string]triedForm{
		"POST /console/keys":      {who: "pro", page: "/console/keys", inputs: rules},
		"POST /console/keys/{id}": {who: "pro", page: "/console/keys/k1", inputs: append(rules, wrongInput{send: []string{"name", " "}, says: "The name must have 1 to 100 characters."})},
		"POST /console/keys/{id}/rotate": {who: "pro", page: "/console/keys/k1", action: "/console/keys/k1/rotate", inputs: []wrongInput{
			{send: []string{"confirm", "another", "overlap", "0s"}, says: confirm.says},
			{send: []string{"overlap", "8d"}, says: "The overlap must be at most 7 days, such as 24h."},
		}},
		"POST /console/keys/{id}/revoke": {who: "pro", page: "/console/keys/k1", action: "/console/keys/k1/revoke", inputs: []wrongInput{confirm, {send: []string{"confirm", ""}, says: confirm.says}}},
		"POST /console/spending-cap": {who: "pro", page: "/console/keys", action: "/console/spending-cap", inputs: []wrongInput{
			{send: []string{"amount", "1.0000001", "period", "total"}, says: "The amount must be from 0 to 1000000000, with at most six decimal places."},
			{send: []string{"amount", "-5", "period", "day"}, says: "The amount must be from 0 to 1000000000, with at most six decimal places."},
			{send: []string{"period", "year", "amount", "5"}, says: "The period must be day, month or total."},
		}},
	}
}

func formsOfTheAccount() map[string]triedForm {
	hook := []wrongInput{
		{send: []string{"url", "", "events.quota.threshold", "on", "thresholds", "50"}, says: "The URL must be an address like https://example.com/webhooks."},
		{send: []string{"url", "example.com/hook", "events.quota.threshold", "on", "thresholds", "60, 70"}, says: "The URL must be an address like https://example.com/webhooks."},
		{send: []string{"url", "https://example.com/" + over(2048), "events.quota.threshold", "on"}, says: "The URL must have at most 2048 bytes."},
		{send: []string{"events", "", "url", "https://example.com/hook"}, says: "Choose at least one event."},
		{send: []string{"thresholds", "0, many", "url", "https://example.com/hook", "events.quota.threshold", "on"}, says: "The thresholds must be 1 to 10 whole numbers from 1 to 100, separated by commas."},
		{send: []string{"thresholds", "1,2,3,4,5,6,7,8,9,10,11", "url", "https://example.com/hook", "events.quota.threshold", "on"}, says: "The thresholds must be 1 to 10 whole numbers from 1 to 100, separated by commas."},
		{send: []string{"balanceBelow", "", "events.balance.low", "on", "url", "https://example.com/hook"}, says: "Enter a balance, or clear the event for a low balance."},
		{send: []string{"balanceBelow", "little", "events.quota.threshold", "on", "url", "https://example.com/hook"}, says: "The amount must be a decimal number with at most six places."},
		{send: []string{"balanceBelow", "-1", "events.quota.threshold", "on", "url", "https://example.com/hook"}, says: "The amount must be above zero."},
	}
	wrongPassword := "The current password is wrong."
	return map[string]triedForm{
		"POST /console/billing/webhooks":      {who: "pro", page: "/console/billing/webhooks", inputs: hook},
		"POST /console/billing/webhooks/{id}": {who: "pro", page: "/console/billing/webhooks/{hook}", inputs: hook},
		"POST /console/billing/webhooks/{id}/delete": {who: "pro", page: "/console/billing/webhooks/{hook}", action: "/console/billing/webhooks/{hook}/delete", inputs: []wrongInput{
			{send: []string{"confirm", "another"}, says: "Type “{hook}” to confirm."},
		}},
		"POST /console/email": {who: "pro", page: "/console/account", action: "/console/email", inputs: []wrongInput{
			{send: []string{"email", "none", "currentPassword", typedPassword}, says: "The email must be an email address such as name@example.com."},
			{send: []string{"email", "", "currentPassword", typedPassword}, says: "The email is required."},
			{send: []string{"currentPassword", "", "email", "kept@example.org"}, says: "The current password is required."},
			{send: []string{"currentPassword", typedPassword, "email", "kept@example.org"}, status: http.StatusForbidden, says: wrongPassword},
		}},
		"POST /console/password": {who: "pro", page: "/console/account", action: "/console/password", inputs: []wrongInput{
			{send: []string{"password", "7 chars", "currentPassword", typedPassword}, says: "The new password must have 8 to 128 characters."},
			{send: []string{"password", "", "currentPassword", typedPassword}, says: "The new password is required."},
			{send: []string{"currentPassword", "", "password", "long enough"}, says: "The current password is required."},
			{send: []string{"currentPassword", typedPassword, "password", "long enough"}, status: http.StatusForbidden, says: wrongPassword},
		}},
		"POST /console/delete": {who: "pro", page: "/console/account", action: "/console/delete", inputs: []wrongInput{
			{send: []string{"confirm", "another", "currentPassword", typedPassword}, says: "Type “{email}” to confirm."},
			{send: []string{"currentPassword", "", "confirm", "{email}"}, says: "The current password is required."},
			{send: []string{"currentPassword", typedPassword, "confirm", "{email}"}, status: http.StatusForbidden, says: wrongPassword},
		}},
	}
}

func formsOfAdmins(now time.Time) map[string]triedForm {
	const account = "/console/admin/accounts/{account}"
	reasons := []wrongInput{
		{send: []string{"reason", ""}, says: "The reason is required: 1 to 200 characters."},
		{send: []string{"reason", over(200)}, says: "The reason must have at most 200 characters."},
	}
	return map[string]triedForm{
		"POST /console/admin/prices": {who: "admin", page: "/console/admin/prices", action: "/console/admin/prices", inputs: []wrongInput{
			{send: []string{"book", "{}", "effectiveAt", now.AddDate(0, 1, 0).UTC().Format("2006-01-02T15:04")}, says: "The document is required."},
			{send: []string{"effectiveAt", "tomorrow", "book", "{}"}, says: "The time must be a date and time such as 2026-11-30T12:00."},
		}},
		"POST /console/admin/accounts/{id}/tier": {who: "admin", page: account, action: account + "/tier", inputs: []wrongInput{
			{send: []string{"tier", "gold"}, says: "The plan must be free, pro, max or admin."},
			{send: []string{"when", "later", "tier", "pro"}, says: "The time must be now or periodEnd."},
		}},
		"POST /console/admin/accounts/{id}/credits": {who: "admin", page: account, action: account + "/credits", inputs: []wrongInput{
			{send: []string{"amount", "", "reason", "kept"}, says: "The amount must be a decimal number with at most six places."},
			{send: []string{"amount", "0", "reason", "kept"}, says: "The amount must not be zero."},
			{send: []string{"amount", "2000000000", "reason", "kept"}, says: "The amount must be between -1000000000 and 1000000000."},
			{send: []string{"amount", "-5", "reason", "kept"}, status: http.StatusConflict, says: "The adjustment is larger than the balance."},
			{send: []string{"reason", "", "amount", "5"}, says: "The reason is required: 1 to 200 characters."},
			{send: []string{"reason", over(200), "amount", "5"}, says: "The reason must have at most 200 characters."},
			{send: []string{"expiresAt", "tomorrow", "amount", "5", "reason", "kept"}, says: "The expiry must be a date and time such as 2026-11-30T12:00."},
			{send: []string{"expiresAt", "2020-01-01T00:00", "amount", "5", "reason", "kept"}, says: "The expiry must be in the future."},
			{send: []string{"expiresAt", now.AddDate(0, 1, 0).UTC().Format("2006-01-02T15:04"), "amount", "-5", "reason", "kept"}, says: "Leave the expiry empty: only credits that you add expire."},
		}},
		"POST /console/admin/accounts/{id}/suspend": {who: "admin", page: account, action: account + "/suspend", inputs: []wrongInput{
			{send: []string{"reason", "", "confirm", "{account}"}, says: "The reason is required: 1 to 200 characters."},
			{send: []string{"reason", over(200), "confirm", "{account}"}, says: "The reason must have at most 200 characters."},
			{send: []string{"confirm", "another", "reason", "kept"}, says: "Type “{account}” to confirm."},
		}},
		"POST /console/admin/accounts/{id}/resume": {who: "admin", page: "/console/admin/accounts/{suspended}", action: "/console/admin/accounts/{suspended}/resume", inputs: reasons},
		"POST /console/admin/accounts/{id}/key": {who: "admin", page: account, action: account + "/key", inputs: []wrongInput{
			{send: []string{"confirm", "another"}, says: "Type “{account}” to confirm."},
		}},
		"GET /console/admin": {who: "admin", page: "/console/admin", inputs: []wrongInput{
			{send: []string{"email", over(254) + "@example.org"}, says: "The email must have at most 254 bytes."},
		}},
		"GET /console/admin/requests": {who: "admin", page: "/console/admin/requests", inputs: []wrongInput{
			{send: []string{"id", "none"}, says: "The id must be a request id such as 01a1fff9-83d3-743f-9a6d-5290a1beb664."},
		}},
	}
}

func searchForms() map[string]triedForm {
	contents := []wrongInput{
		{send: []string{"q", over(255), "visibility", "public"}, says: "The title must have at most 255 characters."},
		{send: []string{"visibility", "secret", "q", "kept"}, says: "The visibility must be public, unlisted or private."},
		{send: []string{"order", "random", "q", "kept"}, says: "The order must be desc or asc."},
	}
	texts := append(slices.Clone(contents),
		wrongInput{send: []string{"tag", over(32), "q", "kept"}, says: "The tag must have at most 32 characters."},
		wrongInput{send: []string{"language", over(50), "q", "kept"}, says: "The language must have at most 50 characters."})
	return map[string]triedForm{
		"GET /console/pastes": {who: "pro", page: "/console/pastes", inputs: texts},
		"GET /console/quick":  {who: "pro", page: "/console/quick", inputs: texts},
		"GET /console/files":  {who: "pro", page: "/console/files", inputs: contents},
		"GET /console/requests": {who: "pro", page: "/console/requests", inputs: []wrongInput{
			{send: []string{"quotaKey", "none", "decision", "admitted"}, says: "The quota key must be one of the list."},
			{send: []string{"key", "none"}, says: "The API key must be the id of an API key, such as default."},
			{send: []string{"decision", "none"}, says: "The decision must be one of the list."},
			{send: []string{"httpStatus", "none"}, says: "The status must be an HTTP status such as 404, or a class such as 4xx."},
			{send: []string{"requestId", "none"}, says: "The request id must be a request id such as 01a1fff9-83d3-743f-9a6d-5290a1beb664."},
			{send: []string{"from", "yesterday", "to", "2026-11-30T12:00"}, says: "The start must be a date and time such as 2026-11-30T12:00."},
			{send: []string{"to", "2020-01-01T00:00", "from", "2026-01-01T00:00"}, says: "The end must be later than the start."},
		}},
		"GET /console/billing/ledger": {who: "pro", page: "/console/billing/ledger", inputs: []wrongInput{
			{send: []string{"q", over(200)}, says: "The reason must have at most 200 characters."},
			{send: []string{"type", "none"}, says: "The kind must be one of the list."},
			{send: []string{"quotaKey", "none"}, says: "The request must be one of the list."},
			{send: []string{"from", "yesterday", "q", "kept"}, says: "The first day must be a day such as 2026-11-21."},
			{send: []string{"to", "2026-02-30", "q", "kept"}, says: "The last day must be a day such as 2026-11-21."},
			{send: []string{"from", "2026-02-02", "to", "2026-02-01"}, says: "The first day must not be after the last one."},
			{send: []string{"requestId", "none"}, says: "The request id must be a request id such as 01a1fff9-83d3-743f-9a6d-5290a1beb664."},
		}},
	}
}

// TestEveryFormSaysWhereAndWhyItIsRefused walks the descriptions of all pages, to which a test of the edge holds the table of
// endpoints: a form with a field that isn't tried here fails.
func TestEveryFormSaysWhereAndWhyItIsRefused(t *testing.T) {
	i := common(t)
	tried := triedForms(i.now())
	for path, item := range specification().docs[1].Paths.Map() {
		for method, op := range item.Operations() {
			checkTried(t, method+" "+path, op, tried)
		}
	}
	tester := newFormTester(t, i)
	for _, name := range slices.Sorted(maps.Keys(tried)) {
		t.Run(name, func(t *testing.T) { tester.try(t, strings.ToLower(name[:strings.IndexByte(name, ' ')]), tried[name]) })
	}
}

// checkTried fails if the form of an operation has a field that no wrong input is tried in.
func checkTried(t *testing.T, name string, op *openapi3.Operation, tried map[string]triedForm) {
	t.Helper()
	if op.RequestBody == nil || withoutForm[name] != "" {
		return
	}
	isTried := func(field string) bool { // events tries events.balance.low too
		return slices.ContainsFunc(tried[name].inputs, func(w wrongInput) bool {
			return field == w.send[0] || strings.HasPrefix(field, w.send[0]+".")
		})
	}
	for _, media := range op.RequestBody.Value.Content {
		for field := range media.Schema.Value.Properties {
			if !slices.Contains(choices, field) && !isTried(field) && name+" "+field != otherForm {
				t.Errorf("%s: no wrong input is tried in %s", name, field)
			}
		}
	}
}

// formTester has a visitor for each kind of user.
type formTester struct {
	i        *instance
	visitors map[string]*visitor
	fill     *strings.Replacer
}

func newFormTester(t *testing.T, i *instance) *formTester {
	t.Helper()
	v, a := i.holderOf(t, "pro")
	create := func(path string, body object) object {
		return v.send(t, "POST", path, request{body: body, header: map[string]string{}}).ok(t, http.StatusCreated)
	}
	create("/api/users/user/keys", object{"name": "ci"})
	hook := text(t, create("/api/users/user/webhooks", object{"url": "https://example.com/hook", "events": []string{"quota.threshold"}}), "webhook", "id")
	suspended := i.account(t, "free")
	i.admin(t, "POST", "/api/admin/accounts/"+suspended.id+"/suspend", object{"reason": "spam"}).ok(t, http.StatusOK)
	locked := a.paste(t, object{"content": "locked", "password": correct})
	lockedQuick := a.quick(t, object{"content": "locked", "password": correct})
	a.do(t, "PUT", "/api/dev/pastes/update/"+locked, object{"content": "locked too"}).ok(t, http.StatusOK)
	a.do(t, "PUT", "/api/dev/paste-lite/update/"+lockedQuick, object{"content": "locked too"}).ok(t, http.StatusOK)
	f := &formTester{i: i, visitors: map[string]*visitor{"": i.visitor(), "pro": v, "admin": i.signInAdmin(t)}}
	f.fill = strings.NewReplacer("{email}", a.email, "{account}", a.id, "{suspended}", suspended.id, "{hook}", hook,
		"{paste}", a.paste(t, object{"content": "before"}), "{quick}", a.quick(t, object{"content": "before"}),
		"{locked}", locked, "{lockedQuick}", lockedQuick, "{file}", a.upload(t, "a.txt", []byte("a")))
	return f
}

// try sends each wrong input from a page that was just opened.
func (f *formTester) try(t *testing.T, method string, form triedForm) {
	v := f.visitors[form.who]
	page := f.fill.Replace(form.page)
	action := page
	if form.action != "" {
		action = f.fill.Replace(form.action)
	}
	shown := action
	if form.shown != "" {
		shown = f.fill.Replace(form.shown)
	}
	for _, wrong := range form.inputs {
		send := slices.Clone(wrong.send)
		for n := range send {
			send[n] = f.fill.Replace(send[n])
		}
		status := wrong.status
		if status == 0 {
			status = http.StatusBadRequest
		}
		a := v.submitTo(t, v.open(t, page), method, action, send).shows(t, status)
		doc := parsed(t, a)
		form := formIn(doc, method, shown)
		if form == nil {
			t.Errorf("%.60q: the form is not shown again", send)
			continue
		}
		if why := explains(doc, form, send[0], f.fill.Replace(wrong.says), wrong.whole); why != "" {
			t.Errorf("%.60q: %s", send, why)
		}
		if why := keeps(form, string(a.body), send); why != "" {
			t.Errorf("%.60q: %s", send, why)
		}
	}
}

// generic is what no message to a person says.
var generic = regexp.MustCompile(`(?i)must be a list|the choice|json|\bfield|\bnull\b|\bstring\b|idempotency|X-Request-Id`)

// explains reports what is wrong with how a page explains a refusal; empty if nothing is.
func explains(page, form *html.Node, field, says string, whole bool) string {
	var marked, alerts []*html.Node
	for n := range page.Descendants() {
		if attr(n, "aria-invalid") == "true" {
			marked = append(marked, n)
		}
		if attr(n, "role") == "alert" {
			alerts = append(alerts, n)
		}
	}
	if whole {
		if len(marked) != 0 || len(alerts) != 1 || textOf(alerts[0]) != says {
			return fmt.Sprintf("%d fields are marked, %d alerts", len(marked), len(alerts))
		}
		return ""
	}
	if len(marked) != 1 || len(alerts) != 0 {
		return fmt.Sprintf("%d fields are marked, %d alerts", len(marked), len(alerts))
	}
	name := attr(marked[0], "name")
	if (name != field && !strings.HasPrefix(name, field+".")) || !slices.Contains(controls(form), marked[0]) && attr(marked[0], "form") == "" {
		return fmt.Sprintf("%q is marked in place of %q", name, field)
	}
	for n := range page.Descendants() {
		if id := attr(n, "id"); id != "" && attr(n, "class") == "error" && slices.Contains(strings.Fields(attr(marked[0], "aria-describedby")), id) {
			if got := textOf(n); got != says || generic.MatchString(got) {
				return fmt.Sprintf("it says %q, want %q", got, says)
			}
			return ""
		}
	}
	return "no message describes the field"
}

// keeps reports input that a refused form lost, or a password that it shows; empty if neither.
func keeps(form *html.Node, page string, send []string) string {
	for n := 0; n+1 < len(send); n += 2 {
		name, value := send[n], send[n+1]
		var all []*html.Node
		for _, c := range controls(form) {
			if attr(c, "name") == name {
				all = append(all, c)
			}
		}
		switch {
		case name == "file" || name == "events" || name == "key": // browsers keep no file, the group has no value, and a key must be active
		case name == "password" || name == "currentPassword" || name == "token":
			if value != "" && strings.Contains(page, html.EscapeString(value)) {
				return "the page shows what was typed as " + name
			}
		case !slices.ContainsFunc(all, func(c *html.Node) bool { return valueOf(c) == value }):
			return fmt.Sprintf("%s lost %.40q", name, value)
		}
	}
	return ""
}

// valueOf is what a browser would send of a control; empty for one that is not chosen.
func valueOf(c *html.Node) string {
	switch {
	case c.Data == "textarea":
		return textOf(c)
	case c.Data == "select":
		for n := range c.Descendants() {
			if n.Data == "option" && has(n, "selected") {
				return attr(n, "value")
			}
		}
		return ""
	case (attr(c, "type") == "checkbox" || attr(c, "type") == "radio") && !has(c, "checked"):
		return ""
	}
	return attr(c, "value")
}

func textOf(n *html.Node) string {
	var out strings.Builder
	for child := range n.Descendants() {
		if child.Type == html.TextNode {
			out.WriteString(child.Data)
		}
	}
	return out.String()
}

// submitTo sends a form as a browser without scripts does: hidden fields as they are, these values, and nothing else.
func (v *visitor) submitTo(t *testing.T, page answer, method, action string, send []string) answer {
	t.Helper()
	form := formIn(parsed(t, page), method, action)
	if form == nil {
		t.Fatalf("%s: no form for %s in\n%.3000s", page.what, action, page.body)
	}
	values := url.Values{}
	for _, field := range controls(form) {
		if attr(field, "type") == "hidden" {
			values.Set(attr(field, "name"), attr(field, "value"))
		}
	}
	for n := 0; n+1 < len(send); n += 2 {
		values.Set(send[n], send[n+1])
	}
	delete(values, "events") // the name of a group of checkboxes
	switch {
	case attr(form, "method") == "get":
		return v.open(t, action+"?"+values.Encode())
	case attr(form, "enctype") == "multipart/form-data":
		return v.send(t, "POST", action, multipartOf(t, form, values))
	}
	r := browser("Content-Type", "application/x-www-form-urlencoded")
	r.body = strings.NewReader(values.Encode())
	return v.send(t, "POST", action, r)
}

// multipartOf is a form whose file has its value as its name.
func multipartOf(t *testing.T, form *html.Node, values url.Values) request {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, field := range controls(form) {
		name := attr(field, "name")
		if !values.Has(name) {
			continue
		}
		header := fmt.Sprintf(`form-data; name="%s"`, name)
		if name == "file" {
			header += fmt.Sprintf(`; filename="%s"`, values.Get(name))
		}
		part, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {header}})
		if err == nil {
			_, err = part.Write([]byte(values.Get(name)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := browser("Content-Type", w.FormDataContentType())
	r.body = &b
	return r
}

func parsed(t *testing.T, page answer) *html.Node {
	t.Helper()
	doc, err := html.Parse(bytes.NewReader(page.body))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// formIn is the form for a method and action; nil if the page has none.
func formIn(doc *html.Node, method, action string) *html.Node {
	for n := range doc.Descendants() {
		if n.Data == "form" && attr(n, "method") == method && attr(n, "action") == action {
			return n
		}
	}
	return nil
}

// controls are the fields of a form.
func controls(form *html.Node) (out []*html.Node) {
	for n := range form.Descendants() {
		if n.Data == "input" || n.Data == "select" || n.Data == "textarea" {
			out = append(out, n)
		}
	}
	return out
}

func has(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}
