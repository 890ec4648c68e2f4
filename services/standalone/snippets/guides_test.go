package snippets

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"golang.org/x/net/html"
)

// mark separates the outputs of a guide's blocks.
const mark = "\u001e"

// TestTheGuidesDoWhatTheyShow runs the bash of each guide from its first line to its last, as a reader would, and compares
// what comes out with what the guide shows.
func TestTheGuidesDoWhatTheyShow(t *testing.T) {
	needTools(t)
	i := start(t)
	i.buildClient(t)
	guides := links(i.page(t, "/docs"), "/docs/guides/")
	if len(guides) < 8 {
		t.Fatalf("guides: %v", guides)
	}
	for _, path := range guides {
		t.Run(filepath.Base(path), func(t *testing.T) { i.follow(t, path) })
	}
}

var plan = regexp.MustCompile(`(?m)^Plan: (.+)$`)

// tierOf is the least plan with which a guide says that it works.
func tierOf(t *testing.T, page *html.Node) string {
	t.Helper()
	m := plan.FindStringSubmatch(text(page))
	switch {
	case m == nil:
		t.Fatal("the guide does not say which plan it needs")
	case m[1] == "Pro or Max", m[1] == "any; files need Pro or Max":
		return "pro"
	case m[1] != "any" && !strings.HasPrefix(m[1], "none: "):
		t.Fatalf("there is no plan %q", m[1])
	}
	return "free"
}

func (i *instance) follow(t *testing.T, path string) {
	folder := t.TempDir()
	page := i.page(t, path)
	_, key := i.account(t, filepath.Base(path)+"@guides.example", tierOf(t, page))
	variables := map[string]string{"API_KEY": key, "ADMIN_TOKEN": adminToken, "PATH": i.programs + ":" + os.Getenv("PATH")}
	user := maps.Clone(variables) // logged in on the command line
	user["QUIRE_URL"], user["QUIRE_API_KEY"] = i.public, key
	var script strings.Builder
	var shown []block // after each bash block, if the guide shows what comes out
	all := blocks(page)
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
			i.tryVim(t, user, b.text)
		case "jsonc":
			i.tryTasks(t, user, b.text)
		case "yaml":
			i.tryWorkflow(t, user, b.text)
		case "go", "ts":
			switch {
			case strings.Contains(b.text, "WEBHOOK_SECRET"):
				tryReceiver(t, b.language, b.text)
			case b.language == "ts":
				i.tryTypeScript(t, user, b.text)
			}
			// Of other Go code TestDocumentsShowTheExamples of the Go client holds that it is an example that is run.
		case "console":
			checkTargets(t, b.text)
		default:
			t.Errorf("nobody tries this block of %q:\n%s", b.language, b.text)
		}
	}
	i.seen()
	write(t, filepath.Join(folder, "guide.sh"), "set -euo pipefail\n"+script.String())
	out, err := run(t, folder, variables, "bash", "-c", "exec bash guide.sh 2>errors.txt")
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
	seen := i.seen()
	for _, c := range seen {
		if c.status >= 500 {
			t.Errorf("%v", c)
		}
		// On Free, quire paste asks for a paste first, and then creates a quick paste.
		if c.status >= 400 && (c.status != http.StatusTooManyRequests || c.path != "/api/dev/pastes/create") {
			failed++
		}
	}
	if failed != failures {
		t.Errorf("%d calls failed, and %d failures are shown: %v", failed, failures, seen)
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

// tryTypeScript runs a program that uses the TypeScript client. What it prints is tested where it comes from: the README of
// the client.
func (i *instance) tryTypeScript(t *testing.T, user map[string]string, text string) {
	t.Helper()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "program.ts"), text+"\n")
	compileTypeScript(t, folder, "node")
	if out, err := run(t, folder, user, "node", "program.js"); err != nil || len(i.seen()) == 0 {
		t.Errorf("%v\n%s\n%s", err, out, text)
	}
}

// buildClient builds the command line's program for the guides.
func (i *instance) buildClient(t *testing.T) {
	t.Helper()
	i.programs = t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(i.programs, "quire"), "quire.dev/cli/cmd/quire").CombinedOutput()
	if err != nil {
		t.Fatalf("%v %s", err, out)
	}
}

const threeLines = "one\ntwo\nthree\n"

// tryVim has Vim run the command Share of a vimrc, for a file and for some lines of it.
func (i *instance) tryVim(t *testing.T, user map[string]string, text string) {
	t.Helper()
	for lines, want := range map[string]string{"": threeLines, "2,3": "two\nthree\n"} {
		folder := t.TempDir()
		write(t, filepath.Join(folder, "vimrc"), text)
		write(t, filepath.Join(folder, "a file.txt"), threeLines)
		// What a program prints goes to standard output, what Vim shows into the file.
		out, err := run(t, folder, user, "vim", "-N", "-es", "-u", "vimrc", "-c", "redir! > shown.txt", "-c", lines+"Share", "-c", "redir END", "-c", "qa!", "a file.txt")
		shown, _ := os.ReadFile(filepath.Join(folder, "shown.txt"))
		if err != nil {
			t.Errorf("vim: %v %s %s", err, out, shown)
		}
		i.holds(t, out+string(shown), want)
	}
}

// tryTasks runs each of the tasks of VS Code for a file, with the cursor on its second line.
func (i *instance) tryTasks(t *testing.T, user map[string]string, text string) {
	t.Helper()
	var tasks struct {
		Tasks []struct {
			Type, Command string
			Args          []string
		}
	}
	if err := json.Unmarshal([]byte(text), &tasks); err != nil || len(tasks.Tasks) == 0 {
		t.Fatalf("%v %s", err, text)
	}
	for _, task := range tasks.Tasks {
		folder, want := t.TempDir(), threeLines
		write(t, filepath.Join(folder, "a file.txt"), threeLines)
		for n, a := range task.Args {
			if a == "${lineNumber}" {
				want = "two\n"
			}
			task.Args[n] = strings.NewReplacer("${file}", "a file.txt", "${lineNumber}", "2").Replace(a)
		}
		if task.Type != "process" {
			t.Errorf("a task of the type %q: its arguments would be read by a shell", task.Type)
		}
		out, err := run(t, folder, user, "env", append([]string{task.Command}, task.Args...)...) // env looks the program up in its PATH
		if err != nil {
			t.Errorf("%s %q: %v %s", task.Command, task.Args, err, out)
		}
		i.holds(t, out, want)
	}
}

// tryWorkflow runs the steps of a GitHub workflow whose tests fail.
func (i *instance) tryWorkflow(t *testing.T, user map[string]string, text string) {
	t.Helper()
	var workflow struct {
		Jobs map[string]struct {
			Env   map[string]string
			Steps []struct{ Name, Uses, If, Run string }
		}
	}
	if err := yaml.Unmarshal([]byte(text), &workflow); err != nil || len(workflow.Jobs) != 1 {
		t.Fatalf("%v %s", err, text)
	}
	for _, job := range workflow.Jobs {
		folder := t.TempDir()
		runner := maps.Clone(user)
		for name, value := range job.Env {
			runner[name] = strings.ReplaceAll(value, "${{ secrets.QUIRE_API_KEY }}", user["QUIRE_API_KEY"])
		}
		runner["GITHUB_SHA"], runner["GITHUB_STEP_SUMMARY"] = "0123abc", filepath.Join(folder, "summary.md")
		runner["PATH"] = folder + ":" + runner["PATH"]
		write(t, filepath.Join(folder, "make"), "#!/bin/sh\necho 'FAIL: one of the tests'\nexit 2\n")
		if err := os.Chmod(filepath.Join(folder, "make"), 0o700); err != nil {
			t.Fatal(err)
		}
		failed := false
		for _, step := range job.Steps {
			if step.Run == "" || failed != (step.If == "failure()") {
				continue
			}
			// As the runner runs a step without an explicit shell.
			if out, err := run(t, folder, runner, "bash", "-e", "-c", step.Run); err != nil {
				if failed {
					t.Errorf("%s: %v %s", step.Name, err, out)
				}
				failed = true
			}
		}
		summary, err := os.ReadFile(runner["GITHUB_STEP_SUMMARY"])
		if err != nil || !failed {
			t.Errorf("the tests failed: %v, summary: %v", failed, err)
		}
		i.holds(t, string(summary), "FAIL: one of the tests\n")
	}
}

// holds looks for the one address of a paste in an output, and compares its text.
func (i *instance) holds(t *testing.T, output, want string) {
	t.Helper()
	found := regexp.MustCompile(regexp.QuoteMeta(i.public)+"/[pq]/[0-9A-Za-z]{12}").FindAllString(output, -1)
	slices.Sort(found)
	if found = slices.Compact(found); len(found) != 1 {
		t.Errorf("no address, or several, in %q", output)
		return
	}
	response, err := http.Get(strings.Replace(found[0], i.public, i.direct, 1) + "/raw")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || string(text) != want {
		t.Errorf("%s: %v %q, want %q", found[0], err, text, want)
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
