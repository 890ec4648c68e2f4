package scenario

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"quire.dev/pkg/apikey"
)

// endpoint is one endpoint of the developer API.
type endpoint struct {
	method, path, quotaKey string
	keyless                string // the answer to a call without a key: "" (401), "manage" (401, asks for the token) or "allowed"
}

func endpoints() []endpoint {
	return []endpoint{
		{"POST", "/api/dev/pastes/create", "pastes.create", ""},
		{"GET", "/api/dev/pastes/get/000000000000", "pastes.get", ""},
		{"PUT", "/api/dev/pastes/update/000000000000", "pastes.update", ""},
		{"DELETE", "/api/dev/pastes/delete/000000000000", "pastes.delete", ""},
		{"POST", "/api/dev/files/upload?name=f", "files.upload", ""},
		{"GET", "/api/dev/files/get/000000000000", "files.get", ""},
		{"DELETE", "/api/dev/files/delete/000000000000", "files.delete", ""},
		{"GET", "/api/dev/files/list", "files.list", ""},
		{"POST", "/api/dev/paste-lite/create", "pasteLite.create", "allowed"},
		{"GET", "/api/dev/paste-lite/get/000000000000", "pasteLite.get", ""},
		{"PUT", "/api/dev/paste-lite/update/000000000000", "pasteLite.update", "manage"},
		{"DELETE", "/api/dev/paste-lite/delete/000000000000", "pasteLite.delete", "manage"},
		{"GET", "/api/dev/paste-lite/list", "pasteLite.list", ""},
		{"GET", "/api/dev/pastes/list", "", ""},
		{"GET", "/api/dev/pastes/versions/000000000000", "", ""},
		{"GET", "/api/dev/paste-lite/versions/000000000000", "", ""},
		{"GET", "/api/users/user/dev-usage", "", ""},
	}
}

func (e endpoint) body() any {
	switch {
	case strings.Contains(e.path, "upload"):
		return []byte("bytes")
	case e.method == "POST":
		return `{"content":"x"}`
	case e.method == "PUT":
		return `{"title":"x"}`
	}
	return nil
}

func TestCallsWithoutAKeyAreToldWhatIsMissing(t *testing.T) {
	i := common(t)
	for _, e := range endpoints() {
		got := i.do(t, e.method, e.path, request{body: e.body()})
		switch e.keyless {
		case "allowed":
			got.ok(t, http.StatusCreated)
		case "manage":
			got.fails(t, http.StatusUnauthorized, "manage_token_required", "Management token required")
		default:
			got.fails(t, http.StatusUnauthorized, "api_key_required", "API key required")
		}
	}
}

func TestAWrongKeyIsRefusedEverywhereAndNeverAnonymous(t *testing.T) {
	i := common(t)
	foreign := foreignKey(t)
	real := i.account(t, "pro").key
	flipped := []byte(real)
	flipped[len(flipped)-3] ^= 1
	for _, key := range []string{"nonsense", "qk_", foreign, string(flipped), real + "x", real[:len(real)-1], strings.ToUpper(real)} {
		for _, e := range endpoints() {
			got := i.do(t, e.method, e.path, request{key: key, body: e.body(), header: map[string]string{"X-Manage-Token": "mt_x"}})
			got.fails(t, http.StatusUnauthorized, "invalid_api_key", "Invalid API key")
		}
	}
}

// foreignKey is a well-formed key that was signed with another secret.
func foreignKey(t *testing.T) string {
	t.Helper()
	secret, err := apikey.NewSecret(randomBytes(32))
	if err != nil {
		t.Fatal(err)
	}
	key := secret.NewKey(secret.NewAccountID(randomBytes(16)), randomBytes(16))
	key.Version = 1
	return secret.Format(key)
}

func TestTheKeyIsTakenFromEitherHeaderAndXApiKeyWins(t *testing.T) {
	i := common(t)
	a, b := i.account(t, "pro"), i.account(t, "free")
	path := "/api/users/user/dev-usage"
	id := func(r request) string { return text(t, i.do(t, "GET", path, r).ok(t, http.StatusOK), "account", "id") }
	if got := id(request{header: map[string]string{"Authorization": "Bearer " + a.key}}); got != a.id {
		t.Errorf("bearer: %s", got)
	}
	if got := id(request{key: b.key, header: map[string]string{"Authorization": "Bearer " + a.key}}); got != b.id {
		t.Errorf("both: %s, want x-api-key's %s", got, b.id)
	}
	i.do(t, "GET", path, request{key: "wrong", header: map[string]string{"Authorization": "Bearer " + a.key}}).
		fails(t, http.StatusUnauthorized, "invalid_api_key", "Invalid API key")
}

func TestUnknownPathsAndMethodsAnswerLikeAllOthers(t *testing.T) {
	i := common(t)
	for _, path := range []string{"/nowhere", "/api", "/api/dev", "/api/dev/pastes", "/api/dev/pastes/get", "/api/dev/pastes/get/a/b", "/%00", "/p", "/..%2f"} {
		got := i.do(t, "GET", path, request{})
		got.fails(t, http.StatusNotFound, "not_found", "")
	}
	for _, e := range endpoints() {
		got := i.do(t, "PATCH", e.path, request{})
		got.fails(t, http.StatusMethodNotAllowed, "method_not_allowed", "")
		if allow := got.header.Get("Allow"); !strings.Contains(allow, e.method) {
			t.Errorf("%s: Allow is %q, want %s in it", e.path, allow, e.method)
		}
	}
}

func TestMeteredAnswersCarryTheirHeaders(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	created := a.do(t, "POST", "/api/dev/pastes/create", object{"content": "x"})
	id := text(t, created.ok(t, http.StatusCreated), "id")
	created.hasHeader(t, "RateLimit-Policy", `"pastes.create";q=500`)
	checkRateLimit(t, i, created, "pastes.create", 499)
	created.hasHeader(t, "X-Charge-Source", "quota")
	created.hasHeader(t, "Location", i.public+"/api/dev/pastes/get/"+id)
	if remaining := number(t, created.json(t), "remaining"); remaining != 499 {
		t.Errorf("remaining %d", remaining)
	}
	if first, second := created.header.Get("X-Request-Id"), a.do(t, "GET", "/api/dev/pastes/get/"+id, nil).header.Get("X-Request-Id"); first == second || len(first) != 36 {
		t.Errorf("request ids %q and %q", first, second)
	}
	mine := a.with(t, "GET", "/api/dev/pastes/get/"+id, request{header: map[string]string{"X-Request-Id": "mine"}})
	if mine.header.Get("X-Request-Id") == "mine" {
		t.Error("the client's request id was taken")
	}
	failed := a.do(t, "GET", "/api/dev/pastes/get/000000000000", nil)
	failed.fails(t, http.StatusNotFound, "not_found", "")
	failed.hasHeader(t, "X-Charge-Source", "none")
	checkRateLimit(t, i, failed, "pastes.get", 3000-2) // the failed call has given its request back
}

// TestReceiptsNumberTheCallsOfAnAccount without a gap, also of concurrent calls. Answers that are not metered have none.
func TestReceiptsNumberTheCallsOfAnAccount(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	numberOf := func(got answer) int {
		t.Helper()
		receipt := got.header.Get("X-Receipt")
		if !regexp.MustCompile(`^[1-9][0-9]*\.[0-9a-f]{64}$`).MatchString(receipt) {
			t.Fatalf("X-Receipt is %q", receipt)
		}
		number, _ := strconv.Atoi(strings.Split(receipt, ".")[0])
		return number
	}
	first := a.with(t, "POST", "/api/dev/pastes/create", request{body: object{"content": "x"}, header: map[string]string{"Idempotency-Key": "once"}})
	before := numberOf(first)
	repeat := a.with(t, "POST", "/api/dev/pastes/create", request{body: object{"content": "x"}, header: map[string]string{"Idempotency-Key": "once"}})
	repeat.hasHeader(t, "Idempotency-Replayed", "true")
	const calls = 20
	answers := make([]answer, calls)
	var all sync.WaitGroup
	for n := range calls {
		all.Go(func() { answers[n] = a.do(t, "GET", "/api/dev/paste-lite/list", nil) })
	}
	all.Wait()
	var numbers, want []int
	for n, got := range answers {
		numbers, want = append(numbers, numberOf(got)), append(want, before+1+n)
	}
	slices.Sort(numbers)
	if !slices.Equal(numbers, want) {
		t.Errorf("after %d come %v", before, numbers)
	}
	// A failed call has an entry, and a second one that undoes it.
	failed := a.do(t, "GET", "/api/dev/pastes/get/000000000000", nil)
	if got := numberOf(failed); got != before+calls+1 {
		t.Errorf("a failed call has %d", got)
	}
	for name, got := range map[string]answer{
		"a repeat": repeat, "an account's own answer": a.do(t, "GET", "/api/users/user", nil), "a key that is wrong": i.do(t, "GET", "/api/dev/paste-lite/list", request{key: "wrong"}),
		"a refusal": i.account(t, "free").do(t, "POST", "/api/dev/pastes/create", object{"content": "x"}), "nobody's paste": i.do(t, "POST", "/api/dev/paste-lite/create", request{body: object{"content": "x"}}),
	} {
		if receipt := got.header.Get("X-Receipt"); receipt != "" {
			t.Errorf("%s (%d) has the receipt %s", name, got.status, receipt)
		}
	}
}

func TestWhatIsNotWellFormedCostsNothing(t *testing.T) {
	a := common(t).account(t, "pro")
	quick := func(body string) answer { return a.do(t, "POST", "/api/dev/paste-lite/create", body) }
	tests := []struct{ name, body, code, names string }{
		{"no JSON", `{"content":`, "malformed", ""},
		{"no object", `["x"]`, "malformed", ""},
		{"two values", `{"content":"x"}{}`, "malformed", ""},
		{"empty", ``, "invalid_field", "content is required"},
		{"unknown field", `{"content":"x","titel":"y"}`, "unknown_field", "titel"},
		{"no content", `{"title":"y"}`, "invalid_field", "content"},
		{"empty content", `{"content":""}`, "invalid_field", "content"},
		{"content of another type", `{"content":7}`, "invalid_field", "content"},
		{"long title", `{"content":"x","title":"` + strings.Repeat("é", 201) + `"}`, "invalid_field", "title"},
		{"language", `{"content":"x","language":"c sharp"}`, "invalid_field", "language"},
		{"long language", `{"content":"x","language":"` + strings.Repeat("c", 51) + `"}`, "invalid_field", "language"},
		{"visibility", `{"content":"x","visibility":"secret"}`, "invalid_field", "visibility"},
		{"expiresIn", `{"content":"x","expiresIn":"soon"}`, "invalid_field", "expiresIn"},
		{"too short a life", `{"content":"x","expiresIn":59}`, "invalid_field", "expiresIn"},
		{"too long a life", `{"content":"x","expiresIn":"11y"}`, "invalid_field", "expiresIn"},
		{"expiresAt", `{"content":"x","expiresAt":"tomorrow"}`, "invalid_field", "expiresAt"},
		{"past", `{"content":"x","expiresAt":"2001-01-01T00:00:00Z"}`, "invalid_field", "expiresAt"},
		{"both", `{"content":"x","expiresIn":"1h","expiresAt":"2100-01-01T00:00:00Z"}`, "invalid_field", "expires"},
		{"burn", `{"content":"x","burnAfterRead":"yes"}`, "invalid_field", "burnAfterRead"},
		{"long password", `{"content":"x","password":"` + strings.Repeat("p", 129) + `"}`, "invalid_field", "password"},
		{"many tags", `{"content":"x","tags":["1","2","3","4","5","6","7","8","9","10","11"]}`, "invalid_field", "tags"},
		{"long tag", `{"content":"x","tags":["` + strings.Repeat("t", 33) + `"]}`, "invalid_field", "tags"},
		{"invalid UTF-8", "{\"content\":\"\xff\xfe\"}", "", "UTF-8"},
	}
	plain := func(query, content string) answer {
		return a.with(t, "POST", "/api/dev/paste-lite/create"+query, request{body: content, header: map[string]string{"Content-Type": "text/plain"}})
	}
	plain("?content=y", "x").fails(t, http.StatusBadRequest, "unknown_field", "")
	plain("", "\xff").fails(t, http.StatusBadRequest, "invalid_field", "")
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := quick(test.body)
			code := test.code
			if code == "" { // either code is right: the body or the field is not UTF-8
				code, _ = got.json(t)["code"].(string)
			}
			got.fails(t, http.StatusBadRequest, code, "")
			if reason := got.json(t)["reason"].(string); !strings.Contains(reason, test.names) {
				t.Errorf("reason %q does not name %s", reason, test.names)
			}
			got.hasHeader(t, "X-Charge-Source", "")
		})
	}
	if used := a.used(t, "pasteLite.create"); used != 0 {
		t.Errorf("%d were counted", used)
	}
}

func TestMediaTypesAreChecked(t *testing.T) {
	a := common(t).account(t, "pro")
	for _, path := range []string{"/api/dev/pastes/create", "/api/dev/paste-lite/create"} {
		got := a.with(t, "POST", path, request{body: "x", header: map[string]string{"Content-Type": "application/xml"}})
		got.fails(t, http.StatusUnsupportedMediaType, "unsupported_media_type", "")
		reason := got.json(t)["reason"].(string)
		for _, accepted := range []string{"application/json", "text/plain"} {
			if !strings.Contains(reason, accepted) {
				t.Errorf("reason %q does not name %s", reason, accepted)
			}
		}
	}
	id := a.quick(t, nil)
	a.with(t, "PUT", "/api/dev/paste-lite/update/"+id, request{body: "x", header: map[string]string{"Content-Type": "text/plain"}}).
		fails(t, http.StatusUnsupportedMediaType, "unsupported_media_type", "")
	compressed := a.with(t, "POST", "/api/dev/paste-lite/create", request{body: "{}", header: map[string]string{"Content-Encoding": "gzip"}})
	compressed.fails(t, http.StatusUnsupportedMediaType, "unsupported_media_type", "")
	compressed.shows(t, http.StatusUnsupportedMediaType, "Content-Encoding")
}

func TestPlainTextIsTakenWithTheFieldsInTheQuery(t *testing.T) {
	a := common(t).account(t, "pro")
	content := "line one\nline two\n"
	got := a.with(t, "POST", "/api/dev/pastes/create?title=From+curl&language=go&visibility=private&tags=a,b&tags=c&expiresIn=1h",
		request{body: content, header: map[string]string{"Content-Type": "text/plain; charset=utf-8"}})
	id := text(t, got.ok(t, http.StatusCreated), "id")
	paste := a.do(t, "GET", "/api/dev/pastes/get/"+id, nil).ok(t, http.StatusOK)
	for field, want := range map[string]string{"content": content, "title": "From curl", "language": "go", "visibility": "private"} {
		if v := text(t, paste, "paste", field); v != want {
			t.Errorf("%s is %q, want %q", field, v, want)
		}
	}
	if tags := fmt.Sprint(at(t, paste, "paste", "tags")); tags != "[a b c]" {
		t.Errorf("tags %s", tags)
	}
	a.with(t, "POST", "/api/dev/pastes/create?titel=x", request{body: content, header: map[string]string{"Content-Type": "text/plain"}}).
		fails(t, http.StatusBadRequest, "unknown_field", "")
}

func TestContentLimits(t *testing.T) {
	a := common(t).account(t, "max")
	const kib, mib = 1 << 10, 1 << 20
	tests := []struct {
		path string
		most int
		name string
	}{
		{"/api/dev/pastes/create", 4 * mib, "4 MB"},
		{"/api/dev/paste-lite/create", 256 * kib, "256 KB"},
	}
	for _, test := range tests {
		plain := func(n int) answer {
			return a.with(t, "POST", test.path, request{body: strings.Repeat("x", n), header: map[string]string{"Content-Type": "text/plain"}})
		}
		id := text(t, plain(test.most).ok(t, http.StatusCreated), "id")
		got := a.do(t, "GET", strings.Replace(test.path, "create", "get/", 1)+id, nil).ok(t, http.StatusOK)
		if size := number(t, got, "paste", "size"); size != int64(test.most) || len(text(t, got, "paste", "content")) != test.most {
			t.Errorf("%s: size %d, want %d", test.path, size, test.most)
		}
		// The limit is of the content, not of the JSON, in which each of these characters takes two bytes or three.
		escaped := strings.Repeat("é\n\"", test.most/4)
		id = text(t, a.do(t, "POST", test.path, object{"content": escaped}).ok(t, http.StatusCreated), "id")
		got = a.do(t, "GET", strings.Replace(test.path, "create", "get/", 1)+id, nil).ok(t, http.StatusOK)
		if text(t, got, "paste", "content") != escaped {
			t.Errorf("%s: escaped content came back as %d bytes of %d", test.path, len(text(t, got, "paste", "content")), test.most)
		}
		for _, tooLarge := range []answer{
			plain(test.most + 1),
			a.do(t, "POST", test.path, object{"content": strings.Repeat("x", test.most+1)}),
			a.do(t, "POST", test.path, object{"content": strings.Repeat("\n", test.most+1)}),
		} {
			tooLarge.fails(t, http.StatusRequestEntityTooLarge, "too_large", "")
			tooLarge.shows(t, http.StatusRequestEntityTooLarge, test.name)
		}
		a.do(t, "POST", test.path, object{"content": "x"}).ok(t, http.StatusCreated)
	}
	if used := a.used(t, "pastes.create"); used != 3 {
		t.Errorf("%d pastes were counted, want 3", used)
	}
}

func TestTheOrderOfChecks(t *testing.T) {
	i := common(t)
	free := i.account(t, "free")
	// The numbers are those of docs/api.md, Order of checks.
	// 2 before 3: a wrong key with a broken body is 401.
	i.do(t, "POST", "/api/dev/pastes/create", request{key: "wrong", body: "{"}).fails(t, http.StatusUnauthorized, "invalid_api_key", "")
	// 3 before 4: a broken body on a plan without pastes is 400.
	free.do(t, "POST", "/api/dev/pastes/create", "{").fails(t, http.StatusBadRequest, "malformed", "")
	// 4 before 5: a plan without pastes is 429 even for a paste that does not exist.
	free.do(t, "GET", "/api/dev/pastes/get/000000000000", nil).fails(t, http.StatusTooManyRequests, "plan_upgrade_required", "")
	// 1 before 2: a wrong key on an unknown path is 404.
	i.do(t, "POST", "/api/dev/nothing", request{key: "wrong"}).fails(t, http.StatusNotFound, "not_found", "")
	// A missing management token is 401 even for a quick paste that does not exist.
	i.do(t, "PUT", "/api/dev/paste-lite/update/000000000000", request{body: object{"title": "x"}}).
		fails(t, http.StatusUnauthorized, "manage_token_required", "Management token required")
}

func TestOnlySuccessConsumes(t *testing.T) {
	i := common(t)
	a, b := i.account(t, "pro"), i.account(t, "pro")
	private := b.paste(t, object{"visibility": "private"})
	unlisted := b.paste(t, nil)
	mine := a.paste(t, object{"password": "open"})
	failing := []struct {
		method, path string
		r            request
		status       int
		code, key    string
	}{
		{"GET", "/api/dev/pastes/get/000000000000", request{}, 404, "not_found", "pastes.get"},
		{"GET", "/api/dev/pastes/get/no-such-ref", request{}, 404, "not_found", "pastes.get"},
		{"GET", "/api/dev/pastes/get/" + private, request{}, 404, "not_found", "pastes.get"},
		{"GET", "/api/dev/pastes/get/" + mine, request{}, 403, "wrong_password", "pastes.get"},
		{"GET", "/api/dev/pastes/get/" + mine, request{header: map[string]string{"X-Paste-Password": "shut"}}, 403, "wrong_password", "pastes.get"},
		{"PUT", "/api/dev/pastes/update/" + unlisted, request{body: object{"title": "x"}}, 403, "not_owner", "pastes.update"},
		{"PUT", "/api/dev/pastes/update/" + private, request{body: object{"title": "x"}}, 404, "not_found", "pastes.update"},
		{"PUT", "/api/dev/pastes/update/" + mine, request{body: object{"title": "x"}, header: map[string]string{"If-Match": `"7"`}}, 412, "version_mismatch", "pastes.update"},
		{"DELETE", "/api/dev/pastes/delete/" + unlisted, request{}, 403, "not_owner", "pastes.delete"},
		{"DELETE", "/api/dev/pastes/delete/" + private, request{}, 404, "not_found", "pastes.delete"},
		{"DELETE", "/api/dev/files/delete/000000000000", request{}, 404, "not_found", "files.delete"},
		{"GET", "/api/dev/files/get/000000000000", request{}, 404, "not_found", "files.get"},
		{"GET", "/api/dev/paste-lite/get/" + mine, request{}, 404, "not_found", "pasteLite.get"},
	}
	for _, f := range failing {
		a.with(t, f.method, f.path, f.r).fails(t, f.status, f.code, "")
		if used := a.used(t, f.key); used != 0 {
			t.Errorf("%s %s (%s): %s counts %d", f.method, f.path, f.code, f.key, used)
		}
	}
	open := map[string]string{"X-Paste-Password": "open"}
	got := a.with(t, "GET", "/api/dev/pastes/get/"+mine, request{header: open})
	got.ok(t, http.StatusOK)
	open["If-None-Match"] = got.header.Get("ETag")
	again := a.with(t, "GET", "/api/dev/pastes/get/"+mine, request{header: open})
	if again.status != http.StatusNotModified || len(again.body) > 0 {
		t.Fatalf("%d %s, want 304", again.status, again.body)
	}
	again.hasHeader(t, "X-Charge-Source", "none")
	checkRateLimit(t, i, again, "pastes.get", 3000-1)
	if used := a.used(t, "pastes.get"); used != 1 {
		t.Errorf("a 304 was counted: %d", used)
	}
}

func TestAFailedPaidRequestGivesItsCreditsBack(t *testing.T) {
	a := common(t).account(t, "pro")
	id := a.upload(t, "f", []byte("x"))
	for a.used(t, "files.upload") < 100 {
		a.hammer(t, int(100-a.used(t, "files.upload")), func(int) operation {
			return operation{"POST", "/api/dev/files/upload?name=f", "x", http.StatusCreated}
		})
	}
	a.hammer(t, 500, func(int) operation { return operation{"GET", "/api/dev/files/get/" + id, "", http.StatusOK} })
	a.grant(t, "0.001000")
	for range 3 {
		got := a.do(t, "GET", "/api/dev/files/get/000000000000", nil)
		got.fails(t, http.StatusNotFound, "not_found", "")
		if b := a.balance(t); b != "0.001000" {
			t.Fatalf("balance %s after a failed call", b)
		}
	}
	a.do(t, "GET", "/api/dev/files/get/"+id, nil).ok(t, http.StatusOK)
	if b := a.balance(t); b != "0.000000" {
		t.Errorf("balance %s", b)
	}
	checkLedger(t, a)
}

func TestIdempotencyOfEveryWrite(t *testing.T) {
	a := common(t).account(t, "max")
	doomed := func() string { return a.paste(t, nil) }
	quickDoomed := func() string { return a.quick(t, nil) }
	paste, quick := a.paste(t, nil), a.quick(t, nil)
	tests := []struct {
		name, method, path string
		body, other        any
		key                string
	}{
		{"create", "POST", "/api/dev/pastes/create", object{"content": "x"}, object{"content": "y"}, "pastes.create"},
		{"update", "PUT", "/api/dev/pastes/update/" + paste, object{"title": "x"}, object{"title": "y"}, "pastes.update"},
		{"delete", "DELETE", "/api/dev/pastes/delete/" + doomed(), nil, nil, "pastes.delete"},
		{"quick create", "POST", "/api/dev/paste-lite/create", object{"content": "x"}, object{"content": "y"}, "pasteLite.create"},
		{"quick update", "PUT", "/api/dev/paste-lite/update/" + quick, object{"title": "x"}, object{"title": "y"}, "pasteLite.update"},
		{"quick delete", "DELETE", "/api/dev/paste-lite/delete/" + quickDoomed(), nil, nil, "pasteLite.delete"},
		{"upload", "POST", "/api/dev/files/upload?name=f", []byte("x"), []byte("y"), "files.upload"},
		{"file delete", "DELETE", "/api/dev/files/delete/" + a.upload(t, "f", []byte("x")), nil, nil, "files.delete"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := a.used(t, test.key)
			header := map[string]string{"Idempotency-Key": "key of " + test.name}
			do := func(body any) answer { return a.with(t, test.method, test.path, request{body: body, header: header}) }
			first := do(test.body)
			if first.status/100 != 2 {
				t.Fatalf("%d %s", first.status, first.body)
			}
			first.hasHeader(t, "Idempotency-Replayed", "")
			again := do(test.body)
			again.hasHeader(t, "Idempotency-Replayed", "true")
			again.hasHeader(t, "Location", first.header.Get("Location"))
			if again.status != first.status || !bytes.Equal(again.body, first.body) {
				t.Errorf("the replay is %d %s, the first answer was %d %s", again.status, again.body, first.status, first.body)
			}
			if test.other != nil {
				do(test.other).fails(t, http.StatusUnprocessableEntity, "idempotency_mismatch", "")
			}
			if used := a.used(t, test.key); used != before+1 {
				t.Errorf("counted %d times", used-before)
			}
		})
	}
}

func TestAKeylessCreationIsReplayedWithItsToken(t *testing.T) {
	i := common(t)
	r := request{body: object{"content": "x"}, header: map[string]string{"Idempotency-Key": "once"}, source: newSource()}
	first, again := i.do(t, "POST", "/api/dev/paste-lite/create", r), i.do(t, "POST", "/api/dev/paste-lite/create", r)
	again.hasHeader(t, "Idempotency-Replayed", "true")
	made := first.ok(t, http.StatusCreated)
	if !bytes.Equal(again.body, first.body) {
		t.Errorf("%s, then %s", first.body, again.body)
	}
	update := request{body: object{"title": "y"}, header: map[string]string{"Idempotency-Key": "k", "X-Manage-Token": text(t, made, "manageToken")}, source: r.source}
	for _, replayed := range []string{"", "true"} {
		got := i.do(t, "PUT", "/api/dev/paste-lite/update/"+text(t, made, "id"), update)
		if body := got.ok(t, http.StatusOK); number(t, body, "remaining") != -1 || number(t, body, "version") != 2 {
			t.Errorf("%s", got.body)
		}
		got.hasHeader(t, "Idempotency-Replayed", replayed)
	}
}

// TestAReplayIsTheFirstAnswerWhateverHappenedSince: it shows neither a later version nor the deletion.
func TestAReplayIsTheFirstAnswerWhateverHappenedSince(t *testing.T) {
	a := common(t).account(t, "pro")
	id := a.quick(t, nil)
	keyed := func(key, match string, body any) request {
		r := request{body: body, header: map[string]string{"Idempotency-Key": key}}
		if match != "" {
			r.header["If-Match"] = match
		}
		return r
	}
	for range 2 {
		updated := a.with(t, "PUT", "/api/dev/paste-lite/update/"+id, keyed("update", "", object{"title": "t"})).ok(t, http.StatusOK)
		if number(t, updated, "version") != 2 {
			t.Errorf("%v", updated)
		}
		a.with(t, "PUT", "/api/dev/paste-lite/update/"+id, keyed("refused", `"1"`, object{"title": "t"})).fails(t, http.StatusPreconditionFailed, "version_mismatch", "")
		a.with(t, "DELETE", "/api/dev/paste-lite/delete/"+id, keyed("delete", "", nil)).ok(t, http.StatusOK)
	}
	a.with(t, "DELETE", "/api/dev/paste-lite/delete/"+id, keyed("another", "", nil)).fails(t, http.StatusNotFound, "not_found", "")
	if updates, deletes := a.used(t, "pasteLite.update"), a.used(t, "pasteLite.delete"); updates != 1 || deletes != 1 {
		t.Errorf("%d updates and %d deletes are counted", updates, deletes)
	}
}

func TestAFailedWriteIsReplayedToo(t *testing.T) {
	a := common(t).account(t, "pro")
	r := request{header: map[string]string{"Idempotency-Key": "fails"}}
	for range 2 {
		a.with(t, "DELETE", "/api/dev/pastes/delete/000000000000", r).fails(t, http.StatusNotFound, "not_found", "")
	}
	if used := a.used(t, "pastes.delete"); used != 0 {
		t.Errorf("counted %d", used)
	}
}

func TestAnIdempotencyKeyBelongsToItsAccountAndEndpoint(t *testing.T) {
	i := common(t)
	a, b := i.account(t, "pro"), i.account(t, "pro")
	r := request{body: object{"content": "x"}, header: map[string]string{"Idempotency-Key": "the same"}}
	ids := map[string]bool{}
	for _, create := range []func() answer{
		func() answer { return a.with(t, "POST", "/api/dev/paste-lite/create", r) },
		func() answer { return b.with(t, "POST", "/api/dev/paste-lite/create", r) },
		func() answer { return a.with(t, "POST", "/api/dev/pastes/create", r) },
		func() answer { return i.do(t, "POST", "/api/dev/paste-lite/create", r) },
		func() answer { return i.do(t, "POST", "/api/dev/paste-lite/create", r) }, // another source
	} {
		ids[text(t, create().ok(t, http.StatusCreated), "id")] = true
	}
	if len(ids) != 5 {
		t.Errorf("%d items, want 5", len(ids))
	}
}

func TestConcurrentRequestsWithOneIdempotencyKeyExecuteOnce(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	r := request{key: a.key, body: object{"content": "x"}, header: map[string]string{"Idempotency-Key": "race"}}
	var mu sync.Mutex
	ids := map[string]int{}
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			got, err := i.try(t.Context(), "POST", "/api/dev/paste-lite/create", r)
			if err != nil {
				t.Error(err)
				return
			}
			switch got.status {
			case http.StatusCreated:
				mu.Lock()
				ids[text(t, got.json(t), "id")]++
				mu.Unlock()
			case http.StatusConflict:
				got.fails(t, http.StatusConflict, "idempotency_in_flight", "")
			default:
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
	group.Wait()
	if len(ids) != 1 || a.used(t, "pasteLite.create") != 1 {
		t.Errorf("items %v, %d counted", ids, a.used(t, "pasteLite.create"))
	}
}

func TestIdempotencyKeysAreChecked(t *testing.T) {
	a := common(t).account(t, "pro")
	for _, key := range []string{strings.Repeat("k", 129), "tab\tinside", "ü"} {
		a.with(t, "POST", "/api/dev/paste-lite/create", request{body: object{"content": "x"}, header: map[string]string{"Idempotency-Key": key}}).
			fails(t, http.StatusBadRequest, "invalid_field", "")
	}
	a.with(t, "POST", "/api/dev/paste-lite/create", request{body: object{"content": "x"}, header: map[string]string{"Idempotency-Key": strings.Repeat("k", 128)}}).
		ok(t, http.StatusCreated)
}

func TestKeylessCreationIsLimitedPerSourceExactly(t *testing.T) {
	i := common(t)
	source := newSource()
	create := func(source string) answer {
		return i.do(t, "POST", "/api/dev/paste-lite/create", request{body: object{"content": "x"}, source: source})
	}
	for n := range 10 {
		got := create(source).ok(t, http.StatusCreated)
		if remaining := number(t, got, "remaining"); remaining != int64(9-n) {
			t.Errorf("remaining %d after %d", remaining, n+1)
		}
		if token := text(t, got, "manageToken"); len(token) < 20 {
			t.Errorf("manage token %q", token)
		}
	}
	got := create(source)
	got.fails(t, http.StatusTooManyRequests, "anonymous_limit", "Anonymous limit of 10 quick pastes per 24 hours reached. Use an API key to continue.")
	if got.header.Get("Retry-After") == "" {
		t.Error("no Retry-After, though waiting ends it")
	}
	create(newSource()).ok(t, http.StatusCreated)
	// With a key the source does not matter.
	a := i.account(t, "free")
	a.with(t, "POST", "/api/dev/paste-lite/create", request{body: object{"content": "x"}, source: source}).ok(t, http.StatusCreated)
}

func TestASourceIsAnIPv4AddressOrAnIPv6Network(t *testing.T) {
	i := common(t)
	remaining := func(source string) int64 {
		return number(t, i.do(t, "POST", "/api/dev/paste-lite/create", request{body: object{"content": "x"}, source: source}).ok(t, http.StatusCreated), "remaining")
	}
	if first, second := remaining("2001:db8:7:7::1"), remaining("2001:db8:7:7:ffff::2"); first != 9 || second != 8 {
		t.Errorf("one /64 counts as two: %d, %d", first, second)
	}
	if other := remaining("2001:db8:7:8::1"); other != 9 {
		t.Errorf("another /64 counts as the same: %d", other)
	}
	// The rightmost address that is not a trusted proxy's counts.
	if first := remaining("1.2.3.4, 198.51.100.77, 127.0.0.1"); first != 9 {
		t.Errorf("forwarded: %d", first)
	}
	if second := remaining("198.51.100.77"); second != 8 {
		t.Errorf("the rightmost untrusted hop is the source: %d", second)
	}
	if spoofed := remaining("5.6.7.8, 198.51.100.77"); spoofed != 7 {
		t.Errorf("the client's own claim was believed: %d", spoofed)
	}
}

func TestForwardedForIsIgnoredFromStrangers(t *testing.T) {
	i := start(t, with("QUIRE_ANON_LIMIT", "2"))
	for n := range 3 {
		got := i.do(t, "POST", "/api/dev/paste-lite/create", request{body: object{"content": "x"}, source: newSource()})
		if n < 2 {
			got.ok(t, http.StatusCreated)
			continue
		}
		got.fails(t, http.StatusTooManyRequests, "anonymous_limit", "Anonymous limit of 2 quick pastes per 24 hours reached. Use an API key to continue.")
	}
}

func TestConcurrentKeylessCreationIsExact(t *testing.T) {
	i := common(t)
	source := newSource()
	var created, refused int
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 40 {
		group.Go(func() {
			got, err := i.try(t.Context(), "POST", "/api/dev/paste-lite/create", request{body: object{"content": "x"}, source: source})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			switch got.status {
			case http.StatusCreated:
				created++
			case http.StatusTooManyRequests:
				refused++
			}
		})
	}
	group.Wait()
	if created != 10 || refused != 30 {
		t.Errorf("%d created, %d refused", created, refused)
	}
}

func TestTooManyFailuresAreRefusedForAMinute(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	missing := func() answer { return a.do(t, "GET", "/api/dev/paste-lite/get/000000000000", nil) }
	for n := range 101 {
		if got := missing(); got.status != http.StatusNotFound {
			t.Fatalf("call %d: %d %s", n+1, got.status, got.body)
		}
	}
	got := missing()
	got.fails(t, http.StatusTooManyRequests, "too_many_failures", "")
	if got.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	i.account(t, "pro").paste(t, nil) // other accounts are served
}

func TestTooManyBadKeysFromOneSource(t *testing.T) {
	i := common(t)
	source := newSource()
	bad := func() answer {
		return i.do(t, "GET", "/api/dev/paste-lite/list", request{key: "bad", source: source})
	}
	failed := i.untilRefused(t, "too_many_failures", bad, func(got answer) {
		got.fails(t, http.StatusUnauthorized, "invalid_api_key", "Invalid API key")
	})
	if most := 101 * len(i.bases); failed < 101 || failed > most {
		t.Errorf("%d bad keys were answered before all edges refused them", failed)
	}
	i.do(t, "GET", "/api/dev/paste-lite/list", request{key: "bad"}).fails(t, http.StatusUnauthorized, "invalid_api_key", "")
	// A good key is served from that source too. All else that can be guessed is refused.
	a := i.account(t, "pro")
	a.with(t, "GET", "/api/dev/paste-lite/list", request{source: source}).ok(t, http.StatusOK)
	guess := request{source: source, header: map[string]string{"X-Manage-Token": "x"}}
	i.do(t, "DELETE", "/api/dev/paste-lite/delete/000000000000", guess).fails(t, http.StatusTooManyRequests, "too_many_failures", "")
	login := request{source: source, body: object{"email": a.email, "password": "correct horse"}}
	for _, path := range []string{"/api/users/login", "/api/users/register"} {
		i.do(t, "POST", path, login).fails(t, http.StatusTooManyRequests, "too_many_failures", "")
	}
}

func TestExplainSaysHowARequestWasDecided(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	id := a.quick(t, nil)
	got := a.do(t, "GET", "/api/dev/paste-lite/get/"+id, nil)
	got.ok(t, http.StatusOK)
	rid := got.header.Get("X-Request-Id")
	for _, ask := range []func() answer{
		func() answer { return a.do(t, "GET", "/api/users/user/requests/"+rid, nil) },
		func() answer { return i.admin(t, "GET", "/api/admin/requests/"+rid, nil) },
	} {
		// Its settlement, which follows the answer, is waited for.
		body := ask().ok(t, http.StatusOK)
		for field, want := range map[string]string{"settlement": "served", "quotaKey": "pasteLite.get", "decision": "admitted", "chargeSource": "quota", "account": a.id, "price": "0.000200", "tier": "pro"} {
			if v := fmt.Sprint(at(t, body, "request", field)); v != want {
				t.Errorf("%s is %s, want %s", field, v, want)
			}
		}
		if before, after := number(t, body, "request", "usedBefore"), number(t, body, "request", "usedAfter"); before != 0 || after != 1 {
			t.Errorf("counter %d to %d", before, after)
		}
		if words := text(t, body, "request", "explanation"); !strings.HasPrefix(words, "Request 1 of 10,000 for pasteLite.get in "+i.now().Format("January 2006")+". It was within the quota and cost nothing. ") {
			t.Errorf("in words: %s", words)
		}
		if stream := text(t, body, "request", "journal", "stream"); !strings.HasPrefix(stream, "BILLING_") || number(t, body, "request", "journal", "sequence") < 1 {
			t.Errorf("journal position %v", at(t, body, "request", "journal"))
		}
	}
	i.account(t, "pro").do(t, "GET", "/api/users/user/requests/"+rid, nil).fails(t, http.StatusNotFound, "not_found", "")
	a.do(t, "GET", "/api/users/user/requests/01900000-0000-7000-8000-000000000000", nil).fails(t, http.StatusNotFound, "not_found", "")
	a.do(t, "GET", "/api/users/user/requests/nonsense", nil).fails(t, http.StatusNotFound, "not_found", "")
}

func TestStatementOfTheCurrentMonth(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	a.quick(t, nil)
	period := i.now().Format("2006-01")
	body := a.do(t, "GET", "/api/users/user/statements/"+period, nil).ok(t, http.StatusOK)
	if got := number(t, body, "usage", "pasteLite.create", "requests"); got != 1 || text(t, body, "period") != period || body["closed"] != false {
		t.Errorf("%v", body)
	}
	if usd := text(t, body, "storage", "amountUsd"); usd != "0.00" {
		t.Errorf("storage costs %s", usd)
	}
	for _, wrong := range []string{"2026", "2026-13", "2026-1", "next", "26-11"} {
		a.do(t, "GET", "/api/users/user/statements/"+wrong, nil).fails(t, http.StatusBadRequest, "invalid_field", "")
	}
}
