// Package commandline tests the commands for users as a program, at a terminal and without one, against a whole Quire.
package commandline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"quire.dev/pkg/admin"
	"quire.dev/pkg/host"
	"quire.dev/services/standalone"
)

const adminToken = "an-admin-token-for-tests"

// shared is used by all tests of the package: one server, and one program.
var shared struct {
	once    sync.Once
	folder  string
	program string
	quire   *standalone.Quire
	stop    func() error
	err     error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.stop != nil {
		if err := shared.stop(); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, "stop quire:", err)
			code = 1
		}
	}
	if shared.folder != "" {
		_ = os.RemoveAll(shared.folder)
	}
	os.Exit(code)
}

// user is a person with a home folder, and perhaps an account.
type user struct {
	t       *testing.T
	home    string
	key     string
	environ []string
}

// newUser creates an account of a tier, and logs nobody in: the key is in the environment. Without a tier there is no account.
func newUser(t *testing.T, tier string) *user {
	t.Helper()
	start(t)
	u := &user{t: t, home: t.TempDir()}
	u.environ = []string{
		"HOME=" + u.home, "PATH=" + filepath.Dir(shared.program) + ":" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir(), "TERM=xterm-256color", "LC_ALL=C.UTF-8", "TZ=UTC",
		"QUIRE_URL=" + shared.quire.URL(), "NO_PROXY=*",
	}
	if tier != "" {
		api := admin.Client{Base: shared.quire.AdminURL(), Token: adminToken}
		email := strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")) + "@example.org" // names of tests are letters, digits and dashes
		made, err := api.CreateAccount(t.Context(), admin.NewAccount{Email: email, Tier: tier}, "")
		if err != nil {
			t.Fatal(err)
		}
		u.key = made.APIKey
		u.environ = append(u.environ, "QUIRE_API_KEY="+u.key)
	}
	return u
}

// start starts the server and builds the program, once.
func start(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs the command line as a process")
	}
	shared.once.Do(func() { shared.err = startAll() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
}

func startAll() error {
	var err error
	if shared.folder, err = os.MkdirTemp("", "quire-commandline-"); err != nil {
		return err
	}
	shared.program = filepath.Join(shared.folder, "bin", "quire")
	build := exec.Command("go", "build", "-ldflags", "-s -w -X main.version=1.2.3", "-o", shared.program, "quire.dev/cli/cmd/quire")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the client: %w\n%s", err, out)
	}
	cfg, err := host.ReadSettings(host.Quire, []string{
		"QUIRE_LISTEN=127.0.0.1:0", "QUIRE_DATA=" + filepath.Join(shared.folder, "data"), "QUIRE_ADMIN_TOKEN=" + adminToken, "QUIRE_ANON_LIMIT=1000",
		// An operator may use these too: the server does not report them as mistyped settings.
		"QUIRE_API_KEY=qk_x", "QUIRE_URL=http://127.0.0.1:1", "QUIRE_PROFILE=x", "QUIRE_PASSWORD=x", "QUIRE_MANAGE_TOKEN=x",
	})
	if err != nil {
		return err
	}
	if shared.quire, err = standalone.New(cfg, standalone.Deps{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- shared.quire.Run(ctx) }()
	shared.stop = func() error { cancel(); return <-ended }
	select {
	case <-shared.quire.Ready():
		return nil
	case err := <-ended:
		shared.stop = nil
		return fmt.Errorf("quire ended: %w", err)
	}
}

// with returns the user with more variables.
func (u *user) with(variables ...string) *user {
	other := *u
	other.environ = append(append([]string{}, u.environ...), variables...)
	return &other
}

// result is what a command has printed, and its exit status.
type result struct {
	out, err string
	status   int
}

// run runs a command without a terminal.
func (u *user) run(input string, args ...string) result {
	u.t.Helper()
	cmd := exec.CommandContext(u.t.Context(), shared.program, append([]string{"paste"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env, cmd.Dir = strings.NewReader(input), &out, &errs, u.environ, u.home
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		u.t.Fatal(err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// ok is run for a command that must succeed.
func (u *user) ok(input string, args ...string) string {
	u.t.Helper()
	r := u.run(input, args...)
	if r.status != 0 {
		u.t.Fatalf("%q: %+v", args, r)
	}
	return r.out
}

// object is the one JSON object that a command prints.
func (u *user) object(input string, args ...string) map[string]any {
	u.t.Helper()
	out := u.ok(input, append(args, "--json")...)
	var found map[string]any
	if err := json.Unmarshal([]byte(out), &found); err != nil || strings.Count(out, "\n") != 1 {
		u.t.Fatalf("%q: %v %q", args, err, out)
	}
	return found
}

// file writes a file into the user's home.
func (u *user) file(name, content string) string {
	u.t.Helper()
	path := filepath.Join(u.home, name)
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		u.t.Fatal(err)
	}
	return path
}
