package scenario

import (
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// selectable is what a reader of a page can select.
func (a answer) selectable() string {
	return html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(string(a.body), ""))
}

// reads fails unless the page's text has the texts.
func (a answer) reads(t testing.TB, texts ...string) answer {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(a.selectable(), text) {
			t.Errorf("%s: %q is not in %.3000s", a.what, text, a.selectable())
		}
	}
	return a
}

// owner is somebody with a session and an API key of one account.
func (i *instance) owner(t testing.TB) (*person, account) {
	t.Helper()
	p := i.person(t)
	key := text(t, p.do(t, "POST", "/api/users/user/dev-key/regenerate", nil).ok(t, http.StatusOK), "apiKey")
	id := text(t, p.do(t, "GET", "/api/users/user", nil).ok(t, http.StatusOK), "account", "id")
	a := account{i: i, id: id, email: p.email, key: key}
	a.setTier(t, "pro")
	return p, a
}

// page is a page as this person's browser asks for it.
func (p *person) page(t testing.TB, method, path string, r request) answer {
	t.Helper()
	if r.header == nil {
		r = browser("Sec-Fetch-Site", "same-origin")
	}
	r.cookies = p.cookies
	return p.i.do(t, method, path, r)
}

// TestChangesThatAreOverlookedAreShown: versions are the same only where their bytes are.
func TestChangesThatAreOverlookedAreShown(t *testing.T) {
	i := common(t)
	p, a := i.owner(t)
	k := kinds()[0]
	for _, c := range []struct{ before, after, reads string }{
		{"one\ntwo", "one\ntwo\n", `\ No newline at end of file`},
		{"one\r\ntwo\r\n", "one\ntwo\n", "Only line endings differ, on 2 lines: CR LF before, LF after."},
		{"\ufeffone\n", "one\n", "A byte order mark (BOM) was removed at the start."},
		{"one\n", "one \n", "1 line changed only in whitespace."},
		{"caf\u00e9\n", "cafe\u0301\n", "1 line changed only in characters that look alike"},
	} {
		id := k.make(t, a, object{"content": c.before, "visibility": "private", "language": "markdown"})
		a.do(t, "PUT", k.base+"update/"+id, object{"content": c.after}).ok(t, http.StatusOK)
		for _, view := range []string{"unified", "split"} {
			p.page(t, "GET", k.page+id+"/diff?view="+view, request{}).shows(t, http.StatusOK, `class="diff`).reads(t, c.reads).
				hides(t, "The versions have the same content.")
		}
	}
}

func TestVersionsAndChangesAreShownToTheirOwnerOnly(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		i := common(t)
		p, a := i.owner(t)
		other := i.person(t)
		id := k.make(t, a, object{"content": "one\ntwo\nthree <b>\n", "title": "Overture <title>", "visibility": "public", "language": "text"})
		path := k.page + id
		for _, update := range []object{{"content": "one\n2\nthree <b>\n"}, {"content": "one\n2\nthree <b>\nfour\n", "title": "second"}} {
			a.do(t, "PUT", k.base+"update/"+id, update).ok(t, http.StatusOK)
		}
		p.page(t, "GET", path, request{}).shows(t, http.StatusOK, `href="`+path+`/versions"`).reads(t, "four")
		p.page(t, "GET", path+"/versions", request{}).
			shows(t, http.StatusOK, path+"?version=1", path+"?version=2", path+"?version=3", "Overture &lt;title&gt;", path+"/diff?from=1&amp;to=2").
			hides(t, "<title>Overture", "?version=4").hasHeader(t, "Cache-Control", "no-store")
		p.page(t, "GET", path+"/versions?below=2", request{}).shows(t, http.StatusOK, "?version=1").hides(t, "?version=2\"")
		p.page(t, "GET", path+"?version=1", request{}).shows(t, http.StatusOK, "version 1", "Current version").reads(t, "one\ntwo\nthree <b>\n").
			hides(t, path+"/raw")
		unified := p.page(t, "GET", path+"/diff?from=1&to=3", request{}).shows(t, http.StatusOK, `<tr class="gone">`, `<tr class="new">`, "Overture &lt;title&gt;").
			hides(t, "three <b>", "compared here")
		unified.reads(t, "two", "four", "2 lines added", "1 line removed")
		p.page(t, "GET", path+"/diff?from=1&to=3&view=split", request{}).shows(t, http.StatusOK, `<td class="text gone">`, `<td class="text new">`)
		p.page(t, "GET", path+"/diff", request{}).shows(t, http.StatusOK, "version=2", "version=3").reads(t, "1 line added", "0 lines removed")
		p.page(t, "GET", path+"/diff?from=2&to=2", request{}).shows(t, http.StatusOK, "The versions have the same content.")
		p.page(t, "GET", path+"/diff?from=x", request{}).shows(t, http.StatusBadRequest)
		for _, missing := range []string{"?version=4", "?version=0", "?version=x", "/diff?from=1&to=9", "/versions?below=x", "/versions?below=1"} {
			p.page(t, "GET", path+missing, request{}).shows(t, http.StatusNotFound).hides(t, "three")
		}
		for _, hidden := range []string{"/versions", "?version=1", "?version=2", "/diff?from=1&to=3", "/diff"} {
			i.page(t, "GET", path+hidden, browser()).shows(t, http.StatusNotFound).hides(t, "three", "Overture")
			other.page(t, "GET", path+hidden, request{}).shows(t, http.StatusNotFound).hides(t, "three", "Overture")
		}
		other.page(t, "GET", path, request{}).shows(t, http.StatusOK).hides(t, "/versions")
		p.page(t, "GET", k.page+"000000000000/versions", request{}).shows(t, http.StatusNotFound)
		if used := a.used(t, k.get); used != 0 {
			t.Errorf("pages were counted: %d", used)
		}
	})
}

func TestAnOwnerSeesTheirOwnPastes(t *testing.T) {
	i := common(t)
	p, a := i.owner(t)
	private := "/p/" + a.paste(t, object{"content": "only mine", "visibility": "private"})
	p.page(t, "GET", private, request{}).shows(t, http.StatusOK).reads(t, "only mine").hides(t, private+"/raw")
	i.person(t).page(t, "GET", private, request{}).shows(t, http.StatusNotFound)

	burning := "/p/" + a.paste(t, object{"content": "still there", "burnAfterRead": true})
	for range 2 {
		p.page(t, "GET", burning, request{}).shows(t, http.StatusOK).reads(t, "still there")
	}
	i.page(t, "POST", burning, browser()).shows(t, http.StatusOK, "now deleted").reads(t, "still there")
	p.page(t, "GET", burning, request{}).shows(t, http.StatusNotFound)
}

func TestChangesOfATextWithAPassword(t *testing.T) {
	i := common(t)
	p, a := i.owner(t)
	id := a.paste(t, object{"content": "before", "password": "right"})
	a.do(t, "PUT", "/api/dev/pastes/update/"+id, object{"content": "after"}).ok(t, http.StatusOK)
	form := func(password string) request {
		r := browser("Sec-Fetch-Site", "same-origin", "Content-Type", "application/x-www-form-urlencoded")
		r.body = "password=" + password
		return r
	}
	for _, path := range []string{"/p/" + id + "/diff?from=1&to=2&view=split", "/p/" + id + "?version=1"} {
		asked := p.page(t, "GET", path, request{}).shows(t, http.StatusOK, `type="password"`).hides(t, ">before<")
		action := regexp.MustCompile(`action="(/[pq]/[^"]*)"`).FindStringSubmatch(string(asked.body))
		if action == nil || !strings.Contains(html.UnescapeString(action[1]), "=1") {
			t.Fatalf("the form leads to %q", action)
		}
		path = html.UnescapeString(action[1])
		p.page(t, "POST", path, form("wrong")).shows(t, http.StatusForbidden, "Wrong password.").hides(t, ">before<")
		p.page(t, "POST", path, form("right")).shows(t, http.StatusOK).reads(t, "before")
		i.page(t, "POST", path, form("right")).shows(t, http.StatusNotFound)
	}
	p.page(t, "GET", "/p/"+id+"/versions", request{}).shows(t, http.StatusOK, "?version=1")
}

func TestLargeVersionsAreNotCompared(t *testing.T) {
	i := common(t)
	p, a := i.owner(t)
	line := strings.Repeat("x", 1023) + "\n"
	id := a.paste(t, object{"content": strings.Repeat(line, 1024)})
	update := func(content string) {
		a.do(t, "PUT", "/api/dev/pastes/update/"+id, object{"content": content}).ok(t, http.StatusOK)
	}
	update(strings.Repeat(line, 1023) + "y\n")
	p.page(t, "GET", "/p/"+id+"/diff", request{}).shows(t, http.StatusOK, `<tr class="new">`)
	update(strings.Repeat(line, 1024) + "y")
	p.page(t, "GET", "/p/"+id+"/diff", request{}).shows(t, http.StatusOK, "be compared")
	update(strings.Repeat("\n", 20_000))
	update(strings.Repeat("\n", 19_999) + "x")
	p.page(t, "GET", "/p/"+id+"/diff", request{}).shows(t, http.StatusOK, `<tr class="new">`)
	update(strings.Repeat("\n", 20_001))
	p.page(t, "GET", "/p/"+id+"/diff", request{}).shows(t, http.StatusOK, "be compared")
}

func TestMarkdownAndSeparatedValuesAreShownRendered(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	const markdown, values = "# Heading\n\nsome *text* <script>x</script> [l](https://example.com)\n", "name,count\n<b>,2\n"
	for _, c := range []struct {
		language, content string
		rendered          []string
	}{
		{"markdown", markdown, []string{`<h2 id="md-heading">Heading</h2>`, "<em>text</em>", `rel="nofollow noopener noreferrer ugc"`}},
		{"md", markdown, []string{`<h2 id="md-heading">Heading</h2>`}},
		{"csv", values, []string{`<th scope="col">name</th>`, "<td>&lt;b&gt;</td>"}},
		{"tsv", strings.ReplaceAll(values, ",", "\t"), []string{`<th scope="col">name</th>`, "<td>&lt;b&gt;</td>"}},
	} {
		path := "/p/" + a.paste(t, object{"content": c.content, "language": c.language})
		source := strings.SplitAfter(c.content, "\n")[0]
		for _, view := range []string{"", "?view=rendered", "?view=x&utm_source=y"} {
			i.page(t, "GET", path+view, browser()).shows(t, http.StatusOK, append(c.rendered, path+"?view=source")...).hides(t, "<script>x", "<b>", `id="L1"`)
		}
		i.page(t, "GET", path+"?view=source", browser()).shows(t, http.StatusOK, path+"?view=rendered", `id="L1"`).hides(t, append(c.rendered, "<script>x", "<b>")...).
			reads(t, source)
		burning := "/p/" + a.paste(t, object{"content": c.content, "language": c.language, "burnAfterRead": true})
		i.page(t, "POST", burning, browser()).shows(t, http.StatusOK, append(c.rendered, `id="L1"`)...).hides(t, "?view=").reads(t, source)
	}
	large := "/p/" + a.paste(t, object{"content": "# x\n" + strings.Repeat("text\n", 60<<10), "language": "markdown"})
	i.page(t, "GET", large, browser()).shows(t, http.StatusOK, "Too large or too complex", `id="L1"`).hides(t, "<h2 id=")
}

// A burnt text is shown once, so that all of it is.
func TestABurntTextOfManyLinesIsShownWhole(t *testing.T) {
	i := common(t)
	content := strings.Repeat("line\n", 30_000) + "the end"
	path := "/p/" + i.account(t, "pro").paste(t, object{"content": content, "burnAfterRead": true})
	i.page(t, "POST", path, browser()).shows(t, http.StatusOK).hides(t, "Only the beginning").reads(t, content)
}

func TestPicturesPDFAndTextsOfFilesAreShown(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	png, err := base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
	if err != nil {
		t.Fatal(err)
	}
	const pdf, evil, svg = "%PDF-1.4\n1 0 obj\n", "<html><script>alert(1)</script>", `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`
	big := strings.Repeat("text\n", 53_000)
	for _, c := range []struct {
		name, contentType, content string
		shows                      []string
		hides                      []string
	}{
		{"a.png", "image/png", string(png), []string{`<img src="%s/raw" alt="a.png">`}, nil},
		{"a.svg", "image/svg+xml", svg, []string{`<img src="%s/raw" alt="a.svg">`}, []string{"onload"}},
		{"a.avif", "image/avif", "\x00\x00\x00\x20ftypavif\x00", []string{`<img src="%s/raw"`}, nil},
		{"a.pdf", "application/pdf; x=y", pdf, []string{`<summary>Show the PDF</summary><iframe src="%s/view" title="a.pdf" loading="lazy"`}, []string{"sandbox="}},
		{"evil.png", "image/png", evil, []string{`id="L1"`}, []string{"<img", "<script>alert"}},
		{"evil.pdf", "application/pdf", evil, nil, []string{"<iframe", "<script>alert"}},
		{"evil.svg", "image/svg+xml", evil, nil, []string{"<img", "<script>alert"}},
		{"png.html", "text/html", string(png), nil, []string{"<img", "<iframe", `id="L1"`}},
		{"main.go", "application/octet-stream", "package main // <b>\n", []string{`<span class="hk">package</span>`, `id="L1"`}, []string{"<b>"}},
		{"limit.txt", "text/plain", big[:256<<10], []string{`id="L1"`}, []string{"Too large"}},
		{"larger.txt", "text/plain", big[:256<<10+1], []string{"Too large"}, []string{`id="L1"`}},
		{"latin1.txt", "text/plain", "caf\xe9", nil, []string{`id="L1"`}},
		{"binary", "text/plain", "a\x00b", nil, []string{`id="L1"`}},
	} {
		r := request{body: c.content, header: map[string]string{"Content-Type": c.contentType}}
		path := "/f/" + text(t, a.with(t, "POST", "/api/dev/files/upload?name="+c.name, r).ok(t, http.StatusCreated), "id")
		page := i.page(t, "GET", path, browser()).shows(t, http.StatusOK, path+"/raw").hides(t, c.hides...)
		for _, want := range c.shows {
			page.shows(t, http.StatusOK, strings.ReplaceAll(want, "%s", path))
		}
		raw := i.do(t, "GET", path+"/raw", browser())
		raw.hasHeader(t, "Content-Security-Policy", "sandbox; default-src 'none'")
		if !strings.HasPrefix(raw.header.Get("Content-Disposition"), "attachment") {
			t.Errorf("%s: %s", raw.what, raw.header.Get("Content-Disposition"))
		}
		view := i.do(t, "GET", path+"/view", browser())
		if c.name != "a.pdf" {
			view.fails(t, http.StatusNotFound, "not_found", "")
			continue
		}
		if view.status != http.StatusOK || string(view.body) != pdf {
			t.Errorf("%s: %d %q", view.what, view.status, view.body)
		}
		view.hasHeader(t, "Content-Type", "application/pdf")
		view.hasHeader(t, "X-Content-Type-Options", "nosniff")
		view.hasHeader(t, "Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'self' "+i.public)
		view.hasHeader(t, "Content-Disposition", "inline; filename=a.pdf")
		if policy := page.header.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-src 'self'") {
			t.Errorf("the page's policy is %s", policy)
		}
	}
}

// TestLargePagesDoNotHoldUpReads requests many large pages at a time, while metered reads continue.
func TestLargePagesDoNotHoldUpReads(t *testing.T) {
	i := common(t)
	a := i.account(t, "max")
	paths := make([]string, 0, 4)
	for _, content := range []string{
		strings.Repeat("x", 4<<20), strings.Repeat("\n", 4<<20), strings.Repeat("\x00", 4<<20), strings.Repeat("func f() { return }\n", 4<<20/20),
	} {
		paths = append(paths, "/p/"+a.paste(t, object{"content": content, "language": "go"}))
	}
	small := a.paste(t, object{"content": "small"})
	before := i.heap(t)
	var group sync.WaitGroup
	for n := range 32 {
		group.Go(func() {
			r := browser()
			r.source = newSource()
			got, err := i.try(t.Context(), "GET", paths[n%len(paths)], r)
			switch {
			case err != nil:
				t.Error(err)
			case got.status != http.StatusOK && got.status != http.StatusServiceUnavailable:
				t.Errorf("%s: %d", got.what, got.status)
			case got.status == http.StatusOK && (len(got.body) > 8<<20 || !strings.Contains(string(got.body), "Only the beginning")):
				t.Errorf("%s: %d bytes, or nothing says that they are the beginning", got.what, len(got.body))
			}
		})
	}
	for range 50 {
		a.do(t, "GET", "/api/dev/pastes/get/"+small, nil).ok(t, http.StatusOK)
	}
	group.Wait()
	if grown := i.heap(t) - before; grown > 512<<20 {
		t.Errorf("the memory has grown by %d MB", grown>>20)
	}
}

// heap is the memory that the processes of an instance have had for their heaps, in bytes.
func (i *instance) heap(t testing.TB) int64 {
	t.Helper()
	total := int64(0)
	for _, base := range i.operators() {
		_, body := plain(t, base+"/metrics")
		var value float64
		if found := regexp.MustCompile(`(?m)^go_memstats_heap_sys_bytes ([0-9.e+]+)$`).FindStringSubmatch(body); found == nil {
			t.Fatal("there is no metric of the heap")
		} else if _, err := fmt.Sscan(found[1], &value); err != nil {
			t.Fatal(err)
		}
		total += int64(value)
	}
	return total
}
