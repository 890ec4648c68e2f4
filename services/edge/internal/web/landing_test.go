package web

import (
	"strings"
	"testing"

	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/pages"
	"quire.dev/services/edge/internal/render"
)

func TestTheLandingPageIsOfUseWithoutBilling(t *testing.T) {
	_, addr := startServer(t, Config{}, func(*Server) {})
	a := exchange(t, addr, "GET / HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\n", 1)[0]
	if a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for _, text := range []string{
		`action="/paste/create"`, "curl -T main.go http://" + addr, "No account is needed.",
		"Limits and prices can’t be shown at the moment.", "A part does not work at the moment.",
	} {
		if !strings.Contains(a.body, text) {
			t.Errorf("%q is not in\n%s", text, a.body)
		}
	}
}

func TestAFormIsReadAsABrowserWritesIt(t *testing.T) {
	form, err := parsePasteForm([]byte("content=a%0D%0Ab%0Dc%0A%2B+%C3%BC&title=&burnAfterRead=true&once=x"))
	if err != nil || form.Content != "a\nb\rc\n+ ü" || !form.BurnAfterRead || form.Once != "x" {
		t.Errorf("%+v, %v", form, err)
	}
	for body, want := range map[string]string{
		"content=%zz": httpin.CodeMalformed, "content=a;b": httpin.CodeMalformed, "content=%ff": httpin.CodeInvalidField,
		"content=a&content=b": httpin.CodeInvalidField, "expires=1": httpin.CodeUnknownField, "tags=a": httpin.CodeUnknownField,
		"once=" + strings.Repeat("x", maxOnceBytes+1): httpin.CodeInvalidField,
	} {
		if _, err := parsePasteForm([]byte(body)); err == nil || string(asFault(err).Kind) != want {
			t.Errorf("%.40s: %v, want %s", body, err, want)
		}
	}
	if _, err := parsePasteForm([]byte("once=" + strings.Repeat("x", maxOnceBytes))); err != nil {
		t.Error(err)
	}
}

// TestEveryLanguageOfTheFormIsOne holds the form's list to what the API takes and the highlighter knows.
func TestEveryLanguageOfTheFormIsOne(t *testing.T) {
	for _, o := range (&pages.Draft{}).Languages() {
		if !validLanguage(o.Value) {
			t.Errorf("%s is refused", o.Value)
		}
		if o.Value != "plaintext" && render.LanguageName(o.Value) == "" {
			t.Errorf("%s is not known to the highlighter", o.Value)
		}
	}
}
