package scenario

import (
	"fmt"
	"net/http"
	"testing"

	"quire.dev/pkg/eventually"
)

// charged is the id of an upload that credits have paid, once the ledger has it. The account's quota must be used up.
func (a account) charged(t *testing.T) string {
	t.Helper()
	upload := a.do(t, "POST", "/api/dev/files/upload?name=notes.txt", []byte("hello"))
	upload.ok(t, http.StatusCreated)
	upload.hasHeader(t, "X-Charge-Source", "credits")
	id := upload.header.Get("X-Request-Id")
	eventually.True(t, "the charge is in the ledger", func() bool {
		return len(at(t, a.do(t, "GET", "/api/users/user/credits?requestId="+id, nil).ok(t, http.StatusOK), "entries").([]any)) == 1
	})
	return id
}

// TestCorrectionsNameWhatTheyCorrect: refunds, payments and reversals over the admin API, as the account sees them.
func TestCorrectionsNameWhatTheyCorrect(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	post := func(path string, body object) answer {
		return i.admin(t, "POST", "/api/admin/accounts/"+a.id+path, body)
	}
	balance := func(got answer, want string) {
		t.Helper()
		if b := text(t, got.ok(t, http.StatusOK), "balance"); b != want {
			t.Errorf("balance %s, want %s", b, want)
		}
	}
	balance(post("/payments", object{"payment": "2026-1", "credits": "0.01", "amountUsd": "1.19", "taxUsd": "0.19"}), "0.010000")
	balance(post("/payments", object{"payment": "2026-1", "credits": "0.01"}), "0.010000")
	post("/payments", object{"payment": "2026-1", "credits": "0.02"}).fails(t, http.StatusConflict, "payment_mismatch", "")
	if list := at(t, a.do(t, "GET", paymentsPath, nil).ok(t, http.StatusOK), "payments").([]any); len(list) != 1 || list[0].(object)["amountUsd"] != "1.19" || list[0].(object)["taxUsd"] != "0.19" || list[0].(object)["provider"] != "manual" {
		t.Errorf("payments %v", list)
	}
	for range 100 {
		a.upload(t, "notes.txt", []byte("hello"))
	}
	first, second := a.charged(t), a.charged(t)
	month := i.now().Format("2006-01")
	line := func(amount string) object {
		return object{"period": month, "quotaKey": "files.upload", "amount": amount, "reason": "slow"}
	}
	balance(post("/refunds", object{"requestId": first, "reason": "ours"}), "0.005000")
	post("/refunds", object{"requestId": first, "reason": "ours"}).fails(t, http.StatusConflict, "not_refundable", "")
	post("/refunds", line("0.005001")).fails(t, http.StatusConflict, "not_refundable", "")
	balance(post("/refunds", line("0.005")), "0.010000")
	balance(post("/refunds", line("-0.005")), "0.005000")
	post("/refunds", object{"requestId": second, "takeBack": true, "reason": "it was not"}).fails(t, http.StatusConflict, "not_refundable", "")
	for range 2 { // the second is a retry
		balance(i.do(t, "POST", "/api/admin/accounts/"+a.id+"/refunds", request{
			body:   object{"requestId": first, "takeBack": true, "reason": "it was not"},
			header: map[string]string{"Authorization": "Bearer " + i.adminToken, "Idempotency-Key": "taken back " + a.id},
		}), "0.000000")
	}
	balance(post("/refunds", object{"requestId": second, "reason": "ours"}), "0.005000")

	// The money of the payment goes back: what was spent is owed, and only free quota is left.
	balance(post("/reversals", object{"payment": "2026-1", "credits": "0.01", "chargeback": true, "reason": "disputed"}), "-0.005000")
	post("/reversals", object{"payment": "2026-1", "credits": "0.010001", "reason": "disputed"}).fails(t, http.StatusConflict, "not_refundable", "")
	post("/reversals", object{"payment": "2026-2", "credits": "0.01", "reason": "disputed"}).fails(t, http.StatusNotFound, "not_found", "")
	a.do(t, "POST", "/api/dev/files/upload?name=notes.txt", []byte("hello")).fails(t, http.StatusTooManyRequests, "quota_exhausted", "")
	a.quick(t, object{})
	if b := a.balance(t); b != "-0.005000" {
		t.Errorf("the account has %s", b)
	}
	balance(post("/reversals", object{"payment": "2026-1", "credits": "0", "reason": "won"}), "0.005000")

	usage := at(t, a.do(t, "GET", "/api/users/user/dev-usage", nil).ok(t, http.StatusOK), "usage", "files.upload").(object)
	statement := a.do(t, "GET", "/api/users/user/statements/"+month, nil).ok(t, http.StatusOK)
	billed := at(t, statement, "usage", "files.upload").(object)
	if usage["creditsSpent"] != "0.010000" || usage["creditsRefunded"] != "0.005000" || billed["creditsRefunded"] != "0.005000" || at(t, statement, "credits", "closing") != "0.005000" {
		t.Errorf("usage %v, statement %v", usage, statement)
	}
	var kinds []string
	for _, e := range checkLedger(t, a) {
		kinds = append(kinds, e.kind)
	}
	if want := "[reversal reversal refund refund refund refund refund charge charge payment]"; fmt.Sprint(kinds) != want {
		t.Errorf("the ledger has %v, want %s", kinds, want)
	}
	entry := func(kind string, last int) object {
		list := at(t, a.do(t, "GET", "/api/users/user/credits?type="+kind, nil).ok(t, http.StatusOK), "entries").([]any)
		return list[len(list)-1-last].(object)
	}
	if e := entry("refund", 0); e["requestId"] != first || e["quotaKey"] != "files.upload" || e["reason"] != "ours" || e["actor"] == nil || e["period"] != nil {
		t.Errorf("a refund of a request is %v", e)
	}
	if e := entry("refund", 1); e["requestId"] != nil || e["period"] != month || e["quotaKey"] != "files.upload" {
		t.Errorf("a refund of a line is %v", e)
	}
	if e := entry("reversal", 0); e["payment"] != "2026-1" || e["reason"] != "disputed" {
		t.Errorf("a reversal is %v", e)
	}
	for _, wrong := range []struct {
		path string
		body object
	}{
		{"/refunds", object{}},
		{"/refunds", object{"reason": "r"}},
		{"/refunds", object{"requestId": first}},
		{"/refunds", object{"requestId": "x", "reason": "r"}},
		{"/refunds", object{"requestId": first, "amount": "1", "reason": "r"}},
		{"/refunds", object{"period": month, "quotaKey": "files.upload", "amount": "0", "reason": "r"}},
		{"/refunds", object{"period": "2026-13", "quotaKey": "files.upload", "amount": "1", "reason": "r"}},
		{"/refunds", object{"period": month, "quotaKey": "files.uplaod", "amount": "1", "reason": "r"}},
		{"/refunds", object{"period": month, "quotaKey": "files.upload", "amount": "1", "reason": "r", "takeBack": true}},
		{"/payments", object{"credits": "1"}},
		{"/payments", object{"payment": "x"}},
		{"/payments", object{"payment": "x", "credits": "-1"}},
		{"/reversals", object{"payment": "2026-1", "reason": "r"}},
		{"/reversals", object{"payment": "2026-1", "credits": "1"}},
		{"/reversals", object{"payment": "2026-1", "credits": "-1", "reason": "r"}},
	} {
		if got := post(wrong.path, wrong.body); got.status != http.StatusBadRequest {
			t.Errorf("%s %v: %d %s", wrong.path, wrong.body, got.status, got.body)
		}
	}
}
