package scenario

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

const receiptsPath = "/api/users/user/receipts"

// TestAHolderReadsTheEntriesBehindTheReceipts: they lead from each X-Receipt to the next, and the fields say what the bytes do. Every wrong
// page is refused.
func TestAHolderReadsTheEntriesBehindTheReceipts(t *testing.T) {
	i := start(t)
	a := i.account(t, "pro")
	if page := a.do(t, "GET", receiptsPath, nil).ok(t, http.StatusOK); page["newest"] != nil || page["after"] != nil || page["keptFrom"] != nil || len(page["entries"].([]any)) != 0 {
		t.Errorf("before the first entry: %v", page)
	}
	a.grant(t, "1")
	first := a.do(t, "POST", "/api/dev/paste-lite/create", object{"content": "x"})
	last := a.do(t, "POST", "/api/dev/paste-lite/create", object{"content": "y"})
	from, to := first.header.Get("X-Receipt"), last.header.Get("X-Receipt")
	if from[:2] != "3." || to[:2] != "4." {
		t.Fatalf("receipts %s and %s", from, to)
	}
	page := a.do(t, "GET", receiptsPath+"?after=0", nil).ok(t, http.StatusOK)
	if page["newest"] != to || fmt.Sprint(page["keptFrom"]) != "1" || page["hasMore"] != false || !strings.HasPrefix(page["after"].(string), "0.") {
		t.Errorf("%v", page)
	}
	hash, receipts := page["after"].(string)[2:], map[int]string{3: from, 4: to}
	want := []object{
		{"kind": "begins", "charge": nil, "type": nil, "amount": "0.000000", "quotaKey": nil, "key": nil, "requestId": nil},
		{"kind": "ledger", "charge": nil, "type": "grant", "amount": "1.000000", "quotaKey": nil, "key": nil, "requestId": nil},
		{"kind": "admitted", "charge": "quota", "type": nil, "amount": "0.000000", "quotaKey": "pasteLite.create", "key": "default", "requestId": first.header.Get("X-Request-Id")},
		{"kind": "admitted", "charge": "quota", "type": nil, "amount": "0.000000", "quotaKey": "pasteLite.create", "key": "default", "requestId": last.header.Get("X-Request-Id")},
	}
	entries := page["entries"].([]any)
	if len(entries) != len(want) {
		t.Fatalf("%v", entries)
	}
	for n, e := range entries {
		e := e.(object)
		bytes, err1 := hex.DecodeString(e["entry"].(string))
		before, err2 := hex.DecodeString(hash)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		hash = fmt.Sprintf("%x", sha256.Sum256(append(before, bytes...)))
		if number := n + 1; fmt.Sprint(e["number"]) != strconv.Itoa(number) || e["receipt"] != fmt.Sprintf("%d.%s", n+1, hash) || receipts[number] != "" && receipts[number] != e["receipt"] {
			t.Errorf("entry %d: %v, hash %s", n+1, e, hash)
		}
		for field, value := range want[n] {
			if e[field] != value {
				t.Errorf("entry %d: %s is %v, want %v", n+1, field, e[field], value)
			}
		}
		if e["month"] != i.now().Format("2006-01") {
			t.Errorf("entry %d: month %v", n+1, e["month"])
		}
	}
	for query, wanted := range map[string]string{
		"?after=3":            "4",
		"?after=3&limit=1":    "4",
		"?after=3&limit=1000": "4",
		"?after=4":            "",
		"?limit=1":            "1",
		"":                    "1",
	} {
		list := a.do(t, "GET", receiptsPath+query, nil).ok(t, http.StatusOK)["entries"].([]any)
		number := ""
		if len(list) > 0 {
			number = fmt.Sprint(list[0].(object)["number"])
		}
		if number != wanted {
			t.Errorf("%s begins with %q, want %q", query, number, wanted)
		}
	}
	for _, query := range []string{
		"?after=5", "?after=-1", "?after=x", "?after=", "?after=1.5", "?after=" + strconv.FormatUint(math.MaxInt64+1, 10), "?limit=0", "?limit=1001", "?limit=x", "?after=" + to, "?other=1",
	} {
		if got := a.do(t, "GET", receiptsPath+query, nil); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
	}
	if got := i.do(t, "GET", receiptsPath, request{}); got.status != http.StatusUnauthorized {
		t.Errorf("without a key: %d", got.status)
	}
}
