package web

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/fault"
)

// TestTheTableOfRoutesIsTheDescription holds the table and the two descriptions to each other.
func TestTheTableOfRoutesIsTheDescription(t *testing.T) {
	described := operations(loadAPI(t))
	for name, op := range operations(loadPages(t)) {
		if described[name] != nil {
			t.Errorf("%s is in both descriptions", name)
		}
		described[name] = op
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
		if got := op.Parameters.GetByInAndName("header", headerIdempotencyKey) != nil; got != r.rules.has(idempotent|repeatable) {
			t.Errorf("%s: it is described that it takes an Idempotency-Key: %v", name, got)
		}
		query := slices.ContainsFunc(op.Parameters, func(p *openapi3.ParameterRef) bool { return p.Value.In == "query" })
		if query != r.rules.has(ownQuery) {
			t.Errorf("%s: it is described that it takes query parameters: %v", name, query)
		}
		if got, want := acceptedTypes(op), typesOf(r); !slices.Equal(got, want) {
			t.Errorf("%s: the described types of a body are %q, it takes %q", name, got, want)
		}
		checkFailures(t, name, r, op)
	}
	for name := range described {
		t.Errorf("%s is described but no route", name)
	}
}

// acceptedTypes are the media types of the body that are described.
func acceptedTypes(op *openapi3.Operation) []string {
	if op.RequestBody == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(op.RequestBody.Value.Content))
}

// typesOf are the media types that a row takes, sorted.
func typesOf(r route) []string {
	switch r.body {
	case fields, pasteJSON, quickJSON:
		return []string{"application/json"}
	case pasteText, quickText:
		if r.rules.has(html) {
			return []string{"application/x-www-form-urlencoded"}
		}
		return []string{"application/json", "application/x-www-form-urlencoded", "text/plain"}
	case form:
		return []string{"application/x-www-form-urlencoded"}
	case quickBytes:
		if r.method == "PUT" {
			return []string{"*/*"}
		}
		return []string{"*/*", "application/x-www-form-urlencoded", "multipart/form-data"}
	case file:
		if r.rules.has(html) {
			return []string{"multipart/form-data"}
		}
		return []string{"*/*", "application/octet-stream", "multipart/form-data"}
	}
	return nil
}

// checkFailures holds the described errors to those that a row's checks give: their codes, and the types in which they come.
func checkFailures(t *testing.T, name string, r route, op *openapi3.Operation) {
	t.Helper()
	types := []string{"application/json"}
	if r.rules.has(html) {
		types = append(types, "text/html")
	}
	if r.rules.has(terminal) {
		types = append(types, "text/plain")
	}
	described := make(map[fault.Kind]bool)
	for status, response := range op.Responses.Map() {
		if status < "400" {
			continue
		}
		codes := slices.Sorted(maps.Keys(errorExamples(response.Value)))
		if len(codes) == 0 {
			t.Errorf("%s %s: no code is described", name, status)
		}
		for _, code := range codes {
			described[fault.Kind(code)] = true
		}
		// Of these the framework knows before the row is found.
		early := slices.Contains(codes, string(fault.MethodNotAllowed)) || slices.Contains(codes, string(fault.HeadersTooLarge))
		if got := slices.Sorted(maps.Keys(response.Value.Content)); !early && !slices.Equal(got, types) {
			t.Errorf("%s %s: the described types are %q, it answers %q", name, status, got, types)
		}
	}
	want := derivedKinds(r, op)
	for _, kind := range want {
		if !described[kind] {
			t.Errorf("%s: %s is not described", name, kind)
		}
	}
	for kind := range described {
		if derivable(kind) && !slices.Contains(want, kind) {
			t.Errorf("%s: %s is described, and its checks do not give it", name, kind)
		}
	}
}

// derivable tells whether a row says that its calls may fail so. The others are the handlers'.
func derivable(kind fault.Kind) bool {
	switch kind {
	case fault.NotFound, fault.NotOwner, fault.InvalidManageToken, fault.WrongPassword, fault.ConfirmationRequired, fault.TooManyKeys, fault.EmailTaken,
		fault.InsufficientCredits, fault.InvalidCredentials, fault.OutcomeUnknown, fault.IdempotencyMismatch, fault.IdempotencyInFlight,
		fault.TooManyFailures, fault.RegistrationLimit, fault.TooManyWebhooks:
		return false
	}
	return true
}

// derivedKinds are the errors that the checks in front of a row's handler give, and those of the conditions, ranges and
// cursors that it takes.
func derivedKinds(r route, op *openapi3.Operation) []fault.Kind {
	kinds := []fault.Kind{
		fault.Malformed, fault.UnknownField, fault.InvalidField, fault.MethodNotAllowed, fault.RequestTimeout,
		fault.HeadersTooLarge, fault.Internal, fault.Unavailable,
	}
	add := func(when bool, more ...fault.Kind) {
		if when {
			kinds = append(kinds, more...)
		}
	}
	takes := func(in, name string) bool { return op.Parameters.GetByInAndName(in, name) != nil }
	who := func(some ...credential) bool { return slices.Contains(some, r.who) }
	write, listed := r.method != "GET", r.key == plan.LiteList || r.key == plan.FilesList
	metered := r.key != unmetered && !listed

	add(who(apiKey, keyOrSession), fault.APIKeyRequired)
	add(who(apiKey, keyOrSession, keyOrKeyless, keyOrToken), fault.InvalidAPIKey)
	add(who(apiKey, keyOrSession, keyOrKeyless, keyOrToken), fault.AccountSuspended, fault.KeyScope)
	add(who(keyOrToken), fault.ManageTokenRequired)
	add(who(session, keyOrSession) || metered && who(sessionOrNone) && r.body != form, fault.SessionRequired) // a form keeps a text
	add(who(admin) || write && strings.HasSuffix(r.path, "/admin/sign-in"), fault.AdminTokenRequired)
	add(write && who(anybody, sessionOrNone, adminPage, session, keyOrSession, keyOrKeyless), fault.CrossOrigin)
	add(takes("query", "cursor"), fault.InvalidCursor)
	add(takes("header", "If-Match") || metered && r.rules.has(html) && strings.HasSuffix(r.path, "/:ref"), fault.VersionMismatch) // a form has the version
	add(takes("header", "Range"), fault.RangeNotSatisfiable)
	add(r.body != noBody, fault.TooLarge, fault.UnsupportedMediaType)
	add(r.rules.has(idempotent) && metered, fault.IdempotencyInFlight)
	add(metered, fault.AccountSuspended, fault.KeyScope) // of the key that a session's call is counted for, too
	add(metered, fault.QuotaExhausted, fault.QuotaHeld, fault.PlanUpgradeRequired, fault.KeyQuotaExhausted, fault.SpendingCapReached)
	add(metered && who(keyOrKeyless), fault.AnonymousLimit)
	add(!listed && !r.rules.has(unlimited), fault.RateLimited) // of calls that no quota counts: 304s and repeated answers too
	return kinds
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
	case adminPage:
		return []string{"", "AdminSession"}
	case admin:
		return []string{"AdminToken"}
	}
	t.Fatalf("credential %d has no scheme", who)
	return nil
}

// TestEveryRowAsksForItsCredential calls each route without one. Nobody answers on the bus: a call that gets past its
// checks would end as 503.
func TestEveryRowAsksForItsCredential(t *testing.T) {
	s, addr := startServer(t, Config{AdminTokens: theToken()}, func(*Server) {})
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
		case anybody, sessionOrNone, adminPage:
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
	_, addr := startServer(t, Config{AdminTokens: theToken()}, func(*Server) {})
	for path, status := range map[string]int{"/api/admin/accounts/nobody": 404, "/api/admin/accounts/nobody?x=1": 400, "/docs?x=1": 200} {
		a := exchange(t, addr, "GET "+path+" HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer the token\r\n\r\n", 1)[0]
		if a.status != status {
			t.Errorf("%s: %d %.200s, want %d", path, a.status, a.body, status)
		}
	}
}

// TestProbesAndAssetsAloneHaveNoRate: every other call that no quota counts passes QUIRE_UNMETERED_RATE.
func TestProbesAndAssetsAloneHaveNoRate(t *testing.T) {
	var got []string
	for _, r := range (&Server{}).routes() {
		if r.rules.has(unlimited) {
			got = append(got, r.path)
		}
	}
	if want := []string{assetPath, "/livez", "/readyz", "/metrics"}; !slices.Equal(got, want) {
		t.Errorf("without a rate: %q, want %q", got, want)
	}
}
