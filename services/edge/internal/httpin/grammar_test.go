package httpin

import (
	"bytes"
	"strings"
	"testing"
)

func TestTextHasNoControlCharacterButTabs(t *testing.T) {
	for length := range 20 {
		text := bytes.Repeat([]byte{'x'}, length)
		if !isText(text) {
			t.Errorf("%d plain bytes are no text", length)
		}
		for at := range length {
			for c := range 256 {
				text[at] = byte(c)
				if got, want := isText(text), c >= ' ' && c != 0x7f || c == '\t'; got != want {
					t.Fatalf("byte %#x at %d of %d: %v", c, at, length, got)
				}
			}
			text[at] = 'x'
		}
	}
}

// TestOnlySpacesAndTabsAreOptionalWhiteSpace, and not what bytes.TrimSpace takes for it.
func TestOnlySpacesAndTabsAreOptionalWhiteSpace(t *testing.T) {
	for in, want := range map[string]string{
		"": "", " ": "", "\t": "", "a": "a", " \t a b\t ": "a b", "a\tb": "a\tb", "\x0ba": "\x0ba", "a\x0c": "a\x0c", "\u00a0a": "\u00a0a", "a\u0085": "a\u0085",
	} {
		b := []byte(in)
		if got := trimSpaces(b); string(got) != want {
			t.Errorf("%q: %q", in, got)
		}
		if got := strings.Trim(string(b), " "); got != want {
			t.Errorf("%q is %q to one who takes off spaces", in, got)
		}
	}
}

func TestNamesAreTokens(t *testing.T) {
	for c := range 256 {
		_, _, refusal := splitField([]byte{'a', byte(c), ':', 'b'})
		token := c > ' ' && c < 0x7f && !strings.ContainsRune("\"(),/:;<=>?@[\\]{}", rune(c))
		if (refusal == "") != (token || c == ':') {
			t.Errorf("byte %#x: %q", c, refusal)
		}
	}
}

// TestNamesAndCodingsAreComparedInASCII: strings.EqualFold takes a KELVIN SIGN for a k, and a LONG S for an s.
func TestNamesAndCodingsAreComparedInASCII(t *testing.T) {
	for in, want := range map[string]bool{
		"chunked": true, "CHUNKED": true, "cHuNkEd": true, "chun\u212aed": false, "chunke": false, "chunkedd": false, "": false, "\x03hunked": false,
	} {
		if got := equalFold([]byte(in), "chunked"); got != want {
			t.Errorf("%q: %v", in, got)
		}
	}
	names := newFieldNames([]string{"Cross"})
	if names.find([]byte("cro\u017fs")) != nil || names.find([]byte("CROSS")) == nil || names.find([]byte("Host")) == nil {
		t.Error("found by a name that is none of them, or not found")
	}
}

func TestLengthsHaveDigitsAndABound(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "7": 7, "007": 7, strings.Repeat("9", 18): 999_999_999_999_999_999, "": -1, strings.Repeat("9", 19): -1, strings.Repeat("0", 19): -1,
		"+1": -1, "-1": -1, " 1": -1, "1 ": -1, "1,1": -1, "0x1": -1, "1_0": -1, "1e3": -1, "\u0661": -1,
	} {
		n, ok := parseDigits([]byte(in))
		if !ok {
			n = -1
		}
		if n != want {
			t.Errorf("%q: %d", in, n)
		}
	}
	for in, want := range map[string]int64{
		"0": 0, "f": 15, "00F": 15, strings.Repeat("f", 15): 1<<60 - 1, "1;a": 1, "1 \t;\ta\t=\t\"b;\\\"\"\t;c=d": 1, "": -1, strings.Repeat("f", 16): -1, strings.Repeat("0", 16): -1,
		"g": -1, "1g": -1, "+1": -1, "0x1": -1, " 1": -1, "1 ": -1, "1;": -1, "1;;a": -1, "1;a=": -1, "1;a=\"": -1, "1;a=\"\\\"": -1, "1 a": -1, "1,a": -1, ";a": -1,
	} {
		n, refusal := parseChunkLine([]byte(in))
		if refusal != "" {
			n = -1
		}
		if n != want {
			t.Errorf("chunk line %q: %d %s", in, n, refusal)
		}
	}
}
