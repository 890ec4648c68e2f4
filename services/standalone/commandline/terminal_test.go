package commandline

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"
	"github.com/rivo/uniseg"
	"golang.org/x/sys/unix"

	"quire.dev/pkg/eventually"
)

// session is a command at a terminal.
type session struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File // the end of the person
	read chan struct{}

	mu  sync.Mutex
	out strings.Builder
}

// terminal starts a command at a terminal of so many columns.
func (u *user) terminal(columns uint16, args ...string) *session {
	u.t.Helper()
	cmd := exec.CommandContext(u.t.Context(), shared.program, append([]string{"paste"}, args...)...)
	cmd.Env, cmd.Dir = u.environ, u.home
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: columns})
	if err != nil {
		u.t.Fatal(err)
	}
	s := &session{t: u.t, cmd: cmd, tty: tty, read: make(chan struct{})}
	go func() {
		defer close(s.read)
		piece := make([]byte, 4<<10)
		for {
			n, err := tty.Read(piece)
			s.mu.Lock()
			s.out.Write(piece[:n])
			s.mu.Unlock()
			if err != nil {
				return // the command has ended
			}
		}
	}()
	u.t.Cleanup(func() { _ = tty.Close() })
	return s
}

func (s *session) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

// await waits until the terminal shows something.
func (s *session) await(pattern string) {
	s.t.Helper()
	seen := regexp.MustCompile(pattern)
	eventually.NoError(s.t, pattern, func() error {
		if shown := s.shown(); !seen.MatchString(shown) {
			return fmt.Errorf("shown is %q", shown)
		}
		return nil
	})
}

// types sends what the person types. \x03 is Ctrl-C, \x04 is Ctrl-D.
func (s *session) types(text string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// echoes reports whether the terminal shows what is typed.
func (s *session) echoes() bool {
	s.t.Helper()
	state, err := unix.IoctlGetTermios(int(s.tty.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0 && state.Lflag&unix.ICANON != 0
}

// end waits for the end of the command. The terminal must be as before.
func (s *session) end() result {
	s.t.Helper()
	err := s.cmd.Wait()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	<-s.read
	shown := s.shown()
	for _, line := range lines(shown) {
		if strings.Contains(line, "\x1b[?") {
			s.t.Errorf("a mode of the terminal was changed: %q", line)
		}
	}
	return result{out: shown, status: s.cmd.ProcessState.ExitCode()}
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)`)

// lines are the texts shown in each line over time, without colors.
func lines(shown string) []string {
	return strings.FieldsFunc(escapes.ReplaceAllString(shown, ""), func(r rune) bool { return r == '\r' || r == '\n' })
}

// fits asserts that everything shown fits the width of the terminal.
func fits(t *testing.T, shown string, columns int) {
	t.Helper()
	for _, line := range lines(shown) {
		if n := uniseg.StringWidth(line); n > columns {
			t.Errorf("%d columns of %d: %q", n, columns, line)
		}
	}
}

func TestTheTableOfUsageHasBarsAndFits(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	u.ok("hello", "create")
	for _, columns := range []int{120, 80, 60, 40} {
		got := u.terminal(uint16(columns), "usage").end()
		if got.status != 0 {
			t.Fatalf("%+v", got)
		}
		table := strings.Join(lines(got.out), "\n")
		matches(t, table, `(?m)^pastes\.create +1`)
		if columns >= 80 {
			matches(t, table, `(?m)^pastes\.create +1 +500  ▏░{15}  +499`)
			fits(t, got.out[strings.Index(got.out, "QUOTA KEY"):], columns)
			matches(t, got.out, "\x1b\\[32m▏")
		}
		for _, line := range lines(got.out) {
			if strings.Contains(line, "pasteLite.create") && uniseg.StringWidth(line) > columns {
				t.Errorf("%d columns: %q", columns, line)
			}
		}
	}
	for _, plain := range []string{"NO_COLOR=1", "TERM=dumb"} {
		if got := u.with(plain).terminal(80, "usage").end(); strings.Contains(got.out, "\x1b") || !strings.Contains(got.out, "▏░") {
			t.Errorf("%s: %q", plain, got.out)
		}
	}
	if got := u.ok("", "usage"); strings.Contains(got, "\x1b") || strings.Contains(got, "░") {
		t.Errorf("without a terminal: %q", got)
	}
}

func TestTheBarOfAnUploadAndDownloadFitsTheTerminal(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	u.file("a file with a long name 日本語.bin", strings.Repeat("0123456789abcdef", 1<<18)) // 4 MB
	for _, columns := range []uint16{100, 30, 10} {
		got := u.terminal(columns, "upload", "a file with a long name 日本語.bin").end()
		address := regexp.MustCompile(regexp.QuoteMeta(shared.quire.URL()) + "/f/" + id).FindString(got.out)
		if got.status != 0 || address == "" {
			t.Fatalf("%+v", got)
		}
		bars := 0
		for _, part := range strings.Split(got.out, "\r") {
			if line, drawn := strings.CutSuffix(part, "\x1b[K"); drawn && line != "" {
				bars++
				if n := uniseg.StringWidth(line); n >= int(columns) {
					t.Errorf("%d columns of %d: %q", n, columns, line)
				}
				if columns == 100 {
					matches(t, line, `^a file with a long name 日本語\.bin  [█▏▎▍▌▋▊▉░]+ +\d+%  .* of 4\.0 MB`)
				}
			}
		}
		if bars == 0 || !strings.Contains(got.out, "\r\x1b[K") {
			t.Errorf("%d bars, of which the last one is to be erased: %q", bars, got.out)
		}
		down := u.terminal(columns, "download", "--force", address).end()
		if down.status != 0 || !strings.Contains(down.out, "100%\x1b[K") && !strings.Contains(down.out, "of 4.0 MB") {
			t.Errorf("%+v", down)
		}
	}
	if got := u.terminal(80, "upload", "--quiet", "a file with a long name 日本語.bin").end(); strings.Contains(got.out, "\x1b") {
		t.Errorf("quiet: %q", got.out)
	}
}

// slowProxy is a proxy that reads a part of an upload or download, reports that, and continues once release is called.
func slowProxy(t *testing.T) (address string, halted <-chan struct{}, release func()) {
	t.Helper()
	target, err := url.Parse(shared.quire.URL())
	if err != nil {
		t.Fatal(err)
	}
	reached, released := make(chan struct{}, 1), make(chan struct{})
	release = sync.OnceFunc(func() { close(released) })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = "http://" + ln.Addr().String()
	forward := &httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorLog: log.New(io.Discard, "", 0), // of clients that disconnect
		ModifyResponse: func(r *http.Response) error {
			if strings.HasSuffix(r.Request.URL.Path, "/download") {
				r.Body = &haltingBody{ReadCloser: r.Body, left: 256 << 10, reached: reached, released: released}
				return nil
			}
			// Links to files go through the proxy too.
			data, err := io.ReadAll(r.Body)
			data = bytes.ReplaceAll(data, []byte(target.String()), []byte(address))
			r.Body = io.NopCloser(bytes.NewReader(data))
			r.ContentLength = int64(len(data))
			r.Header.Set("Content-Length", strconv.Itoa(len(data)))
			return err
		},
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/dev/files/upload" {
			r.Body = &haltingBody{ReadCloser: r.Body, left: 256 << 10, reached: reached, released: released}
		}
		forward.ServeHTTP(w, r)
	})}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(ln) }()
	t.Cleanup(func() { release(); _ = server.Close(); <-ended })
	return address, reached, release
}

// haltingBody is a body that stops after some bytes until it is released.
type haltingBody struct {
	io.ReadCloser
	left     int
	reached  chan<- struct{}
	released <-chan struct{}
}

func (b *haltingBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		b.reached <- struct{}{}
		<-b.released
		b.left = math.MaxInt
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// TestCtrlCInAnUploadLeavesNothing: no file, no charge, no storage, and a terminal as before.
func TestCtrlCInAnUploadLeavesNothing(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	u.file("large.bin", strings.Repeat("0123456789abcdef", 40<<16)) // 40 MB
	proxy, halted, release := slowProxy(t)
	s := u.with("QUIRE_URL="+proxy).terminal(80, "upload", "large.bin")
	s.await(`large\.bin .*% `)
	<-halted
	s.types("\x03")
	got := s.end()
	release()
	if got.status != 130 || !strings.HasSuffix(got.out, "\r\x1b[Kquire: interrupted\r\n") {
		t.Errorf("%+v", got)
	}
	eventually.NoError(t, "nothing is charged", func() error {
		if used := u.ok("", "usage"); !strings.Contains(used, "files.upload\t0\t100\t100\t") {
			return errors.New(used)
		}
		return nil
	})
	if listed := u.ok("", "ls"); listed != "" {
		t.Errorf("a file stays: %q", listed)
	}
	if used := u.object("", "usage"); used["storage"].(map[string]any)["usedBytes"] != 0.0 {
		t.Errorf("storage is used: %v", used["storage"])
	}
}

func TestCtrlCInADownloadLeavesNothing(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	u.file("data.bin", strings.Repeat("0123456789abcdef", 1<<16))
	page := strings.TrimSpace(u.ok("", "upload", "data.bin"))
	proxy, halted, release := slowProxy(t)
	s := u.with("QUIRE_URL="+proxy).terminal(80, "download", "-o", "copy.bin", page)
	s.await(`copy\.bin .*% `)
	<-halted
	s.types("\x03")
	got := s.end()
	release()
	if got.status != 130 || !strings.HasSuffix(got.out, "\r\x1b[Kquire: interrupted\r\n") {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(filepath.Join(u.home, "copy.bin")); err == nil {
		t.Error("a part of the file is there")
	}
	leftover, err := filepath.Glob(filepath.Join(u.home, ".quire-*"))
	if err != nil || len(leftover) > 0 {
		t.Errorf("left behind: %v %v", leftover, err)
	}
}

func TestQuestionsAtATerminal(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	page := strings.TrimSpace(u.ok("hello", "create", "--quick"))
	for _, answer := range []string{"\r", "n\r", "yeah\r"} {
		s := u.terminal(80, "rm", page)
		s.await(`Permanently delete .*\? \[y/N\] $`)
		s.types(answer)
		if got := s.end(); got.status != 0 || !strings.Contains(got.out, "Nothing was deleted.") {
			t.Errorf("%q: %+v", answer, got)
		}
	}
	s := u.terminal(80, "rm", page)
	s.await(`\[y/N\] $`)
	s.types("\x03")
	if got := s.end(); got.status != 130 {
		t.Errorf("Ctrl-C: %+v", got)
	}
	s = u.terminal(80, "rm", page)
	s.await(`\[y/N\] $`)
	s.types("y\r")
	if got := s.end(); got.status != 0 || !strings.Contains(got.out, "Deleted the quick paste") {
		t.Errorf("%+v", got)
	}
}

func TestALogInAtATerminalHidesTheKey(t *testing.T) {
	t.Parallel()
	holder := newUser(t, "max")
	u := *holder
	u.environ = nil
	for _, v := range holder.environ {
		if !strings.HasPrefix(v, "QUIRE_") {
			u.environ = append(u.environ, v)
		}
	}
	// Ctrl-C while typing is hidden: the terminal shows again what is typed.
	s := u.terminal(80, "login")
	s.await(`URL of the service \[http://127\.0\.0\.1:8080\]: $`)
	s.types(shared.quire.URL() + "\r")
	s.await(`API key \(not shown\): $`)
	if s.echoes() {
		t.Error("the question is shown before what is typed is hidden")
	}
	s.types("qk_half\x03")
	if got := s.end(); got.status != 130 || strings.Contains(got.out, "qk_") || !s.echoes() {
		t.Errorf("%+v, echoes %v", got, s.echoes())
	}
	s = u.terminal(80, "login")
	s.await(`URL of the service`)
	s.types(shared.quire.URL() + "\r")
	s.await(`API key \(not shown\): $`)
	s.types(u.key + "\r")
	got := s.end()
	if got.status != 0 || strings.Contains(got.out, u.key) || !strings.Contains(got.out, "(max plan)") {
		t.Errorf("%+v", got)
	}
	if got := u.run("hello", "create"); got.status != 0 {
		t.Errorf("%+v", got)
	}
}

func TestAPasswordIsAskedFor(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	u.file("secret.txt", "the secret")
	s := u.terminal(80, "create", "--password", "secret.txt")
	s.await(`Password of the paste: $`)
	s.types("sesame\r")
	s.await(`Repeat the password: $`)
	s.types("sesame\r")
	got := s.end()
	page := regexp.MustCompile(regexp.QuoteMeta(shared.quire.URL()) + "/p/" + id).FindString(got.out)
	if got.status != 0 || page == "" || strings.Contains(got.out, "sesame") {
		t.Fatalf("%+v", got)
	}
	s = u.terminal(80, "get", page) // the password requirement shows only when it is read
	s.await(`Password of the paste: $`)
	s.types("sesame\r")
	if got := s.end(); got.status != 0 || !strings.Contains(got.out, "the secret") {
		t.Errorf("%+v", got)
	}
}

func TestTheAddressGoesToTheClipboardAndACode(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	u.file("a.txt", "hello")
	got := u.terminal(100, "create", "--copy", "--qr", "a.txt").end()
	page := regexp.MustCompile(regexp.QuoteMeta(shared.quire.URL()) + "/p/" + id).FindString(got.out)
	if got.status != 0 || page == "" {
		t.Fatalf("%+v", got)
	}
	if sequence := "\x1b]52;c;" + base64.StdEncoding.EncodeToString([]byte(page)) + "\x07"; !strings.Contains(got.out, sequence) {
		t.Errorf("%q is not in %q", sequence, got.out)
	}
	if code := regexp.MustCompile(`(?m)^[█▀▄ ]{29,}\r$`).FindAllString(got.out, -1); len(code) < 15 {
		t.Errorf("%d lines of a code in\n%s", len(code), got.out)
	}
	if got := u.with("TMUX=/tmp/tmux").terminal(100, "create", "--copy", "a.txt").end(); !strings.Contains(got.out, "\x1bPtmux;") {
		t.Errorf("in tmux: %q", got.out)
	}
}

func TestTextTypedAtATerminal(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	s := u.terminal(80, "create")
	s.await(`press Ctrl-D on an empty line\.`)
	s.types("typed text\r\x04")
	got := s.end()
	page := regexp.MustCompile(regexp.QuoteMeta(shared.quire.URL()) + "/p/" + id).FindString(got.out)
	if got.status != 0 || u.ok("", "get", page) != "typed text\n" {
		t.Errorf("%+v", got)
	}
	s = u.terminal(80, "create")
	s.await(`Ctrl-D`)
	s.types("half\r\x03")
	if got := s.end(); got.status != 130 {
		t.Errorf("Ctrl-C: %+v", got)
	}
}

// TestStrangersTextDoesNotCommandTheTerminal: a pipe gets the raw bytes, a terminal an escaped form.
func TestStrangersTextDoesNotCommandTheTerminal(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	const evil = "\x1b]52;c;ZXZpbA==\x07\x1b[2Jhello\n"
	page := strings.TrimSpace(u.ok(evil, "create"))
	if got := u.ok("", "get", page); got != evil {
		t.Errorf("through a pipe: %q", got)
	}
	if got := u.terminal(80, "get", page).end(); strings.Contains(got.out, "\x1b") || !strings.Contains(got.out, "^[[2Jhello") {
		t.Errorf("at a terminal: %q", got.out)
	}
}

func TestAPasteIsViewedInThePager(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	const evil = "one\x1b[2J\n\ttwo\n"
	page := strings.TrimSpace(u.ok(evil, "create", "--title", "notes", "--lang", "go"))
	if got := u.run("", "view", page); got != (result{evil, "", 0}) {
		t.Errorf("through a pipe: %+v", got)
	}
	pager := u.file("pager", "#!/bin/sh\nprintf 'paged '\nexec cat\n")
	for _, test := range []struct {
		environ []string
		args    []string
		want    string
	}{
		{[]string{"PAGER=" + pager}, nil, `^paged \x1b\[1mnotes\x1b\[0m\r\n`},
		{[]string{"PAGER=" + pager}, []string{"--no-pager"}, `^\x1b\[1mnotes\x1b\[0m\r\n`},
		{[]string{"PAGER=" + pager, "NO_COLOR=1"}, nil, `^paged notes\r\npaste, go, 13 B, version 1, .*\r\n\r\n1 one\^\[\[2J\r\n2 \s+two\r\n$`},
		{[]string{"PAGER=no-such-pager", "NO_COLOR=1"}, nil, `(?m)^notes\r\n`},
	} {
		got := u.with(test.environ...).terminal(100, append([]string{"view", page}, test.args...)...).end()
		if got.status != 0 || strings.Contains(got.out, "\x1b[2J") {
			t.Errorf("%v: %+v", test.environ, got)
		}
		matches(t, got.out, test.want)
	}
	if got := u.with("PAGER=false").terminal(100, "view", page).end(); got.status != 1 || !strings.Contains(got.out, "PAGER names another") {
		t.Errorf("a pager that fails: %+v", got)
	}
	check := u.object("", "view", page)
	if check["content"] != evil || check["title"] != "notes" {
		t.Errorf("%v", check)
	}
}

// TestTheDifferenceOfTwoTextsIsShown of versions, of a paste and a file, and of two pastes. patch takes it.
func TestTheDifferenceOfTwoTextsIsShown(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	id := u.object("one\ntwo\nthree\n", "create")["id"].(string)
	if got := u.run("", "diff", id); got.status != 2 || !strings.Contains(got.err, id+" has only one version") {
		t.Errorf("one version: %+v", got)
	}
	u.ok("one\n2\x1b[2J\nthree\n", "edit", id, "-")
	u.ok("one\n2\x1b[2J\n3", "edit", id, "-")
	other := u.object("one\n", "create", "--quick")["id"].(string)
	last := "diff " + id + "@2 " + id + "@3\n--- " + id + "@2\n+++ " + id + "@3\n@@ -1,3 +1,3 @@\n one\n 2\x1b[2J\n-three\n+3\n\\ No newline at end of file\n"
	for _, test := range []struct {
		in   string
		args []string
		want string
	}{
		{"", []string{id}, last},
		{"", []string{id, "--from", "2", "--to", "3"}, last},
		{"", []string{id, "--to", "2"}, "@@ -1,3 +1,3 @@\n one\n-two\n+2\x1b[2J\n three\n"},
		{"", []string{id, "--from", "1"}, "@@ -1,3 +1,3 @@\n one\n-two\n-three\n+2\x1b[2J\n+3\n\\ No newline at end of file\n"},
		{"one\ntwo\n", []string{id, "--from", "1", "--file", "-"}, "+++ -\n@@ -1,3 +1,2 @@\n one\n two\n-three\n"},
		{"", []string{id, other, "--from", "1"}, "+++ " + other + "@1\n@@ -1,3 +1,1 @@\n one\n-two\n-three\n"},
		{"", []string{id, "--from", "3", "--to", "3"}, ""},
	} {
		got := u.run(test.in, append([]string{"diff"}, test.args...)...)
		if got.status != 0 || !strings.HasSuffix(got.out, test.want) || test.want == "" && got.out != "" {
			t.Errorf("%v: %+v", test.args, got)
		}
	}
	if got := u.object("", "diff", id); got["from"] != id+"@2" || got["to"] != id+"@3" || got["diff"] != last {
		t.Errorf("as JSON: %v", got)
	}
	shown := u.with("PAGER=cat").terminal(100, "diff", id).end()
	if shown.status != 0 || strings.Contains(shown.out, "\x1b[2J") || !strings.Contains(shown.out, "\x1b[31m-three\x1b[0m\r\n\x1b[32m+3\x1b[0m") {
		t.Errorf("at a terminal: %+v", shown)
	}
	for _, args := range [][]string{{id, "--from", "0"}, {id, "--to", "-1"}, {id, "--to", "1", "--file", "x"}, {id, other, "--file", "x"}, {id, "--file", "missing"}, {}, {id, id, id}} {
		if got := u.run("", append([]string{"diff"}, args...)...); got.status != 2 {
			t.Errorf("%v: %+v", args, got)
		}
	}
	if got := u.run("", "diff", id, "--from", "9"); got.status != 5 {
		t.Errorf("a version that is not there: %+v", got)
	}
}

func TestTheEditorChangesAPaste(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	u.file("main.go", "package main\n")
	page := strings.TrimSpace(u.ok("", "create", "main.go"))
	editor := u.file("editor", "#!/bin/sh\ncase \"$2\" in *main.go) ;; *) exit 3;; esac\nstat -c %a \"$2\" > \"$HOME/mode\"\n[ \"$1\" = --wait ] && echo '// more' >> \"$2\"\n")
	got := u.with("VISUAL="+editor+" --wait").terminal(80, "edit", page).end()
	if got.status != 0 || !strings.Contains(got.out, "now has version 2") || u.ok("", "get", page) != "package main\n// more\n" {
		t.Errorf("%+v", got)
	}
	if mode, err := os.ReadFile(filepath.Join(u.home, "mode")); string(mode) != "600\n" {
		t.Errorf("the draft has the mode %q %v", mode, err)
	}
	if got := u.with("EDITOR=true").terminal(80, "edit", page).end(); got.status != 0 || !strings.Contains(got.out, "Nothing changed.") {
		t.Errorf("nothing changed: %+v", got)
	}
	if got := u.with("EDITOR=false").terminal(80, "edit", page).end(); got.status != 1 || !strings.Contains(got.out, "VISUAL or EDITOR") {
		t.Errorf("an editor that fails: %+v", got)
	}
	if got := u.ok("", "versions", page); strings.Count(got, "\n") != 2 {
		t.Errorf("versions: %q", got)
	}
}
