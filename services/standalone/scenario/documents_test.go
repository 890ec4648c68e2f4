package scenario

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// kind is pastes or quick pastes. Most rules hold for both.
type kind struct {
	name, base, page string
	create, get      string // quota keys
}

func kinds() []kind {
	return []kind{
		{"paste", "/api/dev/pastes/", "/p/", "pastes.create", "pastes.get"},
		{"quick paste", "/api/dev/paste-lite/", "/q/", "pasteLite.create", "pasteLite.get"},
	}
}

func eachKind(t *testing.T, f func(t *testing.T, k kind)) {
	t.Helper()
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) { f(t, k) })
	}
}

func (k kind) make(t testing.TB, a account, fields object) string {
	t.Helper()
	return text(t, a.do(t, "POST", k.base+"create", withContent(fields)).ok(t, http.StatusCreated), "id")
}

func TestAPasteIsReadAsItWasWritten(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		i := common(t)
		a := i.account(t, "pro")
		content := "héllo\n\x01\"quotes\" \\ <b>& \u2028 🦆\r\n"
		created := a.do(t, "POST", k.base+"create", object{
			"content": content, "title": "A \"title\" <1>", "language": "c++", "visibility": "public", "tags": []string{"one", "zwei", "one"},
			"expiresIn": "1h", "burnAfterRead": false,
		}).ok(t, http.StatusCreated)
		id := text(t, created, "id")
		if len(id) != 12 || number(t, created, "version") != 1 {
			t.Errorf("%v", created)
		}
		got := a.do(t, "GET", k.base+"get/"+id, nil)
		body := got.ok(t, http.StatusOK)
		for field, want := range map[string]string{
			"id": id, "title": "A \"title\" <1>", "content": content, "language": "c++", "visibility": "public",
			"url": text(t, created, "url"), "rawUrl": text(t, created, "url") + "/raw", "expiresAt": text(t, created, "expiresAt"),
		} {
			if v := text(t, body, "paste", field); v != want {
				t.Errorf("%s is %q, want %q", field, v, want)
			}
		}
		if size := number(t, body, "paste", "size"); size != int64(len(content)) {
			t.Errorf("size %d, want %d", size, len(content))
		}
		if tags := fmt.Sprint(at(t, body, "paste", "tags")); tags != "[one zwei]" {
			t.Errorf("tags %s", tags)
		}
		made, expires := instant(t, text(t, body, "paste", "createdAt")), instant(t, text(t, body, "paste", "expiresAt"))
		if d := expires.Sub(made); d != time.Hour {
			t.Errorf("it lives for %s", d)
		}
		got.hasHeader(t, "ETag", `"1"`)
		if url := text(t, created, "url"); url != i.public+k.page+id || text(t, created, "rawUrl") != url+"/raw" {
			t.Errorf("%v", created)
		}
	})
}

func instant(t testing.TB, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || !strings.HasSuffix(s, "Z") {
		t.Fatalf("%q is no time in UTC: %v", s, err)
	}
	return v
}

func TestDefaults(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		a := common(t).account(t, "pro")
		for _, lifetime := range []object{{"expiresIn": nil}, {"expiresAt": nil}, {"expiresIn": nil, "expiresAt": nil}} { // as if absent
			body := a.do(t, "GET", k.base+"get/"+k.make(t, a, lifetime), nil).ok(t, http.StatusOK)
			if v := at(t, body, "paste", "expiresAt"); v != nil {
				t.Errorf("%v: it expires %v", lifetime, v)
			}
		}
		k.make(t, a, object{"expiresIn": nil, "expiresAt": a.i.now().Add(time.Hour).Format(time.RFC3339)})
		body := a.do(t, "GET", k.base+"get/"+k.make(t, a, nil), nil).ok(t, http.StatusOK)
		for field, want := range map[string]any{
			"title": "", "language": "plaintext", "visibility": "unlisted", "burnAfterRead": false, "passwordProtected": false, "expiresAt": nil,
		} {
			if v := at(t, body, "paste", field); v != want {
				t.Errorf("%s is %v, want %v", field, v, want)
			}
		}
		if tags := fmt.Sprint(at(t, body, "paste", "tags")); tags != "[]" {
			t.Errorf("tags %s", tags)
		}
	})
}

func TestAutoIsReplacedByTheLanguageOfTitleAndContent(t *testing.T) {
	const program = "package main\n\nfunc main() {\n}\n"
	eachKind(t, func(t *testing.T, k kind) {
		i := common(t)
		a := i.account(t, "pro")
		language := func(id string) any {
			return at(t, a.do(t, "GET", k.base+"get/"+id, nil).ok(t, http.StatusOK), "paste").(object)["language"]
		}
		for want, fields := range map[string]object{
			"python":    {"title": "a.py", "content": program, "language": "auto"},
			"go":        {"title": "My program", "content": program, "language": "auto"},
			"plaintext": {"title": "a.py", "content": program},
			"coq":       {"title": "proof.v", "content": "Theorem a : True.\nProof.\nQed.\n", "language": "auto"},
		} {
			if got := language(k.make(t, a, fields)); got != want {
				t.Errorf("%v: %q", fields, got)
			}
		}
		id := k.make(t, a, object{"content": "x"})
		a.do(t, "PUT", k.base+"update/"+id, object{"language": "auto"}).fails(t, http.StatusBadRequest, "invalid_field", "language must not be auto without content to detect it from.")
		if got := language(id); got != "plaintext" {
			t.Errorf("after a refused update: %q", got)
		}
		a.do(t, "PUT", k.base+"update/"+id, object{"language": "auto", "content": program}).ok(t, http.StatusOK)
		if got := language(id); got != "go" {
			t.Errorf("after an update: %q", got)
		}
	})
}

func TestLifetimes(t *testing.T) {
	a := common(t).account(t, "pro")
	const day = 24 * time.Hour
	for in, want := range map[any]time.Duration{
		60: time.Minute, "10m": 10 * time.Minute, "1h": time.Hour, "7d": 7 * day, "2w": 14 * day, "1y": 365 * day, "10y": 3650 * day, 315360000: 3650 * day,
	} {
		got := a.do(t, "POST", "/api/dev/paste-lite/create", object{"content": "x", "expiresIn": in}).ok(t, http.StatusCreated)
		if d := instant(t, text(t, got, "expiresAt")).Sub(instant(t, text(t, got, "createdAt"))); d != want {
			t.Errorf("expiresIn %v: lives for %s, want %s", in, d, want)
		}
	}
	never := a.do(t, "POST", "/api/dev/paste-lite/create", object{"content": "x", "expiresIn": "never"}).ok(t, http.StatusCreated)
	if at(t, never, "expiresAt") != nil {
		t.Errorf("never is %v", never)
	}
	when := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
	given := a.do(t, "POST", "/api/dev/paste-lite/create", object{"content": "x", "expiresAt": when.Format(time.RFC3339)}).ok(t, http.StatusCreated)
	if got := instant(t, text(t, given, "expiresAt")); !got.Equal(when) {
		t.Errorf("expiresAt %s, want %s", got, when)
	}
}

func TestKeylessPastesAreNeitherPrivateNorEverlasting(t *testing.T) {
	i := common(t)
	source := newSource()
	create := func(fields object) answer {
		return i.do(t, "POST", "/api/dev/paste-lite/create", request{body: withContent(fields), source: source})
	}
	create(object{"visibility": "private"}).fails(t, http.StatusBadRequest, "invalid_field", "")
	for _, in := range []any{"31d", "1y", "never"} {
		create(object{"expiresIn": in}).fails(t, http.StatusBadRequest, "invalid_field", "")
	}
	got := create(nil).ok(t, http.StatusCreated)
	if d := instant(t, text(t, got, "expiresAt")).Sub(instant(t, text(t, got, "createdAt"))); d != 30*24*time.Hour {
		t.Errorf("it lives for %s", d)
	}
	if number(t, create(object{"expiresIn": "1h"}).ok(t, http.StatusCreated), "remaining") != 8 {
		t.Error("what was refused was counted")
	}
	id, token := text(t, got, "id"), text(t, got, "manageToken")
	reader := i.account(t, "pro")
	for _, later := range []object{{"expiresIn": "30d"}, {"expiresIn": nil}, {"expiresAt": nil}, {"title": "new"}} {
		i.do(t, "PUT", "/api/dev/paste-lite/update/"+id, request{body: later, header: map[string]string{"X-Manage-Token": token}, source: source}).ok(t, http.StatusOK)
		read := reader.do(t, "GET", "/api/dev/paste-lite/get/"+id, nil).ok(t, http.StatusOK)
		if is, was := text(t, read, "paste", "expiresAt"), text(t, got, "expiresAt"); is != was {
			t.Errorf("after an update with %v it expires at %s, and not at %s", later, is, was)
		}
	}
}

func TestVisibilityMatrix(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		i := common(t)
		owner, other := i.account(t, "pro"), i.account(t, "pro")
		for _, test := range []struct {
			visibility                 string
			read, update, remove, page int // statuses for another account, and of the page
		}{
			{"public", 200, 403, 403, 200},
			{"unlisted", 200, 403, 403, 200},
			{"private", 404, 404, 404, 404},
		} {
			id := k.make(t, owner, object{"visibility": test.visibility})
			expect := func(what string, got answer, want int) {
				t.Helper()
				if got.status != want {
					t.Errorf("%s, %s: %d %s, want %d", test.visibility, what, got.status, got.body, want)
				}
				if want == 403 {
					got.fails(t, 403, "not_owner", "")
				}
				if want == 404 && strings.HasPrefix(what, "other") {
					got.fails(t, 404, "not_found", "")
				}
			}
			expect("other reads", other.do(t, "GET", k.base+"get/"+id, nil), test.read)
			expect("other updates", other.do(t, "PUT", k.base+"update/"+id, object{"title": "x"}), test.update)
			expect("other deletes", other.do(t, "DELETE", k.base+"delete/"+id, nil), test.remove)
			expect("page", i.do(t, "GET", k.page+id, request{}), test.page)
			expect("raw page", i.do(t, "GET", k.page+id+"/raw", request{}), test.page)
			expect("owner reads", owner.do(t, "GET", k.base+"get/"+id, nil), 200)
			expect("owner updates", owner.do(t, "PUT", k.base+"update/"+id, object{"title": "x"}), 200)
			expect("owner deletes", owner.do(t, "DELETE", k.base+"delete/"+id, nil), 200)
		}
	})
}

func TestUpdateIsAMerge(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		a := common(t).account(t, "pro")
		id := k.make(t, a, object{"content": "one", "title": "first", "language": "go", "tags": []string{"t"}, "visibility": "public", "expiresIn": "1h"})
		update := func(fields any) answer { return a.do(t, "PUT", k.base+"update/"+id, fields) }
		read := func() object {
			return at(t, a.do(t, "GET", k.base+"get/"+id, nil).ok(t, http.StatusOK), "paste").(object)
		}
		body := update(object{"title": "second"}).ok(t, http.StatusOK)
		if number(t, body, "version") != 2 || text(t, body, "id") != id {
			t.Errorf("%v", body)
		}
		p := read()
		if p["title"] != "second" || p["content"] != "one" || p["language"] != "go" || fmt.Sprint(p["tags"]) != "[t]" || p["visibility"] != "public" || p["expiresAt"] == nil {
			t.Errorf("absent fields changed: %v", p)
		}
		update(object{"title": nil, "language": nil, "tags": nil, "visibility": nil, "expiresIn": nil}).ok(t, http.StatusOK)
		p = read()
		if p["title"] != "" || p["language"] != "plaintext" || fmt.Sprint(p["tags"]) != "[]" || p["visibility"] != "unlisted" || p["expiresAt"] != nil {
			t.Errorf("null does not reset: %v", p)
		}
		update(object{}).fails(t, http.StatusBadRequest, "malformed", "")
		update(object{"contents": "x"}).fails(t, http.StatusBadRequest, "unknown_field", "")
		update(object{"content": nil}).fails(t, http.StatusBadRequest, "invalid_field", "")
		update(object{"content": ""}).fails(t, http.StatusBadRequest, "invalid_field", "")
		if v := number(t, read(), "version"); v != 3 {
			t.Errorf("version %d", v)
		}
	})
}

func TestVersionsStayReadableToTheOwner(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		i := common(t)
		a, other := i.account(t, "pro"), i.account(t, "pro")
		id := k.make(t, a, object{"content": "version 1"})
		for v := 2; v <= 4; v++ {
			a.do(t, "PUT", k.base+"update/"+id, object{"content": fmt.Sprintf("version %d", v)}).ok(t, http.StatusOK)
		}
		for v := 1; v <= 4; v++ {
			got := a.do(t, "GET", fmt.Sprintf("%sget/%s?version=%d", k.base, id, v), nil)
			body := got.ok(t, http.StatusOK)
			if content := text(t, body, "paste", "content"); content != fmt.Sprintf("version %d", v) || number(t, body, "paste", "version") != int64(v) {
				t.Errorf("version %d: %v", v, body)
			}
			got.hasHeader(t, "ETag", fmt.Sprintf(`"%d"`, v))
		}
		other.do(t, "GET", k.base+"get/"+id+"?version=1", nil).fails(t, http.StatusNotFound, "not_found", "")
		other.do(t, "GET", k.base+"get/"+id+"?version=4", nil).ok(t, http.StatusOK)
		a.do(t, "GET", k.base+"get/"+id+"?version=5", nil).fails(t, http.StatusNotFound, "not_found", "")
		for _, wrong := range []string{"0", "-1", "one", ""} {
			a.do(t, "GET", k.base+"get/"+id+"?version="+wrong, nil).fails(t, http.StatusBadRequest, "invalid_field", "")
		}
	})
}

func TestConditionalRequests(t *testing.T) {
	a := common(t).account(t, "pro")
	id := a.paste(t, nil)
	get := func(match string) answer {
		return a.with(t, "GET", "/api/dev/pastes/get/"+id, request{header: map[string]string{"If-None-Match": match}})
	}
	for _, match := range []string{`"1"`, `W/"1"`, `"7", "1"`, "*"} {
		got := get(match)
		if got.status != http.StatusNotModified {
			t.Errorf("If-None-Match %s: %d", match, got.status)
		}
		got.hasHeader(t, "ETag", `"1"`)
	}
	get(`"2"`).ok(t, http.StatusOK)
	get("1").fails(t, http.StatusBadRequest, "invalid_field", "")
	put := func(match string) answer {
		return a.with(t, "PUT", "/api/dev/pastes/update/"+id, request{body: object{"title": match}, header: map[string]string{"If-Match": match}})
	}
	put(`"2"`).fails(t, http.StatusPreconditionFailed, "version_mismatch", "")
	put(`"1"`).ok(t, http.StatusOK)
	put(`"1"`).fails(t, http.StatusPreconditionFailed, "version_mismatch", "")
	put("*").ok(t, http.StatusOK)
	a.with(t, "DELETE", "/api/dev/pastes/delete/"+id, request{header: map[string]string{"If-Match": `"1"`}}).
		fails(t, http.StatusPreconditionFailed, "version_mismatch", "")
	a.with(t, "DELETE", "/api/dev/pastes/delete/"+id, request{header: map[string]string{"If-Match": `"3"`}}).ok(t, http.StatusOK)
}

func TestConcurrentConditionalUpdatesLetOneWin(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	id := a.paste(t, nil)
	var mu sync.Mutex
	statuses := map[int]int{}
	var group sync.WaitGroup
	for n := range 16 {
		group.Go(func() {
			got, err := i.try(t.Context(), "PUT", "/api/dev/pastes/update/"+id, request{key: a.key, body: object{"title": fmt.Sprint(n)}, header: map[string]string{"If-Match": `"1"`}})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			statuses[got.status]++
			mu.Unlock()
		})
	}
	group.Wait()
	if statuses[200] != 1 || statuses[412] != 15 {
		t.Errorf("statuses %v", statuses)
	}
	if used := a.used(t, "pastes.update"); used != 1 {
		t.Errorf("counted %d", used)
	}
}

func TestADeletedPasteIsGone(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		i := common(t)
		a := i.account(t, "pro")
		id := k.make(t, a, nil)
		body := a.do(t, "DELETE", k.base+"delete/"+id, nil).ok(t, http.StatusOK)
		if text(t, body, "id") != id {
			t.Errorf("%v", body)
		}
		a.do(t, "GET", k.base+"get/"+id, nil).fails(t, http.StatusNotFound, "not_found", "")
		a.do(t, "PUT", k.base+"update/"+id, object{"title": "x"}).fails(t, http.StatusNotFound, "not_found", "")
		a.do(t, "DELETE", k.base+"delete/"+id, nil).fails(t, http.StatusNotFound, "not_found", "")
		a.do(t, "GET", k.base+"get/"+id+"?version=1", nil).fails(t, http.StatusNotFound, "not_found", "")
		if got := i.do(t, "GET", k.page+id, request{}); got.status != http.StatusNotFound {
			t.Errorf("page: %d", got.status)
		}
	})
}

func TestLargeContentIsStoredReadAndDeleted(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		a := common(t).account(t, "pro")
		for _, size := range []int{64<<10 - 1, 64 << 10, 64<<10 + 1, 200 << 10} {
			content := strings.Repeat("0123456789abcdef", size/16) + strings.Repeat("x", size%16)
			id := k.make(t, a, object{"content": content})
			if got := text(t, a.do(t, "GET", k.base+"get/"+id, nil).ok(t, http.StatusOK), "paste", "content"); got != content {
				t.Errorf("%d bytes came back as %d", size, len(got))
			}
			a.do(t, "PUT", k.base+"update/"+id, object{"content": content + "!"}).succeeds(t)
			if got := text(t, a.do(t, "GET", k.base+"get/"+id+"?version=1", nil).ok(t, http.StatusOK), "paste", "content"); got != content {
				t.Errorf("version 1 of %d bytes came back as %d", size, len(got))
			}
			a.do(t, "DELETE", k.base+"delete/"+id, nil).ok(t, http.StatusOK)
		}
	})
}

// succeeds holds the answer to any success.
func (a answer) succeeds(t testing.TB) {
	t.Helper()
	if a.status/100 != 2 {
		t.Fatalf("%s: %d %s", a.what, a.status, a.body)
	}
}

func TestPasswords(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		i := common(t)
		owner, other := i.account(t, "pro"), i.account(t, "pro")
		id := k.make(t, owner, object{"password": "sésame"})
		read := func(a account, password string) answer {
			r := request{}
			if password != "" {
				r.header = map[string]string{"X-Paste-Password": password}
			}
			return a.with(t, "GET", k.base+"get/"+id, r)
		}
		for _, a := range []account{owner, other} {
			missing := read(a, "")
			missing.fails(t, http.StatusForbidden, "wrong_password", "")
			missing.hasHeader(t, "ETag", "")
			read(a, "wrong").fails(t, http.StatusForbidden, "wrong_password", "")
			if body := read(a, "sésame").ok(t, http.StatusOK); at(t, body, "paste", "passwordProtected") != true {
				t.Errorf("%v", body)
			}
		}
		if raw := i.do(t, "GET", k.page+id+"/raw", request{}); raw.status != http.StatusForbidden {
			t.Errorf("raw without the password: %d", raw.status)
		}
		if raw := i.do(t, "GET", k.page+id+"/raw", request{header: map[string]string{"X-Paste-Password": "sésame"}}); raw.status != http.StatusOK {
			t.Errorf("raw with the password: %d %s", raw.status, raw.body)
		}
		owner.do(t, "PUT", k.base+"update/"+id, object{"password": "other"}).ok(t, http.StatusOK)
		read(other, "sésame").fails(t, http.StatusForbidden, "wrong_password", "")
		read(other, "other").ok(t, http.StatusOK)
		owner.do(t, "PUT", k.base+"update/"+id, object{"password": nil}).ok(t, http.StatusOK)
		read(other, "").ok(t, http.StatusOK)
	})
}

func TestBurnAfterRead(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		i := common(t)
		owner, other := i.account(t, "pro"), i.account(t, "pro")
		content := strings.Repeat("long ", 20_000) + ">once<"
		id := k.make(t, owner, object{"content": content, "burnAfterRead": true, "visibility": "public"})
		if head := other.do(t, "HEAD", k.base+"get/"+id, nil); head.status != http.StatusOK { // it shows nothing, so it burns nothing
			t.Errorf("HEAD: %d", head.status)
		}
		seen := other.used(t, k.get)
		for range 2 { // the owner's reads do not burn
			if got := owner.do(t, "GET", k.base+"get/"+id, nil).ok(t, http.StatusOK); at(t, got, "paste", "burnAfterRead") != true {
				t.Errorf("%v", got)
			}
		}
		page := i.do(t, "GET", k.page+id, request{})
		if page.status != http.StatusOK || strings.Contains(string(page.body), "once<") {
			t.Errorf("a link preview sees: %d %s", page.status, page.body)
		}
		if raw := i.do(t, "GET", k.page+id+"/raw", request{}); raw.status == http.StatusOK {
			t.Errorf("raw shows it: %s", raw.body)
		}
		if got := text(t, other.do(t, "GET", k.base+"get/"+id, nil).ok(t, http.StatusOK), "paste", "content"); got != content {
			t.Errorf("%d bytes of content", len(got))
		}
		other.do(t, "GET", k.base+"get/"+id, nil).fails(t, http.StatusNotFound, "not_found", "")
		owner.do(t, "GET", k.base+"get/"+id, nil).fails(t, http.StatusNotFound, "not_found", "")
		if used := other.used(t, k.get) - seen; used != 1 {
			t.Errorf("counted %d", used)
		}
	})
}

func TestExactlyOneOfManyBurns(t *testing.T) {
	i := common(t)
	owner := i.account(t, "pro")
	id := owner.paste(t, object{"burnAfterRead": true, "password": "p"})
	readers := make([]account, 12)
	for n := range readers {
		readers[n] = i.account(t, "pro")
	}
	readers[0].do(t, "GET", "/api/dev/pastes/get/"+id, nil).fails(t, http.StatusForbidden, "wrong_password", "")
	var mu sync.Mutex
	statuses := map[int]int{}
	var group sync.WaitGroup
	for _, a := range readers {
		group.Go(func() {
			got, err := i.try(t.Context(), "GET", "/api/dev/pastes/get/"+id, request{key: a.key, header: map[string]string{"X-Paste-Password": "p"}})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			statuses[got.status]++
			mu.Unlock()
		})
	}
	group.Wait()
	if statuses[200] != 1 || statuses[404] != len(readers)-1 {
		t.Errorf("statuses %v", statuses)
	}
}

func TestManageTokens(t *testing.T) {
	i := common(t)
	const base = "/api/dev/paste-lite/"
	source := newSource()
	made := i.do(t, "POST", base+"create", request{body: object{"content": "one"}, source: source}).ok(t, http.StatusCreated)
	id, token := text(t, made, "id"), text(t, made, "manageToken")
	with := func(token string, body any) request {
		return request{body: body, header: map[string]string{"X-Manage-Token": token}}
	}
	i.do(t, "PUT", base+"update/"+id, request{body: object{"title": "x"}}).fails(t, 401, "manage_token_required", "Management token required")
	i.do(t, "DELETE", base+"delete/"+id, request{}).fails(t, 401, "manage_token_required", "Management token required")
	for _, wrong := range []string{"mt_wrong", token + "x", strings.ToLower(token), "x"} {
		if wrong == token {
			continue
		}
		i.do(t, "PUT", base+"update/"+id, with(wrong, object{"title": "x"})).fails(t, 403, "invalid_manage_token", "Invalid management token")
		i.do(t, "DELETE", base+"delete/"+id, with(wrong, nil)).fails(t, 403, "invalid_manage_token", "Invalid management token")
	}
	i.do(t, "PUT", base+"update/"+id, with(token, object{"expiresIn": "31d"})).fails(t, 400, "invalid_field", "")
	managed := i.do(t, "PUT", base+"update/"+id, with(token, object{"content": "two"}))
	if updated := managed.ok(t, http.StatusOK); number(t, updated, "remaining") != -1 || number(t, updated, "version") != 2 {
		t.Errorf("%v", updated)
	}
	managed.hasHeader(t, "X-Charge-Source", "none")
	managed.hasHeader(t, "RateLimit", "")
	// With an API key only the account's ownership counts.
	a := i.account(t, "pro")
	keyed := with(token, object{"title": "x"})
	a.with(t, "PUT", base+"update/"+id, keyed).fails(t, 403, "not_owner", "")
	a.with(t, "DELETE", base+"delete/"+id, with(token, nil)).fails(t, 403, "not_owner", "")
	a.do(t, "GET", base+"get/"+id, nil).ok(t, http.StatusOK)
	// There is no token for what an account owns.
	owned := a.do(t, "POST", base+"create", object{"content": "x"}).ok(t, http.StatusCreated)
	if _, has := owned["manageToken"]; has {
		t.Error("an account got a management token")
	}
	i.do(t, "DELETE", base+"delete/"+text(t, owned, "id"), with(token, nil)).fails(t, 403, "invalid_manage_token", "Invalid management token")
	gone := i.do(t, "DELETE", base+"delete/"+id, with(token, nil)).ok(t, http.StatusOK)
	if number(t, gone, "remaining") != -1 {
		t.Errorf("%v", gone)
	}
	i.do(t, "DELETE", base+"delete/"+id, with(token, nil)).fails(t, 404, "not_found", "")
	a.do(t, "GET", base+"get/"+id, nil).fails(t, 404, "not_found", "")
	// Management consumes nothing: nine creations were left before this one.
	if left := number(t, i.do(t, "POST", base+"create", request{body: object{"content": "x"}, source: source}).ok(t, http.StatusCreated), "remaining"); left != 8 {
		t.Errorf("remaining %d", left)
	}
}

func TestListsAreOwnFilteredAndPaged(t *testing.T) {
	for _, base := range []string{"/api/dev/pastes/", "/api/dev/paste-lite/"} {
		t.Run(strings.Trim(base, "/"), func(t *testing.T) { listsAreOwnFilteredAndPaged(t, base) })
	}
}

func listsAreOwnFilteredAndPaged(t *testing.T, base string) {
	i := common(t)
	a, other := i.account(t, "pro"), i.account(t, "pro")
	create := func(a account, fields object) object {
		return a.do(t, "POST", base+"create", withContent(fields)).ok(t, http.StatusCreated)
	}
	create(other, object{"title": "not yours"})
	const count = 25
	ids := make([]string, count)
	created := map[string]time.Time{}
	for n := range count {
		fields := object{"title": fmt.Sprintf("Title %d", n), "language": "go", "visibility": "public", "tags": []string{"even"}}
		if n%2 == 1 {
			fields = object{"title": fmt.Sprintf("other %d", n), "language": "c", "visibility": "private", "tags": []string{"odd", "more"}}
		}
		body := create(a, fields)
		ids[n] = text(t, body, "id")
		created[ids[n]] = instant(t, text(t, body, "createdAt"))
	}
	list := func(query string) ([]string, object) {
		body := a.do(t, "GET", base+"list?"+query, nil).ok(t, http.StatusOK)
		var out []string
		for _, v := range at(t, body, "pastes").([]any) {
			o := v.(object)
			if _, has := o["content"]; has {
				t.Error("a list shows content")
			}
			out = append(out, text(t, o, "id"))
		}
		return out, body
	}
	walk := func(query string, between func(page int)) []string {
		var all []string
		cursor := ""
		for page := 0; ; page++ {
			got, body := list(query + cursor)
			all = append(all, got...)
			next, more := body["nextCursor"].(string)
			if body["hasMore"] != true || !more {
				return all
			}
			if page > 2*count {
				t.Fatal("the pages do not end")
			}
			cursor = "&cursor=" + next
			if between != nil {
				between(page)
			}
		}
	}
	// Documents that were created in the same millisecond may come in any order, but always in the same.
	ascending := walk("limit=7&order=asc", nil)
	for n, id := range ascending {
		if n > 0 && created[id].Before(created[ascending[n-1]]) {
			t.Errorf("ascending: %s, of %s, comes after one of %s", id, created[id], created[ascending[n-1]])
		}
	}
	descending := walk("limit=100", nil)
	slices.Reverse(descending)
	if len(ascending) != count || !slices.Equal(ascending, descending) {
		t.Errorf("ascending %v, descending reversed %v", ascending, descending)
	}
	for query, want := range map[string]int{
		"q=Title": 13, "q=title": 13, "q=other+1": 6, "tag=odd": 12, "tag=even": 13, "tag=od": 0, "visibility=private": 12, "visibility=unlisted": 0,
		"language=go": 13, "language=go&tag=odd": 0, "tag=more&q=other+3": 1,
	} {
		if got := walk(query+"&limit=4", nil); len(got) != want {
			t.Errorf("%s: %d, want %d", query, len(got), want)
		}
	}
	// If documents come and go between two pages, those that stay are listed once.
	removed := map[string]bool{}
	paged := walk("limit=5&order=desc", func(page int) {
		create(a, object{"title": "late"})
		victim := ascending[count-1-5*page]
		a.do(t, "DELETE", base+"delete/"+victim, nil).ok(t, http.StatusOK)
		removed[victim] = true
	})
	seen := map[string]bool{}
	for _, id := range paged {
		if seen[id] {
			t.Errorf("%s is listed twice", id)
		}
		seen[id] = true
	}
	for _, id := range ids {
		if !seen[id] && !removed[id] {
			t.Errorf("%s was skipped", id)
		}
	}
	for _, wrong := range []string{"limit=0", "limit=101", "limit=x", "order=up", "visibility=secret"} {
		a.do(t, "GET", base+"list?"+wrong, nil).fails(t, http.StatusBadRequest, "invalid_field", "")
	}
	a.do(t, "GET", base+"list?page=2", nil).fails(t, http.StatusBadRequest, "unknown_field", "")
	for _, wrong := range []string{"x", "AAAA", strings.Repeat("A", 300)} {
		a.do(t, "GET", base+"list?cursor="+wrong, nil).fails(t, http.StatusBadRequest, "invalid_cursor", "")
	}
}
