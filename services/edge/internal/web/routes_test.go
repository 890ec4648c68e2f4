package web

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"quire.dev/services/edge/internal/fault"
)

// TestTheTableOfRoutesIsTheDescription holds the table and docs/openapi.yaml to each other.
func TestTheTableOfRoutesIsTheDescription(t *testing.T) {
	described := make(map[string]*openapi3.Operation)
	for path, item := range loadSpec(t).Paths.Map() {
		for method, op := range item.Operations() {
			described[method+" "+path] = op
		}
	}
	param := regexp.MustCompile(`:(\w+)`)
	for _, r := range (&Server{}).routes() {
		name := r.method + " " + param.ReplaceAllString(r.path, "{$1}")
		op := described[name]
		if op == nil {
			t.Errorf("%s is not described, or comes twice", name)
			continue
		}
		delete(described, name)
		if got, want := securityOf(op), schemesOf(t, r.who); !slices.Equal(got, want) {
			t.Errorf("%s: security is described as %q, the table has %q", name, got, want)
		}
		key := ""
		if r.key != unmetered {
			key = r.key.String()
		}
		if got, _ := op.Extensions["x-quota-key"].(string); got != key {
			t.Errorf("%s: x-quota-key is %q, the table has %q", name, got, key)
		}
		if got := op.Parameters.GetByInAndName("header", headerIdempotencyKey) != nil; got != r.rules.has(idempotent) {
			t.Errorf("%s: it is described that it takes an Idempotency-Key: %v", name, got)
		}
		query := slices.ContainsFunc(op.Parameters, func(p *openapi3.ParameterRef) bool { return p.Value.In == "query" })
		if query != r.rules.has(ownQuery) {
			t.Errorf("%s: it is described that it takes query parameters: %v", name, query)
		}
		if got, want := op.RequestBody != nil, r.body != noBody && r.body != empty; got != want {
			t.Errorf("%s: it is described that it takes a body: %v", name, got)
		}
	}
	for name := range described {
		t.Errorf("%s is described but no route", name)
	}
}

// securityOf are the ways in that an operation describes; "" is none.
func securityOf(op *openapi3.Operation) []string {
	if op.Security == nil || len(*op.Security) == 0 {
		return []string{""}
	}
	var ways []string
	for _, way := range *op.Security {
		names := make([]string, 0, 1)
		for scheme := range way {
			names = append(names, scheme)
		}
		slices.Sort(names)
		ways = append(ways, strings.Join(names, "+"))
	}
	slices.Sort(ways)
	return ways
}

func schemesOf(t *testing.T, who credential) []string {
	t.Helper()
	switch who {
	case anybody, operators:
		return []string{""}
	case apiKey:
		return []string{"ApiKey", "BearerKey"}
	case keyOrKeyless:
		return []string{"", "ApiKey", "BearerKey"}
	case keyOrToken:
		return []string{"ApiKey", "BearerKey", "ManageToken"}
	case session:
		return []string{"Session"}
	case keyOrSession:
		return []string{"ApiKey", "BearerKey", "Session"}
	case sessionOrNone:
		return []string{"", "Session"}
	case admin:
		return []string{"AdminToken"}
	}
	t.Fatalf("credential %d has no scheme", who)
	return nil
}

// TestEveryRowAsksForItsCredential calls each route without one. Nobody answers on the bus: a call that gets past its
// checks would end as 503.
func TestEveryRowAsksForItsCredential(t *testing.T) {
	s, addr := startServer(t, Config{AdminToken: "the token"}, func(*Server) {})
	for _, r := range s.routes() {
		var want fault.Kind
		header := ""
		switch r.who {
		case apiKey, keyOrSession:
			want = fault.APIKeyRequired
		case keyOrToken:
			want = fault.ManageTokenRequired
		case session:
			want = fault.SessionRequired
		case admin:
			want = fault.AdminTokenRequired
		case keyOrKeyless:
			want, header = fault.InvalidAPIKey, "X-Api-Key: wrong\r\n"
		case anybody, sessionOrNone:
			if r.method == "GET" {
				continue
			}
			want, header = fault.CrossOrigin, "Origin: https://evil.example\r\n"
		case operators:
			continue
		}
		path := strings.NewReplacer(":", "").Replace(r.path)
		a := exchange(t, addr, r.method+" "+path+"?nonsense=1 HTTP/1.1\r\nHost: a\r\n"+header+"Accept: application/json\r\nContent-Length: 0\r\n\r\n", 1)[0]
		if a.status != want.Status() || !strings.Contains(a.body, `"`+string(want)+`"`) {
			t.Errorf("%s %s: %d %s, want %s", r.method, r.path, a.status, a.body, want)
		}
	}
}

func TestRowsWithoutAQueryRefuseOne(t *testing.T) {
	_, addr := startServer(t, Config{AdminToken: "the token"}, func(*Server) {})
	for path, status := range map[string]int{"/api/admin/accounts/nobody": 404, "/api/admin/accounts/nobody?x=1": 400, "/docs?x=1": 200} {
		a := exchange(t, addr, "GET "+path+" HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer the token\r\n\r\n", 1)[0]
		if a.status != status {
			t.Errorf("%s: %d %.200s, want %d", path, a.status, a.body, status)
		}
	}
}
