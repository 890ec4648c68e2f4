package render_test

import (
	"bytes"
	"flag"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"quire.dev/services/edge/internal/render"
)

var hostileTexts = flag.Int("hostile", 0, "hostile texts that are tried with each language and renderer; 0: one, with some of the languages")

// parts are what the grammars of languages begin, end, escape and nest with, and what their expressions are slow at.
var parts = strings.Split("( ) [ ] { } < > <a </a> <!-- --> <? ?> <% %> {{ }} {% %} ${ #{ $( `` ` ``` ''' \"\"\" ' \" \\ \\\\ / // /* */ (* *) {- -} -- # ## ### = == "+
	"=== - _ __ ** * ~~ ~ | || |- |a :- & && &amp; ! ![ ]( [^ ]: @ @@ % %q( ^ ? : :: ; , . .. ... 0 1e 0x a A aB é 日 \u202e \ufeff a= <<EOF EOF <<- begin end "+
	"if then else fi do done function class def struct /regex/ s/a/b/ import \"x <script> </script> <style> </style> SELECT ' or \"\" REM =begin =end", " ")

// hostile draws a text: a few parts, each many times, in each other or in turn, in lines of all lengths.
func hostile(r *rand.Rand) string {
	part := func() string {
		p := parts[r.IntN(len(parts))]
		switch r.IntN(6) {
		case 0:
			return p + " "
		case 1:
			return p + "\n"
		case 2:
			return " " + p
		case 3:
			return "\t" + p + "\r\n"
		}
		return p
	}
	size := 1 << (4 + r.IntN(15)) // 16 bytes to 256 KiB
	size -= r.IntN(size / 2)
	var out strings.Builder
	for out.Len() < size {
		left := size - out.Len()
		var unit string
		for range 1 + r.IntN(4) {
			unit += part()
		}
		switch r.IntN(4) {
		case 0: // all of it
			out.WriteString(strings.Repeat(unit, 1+left/len(unit)))
		case 1: // half of it, and closed again
			n := 1 + left/2/len(unit)
			out.WriteString(strings.Repeat(unit, n) + strings.Repeat(part(), n))
		case 2: // lines that are as long as they may be
			line := strings.ReplaceAll(strings.Repeat(unit, 1+render.HighlightLine/len(unit)), "\n", "")
			out.WriteString(line[:min(len(line), render.HighlightLine-1)] + "\n")
		case 3:
			for range 1 + r.IntN(1000) {
				out.WriteString(part())
			}
		}
	}
	return strings.ToValidUTF8(out.String()[:min(out.Len(), size)], "")
}

// renderHostile gives a drawn text to a renderer: that of a language, or one of the others.
func renderHostile(t testing.TB, r *render.Renderer, draw *rand.Rand, what string) {
	content := hostile(draw)
	switch what {
	case ".markdown":
		r.Markdown(t.Context(), content)
	case ".table":
		r.Table(t.Context(), content)
	case ".diff":
		r.Diff(t.Context(), content, hostile(draw), "", draw.IntN(2) == 0)
	default:
		r.Text(t.Context(), content, what)
	}
}

// resident is the memory of the processes that render, in bytes. This program has what its other tests have left, too.
func resident(t testing.TB) (all int64) {
	out, err := exec.Command("ps", "-o", "rss=", "--ppid", strconv.Itoa(os.Getpid())).Output()
	if err != nil {
		t.Fatalf("ps: %v", err)
	}
	for field := range strings.FieldsSeq(string(out)) {
		kib, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatalf("ps says %q", out)
		}
		all += kib << 10
	}
	return all
}

const residentBytes = 300 << 20 // with the 100 MB of an edge these are 400

func TestHostileTextsCostNoMoreThanTheirProcess(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, 0))
	var log bytes.Buffer
	cfg := render.Config{Concurrent: 1, CacheBytes: 1 << 20, Logger: slog.New(slog.NewTextHandler(&log, nil)), Deadline: time.Second}
	r := apart(t, cfg)
	all, tries := r.Languages().All(), *hostileTexts
	if tries == 0 {
		draw.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
		all, tries = all[:20], 1
	}
	var most int64
	for _, what := range append(all, ".markdown", ".table", ".diff") {
		for range tries {
			renderHostile(t, r, draw, what)
		}
		if most = max(most, resident(t)); most > residentBytes {
			t.Fatalf("%s: %d MB are resident", what, most>>20)
		}
	}
	requireFree(t, r)
	t.Logf("%d MB at the most, %d of %d texts ended their process", most>>20, strings.Count(log.String(), "process="), (len(all)+3)*tries)
}

// FuzzHostile has the fuzzer choose what is drawn.
func FuzzHostile(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(seed, "go")
	}
	f.Add(uint64(0), ".markdown")
	f.Add(uint64(0), ".table")
	f.Add(uint64(0), ".diff")
	f.Add(uint64(0), "jungle")
	r := apart(f, render.Config{Concurrent: 1, CacheBytes: 1 << 20})
	all := append(r.Languages().All(), ".markdown", ".table", ".diff")
	f.Fuzz(func(t *testing.T, seed uint64, what string) {
		draw := rand.New(rand.NewPCG(seed, 0))
		if len(what) > 0 && r.Languages().Name(what) == "" && what[0] != '.' {
			what = all[draw.IntN(len(all))]
		}
		renderHostile(t, r, draw, what)
		if bytes := resident(t); bytes > residentBytes {
			t.Fatalf("%q with seed %d: %d MB are resident", what, seed, bytes>>20)
		}
	})
}
