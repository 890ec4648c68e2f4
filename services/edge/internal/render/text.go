package render

import (
	"context"
	"html/template"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of a text on a page.
const (
	HighlightBytes = 256 << 10 // larger texts are plain
	HighlightLine  = 8 << 10   // texts with longer lines are plain, such as minified programs
	MaxLines       = 20_000    // shown of a text
	maxHTMLBytes   = 4 << 20   // of the lines without their numbers
)

// Text is a highlighted text.
type Text struct {
	Lines    []string // HTML of each line, without its end
	Language string   // display name, such as "Go"; "" if plain text or unknown
	Plain    bool     // not highlighted
	Cut      bool     // Lines are only the beginning of the text
}

// Text highlights a text. language is a name, alias or file extension of a language, or a file name. It can't fail: a text
// that takes too long stays plain. CR LF is a line end like LF. A byte order mark is skipped.
func (r *Renderer) Text(ctx context.Context, content, language string) *Text {
	content = withoutCR(withoutBOM(strings.ToValidUTF8(content, "\uFFFD")))
	out := &Text{Language: r.languages.Name(language)}
	if out.Lines = r.highlight(ctx, content, language); out.Lines == nil {
		out.Plain = true
		out.Lines, out.Cut = plainLines(content)
	}
	out.Cut = out.Cut || len(out.Lines) < countLines(content)
	return out
}

// HTML is the lines with numbers, for the inside of <pre class="lines"><code>. Line 7 is <span class="line" id="L7">; its
// number is an attribute, so that selections don't include it.
func (t *Text) HTML() template.HTML {
	size := 0
	for _, line := range t.Lines {
		size += len(line) + 120
	}
	out := make([]byte, 0, size)
	for i, line := range t.Lines {
		out = append(out, `<span class="line" id="L`...)
		out = strconv.AppendInt(out, int64(i+1), 10)
		out = append(out, `"><a href="#L`...)
		out = strconv.AppendInt(out, int64(i+1), 10)
		out = append(out, `" data-n="`...)
		out = strconv.AppendInt(out, int64(i+1), 10)
		out = append(out, `" tabindex="-1" aria-hidden="true"></a><span>`...)
		out = append(out, line...)
		out = append(out, "\n</span></span>"...)
	}
	return template.HTML(out) //nolint:gosec // the lines are escaped
}

// highlight returns the highlighted lines of a text, nil if it has to stay plain.
func (r *Renderer) highlight(ctx context.Context, content, language string) []string {
	name := r.languages.lexer(language)
	if name == "" || !highlightable(content) {
		return nil
	}
	found := r.once(ctx, &job{Kind: jobText, Lexer: name, Text: content})
	if found == nil {
		return nil
	}
	return found.Lines
}

// highlightable tells whether a text is within the bounds of highlighting.
func highlightable(content string) bool {
	if len(content) > HighlightBytes {
		return false
	}
	for line := range strings.SplitSeq(content, "\n") {
		if len(line) > HighlightLine {
			return false
		}
	}
	return true
}

// plainLines returns the lines of a text, and whether any was truncated.
func plainLines(content string) (lines []string, cut bool) {
	lines = joinLines(strings.Split(strings.TrimSuffix(limitLines(content), "\n"), "\n"), func(to []byte, line string) []byte {
		to, whole := appendBounded(to, line)
		cut = cut || !whole
		return to
	})
	return lines, cut
}

// appendBounded is appendVisible up to the size of a page. It tells whether it appended all of s.
func appendBounded(to []byte, s string) (out []byte, whole bool) {
	const step = 4 << 10
	for len(s) > step {
		if len(to) > maxHTMLBytes {
			return to, false
		}
		end := step
		for !utf8.RuneStart(s[end]) {
			end--
		}
		to, s = appendVisible(to, s[:end]), s[end:]
	}
	return appendVisible(to, s), true
}

// limitLines is the first MaxLines of a text, so that no more is split.
func limitLines(content string) string {
	end := 0
	for range MaxLines {
		i := strings.IndexByte(content[end:], '\n')
		if i < 0 {
			return content
		}
		end += i + 1
	}
	return content[:end]
}

// joinLines joins the HTML of lines into a few large strings, of which the results are slices. It stops at the bounds of a
// page.
func joinLines[T any](lines []T, appendLine func([]byte, T) []byte) []string {
	const chunk = 64 << 10
	lines = lines[:min(len(lines), MaxLines)]
	out := make([]string, 0, len(lines))
	var html []byte
	var ends []int
	cut := func() {
		text, start := string(html), 0
		for _, end := range ends {
			out = append(out, text[start:end])
			start = end
		}
		html, ends = html[:0], ends[:0]
	}
	size := 0
	for _, line := range lines {
		before := len(html)
		html = appendLine(html, line)
		if size += len(html) - before; size > maxHTMLBytes && size > len(html)-before {
			html = html[:before]
			break
		}
		if ends = append(ends, len(html)); len(html) > chunk {
			cut()
		}
	}
	cut()
	return out
}

// countLines counts lines as Text does: a final line end starts no new line.
func countLines(content string) int {
	return strings.Count(strings.TrimSuffix(content, "\n"), "\n") + 1
}

func withoutCR(content string) string { return strings.ReplaceAll(content, "\r\n", "\n") }
