package scenario

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var withCurl = flag.Bool("curl", false, "try what docs/api.md says of a terminal with the curl of this machine")

// shell runs a command line with curl in bash. HOST is the instance, f a file with the content, which is the standard
// input too. What curl says of the answer's status is at the end of errors.
type shell struct {
	output, errors string
	exit           int
}

func (i *instance) curl(t *testing.T, command, content, source string) shell {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"f", "main.go"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const curl = `set -eu; curl() { command curl --silent --show-error --header "X-Forwarded-For: $SOURCE" --write-out '%{stderr}%{http_code}' "$@"; }; `
	run := exec.CommandContext(t.Context(), "bash", "-c", curl+command)
	run.Dir = folder
	run.Env = append(os.Environ(), "HOST="+i.edge(), "SOURCE="+source, "NO_PROXY=*", "CURL_HOME="+folder)
	run.Stdin = strings.NewReader(content)
	var stdout, stderr bytes.Buffer
	run.Stdout, run.Stderr = &stdout, &stderr
	err := run.Run()
	exit, failed := errors.AsType[*exec.ExitError](err)
	if err != nil && !failed {
		t.Fatalf("%s: %v", command, err)
	}
	out := shell{output: stdout.String(), errors: stderr.String()}
	if failed {
		out.exit = exit.ExitCode()
	}
	return out
}

// curlForms are the command lines of docs/api.md, and those that send a body in another way.
func curlForms() map[string]string {
	return map[string]string{
		"-F from a pipe":             `cat f | curl -F 'f=<-' $HOST`,
		"-F @-":                      `cat f | curl -F f=@- $HOST`,
		"-F of a file":               `curl -F f=@f $HOST`,
		"-F of a file, as any part":  `curl -F upload=@main.go $HOST/`,
		"-F with Expect":             `curl -H 'Expect: 100-continue' -F f=@f $HOST`,
		"-F in chunks":               `curl -H 'Transfer-Encoding: chunked' -F f=@f $HOST`,
		"-T of a file":               `curl -T main.go $HOST`,
		"-T of a file, to a name":    `curl -T f $HOST/notes.md`,
		"-T from a pipe":             `cat f | curl -T - $HOST`,
		"-T from a pipe, to a name":  `cat f | curl -T - $HOST/notes.md`,
		"-T without Expect":          `curl -H 'Expect:' -T main.go $HOST`,
		"--data-binary of a file":    `curl --data-binary @f $HOST`,
		"--data-binary from a pipe":  `cat f | curl --data-binary @- $HOST`,
		"--data-binary with Expect":  `curl -H 'Expect: 100-continue' --data-binary @f $HOST`,
		"--data-binary in chunks":    `curl -H 'Transfer-Encoding: chunked' --data-binary @f $HOST`,
		"--data-binary, as text":     `curl -H 'Content-Type: text/plain' --data-binary @f $HOST`,
		"--data-binary, with fields": `curl --data-binary @f "$HOST?expiresIn=1h&language=go"`,
		"--json":                     `curl -H 'Content-Type: application/json' --data-binary @f $HOST`,
	}
}

func TestCurlMakesAPasteFromEachForm(t *testing.T) {
	if !*withCurl {
		t.Skip("without -args -curl")
	}
	i := common(t)
	line := strings.Repeat("ü & <b> %41+ '\"\r\n", 20_000)
	for name, command := range curlForms() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, content := range []string{"package main\n", "no line's end", "\n\n", line[:quickBytes-1] + "x"} {
				got := i.curl(t, command, content, newSource())
				if got.exit != 0 || got.errors != "201" {
					t.Fatalf("exit %d, %q, %q", got.exit, got.output, got.errors)
				}
				path := answer{status: http.StatusCreated, header: http.Header{
					"Location": {strings.TrimSuffix(got.output, "\n")}, "Content-Type": {"text/plain; charset=utf-8"},
				}, body: []byte(got.output), what: command}.line(t, i)
				raw := i.do(t, "GET", path+"/raw", request{})
				if sha256.Sum256(raw.body) != sha256.Sum256([]byte(content)) {
					t.Errorf("%d bytes were sent, %d came back: %.40q", len(content), len(raw.body), raw.body)
				}
			}
		})
	}
}

// TestCurlShowsWhyNothingWasMade also while it would still be sending.
func TestCurlShowsWhyNothingWasMade(t *testing.T) {
	if !*withCurl {
		t.Skip("without -args -curl")
	}
	i := common(t)
	full := strings.Repeat("x", quickBytes)
	for name, command := range curlForms() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, test := range []struct{ content, status, says string }{
				{"", "400", "error: content is required\n"},
				{"\x00\x01\xfe\xff", "415", "/api/dev/files/upload.\n"},
				{full + "x", "413", "256 KB"},
				{full + strings.Repeat(full, 64), "413", "256 KB"},
			} {
				got := i.curl(t, command, test.content, newSource())
				if got.exit != 0 || got.errors != test.status || !strings.HasPrefix(got.output, "error: ") || !strings.Contains(got.output, test.says) {
					t.Errorf("%d bytes: exit %d, %q, %q", len(test.content), got.exit, got.output, got.errors)
				}
			}
		})
	}
	failed := i.curl(t, `curl --fail-with-body -F 'f=<-' "$HOST?language=no%20language"`, "x", newSource())
	if failed.exit != 22 || !strings.HasPrefix(failed.output, "error: language ") {
		t.Errorf("a script sees exit %d, %q", failed.exit, failed.output)
	}
	json := i.curl(t, `curl -H 'Accept: application/json' -T f $HOST`, "", newSource())
	if !strings.Contains(json.output, `"field":"content"`) {
		t.Errorf("%q", json.output)
	}
}

func TestCurlWithAKeyATokenAndARetry(t *testing.T) {
	if !*withCurl {
		t.Skip("without -args -curl")
	}
	i := common(t)
	source := newSource()
	for _, command := range []string{
		`for n in 1 2; do curl -H 'Idempotency-Key: a' -F f=@f $HOST; done`,
		`for n in 1 2; do curl -H 'Idempotency-Key: b' -T main.go $HOST; done`,
		`for n in 1 2; do curl -H 'Idempotency-Key: c' --data-binary @f $HOST; done`,
	} {
		got := i.curl(t, command, "content", source)
		if lines := strings.Split(got.output, "\n"); got.errors != "201201" || len(lines) != 3 || lines[0] != lines[1] {
			t.Errorf("%s: %q, %q", command, got.output, got.errors)
		}
	}
	deleted := i.curl(t, `url=$(curl -D head -F 'f=<-' $HOST)
		token=$(tr -d '\r' <head | sed -n 's/^X-Manage-Token: //p')
		curl -X DELETE -H "X-Manage-Token: $token" "$HOST/api/dev/paste-lite/delete/${url##*/}"`, "content", source)
	if deleted.exit != 0 || deleted.errors != "201200" {
		t.Errorf("exit %d, %q, %q", deleted.exit, deleted.output, deleted.errors)
	}
	text := i.curl(t, `curl $HOST`, "", source)
	if !strings.Contains(text.output, "You have 6 left.") || text.errors != "200" {
		t.Errorf("%q, %q", text.output, text.errors)
	}
	a := i.account(t, "free")
	keyed := i.curl(t, `curl -D head -H 'x-api-key: `+a.key+`' -T main.go $HOST; grep -ci '^x-quota-remaining: 99' head; ! grep -qi '^x-manage-token' head`, "content", source)
	if keyed.exit != 0 || a.used(t, "pasteLite.create") != 1 {
		t.Errorf("exit %d, %q, %q", keyed.exit, keyed.output, keyed.errors)
	}
}
