package scenario

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryPageSaysWhoHasSignedIn: the landing page, documents, the documentation, the console and errors have one header.
func TestEveryPageSaysWhoHasSignedIn(t *testing.T) {
	i := common(t)
	v, a := i.holderOf(t, "pro")
	a.grant(t, "12.5")
	paste := "/p/" + a.paste(t, object{"content": "x", "title": "notes"})
	for path, status := range map[string]int{
		"/": 200, paste: 200, paste + "/versions": 200, "/docs": 200, "/docs/search?q=key": 200, "/docs/guides/first-call": 200, "/console/keys": 200,
		"/console/files": 200, "/p/AAAAAAAAAAAA": 404, "/nothing": 404,
	} {
		own := v.open(t, path).shows(t, status, `<details class="who">`, a.email, "Pro", "12.50 credits", `href="/console"`, `action="/console/sign-out"`).
			hides(t, "/console/sign-in", "/console/sign-up")
		own.hasHeader(t, "Cache-Control", "no-store")
		if strings.HasPrefix(path, "/console") || strings.HasSuffix(path, "/versions") {
			continue
		}
		page, _, _ := strings.Cut(path, "?")
		if strings.HasPrefix(path, "/docs/search") {
			page = "/docs"
		}
		link := `href="/console/sign-in?next=` + url.QueryEscape(page) + `"`
		if status != http.StatusOK {
			link = `href="/console/sign-in"`
		}
		i.page(t, "GET", path, browser()).shows(t, status, link, `href="/console/sign-up"`).hides(t, "sign-out", a.email)
	}
	// Without a session the documentation stays cached, but not by the address alone.
	docs := i.page(t, "GET", "/docs", browser()).shows(t, http.StatusOK)
	docs.hasHeader(t, "Cache-Control", "no-cache")
	if vary := docs.header.Get("Vary"); !strings.Contains(vary, "Cookie") {
		t.Errorf("Vary: %q", vary)
	}
	known := browser("If-None-Match", docs.header.Get("ETag"))
	i.do(t, "GET", "/docs", known).shows(t, http.StatusNotModified)
	known.header = browser("If-None-Match", docs.header.Get("ETag")).header
	v.send(t, "GET", "/docs", known).shows(t, http.StatusOK, a.email)

	// A session that was closed is nobody's, and so is a cookie that no edge made.
	before := v.cookies
	v.submit(t, v.open(t, "/docs"), "/console/sign-out").leads(t, "/")
	v.cookies = before
	v.open(t, "/docs").shows(t, http.StatusOK, "/console/sign-up").hides(t, a.email)
	v.cookies = []*http.Cookie{{Name: before[0].Name, Value: "made up"}}
	v.open(t, paste).shows(t, http.StatusOK, "/console/sign-up").hides(t, a.email)
}

// TestTheLandingPageOffersWhatThePlanHas: what is created there with a session is the account's.
func TestTheLandingPageOffersWhatThePlanHas(t *testing.T) {
	i := common(t)
	v, a := i.holderOf(t, "pro")
	home := v.open(t, "/").shows(t, http.StatusOK, "of the 500 pastes you have left", "of the 5,000 quick pastes you have left", "Create paste", "Create quick paste",
		`formaction="/console/quick"`, "Private: only you", `id="plans"`).hides(t, "anonymous pastes left", `action="/paste/create"`)
	made := v.submit(t, home, "/console/pastes", "content", "of the account", "visibility", "private", "expiresIn", "never", "tags", "home")
	id := strings.TrimSuffix(strings.TrimPrefix(made.header.Get("Location"), "/p/"), "?done=created")
	made.leads(t, "/p/"+id+"?done=created")
	paste := a.do(t, "GET", "/api/dev/pastes/get/"+id, nil).ok(t, http.StatusOK)["paste"].(map[string]any)
	if paste["content"] != "of the account" || paste["visibility"] != "private" || a.used(t, "pastes.create") != 1 {
		t.Errorf("%v", paste)
	}

	// A page that was open before its reader signed in.
	free, f := i.holderOf(t, "free")
	session := free.cookies
	free.cookies = nil
	stale := free.open(t, "/").shows(t, http.StatusOK, "10 of 10 anonymous pastes left")
	free.cookies = session
	made = free.submit(t, stale, "/paste/create", "content", "of the account too").shows(t, http.StatusSeeOther)
	free.open(t, made.header.Get("Location")).shows(t, http.StatusOK, "of the account too", "Paste created.")
	free.submit(t, stale, "/paste/create", "content", "of the account too").leads(t, made.header.Get("Location")) // sent twice
	if used := f.used(t, "pasteLite.create"); used != 1 {
		t.Errorf("pasteLite.create is %d", used)
	}
	free.submit(t, stale, "/paste/create", "content", "x", "title", strings.Repeat("t", 201)).shows(t, http.StatusBadRequest, "title-error", "Created in your account")
	free.cookies = nil
	free.open(t, "/").shows(t, http.StatusOK, "10 of 10 anonymous pastes left")
	free.cookies = session
	free.open(t, "/").shows(t, http.StatusOK, "The Free plan doesn’t include pastes.", "of the 99 quick pastes", "Create quick paste").hides(t, "Create paste</button>", " disabled>")
	r := pasteForm(free.source)
	r.header["Sec-Fetch-Site"], r.cookies = "cross-site", session
	i.page(t, "POST", "/paste/create", r).shows(t, http.StatusForbidden)
	if used := f.used(t, "pasteLite.create"); used != 1 {
		t.Errorf("pasteLite.create is %d", used)
	}

	// Without an API key there is nothing that a paste could be counted for.
	fresh := i.visitor()
	fresh.submit(t, fresh.open(t, "/console/sign-up?next=/"), "/console/sign-up", "email", newEmail(), "password", correct).leads(t, "/")
	fresh.open(t, "/").shows(t, http.StatusOK, "None of your API keys can do this.", `href="/console/keys"`).hides(t, "<textarea")
}

// TestAnOwnerManagesADocumentOnItsPage, which nobody else can.
func TestAnOwnerManagesADocumentOnItsPage(t *testing.T) {
	i := common(t)
	v, a := i.holderOf(t, "pro")
	other, _ := i.holderOf(t, "pro")
	for _, k := range []struct{ list, page, api, create, update string }{
		{"/console/pastes", "/p/", "/api/dev/pastes", "pastes.create", "pastes.update"},
		{"/console/quick", "/q/", "/api/dev/paste-lite", "pasteLite.create", "pasteLite.update"},
	} {
		id := text(t, a.do(t, "POST", k.api+"/create", object{"content": "one\r\ntwo", "title": "notes", "tags": []string{"red"}, "burnAfterRead": false}).ok(t, http.StatusCreated), "id")
		page, at := k.page+id, k.list+"/"+id
		own := v.open(t, page).shows(t, http.StatusOK, `value="`+i.public+page+`"`, "Copy link", `href="`+at+`"`, `href="`+at+`?new=1"`, `href="`+k.list+`/delete?ref=`+id+`"`, "unlisted, never expires", "edits you have left").
			hides(t, "autofocus", "Paste created.")
		for _, reader := range []*visitor{other, i.visitor()} {
			reader.open(t, page+"?done=created").shows(t, http.StatusOK, "two").hides(t, "Copy link", at, "Paste created.")
		}

		// Visibility and expiry alone: all else stays.
		v.submit(t, own, at+"/access", "visibility", "private", "expiresIn", "7d").leads(t, page+"?done=changed")
		v.submit(t, own, at+"/access", "visibility", "private", "expiresIn", "7d").leads(t, page+"?done=changed") // sent twice
		paste := a.do(t, "GET", k.api+"/get/"+id, nil).ok(t, http.StatusOK)["paste"].(map[string]any)
		if paste["visibility"] != "private" || paste["expiresAt"] == nil || paste["content"] != "one\r\ntwo" || paste["title"] != "notes" || a.used(t, k.update) != 1 {
			t.Errorf("changed to %v", paste)
		}
		i.page(t, "GET", page, browser()).shows(t, http.StatusNotFound)
		own = v.open(t, page).shows(t, http.StatusOK, "private, expires")
		v.submit(t, own, at+"/access", "visibility", "public", "expiresIn", "keep").leads(t, page+"?done=changed")
		if paste = a.do(t, "GET", k.api+"/get/"+id, nil).ok(t, http.StatusOK)["paste"].(map[string]any); paste["visibility"] != "public" || paste["expiresAt"] == nil {
			t.Errorf("changed to %v", paste)
		}
		v.submit(t, own, at+"/access", "visibility", "secret", "expiresIn", "keep").shows(t, http.StatusBadRequest, "text-visibility-error", "two</textarea>")
		other.submit(t, own, at+"/access", "visibility", "private", "expiresIn", "keep").shows(t, http.StatusNotFound)
		if used := a.used(t, k.update); used != 2 {
			t.Errorf("%s is %d", k.update, used)
		}

		// A new version begins without a text, and may be the same one.
		anew := v.open(t, at+"?new=1").shows(t, http.StatusOK, `name="title" type="text" value="notes"`).hides(t, "two")
		v.submit(t, anew, at, "content", "three", "title", "notes", "visibility", "public", "expiresIn", "keep").leads(t, page+"?done=saved")
		v.open(t, page+"?done=saved").shows(t, http.StatusOK, "Saved as a new version.", "three")
		old := v.open(t, page+"?version=1").shows(t, http.StatusOK, "two").hides(t, "Copy link")
		old.hasHeader(t, "Cache-Control", "no-store")
	}
	if used := a.used(t, "pastes.get") + a.used(t, "pasteLite.get"); used != 4 {
		t.Errorf("%d reads are counted: those of the API alone are", used)
	}
}

// TestAnOwnerManagesWhatHasAPasswordOrBurns without the password, and without burning it.
func TestAnOwnerManagesWhatHasAPasswordOrBurns(t *testing.T) {
	i := common(t)
	v, a := i.holderOf(t, "pro")
	locked := "/p/" + a.paste(t, object{"content": "the secret", "password": "sesame", "burnAfterRead": true})
	own := v.open(t, locked+"?done=created").shows(t, http.StatusOK, "Password", "Paste created.", "data-selected", "Copy link", "doesn’t delete it").
		hides(t, "the secret", "Show and delete")
	i.page(t, "GET", locked, browser()).shows(t, http.StatusOK, "Show and delete").hides(t, "Copy link")
	v.submit(t, own, locked, "password", "wrong").shows(t, http.StatusForbidden, "Wrong password.", "Copy link")
	for range 2 { // it is still there
		v.submit(t, own, locked, "password", "sesame").shows(t, http.StatusOK, "the secret", "Copy link")
	}
	burning := "/p/" + a.paste(t, object{"content": "read once", "burnAfterRead": true})
	for range 2 {
		v.open(t, burning).shows(t, http.StatusOK, "read once", "deleted after someone else has read it")
	}
}

// TestAHeaderIsTheSameOnAllPages: with the same links and the same menu.
func TestAHeaderIsTheSameOnAllPages(t *testing.T) {
	i := common(t)
	v, a := i.holderOf(t, "free")
	header := regexp.MustCompile(`(?s)<header.*?</header>`)
	var seen []string
	for _, path := range []string{"/", "/docs", "/console", "/console/keys", "/nothing"} {
		page := v.open(t, path)
		found := strings.ReplaceAll(header.FindString(string(page.body)), ` aria-current="page"`, "")
		if !strings.Contains(found, a.email) {
			t.Errorf("%s has the header %s", path, found)
		}
		seen = append(seen, found)
	}
	if slices.Sort(seen); len(slices.Compact(seen)) != 1 {
		t.Errorf("there are several headers: %q", slices.Compact(seen))
	}
}
