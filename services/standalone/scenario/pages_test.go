package scenario

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
)

func TestPagesShowWhatIsPublic(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		i := common(t)
		a := i.account(t, "pro")
		content := "first line\n<script>alert('x')</script>\n"
		id := k.make(t, a, object{"content": content, "title": "A <title>", "visibility": "public", "language": "html"})
		page := i.do(t, "GET", k.page+id, request{})
		if page.status != http.StatusOK || !strings.HasPrefix(page.header.Get("Content-Type"), "text/html") {
			t.Fatalf("%d %v", page.status, page.header)
		}
		if strings.Contains(string(page.body), "<script>alert") || strings.Contains(string(page.body), "A <title>") {
			t.Error("content is not escaped")
		}
		if csp := page.header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") && !strings.Contains(csp, "default-src 'self'") {
			t.Errorf("Content-Security-Policy %q", csp)
		}
		raw := i.do(t, "GET", k.page+id+"/raw", request{})
		if raw.status != http.StatusOK || string(raw.body) != content {
			t.Errorf("raw: %d %q", raw.status, raw.body)
		}
		raw.hasHeader(t, "X-Content-Type-Options", "nosniff")
		if kind := raw.header.Get("Content-Type"); !strings.HasPrefix(kind, "text/plain") {
			t.Errorf("raw is %s", kind)
		}
		part := i.do(t, "GET", k.page+id+"/raw", request{header: map[string]string{"Range": "bytes=0-4"}})
		if part.status != http.StatusPartialContent || string(part.body) != "first" {
			t.Errorf("range: %d %q", part.status, part.body)
		}
		if used := a.used(t, k.get); used != 0 {
			t.Errorf("pages were counted: %d", used)
		}
	})
}

func TestABurningPasteIsShownAfterAClickOnly(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		i := common(t)
		a := i.account(t, "pro")
		id := k.make(t, a, object{"content": "the secret content", "visibility": "unlisted", "burnAfterRead": true})
		for range 3 { // previews
			for _, method := range []string{"GET", "HEAD"} {
				got := i.do(t, method, k.page+id, request{})
				if got.status != http.StatusOK || strings.Contains(string(got.body), "the secret content") {
					t.Fatalf("%s: %d %s", method, got.status, got.body)
				}
			}
		}
		click := request{body: strings.NewReader(url.Values{}.Encode()), header: map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}}
		shown := i.do(t, "POST", k.page+id, click)
		if shown.status != http.StatusOK || !strings.Contains(string(shown.body), "the secret content") {
			t.Fatalf("after the click: %d %s", shown.status, shown.body)
		}
		if cache := shown.header.Get("Cache-Control"); !strings.Contains(cache, "no-store") {
			t.Errorf("Cache-Control %q", cache)
		}
		if again := i.do(t, "POST", k.page+id, request{header: click.header}); again.status != http.StatusNotFound {
			t.Errorf("a second click: %d", again.status)
		}
		a.do(t, "GET", k.base+"get/"+id, nil).fails(t, http.StatusNotFound, "not_found", "")
	})
}

func TestPathsForOperatorsAndReaders(t *testing.T) {
	i := common(t)
	for _, base := range i.operators() {
		for path, want := range map[string]string{"/livez": "", "/readyz": "", "/metrics": "\nquire_"} {
			if status, body := plain(t, base+path); status != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s%s: %d %.200s", base, path, status, body)
			}
		}
	}
	source, err := os.ReadFile(specificationFile)
	if err != nil {
		t.Fatal(err)
	}
	if served := i.do(t, "GET", "/docs/openapi.yaml", request{}); served.status != http.StatusOK || string(served.body) != string(source) {
		t.Errorf("what is served is not docs/openapi.yaml: %d, %d bytes", served.status, len(served.body))
	}
	for _, path := range []string{"/docs"} {
		if got := i.do(t, "GET", path, request{}); got.status != http.StatusOK || !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %d %s", path, got.status, got.header.Get("Content-Type"))
		}
	}
}

// plain gets what is no part of the API.
func plain(t testing.TB, url string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}
