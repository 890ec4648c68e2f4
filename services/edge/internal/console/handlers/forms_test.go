package handlers

import (
	"fmt"
	"strings"
	"testing"

	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/kind"
)

func TestATimeOfAFormMayLackItsSecondsAndZone(t *testing.T) {
	for text, want := range map[string]string{
		"2026-11-30T12:00": "2026-11-30T12:00:00Z", "2026-11-30T12:00:05": "2026-11-30T12:00:05Z", "2026-11-30T12:00:05.5": "2026-11-30T12:00:05.5Z",
		"2026-11-30T12:00:00+01:00": "2026-11-30T12:00:00+01:00", "2026-11-30T1:00": "2026-11-30T1:00", "2026-11-30T12:00:05,5": "2026-11-30T12:00:05,5",
		"2026-11-31T12:00": "2026-11-31T12:00", "": "",
	} {
		if got := momentOfForm(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// TestATextOfAFormHasTheFieldsThatWereFilled: browsers send every field, and "keep" is a valid password.
func TestATextOfAFormHasTheFieldsThatWereFilled(t *testing.T) {
	form := func(values ...string) *console.Form {
		f := console.CreateText(&console.Kind{Kind: kind.Pastes()}, "", "")
		f.Values = map[string]string{}
		for i := 0; i < len(values); i += 2 {
			f.Values[values[i]] = values[i+1]
		}
		return f
	}
	for name, test := range map[string]struct {
		form   *console.Form
		update bool
		want   string
	}{
		"nothing":  {form(), false, "burnAfterRead=false tags=[] title="},
		"new":      {form("content", "a\r\nb", "tags", " a,, b ", "expiresIn", "1d"), false, "burnAfterRead=false content=a\nb expiresIn=1d tags=a,b title="},
		"unedited": {form("content", "a\r\nb", console.SumField, textSum("a\nb"), "expiresIn", console.KeepExpiry), true, "burnAfterRead=false tags=[] title="},
		"edited":   {form("content", "a", console.SumField, textSum("b"), "burnAfterRead", "on", "title", "x"), true, "burnAfterRead=true content=a tags=[] title=x"},
		"password": {form("password", "keep", console.RemovePasswordField, "on"), true, "burnAfterRead=false password=keep tags=[] title="},
		"without":  {form(console.RemovePasswordField, "on"), true, "burnAfterRead=false password=null tags=[] title="},
	} {
		var got []string
		if err := textOfForm(test.form, test.update)(func(name string, v input.Value) error {
			switch v.Kind {
			case input.Null:
				got = append(got, name+"=null")
			case input.Array:
				got = append(got, fmt.Sprint(name, "=", v.Items))
			default:
				got = append(got, name+"="+string(v.Text))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(got, " "); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestAFormIsTheSameRequestWithAnotherKey: what pays, and the typed confirmation, are no part of it.
func TestAFormIsTheSameRequestWithAnotherKey(t *testing.T) {
	f := console.CreateText(&console.Kind{Kind: kind.Pastes()}, "", "")
	f.Values = map[string]string{"content": "a", console.KeyField: "k1"}
	first := hashOf(f)
	f.Values[console.KeyField] = "k2"
	if hashOf(f) != first {
		t.Error("another key makes another request")
	}
	f.Values["content"], f.Values["title"] = "", "a"
	if hashOf(f) == first {
		t.Error("another field is the same request")
	}
}
