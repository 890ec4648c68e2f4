package scenario

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// editorForm is a request as the form around an editor sends it; for its script if accept is "application/json".
func editorForm(accept string, fields ...string) request {
	values := url.Values{"visibility": {"unlisted"}, "once": {"x"}} // other fields of the form
	for n := 0; n+1 < len(fields); n += 2 {
		values.Set(fields[n], fields[n+1])
	}
	r := browser("Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin")
	if accept != "" {
		r.header["Accept"] = accept
	}
	r.body, r.source = strings.NewReader(values.Encode()), newSource()
	return r
}

const forScript = "application/json"

func TestAnUnsavedTextIsPreviewed(t *testing.T) {
	i := common(t)
	for name, test := range map[string]struct {
		fields []string
		shows  []string
	}{
		"Markdown by its language": {[]string{"content", "# Hi\r\n\r\n<b>&</b>\r\n", "language", "markdown"}, []string{`<div class="view markdown"><h2 id="md-hi">Hi</h2>`, "&lt;b&gt;&amp;&lt;/b&gt;"}},
		"Markdown by its title":    {[]string{"content", "# Hi\n", "title", "notes.md", "language", "auto"}, []string{`<h2 id="md-hi">Hi</h2>`}},
		"a table":                  {[]string{"content", "a\tb\n1\t2\n", "title", "x.tsv"}, []string{`<div class="view table"`, "<table>"}},
		"a program":                {[]string{"content", "package main\n\nfunc main() {}\n"}, []string{`<span class="hk">package</span>`}},
		"plain text":               {[]string{"content", "<script>"}, []string{"&lt;script&gt;"}},
		"nothing":                  {[]string{"content", ""}, []string{`class="lines"`}},
	} {
		t.Run(name, func(t *testing.T) {
			i.page(t, "POST", "/editor/preview", editorForm("", test.fields...)).shows(t, http.StatusOK, append(test.shows, "This is a preview. Nothing is saved yet.")...)
			html := text(t, i.do(t, "POST", "/editor/preview", editorForm(forScript, test.fields...)).ok(t, http.StatusOK), "html")
			for _, part := range test.shows {
				if !strings.Contains(html, part) {
					t.Errorf("%q lacks %q", html, part)
				}
			}
			if strings.Contains(html, "<!doctype") || strings.Contains(html, "<script") {
				t.Errorf("%q", html)
			}
		})
	}
}

func TestTheEditorIsToldTheLanguage(t *testing.T) {
	i := common(t)
	for _, test := range []struct{ title, content, language, name string }{
		{"main.go", "", "go", "Go"},
		{"cities.tsv", "", "tsv", "TSV"},
		{"", "#!/bin/sh\nls\n", "bash", "Bash"},
		{"README.md", "x", "markdown", "Markdown"},
		{"My notes", "Hello.\n", "plaintext", "Plain text"},
		{"", "", "plaintext", "Plain text"},
	} {
		found := i.do(t, "POST", "/editor/language", editorForm(forScript, "title", test.title, "content", test.content)).ok(t, http.StatusOK)
		if found["language"] != test.language || found["name"] != test.name {
			t.Errorf("%q, %q: %v", test.title, test.content, found)
		}
	}
}

func TestAPreviewHasALimitAndIsForOurPages(t *testing.T) {
	i := common(t)
	for _, path := range []string{"/editor/preview", "/editor/language"} {
		i.do(t, "POST", path, editorForm(forScript, "content", strings.Repeat("é", 128<<10))).ok(t, http.StatusOK)
		i.do(t, "POST", path, editorForm(forScript, "content", strings.Repeat("é", 128<<10)+"x")).fails(t, http.StatusRequestEntityTooLarge, "too_large", "The preview is limited to 256 KB of text.")
		i.do(t, "POST", path, editorForm(forScript, "content", "\xff")).fails(t, http.StatusBadRequest, "malformed", "")
		other := editorForm(forScript, "content", "x")
		other.header["Sec-Fetch-Site"] = "cross-site"
		i.do(t, "POST", path, other).fails(t, http.StatusForbidden, "cross_origin", "")
		typed := editorForm(forScript, "content", "x")
		typed.header["Content-Type"] = "text/plain"
		i.do(t, "POST", path, typed).fails(t, http.StatusUnsupportedMediaType, "unsupported_media_type", "")
	}
}

// TestFormsDetectTheLanguage: every form that creates or edits a text stores the language that is detected.
func TestFormsDetectTheLanguage(t *testing.T) {
	i := common(t)
	const program = "package main\r\n\r\nfunc main() {\r\n}\r\n"
	v, a := i.holderOf(t, "pro")
	language := func(api, id string) any {
		return at(t, a.do(t, "GET", api+"/get/"+id, nil).ok(t, http.StatusOK), "paste").(object)["language"]
	}
	landing := pasteForm(newSource(), "content", program, "language", "auto")
	landing.header["x-api-key"] = a.key
	made := i.page(t, "POST", "/paste/create", landing).shows(t, http.StatusCreated)
	if got := language("/api/dev/paste-lite", strings.TrimPrefix(made.header.Get("Location"), "/q/")); got != "go" {
		t.Errorf("the landing page's paste is %v", got)
	}
	form := v.open(t, "/console/pastes/new").shows(t, http.StatusOK, `<option value="auto" selected>Auto-detect</option>`)
	created := v.submit(t, form, "/console/pastes", "content", "Hello.\n", "title", "notes.md", "language", "auto")
	place, _, _ := strings.Cut(created.header.Get("Location"), "?")
	id := place[strings.LastIndexByte(place, '/')+1:]
	if got := language("/api/dev/pastes", id); got != "markdown" {
		t.Errorf("the console's paste is %v", got)
	}
	for title, want := range map[string]string{"notes.py": "python", "Notes": "plaintext"} { // with the same content
		page := v.open(t, "/console/pastes/"+id).shows(t, http.StatusOK)
		v.submit(t, page, "/console/pastes/"+id, "content", "Hello.\r\n", "title", title, "language", "auto").leads(t, place+"?done=saved")
		if got := language("/api/dev/pastes", id); got != want {
			t.Errorf("the edited paste %q is %v", title, got)
		}
	}
}
