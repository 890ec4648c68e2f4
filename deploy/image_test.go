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
	if copied := copyContext(t, "Dockerfile.dockerignore", "..", context); copied < 100 {
		t.Errorf("only %d files were copied", copied)
	}
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

// TestTheImageOfQuireHasItsProfile runs the image's build with a go that prints its arguments: quire is compiled with the same profile as
// by make, and services without one.
func TestTheImageOfQuireHasItsProfile(t *testing.T) {
	_, script, found := strings.Cut(read(t, "Dockerfile"), "target=/root/.cache/go-build \\\n")
	script, _, ended := strings.Cut(script, "\n\n")
	_, profile, named := strings.Cut(read(t, "../Makefile"), "\nPGO     ?= ")
	profile, _, _ = strings.Cut(profile, "\n")
	if !found || !ended || !named {
		t.Fatal("the Dockerfile has no build, or the Makefile no profile")
	}
	context, tools := t.TempDir(), t.TempDir()
	copyContext(t, "Dockerfile.dockerignore", "..", context)
	if _, err := os.Stat(filepath.Join(context, profile)); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(tools, "go"), []byte("#!/bin/sh\necho go \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for service, want := range map[string]string{"quire": profile, "edge": "off"} {
		command := exec.CommandContext(t.Context(), "sh", "-ec", strings.ReplaceAll(script, "/out/", t.TempDir()+"/"))
		command.Dir = context
		command.Env = []string{"PATH=" + tools + ":" + os.Getenv("PATH"), "SERVICE=" + service, "VERSION=v1", "TARGETOS=linux", "TARGETARCH=amd64"}
		out, err := command.CombinedOutput()
		build, _, _ := strings.Cut(string(out), "\n")
		if err != nil || !strings.Contains(build, " -pgo="+want+" ") || !strings.HasSuffix(build, "/cmd/"+service) {
			t.Errorf("%s is built with %q, want the profile %q: %v", service, build, want, err)
		}
	}
}

// TestMinIOsImageHasThePinnedProgramsAndTheirLicences: building MinIO takes minutes, and bin/minio and bin/mc are built from the same
// module. This test finds the programs' packages in it, and their licences.
func TestMinIOsImageHasThePinnedProgramsAndTheirLicences(t *testing.T) {
	context := t.TempDir()
	copyContext(t, "minio/Dockerfile.dockerignore", "..", context)
	dockerfile, makefile := read(t, "minio/Dockerfile"), read(t, "../Makefile")
	if !strings.Contains(dockerfile, "-o /out/bin/ github.com/minio/minio github.com/minio/mc") || !strings.Contains(makefile, "bin/minio bin/mc: tools/minio/go.mod") {
		t.Error("the image and make do not build the same programs")
	}
	command := exec.CommandContext(t.Context(), "go", "run", filepath.Join(context, "deploy", "notices", "main.go"), "github.com/minio/minio", "github.com/minio/mc")
	command.Dir = filepath.Join(context, "tools", "minio")
	command.Env = append(os.Environ(), "GOWORK=off")
	var stderr strings.Builder
	command.Stderr = &stderr
	notices, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	for _, module := range []string{"github.com/minio/minio", "github.com/minio/mc", "github.com/minio/madmin-go/v3"} {
		if !strings.Contains(string(notices), "\n"+module+" v") {
			t.Errorf("the notices do not name %s", module)
		}
	}
	if !strings.Contains(string(notices), "GNU AFFERO GENERAL PUBLIC LICENSE") {
		t.Error("the notices do not have MinIO's licence")
	}
}

// copyContext copies the files that a build of an image is sent, and returns their number.
func copyContext(t *testing.T, ignore, from, to string) int {
	t.Helper()
	file, err := os.Open(ignore)
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
	return copied
}
