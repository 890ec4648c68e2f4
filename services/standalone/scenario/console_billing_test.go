package scenario

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
)

// entriesOf are the entries of the ledger that a page shows, the newest first: their kinds and amounts.
func entriesOf(t *testing.T, page answer) (list []string) {
	t.Helper()
	page.shows(t, http.StatusOK)
	row := regexp.MustCompile(`<tr><th scope="row"><time [^>]*>[^<]*</time></th><td>([^<]*)</td><td>.*?</td><td class="n">([^<]*)</td><td class="n">[^<]*</td></tr>`)
	for _, m := range row.FindAllStringSubmatch(string(page.body), -1) {
		list = append(list, m[1]+" "+strings.NewReplacer("&#43;", "+", "\u2212", "-").Replace(m[2]))
	}
	return list
}

// TestTheLedgerIsSearchedInTheConsole: grants, charges and adjustments, in pages and as a table, as in the API.
func TestTheLedgerIsSearchedInTheConsole(t *testing.T) {
	i := common(t)
	v, email, key := i.signUp(t)
	v.open(t, "/console/billing").shows(t, http.StatusOK, "You have no credits", "No entries yet", "no cap", "so far")
	v.open(t, "/console/billing/ledger").shows(t, http.StatusOK, "No entries yet").hides(t, "Download")

	id := text(t, v.send(t, "GET", "/api/users/user", request{header: map[string]string{}}).ok(t, http.StatusOK), "account", "id")
	a := account{i: i, id: id, email: email, key: key}
	a.setTier(t, "pro")
	grant := func(amount, reason string, lasts time.Duration) {
		t.Helper()
		body := object{"amount": amount, "reason": reason}
		if lasts != 0 {
			body["expiresAt"] = time.Now().Add(i.offset() + lasts).UTC().Format(time.RFC3339)
		}
		i.admin(t, "POST", "/api/admin/accounts/"+id+"/credits", body).ok(t, http.StatusOK)
	}
	grant("1234.5", "a <gift> for life", 0)
	grant("5", "a gift for a week", 7*day)
	grant("-0.5", "a mistake", 0)
	a.hammer(t, 101, func(int) operation { return operation{"POST", "/api/dev/files/upload?name=f", "x", http.StatusCreated} })
	eventually.True(t, "the request that credits paid is settled", func() bool {
		return len(a.do(t, "GET", "/api/users/user/credits?type=charge", nil).ok(t, http.StatusOK)["entries"].([]any)) == 1
	})

	page := v.open(t, "/console/billing").shows(t, http.StatusOK, "1,238.995000", "a &lt;gift&gt; for life", "a gift for a week", "4.495000", "5.000000", "1,234.500000", "never")
	if first, second := strings.Index(string(page.body), "a gift for a week"), strings.Index(string(page.body), "a &lt;gift&gt;"); first > second {
		t.Error("the grant that expires is not spent first")
	}
	all := []string{"Charge -0.005000", "Adjustment -0.500000", "Grant +5.000000", "Grant +1,234.500000"}
	if got := entriesOf(t, page); !slices.Equal(got, all) {
		t.Errorf("%q", got)
	}
	page = v.open(t, "/console/billing/ledger")
	if got := entriesOf(t, page); !slices.Equal(got, all) {
		t.Errorf("%q", got)
	}
	today := time.Now().Add(i.offset()).UTC()
	for search, want := range map[string][]string{
		"type=charge":            all[:1],
		"quotaKey=files.upload":  all[:1],
		"quotaKey=files.get":     nil,
		"q=GIFT":                 all[2:],
		"q=gift&type=adjustment": nil,
		"type=grant&q=&quotaKey=&from=&to=&requestId=":                                                                  all[2:], // as a browser sends empty fields
		"from=" + today.AddDate(0, 0, -1).Format(time.DateOnly) + "&to=" + today.AddDate(0, 0, 1).Format(time.DateOnly): all,
		"from=" + today.AddDate(0, 0, 2).Format(time.DateOnly):                                                          nil,
	} {
		shown := v.open(t, "/console/billing/ledger?"+search)
		if got := entriesOf(t, shown); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", search, got, want)
		}
		if want == nil {
			shown.shows(t, http.StatusOK, "No matching entries", "Show all")
		}
	}

	// The line of a charge leads to the explanation of its request, and so does the search for it.
	charge := v.open(t, "/console/billing/ledger?type=charge").shows(t, http.StatusOK, "Upload a file", "files.upload")
	link := regexp.MustCompile(`href="(/[^"]*/requests/([0-9a-f-]{36}))"`).FindStringSubmatch(string(charge.body))
	if link == nil {
		t.Fatalf("%s", charge.body)
	}
	v.open(t, link[1]).shows(t, http.StatusOK, "files.upload", "0.005000")
	if got := entriesOf(t, v.open(t, "/console/billing/ledger?requestId="+link[2])); !slices.Equal(got, all[:1]) {
		t.Errorf("%q", got)
	}

	// An invalid search is reported beside its field, and the table shows the last valid one.
	for search, says := range map[string][]string{
		"type=charg&q=kept":             {"search-type-error", "Did you mean", "charge", `value="kept"`},
		"from=soon":                     {"search-from-error", "The first day must be a day such as 2026-11-21", `value="soon"`},
		"from=2026-11-02&to=2026-11-01": {"search-from-error", "The first day must not be after the last one."},
		"requestId=x":                   {"search-requestId-error", "The request id must be"},
		"quotaKey=files.uplod":          {"search-quotaKey-error", "files.upload"},
		"q=" + strings.Repeat("x", 201): {"search-q-error"},
		"cursor=nonsense":               {"Start again without it"},
	} {
		v.open(t, "/console/billing/ledger?"+search).shows(t, http.StatusBadRequest, says...).hides(t, "Download")
	}
	table := v.open(t, "/console/billing/ledger.csv?type=grant&q=")
	table.hasHeader(t, "Content-Disposition", `attachment; filename="ledger.csv"`)
	table.hasHeader(t, "Content-Type", "text/csv; charset=utf-8")
	records, err := csv.NewReader(strings.NewReader(string(table.body))).ReadAll()
	if err != nil || len(records) != 3 || fmt.Sprint(records[1][2], records[1][4], records[2][7]) != "grant5.000000a <gift> for life" {
		t.Errorf("%q, %v", records, err)
	}
	v.open(t, "/console/billing/ledger.csv?type=x").shows(t, http.StatusBadRequest)

	stranger := i.visitor()
	for _, path := range []string{"/console/billing", "/console/billing/ledger?type=grant", "/console/billing/ledger.csv", "/console/plan?quotaKey=pastes.create", "/console/payments/1"} {
		stranger.open(t, path).leads(t, "/console/sign-in?next="+url.QueryEscape(path))
	}
}

// TestALongLedgerHasPages, each of which leads to the one behind it.
func TestALongLedgerHasPages(t *testing.T) {
	i := common(t)
	v, _, _ := i.signUp(t)
	id := text(t, v.send(t, "GET", "/api/users/user", request{header: map[string]string{}}).ok(t, http.StatusOK), "account", "id")
	a := account{i: i, id: id}
	const grants, page = 53, 50
	for range grants {
		a.grant(t, "1")
	}
	first := v.open(t, "/console/billing/ledger?q=test")
	if n := len(entriesOf(t, first)); n != page {
		t.Errorf("%d entries", n)
	}
	older := regexp.MustCompile(`href="([^"]*)">Older<`).FindStringSubmatch(string(first.body))
	if older == nil {
		t.Fatal("no way to the next page")
	}
	second := v.open(t, strings.ReplaceAll(older[1], "&amp;", "&")).shows(t, http.StatusOK, "Newest").hides(t, ">Older<")
	if n := len(entriesOf(t, second)); n != grants-page {
		t.Errorf("%d entries on the second page", n)
	}
	v.open(t, "/console/billing").shows(t, http.StatusOK, "Plus 23 more, spent after these")
}

// TestWebhooksAreMadeTriedChangedAndDeletedInTheConsole, and each time the API shows it.
func TestWebhooksAreMadeTriedChangedAndDeletedInTheConsole(t *testing.T) {
	i := withWebhooks(t)
	r := newHookReceiver(t)
	v, _, _ := i.signUp(t)
	const pages = "/console/billing/webhooks"
	api := func() []any {
		t.Helper()
		return v.send(t, "GET", webhooksPath, request{header: map[string]string{}}).ok(t, http.StatusOK)["webhooks"].([]any)
	}
	page := v.open(t, pages).shows(t, http.StatusOK, "Create webhook")
	for _, test := range []struct {
		fields []string
		says   []string
	}{
		{[]string{"url", r.URL, "thresholds", "90"}, []string{"create-events-error", "Choose at least one event.", `value="90"`}},
		{[]string{"url", "ftp://x.example", "events.quota.threshold", "on"}, []string{"create-url-error", "The URL must begin with https://"}},
		{[]string{"url", r.URL, "events.quota.threshold", "on", "thresholds", "half"}, []string{"create-thresholds-error", "whole numbers from 1 to 100"}},
		{[]string{"url", r.URL, "events.balance.low", "on"}, []string{"create-balanceBelow-error", "Enter a balance, or clear the event for a low balance."}},
		{[]string{"url", r.URL, "events.balance.low", "on", "balanceBelow", "much"}, []string{"create-balanceBelow-error", `value="much"`}},
	} {
		v.submit(t, page, pages, test.fields...).shows(t, http.StatusBadRequest, test.says...)
	}
	if list := api(); len(list) != 0 {
		t.Fatalf("%v", list)
	}
	filled := []string{"url", r.URL + "/hooks", "events.quota.threshold", "on", "events.balance.low", "on", "thresholds", "90 %, 10", "balanceBelow", "2.5"}
	page = v.open(t, pages)
	made := v.submit(t, page, pages, filled...).shows(t, http.StatusOK, "Your new webhook", r.URL+"/hooks", "be shown again")
	made.hasHeader(t, "Cache-Control", "no-store")
	made.hasHeader(t, "Content-Encoding", "")
	secret := shownSecret(t, made)
	if shownSecret(t, v.submit(t, page, pages, filled...)) != secret {
		t.Error("the form sent twice makes two webhooks")
	}
	list := api()
	if len(list) != 1 {
		t.Fatalf("%v", list)
	}
	hook := list[0].(object)
	if hook["url"] != r.URL+"/hooks" || fmt.Sprint(hook["events"]) != "[quota.threshold balance.low]" || fmt.Sprint(hook["thresholds"]) != "[10 90]" || hook["balanceBelow"] != "2.500000" {
		t.Errorf("made as %v", hook)
	}
	id := hook["id"].(string)
	path := pages + "/" + id
	v.open(t, "/console/billing").shows(t, http.StatusOK, "<b>1</b> webhook")
	v.open(t, pages).shows(t, http.StatusOK, `href="`+path+`"`, "(10 %, 90 %)").hides(t, secret)
	one := v.open(t, path).shows(t, http.StatusOK, "No deliveries yet", `value="10, 90"`, `value="2.5"`, `data-live="`+path+`/events"`).hides(t, secret)

	// A test is posted once, however often its form is sent, and again on request.
	for range 2 {
		v.submit(t, one, path+"/test").leads(t, path+"?done=tested")
	}
	eventually.True(t, "the test is posted", func() bool { return len(r.got()) == 1 })
	var delivered answer
	eventually.True(t, "the page shows it", func() bool {
		delivered = v.open(t, path)
		return strings.Contains(string(delivered.body), "<td>delivered</td>")
	})
	delivered.shows(t, http.StatusOK, "Test event", "204", "webhook.test")
	v.open(t, path+"/deliveries").shows(t, http.StatusOK, "<td>delivered</td>").hides(t, "<h1>")
	v.toldAt(t, i.edge()+path+"/events", func() { v.submit(t, v.open(t, path), path+"/test").leads(t, path+"?done=tested") })
	stranger, _, _ := i.signUp(t)
	for _, address := range []string{path + "/deliveries", path + "/events"} {
		i.visitor().send(t, "GET", address, request{header: map[string]string{}}).fails(t, http.StatusUnauthorized, "session_required", "")
		stranger.send(t, "GET", address, request{header: map[string]string{}}).fails(t, http.StatusNotFound, "not_found", "")
	}
	replay := regexp.MustCompile(`action="([^"]*/deliveries/(evt_[^/]*)/replay)"`).FindStringSubmatch(string(delivered.body))
	if replay == nil {
		t.Fatalf("%s", delivered.body)
	}
	for range 2 {
		v.submit(t, delivered, replay[1]).leads(t, path+"?done=replayed")
	}
	eventually.True(t, "it is posted again", func() bool { return len(r.got()[replay[2]]) == 2 })
	for _, post := range r.got()[replay[2]] {
		if !verifies(secret, post) {
			t.Errorf("%s", post.body)
		}
	}

	v.submit(t, one, path, "url", r.URL+"/new", "events.key.expiring", "on", "thresholds", "", "balanceBelow", "").leads(t, path+"?done=webhook")
	hook = api()[0].(object)
	if hook["url"] != r.URL+"/new" || fmt.Sprint(hook["events"]) != "[key.expiring]" || fmt.Sprint(hook["thresholds"]) != "[50 80 100]" || hook["balanceBelow"] != nil {
		t.Errorf("changed to %v", hook)
	}
	v.submit(t, v.open(t, path), path, "url", "nonsense", "events.key.expiring", "on").shows(t, http.StatusBadRequest, "change-url-error", `value="nonsense"`)

	rotated := v.submit(t, v.open(t, path), path+"/rotate-secret").shows(t, http.StatusOK, "Your new secret", "stays valid until <time")
	if shownSecret(t, rotated) == secret {
		t.Error("the secret stays the same")
	}

	v.submit(t, v.open(t, path), path+"/delete", "confirm", "it").shows(t, http.StatusBadRequest, "delete-confirm-error", "Type “"+id+"” to confirm.")
	if len(api()) != 1 {
		t.Error("it is deleted without a confirmation")
	}
	stale := v.open(t, path)
	other, _, _ := i.signUp(t)
	other.open(t, path).shows(t, http.StatusNotFound)
	other.submit(t, stale, path+"/delete", "confirm", id).shows(t, http.StatusNotFound)
	v.submit(t, stale, path+"/delete", "confirm", id).leads(t, pages+"?done=unhooked")
	v.open(t, pages+"?done=unhooked").shows(t, http.StatusOK, "Webhook deleted").hides(t, path)
	if len(api()) != 0 {
		t.Error("it is not deleted")
	}
	v.submit(t, stale, path+"/test").shows(t, http.StatusNotFound)
	v.submit(t, page, pages, filled...).shows(t, http.StatusNotFound, "was deleted") // the form that created it, sent again
	if len(api()) != 0 {
		t.Error("a deleted webhook is back")
	}

	// Ten are allowed.
	open := v.open(t, pages)
	for range 10 {
		v.submit(t, v.open(t, pages), pages, "url", r.URL, "events.quota.threshold", "on").shows(t, http.StatusOK)
	}
	v.open(t, pages).shows(t, http.StatusOK, "maximum of 10 webhooks. Delete one first.").hides(t, `action="`+pages+`"`)
	v.submit(t, open, pages, "url", r.URL, "events.quota.threshold", "on").shows(t, http.StatusConflict, "Delete one first", `value="`+r.URL+`"`)
	i.audit(t)
}

func shownSecret(t *testing.T, page answer) string {
	t.Helper()
	found := regexp.MustCompile(`id="secret">(whsec_[^<]+)<`).FindStringSubmatch(string(page.body))
	if found == nil {
		t.Fatalf("%s shows no secret:\n%.2000s", page.what, page.body)
	}
	return strings.NewReplacer("&#43;", "+", "&#61;", "=").Replace(found[1])
}
