package commandline

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestEachOfSeveralFilesIsAPaste(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	u.file("a.go", "package a\n")
	u.file("b.md", "# b\n")
	got := u.run("from a pipe", "create", "a.go", "b.md", "-")
	pages := strings.Fields(got.out)
	if got.status != 0 || len(pages) != 3 {
		t.Fatalf("%+v", got)
	}
	matches(t, got.err, `^a\.go: Created a paste of 10 B\. .*\nb\.md: Created a paste of 4 B\. .*\n-: Created a paste of 11 B\. .*\n$`)
	for i, want := range []string{"package a\n", "# b\n", "from a pipe"} {
		if text := u.ok("", "get", pages[i]); text != want {
			t.Errorf("%d: %q, want %q", i, text, want)
		}
	}
}

// TestWhatOneOfSeveralFilesIsRefusedForDoesNotStopTheOthers: a quick paste has 256 KB at most, and Free has no other pastes.
func TestWhatOneOfSeveralFilesIsRefusedForDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	u := newUser(t, "free")
	u.file("a.txt", "a")
	u.file("large.txt", strings.Repeat("x", 256<<10+1))
	u.file("largest.txt", strings.Repeat("x", 256<<10))
	got := u.run("", "create", "a.txt", "large.txt", "largest.txt")
	if got.status != 6 || strings.Count(got.out, "/q/") != 2 || strings.Count(got.out, "\n") != 2 {
		t.Errorf("%+v", got)
	}
	matches(t, got.err, `(?m)^quire: large\.txt: it has 256 KB, and a quick paste at most 256 KB: `)
	matches(t, got.err, `(?m)^largest\.txt: Created a quick paste of 256 KB\.`)

	got = u.run("", "create", "--json", "--quiet", "large.txt", "a.txt")
	var failed struct{ Error struct{ Code, File string } }
	var made struct{ File, URL string }
	if err := json.Unmarshal([]byte(got.out), &made); err != nil || made.File != "a.txt" || made.URL == "" {
		t.Errorf("%v %+v", err, got)
	}
	if err := json.Unmarshal([]byte(got.err), &failed); err != nil || failed.Error.File != "large.txt" || failed.Error.Code != "plan_upgrade_required" {
		t.Errorf("%v %+v", err, got)
	}
}

// TestAFileThatCannotBeReadLeavesNothingHalfDone: all such files are named, and no paste is created.
func TestAFileThatCannotBeReadLeavesNothingHalfDone(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	u.file("a.txt", "a")
	u.file("empty.txt", "")
	got := u.run("", "create", "a.txt", "missing.txt", "empty.txt")
	if got.status != 2 || got.out != "" || got.err != "quire: open missing.txt: no such file or directory\nquire: empty.txt is empty\n" {
		t.Errorf("%+v", got)
	}
	if listed := u.ok("", "ls"); listed != "" {
		t.Errorf("created: %q", listed)
	}
}

func TestNoFileIsTriedAfterAKeyIsRefused(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro").with("QUIRE_API_KEY=qk_wrong")
	u.file("a.txt", "a")
	u.file("b.txt", "b")
	got := u.run("", "create", "a.txt", "b.txt")
	lines := strings.Split(got.err, "\n")
	if got.status != 3 || got.out != "" || !strings.HasPrefix(lines[0], "quire: a.txt: ") || !slices.Contains(lines, "quire: b.txt: not tried") {
		t.Errorf("%+v", got)
	}
}
