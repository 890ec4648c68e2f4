package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"quire.dev/cli/internal/terminal"
	"quire.dev/client"
)

var update = flag.Bool("update", false, "write testdata again")

// run runs a command line without a terminal.
func run(t *testing.T, environ []string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	files := make([]*os.File, 3)
	for i := range files {
		f, err := os.CreateTemp(t.TempDir(), "stream")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	status = Main(t.Context(), Streams{files[0], files[1], files[2], environ}, "1.2.3", args)
	read := func(f *os.File) string {
		data, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	return read(files[1]), read(files[2]), status
}

// TestTheHelpIsAsWritten shows each change of a command or flag in the golden file, where its reader can judge it.
func TestTheHelpIsAsWritten(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	var walk func(cmd *cobra.Command, path []string)
	walk = func(cmd *cobra.Command, path []string) {
		out, errs, status := run(t, nil, append(path, "--help")...)
		if status != 0 || errs != "" {
			t.Errorf("%v: %d %q", path, status, errs)
		}
		fmt.Fprintf(&got, "$ quire %s\n%s\n", strings.Join(append(slices.Clone(path), "--help"), " "), out)
		for _, below := range cmd.Commands() {
			walk(below, append(slices.Clone(path), below.Name()))
		}
	}
	walk(Paste(Streams{}, "1.2.3"), []string{"paste"})
	golden := filepath.Join("testdata", "help.golden")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the help differs from %s (%v): go test -run TestTheHelpIsAsWritten -update writes it again\n%s", golden, err, got.String())
	}
}

func TestMistakesAreOneLineAndStatus2(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text, binary, empty := write("a.txt", "one\ntwo\nthree\n"), write("b.bin", "\xff\xfe"), write("c.txt", "")
	large := write("d.txt", strings.Repeat("x", largestPaste+1))
	for _, test := range []struct {
		want string
		args []string
	}{
		{`unknown command "launch"`, []string{"launch"}},
		{"did you mean create?", []string{"paste", "craete"}},
		{"unknown flag: --fast", []string{"paste", "get", "--fast"}},
		{`unknown command "nonsense"`, []string{"help", "nonsense"}},
		{"takes 1 argument, not 0", []string{"paste", "get"}},
		{"neither the id nor the URL", []string{"paste", "get", "short"}},
		{"neither the id nor the URL of a file", []string{"paste", "download", "https://a.example/p/Zk3vPq81mXaT"}},
		{"no such file", []string{"paste", "create", filepath.Join(folder, "missing")}},
		{"is empty", []string{"paste", "create", empty}},
		{"not UTF-8 text; use quire paste upload", []string{"paste", "create", binary}},
		{"a paste can have at most 4.0 MB", []string{"paste", "create", large}},
		{"accept one file", []string{"paste", "create", "--title", "x", text, text}},
		{"no line 4; the text has 3 lines", []string{"paste", "create", "--lines", "2-4", text}},
		{"expected a range", []string{"paste", "create", "--lines", "0-4", text}},
		{"expected a period", []string{"paste", "create", "--expires", "soon", text}},
		{"public, unlisted or private", []string{"paste", "create", "--visibility", "secret", text}},
		{"--lang pyhton: unknown language; did you mean python?; quire paste languages", []string{"paste", "create", "--lang", "pyhton", text}},
		{"--lang Klingon: unknown language; quire paste languages", []string{"paste", "edit", "--lang", "Klingon", "Zk3vPq81mXaT"}},
		{"Set QUIRE_PASSWORD", []string{"paste", "create", "--password", text}},
		{"Use --yes", []string{"paste", "rm", "Zk3vPq81mXaT"}},
		{"is a folder", []string{"paste", "upload", folder}},
		{"is empty", []string{"paste", "upload", empty}},
		{"--name is required", []string{"paste", "upload", "-"}},
		{"expected a period such as 7d for a file", []string{"paste", "upload", "--expires", "2026-12-31", text}},
		{"already exists", []string{"paste", "download", "-o", text, "Zk3vPq81mXaT"}},
		{"paste, quick or file", []string{"paste", "ls", "--kind", "image"}},
		{"at least 1", []string{"paste", "ls", "--limit", "0"}},
		{"mutually exclusive", []string{"paste", "ls", "--limit", "3", "--all"}},
		{`no profile "work"`, []string{"paste", "usage", "--profile", "work"}},
		{"no API key given", []string{"paste", "login"}},
		{"quire: ", []string{"paste", "usage", "--url", "ftp://x"}},
	} {
		out, errs, status := run(t, []string{"HOME=" + t.TempDir()}, test.args...)
		if status != ExitUsage || out != "" || !strings.Contains(errs, test.want) || !strings.HasPrefix(errs, "quire: ") || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: status %d, %q, %q; want %q", test.args, status, out, errs, test.want)
		}
	}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	const id = "Zk3vPq81mXaT"
	all := []kind{kindPaste, kindQuick, kindFile}
	for text, want := range map[string][]kind{
		id:                                       all,
		"p/" + id:                                {kindPaste},
		"/q/" + id:                               {kindQuick},
		"https://a.example/f/" + id:              {kindFile},
		"https://a.example/p/" + id + "/":        {kindPaste},
		"http://a.example/x/q/" + id + "?a":      {kindQuick},
		"https://a.example/p/" + id + "#L10-L20": {kindPaste},
		"https://a.example/q/" + id + "/raw":     {kindQuick},
		"https://a.example/p/" + id + "/diff?from=1&to=2": {kindPaste},
	} {
		got, err := parseReference(text, all...)
		if err != nil || got.id != id || !slices.Equal(got.kinds, want) {
			t.Errorf("%q: %+v %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x", id + "x", "Zk3vPq81mXa!", "https://a.example/" + id, "https://a.example/z/" + id, "//", "https://a.example/p/" + id + "/edit"} {
		if got, err := parseReference(text, all...); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	const text = "1\n2\r\n3"
	for lines, want := range map[string]string{"1": "1\n", "1-2": "1\n2\r\n", "2-": "2\r\n3", "3": "3", "1-3": text} {
		from, to, err := parseLines(lines)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := linesOf(text, from, to); err != nil || got != want {
			t.Errorf("%s: %q %v", lines, got, err)
		}
	}
	for _, lines := range []string{"", "-", "-3", "3-2", "a-b", "1-2-3", "0", "1.5"} {
		if _, _, err := parseLines(lines); err == nil {
			t.Errorf("%q is taken", lines)
		}
	}
}

// TestStatuses holds the exit statuses to the table of docs/guides/command-line.md.
func TestStatuses(t *testing.T) {
	t.Parallel()
	failed := func(status int, code string) error {
		return fmt.Errorf("do it: %w", &client.APIError{Status: status, Code: code, Reason: "no"})
	}
	for _, test := range []struct {
		err  error
		want int
	}{
		{failed(400, "invalid_field"), 2},
		{failed(413, "too_large"), 2},
		{failed(415, "unsupported_media_type"), 2},
		{failed(422, "idempotency_mismatch"), 2},
		{failed(401, "invalid_api_key"), 3},
		{failed(403, "not_owner"), 4},
		{failed(403, "account_suspended"), 4},
		{failed(404, "not_found"), 5},
		{failed(429, "quota_exhausted"), 6},
		{failed(429, "plan_upgrade_required"), 6},
		{failed(429, "key_quota_exhausted"), 6},
		{failed(429, "spending_cap_reached"), 6},
		{failed(429, "anonymous_limit"), 6},
		{failed(409, "idempotency_in_flight"), 7},
		{failed(412, "version_mismatch"), 7},
		{failed(429, "rate_limited"), 8},
		{failed(429, "too_many_failures"), 8},
		{failed(429, "quota_held"), 8},
		{failed(503, "unavailable"), 8},
		{&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, 8},
		{&net.DNSError{IsNotFound: true}, 8},
		{failed(504, "outcome_unknown"), 9},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, 9},
		{&url.Error{Op: "Post", URL: "http://127.0.0.1:8080", Err: io.EOF}, 9},
		{fmt.Errorf("read the answer: %w", io.ErrUnexpectedEOF), 9},
		{io.EOF, 1}, // of standard input
		{failed(500, "internal"), 1},
		{failed(http.StatusTeapot, "new"), 1},
		{os.ErrPermission, 1},
	} {
		if got := Status(t.Context(), test.err); got != test.want {
			t.Errorf("%v: %d, want %d", test.err, got, test.want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := Status(ended, fmt.Errorf("upload: %w", context.Canceled)); got != ExitInterrupted {
		t.Errorf("interrupted: %d", got)
	}
}

func TestAServiceThatIsNotThereIsStatus8(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + taken.Addr().String()
	taken.Close() // nobody listens there any more
	environ := []string{"HOME=" + t.TempDir(), "QUIRE_URL=" + address, "QUIRE_API_KEY=qk_x"}
	out, errs, status := run(t, environ, "paste", "usage")
	if status != ExitUnavailable || out != "" || errs != "quire: "+address+" can't be reached: connection refused. Set another URL with QUIRE_URL, --url or quire paste login\n" {
		t.Errorf("%d %q %q", status, out, errs)
	}
	_, errs, _ = run(t, environ, "paste", "usage", "--json")
	var printed struct {
		Error struct {
			Code, Reason string
			ExitStatus   int
		}
	}
	if err := json.Unmarshal([]byte(errs), &printed); err != nil || printed.Error.Code != "unreachable" || printed.Error.ExitStatus != 8 {
		t.Errorf("%v %q", err, errs)
	}
}

// TestAKeyIsSentToItsOwnServiceOnly: another address of one command must not give the key away.
func TestAKeyIsSentToItsOwnServiceOnly(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	environ := []string{"HOME=" + home}
	a := appFor(t, environ)
	store, err := a.store()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put("default", "https://a.example", "qk_a", true); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		flag    string
		environ []string
		want    account
	}{
		{"", nil, account{url: "https://a.example", key: "qk_a", profile: "default"}},
		{"https://A.example/", nil, account{url: "https://A.example/", key: "qk_a", profile: "default"}},
		{"https://b.example", nil, account{url: "https://b.example"}},
		{"", []string{"QUIRE_URL=https://b.example"}, account{url: "https://b.example"}},
		{"", []string{"QUIRE_URL=http://a.example"}, account{url: "http://a.example"}},
		{"", []string{"QUIRE_API_KEY=qk_b"}, account{url: "https://a.example", key: "qk_b"}},
		{"", []string{"QUIRE_URL=https://b.example", "QUIRE_API_KEY=qk_b"}, account{url: "https://b.example", key: "qk_b"}},
	} {
		a := appFor(t, append(environ, test.environ...))
		a.url = test.flag
		if got, err := a.account(); err != nil || got != test.want {
			t.Errorf("%q %v: %+v %v, want %+v", test.flag, test.environ, got, err, test.want)
		}
	}
}

func appFor(t *testing.T, environ []string) *app {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "stream")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return &app{term: terminal.New(file, file, file, environ)}
}

func TestNamesOfDownloadsAreSafe(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"photo.jpg": "photo.jpg", "../../etc/passwd": "passwd", `C:\x\a.exe`: "a.exe", ".bashrc": "_bashrc", "..": "_.", "a\x1b[31m.txt": "a_[31m.txt", "": "the-id", "/": "the-id", "日本.txt": "日本.txt",
	} {
		if got := safeName(name, "the-id"); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestManualPagesAndCompletions(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "man1")
	if out, errs, status := run(t, nil, "man", folder); status != 0 || !strings.HasSuffix(out, " pages in "+folder+"\n") {
		t.Fatalf("%d %q %q", status, out, errs)
	}
	page, err := os.ReadFile(filepath.Join(folder, "quire-paste-create.1"))
	if err != nil || !strings.Contains(string(page), "only these lines of the file") {
		t.Errorf("%v %s", err, page)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out, errs, status := run(t, nil, "completion", shell); status != 0 || !strings.Contains(out, "quire") {
			t.Errorf("%s: %d %q", shell, status, errs)
		}
	}
	for want, args := range map[string][]string{
		"upload":  {"paste", "up"},
		"private": {"paste", "create", "--visibility", "p"},
		"groovy":  {"paste", "create", "--lang", "gr"},
		"quick":   {"paste", "ls", "--kind", ""},
		"create":  {"help", "paste", ""},
	} {
		if out, errs, _ := run(t, nil, append([]string{"__complete"}, args...)...); !strings.Contains(out, want) {
			t.Errorf("%v: %q %q, want %q", args, out, errs, want)
		}
	}
}
