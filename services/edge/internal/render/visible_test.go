package render_test

import (
	"strings"
	"testing"

	"golang.org/x/net/html/atom"

	"quire.dev/services/edge/internal/render"
)

func TestInvisibleCharactersAreMarked(t *testing.T) {
	for _, c := range []struct{ text, html, plain string }{
		{"plain text", "plain text", "plain text"},
		{"<a & 'b' \"c\">", "&lt;a &amp; &#39;b&#39; &#34;c&#34;&gt;", "<a & 'b' \"c\">"},
		{"a\u202eb", "a<bdi class=\"ctl\" data-c=\"RLO\">\u202e</bdi>b", "a⟨U+202E⟩b"},
		{"\u2066\u2069", "<bdi class=\"ctl\" data-c=\"LRI\">\u2066</bdi><bdi class=\"ctl\" data-c=\"PDI\">\u2069</bdi>", "⟨U+2066⟩⟨U+2069⟩"},
		{"a\u200bb", "a<bdi class=\"ctl\" data-c=\"ZWSP\">\u200b</bdi>b", "a⟨U+200B⟩b"},
		{"pa\u200dy", "pa<bdi class=\"ctl\" data-c=\"ZWJ\">\u200d</bdi>y", "pa⟨U+200D⟩y"},
		{"\ufeffx", "<bdi class=\"ctl\" data-c=\"BOM\">\ufeff</bdi>x", "⟨U+FEFF⟩x"},
		{"\x1b[0m", "<bdi class=\"ctl\" data-c=\"ESC\">\x1b</bdi>[0m", "⟨U+001B⟩[0m"},
		{"\x00\r\x7f", "<bdi class=\"ctl\" data-c=\"NUL\">\ufffd</bdi><bdi class=\"ctl\" data-c=\"CR\">&#13;</bdi><bdi class=\"ctl\" data-c=\"DEL\">\x7f</bdi>", "⟨U+0000⟩⟨U+000D⟩⟨U+007F⟩"},
		{"\U000e0041", "<bdi class=\"ctl\" data-c=\"U+E0041\">\U000e0041</bdi>", "⟨U+E0041⟩"},
		{"\u3164", "<bdi class=\"ctl\" data-c=\"U+3164\">\u3164</bdi>", "⟨U+3164⟩"},
	} {
		if got := string(render.Visible(c.text)); got != c.html {
			t.Errorf("%q is %q, want %q", c.text, got, c.html)
		}
		if got := render.VisibleText(c.text); got != c.plain {
			t.Errorf("%q is %q, want %q", c.text, got, c.plain)
		}
	}
}

// Joiners and variation selectors are a part of some scripts and of emoji.
func TestScriptsAndEmojiAreNotMarked(t *testing.T) {
	for _, text := range []string{
		"می\u200cخواهم", "क्\u200dष", "👩\u200d💻", "👨\u200d👩\u200d👧", "❤\ufe0f", "1\ufe0f⃣", "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f", "葛\U000e0100", "naïve", "مرحبا", "日本語",
	} {
		if got := string(render.Visible(text)); got != text {
			t.Errorf("%q is %q", text, got)
		}
	}
}

// A flag is a black flag, the tags of 3 to 6 letters or digits, and a cancel tag.
func TestTagsThatAreNoFlagAreMarked(t *testing.T) {
	tags := func(s string) string {
		return strings.Map(func(r rune) rune { return r + 0xe0000 }, s)
	}
	const end = "\U000e007f"
	for _, c := range []struct {
		text   string
		marked int
	}{
		{"🏴" + tags("usca") + end, 0},
		{"🏴" + tags("abc") + end, 0},
		{"🏴" + tags("abcdef") + end, 0},
		{"🏴" + tags("ab") + end, 3},
		{"🏴" + tags("abcdefg") + end, 8},
		{"🏴" + tags("gbeng"), 5},
		{"🏴" + tags("gb eng") + end, 7},
		{"🏴" + tags("GBENG") + end, 6},
		{"🏴" + end, 1},
		{"🏴" + tags("gbeng") + end + tags("abc") + end, 4},
		{"🏴x" + tags("gbeng") + end, 6},
		{"🏴" + tags("gbe") + "x" + end, 4},
	} {
		if got := strings.Count(string(render.Visible(c.text)), "<bdi"); got != c.marked {
			t.Errorf("%q has %d marks, want %d", c.text, got, c.marked)
		}
	}
}

func FuzzVisible(f *testing.F) {
	for _, s := range []string{"", "a\u202eb", "\x00\r\n\t", "1\ufe0f\u20e3", "\U000e0041", "\xff<", "&lt;", "a\u200d\u200db"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "?")
		nodes := requireHarmless(t, string(render.Visible(s)), atom.Span)
		if got, want := textOf(nodes), strings.ReplaceAll(s, "\x00", "\ufffd"); got != want {
			t.Errorf("%q is %q", want, got)
		}
		if got := string(render.Visible(render.VisibleText(s))); strings.Contains(got, "<bdi") {
			t.Errorf("the plain form of %q is %q", s, got)
		}
	})
}
