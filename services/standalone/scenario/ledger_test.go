package scenario

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"quire.dev/pkg/eventually"
)

// paying is an account whose creations, uploads and downloads are paid from credits, and a file of it.
func (i *instance) paying(t testing.TB) (a account, file string) {
	t.Helper()
	a = i.account(t, "pro")
	m := &material{}
	uploads := a.hammer(t, 100, func(n int) operation { return m.operation("files.upload", n) })
	a.hammer(t, 500, func(n int) operation { return m.operation("pastes.create", n) })
	a.hammer(t, 500, func(int) operation {
		return operation{method: "GET", path: "/api/dev/files/get/" + uploads[0], status: http.StatusOK}
	})
	a.grant(t, "10")
	return a, uploads[0]
}

// newestRequests are the ids of the requests of the newest charges.
func newestRequests(t testing.TB, a account, n int) (ids []string) {
	t.Helper()
	page := a.do(t, "GET", fmt.Sprintf("/api/users/user/credits?type=charge&limit=%d", n), nil).ok(t, http.StatusOK)
	for _, e := range at(t, page, "entries").([]any) {
		ids = append(ids, text(t, e.(object), "requestId"))
	}
	return ids
}

// TestTheFirstLookAfterAnAnswerShowsTheCall: at the ledger, in the order of the calls, at the balance, days, statement and recent
// requests.
func TestTheFirstLookAfterAnAnswerShowsTheCall(t *testing.T) {
	i := common(t)
	a, file := i.paying(t)
	var wanted []string // newest first
	call := func(method, path string, body any, status int) {
		t.Helper()
		got := a.do(t, method, path, body)
		got.ok(t, status)
		wanted = append([]string{got.header.Get("X-Request-Id")}, wanted...)
	}
	for range 14 {
		call("POST", "/api/dev/pastes/create", object{"content": "x"}, http.StatusCreated)
		call("POST", "/api/dev/files/upload?name=f", []byte("x"), http.StatusCreated)
		call("GET", "/api/dev/files/get/"+file, nil, http.StatusOK)
		if got := newestRequests(t, a, len(wanted)); fmt.Sprint(got) != fmt.Sprint(wanted) {
			t.Fatalf("charges of\n%v, want\n%v", got, wanted)
		}
		entries := ledger(t, a, 7)
		if sum, balance := sumOf(t, entries), micro(t, a.balance(t)); sum != balance {
			t.Fatalf("the ledger sums to %s, the balance is %s", credits(sum), credits(balance))
		}
	}
	used := func() string {
		t.Helper()
		byKey, _ := days(t, a, "")
		spent := text(t, a.do(t, "GET", "/api/users/user/statements/"+i.now().Format("2006-01"), nil).ok(t, http.StatusOK), "creditsSpent")
		return fmt.Sprint(byKey["pastes.create"].used, " ", byKey["files.upload"].used, " ", byKey["files.get"].overage, " ", spent)
	}
	for n := range 14 {
		call("POST", "/api/dev/pastes/create", object{"content": "x"}, http.StatusCreated)
		if requests, _ := a.recent(t, "?limit=1"); requests[0]["requestId"] != wanted[0] || requests[0]["status"] != "served" {
			t.Fatalf("recent requests begin with %v", requests)
		}
		cost := int64(14*(2_000+5_000+1_000) + (n+1)*2_000)
		if got, want := used(), fmt.Sprint(514+n+1, " ", 114, " ", 14, " ", credits(cost)); got != want {
			t.Fatalf("days and statement have %s, want %s", got, want)
		}
	}
	i.audit(t)
}

// TestManyFirstLooksShowTheirCalls, also while a long upload of the account is in flight.
func TestManyFirstLooksShowTheirCalls(t *testing.T) {
	i := common(t)
	a, _ := i.paying(t)
	look := func() {
		t.Helper()
		var group sync.WaitGroup
		for n := range 12 {
			group.Go(func() {
				for range 5 {
					made := a.do(t, "POST", "/api/dev/pastes/create", object{"content": fmt.Sprint(n)})
					made.ok(t, http.StatusCreated)
					id := made.header.Get("X-Request-Id")
					page := a.do(t, "GET", "/api/users/user/credits?limit=1&requestId="+id, nil).ok(t, http.StatusOK)
					if found := at(t, page, "entries").([]any); len(found) != 1 {
						t.Errorf("%d entries of %s", len(found), id)
					}
				}
			})
		}
		group.Wait()
	}
	look()
	finish := a.uploadSlowly(t)
	eventually.True(t, "the upload is admitted", func() bool { return number(t, a.usage(t), "usage", "files.upload", "used") == 101 })
	look()
	if entries := ledger(t, a, 50); len(entries) != 1+120 {
		t.Errorf("%d entries", len(entries))
	}
	finish()
	if entries := checkLedger(t, a); len(entries) != 1+121 || entries[60].quotaKey != "files.upload" {
		t.Errorf("%d entries, the upload is not where it was admitted: %v", len(entries), entries[55:65])
	}
}
