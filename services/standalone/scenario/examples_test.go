package scenario

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/payments/stripe/stripetest"
)

// documented is one operation of docs/openapi.yaml.
type documented struct {
	method, path string
	op           *openapi3.Operation
}

func (d documented) String() string { return d.method + " " + d.path }

// documentedOperations are the API's operations. The registration comes first: its example and the login's are one account.
func documentedOperations(t *testing.T) []documented {
	t.Helper()
	s := specification()
	if s.err != nil {
		t.Fatal(s.err)
	}
	var out []documented
	for path, item := range s.docs[0].Paths.Map() {
		for method, op := range item.Operations() {
			out = append(out, documented{method, path, op})
		}
	}
	order := func(d documented) int {
		if d.op.OperationID == "registerAccount" {
			return 0
		}
		return 1
	}
	slices.SortFunc(out, func(a, b documented) int {
		return cmp.Or(order(a)-order(b), strings.Compare(a.op.OperationID, b.op.OperationID))
	})
	return out
}

// stage has what the examples speak of: accounts and documents in the place of those that the examples name.
type stage struct {
	t       *testing.T
	i       *instance
	owner   account // Pro, with credits, a full quota of uploads, and documents of each kind
	person  *person
	mover   *person // whose email is changed; nil until then
	leaver  *person // whose account is deleted; nil until then
	paid    string  // id of a request that credits paid
	matched map[string]bool
	books   int // price books that were applied
}

func newStage(t *testing.T) *stage {
	t.Helper()
	i := common(t)
	s := &stage{t: t, i: i, owner: i.account(t, "pro"), person: i.person(t), matched: make(map[string]bool)}
	s.owner.grant(t, "12.5")
	for n := range 2 {
		s.owner.paste(t, object{"title": fmt.Sprint(n)})
		s.owner.quick(t, object{"title": fmt.Sprint(n), "tags": []string{"go"}})
	}
	for range 100 {
		s.owner.upload(t, "notes.txt", []byte("hello"))
	}
	s.paid = s.charged()
	page := text(t, s.owner.do(t, "POST", checkoutPath, object{"credits": "500"}).ok(t, http.StatusOK), "url")
	if _, err := shared.stripe.Pay(page, stripetest.Good); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the payment is recorded", func() bool {
		return len(at(t, s.owner.do(t, "GET", paymentsPath, nil).ok(t, http.StatusOK), "payments").([]any)) == 1
	})
	return s
}

// charged is the id of a request that the owner has paid for with credits.
func (s *stage) charged() string { return s.owner.charged(s.t) }

// way is a way to be let in, as an operation's security names it.
type way string

func waysOf(op *openapi3.Operation) []way {
	if op.Security == nil || len(*op.Security) == 0 {
		return []way{""}
	}
	var out []way
	for _, requirement := range *op.Security {
		name := ""
		for scheme := range requirement {
			name = scheme
		}
		out = append(out, way(name))
	}
	slices.Sort(out) // a way without proof comes first, a key before others
	return out
}

// call makes a request for the operation. The documents that it changes are made for it.
func (s *stage) call(d documented, by way) (path string, r request) {
	t := s.t
	r.header = make(map[string]string)
	token := ""
	text := func(create string) string {
		maker := request{body: object{"content": "package main\n\nfunc main() {}\n", "tags": []string{"go"}}}
		if by != "ManageToken" {
			maker.key = s.owner.key
		}
		made := s.i.do(t, "POST", create, maker).ok(t, http.StatusCreated)
		token, _ = made["manageToken"].(string)
		return made["id"].(string)
	}
	values := map[string]string{"period": s.i.now().Format("2006-01"), "requestId": s.paid, "name": "main.go"}
	switch {
	case strings.Contains(d.path, "/pastes/") && strings.Contains(d.path, "{ref}"):
		values["ref"] = text("/api/dev/pastes/create")
	case strings.Contains(d.path, "{ref}"):
		values["ref"] = text("/api/dev/paste-lite/create")
	case strings.Contains(d.path, "/files/") && strings.Contains(d.path, "{id}"):
		values["id"] = s.owner.upload(t, "notes.txt", []byte("hello"))
	case strings.Contains(d.path, "/audits/"):
		values["id"] = s.i.auditEnd(t, s.i.admin(t, http.MethodPost, "/api/admin/audit?heads=0:1", nil))["id"].(string)
	case strings.Contains(d.path, "/users/user/keys/"):
		_, made := s.person.signIn(t, s.person.password).further(t, object{})
		values["id"] = made["id"].(string)
	case strings.Contains(d.path, "/webhooks/"):
		values["id"], values["delivery"] = s.webhook()
	case strings.Contains(d.path, "/prices/") && d.method == "DELETE":
		values["id"] = at(t, s.i.admin(t, "POST", "/api/admin/prices", s.priceBook()).ok(t, http.StatusOK), "id").(string)
	case strings.Contains(d.path, "/prices/"):
		values["id"] = at(t, s.i.do(t, "GET", "/api/prices", request{}).ok(t, http.StatusOK), "current", "id").(string)
	case strings.Contains(d.path, "/sessions/"):
		values["id"] = sessionsOf(t, s.person.signIn(t, s.person.password))[0].id
	case strings.HasSuffix(d.path, "/accounts/{id}/keys/{key}"):
		p, owner := s.i.owner(t)
		_, made := p.further(t, object{})
		values["id"], values["key"] = owner.id, made["id"].(string)
	case strings.HasSuffix(d.path, "/accounts/{id}/keys"):
		values["id"] = s.person.profile(t)["id"].(string) // who has two
	case strings.Contains(d.path, "{id}"):
		values["id"] = s.owner.id
		if d.method != "GET" && !strings.HasSuffix(d.path, "/credits") && !strings.HasSuffix(d.path, "/refunds") { // the owner's tier and key must stay
			values["id"] = s.i.account(t, "pro").id
		}
		if strings.HasSuffix(d.path, "/reversals") {
			s.i.admin(t, "POST", "/api/admin/accounts/"+values["id"]+"/payments", object{"payment": "2026-0042", "credits": "10"}).ok(t, http.StatusOK)
		}
	}
	path = d.path
	for name, value := range values {
		path = strings.ReplaceAll(path, "{"+name+"}", value)
	}
	switch by {
	case "ApiKey":
		r.key = s.owner.key
	case "BearerKey":
		r.header["Authorization"] = "Bearer " + s.owner.key
	case "ManageToken":
		r.header["X-Manage-Token"] = token
	case "AdminToken":
		r.header["Authorization"] = "Bearer " + s.i.adminToken
	case "Session":
		r.header["Sec-Fetch-Site"] = "same-origin"
		fresh := s.i.do(t, "POST", "/api/users/login", request{body: object{"email": s.person.email, "password": s.person.password}})
		s.person.keep(t, fresh)
		r.cookies = s.person.cookies
	}
	if d.path == "/api/users/user" && d.method == "DELETE" {
		if s.leaver == nil {
			s.leaver = s.i.personWith(t, "correct horse battery staple")
		}
		s.leaver.keep(t, s.i.do(t, "POST", "/api/users/login", request{body: object{"email": s.leaver.email, "password": s.leaver.password, "cancelDeletion": true}}))
		r.cookies = s.leaver.cookies
	}
	if d.path == "/api/users/user/export" && d.method == "GET" {
		if s.person.do(t, "GET", d.path, nil).status == http.StatusNotFound {
			s.person.do(t, "POST", d.path, nil).ok(t, http.StatusAccepted)
		}
		s.person.exported(t)
	}
	if d.path == "/api/users/user/email" { // likewise; always of the same account, which has the example's address from then on
		if s.mover == nil {
			s.mover = s.i.personWith(t, "correct horse battery staple")
		}
		r.cookies = s.mover.cookies
	}
	if d.path == "/api/users/user/password" { // its example has the password of an account of its own
		fresh := s.i.personWith(t, "correct horse battery staple")
		r.cookies = fresh.cookies
	}
	if d.path == "/api/users/user/events" && by == "Session" {
		s.webhook()
		path += "?after=00000000000000000"
	}
	if strings.HasSuffix(d.path, "/proof") {
		eventually.True(t, "the log has a seal", func() bool { return s.i.do(t, "GET", path, r).status != http.StatusServiceUnavailable })
	}
	if (strings.HasPrefix(d.path, "/api/users/user/requests") || d.path == "/api/users/user/receipts") && by == "Session" {
		path = "" // the person has sent no metered request
	}
	return path, r
}

// webhook makes a webhook of the person with an event that was sent to it, as the examples have one. The address does not exist.
func (s *stage) webhook() (id, delivery string) {
	t := s.t
	list := at(t, s.person.do(t, "GET", webhooksPath, nil).ok(t, http.StatusOK), "webhooks").([]any)
	if len(list) > 5 {
		s.person.do(t, "DELETE", webhooksPath+"/"+list[0].(object)["id"].(string), nil).ok(t, http.StatusOK)
	}
	id, _ = s.person.hook(t, object{"url": "https://hooks.invalid/quire", "events": []string{"quota.threshold", "balance.low"}, "thresholds": []int{80, 100}, "balanceBelow": "5"})
	delivery = text(t, s.person.do(t, "POST", webhooksPath+"/"+id+"/test", nil).ok(t, http.StatusAccepted), "delivery")
	eventually.True(t, "an attempt has failed", func() bool {
		list := at(t, s.person.do(t, "GET", webhooksPath+"/"+id+"/deliveries", nil).ok(t, http.StatusOK), "deliveries").([]any)
		return len(list) == 1 && len(list[0].(object)["attempts"].([]any)) > 0
	})
	return id, delivery
}

// soon is a time for a price book, later than those before.
func (s *stage) soon() string {
	return s.i.now().Add(time.Hour + time.Duration(s.books)*time.Minute).Format(time.RFC3339)
}

// priceBook is a price book to apply, unlike those before.
func (s *stage) priceBook() object {
	s.books++
	document := s.i.document(s.t)
	quotaOf(s.t, planOf(s.t, document, "pro"), "files.upload")["price"] = fmt.Sprintf("0.%06d", 8_000+s.books)
	return object{"book": document, "effectiveAt": s.soon()}
}

// withdrawBooks withdraws the price books that were applied, the last one first.
func (s *stage) withdrawBooks() {
	upcoming := at(s.t, s.i.admin(s.t, "GET", "/api/admin/prices", nil).ok(s.t, http.StatusOK), "upcoming").([]any)
	for _, b := range slices.Backward(upcoming) {
		s.i.admin(s.t, "DELETE", "/api/admin/prices/"+b.(object)["id"].(string), nil).ok(s.t, http.StatusOK)
	}
}

// setBody sets an example as the request's body, with emails unique to this run.
func (s *stage) setBody(r *request, media string, value any) {
	t := s.t
	switch media {
	case "application/json":
		if body, ok := value.(map[string]any); ok && body["effectiveAt"] != nil { // the example's time may be past
			s.books++
			value = object{"book": body["book"], "effectiveAt": s.soon()}
		}
		if body, ok := value.(map[string]any); ok && body["quotaKey"] != nil && body["amount"] != nil { // the example's month is past
			value = object{"period": s.i.now().Format("2006-01"), "quotaKey": "files.upload", "amount": "0.000001", "reason": body["reason"]}
		} else if ok && body["requestId"] != nil {
			value = object{"requestId": s.charged(), "reason": body["reason"]}
		}
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		r.body = strings.ReplaceAll(string(data), "@example.org", "@"+strings.ToLower(s.owner.id)+".example.org")
	case "multipart/form-data":
		var parts []part
		for name, v := range value.(map[string]any) {
			p := field(name, v.(string))
			if name == "file" {
				p.name = "notes.txt"
			}
			parts = append(parts, p)
		}
		f := form(t, parts...)
		r.body, r.header["Content-Type"] = f.body, f.header["Content-Type"]
	default:
		r.body = []byte(value.(string))
		r.header["Content-Type"] = strings.ReplaceAll(media, "*/*", "text/x-go; charset=utf-8")
	}
}

// send sends the request, which must succeed, and notes which example of the operation's the answer is like.
func (s *stage) send(d documented, what, path string, r request) answer {
	s.t.Helper()
	got := s.i.do(s.t, d.method, path, r)
	if got.status >= 300 {
		s.t.Errorf("%s: the example %s: %d %s", d, what, got.status, got.body)
		return got
	}
	media, _, _ := mime.ParseMediaType(got.header.Get("Content-Type"))
	content := d.op.Responses.Status(got.status).Value.Content
	if content[media] == nil {
		media = "*/*"
	}
	var value any = string(got.body)
	if media == "application/json" {
		value = got.json(s.t)
	}
	for name, example := range content[media].Examples {
		if alike(example.Value.Value, value) {
			s.matched[exampleName(d, fmt.Sprint(got.status), media, name)] = true
		}
	}
	return got
}

func exampleName(d documented, status, media, name string) string {
	return strings.Join([]string{d.String(), status, media, name}, " ")
}

// alike tells whether two answers have the same shape: the same fields with values of the same kind. null is of every
// kind, since the schema says where it is allowed. Items of a list are compared by the first.
func alike(one, two any) bool {
	if one == nil || two == nil {
		return true
	}
	switch a := one.(type) {
	case map[string]any:
		b, ok := two.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name := range a {
			if _, there := b[name]; !there || !alike(a[name], b[name]) {
				return false
			}
		}
		return true
	case []any:
		b, ok := two.([]any)
		return ok && (len(a) == 0 && len(b) == 0 || len(a) > 0 && len(b) > 0 && alike(a[0], b[0]))
	}
	return kindOf(one) == kindOf(two)
}

func kindOf(v any) string {
	switch v.(type) {
	case json.Number, float64, int, int64, uint64:
		return "number"
	}
	return fmt.Sprintf("%T", v)
}

// smallest is the media type and name of the shortest example, JSON before others.
func smallest(content openapi3.Content) (media, name string) {
	media = slices.Sorted(maps.Keys(content))[0]
	if content["application/json"] != nil {
		media = "application/json"
	}
	for _, candidate := range slices.Sorted(maps.Keys(content[media].Examples)) {
		if name == "" || len(fmt.Sprint(content[media].Examples[candidate].Value.Value)) < len(fmt.Sprint(content[media].Examples[name].Value.Value)) {
			name = candidate
		}
	}
	return media, name
}

// TestEveryExampleIsReal sends every documented example of a body and of a parameter, by every way to be let in, and holds
// every documented example of a success to the shape of an answer that came.
func TestEveryExampleIsReal(t *testing.T) {
	s := newStage(t)
	for _, d := range documentedOperations(t) {
		for _, by := range waysOf(d.op) {
			s.sendBodies(d, by)
		}
		s.sendParameters(d)
		s.sendTable(d)
		if strings.Contains(d.path, "/prices") {
			s.withdrawBooks()
		}
		for status, response := range d.op.Responses.Map() {
			if status >= "400" {
				continue
			}
			for media, content := range response.Value.Content {
				for name := range content.Examples {
					if name == "pending" || name == "differs" {
						continue // of a long journal, of a damaged table; tests of the edge hold their fields to the schema
					}
					if !s.matched[exampleName(d, status, media, name)] {
						t.Errorf("%s: no answer was like the example of %s %s %s", d, status, media, name)
					}
				}
			}
		}
	}
	if len(s.matched) < 30 {
		t.Errorf("only %d examples were compared", len(s.matched))
	}
}

// sendBodies sends each example of the body with the API key, and the smallest one by other ways: without a key not every
// field is taken.
func (s *stage) sendBodies(d documented, by way) {
	s.t.Helper()
	if d.op.RequestBody == nil {
		if path, r := s.call(d, by); path != "" {
			if query := requiredQuery(d); len(query) > 0 {
				path += "?" + query.Encode()
			}
			s.send(d, "without a body", path, r)
		}
		return
	}
	content := d.op.RequestBody.Value.Content
	smallMedia, smallName := smallest(content)
	for media, m := range content {
		for name, example := range m.Examples {
			if by != "ApiKey" && slices.Contains(waysOf(d.op), "ApiKey") && (media != smallMedia || name != smallName) {
				continue
			}
			path, r := s.call(d, by)
			s.setBody(&r, media, example.Value.Value)
			if media != "multipart/form-data" && d.op.Parameters.GetByInAndName("query", "name") != nil {
				path += "?name=notes.txt"
			}
			s.send(d, media+" "+name, path, r)
		}
	}
}

// sendParameters sends the example of each parameter that is not of the path, each on its own.
func (s *stage) sendParameters(d documented) {
	s.t.Helper()
	by := waysOf(d.op)[0]
	if slices.Contains(waysOf(d.op), "ApiKey") {
		by = "ApiKey"
	}
	for _, ref := range d.op.Parameters {
		p := ref.Value
		if p.In == "path" {
			continue
		}
		path, r := s.call(d, by)
		query := requiredQuery(d)
		if d.op.RequestBody != nil {
			s.setPlainBody(d, &r)
			if d.op.Parameters.GetByInAndName("query", "name") != nil {
				query.Set("name", "notes.txt")
			}
		}
		value := fmt.Sprint(p.Example)
		if list, ok := p.Example.([]any); ok {
			value = fmt.Sprint(list[0])
		}
		switch {
		case p.Name == "cursor": // one that this list gave
			first := s.i.do(s.t, d.method, path+"?limit=1", r).ok(s.t, http.StatusOK)
			if value, _ = first["nextCursor"].(string); value == "" {
				continue // a text of one version
			}
			query.Set(p.Name, value)
		case p.Name == "account": // the example has none
			query.Set(p.Name, s.owner.id)
		case p.In == "query":
			query.Set(p.Name, value)
		case p.Name == "Idempotency-Key":
			r.header[p.Name] = value + d.op.OperationID
		default:
			r.header[p.Name] = value
		}
		if p.Name == "Range" {
			query.Set("download", "1")
		}
		if body, ok := r.body.(string); ok && (d.path == "/api/users/register" || d.path == "/api/admin/accounts") { // the example's email has its account by now
			r.body = strings.ReplaceAll(body, "@", "+again@")
		}
		if len(query) > 0 {
			path += "?" + query.Encode()
		}
		s.send(d, "of "+p.Name, path, r)
	}
}

// requiredQuery has the examples of the parameters without which the operation is refused.
func requiredQuery(d documented) url.Values {
	query := url.Values{}
	for _, ref := range d.op.Parameters {
		if p := ref.Value; p.In == "query" && p.Required {
			query.Set(p.Name, fmt.Sprint(p.Example))
		}
	}
	return query
}

// sendTable asks for the table, where the operation has one.
func (s *stage) sendTable(d documented) {
	s.t.Helper()
	if ok := d.op.Responses.Status(http.StatusOK); ok == nil || ok.Value.Content["text/csv"] == nil {
		return
	}
	path, r := s.call(d, "ApiKey")
	r.header["Accept"] = "text/csv"
	s.send(d, "as a table", path, r)
}

// setPlainBody gives the request the content itself where the operation takes that, since only then it takes the query, and
// the smallest example otherwise.
func (s *stage) setPlainBody(d documented, r *request) {
	s.t.Helper()
	content := d.op.RequestBody.Value.Content
	media, name := smallest(content)
	for _, raw := range []string{"*/*", "text/plain"} {
		if content[raw] != nil {
			media, name = raw, slices.Sorted(maps.Keys(content[raw].Examples))[0]
		}
	}
	s.setBody(r, media, content[media].Examples[name].Value.Value)
}

// TestEveryErrorExampleIsReal provokes every documented error and holds its example to the answer: the same fields, and
// the same reason. Whatever else fails in these tests is held to the examples by the validator.
func TestEveryErrorExampleIsReal(t *testing.T) {
	i := common(t)
	provoke := provocations(t, i)
	elsewhere := []string{ // they need a slow client, a race or a fault, which other tests have
		"request_timeout", "idempotency_in_flight", "quota_held", "internal", "unavailable", "outcome_unknown", "account_quarantined",
	}
	for code, example := range documentedErrors(t) {
		call := provoke[code]
		if call == nil {
			if !slices.Contains(elsewhere, code) {
				t.Errorf("%s: nothing provokes it", code)
			}
			continue
		}
		got := call()
		if got.status < 400 {
			t.Errorf("%s: %d %s", code, got.status, got.body)
			continue
		}
		sent := got.json(t)
		if sent["code"] != code || !reflect.DeepEqual(fieldsOf(sent), fieldsOf(example)) {
			t.Errorf("%s: the example has the fields %v, the answer is %s", code, fieldsOf(example), got.body)
		}
		want := strings.NewReplacer("http://127.0.0.1:8080", i.public, "4fGh7KpQ2xZa", "…").Replace(example["reason"].(string))
		if reason := text(t, sent, "reason"); !strings.Contains(want, "…") && alphabetic(reason) != alphabetic(want) {
			t.Errorf("%s: the example's reason is %q, the answer's %q", code, want, reason)
		}
	}
}

// provocations are calls that fail, each with its code.
func provocations(t *testing.T, i *instance) map[string]func() answer {
	t.Helper()
	const create, quick = "/api/dev/pastes/create", "/api/dev/paste-lite/create"
	pro, free, other, somebody := i.account(t, "pro"), i.account(t, "free"), i.account(t, "pro"), i.person(t)
	id, file := pro.paste(t, nil), pro.upload(t, "notes.txt", []byte("hello"))
	keyless := text(t, i.do(t, "POST", quick, request{body: object{"content": "x"}}).ok(t, http.StatusCreated), "id")
	credentials := func(password string) request {
		return request{body: object{"email": somebody.email, "password": password}}
	}
	header := func(name, value string) request { return request{header: map[string]string{name: value}} }
	plain := func(method, path string, r request) func() answer {
		return func() answer { return i.do(t, method, path, r) }
	}
	withKey := func(a account, method, path string, r request) func() answer {
		return func() answer { return a.with(t, method, path, r) }
	}
	body := func(method, path string, v any) func() answer { return withKey(pro, method, path, request{body: v}) }
	until := func(call func() answer) func() answer {
		return func() answer { return i.lastOf(t, call) }
	}
	holder, _ := i.owner(t)
	creating, failing, viewing := newSource(), newSource(), newSource()
	mismatch := request{header: map[string]string{"Idempotency-Key": "mismatch"}, body: object{"content": "x"}}
	pro.with(t, "POST", create, mismatch).ok(t, http.StatusCreated)
	mismatch.body = object{"content": "y"}
	return map[string]func() answer{
		"malformed":             body("POST", create, `{"content":x`),
		"unknown_field":         body("POST", create, object{"contents": "x"}),
		"invalid_field":         body("POST", create, object{"content": "x", "title": strings.Repeat("x", 201)}),
		"invalid_cursor":        body("GET", "/api/dev/files/list?cursor=x", nil),
		"api_key_required":      plain("GET", "/api/dev/pastes/get/"+id, request{}),
		"invalid_api_key":       plain("GET", "/api/dev/pastes/get/"+id, request{key: "qk_wrong"}),
		"manage_token_required": plain("DELETE", "/api/dev/paste-lite/delete/x", request{}),
		"admin_token_required":  plain("POST", "/api/admin/audit", request{}),
		"session_required":      plain("POST", "/api/users/user/dev-key/regenerate", request{}),
		"invalid_credentials":   plain("POST", "/api/users/login", credentials("wrong")),
		"invalid_manage_token":  plain("DELETE", "/api/dev/paste-lite/delete/"+keyless, header("X-Manage-Token", "mt_wrong")),
		"not_owner":             withKey(other, "DELETE", "/api/dev/pastes/delete/"+id, request{}),
		"account_suspended": func() answer {
			suspended := i.account(t, "pro")
			i.admin(t, "POST", "/api/admin/accounts/"+suspended.id+"/suspend", object{"reason": "x"}).ok(t, http.StatusOK)
			return suspended.do(t, "GET", "/api/dev/pastes/get/"+id, nil)
		},
		"key_scope": func() answer {
			key, _ := holder.further(t, object{"scopes": []string{"files.get"}})
			return i.do(t, "GET", "/api/dev/pastes/get/"+id, request{key: key})
		},
		"too_many_keys": func() answer {
			full, _ := i.owner(t)
			for {
				if a := full.do(t, "POST", keysPath, object{}); a.status != http.StatusCreated {
					return a
				}
			}
		},
		"name_taken": func() answer {
			named, _ := i.owner(t)
			return named.do(t, "POST", keysPath, object{"name": "default"})
		},
		"key_quota_exhausted": func() answer {
			p, _ := i.owner(t)
			key, _ := p.further(t, object{"quotas": object{"pastes.get": 2}})
			return i.lastOf(t, func() answer { return i.do(t, "GET", "/api/dev/pastes/get/"+id, request{key: key}) })
		},
		"spending_cap_reached": func() answer {
			p, owner := i.owner(t)
			owner.grant(t, "1")
			owner.hammer(t, 100, func(int) operation { return operation{"POST", "/api/dev/files/upload?name=f", "x", http.StatusCreated} })
			p.do(t, "PUT", "/api/users/user/spending-cap", object{"amount": "0.005", "period": "month"}).ok(t, http.StatusOK)
			return i.lastOf(t, func() answer {
				return owner.with(t, "POST", "/api/dev/files/upload?name=f", request{body: []byte("x")})
			})
		},
		"wrong_password":        body("GET", "/api/dev/pastes/get/"+pro.paste(t, object{"password": "secret"}), nil),
		"cross_origin":          plain("POST", "/api/users/logout", header("Origin", "https://evil.example")),
		"confirmation_required": plain("GET", "/p/"+pro.paste(t, object{"burnAfterRead": true})+"/raw", request{}),
		"not_found":             body("GET", "/api/dev/pastes/get/aaaaaaaaaaaa", nil),
		"method_not_allowed":    plain("DELETE", "/api/dev/pastes/get/"+id, request{}),
		"deletion_scheduled": func() answer {
			p := i.person(t)
			p.deleteAccount(t)
			return i.do(t, "POST", "/api/users/login", request{body: object{"email": p.email, "password": p.password}})
		},
		"email_taken":            plain("POST", "/api/users/register", credentials("another password")),
		"version_mismatch":       withKey(pro, "DELETE", "/api/dev/pastes/delete/"+id, header("If-Match", `"9"`)),
		"too_large":              body("POST", quick, object{"content": strings.Repeat("x", 256<<10+1)}),
		"unsupported_media_type": body("PUT", "/api/dev/pastes/update/"+id, []byte("x")),
		"range_not_satisfiable":  withKey(pro, "GET", "/api/dev/files/get/"+file+"?download=1", header("Range", "bytes=100-")),
		"idempotency_mismatch":   withKey(pro, "POST", create, mismatch),
		"plan_upgrade_required":  withKey(free, "POST", create, request{body: object{"content": "x"}}),
		"headers_too_large":      withKey(pro, "GET", "/api/dev/pastes/get/"+id, header("X-Long", strings.Repeat("x", 9<<10))),
		"insufficient_credits": func() answer {
			return i.admin(t, "POST", "/api/admin/accounts/"+pro.id+"/credits", object{"amount": "-1", "reason": "x"})
		},
		"not_refundable": func() answer {
			return i.admin(t, "POST", "/api/admin/accounts/"+pro.id+"/refunds", object{"period": time.Now().UTC().Format("2006-01"), "quotaKey": "files.upload", "amount": "1", "reason": "x"})
		},
		"payment_mismatch": func() answer {
			path := "/api/admin/accounts/" + i.account(t, "pro").id + "/payments"
			i.admin(t, "POST", path, object{"payment": "mismatch", "credits": "1"}).ok(t, http.StatusOK)
			return i.admin(t, "POST", path, object{"payment": "mismatch", "credits": "2"})
		},
		"plan_current": func() answer {
			p, _ := i.owner(t)
			return p.do(t, "POST", checkoutPath, object{"plan": "pro"})
		},
		"payments_not_configured": func() answer {
			without := start(t, with("QUIRE_CONTACT", "billing@example.com"))
			return without.person(t).do(t, "POST", checkoutPath, object{"credits": "1"})
		},
		"price_book_conflict": func() answer {
			current := text(t, i.do(t, "GET", "/api/prices", request{}).ok(t, http.StatusOK), "current", "id")
			return i.admin(t, "DELETE", "/api/admin/prices/"+current, nil)
		},
		"too_many_webhooks": func() answer {
			p := i.person(t)
			var last answer
			for range 11 {
				last = p.do(t, "POST", webhooksPath, object{"url": "https://hooks.invalid/quire", "events": []string{"quota.threshold"}})
			}
			return last
		},
		"quota_exhausted": until(withKey(free, "POST", quick, request{body: object{"content": "x"}})),
		"anonymous_limit": until(plain("POST", quick, request{body: object{"content": "x"}, source: creating})),
		"registration_limit": until(func() answer {
			email := fmt.Sprintf("person%d@example.org", persons.Add(1))
			return i.do(t, "POST", "/api/users/register", request{body: object{"email": email, "password": "correct horse"}, source: "198.51.101.7"})
		}),
		"too_many_failures": until(plain("GET", "/api/dev/pastes/get/x", request{key: "qk_wrong", source: failing})),
		"rate_limited":      until(plain("GET", "/p/x", request{source: viewing})),
	}
}

// lastOf repeats a call until every edge refuses it, and returns the refusal.
func (i *instance) lastOf(t *testing.T, call func() answer) answer {
	t.Helper()
	var last answer
	refused := 0
	for range 1000 * len(i.bases) {
		if last = call(); last.status != http.StatusTooManyRequests {
			refused = 0
			continue
		}
		if refused++; refused == len(i.bases) {
			return last
		}
	}
	t.Fatalf("never refused: %d %s", last.status, last.body)
	return last
}

// documentedErrors are the examples of errors in both documents, by code.
func documentedErrors(t *testing.T) map[string]object {
	t.Helper()
	s := specification()
	if s.err != nil {
		t.Fatal(s.err)
	}
	out := make(map[string]object)
	for _, doc := range s.docs {
		for _, example := range doc.Components.Examples {
			if value, ok := example.Value.Value.(map[string]any); ok {
				out[value["code"].(string)] = value
			}
		}
	}
	if len(out) < 30 {
		t.Fatalf("only %d errors have examples", len(out))
	}
	return out
}

func fieldsOf(o object) []string { return slices.Sorted(maps.Keys(o)) }

// alphabetic is a reason without its numbers, which differ from call to call.
func alphabetic(reason string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, reason)
}
