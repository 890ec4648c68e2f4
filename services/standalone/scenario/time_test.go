package scenario

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
)

const day = 24 * time.Hour

// TestTimePasses takes one quire through more than two months: restarts, month ends, expiry. Each step moves the clock,
// so the steps have a fixed order.
func TestTimePasses(t *testing.T) {
	t.Parallel()
	// It begins in the middle of a month, so that some days can pass before the next.
	now := time.Now().UTC()
	middle := time.Date(now.Year(), now.Month(), 10, 12, 0, 0, 0, time.UTC)
	if now.Day() > 10 {
		middle = middle.AddDate(0, 1, 0)
	}
	i := start(t, behindProxy(), with("QUIRE_CLOCK_OFFSET", time.Until(middle).String()),
		with("QUIRE_PUBLIC_URL", "http://quire.example/")) // the address may change with each restart
	s := &lifetime{i: i, pro: i.account(t, "pro"), other: i.account(t, "pro"), source: newSource(), first: i.now()}
	s.begin(t)
	i.travel(t, 2*time.Hour)
	s.hours(t)
	checkDays(t, s.pro)
	i.travel(t, 23*time.Hour)
	s.nextDay(t)
	checkDays(t, s.pro)
	if _, n := days(t, s.pro, ""); n != 2 {
		t.Errorf("usage on %d days", n)
	}
	i.travel(t, 10*day)
	s.grantsExpired(t)
	month := time.Date(s.first.Year(), s.first.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	s.downgraded(t)
	i.travel(t, month.Add(time.Hour).Sub(i.now()))
	s.nextMonth(t)
	if tier, limit := s.tierOf(t); tier != "free" || limit != 0 {
		t.Errorf("the plan of the next month is %s, with %d pastes", tier, limit)
	}
	checkDays(t, s.pro)
	i.travel(t, 31*day)
	s.monthAfter(t)
	i.audit(t)
}

// lifetime is the state of TestTimePasses between its steps.
type lifetime struct {
	i           *instance
	pro, other  account
	source      string
	first       time.Time
	hour, kept  string // pastes
	burned      string
	idempotent  answer
	statementOf string
	stored      int64
	storedAt    time.Time
	storageDays any
}

func (s *lifetime) anonymous(t *testing.T) answer {
	t.Helper()
	return s.i.do(t, "POST", "/api/dev/paste-lite/create", request{body: object{"content": "x"}, source: s.source})
}

func (s *lifetime) replayed(t *testing.T) answer {
	t.Helper()
	return s.pro.with(t, "POST", "/api/dev/pastes/create", request{body: object{"content": "once"}, header: map[string]string{"Idempotency-Key": "k"}})
}

func (s *lifetime) begin(t *testing.T) {
	s.hour = s.pro.paste(t, object{"content": "short", "expiresIn": "1h", "visibility": "public"})
	s.kept = s.pro.paste(t, object{"content": "long", "visibility": "public"})
	s.burned = s.pro.paste(t, object{"burnAfterRead": true, "expiresIn": "1h"})
	s.idempotent = s.replayed(t)
	if url := text(t, s.idempotent.ok(t, http.StatusCreated), "url"); !strings.HasPrefix(url, "http://quire.example/p/") {
		t.Errorf("url %s", url)
	}
	for n := range 10 {
		if n == 5 { // the second half is created later: the log keeps the time of each
			s.i.travel(t, time.Hour/2)
		}
		s.anonymous(t).ok(t, http.StatusCreated)
	}
	s.anonymous(t).fails(t, http.StatusTooManyRequests, "anonymous_limit", "")
	s.stored = 5 << 20
	s.pro.upload(t, "f", make([]byte, s.stored))
	s.storedAt = s.i.now()
	for _, g := range []struct {
		amount string
		in     time.Duration
	}{{"1", 0}, {"2", 5 * day}, {"4", 60 * day}} {
		body := object{"amount": g.amount, "reason": "grant of " + g.amount}
		if g.in > 0 {
			body["expiresAt"] = s.i.now().Add(g.in).Format(time.RFC3339)
		}
		s.i.admin(t, "POST", "/api/admin/accounts/"+s.pro.id+"/credits", body).ok(t, http.StatusOK)
	}
	// Ten paid uploads, of 0.005 each, are taken from the grant that expires first.
	s.pro.hammer(t, 109, func(int) operation {
		return operation{"POST", "/api/dev/files/upload?name=f", "x", http.StatusCreated}
	})
	if b := s.pro.balance(t); b != "6.950000" {
		t.Errorf("balance %s", b)
	}
}

func (s *lifetime) hours(t *testing.T) {
	s.pro.do(t, "GET", "/api/dev/pastes/get/"+s.hour, nil).fails(t, http.StatusNotFound, "not_found", "")
	s.pro.do(t, "GET", "/api/dev/pastes/versions/"+s.hour, nil).fails(t, http.StatusNotFound, "not_found", "")
	s.pro.do(t, "PUT", "/api/dev/pastes/update/"+s.hour, object{"expiresIn": "1d"}).fails(t, http.StatusNotFound, "not_found", "")
	s.other.do(t, "GET", "/api/dev/pastes/get/"+s.burned, nil).fails(t, http.StatusNotFound, "not_found", "")
	if got := s.i.do(t, "GET", "/p/"+s.hour, request{}); got.status != http.StatusNotFound {
		t.Errorf("the page of an expired paste: %d", got.status)
	}
	s.pro.do(t, "GET", "/api/dev/pastes/get/"+s.kept, nil).ok(t, http.StatusOK)
	again := s.replayed(t)
	again.hasHeader(t, "Idempotency-Replayed", "true")
	if string(again.body) != string(s.idempotent.body) {
		t.Errorf("after a restart the replay is %s, it was %s", again.body, s.idempotent.body)
	}
	s.anonymous(t).fails(t, http.StatusTooManyRequests, "anonymous_limit", "")
}

// nextDay comes more than 24 hours after the last keyless creation: none of them counts any more.
func (s *lifetime) nextDay(t *testing.T) {
	created := 0
	for s.anonymous(t).status == http.StatusCreated {
		if created++; created > 10 {
			break
		}
	}
	if created != 10 {
		t.Errorf("%d keyless creations after a day", created)
	}
	fresh := s.replayed(t)
	fresh.hasHeader(t, "Idempotency-Replayed", "")
	fresh.ok(t, http.StatusCreated)
}

func (s *lifetime) grantsExpired(t *testing.T) {
	eventually.NoError(t, "the grant of 2 has expired", func() error {
		if b := s.pro.balance(t); b != "5.000000" {
			return fmt.Errorf("balance %s", b)
		}
		return nil
	})
	// Only time has passed: billing notices the expiry by itself.
	eventually.NoError(t, "the expiry is in the ledger", func() error {
		if e := ledger(t, s.pro, 1)[0]; e.kind != "expiry" {
			return fmt.Errorf("the newest entry is %+v", e)
		}
		return nil
	})
	entries := checkLedger(t, s.pro)
	if e := entries[0]; e.kind != "expiry" || e.amount != "-1.950000" {
		t.Errorf("newest entry %+v, want the expiry of what was left of the grant", e)
	}
	if usage := s.pro.usage(t); text(t, usage, "credits", "spentThisPeriod") != "0.050000" {
		t.Errorf("credits %v", usage["credits"])
	}
}

// downgraded lets the other account's plan end with the month.
func (s *lifetime) downgraded(t *testing.T) {
	t.Helper()
	set := func(body object) answer {
		return s.i.admin(t, http.MethodPut, "/api/admin/accounts/"+s.other.id+"/tier", body)
	}
	set(object{"tier": "free", "when": "later"}).fails(t, http.StatusBadRequest, "invalid_field", "")
	set(object{"tier": "team", "when": "periodEnd"}).fails(t, http.StatusBadRequest, "invalid_field", "")
	for _, next := range []string{"free", "pro", "free"} {
		body := set(object{"tier": next, "when": "periodEnd"}).ok(t, http.StatusOK)
		want := any(next)
		if next == "pro" {
			want = nil // it stays
		}
		if account := at(t, body, "account").(object); account["tier"] != "pro" || account["nextTier"] != want {
			t.Errorf("the plan is to be %s: %v", next, account)
		}
	}
	if next := text(t, s.other.usage(t), "account", "nextTier"); next != "free" {
		t.Errorf("the next plan is %s", next)
	}
	if tier, limit := s.tierOf(t); tier != "pro" || limit != 500 {
		t.Errorf("until the month ends the plan is %s, with %d pastes", tier, limit)
	}
}

func (s *lifetime) tierOf(t *testing.T) (tier string, limit int64) {
	t.Helper()
	usage := s.other.usage(t)
	return text(t, usage, "account", "tier"), number(t, usage, "usage", "pastes.create", "limit")
}

func (s *lifetime) nextMonth(t *testing.T) {
	usage := s.pro.usage(t)
	for _, key := range []string{"pastes.create", "files.upload", "pastes.get"} {
		if used := number(t, usage, "usage", key, "used"); used != 0 {
			t.Errorf("%s begins the month with %d", key, used)
		}
	}
	if start, end := text(t, usage, "period", "start"), text(t, usage, "period", "end"); instant(t, start).Day() != 1 || instant(t, start).Month() == s.first.Month() || instant(t, end).Day() != 1 {
		t.Errorf("period %s to %s", start, end)
	}
	if spent := text(t, usage, "credits", "spentThisPeriod"); spent != "0.000000" {
		t.Errorf("spent %s", spent)
	}
	upload := s.pro.do(t, "POST", "/api/dev/files/upload?name=f", []byte("x"))
	upload.ok(t, http.StatusCreated)
	upload.hasHeader(t, "X-Charge-Source", "quota")
	s.statementOf = s.first.Format("2006-01")
	body := s.pro.do(t, "GET", "/api/users/user/statements/"+s.statementOf, nil).ok(t, http.StatusOK)
	if body["closed"] != false || number(t, body, "usage", "files.upload", "requests") != 110 || number(t, body, "usage", "files.upload", "overage") != 10 {
		t.Errorf("statement %v", body)
	}
	if spent := text(t, body, "creditsSpent"); spent != "0.050000" {
		t.Errorf("the month cost %s", spent)
	}
	// The average is the byte-seconds divided by the seconds of the whole month.
	from := time.Date(s.first.Year(), s.first.Month(), 1, 0, 0, 0, 0, time.UTC)
	to := from.AddDate(0, 1, 0)
	want := float64(s.stored) * to.Sub(s.storedAt).Seconds() / to.Sub(from).Seconds()
	if got := float64(number(t, body, "storage", "averageBytes")); got < want-2000 || got > want+2000 {
		t.Errorf("average %.0f bytes, want about %.0f", got, want)
	}
	if usd := text(t, body, "storage", "amountUsd"); usd != "0.00" {
		t.Errorf("5 MB cost %s", usd)
	}
	checkStorageDays(t, body, to.AddDate(0, 0, -1).Day()-s.storedAt.Day()+1)
	s.storageDays = at(t, body, "storage", "days")
	checkStatement(t, body)
	s.pro.do(t, "GET", "/api/dev/pastes/get/"+s.kept, nil).ok(t, http.StatusOK)
}

func (s *lifetime) monthAfter(t *testing.T) {
	body := s.pro.do(t, "GET", "/api/users/user/statements/"+s.statementOf, nil).ok(t, http.StatusOK)
	if body["closed"] != true || number(t, body, "usage", "files.upload", "requests") != 110 {
		t.Errorf("an old statement changed: %v", body)
	}
	if got := at(t, body, "storage", "days"); !reflect.DeepEqual(got, s.storageDays) {
		t.Errorf("the storage by day of an old statement changed: %v, it was %v", got, s.storageDays)
	}
	month := s.first.Format("2006-01")
	byKey, _ := days(t, s.pro, "?from="+month+"-01&to="+s.first.AddDate(0, 1, -s.first.Day()).Format(time.DateOnly))
	if byKey["files.upload"] != (daySum{110, 10, 50_000}) {
		t.Errorf("the days of an old month sum to %v", byKey)
	}
	next := s.pro.do(t, "GET", "/api/users/user/statements/"+s.first.AddDate(0, 1, 0).Format("2006-01"), nil).ok(t, http.StatusOK)
	if number(t, next, "usage", "files.upload", "requests") != 1 {
		t.Errorf("statement %v", next)
	}
	whole := float64(s.stored + 110 + 1)
	if got := float64(number(t, next, "storage", "averageBytes")); got < whole-1000 || got > whole {
		t.Errorf("average %.0f bytes of a whole month, want about %.0f", got, whole)
	}
	checkLedger(t, s.pro)
	for _, statement := range []object{body, next} {
		checkStatement(t, statement)
	}
	if closing, opening := text(t, body, "credits", "closing"), text(t, next, "credits", "opening"); closing != opening {
		t.Errorf("a month opens with %s after %s", opening, closing)
	}
}
