package scenario

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// keyedCall is a call that an API key let in.
type keyedCall struct {
	d    documented
	path string
	r    request
}

// newKey makes the person's next API key. The one before is an old one from then on.
func (p *person) newKey(t testing.TB) string {
	t.Helper()
	return text(t, p.do(t, "POST", "/api/users/user/dev-key/regenerate", nil).ok(t, http.StatusOK), "apiKey")
}

// keyedCalls makes a successful call of each operation that takes an API key, and returns it for repeats. Writes that take an
// Idempotency-Key have one.
func (s *stage) keyedCalls() []keyedCall {
	var out []keyedCall
	for _, d := range documentedOperations(s.t) {
		for _, by := range []way{"ApiKey", "BearerKey"} {
			if !slices.Contains(waysOf(d.op), by) {
				continue
			}
			path, r := s.call(d, by)
			if d.op.RequestBody != nil {
				content := d.op.RequestBody.Value.Content
				media, name := smallest(content)
				s.setBody(&r, media, content[media].Examples[name].Value.Value)
				if media != "multipart/form-data" && d.op.Parameters.GetByInAndName("query", "name") != nil {
					path += "?name=notes.txt"
				}
			}
			if d.op.Parameters.GetByInAndName("header", "Idempotency-Key") != nil {
				r.header["Idempotency-Key"] = "first of " + string(by)
			}
			if !strings.HasPrefix(d.path, "/api/") {
				r.header["Accept"] = "application/json" // of failures
			}
			if first := s.i.do(s.t, d.method, path, r); first.status >= 300 {
				s.t.Fatalf("%s: %d %s", d, first.status, first.body)
			}
			out = append(out, keyedCall{d, path, r})
		}
	}
	if len(out) < 2*20 {
		s.t.Errorf("only %d calls take an API key", len(out))
	}
	return out
}

// TestAnOldKeyIsRefusedEverywhere: once a regeneration has answered, the old key opens nothing, at any edge: no endpoint of the
// description, and no answer kept under an Idempotency-Key.
func TestAnOldKeyIsRefusedEverywhere(t *testing.T) {
	i := common(t)
	p := i.person(t)
	profile := p.do(t, "GET", "/api/users/user", nil).ok(t, http.StatusOK)
	owner := account{i: i, id: text(t, profile, "account", "id"), email: p.email, key: p.newKey(t)}
	owner.setTier(t, "max")
	made := owner.do(t, "POST", "/api/dev/paste-lite/create", object{"content": "x"})
	made.ok(t, http.StatusCreated)
	s := &stage{t: t, i: i, owner: owner, person: p, paid: made.header.Get("X-Request-Id"), matched: make(map[string]bool)}
	calls := s.keyedCalls()

	owner.key = p.newKey(t)
	for _, call := range calls {
		for range i.bases {
			i.do(t, call.d.method, call.path, call.r).fails(t, http.StatusUnauthorized, "invalid_api_key", "Invalid API key")
			if call.r.header["Idempotency-Key"] == "" {
				continue
			}
			fresh := call.r
			fresh.header = maps.Clone(call.r.header)
			fresh.header["Idempotency-Key"] += ", with an old key"
			i.do(t, call.d.method, call.path, fresh).fails(t, http.StatusUnauthorized, "invalid_api_key", "Invalid API key")
		}
	}
	for _, call := range calls { // nothing was done with the old key, and the new one gets the kept answers
		if call.r.header["Idempotency-Key"] == "" {
			continue
		}
		again := call.r
		if again.key != "" {
			again.key = owner.key
		} else {
			again.header["Authorization"] = "Bearer " + owner.key
		}
		replayed := i.do(t, call.d.method, call.path, again)
		if replayed.status >= 300 || replayed.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s with the new key: %d %s", call.d, replayed.status, replayed.body)
		}
	}
}
