package httperr

import (
	"strings"
	"testing"
)

func TestSuggestionsAreWhatWasMeant(t *testing.T) {
	known := []string{"content", "title", "language", "visibility", "expiresIn", "expiresAt", "burnAfterRead", "password", "tags", "q"}
	for name, want := range map[string]string{
		"contents": "content", "cnotent": "content", "Content": "content", "titel": "title", "lang": "language",
		"visiblity": "visibility", "expires_in": "expiresIn", "expire": "expiresIn", "burnafterreading": "burnAfterRead",
		"tag": "tags", "titleOfPaste": "title", "pass": "password", "Q": "q",
		"x": "", "": "", "ta": "", "name": "", "colour": "", "ünïcödë": "", strings.Repeat("content", 20): "",
	} {
		if want != "" {
			want = "did you mean `" + want + "`?"
		}
		if got := suggest(name, known); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestErrorsNameTheirField(t *testing.T) {
	for _, e := range []*Error{
		InvalidField("a", "is wrong"), OverLimit("a", 3, "is long"), UnknownField("a", "b"), UnknownParameter("a"), NotAnOption("a", "yess", "yes", "no"),
	} {
		if e.Field != "a" {
			t.Errorf("%v names %q", e, e.Field)
		}
	}
	if e := NotAnOption("a", "yess", "yes", "no", "perhaps"); e.Message != "a must be yes, no or perhaps." || e.Suggestion != "did you mean `yes`?" {
		t.Errorf("%+v", e)
	}
	if long := UnknownField(strings.Repeat("ä", 1000)); len(long.Field) > 100 || len(long.Message) > 200 {
		t.Errorf("a client's text is repeated at length: %+v", long)
	}
}
