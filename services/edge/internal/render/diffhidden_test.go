package render_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/html/atom"

	"quire.dev/services/edge/internal/render"
)

func TestADiffShowsWhatIsOverlooked(t *testing.T) {
	const (
		cr  = `<bdi class="ctl" data-c="CR">&#13;</bdi>`
		eof = `\ No newline at end of file`
	)
	named := func(char string, code int) string {
		return fmt.Sprintf(`<bdi class="cp" data-c="U+%04X">%s</bdi>`, code, char)
	}
	long := strings.Repeat("x", 3000)
	for _, c := range []struct {
		name, before, after string
		notes               []string
		html                []string
	}{
		{"newline added", "a", "a\n", []string{"The newline at the end of the file was added."}, []string{eof}},
		{"newline removed", "a\nb\n", "a\nb", []string{"The newline at the end of the file was removed."}, []string{eof}},
		{"newline removed with a change", "a\nb\n", "a\nc", []string{"The newline at the end of the file was removed."}, []string{eof}},
		{"one more newline", "a\n", "a\n\n", nil, nil},
		{"the only newline", "", "\n", nil, nil},
		{"CR LF to LF", "a\r\nb\r\n", "a\nb\n", []string{"Only line endings differ, on 2 lines: CR LF before, LF after."}, []string{"a" + `<span class="mark">` + cr}},
		{"LF to CR LF", "a\nb\n", "a\r\nb\r\n", []string{"Only line endings differ, on 2 lines: LF before, CR LF after."}, []string{cr}},
		{"one of many", "a\r\nb\r\nc\r\n", "a\r\nb\nc\r\n", []string{"Only line endings differ, on 1 line: CR LF before, LF after."}, []string{cr}},
		{"CR to LF", "a\rb\rc\n", "a\nb\nc\n", []string{"Only line endings differ, on 2 lines: CR before, LF after."}, []string{"a" + cr + "b" + cr + "c"}},
		{"mixed", "a\r\nb\nc\r", "a\nb\r\nc\n", []string{"Only line endings differ, on 3 lines: LF and CR LF and CR before, LF and CR LF after."}, []string{cr}},
		{"CR LF to LF and a change", "a\r\nb\r\nc\r\n", "a\nx\nc\n", []string{"Line endings differ, on 3 lines: CR LF before, LF after."}, []string{cr}},
		{"CR LF to LF, and no newline", "a\r\nb\r\n", "a\nb", []string{"Only line endings differ, on 1 line: CR LF before, LF after.", "The newline at the end of the file was removed."}, []string{cr, eof}},
		{"a CR more", "a\r\r\n", "a\r\n", []string{"1 line changed only in whitespace."}, []string{cr}},
		{"BOM added", "a\n", "\ufeffa\n", []string{"A byte order mark (BOM) was added at the start."}, []string{`data-c="BOM"`}},
		{"BOM removed", "\ufeff{\r\n", "{\r\n", []string{"A byte order mark (BOM) was removed at the start."}, []string{`data-c="BOM"`}},
		{"BOM and line ends", "\ufeffa\n", "a\r\n", []string{"Line endings differ, on 1 line: LF before, CR LF after.", "A byte order mark (BOM) was removed at the start."}, []string{cr, `data-c="BOM"`}},
		{"trailing space", "a\nb\n", "a \nb\n", []string{"1 line changed only in whitespace."}, []string{`a<span class="mark"> </span>`}},
		{"trailing tab", "a\n", "a\t\n", []string{"1 line changed only in whitespace."}, []string{`<bdi class="cp" data-c="HT">` + "\t"}},
		{"a blank line with spaces", "\n", "    \n", []string{"1 line changed only in whitespace."}, []string{`<span class="mark">    </span>`}},
		{"trailing space of a long line", long + "\n", long + " \n", []string{"1 line changed only in whitespace."}, []string{long + `<span class="mark"> </span>`}},
		{"tabs to spaces", "\t\tx\n", "        x\n", []string{"1 line changed only in whitespace."}, []string{`data-c="HT"`, `<span class="mark">        </span>`}},
		{"no-break space", "a b\n", "a\u00a0b\n", []string{"1 line changed only in whitespace."}, []string{named("\u00a0", 0xa0)}},
		{"NFC to NFD", "caf\u00e9\n", "cafe\u0301\n", []string{"1 line changed only in characters that look alike or are invisible; their code points are shown."}, []string{named("\u00e9", 0xe9), named("\u0301", 0x301)}},
		{"Cyrillic in Latin", "paypal\n", "p\u0430ypal\n", []string{"1 line changed only in characters that look alike or are invisible; their code points are shown."}, []string{named("\u0430", 0x430)}},
		{"a word of Cyrillic", "x = coco\n", "x = \u0441\u043e\u0441\u043e\n", []string{"1 line changed only in characters that look alike or are invisible; their code points are shown."}, []string{named("\u0441", 0x441)}},
		{"Greek", "A\n", "\u0391\n", []string{"1 line changed only in characters that look alike or are invisible; their code points are shown."}, []string{named("\u0391", 0x391)}},
		{"Latin alpha", "a\n", "\u0251\n", []string{"1 line changed only in characters that look alike or are invisible; their code points are shown."}, []string{named("\u0251", 0x251)}},
		{"full width", "a=1\n", "a\uff1d1\n", []string{"1 line changed only in characters that look alike or are invisible; their code points are shown."}, []string{named("\uff1d", 0xff1d)}},
		{"Kelvin", "K\n", "\u212a\n", []string{"1 line changed only in characters that look alike or are invisible; their code points are shown."}, []string{named("\u212a", 0x212a)}},
		{"variation selector", "葛\U000e0100\n", "葛\n", []string{"1 line changed only in characters that look alike or are invisible; their code points are shown."}, nil},
		{"joiner", "क्\u200dष\n", "क्ष\n", []string{"1 line changed only in characters that look alike or are invisible; their code points are shown."}, nil},
		{"Arabic digits", "\u0660\n", "\u06f0\n", []string{"1 line changed only in characters that look alike or are invisible; their code points are shown."}, []string{named("\u06f0", 0x6f0)}},
		{"a lone CR for CR LF", "a\r\nb\r\n", "a\r\nb\r", []string{"Only line endings differ, on 1 line: CR LF before, CR after."}, nil},
		{"a lone CR beside a change", "x\r", "y\n", []string{"Line endings differ, on 1 line: CR before, LF after."}, nil},
		{"dash", "a-b\n", "a\u2013b\n", []string{"1 line changed only in characters that look alike or are invisible; their code points are shown."}, []string{named("\u2013", 0x2013)}},
		{"quote", "'a'\n", "\u2019a\u2019\n", []string{"1 line changed only in characters that look alike or are invisible; their code points are shown."}, []string{named("\u2019", 0x2019)}},
		{"in a long line", long + "a\n", long + "\u0430\n", []string{"1 line changed only in characters that look alike or are invisible; their code points are shown."}, []string{named("\u0430", 0x430)}},
		{"invisible", "ab\n", "a\u200bb\n", []string{"1 line changed only in characters that look alike or are invisible; their code points are shown."}, []string{`data-c="ZWSP"`}},
		{"beside a removed line", "x\ncaf\u00e9\n", "cafe\u0301\n", []string{"1 line changed only in characters that look alike or are invisible; their code points are shown."}, []string{named("\u0301", 0x301)}},
	} {
		requireDiff(t, patient(), c.before, c.after, "go")
		for _, split := range []bool{false, true} {
			d := patient().Diff(t.Context(), c.before, c.after, "", split)
			if d.Same || !slices.Equal(d.Notes, c.notes) {
				t.Errorf("%s: same %v, notes are %q, want %q", c.name, d.Same, d.Notes, c.notes)
			}
			for _, want := range c.html {
				if !strings.Contains(string(d.HTML), want) {
					t.Errorf("%s, split %v: %s is not in\n%s", c.name, split, want, d.HTML)
				}
			}
			requireHarmless(t, string(d.HTML), atom.Table)
		}
	}
}

// A change that everybody sees needs no code points.
func TestADiffNamesNoCharactersThatAreSeen(t *testing.T) {
	for _, c := range [][2]string{
		{"кот\n", "кит\n"},
		{"naive\n", "naïve\n"},
		{"日本\n", "日木\n"},
		{"a\n", "aé\n"},
		{"a 😀\n", "a 😃\n"},
		{"ab\n", "ac\n"},
		{"l\n", "1\n"},
		{"", "é\n"},
		{"один два три\n", "один два четыре\n"},
		{"кот\n", "dog\n"},
		{"日\n", "A\n"},
		{"5 $\n", "5 €\n"},
		{"x ≤ y\n", "x ≥ y\n"},
		{"a + b\n", "a × b\n"},
		{"1 → 2\n", "1 a 2\n"},
		{"«a»\n", "(a)\n"},
	} {
		d := requireDiff(t, patient(), c[0], c[1], "")
		if strings.Contains(string(d.HTML), `class="cp"`) || len(d.Notes) > 0 {
			t.Errorf("%q to %q has the notes %q and\n%s", c[0], c[1], d.Notes, d.HTML)
		}
	}
}

func TestADiffIsSameForEqualBytesAlone(t *testing.T) {
	texts := []string{
		"", "\n", "a", "a\n", "a\r\n", "a\r", "a\r\r\n", "\ufeffa\n", "\ufeff", "\ufeff\ufeffa", "a\n\n", "a \n", " a\n", "a\t\n", "\u00e9", "e\u0301", "\u212b", "\u00c5",
		"A\u030a", "a\u200b", "\u0430", "a\r\nb\n", "a\nb\r\n", "a\r\nb\r\n", "a\nb\n", "a\rb\r", "a\nb", "a\r\nb",
	}
	r := patient()
	for _, before := range texts {
		for _, after := range texts {
			if d := requireDiff(t, r, before, after, "markdown"); d.Same != (before == after) {
				t.Errorf("%q and %q are the same: %v", before, after, d.Same)
			}
		}
	}
}

// A byte order mark that both texts have is no part of their lines.
func TestADiffSkipsAByteOrderMarkOfBoth(t *testing.T) {
	d := requireDiff(t, patient(), "\ufeffa\nb\n", "\ufeffx\nb\n", "")
	if strings.Contains(string(d.HTML), "BOM") || len(d.Notes) > 0 || d.Added != 1 {
		t.Errorf("the notes are %q, and the rows\n%s", d.Notes, d.HTML)
	}
}

// A text with other line ends is compared line by line: changed words are marked, and other lines are not.
func TestADiffFindsAChangeAmongOtherLineEnds(t *testing.T) {
	var before, after strings.Builder
	for i := range render.MaxLines / 4 {
		fmt.Fprintf(&before, "line %d of text\r\n", i)
		if i == 2000 {
			fmt.Fprint(&after, "inserted\n")
		}
		if i == 3000 {
			fmt.Fprintf(&after, "line %d of prose\n", i)
			continue
		}
		fmt.Fprintf(&after, "line %d of text\n", i)
	}
	d := requireDiff(t, patient(), before.String(), after.String(), "")
	want := []string{"Line endings differ, on 5000 lines: CR LF before, LF after."}
	if !slices.Equal(d.Notes, want) || d.Added != 5001 || d.Removed != 5000 || d.Coarse {
		t.Errorf("%d added, %d removed, coarse %v, notes %q", d.Added, d.Removed, d.Coarse, d.Notes)
	}
}

// TestADiffOfAnyTextsCanBeApplied: the rows make one text of the other, byte for byte, and the texts are the same only
// where all bytes are.
func TestADiffOfAnyTextsCanBeApplied(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random, r := rand.New(rand.NewPCG(seed, 0)), patient()
	parts := []string{"\n", "\n", "\n", "\r", "\r\n", "\r\n", "\ufeff", " ", "\t", "a", "a", "b", "\u00e9", "e\u0301", "\u0430", "\u2013", "-", "\u00a0", "\x00", "\ufffd", "\u200d", "if x {\n", "\"", "// c"}
	text := func() string {
		var out strings.Builder
		for range random.IntN(12) {
			out.WriteString(parts[random.IntN(len(parts))])
		}
		return out.String()
	}
	for range 3000 {
		before := text() + strings.Repeat(text(), random.IntN(4))
		after := text()
		if random.IntN(2) == 0 { // an edit
			at := random.IntN(len(before) + 1)
			for at < len(before) && !utf8.RuneStart(before[at]) {
				at++
			}
			after = before[:at] + after + before[at:]
		}
		requireDiff(t, r, before, after, []string{"", "go"}[random.IntN(2)])
	}
}
