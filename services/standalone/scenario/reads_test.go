package scenario

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"quire.dev/pkg/eventually"
)

// underKey reads under an Idempotency-Key. It tries again while the first read is in flight: its settlement may be on its way.
func (a account) underKey(t testing.TB, path, key string, header map[string]string) answer {
	t.Helper()
	r := request{header: map[string]string{"Idempotency-Key": key}}
	for name, value := range header {
		r.header[name] = value
	}
	var got answer
	eventually.True(t, "the read before has ended", func() bool {
		got = a.with(t, "GET", path, r)
		return got.status != http.StatusConflict
	})
	return got
}

func TestAReadUnderAnIdempotencyKeyIsChargedOnce(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	for name, test := range map[string]struct{ path, key string }{
		"paste":       {"/api/dev/pastes/get/" + a.paste(t, nil), "pastes.get"},
		"quick paste": {"/api/dev/paste-lite/get/" + a.quick(t, nil), "pasteLite.get"},
		"file":        {"/api/dev/files/get/" + a.upload(t, "f", []byte("0123456789")), "files.get"},
		"bytes":       {"/api/dev/files/get/" + a.upload(t, "f", []byte("0123456789")) + "?download=1", "files.get"},
	} {
		t.Run(name, func(t *testing.T) {
			key := "key of " + name
			before := a.used(t, test.key)
			first := a.underKey(t, test.path, key, nil)
			if first.status != http.StatusOK {
				t.Fatalf("%d %s", first.status, first.body)
			}
			first.hasHeader(t, "Idempotency-Replayed", "")
			first.hasHeader(t, "X-Charge-Source", "quota")
			for n := range 2 {
				again := a.underKey(t, test.path, key, nil)
				if again.status != http.StatusOK || name != "file" && string(again.body) != string(first.body) {
					t.Fatalf("repetition %d: %d %s", n, again.status, again.body)
				}
				again.hasHeader(t, "Idempotency-Replayed", "true")
				again.hasHeader(t, "X-Charge-Source", "none")
				again.hasHeader(t, "RateLimit-Policy", first.header.Get("RateLimit-Policy"))
			}
			if used := a.used(t, test.key); used != before+1 {
				t.Errorf("%d reads were charged", used-before)
			}
			other := map[string]string{"file": test.path + "?download=1", "bytes": strings.TrimSuffix(test.path, "?download=1")}[name]
			if other == "" {
				other = test.path + "?version=1"
			}
			a.underKey(t, other, key, nil).fails(t, http.StatusUnprocessableEntity, "idempotency_mismatch", "")
			if used := a.used(t, test.key); used != before+1 {
				t.Errorf("%d reads were charged after a mismatch", used-before)
			}
		})
	}
}

func TestAReadIsRepeatedTwiceWithoutACharge(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	path := "/api/dev/pastes/get/" + a.paste(t, nil)
	for n := range 33 {
		got := a.underKey(t, path, "the same", nil)
		got.ok(t, http.StatusOK)
		replayed := "true"
		if n%3 == 0 {
			replayed = ""
		}
		got.hasHeader(t, "Idempotency-Replayed", replayed)
	}
	if used := a.used(t, "pastes.get"); used != 11 {
		t.Errorf("%d reads were charged for 33 calls", used)
	}
	i.audit(t)
}

// What has changed since is worth a charge: nobody polls for nothing under one key.
func TestAReadOfAnotherVersionUnderItsKeyIsCharged(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	id := a.paste(t, nil)
	for version := range 3 {
		if version > 0 {
			a.do(t, "PUT", "/api/dev/pastes/update/"+id, object{"content": fmt.Sprint("version ", version)}).ok(t, http.StatusOK)
		}
		first := a.underKey(t, "/api/dev/pastes/get/"+id, "polls", nil)
		first.ok(t, http.StatusOK)
		first.hasHeader(t, "Idempotency-Replayed", "")
		again := a.underKey(t, "/api/dev/pastes/get/"+id, "polls", nil)
		again.hasHeader(t, "Idempotency-Replayed", "true")
		if string(again.body) != string(first.body) {
			t.Errorf("version %d is %s, and %s when it is repeated", version, first.body, again.body)
		}
	}
	if used := a.used(t, "pastes.get"); used != 3 {
		t.Errorf("%d reads were charged for three versions", used)
	}
	i.audit(t)
}

func TestARepeatedReadMayAskForAnotherRange(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	path := "/api/dev/files/get/" + a.upload(t, "f", []byte("0123456789")) + "?download=1"
	got := ""
	for n := range 3 {
		part := a.underKey(t, path, "in parts", map[string]string{"Range": fmt.Sprintf("bytes=%d-%d", 4*n, 4*n+3)})
		if part.status != http.StatusPartialContent {
			t.Fatalf("%d %s", part.status, part.body)
		}
		got += string(part.body)
	}
	if used := a.used(t, "files.get"); got != "0123456789" || used != 1 {
		t.Errorf("%q for %d", got, used)
	}
}

func TestAReadThatFailedUnderAKeyIsReadAnew(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	id := a.paste(t, object{"password": "secret"})
	path := "/api/dev/pastes/get/" + id
	a.underKey(t, path, "k", nil).fails(t, http.StatusForbidden, "wrong_password", "")
	right := map[string]string{"X-Paste-Password": "secret"}
	a.underKey(t, path, "k", right).hasHeader(t, "Idempotency-Replayed", "")
	again := a.underKey(t, path, "k", nil) // the password is asked for each time
	again.fails(t, http.StatusForbidden, "wrong_password", "")
	again.hasHeader(t, "Idempotency-Replayed", "true")
	a.underKey(t, path, "k", map[string]string{"X-Paste-Password": "secret", "If-None-Match": `"1"`}).hasHeader(t, "X-Charge-Source", "none")
	a.do(t, "DELETE", "/api/dev/pastes/delete/"+id, nil).ok(t, http.StatusOK)
	a.underKey(t, path, "k", right).fails(t, http.StatusNotFound, "not_found", "")
	if used := a.used(t, "pastes.get"); used != 1 {
		t.Errorf("%d reads were charged", used)
	}
	i.audit(t)
}

func TestTheKeyOfAReadBelongsToItsAccountAndEndpoint(t *testing.T) {
	i := common(t)
	a, b := i.account(t, "pro"), i.account(t, "pro")
	path := "/api/dev/pastes/get/" + a.paste(t, nil)
	quick := "/api/dev/paste-lite/get/" + a.quick(t, nil)
	for _, got := range []answer{a.underKey(t, path, "k", nil), b.underKey(t, path, "k", nil), a.underKey(t, quick, "k", nil)} {
		got.ok(t, http.StatusOK)
		got.hasHeader(t, "Idempotency-Replayed", "")
	}
	for _, key := range []string{"", strings.Repeat("k", 129), "é"} {
		a.with(t, "GET", path, request{header: map[string]string{"Idempotency-Key": key}}).fails(t, http.StatusBadRequest, "invalid_field", "")
	}
	a.with(t, "GET", path, request{header: map[string]string{"Idempotency-Key": strings.Repeat("k", 128)}}).ok(t, http.StatusOK)
}

// A repetition does not depend on the quota, and its explanation says so.
func TestAServedReadIsRepeatedWithoutQuota(t *testing.T) {
	i := common(t)
	a := i.account(t, "free")
	path := "/api/dev/paste-lite/get/" + a.quick(t, nil)
	a.underKey(t, path, "first", nil).ok(t, http.StatusOK)
	a.hammer(t, 499, func(int) operation { return operation{method: "GET", path: path, status: http.StatusOK} })
	for range 3 * len(i.bases) { // so that every edge remembers the refusal
		a.do(t, "GET", path, nil).fails(t, http.StatusTooManyRequests, "quota_exhausted", "")
	}
	again := a.underKey(t, path, "first", nil)
	if remaining := number(t, again.ok(t, http.StatusOK), "remaining"); remaining != 0 {
		t.Errorf("remaining %d", remaining)
	}
	again.hasHeader(t, "Idempotency-Replayed", "true")
	e := a.do(t, "GET", "/api/users/user/requests/"+again.header.Get("X-Request-Id"), nil).ok(t, http.StatusOK)
	if decision := text(t, e, "request", "decision"); decision != "idempotency_served" {
		t.Errorf("explained as %s", decision)
	}
	other := a.underKey(t, path+"?version=1", "first", nil)
	other.fails(t, http.StatusUnprocessableEntity, "idempotency_mismatch", "")
	list := a.do(t, "GET", "/api/users/user/requests?decision=idempotency_served", nil).ok(t, http.StatusOK)
	if n := len(at(t, list, "requests").([]any)); n != 1 {
		t.Errorf("%d repetitions are listed", n)
	}
	if used := a.used(t, "pasteLite.get"); used != 500 {
		t.Errorf("used %d", used)
	}
}
