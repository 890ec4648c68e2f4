package scenario

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"mime/multipart"
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"
)

// holderOf is a visitor whose account has a plan, and a client with its key.
func (i *instance) holderOf(t *testing.T, tier string) (*visitor, account) {
	t.Helper()
	v, email, key := i.signUp(t)
	a := account{i: i, email: email, key: key}
	a.id = text(t, a.do(t, "GET", "/api/users/user", nil).ok(t, http.StatusOK), "account", "id")
	a.setTier(t, tier)
	return v, a
}

func TestTextsAreMadeChangedFoundAndDeletedInTheConsole(t *testing.T) {
	i := common(t)
	for name, k := range map[string]struct{ list, page, api, noun, create, update, remove, left string }{
		"pastes":       {"/console/pastes", "/p/", "/api/dev/pastes", "paste", "pastes.create", "pastes.update", "pastes.delete", "500 pastes"},
		"quick pastes": {"/console/quick", "/q/", "/api/dev/paste-lite", "quick paste", "pasteLite.create", "pasteLite.update", "pasteLite.delete", "5,000 quick pastes"},
	} {
		t.Run(name, func(t *testing.T) {
			v, a := i.holderOf(t, "pro")
			v.open(t, k.list).shows(t, http.StatusOK, "You have no "+name+" yet", k.list+"/new")
			form := v.open(t, k.list+"/new").shows(t, http.StatusOK, "This uses 1 of the "+k.left+" you have left this month.")
			refused := v.submit(t, form, k.list, "content", "kept", "language", "no language", "tags", "a,b", "title", strings.Repeat("t", 201))
			refused.shows(t, http.StatusBadRequest, "kept</textarea>", `value="a,b"`, `aria-invalid="true"`, "no language")
			v.submit(t, form, k.list, "content", "").shows(t, http.StatusBadRequest, "text-content-error")
			filled := []string{
				"content", "one\r\ntwo\r\n", "title", "Not<es", "language", "go", "tags", " red ,blue,", "visibility", "private", "expiresIn", "7d",
			}
			made := v.submit(t, form, k.list, filled...)
			place := made.header.Get("Location")
			v.submit(t, form, k.list, filled...).leads(t, place) // sent twice
			id := strings.TrimSuffix(path.Base(place), "?done=created")
			made.leads(t, k.page+id+"?done=created")
			if used := a.used(t, k.create); used != 1 {
				t.Errorf("%s is %d", k.create, used)
			}
			paste := a.do(t, "GET", k.api+"/get/"+id, nil).ok(t, http.StatusOK)["paste"].(map[string]any)
			if paste["content"] != "one\ntwo\n" || paste["title"] != "Not<es" || fmt.Sprint(paste["tags"]) != "[red blue]" || paste["visibility"] != "private" || paste["expiresAt"] == nil {
				t.Errorf("made as %v", paste)
			}

			// Two readers open and change it: the second sees what the first has written, and loses nothing.
			v.open(t, place).shows(t, http.StatusOK, "Paste created.", i.public+k.page+id, "data-selected", k.list+"/"+id, k.noun+" edits", k.page+id+"/versions")
			one := v.open(t, k.list+"/"+id).shows(t, http.StatusOK, "two\n</textarea>", `value="red, blue"`, k.noun+" edits", k.page+id+"/versions")
			stale := v.open(t, k.list+"/"+id)
			change := func(page answer, content string) answer {
				return v.submit(t, page, k.list+"/"+id, "content", content, "title", "Notes", "tags", "red", "language", "go", "visibility", "unlisted", "expiresIn", "never")
			}
			change(one, "one\ntwo and a half\n").leads(t, k.page+id+"?done=saved")
			conflict := change(stale, "one\nthree\n").shows(t, http.StatusPreconditionFailed, "three\n</textarea>", "version 2 was saved", `class="diff"`, `name="version" value="2"`)
			if used := a.used(t, k.update); used != 1 {
				t.Errorf("%s is %d", k.update, used)
			}
			change(conflict, "one\nthree\n").leads(t, k.page+id+"?done=saved")
			paste = a.do(t, "GET", k.api+"/get/"+id, nil).ok(t, http.StatusOK)["paste"].(map[string]any)
			if paste["content"] != "one\nthree\n" || fmt.Sprint(paste["version"]) != "3" || paste["visibility"] != "unlisted" || paste["expiresAt"] != nil {
				t.Errorf("changed to %v", paste)
			}
			v.open(t, k.page+id+"/versions").shows(t, http.StatusOK, "Versions of")

			v.findsContents(t, a, k.list, k.api)
			v.deletesContents(t, a, k.list, k.api, k.remove, id)

			// What was deleted while it was open is not lost.
			gone := change(one, "written in vain").shows(t, http.StatusNotFound, "written in vain</textarea>", "creates a new "+k.noun)
			v.submit(t, gone, k.list, "content", "not in vain").shows(t, http.StatusSeeOther)
		})
	}
}

// findsContents compares the search of a list with the API's results.
func (v *visitor) findsContents(t *testing.T, a account, list, api string) {
	t.Helper()
	for n := range 41 {
		a.do(t, "POST", api+"/create", object{"content": "x", "title": fmt.Sprintf("entry %02d", n), "tags": []string{"many", "a&b"}, "language": "bash", "visibility": "public"}).ok(t, http.StatusCreated)
	}
	v.open(t, list+"?q=&tag=&language=&visibility=&order=desc").shows(t, http.StatusOK, "entry 40", "entry 01", "Next page", "?tag=a%26b").hides(t, "entry 00")
	first := v.open(t, list+"?order=asc&q=entry").shows(t, http.StatusOK, "entry 00", "entry 39").hides(t, "entry 40", "Notes")
	next := strings.ReplaceAll(between(string(first.body), `<a class="button quiet" href="`, `" rel="next"`), "&amp;", "&")
	v.open(t, next).shows(t, http.StatusOK, "entry 40", "First page").hides(t, "entry 39", "Next page")
	for query, finds := range map[string]bool{"tag=many": true, "tag=other": false, "language=bash": true, "language=go&tag=many": false, "visibility=private": false, "q=Note": true} {
		page := v.open(t, list+"?"+query)
		page.shows(t, http.StatusOK)
		if strings.Contains(string(page.body), `name="ref"`) != finds || strings.Contains(string(page.body), "Nothing matches") == finds {
			t.Errorf("%s finds %v:\n%.3000s", query, !finds, page.body)
		}
	}
	v.open(t, list+"?visibility=publik").shows(t, http.StatusBadRequest, "filter-visibility-error", "Did you mean `public`?").hides(t, `name="ref"`)
	v.open(t, list+"?cursor=nonsense").shows(t, http.StatusBadRequest, "is not a nextCursor of this list")
	v.open(t, list+"?tag="+strings.Repeat("t", 33)).shows(t, http.StatusBadRequest, "filter-tag-error")
}

func between(text, before, after string) string {
	_, rest, _ := strings.Cut(text, before)
	found, _, _ := strings.Cut(rest, after)
	return found
}

// deletesContents deletes one item, and others together.
func (v *visitor) deletesContents(t *testing.T, a account, list, api, key, id string) {
	t.Helper()
	v.open(t, list+"/delete").shows(t, http.StatusOK, "Nothing is selected")
	other := a.i.account(t, "pro")
	foreign := text(t, other.do(t, "POST", api+"/create", object{"content": "x", "title": "foreign"}).ok(t, http.StatusCreated), "id")
	ask := v.open(t, list+"/delete?ref="+id+"&ref="+foreign+"&ref=000000000000&ref=nonsense&ref="+id).shows(t, http.StatusOK, "Delete this", "Notes", "This uses 1 of the").hides(t, "foreign")
	if used := a.used(t, key); used != 0 {
		t.Errorf("%s is %d before the click", key, used)
	}
	v.submit(t, ask, list+"/delete").leads(t, list+"?done=deleted")
	a.do(t, "GET", api+"/get/"+id, nil).fails(t, http.StatusNotFound, "not_found", "")
	v.submit(t, ask, list+"/delete").leads(t, list+"?done=deleted") // sent twice
	v.open(t, list+"/"+id).shows(t, http.StatusNotFound)

	var refs url.Values = map[string][]string{}
	for _, p := range a.do(t, "GET", api+"/list?tag=many&limit=3", nil).ok(t, http.StatusOK)["pastes"].([]any) {
		refs.Add("ref", p.(map[string]any)["id"].(string))
	}
	ask = v.open(t, list+"/delete?"+refs.Encode()).shows(t, http.StatusOK, "Delete all 3", "This uses 3 of the")
	v.submit(t, ask, list+"/delete").leads(t, list+"?done=deleted")
	if used := a.used(t, key); used != 4 {
		t.Errorf("%s is %d", key, used)
	}
	r := browser("Content-Type", "application/x-www-form-urlencoded")
	r.body = strings.NewReader("refs=" + foreign)
	v.send(t, "POST", list+"/delete", r).shows(t, http.StatusForbidden)
	other.do(t, "GET", api+"/get/"+foreign, nil).ok(t, http.StatusOK)
	log := v.send(t, "GET", "/api/users/user/requests?quotaKey="+key, request{header: map[string]string{}}).ok(t, http.StatusOK)["requests"].([]any)
	if len(log) < 4 {
		t.Errorf("the log of requests has %v", log)
	}
}

// TestContentOfTheConsoleIsChargedToAKey: to the one that the form names, by that key's rules.
// TestWhatWasWrittenOutlivesItsSession: a form that is sent once its reader has signed out does nothing and says so, and a text comes back.
func TestWhatWasWrittenOutlivesItsSession(t *testing.T) {
	i := common(t)
	v, a := i.holderOf(t, "pro")
	signedIn := v.cookies
	form := v.open(t, "/console/pastes/new")
	written := []string{"content", "one\r\ntwo", "title", "Not<es"}
	v.cookies = nil
	kept := v.submit(t, form, "/console/pastes", append(written, "tags", "red", "visibility", "private", "password", "a secret")...)
	kept.shows(t, http.StatusUnauthorized, "Nothing is saved yet", "one\ntwo</textarea>", `value="Not&lt;es"`, `name="tags" value="red"`, "Enter the password again. Pages never show passwords.").hides(t, "a secret")
	v.submit(t, kept, "/console/pastes", written...).shows(t, http.StatusUnauthorized, "one\ntwo</textarea>") // again
	v.cookies = signedIn
	made := v.submit(t, kept, "/console/pastes", append(written, "password", "a secret")...).header.Get("Location")
	id := strings.TrimSuffix(path.Base(made), "?done=created")
	read := request{key: a.key, header: map[string]string{"X-Paste-Password": "a secret"}}
	paste := i.do(t, "GET", "/api/dev/pastes/get/"+id, read).ok(t, http.StatusOK)["paste"].(map[string]any)
	if paste["content"] != "one\ntwo" || paste["title"] != "Not<es" || fmt.Sprint(paste["tags"]) != "[red]" || paste["visibility"] != "private" {
		t.Errorf("made as %v", paste)
	}

	// A change, which then comes from another account, and goes on from the version that it began with.
	id = a.paste(t, object{"content": "one", "title": "Notes"})
	place := "/console/pastes/" + id
	stale := v.open(t, place)
	a.do(t, "PUT", "/api/dev/pastes/update/"+id, object{"content": "by another"}).ok(t, http.StatusOK)
	v.cookies = nil
	kept = v.submit(t, stale, place, "content", "by me").shows(t, http.StatusUnauthorized, "by me</textarea>")
	other, _ := i.holderOf(t, "pro")
	other.submit(t, kept, place, "content", "by me").shows(t, http.StatusBadRequest, "signed in to another account", "by me</textarea>").hides(t, "was deleted")
	v.cookies = signedIn
	v.submit(t, kept, place, "content", "by me").shows(t, http.StatusPreconditionFailed, "version 2 was saved", "by me</textarea>")

	// Forms without a text lead on to where they were.
	for from, to := range map[string]string{
		"/console/pastes/delete": "/console/pastes", "/console/keys/default/rotate": "/console/keys", "/console/spending-cap": "/console/keys",
		"/console/email": "/console/account", "/console/billing/webhooks": "/console/billing", "/console/export": "/console/export", "/console/key": "/console",
	} {
		r := browser("Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin")
		r.body = strings.NewReader("once=x")
		want := "/console/sign-in?next=" + url.QueryEscape(to) + "&unsent=1"
		if to == "/console" {
			want = "/console/sign-in?unsent=1"
		}
		i.do(t, "POST", from, r).leads(t, want)
	}
	i.visitor().open(t, "/console/sign-in?unsent=1").shows(t, http.StatusOK, "Nothing was done.")
	upload := request{body: strings.NewReader("--x--"), header: map[string]string{"Content-Type": "multipart/form-data; boundary=x", "Sec-Fetch-Site": "same-origin"}}
	i.do(t, "POST", "/console/files", upload).fails(t, http.StatusUnauthorized, "session_required", "")
	upload.header["Accept"], upload.body = "text/html", strings.NewReader("--x--")
	i.do(t, "POST", "/console/files", upload).leads(t, "/console/sign-in?next=%2Fconsole%2Ffiles&unsent=1")
}

func TestContentOfTheConsoleIsChargedToAKey(t *testing.T) {
	i := common(t)
	v, _ := i.holderOf(t, "free")
	v.open(t, "/console/pastes/new").shows(t, http.StatusOK, "The Free plan doesn’t include pastes.").hides(t, "<textarea")
	r := browser("Content-Type", "application/x-www-form-urlencoded")
	r.body = strings.NewReader("content=kept") // of a page that was open before the plan changed
	v.send(t, "POST", "/console/pastes", r).shows(t, http.StatusTooManyRequests, "kept</textarea>", "Upgrade your plan", "Create paste")

	own := func(method, path string, body any) answer {
		return v.send(t, method, path, request{header: map[string]string{}, body: body})
	}
	narrow := text(t, own("POST", "/api/users/user/keys", object{"name": "reader", "scopes": []string{"pasteLite.get"}}).ok(t, http.StatusCreated), "key", "id")
	second := text(t, own("POST", "/api/users/user/keys", object{"name": "second", "quotas": object{"pasteLite.create": 1}}).ok(t, http.StatusCreated), "key", "id")
	form := v.open(t, "/console/quick/new").shows(t, http.StatusOK, "The request counts toward this key", `value="default"`, `value="`+second+`"`).hides(t, `value="`+narrow+`"`)
	v.submit(t, form, "/console/quick", "content", "x", "key", narrow).shows(t, http.StatusBadRequest, "text-key-error")
	v.submit(t, form, "/console/quick", "content", "x", "key", "k99").shows(t, http.StatusBadRequest, "text-key-error")
	made := v.submit(t, form, "/console/quick", "content", "x", "key", second).shows(t, http.StatusSeeOther)
	refused := v.submit(t, v.open(t, "/console/quick/new"), "/console/quick", "content", "y", "key", second).
		shows(t, http.StatusTooManyRequests, "y</textarea>", "limit of 1 request")
	for _, header := range []string{"RateLimit", "RateLimit-Policy", "X-Charge-Source"} { // pages state the charge in words
		made.hasHeader(t, header, "")
		refused.hasHeader(t, header, "")
	}
	v.submit(t, v.open(t, "/console/quick/new"), "/console/quick", "content", "y").shows(t, http.StatusSeeOther)
	keys := own("GET", "/api/users/user/keys", nil).ok(t, http.StatusOK)["keys"].([]any)
	used := map[string]string{}
	for _, k := range keys {
		k := k.(map[string]any)
		used[k["id"].(string)] = fmt.Sprint(k["usage"])
	}
	for _, id := range []string{"default", second} {
		if !strings.Contains(used[id], "pasteLite.create") || !strings.Contains(used[id], "used:1") {
			t.Errorf("%s has used %s", id, used[id])
		}
	}

	// A key that has changed since the page was opened; none at all.
	form = v.open(t, "/console/quick/new")
	own("POST", "/api/users/user/keys/default/rotate", object{"overlap": "1h"}).ok(t, http.StatusOK)
	v.submit(t, form, "/console/quick", "content", "z", "key", "default").shows(t, http.StatusSeeOther)
	for _, k := range own("GET", "/api/users/user/keys", nil).ok(t, http.StatusOK)["keys"].([]any) {
		if k := k.(map[string]any); k["revokedAt"] == nil {
			own("DELETE", "/api/users/user/keys/"+k["id"].(string), nil).ok(t, http.StatusOK)
		}
	}
	v.open(t, "/console/quick/new").shows(t, http.StatusOK, "None of your API keys can do this.", `href="/console/keys"`)
	v.submit(t, form, "/console/quick", "content", "w").shows(t, http.StatusBadRequest, "w</textarea>", "None of your active API keys may do this.")
}

// TestATextIsChangedAsItWas: a form changes nothing that its reader has not touched.
func TestATextIsChangedAsItWas(t *testing.T) {
	i := common(t)
	v, a := i.holderOf(t, "pro")
	for name, content := range map[string]string{"line ends": "a\r\nb\rc\n", "a line first": "\n\na", "no form can have it": "a\x00b", "large": strings.Repeat("lines & <tags>\n", 70_000)} {
		t.Run(name, func(t *testing.T) {
			id := a.paste(t, object{"content": content, "title": "before", "burnAfterRead": true})
			page := v.open(t, "/console/pastes/"+id).shows(t, http.StatusOK)
			fields := []string{"title", "after"}
			if strings.Contains(content, "\x00") {
				page.shows(t, http.StatusOK, "only be edited through the API").hides(t, "<textarea")
			} else {
				fields = append(fields, "content", strings.ReplaceAll(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(content), "\n", "\r\n"))
			}
			v.submit(t, page, "/console/pastes/"+id, fields...).leads(t, "/p/"+id+"?done=saved")
			paste := a.do(t, "GET", "/api/dev/pastes/get/"+id, nil).ok(t, http.StatusOK)["paste"].(map[string]any)
			if paste["content"] != content || paste["title"] != "after" || paste["burnAfterRead"] != false {
				t.Errorf("%.200q", paste)
			}
		})
	}
	// The text of one with a password is for who knows it. All else can be changed without.
	id := a.paste(t, object{"content": "secret text", "password": "sesame"})
	at := "/console/pastes/" + id
	page := v.open(t, at).shows(t, http.StatusOK, at+"/open").hides(t, "secret text", "<textarea")
	v.submit(t, page, at, "title", "named").leads(t, "/p/"+id+"?done=saved")
	page = v.open(t, at)
	v.submit(t, page, at+"/open", "password", "wrong").shows(t, http.StatusForbidden, "Wrong password.").hides(t, "secret text")
	page = v.submit(t, page, at+"/open", "password", "sesame").shows(t, http.StatusOK, "secret text</textarea>")
	v.submit(t, page, at, "content", "secret text", "removePassword", "on").leads(t, "/p/"+id+"?done=saved")
	paste := a.do(t, "GET", "/api/dev/pastes/get/"+id, nil).ok(t, http.StatusOK)["paste"].(map[string]any)
	if paste["content"] != "secret text" || paste["passwordProtected"] != false {
		t.Errorf("%v", paste)
	}
	other := i.account(t, "pro")
	v.open(t, "/console/pastes/"+other.paste(t, object{"content": "x", "visibility": "public"})).shows(t, http.StatusNotFound)
	v.open(t, "/console/pastes/nonsense").shows(t, http.StatusNotFound)
}

func TestFilesAreUploadedFoundAndDeletedInTheConsole(t *testing.T) {
	i := common(t)
	v, a := i.holderOf(t, "pro")
	page := v.open(t, "/console/files").shows(t, http.StatusOK, "You have no files yet", "Each file uses 1 of the 100 uploads", `enctype="multipart/form-data"`)
	once := between(string(page.body), `name="once" value="`, `"`)
	upload := func(accept string, fields [][2]string, name string, content []byte) answer {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		for _, field := range fields {
			if err := form.WriteField(field[0], field[1]); err != nil {
				t.Fatal(err)
			}
		}
		part, err := form.CreateFormFile("file", name)
		if err == nil {
			_, err = part.Write(content)
		}
		if err = errors.Join(err, form.Close()); err != nil {
			t.Fatal(err)
		}
		r := request{header: map[string]string{"Accept": accept, "Content-Type": form.FormDataContentType()}, body: bytes.NewReader(body.Bytes())}
		return v.send(t, "POST", "/console/files", r)
	}
	const byBrowser, byScript = "text/html", "application/json"
	content := []byte("hello files")
	fields := [][2]string{{"account", a.id}, {"once", once}, {"visibility", "private"}, {"expiresIn", "7d"}}
	place := upload(byBrowser, fields, "hello.txt", content).header.Get("Location")
	upload(byBrowser, fields, "hello.txt", content).leads(t, place) // sent twice
	stored := strings.TrimSuffix(place, "?done=uploaded")
	own := v.open(t, place).shows(t, http.StatusOK, "File uploaded.", i.public+stored, "data-selected", "private", "hello files", "/console/files/delete?ref="+path.Base(stored))
	if raw := i.do(t, "GET", html.UnescapeString(between(string(own.body), `class="button" href="`, `"`)), browser()); string(raw.body) != "hello files" {
		t.Errorf("the link to download it answers %q", raw.body)
	}
	i.page(t, "GET", stored, browser()).shows(t, http.StatusNotFound)
	sum := sha256.Sum256(content)
	v.open(t, "/console/files?q=hello").shows(t, http.StatusOK, "hello.txt", "private", hex.EncodeToString(sum[:]), "of the 99 uploads")
	v.open(t, "/console/files?q=other").shows(t, http.StatusOK, "Nothing matches").hides(t, "hello.txt")
	made := upload(byScript, [][2]string{{"account", a.id}}, "two.bin", content).ok(t, http.StatusCreated)
	if text(t, made, "sha256") != hex.EncodeToString(sum[:]) || a.used(t, "files.upload") != 2 {
		t.Errorf("%v", made)
	}
	upload(byBrowser, [][2]string{{"account", "AAAAAAAAAAA"}}, "x", content).shows(t, http.StatusBadRequest, "signed in to another account")
	upload(byBrowser, [][2]string{{"expiresIn", "1s"}}, "x", content).shows(t, http.StatusBadRequest, "upload-expiresIn-error", "hello.txt")
	upload(byBrowser, nil, "x", nil).shows(t, http.StatusBadRequest, "upload-file-error")
	upload(byBrowser, [][2]string{{"key", "k99"}}, "x", content).shows(t, http.StatusBadRequest)
	upload(byScript, [][2]string{{"colour", "red"}}, "x", content).fails(t, http.StatusBadRequest, "unknown_field", "")
	upload(byScript, [][2]string{{"key", "k99"}}, "x", content).fails(t, http.StatusBadRequest, "invalid_field", "")
	v.deletesFiles(t, a)
}

func (v *visitor) deletesFiles(t *testing.T, a account) {
	t.Helper()
	files := a.do(t, "GET", "/api/dev/files/list", nil).ok(t, http.StatusOK)["files"].([]any)
	if len(files) != 2 {
		t.Fatalf("%v", files)
	}
	var refs url.Values = map[string][]string{}
	for _, f := range files {
		refs.Add("ref", f.(map[string]any)["id"].(string))
	}
	ask := v.open(t, "/console/files/delete?"+refs.Encode()).shows(t, http.StatusOK, "Delete all 2", "hello.txt", "file deletions")
	v.submit(t, ask, "/console/files/delete").leads(t, "/console/files?done=deleted")
	if files := a.do(t, "GET", "/api/dev/files/list", nil).ok(t, http.StatusOK)["files"].([]any); len(files) != 0 || a.used(t, "files.delete") != 2 {
		t.Errorf("%v", files)
	}
}
