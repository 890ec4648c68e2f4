package terminal

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func plain(_ Colour, text string) string { return text }

func TestTheBarFitsEveryTerminal(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	b := &Bar{name: "a long name of a file with 日本語.tar.gz", began: began, now: func() time.Time { return began.Add(4 * time.Second) }}
	for width := 1; width <= 200; width++ {
		for _, total := range []int64{-1, 50 << 20} {
			if line := b.line(20<<20, total, width); Columns(line) > width {
				t.Errorf("%d columns: %q takes %d", width, line, Columns(line))
			}
		}
	}
}

func TestTheBarLeavesOutWhatHasNoRoom(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	b := &Bar{name: "photo.jpg", began: began, now: func() time.Time { return began.Add(4 * time.Second) }}
	for width, want := range map[int]string{
		100: "photo.jpg  ████████████░░░░░░░░░░░░░░░░░░   40%  20 MB of 50 MB  5.0 MB/s  0:06 left",
		60:  "photo.jpg   40%  20 MB of 50 MB  5.0 MB/s  0:06 left",
		40:  "photo.jpg   40%  20 MB of 50 MB",
		17:  "photo.jpg   40%",
		10:  "pho…   40%",
		4:   "40%",
	} {
		if got := b.line(20<<20, 50<<20, width); got != want {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
	if got := b.line(20<<20, -1, 80); got != "photo.jpg  20 MB  5.0 MB/s" {
		t.Errorf("without a total: %q", got)
	}
}

func TestMeter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		share float64
		want  string
	}{{-1, "░░░░"}, {0, "░░░░"}, {0.0001, "▏░░░"}, {0.5, "██░░"}, {0.53, "██▏░"}, {1, "████"}, {7, "████"}} {
		if got := Meter(test.share, 4); got != test.want {
			t.Errorf("%v: %q, want %q", test.share, got, test.want)
		}
	}
}

func TestTheTableFitsTheTerminal(t *testing.T) {
	t.Parallel()
	table := NewTable(Column{Name: "ID"}, Column{Name: "TITLE", Shorten: true}, Column{Name: "SIZE", Right: true, Drop: 1}, Column{Name: "MADE", Drop: 2})
	for _, row := range [][]string{{"aaaa", "日本語 in a title that is long", "12 KB", "2026-11-22"}, {"bbbb", "x\x1b[31m\n", "1 B", "2026-11-21"}} {
		var cells []Cell
		for _, text := range row {
			cells = append(cells, Cell{Text: text})
		}
		table.Add(cells...)
	}
	for width, want := range map[int]string{
		80: "ID    TITLE                            SIZE  MADE\naaaa  日本語 in a title that is long  12 KB  2026-11-22\nbbbb  x^[[31m^J                         1 B  2026-11-21\n",
		40: "ID    TITLE             SIZE  MADE      \naaaa  日本語 in a ti…  12 KB  2026-11-22\nbbbb  x^[[31m^J          1 B  2026-11-21\n",
		26: "ID    TITLE          SIZE\naaaa  日本語 in a…  12 KB\nbbbb  x^[[31m^J       1 B\n",
		19: "ID    TITLE       \naaaa  日本語 in a…\nbbbb  x^[[31m^J   \n",
	} {
		var b strings.Builder
		table.render(&b, width, plain)
		trimmed := func(s string) string {
			var lines []string
			for line := range strings.Lines(s) {
				lines = append(lines, strings.TrimRight(line, " \n"))
			}
			return strings.Join(lines, "\n")
		}
		if got := b.String(); trimmed(got) != trimmed(want) {
			t.Errorf("%d columns:\n%s\nwant\n%s", width, got, want)
		}
		for line := range strings.Lines(b.String()) {
			if Columns(strings.TrimSuffix(line, "\n")) > width {
				t.Errorf("%d columns: %q", width, line)
			}
		}
	}
}

func TestAPipeGetsNoColourNoBarAndTabs(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	term := New(r, w, w, []string{"TERM=xterm"})
	if term.Interactive() {
		t.Error("a pipe is no person")
	}
	if got := term.Paint(w, Red, "x"); got != "x" {
		t.Errorf("painted: %q", got)
	}
	bar := term.NewBar("x")
	bar.Set(1, 2)
	bar.End()
	table := NewTable(Column{Name: "A"}, Column{Name: "B", Drop: 1})
	table.Add(Cell{Text: strings.Repeat("long ", 40), Colour: Red}, Cell{Text: "b"})
	if err := table.Write(term, w); err != nil {
		t.Fatal(err)
	}
	w.Close()
	var got strings.Builder
	buffer := make([]byte, 1<<10)
	for n, err := r.Read(buffer); err == nil; n, err = r.Read(buffer) {
		got.Write(buffer[:n])
	}
	if want := strings.Repeat("long ", 40) + "\tb\n"; got.String() != want {
		t.Errorf("%q, want %q", got.String(), want)
	}
}

func TestVisible(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text  string
		lines bool
		want  string
	}{
		{"plain ü 日本", false, "plain ü 日本"},
		{"a\tb\n", true, "a\tb\n"},
		{"a\tb\n", false, "a^Ib^J"},
		{"\x1b]52;c;eA==\x07", true, "^[]52;c;eA==^G"},
		{"\u009b31m", true, "<U+009B>31m"},
		{"user\u202excod.exe", true, "user<U+202E>xcod.exe"},
	} {
		if got := Visible(test.text, test.lines); got != test.want {
			t.Errorf("%q: %q, want %q", test.text, got, test.want)
		}
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KB", 256 << 10: "256 KB", 1<<20 - 1: "1.0 MB", 50 << 20: "50 MB", 10 << 30: "10 GB", 1<<63 - 1: "8.0 EB",
	} {
		if got := Size(bytes); got != want {
			t.Errorf("%d: %q, want %q", bytes, got, want)
		}
	}
}

func TestAQRCodeHasALightBorderAndFitsATerminal(t *testing.T) {
	t.Parallel()
	code, err := QR("https://paste.example/p/Zk3vPq81mXaT")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(code, "\n"), "\n")
	const most = 80
	for i, line := range lines {
		if n := Columns(line); n != Columns(lines[0]) || n > most {
			t.Errorf("line %d has %d columns", i, n)
		}
		if !strings.HasPrefix(line, "██") || !strings.HasSuffix(line, "██") {
			t.Errorf("line %d has no border: %q", i, line)
		}
	}
	if strings.Trim(lines[0], "█") != "" {
		t.Errorf("no border above: %q", lines[0])
	}
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	hanging := make(chan struct{})
	defer close(hanging)
	_, err := Await(ctx, func() (int, error) { cancel(); <-hanging; return 0, nil })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got, err := Await(t.Context(), func() (string, error) { return "done", nil }); got != "done" || err != nil {
		t.Errorf("%q %v", got, err)
	}
}
