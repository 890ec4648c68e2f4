package scenario

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// versions are the numbers on one page of a list of versions.
func versions(t testing.TB, page object) []int64 {
	t.Helper()
	if page["success"] != true || number(t, page, "remaining") != -1 {
		t.Errorf("%v", page)
	}
	var out []int64
	for _, v := range at(t, page, "versions").([]any) {
		out = append(out, number(t, v.(object), "version"))
	}
	if _, more := page["nextCursor"].(string); more != (page["hasMore"] == true) {
		t.Errorf("hasMore and nextCursor of %v", page)
	}
	return out
}

func (k kind) update(t testing.TB, a account, id string, fields object) {
	t.Helper()
	a.do(t, "PUT", k.base+"update/"+id, fields).ok(t, http.StatusOK)
}

func TestVersionsAreListed(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		i := common(t)
		a := i.account(t, "pro")
		created := a.do(t, "POST", k.base+"create", object{"content": "one", "title": "first", "password": "p"})
		id := text(t, created.ok(t, http.StatusCreated), "id")
		updated := []string{text(t, created.json(t), "createdAt")}
		for n, fields := range []object{{"content": strings.Repeat("é", 40_000), "language": "go"}, {"title": "third"}, {"tags": []string{"x"}, "burnAfterRead": true}} {
			got := a.do(t, "PUT", k.base+"update/"+id, fields).ok(t, http.StatusOK)
			updated = append(updated, text(t, got, "updatedAt"))
			// The next request goes to another edge, where there are several.
			newest := versions(t, a.do(t, "GET", k.base+"versions/"+id+"?limit=1", nil).ok(t, http.StatusOK))
			if len(newest) != 1 || newest[0] != int64(n+2) {
				t.Errorf("version %d was acknowledged, and the newest listed is %v", n+2, newest)
			}
		}
		got := a.do(t, "GET", k.base+"versions/"+id, nil)
		got.hasHeader(t, "RateLimit", "")
		got.hasHeader(t, "X-Charge-Source", "none")
		page := got.hides(t, "éé", "one").ok(t, http.StatusOK)
		if listed := versions(t, page); !slices.Equal(listed, []int64{4, 3, 2, 1}) || page["hasMore"] != false {
			t.Fatalf("%v", page)
		}
		for n, want := range []struct {
			title, language string
			size            int64
		}{{"first", "plaintext", 3}, {"first", "go", 80_000}, {"third", "go", 80_000}, {"third", "go", 80_000}} {
			v := at(t, page, "versions").([]any)[3-n].(object)
			if text(t, v, "title") != want.title || text(t, v, "language") != want.language || number(t, v, "size") != want.size || text(t, v, "createdAt") != updated[n] {
				t.Errorf("version %d is listed as %v", n+1, v)
			}
			if names := slices.Sorted(maps.Keys(v)); fmt.Sprint(names) != "[createdAt language size title version]" {
				t.Errorf("a version has the members %v", names)
			}
		}
		if used := a.used(t, k.get); used != 0 {
			t.Errorf("%d reads were counted", used)
		}
	})
}

func TestVersionsArePaged(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	quick := kinds()[1]
	id := a.quick(t, nil)
	const count = 205
	for n := 2; n <= count; n++ {
		quick.update(t, a, id, object{"title": fmt.Sprint(n)})
	}
	page := func(query string) object {
		return a.do(t, "GET", quick.base+"versions/"+id+"?"+query, nil).ok(t, http.StatusOK)
	}
	for query, size := range map[string]int{"": 50, "limit=1": 1, "limit=100": 100} {
		if got := versions(t, page(query)); len(got) != size || got[0] != count {
			t.Errorf("?%s: %d versions from %v", query, len(got), got[0])
		}
	}
	var all []int64
	next := ""
	for {
		got := page("limit=100" + next)
		all = append(all, versions(t, got)...)
		cursor, more := got["nextCursor"].(string)
		if !more {
			break
		}
		next = "&cursor=" + cursor
		quick.update(t, a, id, object{"title": "later"}) // a new version moves no page
		if len(all) > 2*count {
			t.Fatal("the pages do not end")
		}
	}
	if len(all) != count {
		t.Errorf("%d versions were listed, there were %d", len(all), count)
	}
	for n, v := range all {
		if v != int64(count-n) {
			t.Fatalf("%d follows %v", v, all[:n])
		}
	}
	whole := page("limit=100")
	cursor := text(t, whole, "nextCursor")
	other := a.quick(t, nil)
	quick.update(t, a, other, object{"title": "x"})
	for path, code := range map[string]string{
		id + "?limit=0": "invalid_field", id + "?limit=101": "invalid_field", id + "?limit=x": "invalid_field", id + "?order=asc": "unknown_field",
		id + "?cursor=x": "invalid_cursor", id + "?cursor=" + cursor[1:]: "invalid_cursor", id + "?cursor=" + cursor + "x": "invalid_cursor",
		other + "?cursor=" + cursor: "invalid_cursor",
	} {
		a.do(t, "GET", quick.base+"versions/"+path, nil).fails(t, http.StatusBadRequest, code, "")
	}
	stranger := i.account(t, "pro")
	stranger.do(t, "GET", quick.base+"versions/"+id+"?cursor="+cursor, nil).fails(t, http.StatusBadRequest, "invalid_cursor", "")
	list := a.do(t, "GET", quick.base+"list?limit=1", nil).ok(t, http.StatusOK)
	a.do(t, "GET", quick.base+"versions/"+id+"?cursor="+text(t, list, "nextCursor"), nil).fails(t, http.StatusBadRequest, "invalid_cursor", "")
}

func TestVersionsAreForWhoeverMayUpdate(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		i := common(t)
		a, b := i.account(t, "pro"), i.account(t, "pro")
		refused := func(id string, status int, code string) {
			t.Helper()
			for _, got := range []answer{b.do(t, "GET", k.base+"versions/"+id, nil), b.do(t, "PUT", k.base+"update/"+id, object{"title": "x"})} {
				got.fails(t, status, code, "")
			}
		}
		refused(k.make(t, a, object{"visibility": "public"}), http.StatusForbidden, "not_owner")
		refused(k.make(t, a, nil), http.StatusForbidden, "not_owner")
		refused(k.make(t, a, object{"visibility": "private"}), http.StatusNotFound, "not_found")
		refused("000000000000", http.StatusNotFound, "not_found")
		refused("nonsense", http.StatusNotFound, "not_found")
		burning := k.make(t, a, object{"burnAfterRead": true})
		refused(burning, http.StatusForbidden, "not_owner")
		if got := versions(t, a.do(t, "GET", k.base+"versions/"+burning, nil).ok(t, http.StatusOK)); len(got) != 1 {
			t.Errorf("%v", got)
		}
		b.do(t, "GET", k.base+"get/"+burning, nil).ok(t, http.StatusOK)
		refused(burning, http.StatusNotFound, "not_found")
		a.do(t, "GET", k.base+"versions/"+burning, nil).fails(t, http.StatusNotFound, "not_found", "")
		deleted := k.make(t, a, nil)
		k.update(t, a, deleted, object{"title": "x"})
		a.do(t, "DELETE", k.base+"delete/"+deleted, nil).ok(t, http.StatusOK)
		a.do(t, "GET", k.base+"versions/"+deleted, nil).fails(t, http.StatusNotFound, "not_found", "")
		// The other kind has no such document.
		elsewhere := kinds()[0]
		if k.base == elsewhere.base {
			elsewhere = kinds()[1]
		}
		a.do(t, "GET", elsewhere.base+"versions/"+k.make(t, a, nil), nil).fails(t, http.StatusNotFound, "not_found", "")
	})
	i := common(t)
	keyless := text(t, i.do(t, "POST", "/api/dev/paste-lite/create", request{body: withContent(nil)}).ok(t, http.StatusCreated), "id")
	a := i.account(t, "pro")
	a.do(t, "GET", "/api/dev/paste-lite/versions/"+keyless, nil).fails(t, http.StatusForbidden, "not_owner", "")
}

// TestBadKeysBesideAnAccountDontRefuseItsLists: many share the address of an office.
func TestBadKeysBesideAnAccountDontRefuseItsLists(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	path, source := "/api/dev/paste-lite/versions/"+a.quick(t, nil), newSource()
	bad := func() answer { return i.do(t, "GET", path, request{key: "wrong", source: source}) }
	i.untilRefused(t, "too_many_failures", bad, func(got answer) {
		got.fails(t, http.StatusUnauthorized, "invalid_api_key", "Invalid API key")
	})
	versions(t, i.do(t, "GET", path, request{key: a.key, source: source}).ok(t, http.StatusOK))
}

func TestVersionsNeedTheCurrentKey(t *testing.T) {
	i := common(t)
	p := i.person(t)
	regenerate := func() string {
		return text(t, p.do(t, "POST", "/api/users/user/dev-key/regenerate", nil).ok(t, http.StatusOK), "apiKey")
	}
	old := regenerate()
	id := account{i: i, key: old}.quick(t, nil)
	path := "/api/dev/paste-lite/versions/" + id
	i.do(t, "GET", path, request{key: old}).ok(t, http.StatusOK)
	p.do(t, "GET", path, nil).fails(t, http.StatusUnauthorized, "api_key_required", "API key required")
	renewed := regenerate()
	for _, path := range []string{path, "/api/dev/paste-lite/versions/000000000000"} {
		i.do(t, "GET", path, request{key: old}).fails(t, http.StatusUnauthorized, "invalid_api_key", "Invalid API key")
	}
	i.do(t, "GET", path, request{key: renewed}).ok(t, http.StatusOK)
}
