package web

import (
	"regexp"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/developer"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/endpoint/endpointtest"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/pages"
	"quire.dev/services/edge/internal/render"
)

func TestTheLandingPageIsOfUseWithoutBilling(t *testing.T) {
	_, addr := startServer(t, Config{}, func(*Server) {})
	a := endpointtest.Exchange(t, addr, "GET / HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\n", 1)[0]
	if a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	for _, text := range []string{
		`action="/paste/create"`, "curl -T main.go http://" + addr, "No account needed.",
		"Limits and prices are temporarily unavailable.", "Some systems are down.",
	} {
		if !strings.Contains(a.Body, text) {
			t.Errorf("%q is not in\n%s", text, a.Body)
		}
	}
}

// TestAFormThatMayHaveBeenTakenIsShownWithItsOnce: what is sent again must be the same request.
func TestAFormThatMayHaveBeenTakenIsShownWithItsOnce(t *testing.T) {
	_, addr := startServer(t, Config{}, func(s *Server) {
		s.http.Handle("GET", "/refused/paste", func(c *fiber.Ctx) error {
			return s.refusePasteForm(&endpoint.Call{Ctx: c}, &pages.Draft{Once: c.Query("once")}, fault.New(fault.Kind(c.Query("kind")), "No."))
		})
		s.http.Handle("GET", "/refused/sign-up", func(c *fiber.Ctx) error {
			form := &console.Sign{Once: c.Query("once")}
			return s.refuseSign(&endpoint.Call{Ctx: c}, form, s.console.SignUp, fault.New(fault.Kind(c.Query("kind")), "No."))
		})
	})
	for _, test := range []struct {
		path, once string
		kind       fault.Kind
		kept       bool
	}{
		{"paste", "ABC", fault.OutcomeUnknown, true}, // its key has the hash of the form, so that it is always kept
		{"paste", "", fault.OutcomeUnknown, false},
		{"sign-up", "ABC", fault.OutcomeUnknown, true},
		{"sign-up", "ABC", fault.Unavailable, true},
		{"sign-up", "ABC", fault.IdempotencyInFlight, true},
		{"sign-up", "", fault.Unavailable, false},
		{"sign-up", "ABC", fault.IdempotencyMismatch, false}, // another address or password needs another key
		{"sign-up", "ABC", fault.EmailTaken, false},
	} {
		a := endpointtest.Exchange(t, addr, "GET /refused/"+test.path+"?once="+test.once+"&kind="+string(test.kind)+" HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]
		once := regexp.MustCompile(`name="once" value="([^"]+)"`).FindStringSubmatch(a.Body)
		if a.Status != test.kind.Status() || once == nil || (once[1] == "ABC") != test.kept {
			t.Errorf("%s %q %s: %d with %q", test.path, test.once, test.kind, a.Status, once)
		}
	}
}

func TestAFormIsReadAsABrowserWritesIt(t *testing.T) {
	form, err := parsePasteForm([]byte("content=a%0D%0Ab%0Dc%0A%2B+%C3%BC&title=&burnAfterRead=true&once=x"))
	if err != nil || form.Content != "a\nb\rc\n+ ü" || !form.BurnAfterRead || form.Once != "x" {
		t.Errorf("%+v, %v", form, err)
	}
	for body, want := range map[string]string{
		"content=%zz": httperr.CodeMalformed, "content=a;b": httperr.CodeMalformed, "content=%ff": httperr.CodeMalformed,
		"content=a&content=b": httperr.CodeInvalidField, "expires=1": httperr.CodeUnknownField, "tags=a": httperr.CodeUnknownField,
		"once=" + strings.Repeat("x", endpoint.MaxOnceBytes+1): httperr.CodeInvalidField,
	} {
		if _, err := parsePasteForm([]byte(body)); err == nil || string(endpoint.AsFault(err).Kind) != want {
			t.Errorf("%.40s: %v, want %s", body, err, want)
		}
	}
	if _, err := parsePasteForm([]byte("once=" + strings.Repeat("x", endpoint.MaxOnceBytes))); err != nil {
		t.Error(err)
	}
}

func TestThePasswordFormHasAPasswordAlone(t *testing.T) {
	if password, err := parseReveal([]byte("password=a+%C3%BC")); err != nil || password != "a ü" {
		t.Errorf("%q, %v", password, err)
	}
	if password, err := parseReveal(nil); err != nil || password != "" {
		t.Errorf("%q, %v", password, err)
	}
	for body, want := range map[string]string{
		"password=%ff": httperr.CodeMalformed, "password=%zz": httperr.CodeMalformed, "password=a&password=b": httperr.CodeInvalidField,
		"passwort=a": httperr.CodeUnknownField,
	} {
		if _, err := parseReveal([]byte(body)); err == nil || string(endpoint.AsFault(err).Kind) != want {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

// TestEveryLanguageOfTheFormIsOne holds the form's list to what the API takes and the highlighter knows.
func TestEveryLanguageOfTheFormIsOne(t *testing.T) {
	known := render.New(render.Config{}).Languages()
	for _, o := range (&pages.Draft{}).Languages() {
		if !developer.ValidLanguage(o.Value) {
			t.Errorf("%s is refused", o.Value)
		}
		if o.Value != "plaintext" && known.Name(o.Value) == "" {
			t.Errorf("%s is not known to the highlighter", o.Value)
		}
	}
}
