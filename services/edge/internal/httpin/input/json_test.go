package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"quire.dev/services/edge/internal/httpin/httperr"
)

func codeOf(err error) string {
	var e *httperr.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return httperr.CodeInternal
}

func TestParseObjectRefusesWhatJSONLeavesToChance(t *testing.T) {
	for _, tc := range []struct {
		in   string
		code string // "": taken
	}{
		{`{}`, ""},
		{" {\"a\" : 1 , \"b\":[true,null,\"x\",{\"c\":[]}]}\r\n", ""},
		{`{"a":"\ud83d\ude00\/\b\f\n\r\t\u00e9"}`, ""},
		{`{"a":-0.5e+10}`, ""},
		{`{"":0}`, ""},
		{``, httperr.CodeMalformed},
		{`[]`, httperr.CodeMalformed},
		{`null`, httperr.CodeMalformed},
		{`{"a":1}x`, httperr.CodeMalformed},
		{`{"a":1,}`, httperr.CodeMalformed},
		{`{"a":1,"a":2}`, httperr.CodeMalformed},
		{`{"a":1,"\u0061":2}`, httperr.CodeMalformed},
		{`{"a":01}`, httperr.CodeMalformed},
		{`{"a":1.}`, httperr.CodeMalformed},
		{`{"a":+1}`, httperr.CodeMalformed},
		{`{"a":"` + "\x01" + `"}`, httperr.CodeMalformed},
		{`{"a":"\ud83d"}`, httperr.CodeMalformed},
		{`{"a":"\ude00"}`, httperr.CodeMalformed},
		{`{"a":"\ud83dA"}`, httperr.CodeMalformed},
		{`{"a":"\x"}`, httperr.CodeMalformed},
		{`{"a":"\u12"}`, httperr.CodeMalformed},
		{"{\"a\":\"\xff\"}", httperr.CodeMalformed},
		{`{"a":tru}`, httperr.CodeMalformed},
		{`{"a" 1}`, httperr.CodeMalformed},
		{`{a:1}`, httperr.CodeMalformed},
		{`{"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, httperr.CodeMalformed},
		{`{"bad":1}`, httperr.CodeUnknownField},
		{`{"bad":1,`, httperr.CodeMalformed},
	} {
		err := ParseObject([]byte(tc.in), func(name string, _ Value) error {
			if name == "bad" {
				return httperr.UnknownField(name)
			}
			return nil
		})
		if err == nil && tc.code != "" || err != nil && codeOf(err) != tc.code {
			t.Errorf("%q: %v, want %q", tc.in, err, tc.code)
		}
	}
}

func FuzzParseObjectAgreesWithEncodingJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":"b","c":[1,"x",true,null]}`, `{"a":"\ud83d\ude00"}`, `{"a":"\ud83d"}`, `{"a":1e5}`, `{"a":{"b":{}}}`, "{\"a\":\"\xff\"}", `{"a":1}{`, `{"\u0061":1,"a":2}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want map[string]any
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber() // a number may be larger than a float64
		wantErr := decoder.Decode(&want)
		if wantErr == nil && !json.Valid(data) {
			wantErr = errors.New("more than one value")
		}
		got := map[string]any{}
		err := ParseObject(bytes.Clone(data), func(name string, v Value) error {
			if v.Kind == String {
				got[name] = string(v.Text)
			}
			return nil
		})
		if err != nil {
			return // it rejects more: duplicates, surrogates, depth
		}
		if wantErr != nil {
			t.Fatalf("%q was taken; encoding/json: %v", data, wantErr)
		}
		for name, v := range got {
			if v != want[name] {
				t.Errorf("%q: %q is %q, want %q", data, name, v, want[name])
			}
		}
	})
}
