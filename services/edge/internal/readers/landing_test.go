package readers

import (
	"regexp"
	"strings"
	"testing"

	"quire.dev/pkg/blob"
	"quire.dev/services/edge/internal/contents"
	"quire.dev/services/edge/internal/developer"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/endpoint/endpointtest"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/kind"
	"quire.dev/services/edge/internal/pages"
	"quire.dev/services/edge/internal/render"
)

// TestAFormThatMayHaveBeenTakenIsShownWithItsOnce: what is sent again must be the same request. Its key has the hash of the form, so that
// it is always kept.
func TestAFormThatMayHaveBeenTakenIsShownWithItsOnce(t *testing.T) {
	edge := endpointtest.New(t, endpoint.Config{})
	s := newForTest(edge, nil)
	addr := edge.Serve(t, endpoint.Row{Path: "/refused", Rules: endpoint.OwnQuery, Handle: func(c *endpoint.Call) error {
		return s.refusePasteForm(c, &pages.Draft{Once: c.Query("once")}, fault.New(fault.OutcomeUnknown, "No."))
	}})
	for _, once := range []string{"ABC", ""} {
		a := endpointtest.Exchange(t, addr, "GET /refused?once="+once+" HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]
		shown := regexp.MustCompile(`name="once" value="([^"]+)"`).FindStringSubmatch(a.Body)
		if a.Status != fault.OutcomeUnknown.Status() || shown == nil || (shown[1] == "ABC") != (once != "") {
			t.Errorf("%q: %d with %q", once, a.Status, shown)
		}
	}
}

// newForTest makes the pages of an edge.
func newForTest(e *endpointtest.Edge, blobs blob.Store) *Readers {
	texts := contents.New(e.HTTP().Context(), blobs, 1, e.Logger)
	renderer := render.New(render.Config{})
	api := developer.New(e.Base, developer.Config{Partitions: 1, PasswordHashes: 1}, developer.Deps{
		Bus: e.Bus, Blobs: blobs, Contents: texts, Secret: e.Secret, Render: renderer,
	})
	return New(e.Base, Deps{Bus: e.Bus, Contents: texts, Developer: api, Pages: e.Pages, Render: renderer})
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
	if password, err := ParseReveal([]byte("password=a+%C3%BC")); err != nil || password != "a ü" {
		t.Errorf("%q, %v", password, err)
	}
	if password, err := ParseReveal(nil); err != nil || password != "" {
		t.Errorf("%q, %v", password, err)
	}
	for body, want := range map[string]string{
		"password=%ff": httperr.CodeMalformed, "password=%zz": httperr.CodeMalformed, "password=a&password=b": httperr.CodeInvalidField,
		"passwort=a": httperr.CodeUnknownField,
	} {
		if _, err := ParseReveal([]byte(body)); err == nil || string(endpoint.AsFault(err).Kind) != want {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

// TestEveryLanguageOfTheFormIsOne holds the form's list to what the API takes and the highlighter knows.
func TestEveryLanguageOfTheFormIsOne(t *testing.T) {
	known := render.New(render.Config{}).Languages()
	for _, o := range pages.Languages("") {
		if !developer.ValidLanguage(o.Value) {
			t.Errorf("%s is refused", o.Value)
		}
		if o.Value != "plaintext" && o.Value != kind.AutoLanguage && known.Name(o.Value) == "" {
			t.Errorf("%s is not known to the highlighter", o.Value)
		}
	}
}
