package scenario

import (
	"encoding/csv"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"quire.dev/pkg/plan"
)

// checkStatement computes every total of a statement from its other fields, in integers.
func checkStatement(t testing.TB, s object) {
	t.Helper()
	sums, requests, spent := map[string][3]int64{}, int64(0), int64(0)
	last := ""
	for _, item := range at(t, s, "periods").([]any) {
		p := item.(object)
		if last != "" && text(t, p, "start") != last || instant(t, text(t, p, "end")).Before(instant(t, text(t, p, "start"))) {
			t.Errorf("a period from %s to %s after %s", text(t, p, "start"), text(t, p, "end"), last)
		}
		last = text(t, p, "end")
		lines := at(t, p, "lines").(object)
		if len(lines) != len(plan.QuotaKeys()) {
			t.Errorf("%d lines", len(lines))
		}
		for key, of := range lines {
			line := of.(object)
			used, paid, amount := number(t, line, "used"), number(t, line, "paid"), micro(t, text(t, line, "amount"))
			price := int64(0)
			if line["price"] != nil {
				price = micro(t, text(t, line, "price"))
			}
			if number(t, line, "free")+paid != used || paid*price != amount || number(t, line, "limit") < -1 {
				t.Errorf("%s: %v", key, line)
			}
			sum := sums[key]
			sums[key] = [3]int64{sum[0] + used, sum[1] + paid, sum[2] + amount}
			requests, spent = requests+used, spent+amount
		}
	}
	if last != text(t, s, "end") {
		t.Errorf("the last period ends %s, the month %s", last, text(t, s, "end"))
	}
	for key, of := range at(t, s, "usage").(object) {
		u := of.(object)
		if got := [3]int64{number(t, u, "requests"), number(t, u, "overage"), micro(t, text(t, u, "creditsSpent"))}; got != sums[key] {
			t.Errorf("%s: %v, the lines sum to %v", key, got, sums[key])
		}
	}
	amount := func(name string) int64 { return micro(t, text(t, s, "credits", name)) }
	closing := amount("opening") + amount("granted") + amount("refunded") + amount("adjusted") - amount("expired") - amount("charged")
	if number(t, s, "requests") != requests || micro(t, text(t, s, "creditsSpent")) != spent ||
		closing != amount("closing") || spent != amount("charged")-amount("refunded")+amount("pending") {
		t.Errorf("%d requests for %d: %v", requests, spent, s)
	}
	checkStorage(t, at(t, s, "storage").(object), instant(t, text(t, s, "end")).Sub(instant(t, text(t, s, "start"))).Milliseconds())
}

func checkStorage(t testing.TB, s object, millis int64) {
	t.Helper()
	sum := new(big.Int)
	for _, d := range at(t, s, "days").([]any) {
		n, ok := new(big.Int).SetString(text(t, d.(object), "byteMilliseconds"), 10)
		if !ok {
			t.Fatalf("day %v", d)
		}
		sum.Add(sum, n)
	}
	above := new(big.Int).Mul(big.NewInt(number(t, s, "freeBytes")), big.NewInt(millis))
	if above.Sub(sum, above); above.Sign() < 0 {
		above.SetInt64(0)
	}
	cents := func(usd string) int64 {
		n, err := strconv.ParseInt(strings.Replace(usd, ".", "", 1), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	amount := new(big.Int).Mul(above, big.NewInt(cents(text(t, s, "gbMonthUsd"))))
	amount.Div(amount, new(big.Int).Mul(big.NewInt(number(t, s, "gbBytes")), big.NewInt(millis)))
	if sum.String() != text(t, s, "byteMilliseconds") || sum.Div(sum, big.NewInt(millis)).Int64() != number(t, s, "averageBytes") ||
		above.Div(above, big.NewInt(millis)).Int64() != number(t, s, "billedBytes") || amount.Int64() != cents(text(t, s, "amountUsd")) || text(t, s, "rounding") != "down" {
		t.Errorf("storage %v", s)
	}
}

// TestAStatementCanBeCheckedFromItsOwnFields: an account with grants, an adjustment, free, paid and failed requests, storage, and
// a change of plan in between.
func TestAStatementCanBeCheckedFromItsOwnFields(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	a.grant(t, "0.100000")
	a.grant(t, "-0.020000")
	a.hammer(t, 101, func(int) operation {
		return operation{method: "POST", path: "/api/dev/files/upload?name=f", body: "x", status: 201}
	})
	a.do(t, "DELETE", "/api/dev/files/delete/missing", nil).fails(t, http.StatusNotFound, "not_found", "")
	a.setTier(t, "max")
	a.upload(t, "f", make([]byte, 1<<20))
	checkLedger(t, a)
	path := "/api/users/user/statements/" + i.now().Format("2006-01")
	body := a.do(t, "GET", path, nil).ok(t, http.StatusOK)
	checkStatement(t, body)
	periods := at(t, body, "periods").([]any)
	if len(periods) != 2 || text(t, periods[0].(object), "tier") != "pro" || text(t, periods[1].(object), "tier") != "max" {
		t.Fatalf("periods %v", periods)
	}
	if first := at(t, periods[0].(object), "lines", "files.upload").(object); number(t, first, "used") != 101 || number(t, first, "paid") != 1 || number(t, first, "limit") != 100 {
		t.Errorf("the first period: %v", first)
	}
	if second := at(t, periods[1].(object), "lines", "files.upload").(object); number(t, second, "used") != 1 || text(t, second, "price") != "0.003000" {
		t.Errorf("the second period: %v", second)
	}
	if text(t, body, "credits", "granted") != "0.100000" || text(t, body, "credits", "adjusted") != "-0.020000" || text(t, body, "credits", "charged") != "0.005000" || text(t, body, "credits", "closing") != a.balance(t) {
		t.Errorf("credits %v", body["credits"])
	}
	table := a.with(t, "GET", path, request{header: map[string]string{"Accept": "text/csv"}})
	table.hasHeader(t, "Content-Type", "text/csv; charset=utf-8")
	rows, err := csv.NewReader(strings.NewReader(string(table.body))).ReadAll()
	if err != nil || len(rows) != 1+2*len(plan.QuotaKeys()) || !slices.Equal(rows[0], []string{"start", "end", "tier", "quotaKey", "limit", "price", "used", "free", "paid", "amount"}) {
		t.Fatalf("%v: %q", err, table.body)
	}
	for _, r := range rows[1:] {
		p := periods[0].(object)
		if r[2] == "max" {
			p = periods[1].(object)
		}
		line := at(t, p, "lines", r[3]).(object)
		if price, _ := line["price"].(string); r[0] != text(t, p, "start") || r[5] != price || r[6] != strconv.FormatInt(number(t, line, "used"), 10) || r[9] != text(t, line, "amount") {
			t.Errorf("%v, the line is %v", r, line)
		}
	}
}
