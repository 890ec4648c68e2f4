package snippets

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mark stands between the outputs of a guide's blocks.
const mark = "\u001e"

// TestTheGuidesDoWhatTheyShow runs the bash of each guide from its first line to its last, as a reader would, and compares
// what comes out with what the guide shows.
func TestTheGuidesDoWhatTheyShow(t *testing.T) {
	needTools(t)
	i := start(t)
	guides := links(i.page(t, "/docs"), "/docs/guides/")
	if len(guides) < 8 {
		t.Fatalf("guides: %v", guides)
	}
	for _, path := range guides {
		t.Run(filepath.Base(path), func(t *testing.T) { i.follow(t, path) })
	}
}

func (i *instance) follow(t *testing.T, path string) {
	folder := t.TempDir()
	_, key := i.account(t, filepath.Base(path)+"@guides.example", "pro")
	var script strings.Builder
	var shown []block // after each bash block, if the guide shows what comes out
	all := blocks(i.page(t, path))
	for n, b := range all {
		switch b.language {
		case "bash":
			fmt.Fprintf(&script, "%s\nprintf '%s'\n", strings.ReplaceAll(b.text, "qk_…", key), mark)
			if n+1 < len(all) && (all[n+1].language == "json" || all[n+1].language == "text") {
				shown = append(shown, all[n+1])
			} else {
				shown = append(shown, block{})
			}
		case "json", "text":
			if n == 0 || all[n-1].language != "bash" {
				t.Errorf("nothing makes the answer that is shown:\n%s", b.text)
			}
		case "vim":
			i.tryVim(t, b.text)
		case "jsonc":
			i.tryTask(t, b.text)
		case "console":
			checkTargets(t, b.text)
		default:
			t.Errorf("nobody tries this block of %q:\n%s", b.language, b.text)
		}
	}
	i.seen()
	write(t, filepath.Join(folder, "guide.sh"), "set -euo pipefail\n"+script.String())
	out, err := run(t, folder, map[string]string{"API_KEY": key, "ADMIN_TOKEN": adminToken}, "bash", "-c", "exec bash guide.sh 2>errors.txt")
	if err != nil {
		faults, _ := os.ReadFile(filepath.Join(folder, "errors.txt"))
		t.Fatalf("%v\n%s\n%s", err, out, faults)
	}
	outputs := strings.Split(out, mark)
	failures := 0
	for n, b := range shown {
		switch b.language {
		case "json":
			failures += compareJSON(t, b.text, outputs[n])
		case "text":
			failures += compareText(t, b.text, outputs[n])
		}
	}
	failed := 0
	for _, c := range i.seen() {
		if c.status >= 500 {
			t.Errorf("%v", c)
		}
		if c.status >= 400 {
			failed++
		}
	}
	if failed != failures {
		t.Errorf("%d calls failed, and %d failures are shown", failed, failures)
	}
}

var (
	code   = regexp.MustCompile(`(?m)^[a-z]+(_[a-z]+)+$`)
	digits = regexp.MustCompile(`\d+`)
)

// compareText holds an output to the text that is shown for it: numbers, the order of lines and the case of headers may
// differ. It gives the
// number of failures that are shown.
func compareText(t *testing.T, want, got string) int {
	t.Helper()
	plain := func(s string) []string {
		s = strings.ToLower(digits.ReplaceAllString(strings.ReplaceAll(s, "\r", ""), "0"))
		lines := strings.Split(strings.TrimSpace(s), "\n")
		slices.Sort(lines)
		return lines
	}
	if !slices.Equal(plain(want), plain(got)) {
		t.Errorf("shown is\n%s\nbut it is\n%s", want, got)
	}
	return len(code.FindAllString(want, -1))
}

// compareJSON holds an output to the JSON that is shown for it: the same fields with the same kinds of values.
func compareJSON(t *testing.T, want, got string) int {
	t.Helper()
	var shown, answered any
	if err := json.Unmarshal([]byte(want), &shown); err != nil {
		t.Errorf("what is shown is no JSON: %v\n%s", err, want)
	}
	if err := json.Unmarshal([]byte(got), &answered); err != nil {
		t.Errorf("the output is no JSON: %v\n%s", err, got)
	}
	if a, b := shape(shown), shape(answered); a != b {
		t.Errorf("shown is\n%s\nbut it is\n%s", want, got)
	}
	if object, ok := shown.(map[string]any); ok && object["code"] != nil {
		if answer, ok := answered.(map[string]any); !ok || answer["code"] != object["code"] || answer["reason"] != object["reason"] {
			t.Errorf("shown is\n%s\nbut it is\n%s", want, got)
		}
		return 1
	}
	return 0
}

// shape is the fields of a JSON value and the kinds of their values.
func shape(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var fields []string
		for name, value := range v {
			fields = append(fields, name+":"+shape(value))
		}
		slices.Sort(fields)
		return "{" + strings.Join(fields, " ") + "}"
	case []any:
		if len(v) == 0 {
			return "[]"
		}
		return "[" + shape(v[0]) + "]"
	}
	return fmt.Sprintf("%T", v)
}

// tryVim runs the program that a command of Vim writes its lines to.
func (i *instance) tryVim(t *testing.T, text string) {
	t.Helper()
	_, program, found := strings.Cut(strings.TrimSpace(text), "w !")
	if !found {
		t.Fatalf("no program in %s", text)
	}
	i.share(t, "printf 'hello\\n' | "+program)
}

// tryTask runs a task of VS Code for a file.
func (i *instance) tryTask(t *testing.T, text string) {
	t.Helper()
	var tasks struct {
		Tasks []struct {
			Type, Command string
			Args          []string
		}
	}
	if err := json.Unmarshal([]byte(text), &tasks); err != nil || len(tasks.Tasks) != 1 || tasks.Tasks[0].Type != "process" {
		t.Fatalf("%v %s", err, text)
	}
	line := "printf 'hello\\n' > 'a file.txt'; " + tasks.Tasks[0].Command
	for _, a := range tasks.Tasks[0].Args {
		line += " '" + strings.ReplaceAll(a, "${file}", "a file.txt") + "'"
	}
	i.share(t, line)
}

// share runs a line of a shell that must print the address of a paste, and nothing else.
func (i *instance) share(t *testing.T, line string) {
	t.Helper()
	out, err := run(t, t.TempDir(), nil, "bash", "-euo", "pipefail", "-c", line)
	if err != nil || !regexp.MustCompile("^"+regexp.QuoteMeta(i.public)+"/q/[0-9A-Za-z]{12}\n$").MatchString(out) {
		t.Errorf("%s: %v %q", line, err, out)
	}
}

// checkTargets holds a session that only shows how to start a server to the targets of the Makefile.
func checkTargets(t *testing.T, text string) {
	t.Helper()
	makefile, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		if !ok {
			continue
		}
		target, ok := strings.CutPrefix(command, "make ")
		if !ok || !strings.Contains(string(makefile), "\n"+target+":") {
			t.Errorf("nobody tries %q", command)
		}
	}
}
