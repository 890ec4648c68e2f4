package standalone

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"quire.dev/pkg/eventually"
	"quire.dev/services/standalone/internal/quiretest"
)

// quire runs the command to its end.
func quire(t *testing.T, folder string, settings []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs strings.Builder
	cmd := exec.Command(binary(t), args...)
	cmd.Env = environment(append([]string{"QUIRE_DATA=" + folder}, settings...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		code = exit.ExitCode()
	default:
		t.Fatal(err)
	}
	return out.String(), errs.String(), code
}

func TestTheCommandLine(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	tests := []struct {
		name     string
		settings []string
		args     []string
		code     int
		out, err string
	}{
		{"version", nil, []string{"version"}, 0, "quire ", ""},
		{"help", nil, []string{"help"}, 0, "Usage:", ""},
		{"help by flag", nil, []string{"--help"}, 0, "Usage:", ""},
		{"help of a subcommand", nil, []string{"audit", "-h"}, 0, "Usage:", ""},
		{"all settings", nil, []string{"help", "settings"}, 0, "\nQUIRE_DATA (quire)\n", ""},
		{"help of anything else", nil, []string{"help", "me"}, 2, "", "settings"},
		{"unknown command", nil, []string{"launch"}, 2, "", `unknown command "launch"`},
		{"unknown flag", nil, []string{"audit", "--fast"}, 2, "", "fast"},
		{"too many arguments", nil, []string{"up", "x"}, 2, "", "arguments"},
		{"licences of one", nil, []string{"licenses", "x"}, 2, "", "arguments"},
		{"explain what", nil, []string{"explain"}, 2, "", "arguments"},
		{"account without email", nil, []string{"account", "create"}, 2, "", "--email"},
		{"help of a command", nil, []string{"help", "account", "create"}, 0, "--tier string", ""},
		{"flags with one dash", nil, []string{"account", "create", "-email=a@example.org", "-tier", "gold"}, 1, "", "no quire is running"},
		{"account without a verb", nil, []string{"account"}, 2, "", "usage: quire account create"},
		{"help by one dash", nil, []string{"audit", "-help"}, 0, "Usage:", ""},
		{"a command of users", []string{"HOME=/nonexistent"}, []string{"paste", "get", "short"}, 2, "", "neither the id nor the URL"},
		{"completions", nil, []string{"completion", "bash"}, 0, "__start_quire", ""},
		{"settings of users", []string{"QUIRE_URL=x", "QUIRE_API_KEY=x", "QUIRE_PROFILE=x", "QUIRE_PASSWORD=x", "QUIRE_MANAGE_TOKEN=x"}, []string{"audit"}, 1, "", "holds no data"},
		{"all wrong settings at once", []string{"QUIRE_LISTEN=x", "QUIRE_PARTITIONS=0", "QUIRE_LISTN=y"}, nil, 2, "", "3 invalid settings"},
		{"settings of other programs", []string{"QUIRE_MAX_CONNS=x", "QUIRE_STOP_GRACE=x"}, []string{"audit"}, 1, "", "holds no data"},
		{"clock", []string{"QUIRE_CLOCK_OFFSET=1h"}, nil, 2, "", "QUIRE_DEV=1"},
		{"nothing to audit", nil, []string{"audit"}, 1, "", "holds no data"},
		{"nobody to ask", nil, []string{"account", "create", "--email", "a@example.org"}, 1, "", "no quire is running"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			out, errs, code := quire(t, folder, test.settings, test.args...)
			if code != test.code || !strings.Contains(out, test.out) || !strings.Contains(errs, test.err) {
				t.Errorf("exit %d, stdout %q, stderr %q", code, out, errs)
			}
		})
	}
}

func TestFirstStartShowsAKeyOnceAndACommandThatWorks(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("NOT TESTED: the command of the first start. There is no curl")
	}
	folder := filepath.Join(t.TempDir(), "data")
	c := launch(t, folder, "QUIRE_ADMIN_TOKEN=") // quire creates one itself
	var command string
	eventually.NoError(t, "the greeting", func() error {
		command = regexp.MustCompile(`(?m)^curl .*$`).FindString(c.stdout.String())
		if command == "" {
			return errors.New("no curl command yet")
		}
		return nil
	})
	for range 2 {
		out, err := exec.Command("sh", "-c", command).CombinedOutput()
		if err != nil || !strings.Contains(string(out), `"success":true`) {
			t.Fatalf("%s: %v %s", command, err, out)
		}
	}
	greeting := c.stdout.String()
	key := regexp.MustCompile(`qk_\w+`).FindString(greeting)
	token := regexp.MustCompile(`qa_\w+`).FindString(greeting)
	if key == "" || token == "" {
		t.Fatalf("no key or token in %q", greeting)
	}
	// The other commands find the process by its data folder.
	out, errs, code := quire(t, folder, nil, "account", "create", "--email", "second@example.org", "--tier", "max")
	if code != 0 || !strings.Contains(out, "second@example.org, max") || !strings.Contains(out, "qk_") {
		t.Errorf("account create: %d %q %q", code, out, errs)
	}
	if out, errs, code = quire(t, folder, nil, "audit"); code != 0 || !strings.Contains(out, "everything matches") {
		t.Errorf("audit beside the running quire: %d %q %q", code, out, errs)
	}
	request := createQuickPaste(t, c.base, key)
	if out, errs, code = quire(t, folder, nil, "explain", request); code != 0 || !strings.Contains(out, "pasteLite.create") {
		t.Errorf("explain: %d %q %q", code, out, errs)
	}
	slow := sendQuickPaste(t, c.base, key, quiretest.SlowBody(t.Context(), "slow"))
	eventually.NoError(t, "its edge has reported it", func() error {
		out, errs, code := quire(t, folder, nil, "explain", "--timing", slow)
		for _, want := range []string{
			slow + ": pasteLite.create of account ", " ms until the response began", "bodyMs ", "the client's network", "admission stored ", "A request was slow",
		} {
			if code != 0 || !strings.Contains(out, want) {
				return fmt.Errorf("no %q: %d %q %q", want, code, out, errs)
			}
		}
		return nil
	})
	// A second process is refused, and says which one has the folder.
	_, errs, code = quire(t, folder, []string{"QUIRE_LISTEN=127.0.0.1:0"}, "up")
	if code != 1 || !strings.Contains(errs, "in use") || !strings.Contains(errs, folder) {
		t.Errorf("second process: %d %q", code, errs)
	}
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("stop: %v", err)
	}
	// No process runs: both commands start one for themselves.
	if out, errs, code = quire(t, folder, nil, "audit"); code != 0 || !strings.Contains(out, "everything matches") {
		t.Errorf("audit alone: %d %q %q", code, out, errs)
	}
	if out, errs, code = quire(t, folder, nil, "explain", request); code != 0 || !strings.Contains(out, "pasteLite.create") {
		t.Errorf("explain alone: %d %q %q", code, out, errs)
	}
	c = launch(t, folder, "QUIRE_ADMIN_TOKEN=")
	eventually.NoError(t, "the second greeting", func() error {
		if !strings.Contains(c.stdout.String(), "admin token: in ") {
			return errors.New(c.stdout.String())
		}
		return nil
	})
	if again := c.stdout.String(); strings.Contains(again, "qk_") || strings.Contains(again, token) {
		t.Errorf("a later start shows secrets: %q", again)
	}
	if err := c.end(t, syscall.SIGINT); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// createQuickPaste creates a quick paste and returns the request's id.
func createQuickPaste(t *testing.T, base, key string) string {
	t.Helper()
	return sendQuickPaste(t, base, key, strings.NewReader("x"))
}

func sendQuickPaste(t *testing.T, base, key string, content io.Reader) (requestID string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/api/dev/paste-lite/create", content)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "text/plain")
	request.Header.Set("x-api-key", key)
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		t.Fatalf("create a quick paste: %s", response.Status)
	}
	return response.Header.Get("X-Request-Id")
}

func TestAPortInUseIsOneClearLine(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, errs, code := quire(t, filepath.Join(t.TempDir(), "data"), []string{"QUIRE_LISTEN=" + taken.Addr().String()})
	if code != 1 || !strings.Contains(errs, "address already in use") || strings.Count(strings.TrimSpace(lastLine(errs)), "\n") != 0 || !strings.HasPrefix(lastLine(errs), "quire: ") {
		t.Errorf("exit %d, %q", code, errs)
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
