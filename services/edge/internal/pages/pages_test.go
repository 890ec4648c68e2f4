package pages

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"

	"quire.dev/docs"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/render"
)

const hostile = `<script>alert("x")</script>'"><img src=x onerror=alert(1)>{{.}}`

// answerOf is what a handler answers to a GET.
func answerOf(t *testing.T, h fiber.Handler, header ...string) *http.Response {
	t.Helper()
	app := fiber.New()
	app.Get("/", h)
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := app.Test(req, -1)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func bodyOf(t *testing.T, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestWhatSomebodyWroteIsNeverMarkup renders every page with hostile text in every field.
func TestWhatSomebodyWroteIsNeverMarkup(t *testing.T) {
	p := New()
	doc := &event.Document{
		Id: hostile, Title: hostile, Visibility: uint32(event.Public), Language: hostile, Tags: []string{hostile}, ContentType: hostile, CreatedMs: 1,
		Content: &event.Content{Inline: []byte(hostile), SizeBytes: uint64(len(hostile))},
	}
	for name, h := range map[string]fiber.Handler{
		"text": func(c *fiber.Ctx) error {
			return p.Text(c, &Text{Document: doc, Lines: linesOf(hostile), Raw: hostile, Download: hostile, URL: hostile})
		},
		"burned": func(c *fiber.Ctx) error {
			return p.Text(c, &Text{Document: doc, Lines: linesOf(hostile), Burned: true, Truncated: true, Version: 1})
		},
		"ask":  func(c *fiber.Ctx) error { return p.Ask(c, Ask{Document: doc, Action: hostile, Wrong: true}) },
		"file": func(c *fiber.Ctx) error { return p.File(c, &File{Document: doc, Raw: hostile, Notice: hostile}) },
		"landing": func(c *fiber.Ctx) error {
			return p.Landing(c, 400, &Landing{URL: hostile, Checks: hostile, Draft: Draft{
				Content: hostile, Title: hostile, Language: hostile, Visibility: hostile, ExpiresIn: hostile, Once: hostile,
				Errors: map[string]string{"": hostile, "content": hostile, "title": hostile, "language": hostile},
			}})
		},
		"created": func(c *fiber.Ctx) error {
			return p.Created(c, &Created{Document: doc, URL: hostile, Path: hostile, ManageToken: hostile})
		},
		"failure": func(c *fiber.Ctx) error {
			return p.Failure(c, Failure{Status: 400, Reason: hostile, Code: hostile, RequestID: hostile})
		},
	} {
		res := answerOf(t, h)
		body := bodyOf(t, res)
		for _, markup := range []string{"<script>", "<img", "javascript:", "alert(\"x\")", `'">`} {
			if strings.Contains(strings.Replace(body, "<script>", "", 1), markup) { // but for the script in the head
				t.Errorf("%s: %q is in\n%s", name, markup, body)
			}
		}
		if name != "ask" && !strings.Contains(body, "&lt;script&gt;") {
			t.Errorf("%s does not show the text:\n%s", name, body)
		}
		checkProtected(t, name, res.Header, body)
	}
}

// checkProtected holds a page to its headers: the policy allows the page's own style sheets by hash, its scripts by a nonce,
// and nothing else that runs or comes from elsewhere.
func checkProtected(t *testing.T, name string, header http.Header, body string) {
	t.Helper()
	policy := header.Get("Content-Security-Policy")
	directives := make(map[string]string)
	for directive := range strings.SplitSeq(policy, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(directive), " ")
		directives[key] = value
	}
	for key, want := range map[string]string{
		"default-src": "'none'", "base-uri": "'none'", "form-action": "'self'", "frame-ancestors": "'none'", "img-src": "'self'",
	} {
		if directives[key] != want {
			t.Errorf("%s: %s is %q in the policy, want %q", name, key, directives[key], want)
		}
	}
	styles := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindAllStringSubmatch(body, -1)
	if len(styles) == 0 || len(styles) != len(strings.Fields(directives["style-src"])) {
		t.Errorf("%s: %d style sheets, allowed are %s", name, len(styles), directives["style-src"])
	}
	for _, style := range styles {
		sum := sha256.Sum256([]byte(style[1]))
		if !strings.Contains(directives["style-src"], "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") {
			t.Errorf("%s: a style sheet is not allowed by %s", name, policy)
		}
	}
	scripts := regexp.MustCompile(`(?s)(<script[^>]*>)(.*?)</script>`).FindAllStringSubmatch(body, -1)
	own := regexp.MustCompile(`^<script src="/assets/[a-z]+\.[0-9a-f]{16}\.js" nonce="([A-Z2-7]{26})" defer>$`)
	allowed := strings.Fields(directives["script-src"])
	if len(scripts) < 2 || len(allowed) != 2 {
		t.Fatalf("%s: %d scripts with the policy %s", name, len(scripts), policy)
	}
	for i, script := range scripts {
		if i == 0 { // in the head
			if sum := sha256.Sum256([]byte(script[2])); script[1] != "<script>" || allowed[0] != "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'" {
				t.Errorf("%s: %s with the policy %s", name, script[0], policy)
			}
			continue
		}
		if m := own.FindStringSubmatch(script[1]); m == nil || script[2] != "" || allowed[1] != "'nonce-"+m[1]+"'" {
			t.Errorf("%s: %s with the policy %s", name, script[0], policy)
		}
	}
	bare := regexp.MustCompile(`="[^"]*"`).ReplaceAllString(body, `=""`)
	if handler := regexp.MustCompile(`<[a-z][^>]*\s(on[a-z]+|style)=`).FindString(bare); handler != "" {
		t.Errorf("%s has what its policy forbids: %s", name, handler)
	}
	for field, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "X-Frame-Options": "DENY",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		"Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
		"Cache-Control":      "no-store", "Content-Type": "text/html; charset=utf-8",
	} {
		if got := header.Get(field); got != want {
			t.Errorf("%s: %s is %q, want %q", name, field, got, want)
		}
	}
}

// linesOf is a text as its page gets it.
func linesOf(text string) *render.Text {
	return render.New(render.Config{}).Text(context.Background(), text, "html")
}

func TestATextIsWhatItsLinesHave(t *testing.T) {
	p := New()
	for _, text := range []string{"\n\nx", "a\n\n  b\n", "\tx"} {
		body := bodyOf(t, answerOf(t, func(c *fiber.Ctx) error {
			return p.Text(c, &Text{Document: &event.Document{}, Lines: linesOf(text)})
		}))
		_, inner, _ := strings.Cut(body, `<code id="text">`)
		inner, _, _ = strings.Cut(inner, "</code></pre>")
		if got := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(inner, ""); got != strings.TrimSuffix(text, "\n")+"\n" {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
}

func TestOnlyTextsThatStayPublicHaveACard(t *testing.T) {
	p := New()
	for name, tc := range map[string]struct {
		doc  *event.Document
		card bool
	}{
		"public":   {&event.Document{Visibility: uint32(event.Public), Title: "a \u202ename", Language: "go"}, true},
		"unlisted": {&event.Document{Visibility: uint32(event.Unlisted)}, false},
		"password": {&event.Document{Visibility: uint32(event.Public), PasswordHash: []byte("x")}, false},
		"burning":  {&event.Document{Visibility: uint32(event.Public), BurnAfterRead: true}, false},
	} {
		body := bodyOf(t, answerOf(t, func(c *fiber.Ctx) error {
			return p.Text(c, &Text{Document: tc.doc, Lines: linesOf("x"), URL: "https://q.example/p/x"})
		}))
		for _, part := range []string{`<meta property="og:`, `<meta name="twitter:`, `<link rel="canonical"`, `<meta name="description"`} {
			if strings.Contains(body, part) != tc.card {
				t.Errorf("%s: %s is there: %v", name, part, !tc.card)
			}
		}
		if strings.Contains(body, `<meta name="robots" content="noindex">`) == tc.card {
			t.Errorf("%s: search engines may keep it: %v", name, !tc.card)
		}
		if tc.card && !strings.Contains(body, `<meta property="og:title" content="a ⟨U&#43;202E⟩name">`) {
			t.Errorf("%s: the card's title is not that of the text, with what can't be seen", name)
		}
	}
}

func TestSizesAndDates(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 bytes", 1: "1 byte", 1023: "1023 bytes", 1024: "1.0 KB", 1536: "1.5 KB", 50 << 20: "50.0 MB"} {
		if got := Size(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	if got := dateText(1_795_226_580_000); got != "21 November 2026, 02:03 UTC" || dateText(0) != "" {
		t.Error(got)
	}
}

func TestTheDescriptionsAreServed(t *testing.T) {
	p := New()
	for _, d := range []struct {
		handle fiber.Handler
		source []byte
	}{{p.OpenAPI, docs.API()}, {p.PagesOpenAPI, docs.Pages()}} {
		res := answerOf(t, d.handle)
		if body := bodyOf(t, res); res.StatusCode != 200 || body != string(d.source) || !strings.HasPrefix(res.Header.Get("Content-Type"), "application/yaml") {
			t.Errorf("%d %v %.100s", res.StatusCode, res.Header, body)
		}
		again := answerOf(t, d.handle, "If-None-Match", res.Header.Get("ETag"))
		if body := bodyOf(t, again); again.StatusCode != 304 || body != "" || again.Header.Get("ETag") != res.Header.Get("ETag") {
			t.Errorf("%d %v", again.StatusCode, again.Header)
		}
	}
}

// A comparison that took too long is a page like one of versions that are too large.
func TestVersionsThatWereNotComparedArePages(t *testing.T) {
	p := New()
	doc := &event.Document{Id: "a", Title: "a", Version: 2, Content: &event.Content{}}
	for shown, want := range map[*Changes]string{
		{From: doc, To: doc}:                                   "could not be compared in time",
		{From: doc, To: doc, TooLarge: true}:                   "can’t be compared here",
		{From: doc, To: doc, Diff: &render.Diff{Same: true}}:   "The versions have the same content",
		{From: doc, To: doc, Diff: &render.Diff{HTML: "<i>x"}}: "<i>x",
	} {
		res := answerOf(t, func(c *fiber.Ctx) error { return p.Changes(c, shown) })
		if body := bodyOf(t, res); res.StatusCode != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%d, and not %q in\n%s", res.StatusCode, want, body)
		}
	}
}

func TestCreditsAreRoundedForPeople(t *testing.T) {
	for micros, want := range map[uint64]string{
		0: "0", 1: "0.000001", 500: "0.0005", 1234: "0.0012", 9_949: "0.0099", 9_951: "0.01", 70_000: "0.07", 75_300: "0.075", 99_499: "0.099", 99_500: "0.1",
		100_000: "0.10", 125_000: "0.13", 500_000: "0.50", 994_999: "0.99", 995_000: "1", 12_500_000: "12.50", 1_234_567_890_000: "1,234,567.89", 1 << 60: "1,152,921,504,606.85",
	} {
		if got := Credits(micros); got != want {
			t.Errorf("%d: %s, want %s", micros, got, want)
		}
	}
}
