package web

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/endpoint/endpointtest"
	"quire.dev/services/edge/internal/fault"
)

// TestTheTableOfRoutesIsTheDescription compares the table with the two descriptions.
func TestTheTableOfRoutesIsTheDescription(t *testing.T) {
	described := operations(endpointtest.API(t))
	for name, op := range operations(endpointtest.PagesAPI(t)) {
		if described[name] != nil {
			t.Errorf("%s is in both descriptions", name)
		}
		described[name] = op
	}
	param := regexp.MustCompile(`:(\w+)`)
	for _, r := range New(Config{}, Deps{}).routes() {
		name := r.Method + " " + strings.Replace(param.ReplaceAllString(r.Path, "{$1}"), "+", "{path}", 1) // the rest of a path
		op := described[name]
		if op == nil {
			t.Errorf("%s is not described, or comes twice", name)
			continue
		}
		delete(described, name)
		if got, want := securityOf(op), schemesOf(t, r.Who); !slices.Equal(got, want) {
			t.Errorf("%s: security is described as %q, the table has %q", name, got, want)
		}
		key := ""
		if r.Key != endpoint.Unmetered {
			key = r.Key.String()
		}
		if got, _ := op.Extensions["x-quota-key"].(string); got != key {
			t.Errorf("%s: x-quota-key is %q, the table has %q", name, got, key)
		}
		if got := op.Parameters.GetByInAndName("header", "Idempotency-Key") != nil; got != r.Rules.Has(endpoint.Idempotent|endpoint.Repeatable) {
			t.Errorf("%s: it is described that it takes an Idempotency-Key: %v", name, got)
		}
		query := slices.ContainsFunc(op.Parameters, func(p *openapi3.ParameterRef) bool { return p.Value.In == "query" })
		if query != r.Rules.Has(endpoint.OwnQuery) {
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

// typesOf are the media types that a row accepts, sorted.
func typesOf(r endpoint.Row) []string {
	switch r.Body {
	case endpoint.Fields, endpoint.BookJSON, endpoint.WebhookJSON, endpoint.PasteJSON, endpoint.QuickJSON:
		return []string{"application/json"}
	case endpoint.PasteText, endpoint.QuickText:
		if r.Rules.Has(endpoint.HTML) {
			return []string{"application/x-www-form-urlencoded"}
		}
		return []string{"application/json", "application/x-www-form-urlencoded", "text/plain"}
	case endpoint.Form, endpoint.BookForm:
		return []string{"application/x-www-form-urlencoded"}
	case endpoint.QuickBytes:
		if r.Method == "PUT" {
			return []string{"*/*"}
		}
		return []string{"*/*", "application/x-www-form-urlencoded", "multipart/form-data"}
	case endpoint.File:
		if r.Rules.Has(endpoint.HTML) {
			return []string{"multipart/form-data"}
		}
		return []string{"*/*", "application/octet-stream", "multipart/form-data"}
	}
	return nil
}

// CheckFailures compares the described errors with those of a row's checks: their codes and media types.
func checkFailures(t *testing.T, name string, r endpoint.Row, op *openapi3.Operation) {
	t.Helper()
	types := []string{"application/json"}
	if r.Rules.Has(endpoint.HTML) {
		types = append(types, "text/html")
	}
	if r.Rules.Has(endpoint.Terminal) {
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
		// The framework reports these before a row is found.
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

// derivable reports whether a row implies the error. The others come from handlers.
func derivable(kind fault.Kind) bool {
	switch kind {
	case fault.NotFound, fault.NotOwner, fault.InvalidManageToken, fault.WrongPassword, fault.ConfirmationRequired, fault.TooManyKeys, fault.EmailTaken, fault.DeletionScheduled, fault.NameTaken,
		fault.InsufficientCredits, fault.NotRefundable, fault.PaymentMismatch, fault.InvalidCredentials, fault.OutcomeUnknown, fault.IdempotencyMismatch, fault.IdempotencyInFlight,
		fault.TooManyFailures, fault.RegistrationLimit, fault.TooManyWebhooks, fault.PriceBookConflict,
		fault.PlanCurrent, fault.PaymentsNotConfigured:
		return false
	}
	return true
}

// derivedKinds are the errors of the checks before a row's handler, and of the conditions, ranges and cursors that it takes.
func derivedKinds(r endpoint.Row, op *openapi3.Operation) []fault.Kind {
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
	who := func(some ...endpoint.Credential) bool { return slices.Contains(some, r.Who) }
	write, listed := r.Method != "GET", r.Key == plan.LiteList || r.Key == plan.FilesList
	metered := r.Key != endpoint.Unmetered && !listed

	add(who(endpoint.APIKey, endpoint.KeyOrSession), fault.APIKeyRequired)
	add(who(endpoint.APIKey, endpoint.KeyOrSession, endpoint.KeyOrKeyless, endpoint.KeyOrVisitor, endpoint.KeyOrToken), fault.InvalidAPIKey)
	add(who(endpoint.APIKey, endpoint.KeyOrSession, endpoint.KeyOrKeyless, endpoint.KeyOrVisitor, endpoint.KeyOrToken), fault.AccountSuspended, fault.KeyScope)
	add(who(endpoint.KeyOrToken), fault.ManageTokenRequired)
	add(who(endpoint.Session, endpoint.KeyOrSession) || metered && who(endpoint.SessionOrNone) && r.Body != endpoint.Form, fault.SessionRequired) // a form keeps the reader's text
	add(who(endpoint.Admin) || write && strings.HasSuffix(r.Path, "/admin/sign-in"), fault.AdminTokenRequired)
	add(write && who(endpoint.Anybody, endpoint.SessionOrNone, endpoint.AdminPage, endpoint.Session, endpoint.KeyOrSession, endpoint.KeyOrKeyless, endpoint.KeyOrVisitor), fault.CrossOrigin)
	add(takes("query", "cursor"), fault.InvalidCursor)
	add(takes("header", "If-Match") || metered && r.Rules.Has(endpoint.HTML) && strings.HasSuffix(r.Path, "/:ref"), fault.VersionMismatch) // a form has the version
	add(takes("header", "Range"), fault.RangeNotSatisfiable)
	add(r.Body != endpoint.NoBody, fault.TooLarge, fault.UnsupportedMediaType)
	add(r.Rules.Has(endpoint.Idempotent) && metered, fault.IdempotencyInFlight)
	add(metered || listed, fault.AccountQuarantined)
	add(metered, fault.AccountSuspended, fault.KeyScope) // also of the key that a session's call is counted for
	add(metered, fault.QuotaExhausted, fault.QuotaHeld, fault.PlanUpgradeRequired, fault.KeyQuotaExhausted, fault.SpendingCapReached)
	add(metered && who(endpoint.KeyOrKeyless, endpoint.KeyOrVisitor), fault.AnonymousLimit)
	add(!listed && !r.Rules.Has(endpoint.Unlimited), fault.RateLimited) // of unmetered calls, including 304s and replays
	return kinds
}

// securityOf are an operation's security schemes; "" is none.
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

func schemesOf(t *testing.T, who endpoint.Credential) []string {
	t.Helper()
	switch who {
	case endpoint.Anybody, endpoint.Operators:
		return []string{""}
	case endpoint.APIKey:
		return []string{"ApiKey", "BearerKey"}
	case endpoint.KeyOrKeyless:
		return []string{"", "ApiKey", "BearerKey"}
	case endpoint.KeyOrVisitor:
		return []string{"", "ApiKey", "BearerKey", "Session"}
	case endpoint.KeyOrToken:
		return []string{"ApiKey", "BearerKey", "ManageToken"}
	case endpoint.Session:
		return []string{"Session"}
	case endpoint.KeyOrSession:
		return []string{"ApiKey", "BearerKey", "Session"}
	case endpoint.SessionOrNone:
		return []string{"", "Session"}
	case endpoint.AdminPage:
		return []string{"", "AdminSession"}
	case endpoint.Admin:
		return []string{"AdminToken"}
	}
	t.Fatalf("credential %d has no scheme", who)
	return nil
}

// TestEveryRowAsksForItsCredential calls each route without one. Nobody answers on the bus: a call that passes its checks
// ends as 503.
func TestEveryRowAsksForItsCredential(t *testing.T) {
	s, addr := startServer(t, Config{Config: endpoint.Config{AdminTokens: theToken()}}, func(*Server) {})
	for _, r := range s.routes() {
		var want fault.Kind
		header := ""
		switch r.Who {
		case endpoint.APIKey, endpoint.KeyOrSession:
			want = fault.APIKeyRequired
		case endpoint.KeyOrToken:
			want = fault.ManageTokenRequired
		case endpoint.Session:
			want = fault.SessionRequired
		case endpoint.Admin:
			want = fault.AdminTokenRequired
		case endpoint.KeyOrKeyless, endpoint.KeyOrVisitor:
			want, header = fault.InvalidAPIKey, "X-Api-Key: wrong\r\n"
		case endpoint.Anybody, endpoint.SessionOrNone, endpoint.AdminPage:
			if r.Method == "GET" {
				continue
			}
			want, header = fault.CrossOrigin, "Origin: https://evil.example\r\n"
		case endpoint.Operators:
			continue
		}
		path := strings.NewReplacer(":", "").Replace(r.Path)
		a := endpointtest.Exchange(t, addr, r.Method+" "+path+"?nonsense=1 HTTP/1.1\r\nHost: a\r\n"+header+"Accept: application/json\r\nContent-Length: 0\r\n\r\n", 1)[0]
		if a.Status != want.Status() || !strings.Contains(a.Body, `"`+string(want)+`"`) {
			t.Errorf("%s %s: %d %s, want %s", r.Method, r.Path, a.Status, a.Body, want)
		}
	}
}

func TestRowsWithoutAQueryRefuseOne(t *testing.T) {
	_, addr := startServer(t, Config{Config: endpoint.Config{AdminTokens: theToken()}}, func(*Server) {})
	for path, status := range map[string]int{"/api/admin/accounts/nobody": 404, "/api/admin/accounts/nobody?x=1": 400, "/docs?x=1": 200} {
		a := endpointtest.Exchange(t, addr, "GET "+path+" HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer the token\r\n\r\n", 1)[0]
		if a.Status != status {
			t.Errorf("%s: %d %.200s, want %d", path, a.Status, a.Body, status)
		}
	}
}

// TestProbesAndAssetsAloneHaveNoRate: all other unmetered calls are limited by QUIRE_UNMETERED_RATE.
func TestProbesAndAssetsAloneHaveNoRate(t *testing.T) {
	var got []string
	for _, r := range New(Config{}, Deps{}).routes() {
		if r.Rules.Has(endpoint.Unlimited) {
			got = append(got, r.Path)
		}
	}
	if want := []string{assetPath, "/livez", "/readyz", "/metrics"}; !slices.Equal(got, want) {
		t.Errorf("without a rate: %q, want %q", got, want)
	}
}
