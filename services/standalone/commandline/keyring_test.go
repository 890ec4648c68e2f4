package commandline

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quire.dev/pkg/eventually"
)

var keyRing = flag.Bool("keyring", false, "try the system's key ring; it needs dbus-daemon and gnome-keyring-daemon")

// startKeyRing starts a session bus with an unlocked key ring, and returns the bus's address.
func startKeyRing(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	environ := []string{"HOME=" + home, "XDG_RUNTIME_DIR=" + home, "PATH=" + os.Getenv("PATH")}
	begin := func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env = environ
		t.Cleanup(func() {
			if cmd.Process != nil {
				_ = cmd.Process.Kill() // it may have ended
				_ = cmd.Wait()         // "signal: killed"
			}
		})
		return cmd
	}
	daemon := begin("dbus-daemon", "--session", "--nofork", "--print-address")
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	address := bufio.NewScanner(out)
	if !address.Scan() {
		t.Fatalf("dbus-daemon has ended: %v", address.Err())
	}
	environ = append(environ, "DBUS_SESSION_BUS_ADDRESS="+address.Text())
	ring := begin("gnome-keyring-daemon", "--unlock", "--foreground", "--components=secrets")
	ring.Stdin = strings.NewReader("a password")
	if err := ring.Start(); err != nil {
		t.Fatal(err)
	}
	eventually.NoError(t, "the key ring is on the bus", func() error {
		ask := exec.CommandContext(t.Context(), "dbus-send", "--session", "--dest=org.freedesktop.DBus", "--print-reply", "/", "org.freedesktop.DBus.NameHasOwner", "string:org.freedesktop.secrets")
		ask.Env = environ
		out, err := ask.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "boolean true") {
			return fmt.Errorf("%w %s", err, out)
		}
		return nil
	})
	return address.Text()
}

// TestALogInIsKeptInTheSystemsKeyRing: the key is nowhere else, and a logout removes it. Without the key ring it is in the file
// (TestALogInIsKeptForItsUserAlone).
func TestALogInIsKeptInTheSystemsKeyRing(t *testing.T) {
	if !*keyRing {
		t.Skip("needs a key ring: run `make test-clients`")
	}
	u := newUser(t, "pro")
	bus := "DBUS_SESSION_BUS_ADDRESS=" + startKeyRing(t)
	u.environ = slices.DeleteFunc(slices.Clone(u.environ), func(v string) bool { return strings.HasPrefix(v, "QUIRE_") })
	without := *u
	u = u.with(bus)

	u.ok(u.key, "login", "--url", shared.quire.URL())
	if got := u.object("", "profiles"); got["keyStore"] != "keyring" {
		t.Errorf("%v", got)
	}
	err := filepath.WalkDir(u.home, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), u.key) {
			t.Errorf("%s has the key", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	u.ok("hello", "create") // with the key from the key ring
	if got := without.run("", "usage"); got.status == 0 || !strings.Contains(got.err, "key ring") {
		t.Errorf("without the key ring: %+v", got)
	}
	u.ok("", "logout")
	if got := u.run("", "usage"); got.status == 0 {
		t.Errorf("after the log-out: %+v", got)
	}
	u.ok(u.key, "login", "--url", shared.quire.URL(), "--no-keyring")
	if got := u.object("", "profiles"); got["keyStore"] != "file" {
		t.Errorf("%v", got)
	}
}
