package deploy_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// TestTheImageBuildsFromItsContext builds what the Dockerfile builds, from the files that Dockerfile.dockerignore leaves.
func TestTheImageBuildsFromItsContext(t *testing.T) {
	context := t.TempDir()
	copyContext(t, "..", context)
	for _, name := range []string{"LICENSE", "THIRD_PARTY_NOTICES"} {
		if _, err := os.Stat(filepath.Join(context, name)); err != nil || !strings.Contains(read(t, "Dockerfile"), "COPY LICENSE THIRD_PARTY_NOTICES /licenses/\n") {
			t.Errorf("%s does not get into the image: %v", name, err)
		}
	}
	for _, build := range []struct{ dir, workspace, main string }{
		{".", filepath.Join(context, "go.work"), "./services/edge/cmd/edge"},
		{".", filepath.Join(context, "go.work"), "./services/standalone/cmd/quire"},
		{"deploy", "off", "./probe"},
	} {
		command := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, build.main)
		command.Dir = filepath.Join(context, build.dir)
		command.Env = append(os.Environ(), "GOWORK="+build.workspace, "GOFLAGS=-buildvcs=false")
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("build %s: %v\n%s", build.main, err, out)
		}
	}
}

// copyContext copies the files that a build of the image is sent.
func copyContext(t *testing.T, from, to string) {
	t.Helper()
	file, err := os.Open("Dockerfile.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	patterns, err := ignorefile.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	copied := 0
	err = filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil || name == "." {
			return err
		}
		out, err := ignored.MatchesOrParentMatches(name)
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir():
			// A folder that is left out may have files that are not.
			if out && !strings.Contains("\n"+strings.Join(patterns, "\n"), "\n!"+name) {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case out:
			return nil
		}
		copied++
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	if copied < 100 {
		t.Errorf("only %d files were copied", copied)
	}
}
