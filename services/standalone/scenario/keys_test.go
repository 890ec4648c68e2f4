package scenario

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
)

const keysPath = "/api/users/user/keys"

// further makes another key of the account.
func (p *person) further(t testing.TB, rules object) (key string, made object) {
	t.Helper()
	body := p.do(t, "POST", keysPath, rules).ok(t, http.StatusCreated)
	return text(t, body, "apiKey"), body["key"].(map[string]any)
}

// keyOf is a key of the account as the list shows it.
func (p *person) keyOf(t testing.TB, id string) object {
	t.Helper()
	for _, k := range p.do(t, "GET", keysPath, nil).ok(t, http.StatusOK)["keys"].([]any) {
		if key := k.(map[string]any); key["id"] == id {
			return key
		}
	}
	t.Fatalf("no key %s", id)
	return nil
}

func TestAnAccountHasKeysWithRules(t *testing.T) {
	i := common(t)
	p, owner := i.owner(t)
	id := owner.paste(t, object{"visibility": "private"})
	key, made := p.further(t, object{"name": "reader", "scopes": []string{"pastes.get", "pasteLite.get"}, "expiresIn": "90d"})
	if made["id"] != "k1" || made["name"] != "reader" || made["expiresAt"] == nil || made["lastUsedAt"] != nil {
		t.Fatalf("made %v", made)
	}
	reader := account{i: i, key: key}
	for range i.bases {
		reader.do(t, "GET", "/api/dev/pastes/get/"+id, nil).ok(t, http.StatusOK)
		reader.do(t, "GET", "/api/dev/pastes/list", nil).ok(t, http.StatusOK)
		reader.do(t, "GET", "/api/dev/pastes/versions/"+id, nil).ok(t, http.StatusOK)
		before := owner.used(t, "pastes.create")
		reader.do(t, "POST", "/api/dev/pastes/create", object{"content": "x"}).fails(t, http.StatusForbidden, "key_scope", "")
		if owner.used(t, "pastes.create") != before {
			t.Error("a refusal by the scopes was counted")
		}
		reader.do(t, "GET", "/api/dev/files/list", nil).fails(t, http.StatusForbidden, "key_scope", "")
		for _, path := range []string{"/api/users/user", "/api/users/user/dev-usage", "/api/users/user/credits"} {
			reader.do(t, "GET", path, nil).fails(t, http.StatusForbidden, "key_scope", "")
		}
	}
	if k := p.keyOf(t, "k1"); k["lastUsedAt"] == nil || k["usage"].(map[string]any)["pastes.get"].(map[string]any)["used"] == nil {
		t.Errorf("listed %v", k)
	}
	// A key without scopes is described by dev-usage.
	plain, _ := p.further(t, object{"name": "plain"})
	usage := (account{i: i, key: plain}).do(t, "GET", "/api/users/user/dev-usage", nil).ok(t, http.StatusOK)
	if !strings.HasPrefix(plain, text(t, usage, "key", "prefix")) {
		t.Errorf("dev-usage describes %v", usage["key"])
	}

	change := p.do(t, "PUT", keysPath+"/k1", object{"scopes": nil, "quotas": object{"pastes.get": 1000}}).ok(t, http.StatusOK)
	if k := change["key"].(map[string]any); k["name"] != "reader" || k["scopes"] != nil || k["expiresAt"] == nil {
		t.Errorf("changed %v", k)
	}
	reader.do(t, "GET", "/api/users/user", nil).ok(t, http.StatusOK)
	p.do(t, "PUT", keysPath+"/k1", object{"expiresAt": nil, "quotas": nil}).ok(t, http.StatusOK)
	if k := p.keyOf(t, "k1"); k["expiresAt"] != nil || len(k["quotas"].(map[string]any)) != 0 {
		t.Errorf("reset to %v", k)
	}

	late := i.useBeyond(t, key, "invalid_api_key", http.StatusUnauthorized, func() {
		p.do(t, "DELETE", keysPath+"/k1", nil).ok(t, http.StatusOK)
	}, func(err error) bool { return strings.Contains(err.Error(), " 401 ") })
	if late > 0 {
		t.Errorf("%d requests were admitted after the key was revoked", late)
	}
	for range i.bases {
		reader.do(t, "GET", "/api/dev/pastes/list", nil).fails(t, http.StatusUnauthorized, "invalid_api_key", "")
		owner.do(t, "GET", "/api/dev/pastes/list", nil).ok(t, http.StatusOK)
	}
	p.do(t, "PUT", keysPath+"/k1", object{"name": "late"}).fails(t, http.StatusNotFound, "not_found", "")
	p.do(t, "DELETE", keysPath+"/k1", nil).ok(t, http.StatusOK)
	for _, id := range []string{"k0", "k01", "k99", "1", "K2", "k4294967296"} {
		p.do(t, "DELETE", keysPath+"/"+id, nil).fails(t, http.StatusNotFound, "not_found", "")
	}
}

func TestRulesOfKeysAreChecked(t *testing.T) {
	i := common(t)
	p, _ := i.owner(t)
	p.further(t, object{"name": strings.Repeat("ü", 100), "expiresIn": "1m", "spendingCap": object{"amount": "0", "period": "total"}})
	for _, wrong := range []object{
		{"name": ""},
		{"name": "  "},
		{"name": nil},
		{"name": strings.Repeat("ü", 101)},
		{"name": 5},
		{"name": "a\u0000b"},
		{"scopes": []string{}},
		{"scopes": []string{"pastes.read"}},
		{"scopes": "pastes.get"},
		{"scopes": []int{1}},
		{"expiresIn": 59},
		{"expiresIn": "11y"},
		{"expiresAt": "2001-01-01T00:00:00Z"},
		{"expiresIn": "1h", "expiresAt": "2030-01-01T00:00:00Z"},
		{"quotas": object{"pastes.read": 1}},
		{"quotas": object{"pastes.get": -1}},
		{"quotas": object{"pastes.get": 1.5}},
		{"quotas": object{"pastes.get": 1_000_000_001}},
		{"quotas": []int{1}},
		{"spendingCap": "5"},
		{"spendingCap": object{"period": "day"}},
		{"spendingCap": object{"amount": "5"}},
		{"spendingCap": object{"amount": "-1", "period": "day"}},
		{"spendingCap": object{"amount": "0.0000001", "period": "day"}},
		{"spendingCap": object{"amount": "1000000000.000001", "period": "day"}},
		{"spendingCap": object{"amount": "1", "period": "week"}},
	} {
		p.do(t, "POST", keysPath, wrong).fails(t, http.StatusBadRequest, "invalid_field", "")
	}
	p.do(t, "POST", keysPath, object{"name": "x", "scope": []string{"pastes.get"}}).fails(t, http.StatusBadRequest, "unknown_field", "")
	p.do(t, "POST", keysPath, object{"name": "x", "spendingCap": object{"amount": "1", "period": "day", "per": 1}}).
		fails(t, http.StatusBadRequest, "unknown_field", "")
	p.do(t, "PUT", keysPath+"/k1", object{}).fails(t, http.StatusBadRequest, "malformed", "")
	for _, overlap := range []any{nil, "", "7", "-1s", "8d", "169h", "1w", 60, "1.5h"} {
		p.do(t, "POST", keysPath+"/k1/rotate", object{"overlap": overlap}).fails(t, http.StatusBadRequest, "invalid_field", "")
	}
	p.do(t, "POST", keysPath+"/k1/rotate", object{}).fails(t, http.StatusBadRequest, "invalid_field", "")
	p.do(t, "POST", keysPath+"/k1/rotate", object{"overlap": "168h"}).ok(t, http.StatusOK)
	p.do(t, "POST", keysPath+"/k1/rotate", object{"overlap": "0s"}).fails(t, http.StatusNotFound, "not_found", "")
	i.do(t, "GET", keysPath, request{}).fails(t, http.StatusUnauthorized, "session_required", "")

	for n := range 18 { // the default key and k2 exist
		p.further(t, object{"name": fmt.Sprint(n)})
	}
	p.do(t, "POST", keysPath, object{"name": "x"}).fails(t, http.StatusConflict, "too_many_keys", "")
	p.do(t, "DELETE", keysPath+"/k20", nil).ok(t, http.StatusOK)
	keyed := request{
		cookies: p.cookies, body: object{"name": "x"},
		header: map[string]string{"Sec-Fetch-Site": "same-origin", "Idempotency-Key": "make"},
	}
	first := i.do(t, "POST", keysPath, keyed).ok(t, http.StatusCreated)
	again := i.do(t, "POST", keysPath, keyed)
	again.hasHeader(t, "Idempotency-Replayed", "true")
	if body := again.ok(t, http.StatusCreated); body["apiKey"] != first["apiKey"] {
		t.Errorf("made %v, then %v", first, body)
	}
	(account{i: i, key: text(t, first, "apiKey")}).do(t, "GET", "/api/dev/pastes/list", nil).ok(t, http.StatusOK)
}

// TestNamesOfKeysAreUnique also when many edges create keys at once.
func TestNamesOfKeysAreUnique(t *testing.T) {
	i := common(t)
	p, _ := i.owner(t)
	taken := func(a answer) {
		t.Helper()
		a.fails(t, http.StatusConflict, "name_taken", "")
		a.says(t, object{"field": "name", "reason": "name is already used by another active API key. Choose another."})
	}
	create := func(rules object) answer { return p.do(t, "POST", keysPath, rules) }
	taken(create(object{"name": "default"}))
	for _, want := range []string{"default 2", "default 3"} {
		if _, made := p.further(t, object{}); made["name"] != want {
			t.Errorf("a key without a name is named %v, want %s", made["name"], want)
		}
	}
	_, build := p.further(t, object{"name": " build "})
	if build["name"] != "build" {
		t.Errorf("named %q", build["name"])
	}
	path := keysPath + "/" + build["id"].(string)
	taken(create(object{"name": "build "}))
	taken(p.do(t, "PUT", path, object{"name": "default 2"}))
	p.do(t, "PUT", path, object{"name": "build", "quotas": object{"pastes.get": 1}}).ok(t, http.StatusOK)
	rotated := p.do(t, "POST", path+"/rotate", object{"overlap": "0s"}).ok(t, http.StatusOK)
	if name := text(t, rotated, "key", "name"); name != "build" {
		t.Errorf("the successor is named %q", name)
	}
	taken(create(object{"name": "build"}))
	p.do(t, "DELETE", keysPath+"/"+text(t, rotated, "key", "id"), nil).ok(t, http.StatusOK)
	_, build = p.further(t, object{"name": "build"})
	p.do(t, "PUT", keysPath+"/"+build["id"].(string), object{"name": "deploy"}).ok(t, http.StatusOK)
	p.further(t, object{"name": "build"})

	var group sync.WaitGroup
	var made, refused atomic.Int64
	names := sync.Map{}
	for n := range 8 {
		group.Go(func() {
			rules := object{"name": "at once"}
			if n%2 == 1 {
				rules = object{}
			}
			a := create(rules)
			if rules["name"] == nil {
				if _, twice := names.LoadOrStore(text(t, a.ok(t, http.StatusCreated), "key", "name"), true); twice {
					t.Errorf("two keys have one name: %s", a.body)
				}
				return
			}
			if a.status == http.StatusCreated {
				made.Add(1)
				return
			}
			taken(a)
			refused.Add(1)
		})
	}
	group.Wait()
	if made.Load() != 1 || refused.Load() != 3 {
		t.Errorf("%d keys have the name, %d were refused", made.Load(), refused.Load())
	}
}

// TestAKeyShowsItsStatusAndItsLastUse with the address it came from, which only its holder sees.
func TestAKeyShowsItsStatusAndItsLastUse(t *testing.T) {
	i := common(t)
	p, owner := i.owner(t)
	quick := owner.quick(t, nil)
	key, made := p.further(t, object{"name": "reader"})
	if _, listed := made["lastUsedAddress"]; made["status"] != "active" || listed {
		t.Errorf("made %v", made)
	}
	if k := p.keyOf(t, "k1"); k["status"] != "active" || k["lastUsedAddress"] != nil {
		t.Errorf("before its first use %v", k)
	}
	for _, source := range []string{"198.51.100.7", "2001:db8::7"} {
		i.do(t, "GET", "/api/dev/paste-lite/get/"+quick, request{key: key, header: map[string]string{"X-Forwarded-For": source}}).ok(t, http.StatusOK)
		eventually.True(t, "the key was last used from "+source, func() bool { return p.keyOf(t, "k1")["lastUsedAddress"] == source })
	}
	// What was refused is no use of a key.
	i.do(t, "GET", "/api/dev/paste-lite/get/000000000000", request{key: key + "x", header: map[string]string{"X-Forwarded-For": "198.51.100.9"}}).
		fails(t, http.StatusUnauthorized, "invalid_api_key", "")
	for _, k := range i.admin(t, "GET", "/api/admin/accounts/"+owner.id+"/keys", nil).ok(t, http.StatusOK)["keys"].([]any) {
		if k.(object)["lastUsedAddress"] != nil {
			t.Errorf("an admin sees %v", k)
		}
	}

	// The successor of the default key was not used from where its predecessor was.
	eventually.True(t, "the default key has an address", func() bool { return p.keyOf(t, "default")["lastUsedAddress"] != nil })
	p.do(t, "POST", keysPath+"/default/rotate", object{"overlap": "0s"}).ok(t, http.StatusOK)
	if k := p.keyOf(t, "default"); k["lastUsedAddress"] != nil || k["lastUsedAt"] != nil {
		t.Errorf("the successor is %v", k)
	}

	if k := p.do(t, "DELETE", keysPath+"/k1", nil).ok(t, http.StatusOK)["key"].(object); k["status"] != "revoked" {
		t.Errorf("revoked %v", k)
	}
}

// TestAKeyIsCapped once a cap leaves too little for any request over quota that the key may send: here 0.0002 for a read of a quick paste.
func TestAKeyIsCapped(t *testing.T) {
	i := common(t)
	p, _ := i.owner(t)
	status := func(rules object) any {
		t.Helper()
		_, made := p.further(t, rules)
		return made["status"]
	}
	for amount, want := range map[string]string{"0": "capped", "0.000199": "capped", "0.0002": "active"} {
		if got := status(object{"spendingCap": object{"amount": amount, "period": "day"}}); got != want {
			t.Errorf("with a cap of %s the key is %v, want %s", amount, got, want)
		}
	}
	if got := status(object{"scopes": []string{"pastes.create"}, "spendingCap": object{"amount": "0.001999", "period": "day"}}); got != "capped" {
		t.Errorf("a key for pastes is %v", got)
	}
	if got := status(object{"scopes": []string{"pasteLite.list"}, "spendingCap": object{"amount": "0", "period": "day"}}); got != "active" {
		t.Errorf("a key that costs nothing is %v", got)
	}
	statusOf := func() any { return p.keyOf(t, "default")["status"] }
	set := func(cap object) object {
		return p.do(t, "PUT", "/api/users/user/spending-cap", cap).ok(t, http.StatusOK)
	}
	if answer := set(object{"amount": "0", "period": "total"}); answer["capCleared"] != nil || statusOf() != "capped" {
		t.Errorf("the account's cap: %v, the key is %v", answer, statusOf())
	}
	if answer := set(object{"amount": nil}); answer["capCleared"] != true || answer["spendingCap"] != nil || statusOf() != "active" {
		t.Errorf("without a cap: %v, the key is %v", answer, statusOf())
	}
	change := func(rules object) object { return p.do(t, "PUT", keysPath+"/k1", rules).ok(t, http.StatusOK) }
	if answer := change(object{"name": "renamed"}); answer["capCleared"] != nil {
		t.Errorf("%v", answer)
	}
	if answer := change(object{"spendingCap": nil}); answer["capCleared"] != true || answer["key"].(object)["status"] != "active" {
		t.Errorf("%v", answer)
	}
}

// An account may have 20 live keys, and 20 more that were replaced: the error names the one that is full.
func TestTooManyKeysNamesTheLimit(t *testing.T) {
	i := common(t)
	p, _ := i.owner(t)
	id := "default"
	rotate := func(overlap string) answer {
		return p.do(t, "POST", keysPath+"/"+id+"/rotate", object{"overlap": overlap})
	}
	for range 20 {
		id = text(t, rotate("1h").ok(t, http.StatusOK), "key", "id")
	}
	full := rotate("1h")
	full.fails(t, http.StatusConflict, "too_many_keys", "")
	full.says(t, object{"limit": 20, "reason": "The account has 20 replaced API keys that are still valid. Revoke one, or rotate without an overlap."})
	id = text(t, rotate("0s").ok(t, http.StatusOK), "key", "id")
	for n := range 19 {
		p.further(t, object{"name": fmt.Sprint(n)})
	}
	full = p.do(t, "POST", keysPath, object{"name": "x"})
	full.fails(t, http.StatusConflict, "too_many_keys", "")
	full.says(t, object{"limit": 20, "reason": "The account has 20 active API keys. Revoke one first."})
}

// TestAReplacedKeyEndsEverywhereAtItsTime: until that time of the journal both keys are admitted at every edge, from then on only
// the new one.
func TestAReplacedKeyEndsEverywhereAtItsTime(t *testing.T) {
	i := common(t)
	for name, id := range map[string]string{"default": "default", "further": "k1"} {
		t.Run(name, func(t *testing.T) {
			p, owner := i.owner(t)
			old := owner.key
			if id == "k1" {
				old, _ = p.further(t, object{"name": "x"})
			}
			quick := owner.quick(t, nil)
			made := p.do(t, "POST", keysPath+"/"+id+"/rotate", object{"overlap": "3s"}).ok(t, http.StatusOK)
			ends, err := time.Parse(time.RFC3339, text(t, made, "oldKeyExpiresAt"))
			if err != nil {
				t.Fatal(err)
			}
			fresh := text(t, made, "apiKey")
			admitted := ""
			eventually.True(t, "the old key ends", func() bool {
				refused := 0
				for range i.bases { // each call goes to the next edge
					a := i.do(t, "GET", "/api/dev/paste-lite/get/"+quick, request{key: old})
					if a.status == http.StatusOK {
						admitted = a.header.Get("X-Request-Id")
						continue
					}
					refused++
					if i.now().Before(ends) {
						t.Errorf("%d %s before %v", a.status, a.body, ends)
					}
					a.fails(t, http.StatusUnauthorized, "invalid_api_key", "")
				}
				i.do(t, "GET", "/api/dev/paste-lite/get/"+quick, request{key: fresh}).ok(t, http.StatusOK)
				return refused == len(i.bases)
			})
			for range i.bases {
				for _, path := range []string{"/api/dev/paste-lite/list", "/api/dev/pastes/list", "/api/users/user/dev-usage"} {
					i.do(t, "GET", path, request{key: old}).fails(t, http.StatusUnauthorized, "invalid_api_key", "")
				}
			}
			if admitted == "" {
				t.Fatal("the old key was not admitted during the overlap")
			}
			last := p.do(t, "GET", "/api/users/user/requests/"+admitted, nil).ok(t, http.StatusOK)
			decided, err := time.Parse(time.RFC3339, text(t, last, "request", "time"))
			if err != nil || !decided.Before(ends) {
				t.Errorf("admitted at %v, the old key ended at %v", decided, ends)
			}
		})
	}
}

// TestManyCallersNeverPassACap: 256 callers at once, with two keys through all edges.
func TestManyCallersNeverPassACap(t *testing.T) {
	i := common(t)
	p, owner := i.owner(t)
	owner.grant(t, "10")
	owner.hammer(t, 100, func(int) operation { return operation{"POST", "/api/dev/files/upload?name=f", "x", http.StatusCreated} })
	narrow, _ := p.further(t, object{"spendingCap": object{"amount": "0.014999", "period": "day"}})
	p.do(t, "PUT", "/api/users/user/spending-cap", object{"amount": "0.034999", "period": "month"}).ok(t, http.StatusOK)
	var byKey [2]atomic.Int64
	var group sync.WaitGroup
	for n := range 256 {
		group.Go(func() {
			key := []string{owner.key, narrow}[n%2]
			a := i.do(t, "POST", "/api/dev/files/upload?name=f", request{key: key, body: []byte("x")})
			if a.status == http.StatusCreated {
				byKey[n%2].Add(1)
				return
			}
			if a.status != http.StatusTooManyRequests {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	group.Wait()
	if all := byKey[0].Load() + byKey[1].Load(); all != 6 || byKey[1].Load() > 2 {
		t.Errorf("%d paid requests, %d of them with the narrow key", all, byKey[1].Load())
	}
	refused := owner.with(t, "POST", "/api/dev/files/upload?name=f", request{body: []byte("x")})
	refused.fails(t, http.StatusTooManyRequests, "spending_cap_reached", "")
	if refused.header.Get("Retry-After") == "" || refused.json(t)["resetAt"] == nil {
		t.Errorf("refused with %v %s", refused.header, refused.body)
	}
	list := p.do(t, "GET", keysPath, nil).ok(t, http.StatusOK)
	if spent := text(t, list, "spendingCap", "spent"); spent != "0.030000" {
		t.Errorf("spent %s", spent)
	}
	if balance := owner.balance(t); balance != "9.970000" {
		t.Errorf("the balance is %s", balance)
	}
	p.do(t, "PUT", "/api/users/user/spending-cap", object{"amount": "0.000001", "period": "total"}).ok(t, http.StatusOK)
	eventually.NoError(t, "a cap on the total has no Retry-After", func() error { // another edge remembers the month's cap for a second
		total := owner.with(t, "POST", "/api/dev/files/upload?name=f", request{body: []byte("x")})
		total.fails(t, http.StatusTooManyRequests, "spending_cap_reached", "")
		if after := total.header.Get("Retry-After"); after != "" {
			return fmt.Errorf("it has %s", after)
		}
		return nil
	})
	owner.paste(t, nil) // free calls continue
	p.do(t, "PUT", "/api/users/user/spending-cap", object{"amount": nil}).ok(t, http.StatusOK)
	owner.with(t, "POST", "/api/dev/files/upload?name=f", request{body: []byte("x")}).ok(t, http.StatusCreated)
	for _, wrong := range []object{{}, {"amount": "5"}, {"period": "day"}, {"amount": "5", "period": "year"}, {"amount": "-1", "period": "day"}} {
		p.do(t, "PUT", "/api/users/user/spending-cap", wrong).fails(t, http.StatusBadRequest, "invalid_field", "")
	}
}

func TestAKeysQuotaIsItsOwn(t *testing.T) {
	i := common(t)
	p, owner := i.owner(t)
	quick := owner.quick(t, nil)
	key, _ := p.further(t, object{"quotas": object{"pasteLite.get": 2}})
	narrow := account{i: i, key: key}
	for range 2 {
		narrow.do(t, "GET", "/api/dev/paste-lite/get/"+quick, nil).ok(t, http.StatusOK)
	}
	made := p.do(t, "POST", keysPath+"/k1/rotate", object{"overlap": "0s"}).ok(t, http.StatusOK)
	narrow.key = text(t, made, "apiKey") // a new key resets no limit
	for range i.bases {
		i.untilRefused(t, "key_quota_exhausted", func() answer {
			return narrow.do(t, "GET", "/api/dev/paste-lite/get/"+quick, nil)
		}, func(a answer) { t.Errorf("%d %s", a.status, a.body) })
		owner.do(t, "GET", "/api/dev/paste-lite/get/"+quick, nil).ok(t, http.StatusOK)
	}
}

// TestKeysOutliveARestart: keys, limits and spending are restored.
func TestKeysOutliveARestart(t *testing.T) {
	i := start(t)
	p, owner := i.owner(t)
	quick := owner.quick(t, nil)
	key, _ := p.further(t, object{"quotas": object{"pasteLite.get": 1}})
	(account{i: i, key: key}).do(t, "GET", "/api/dev/paste-lite/get/"+quick, nil).ok(t, http.StatusOK)
	p.do(t, "DELETE", keysPath+"/default", nil).ok(t, http.StatusOK)
	i.restart(t)
	owner.do(t, "GET", "/api/dev/paste-lite/get/"+quick, nil).fails(t, http.StatusUnauthorized, "invalid_api_key", "")
	i.untilRefused(t, "key_quota_exhausted", func() answer {
		return (account{i: i, key: key}).do(t, "GET", "/api/dev/paste-lite/get/"+quick, nil)
	}, func(a answer) { t.Errorf("%d %s", a.status, a.body) })
	if audit := i.audit(t); audit["match"] != true {
		t.Errorf("audit %v", audit)
	}
}

// TestChangesOfAnAccountAreLimited: through each of all edges, and only for that account.
func TestChangesOfAnAccountAreLimited(t *testing.T) {
	i := common(t)
	p, other := i.person(t), i.person(t)
	set := func(p *person) answer {
		return p.do(t, "PUT", "/api/users/user/spending-cap", object{"amount": "5", "period": "day"})
	}
	made := 0
	var refused answer
	calls := i.untilRefused(t, "rate_limited", func() answer { refused = set(p); return refused }, func(got answer) {
		made++
		got.ok(t, http.StatusOK)
	})
	if calls != made || made < 300 || made > 310*len(i.bases) {
		t.Errorf("%d changes were made, of %d calls", made, calls)
	}
	if body := refused.json(t); body["limit"] != json.Number("300") || body["resetAt"] == nil {
		t.Errorf("%s", refused.body)
	}
	eventually.True(t, "none may be made for a while", func() bool { // as after one that a minute of these calls allowed
		set(p)
		wait, err := strconv.Atoi(set(p).header.Get("Retry-After"))
		return err == nil && wait > 20
	})
	for _, r := range []struct {
		method, path string
		body         any
	}{
		{"POST", "/api/users/user/dev-key/regenerate", nil},
		{"POST", keysPath, object{"name": "one more"}},
		{"PUT", "/api/users/user/email", object{"currentPassword": p.password, "email": "x" + p.email}},
		{"PUT", "/api/users/user/password", object{"currentPassword": p.password, "password": "another password"}},
		{"DELETE", "/api/users/user/sessions/x", nil},
	} {
		p.do(t, r.method, r.path, r.body).fails(t, http.StatusTooManyRequests, "rate_limited", "")
	}
	p.profile(t)
	i.admin(t, "POST", "/api/admin/accounts/"+p.profile(t)["id"].(string)+"/key/regenerate", nil).ok(t, http.StatusOK)
	set(other).ok(t, http.StatusOK)
}

func TestAdminsSeeTheKeysOfAnAccount(t *testing.T) {
	i := common(t)
	p, owner := i.owner(t)
	p.further(t, object{"scopes": []string{"pastes.get"}, "quotas": object{"pastes.get": 3}})
	path := "/api/admin/accounts/" + owner.id + "/keys"
	for range i.bases {
		want := p.do(t, "GET", keysPath, nil).ok(t, http.StatusOK)
		if got := i.admin(t, "GET", path, nil).ok(t, http.StatusOK); !reflect.DeepEqual(got, want) || len(got["keys"].([]any)) != 2 {
			t.Errorf("an admin sees %v, its holder %v", got, want)
		}
	}
	i.do(t, "GET", path, request{}).fails(t, http.StatusUnauthorized, "admin_token_required", "")
	i.admin(t, "GET", "/api/admin/accounts/G0000000000/keys", nil).fails(t, http.StatusNotFound, "not_found", "")
}
