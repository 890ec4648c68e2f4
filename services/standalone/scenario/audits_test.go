package scenario

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/event"
)

// TestAnAuditNeedNotBeWaitedFor: it is found at its address, through any edge.
func TestAnAuditNeedNotBeWaitedFor(t *testing.T) {
	i := common(t)
	i.account(t, "pro").quick(t, nil)
	admin := func(method, path string, header ...string) answer {
		r := request{header: map[string]string{"Authorization": "Bearer " + i.adminToken}}
		if len(header) > 0 {
			r.header[header[0]] = header[1]
		}
		return i.do(t, method, path, r)
	}
	begun := admin("POST", "/api/admin/audit", "Prefer", "wait=5, Respond-Async")
	body := begun.ok(t, http.StatusAccepted)
	address := "/api/admin/audits/" + text(t, body, "id")
	begun.hasHeader(t, "Location", address)
	begun.hasHeader(t, "Preference-Applied", "respond-async")
	if begun.header.Get("Retry-After") == "" || body["match"] != nil {
		t.Errorf("begun: %v %s", begun.header, begun.body)
	}
	for range i.bases {
		end := i.auditEnd(t, begun)
		if end["match"] != true || end["restarted"] != false || number(t, end, "done") != number(t, end, "total") || number(t, end, "done") == 0 {
			t.Errorf("ended: %v", end)
		}
		for _, p := range end["partitions"].([]any) {
			if p := p.(object); p["match"] != true || p["liveHash"] != p["replayHash"] || number(t, p, "lastSequence") == 0 {
				t.Errorf("partition %v", p)
			}
		}
	}
	if other := admin("POST", "/api/admin/audit", "Prefer", "handling=lenient"); other.header.Get("Preference-Applied") != "" || text(t, other.json(t), "id") == text(t, body, "id") {
		t.Errorf("another audit: %d %s", other.status, other.body)
	}
	unknown := event.NewRequestID()
	for _, id := range []string{unknown.String(), "nonsense", strings.Repeat("0", 36)} {
		admin("GET", "/api/admin/audits/"+id).fails(t, http.StatusNotFound, "not_found", "")
	}
	lost := event.NewRequestID().String() // billing has no such audit, as after a restart
	resumed := admin("POST", "/api/admin/audit?deep=true&resume="+lost, "Prefer", "respond-async")
	resumed.hasHeader(t, "Location", "/api/admin/audits/"+lost)
	if end := i.auditEnd(t, resumed); end["match"] != true || end["id"] != lost {
		t.Errorf("resumed: %v", end)
	}
	admin("POST", "/api/admin/audit?resume=nonsense").fails(t, http.StatusBadRequest, "invalid_field", "")
	admin("POST", "/api/admin/audit?resume=00000000-0000-0000-0000-000000000000").fails(t, http.StatusBadRequest, "invalid_field", "")
	admin("POST", "/api/admin/audit?resume="+lost).fails(t, http.StatusBadRequest, "invalid_field", "")
	admin("POST", "/api/admin/audit?deep=true&new=true&resume="+lost).fails(t, http.StatusBadRequest, "invalid_field", "")
	i.do(t, "GET", address, request{}).fails(t, http.StatusUnauthorized, "admin_token_required", "")
	admin("GET", address+"?x=1").fails(t, http.StatusBadRequest, "unknown_field", "")
	admin("GET", address+"?deep=false&account=&partition=0").fails(t, http.StatusBadRequest, "invalid_field", "")
	i.auditsHeads(t)
}

// auditsHeads: an audit tells the chain at an earlier sequence, and none beyond the journal's end.
func (i *instance) auditsHeads(t *testing.T) {
	t.Helper()
	partition := func(audit object) object { return audit["partitions"].([]any)[0].(object) }
	first := partition(i.auditEnd(t, i.admin(t, "POST", "/api/admin/audit", nil)))
	at := number(t, first, "lastSequence")
	i.account(t, "pro")
	second := i.auditEnd(t, i.admin(t, "POST", fmt.Sprintf("/api/admin/audit?heads=0:%d", at), nil))
	if p := partition(second); p["headChain"] != first["chain"] || text(t, p, "chain") == "" || text(t, p, "time") == "" {
		t.Errorf("the head at %d is %v, later %v", at, first, p)
	}
	beyond := i.auditEnd(t, i.admin(t, "POST", "/api/admin/audit?heads=0:18446744073709551615", nil))
	if p := partition(beyond); p["headChain"] != nil {
		t.Errorf("a head beyond the end is %v", p)
	}
	for _, heads := range []string{"", "0", "0:0", "0:-1", "0:1,0:1", "0:18446744073709551616", "4294967295:1", "x:1", "0:1,"} {
		i.admin(t, "POST", "/api/admin/audit?heads="+heads, nil).fails(t, http.StatusBadRequest, "invalid_field", "")
	}
}

// TestExplanationsAreLimited for an account, and not for operators. Nothing is looked for that no journal can have.
func TestExplanationsAreLimited(t *testing.T) {
	i := common(t)
	a, other := i.account(t, "pro"), i.account(t, "pro")
	n := 0
	elsewhere := func() string { // before every journal, or long after
		n++
		id := event.NewRequestID()
		copy(id[:6], []byte{0, byte(n), 0, 0, 0, byte(n >> 8)})
		if n%2 == 0 {
			id[0] = 0xff
		}
		return "/requests/" + id.String()
	}
	unknown := func(got answer) { got.fails(t, http.StatusNotFound, "not_found", "") }
	calls := i.untilRefused(t, "rate_limited", func() answer { return a.do(t, "GET", "/api/users/user"+elsewhere(), nil) }, unknown)
	if calls < 120 {
		t.Errorf("the account was refused after %d explanations", calls)
	}
	unknown(other.do(t, "GET", "/api/users/user"+elsewhere(), nil))
	unknown(i.admin(t, "GET", "/api/admin"+elsewhere(), nil))
}

// TestOneExplanationAtATime: of an account's concurrent ones, none fails except by waiting for its turn.
func TestOneExplanationAtATime(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	var ids []string
	for range 8 {
		made := a.do(t, "POST", "/api/dev/paste-lite/create", object{"content": "x"})
		made.ok(t, http.StatusCreated)
		ids = append(ids, made.header.Get("X-Request-Id"))
	}
	failed := make(chan error, len(ids))
	for _, id := range ids {
		go func() {
			got := a.do(t, "GET", "/api/users/user/requests/"+id, nil)
			switch {
			case got.status == http.StatusOK && strings.Contains(string(got.body), id), got.status == http.StatusAccepted:
				failed <- nil
			case got.status == http.StatusTooManyRequests && got.header.Get("Retry-After") != "":
				failed <- nil
			default:
				failed <- fmt.Errorf("%s: %d %s", id, got.status, got.body)
			}
		}()
	}
	for range ids {
		select {
		case err := <-failed:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("no answer in a minute")
		}
	}
}
