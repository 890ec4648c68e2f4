package standalone

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

var built struct {
	once   sync.Once
	folder string
	path   string
	err    error
}

// binary builds the quire command once for all tests that run it as a process. These are not unit tests: -short skips them.
func binary(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("runs quire as a process")
	}
	built.once.Do(func() {
		if built.folder, built.err = os.MkdirTemp("", "quire-binary-"); built.err != nil {
			return
		}
		built.path = filepath.Join(built.folder, "quire")
		cmd := exec.Command("go", "build", "-o", built.path, "./cmd/quire")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("build quire: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

func removeBinary() {
	if built.folder != "" {
		_ = os.RemoveAll(built.folder)
	}
}

func TestMain(m *testing.M) {
	code := m.Run()
	removeBinary()
	os.Exit(code)
}

const bootLimit = 60 * time.Second
