package scenario

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
)

const usagePath = "/api/users/user/usage"

// daySum is what the days of a question sum to.
type daySum struct {
	used, overage int64
	spent         int64
}

// days sums the usage by quota key, and tells of how many days there is any.
func days(t testing.TB, a account, query string) (byKey map[string]daySum, count int) {
	t.Helper()
	byKey = map[string]daySum{}
	seen := map[string]bool{}
	for _, v := range at(t, a.do(t, "GET", usagePath+query, nil).ok(t, http.StatusOK), "days").([]any) {
		o := v.(object)
		seen[text(t, o, "day")] = true
		key, _ := o["quotaKey"].(string)
		sum := byKey[key]
		byKey[key] = daySum{sum.used + number(t, o, "used"), sum.overage + number(t, o, "overage"), sum.spent + micro(t, text(t, o, "creditsSpent"))}
	}
	return byKey, len(seen)
}

// checkDays holds the days of the present month to its counters.
func checkDays(t testing.TB, a account) {
	t.Helper()
	eventually.NoError(t, "the days sum to the month", func() error {
		byKey, _ := days(t, a, "")
		for key := range at(t, a.usage(t), "usage").(object) {
			u := at(t, a.usage(t), "usage", key).(object)
			want := daySum{number(t, u, "used"), number(t, u, "overage"), micro(t, text(t, u, "creditsSpent"))}
			if byKey[key] != want {
				return fmt.Errorf("%s: the days sum to %+v, the month has %+v", key, byKey[key], want)
			}
		}
		return nil
	})
}

// checkStorageDays holds the days of a statement to its month.
func checkStorageDays(t testing.TB, statement object, wantDays int) {
	t.Helper()
	sum := new(big.Int)
	list := at(t, statement, "storage", "days").([]any)
	for _, v := range list {
		n, ok := new(big.Int).SetString(text(t, v.(object), "byteMilliseconds"), 10)
		if !ok {
			t.Fatalf("day %v", v)
		}
		sum.Add(sum, n)
	}
	if got := text(t, statement, "storage", "byteMilliseconds"); sum.String() != got || len(list) != wantDays {
		t.Errorf("%d days sum to %s, the month has %s in %d days", len(list), sum, got, wantDays)
	}
	month := instant(t, text(t, statement, "end")).Sub(instant(t, text(t, statement, "start"))).Milliseconds()
	if average := sum.Div(sum, big.NewInt(month)); average.Int64() != number(t, statement, "storage", "averageBytes") {
		t.Errorf("the days' average is %v: %v", average, statement["storage"])
	}
}

// TestUsageByDay: served, failed and paid calls, by JSON and as a table, at every edge.
func TestUsageByDay(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	a.grant(t, "1")
	today := i.now().Format(time.DateOnly)
	if byKey, n := days(t, a, ""); n != 0 {
		t.Errorf("nothing was called: %v", byKey)
	}
	a.hammer(t, 99, func(int) operation {
		return operation{"POST", "/api/dev/files/upload?name=f", "x", http.StatusCreated}
	})
	id := a.upload(t, "f", []byte("x"))
	a.upload(t, "paid", []byte("x"))
	for range 3 {
		a.do(t, "GET", "/api/dev/files/get/"+id, nil).ok(t, http.StatusOK)
		a.do(t, "GET", "/api/dev/files/get/"+strings.Repeat("0", 12), nil).fails(t, http.StatusNotFound, "not_found", "")
	}
	checkDays(t, a)
	for range 4 { // at all edges, with calls in between: nothing is left out until it is written
		a.do(t, "GET", "/api/dev/files/get/"+id, nil).ok(t, http.StatusOK)
		checkDays(t, a)
	}
	byKey, n := days(t, a, "?by=quotaKey")
	if want := (daySum{101, 1, 5_000}); byKey["files.upload"] != want || byKey["files.get"].used != 7 || len(byKey) != 2 || n != 1 {
		t.Errorf("%v on %d days", byKey, n)
	}
	if sum, _ := days(t, a, "?by=day"); sum[""] != (daySum{108, 1, 5_000}) || len(sum) != 1 {
		t.Errorf("of all quota keys: %v", sum)
	}
	body := a.do(t, "GET", usagePath+"?by=key", nil).ok(t, http.StatusOK)
	if row := at(t, body, "days").([]any)[0].(object); row["key"] != "default" || row["quotaKey"] != nil || row["day"] != today || number(t, row, "used") != 108 {
		t.Errorf("by key: %v", row)
	}
	if since := instant(t, text(t, body, "since")); since.After(i.now()) {
		t.Errorf("since %s", since)
	}
	table := a.with(t, "GET", usagePath, request{header: map[string]string{"Accept": "text/csv"}})
	records, err := csv.NewReader(strings.NewReader(string(table.body))).ReadAll()
	if err != nil || table.status != http.StatusOK || len(records) != 3 {
		t.Fatalf("%d %s: %v", table.status, table.body, err)
	}
	table.hasHeader(t, "Content-Type", "text/csv; charset=utf-8")
	if got := strings.Join(records[1], " "); got != today+" files.upload default 101 1 0.005000" {
		t.Errorf("the table has %q", got)
	}
}

// wrongKey is a key of the right form with a wrong signature.
func wrongKey(key string) string {
	last := "x"
	if strings.HasSuffix(key, last) {
		last = "y"
	}
	return key[:len(key)-1] + last
}

// TestUsageByDayIsAskedForWithin400Days, and only well-formed questions are answered.
func TestUsageByDayIsAskedForWithin400Days(t *testing.T) {
	i := common(t)
	a, p := i.account(t, "free"), i.person(t)
	ask := func(query string) answer { return a.do(t, "GET", usagePath+query, nil) }
	ask("?from=2025-01-01&to=2026-02-04").ok(t, http.StatusOK) // 400 days
	ask("?from=2025-01-01&to=2026-02-05").fails(t, http.StatusBadRequest, "invalid_field", "")
	ask("?from=2026-02-04&to=2026-02-04&by=key,quotaKey").ok(t, http.StatusOK)
	for _, wrong := range []string{
		"?from=2026-02-05&to=2026-02-04", "?from=2026-02-30", "?to=yesterday", "?from=1969-12-31&to=1970-01-02", "?by=account", "?by=", "?by=key,,day",
		"?from=2026-02-04T00:00:00Z", "?day=2026-02-04", "?by=key&by=key",
	} {
		if got := ask(wrong); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", wrong, got.status, got.body)
		}
	}
	p.do(t, "GET", usagePath, nil).ok(t, http.StatusOK)
	i.do(t, "GET", usagePath, request{}).fails(t, http.StatusUnauthorized, "api_key_required", "")
	i.do(t, "GET", usagePath, request{key: wrongKey(a.key)}).fails(t, http.StatusUnauthorized, "invalid_api_key", "")
	old := p.newKey(t)
	i.do(t, "GET", usagePath, request{key: old}).ok(t, http.StatusOK)
	p.newKey(t)
	i.do(t, "GET", usagePath, request{key: old}).fails(t, http.StatusUnauthorized, "invalid_api_key", "")
}

// TestTheLedgerIsSearched by each parameter, page by page, and as a table.
func TestTheLedgerIsSearched(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	grant := func(amount, reason string) {
		i.admin(t, "POST", "/api/admin/accounts/"+a.id+"/credits", object{"amount": amount, "reason": reason}).ok(t, http.StatusOK)
	}
	grant("1", "Welcome gift")
	grant("2", "=HYPERLINK(\"http://example.org\")")
	grant("-0.5", "a mistake, \"quoted\"")
	a.hammer(t, 100, func(int) operation {
		return operation{"POST", "/api/dev/files/upload?name=f", "x", http.StatusCreated}
	})
	paid := a.do(t, "POST", "/api/dev/files/upload?name=f", []byte("x"))
	paid.ok(t, http.StatusCreated)
	a.upload(t, "f", []byte("x"))
	checkLedger(t, a)
	search := func(query string) (kinds []string) {
		cursor := ""
		for range 50 {
			page := a.do(t, "GET", "/api/users/user/credits?limit=2"+query+cursor, nil).ok(t, http.StatusOK)
			for _, v := range at(t, page, "entries").([]any) {
				kinds = append(kinds, text(t, v.(object), "type"))
			}
			if page["hasMore"] != true {
				return kinds
			}
			cursor = "&cursor=" + text(t, page, "nextCursor")
		}
		t.Fatalf("%s has no end", query)
		return nil
	}
	cursor := text(t, a.do(t, "GET", "/api/users/user/credits?limit=2", nil).ok(t, http.StatusOK), "nextCursor")
	i.account(t, "pro").do(t, "GET", "/api/users/user/credits?cursor="+cursor, nil).fails(t, http.StatusBadRequest, "invalid_cursor", "")
	now := i.now()
	day := func(n int) string { return now.AddDate(0, 0, n).Format(time.DateOnly) }
	for query, want := range map[string]string{
		"":                                    "charge charge adjustment grant grant",
		"&type=grant":                         "grant grant",
		"&type=charge":                        "charge charge",
		"&type=expiry":                        "",
		"&quotaKey=files.upload":              "charge charge",
		"&quotaKey=files.get":                 "",
		"&q=welcome":                          "grant",
		"&q=MISTAKE&type=adjustment":          "adjustment",
		"&q=mistake&type=grant":               "",
		"&from=" + day(-1):                    "charge charge adjustment grant grant",
		"&from=" + day(1):                     "",
		"&to=" + day(-1):                      "",
		"&to=" + day(1):                       "charge charge adjustment grant grant",
		"&from=" + day(-3) + "&to=" + day(-2): "",
		"&requestId=" + paid.header.Get("X-Request-Id"):                      "charge",
		"&requestId=" + "01a1fff9-83d3-743f-9a6d-5290a1beb664":               "",
		"&from=" + url.QueryEscape(now.Add(-time.Hour).Format(time.RFC3339)): "charge charge adjustment grant grant",
	} {
		if got := strings.Join(search(query), " "); got != want {
			t.Errorf("%q: %s, want %s", query, got, want)
		}
	}
	for _, wrong := range []string{
		"type=gift", "quotaKey=pastes", "from=now", "to=1970-01-01T00:00:00Z", "to=1969-12-31", "to=2026-13-01", "requestId=5", "q=" + strings.Repeat("x", 501), "from=" + day(1) + "&to=" + day(-1), "limit=101",
	} {
		if got := a.do(t, "GET", "/api/users/user/credits?"+wrong, nil); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", wrong, got.status, got.body)
		}
	}
	tableOf(t, a)
}

// tableOf holds the table of a's ledger to its pages.
func tableOf(t *testing.T, a account) {
	t.Helper()
	asTable := func(path string) (answer, [][]string) {
		got := a.with(t, "GET", path, request{header: map[string]string{"Accept": "text/csv"}})
		records, err := csv.NewReader(strings.NewReader(string(got.body))).ReadAll()
		if got.status != http.StatusOK || err != nil {
			t.Fatalf("%s: %d %s: %v", path, got.status, got.body, err)
		}
		return got, records[1:]
	}
	whole, all := asTable("/api/users/user/credits")
	whole.hasHeader(t, "Link", "")
	entries := ledger(t, a, 100)
	if len(all) != len(entries) {
		t.Fatalf("%d lines, %d entries", len(all), len(entries))
	}
	for n, e := range entries {
		reason := e.reason
		if strings.HasPrefix(reason, "=") { // no spreadsheet may take it for a formula
			reason = "'" + reason
		}
		if got := all[n]; got[0] != e.id || got[2] != e.kind || got[4] != e.amount || got[5] != e.balance || got[6] != e.requestID || got[7] != reason {
			t.Errorf("line %q, entry %+v", got, e)
		}
	}
	var pieces [][]string
	path := "/api/users/user/credits?limit=2"
	for range len(all) {
		got, records := asTable(path)
		pieces = append(pieces, records...)
		link := got.header.Get("Link")
		if link == "" {
			break
		}
		path = strings.TrimSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
	}
	if fmt.Sprint(pieces) != fmt.Sprint(all) {
		t.Errorf("in pieces %v, whole %v", pieces, all)
	}
	a.with(t, "GET", "/api/users/user/credits?limit=10000", request{header: map[string]string{"Accept": "text/csv"}}).hasHeader(t, "Link", "")
	a.with(t, "GET", "/api/users/user/credits?limit=10001", request{header: map[string]string{"Accept": "text/csv"}}).
		fails(t, http.StatusBadRequest, "invalid_field", "")
}

// TestAStatementIsAPageToPrint, for the session alone.
func TestAStatementIsAPageToPrint(t *testing.T) {
	i := common(t)
	p := i.person(t)
	id := text(t, p.do(t, "GET", "/api/users/user", nil).ok(t, http.StatusOK), "account", "id")
	a := account{i: i, id: id, email: p.email, key: p.newKey(t)}
	a.setTier(t, "pro")
	a.upload(t, "f", make([]byte, 1<<20))
	a.quick(t, nil)
	path := "/console/statements/" + i.now().Format("2006-01")
	p.page(t, "GET", path, request{}).shows(t, http.StatusOK, "Statement of "+i.now().Format("January 2006"), p.email, "files.upload", "pasteLite.create", "Pro plan", "still open").
		hides(t, "pastes.get", "Next month", "Previous month")
	number := i.now().Format("2006-01") + "-" + id
	p.page(t, "GET", path, request{}).shows(t, http.StatusOK, number, path+"/lines.csv").hides(t, ">From<")
	if got := a.do(t, "GET", "/api/users/user/statements/"+i.now().Format("2006-01"), nil).ok(t, http.StatusOK); got["number"] != number {
		t.Errorf("number %v", got["number"])
	}
	table := p.page(t, "GET", path+"/lines.csv", request{}).shows(t, http.StatusOK, "pro,files.upload,100,0.005000,1,1,0,0.000000\r\n")
	table.hasHeader(t, "Content-Disposition", `attachment; filename="statement-`+number+`.csv"`)
	proof := "/api/users/user/statements/" + i.now().Format("2006-01") + "/proof"
	p.page(t, "GET", path, request{}).shows(t, http.StatusOK, `href="`+proof+`">Download the proof</a>`)
	var file answer
	eventually.True(t, "the log has a seal", func() bool {
		file = p.page(t, "GET", proof, request{})
		return file.status != http.StatusServiceUnavailable
	})
	file.hasHeader(t, "Content-Type", "text/plain; charset=utf-8")
	file.hasHeader(t, "Content-Disposition", `attachment; filename="`+number+`.tlog-proof"`)
	if file.status != http.StatusOK || !strings.HasPrefix(string(file.body), "c2sp.org/tlog-proof@v1\n") {
		t.Errorf("%d %s", file.status, file.body)
	}
	p.page(t, "GET", "/console/statements/2020-01/lines.csv", request{}).shows(t, http.StatusNotFound)
	i.visitor().open(t, path+"/lines.csv").leads(t, "/console/sign-in?next="+url.QueryEscape(path+"/lines.csv"))
	p.page(t, "GET", "/console", request{}).shows(t, http.StatusOK, path)
	for _, missing := range []string{"2020-01", "2999-01", "2026-13", "x"} {
		p.page(t, "GET", "/console/statements/"+missing, request{}).shows(t, http.StatusNotFound)
	}
	if got := i.do(t, "GET", path, request{key: a.key, header: map[string]string{"Accept": "text/html"}}); got.status == http.StatusOK {
		t.Errorf("without a session: %d", got.status)
	}
	eventually.NoError(t, "the file is in the days", func() error {
		statement := a.do(t, "GET", "/api/users/user/statements/"+i.now().Format("2006-01"), nil).ok(t, http.StatusOK)
		if list, ok := at(t, statement, "storage", "days").([]any); !ok || len(list) == 0 {
			return errors.New("no day yet")
		}
		checkStorageDays(t, statement, len(at(t, statement, "storage", "days").([]any)))
		return nil
	})
}
