package commandline

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const id = `[0-9A-Za-z]{12}`

func matches(t *testing.T, text, pattern string) {
	t.Helper()
	if !regexp.MustCompile(pattern).MatchString(text) {
		t.Errorf("%q does not match %s", text, pattern)
	}
}

// TestTheClientIsSmall: the client program contains no server.
func TestTheClientIsSmall(t *testing.T) {
	t.Parallel()
	start(t)
	info, err := os.Stat(shared.program)
	if err != nil {
		t.Fatal(err)
	}
	const most = 12 << 20
	if info.Size() > most {
		t.Errorf("the program has %d bytes, want %d at most", info.Size(), most)
	}
	out, err := exec.Command("go", "version", "-m", shared.program).Output()
	if err != nil || !strings.Contains(string(out), "github.com/spf13/cobra") {
		t.Fatalf("%v %s", err, out)
	}
	for _, module := range []string{"nats-io", "sqlite", "mongo", "minio", "fiber", "fasthttp", "prometheus", "quire.dev/pkg", "quire.dev/services"} {
		if strings.Contains(string(out), module) {
			t.Errorf("%s is in the client:\n%s", module, out)
		}
	}
}

func TestAPasteFromItsCreationToItsEnd(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	const text = "package main\n\nfunc main() {}\n"
	u.file("main.go", text)
	made := u.run("", "create", "--expires", "7d", "--tag", "a,b", "main.go")
	matches(t, made.out, "^"+regexp.QuoteMeta(shared.quire.URL())+"/p/"+id+"\n$")
	matches(t, made.err, `^Created a paste of 29 B\. It expires at .+\. 499 free requests left\.\n$`)
	page := strings.TrimSpace(made.out)

	if got := u.run("", "get", page); got != (result{text, "", 0}) {
		t.Errorf("get: %+v", got)
	}
	found := u.object("", "get", page)
	if found["title"] != "main.go" || found["language"] != "go" || fmt.Sprint(found["tags"]) != "[a b]" || found["expiresAt"] == nil {
		t.Errorf("%v", found)
	}
	changed := u.run("package changed\n", "edit", page, "-")
	if changed.out != "" || changed.err != "The paste now has version 2. 499 free requests left.\n" {
		t.Errorf("edit: %+v", changed)
	}
	u.ok("", "edit", "--title", "Changed", "--expires", "never", "--tag", "", "--visibility", "private", page)
	found = u.object("", "get", filepath.Base(page)) // the id alone
	if found["content"] != "package changed\n" || found["title"] != "Changed" || found["expiresAt"] != nil || fmt.Sprint(found["tags"]) != "[]" || found["visibility"] != "private" {
		t.Errorf("%v", found)
	}
	if got := u.ok("", "get", "--version", "1", page); got != text {
		t.Errorf("version 1: %q", got)
	}
	if got := u.ok("", "versions", page); strings.Count(got, "\n") != 3 || !strings.HasPrefix(got, "3\tChanged\t") {
		t.Errorf("versions: %q", got)
	}
	u.ok("", "get", "-o", "copy.go", page)
	if got, err := os.ReadFile(filepath.Join(u.home, "copy.go")); string(got) != "package changed\n" {
		t.Errorf("copy: %q %v", got, err)
	}
	if got := u.run("", "rm", "--yes", page); got.status != 0 || got.err != "Deleted the paste "+filepath.Base(page)+". 499 free requests left.\n" {
		t.Errorf("rm: %+v", got)
	}
	if got := u.run("", "get", page); got.status != 5 || got.out != "" {
		t.Errorf("after its end: %+v", got)
	}
}

// TestWhichKindIsMade: a paste for an account whose plan has pastes, a quick paste without, unless the user chooses.
func TestWhichKindIsMade(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		tier, path string
		args       []string
		status     int
	}{
		{"pro", "/p/", nil, 0},
		{"pro", "/q/", []string{"--quick"}, 0},
		{"free", "/q/", nil, 0},
		{"free", "", []string{"--quick=false"}, 6},
		{"", "/q/", nil, 0},
		{"", "", []string{"--quick=false"}, 3},
	} {
		t.Run(fmt.Sprintf("%s-%d-%v", test.tier, len(test.args), test.path != ""), func(t *testing.T) {
			u := newUser(t, test.tier)
			got := u.run("hello\n", append([]string{"create"}, test.args...)...)
			if got.status != test.status || (got.out == "") != (test.status != 0) || !strings.Contains(got.out, test.path) {
				t.Errorf("%+v", got)
			}
			if dry := u.run("hello\n", append([]string{"create", "--dry-run"}, test.args...)...); test.status == 0 && (dry.status != 0 || strings.Contains(dry.out, "quick paste") != (test.path == "/q/")) {
				t.Errorf("dry run: %+v", dry)
			}
		})
	}
}

func TestADryRunAndFreeCommandsCostNothing(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	before := u.ok("", "usage")
	for _, args := range [][]string{{"create", "--dry-run"}, {"usage", "--json"}, {"get", "Zk3vPq81mXaT"}, {"open", "--print", "Zk3vPq81mXaT"}} {
		u.run("hello", args...)
	}
	if after := u.ok("", "usage"); after != before || !strings.Contains(after, "pastes.create\t0\t500\t500\t0\t0.000000\n") {
		t.Errorf("before:\n%safter:\n%s", before, after)
	}
}

func TestAQuickPasteWithoutAKeyIsManagedByItsToken(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	made := u.object("hello", "create")
	token, _ := made["manageToken"].(string)
	if token == "" {
		t.Fatalf("%v", made)
	}
	said := u.run("hello", "create", "--quiet")
	matches(t, said.err, `^Management token, shown only once: \S+\n$`)
	address := made["url"].(string)
	if got := u.run("", "rm", "--yes", address); got.status != 3 || !strings.Contains(got.err, "QUIRE_MANAGE_TOKEN") {
		t.Errorf("without the token: %+v", got)
	}
	if got := u.with("QUIRE_MANAGE_TOKEN=wrong").run("x", "edit", address, "-"); got.status != 4 {
		t.Errorf("a wrong token: %+v", got)
	}
	owner := u.with("QUIRE_MANAGE_TOKEN=" + token)
	owner.ok("new", "edit", address, "-")
	owner.ok("", "rm", "--yes", address)
}

func TestAPasteWithAPassword(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	page := strings.TrimSpace(u.with("QUIRE_PASSWORD=open sesame").ok("secret", "create", "--password"))
	if got := u.run("", "get", page); got.status != 4 || !strings.Contains(got.err, "QUIRE_PASSWORD") {
		t.Errorf("without: %+v", got)
	}
	if got := u.with("QUIRE_PASSWORD=open sesame").ok("", "get", page); got != "secret" {
		t.Errorf("%q", got)
	}
}

// TestWhatSomebodyElseHasChangedIsNotOverwritten: after a failed change the text is kept, from the editor and from a pipe.
func TestWhatSomebodyElseHasChangedIsNotOverwritten(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	page := strings.TrimSpace(u.ok("first\n", "create"))
	kept := func(r result) string {
		t.Helper()
		match := regexp.MustCompile(`your text is kept in (\S+)\n`).FindStringSubmatch(r.err)
		if r.status != 7 || match == nil {
			t.Fatalf("%+v", r)
		}
		data, err := os.ReadFile(match[1])
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if got := kept(u.run("mine\n", "edit", "--if-version", "7", page, "-")); got != "mine\n" {
		t.Errorf("from a pipe: %q", got)
	}
	editor := u.file("editor", fmt.Sprintf("#!/bin/sh\necho theirs | %s paste edit %s - || exit\necho mine >> \"$1\"\n", shared.program, page))
	session := u.with("EDITOR="+editor).terminal(100, "edit", page)
	end := session.end()
	if got := kept(result{err: strings.ReplaceAll(end.out, "\r\n", "\n"), status: end.status}); got != "first\nmine\n" {
		t.Errorf("from the editor: %q", got)
	}
	if got := u.ok("", "get", page); got != "theirs\n" {
		t.Errorf("the paste: %q", got)
	}
}

func TestListsAreOfAllKindsInTheirOrder(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	u.ok("one", "create", "--title", "one", "--lang", "go")
	u.ok("two", "create", "--title", "two", "--quick", "--visibility", "private")
	u.file("three.bin", "\xff\xfe")
	u.ok("", "upload", "three.bin")
	titles := func(args ...string) string {
		t.Helper()
		var found []string
		for line := range strings.Lines(u.ok("", append([]string{"ls"}, args...)...)) {
			found = append(found, strings.Split(line, "\t")[2])
		}
		slices.Sort(found)
		return strings.Join(found, " ")
	}
	for want, args := range map[string][]string{
		"one three.bin two": nil,
		"one two":           {"--kind", "paste,quick"},
		"three.bin":         {"--kind", "file"},
		"two":               {"--visibility", "private"},
		"one":               {"--lang", "go"},
		"":                  {"--search", "nothing"},
	} {
		if got := titles(args...); got != want {
			t.Errorf("%v: %q, want %q", args, got, want)
		}
	}
	one := u.run("", "ls", "--limit", "1")
	if strings.Count(one.out, "\n") != 1 || one.err != "There are more: use --all or --limit 2.\n" {
		t.Errorf("%+v", one)
	}
	newest := u.ok("", "ls", "--limit", "2")
	oldest := u.ok("", "ls", "--oldest", "--all")
	if lines := strings.SplitAfter(oldest, "\n"); lines[2]+lines[1] != newest {
		t.Errorf("the newest:\n%sthe oldest first:\n%s", newest, oldest)
	}
}

func TestAFileGoesUpAndComesBack(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	random := rand.NewChaCha8([32]byte{1})
	content := make([]byte, 3<<20)
	_, _ = random.Read(content) // never fails
	u.file("data.bin", string(content))
	sent := u.run("", "upload", "data.bin")
	matches(t, sent.out, "^"+regexp.QuoteMeta(shared.quire.URL())+"/f/"+id+"\n$")
	if sent.err != "Uploaded data.bin, 3.0 MB. 99 free requests left.\n" {
		t.Errorf("no terminal, and on standard error is %q", sent.err)
	}
	page := strings.TrimSpace(sent.out)
	if got := u.run("", "download", page); got.status != 2 || !strings.Contains(got.err, "data.bin already exists") {
		t.Errorf("over a file that is there: %+v", got)
	}
	got := u.object("", "download", "-o", "copy.bin", page)
	sum := sha256.Sum256(content)
	if got["path"] != "copy.bin" || got["sha256"] != hex.EncodeToString(sum[:]) {
		t.Errorf("%v", got)
	}
	if data, err := os.ReadFile(filepath.Join(u.home, "copy.bin")); !bytes.Equal(data, content) {
		t.Errorf("other bytes: %d, %v", len(data), err)
	}
	if data := u.ok("", "download", "-o", "-", page); data != string(content) {
		t.Errorf("through a pipe: %d bytes", len(data))
	}
	u.ok("", "download", "--force", page)
	piped := u.object("from a pipe", "upload", "--name", "note.txt", "--expires", "1d", "-")
	if piped["name"] != "note.txt" || piped["size"] != 11.0 || piped["expiresAt"] == nil {
		t.Errorf("%v", piped)
	}
	leftover, err := filepath.Glob(filepath.Join(u.home, ".quire-*"))
	if err != nil || len(leftover) > 0 {
		t.Errorf("left behind: %v %v", leftover, err)
	}
}

// TestTheFieldsOfJSONAreStable compares the output of --json with the table of docs/guides/command-line.md.
func TestTheFieldsOfJSONAreStable(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	u.file("a.txt", "hello")
	charge := []string{"requestId", "remaining", "chargeSource", "cost", "balance"}
	text := []string{"kind", "id", "title", "language", "visibility", "size", "version", "tags", "burnAfterRead", "passwordProtected", "createdAt", "updatedAt", "expiresAt", "url", "rawUrl"}
	file := []string{"kind", "id", "name", "size", "contentType", "sha256", "visibility", "createdAt", "expiresAt", "url"}
	check := func(got map[string]any, want ...[]string) {
		t.Helper()
		names := slices.Sorted(maps.Keys(got))
		all := slices.Concat(want...)
		slices.Sort(all)
		if !slices.Equal(names, all) {
			t.Errorf("%v, want %v", names, all)
		}
	}
	made := u.object("", "create", "a.txt")
	check(made, []string{"file", "kind", "id", "url", "rawUrl", "version", "createdAt", "expiresAt"}, charge)
	page := made["url"].(string)
	check(u.object("x", "create", "--dry-run"), []string{"file", "kind", "size", "quotaKey", "remaining", "chargeSource"})
	check(u.object("", "get", page), text, []string{"content"}, charge)
	check(u.object("", "versions", page), []string{"version", "title", "language", "size", "createdAt"})
	check(u.object("", "ls"), text)
	check(u.object("new", "edit", page, "-"), []string{"kind", "id", "version", "updatedAt"}, charge)
	check(u.object("", "open", "--print", page), []string{"url"})
	sent := u.object("", "upload", "a.txt")
	check(sent, file, charge)
	check(u.object("", "download", "-o", "b.txt", sent["url"].(string)), file, []string{"path"}, charge)
	check(u.object("", "rm", "--yes", page), []string{"kind", "id"}, charge)
	used := u.object("", "usage")
	check(used, []string{"account", "period", "quotas", "credits", "storage"})
	check(used["quotas"].([]any)[0].(map[string]any), []string{"quotaKey", "used", "limit", "remaining", "overage", "creditsSpent"})
	check(u.object("", "usage", "--verify"), []string{"after", "newest", "entries", "calls", "credits"})
	if explained := u.object("", "explain", made["requestId"].(string)); explained["quotaKey"] != "pastes.create" || explained["decision"] != "admitted" {
		t.Errorf("%v", explained)
	}
	failed := u.run("", "get", "--json", page)
	var printed map[string]map[string]any
	if err := json.Unmarshal([]byte(failed.err), &printed); err != nil || failed.out != "" || failed.status != 5 {
		t.Fatalf("%+v %v", failed, err)
	}
	if e := printed["error"]; e["code"] != "not_found" || e["exitStatus"] != 5.0 || e["status"] != 404.0 || e["requestId"] == nil || e["reason"] == nil {
		t.Errorf("%v", e)
	}
}

func TestALogInIsKeptForItsUserAlone(t *testing.T) {
	t.Parallel()
	holder := newUser(t, "pro")
	u := *holder
	u.environ = slices.DeleteFunc(slices.Clone(u.environ), func(v string) bool { return strings.HasPrefix(v, "QUIRE_") })
	if got := u.run("qk_wrong\n", "login", "--url", shared.quire.URL()); got.status != 3 {
		t.Errorf("a wrong key: %+v", got)
	}
	profiles := filepath.Join(u.home, ".config", "quire", "profiles.json")
	if _, err := os.Stat(profiles); err == nil {
		t.Error("a wrong key is kept")
	}
	got := u.run(u.key+"\n", "login", "--url", shared.quire.URL())
	if got.status != 0 || got.out != "" || strings.Contains(got.err, u.key) || !strings.Contains(got.err, "pro plan") {
		t.Fatalf("%+v", got)
	}
	if info, err := os.Stat(profiles); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	u.ok("hello", "create") // neither the address nor the key is given
	u.ok(u.key, "login", "--url", shared.quire.URL(), "--profile", "work")
	if got := u.ok("", "profiles"); got != fmt.Sprintf("\tdefault\t%[1]s\tfile\n*\twork\t%[1]s\tfile\n", shared.quire.URL()) {
		t.Errorf("%q", got)
	}
	u.ok("", "profiles", "default")
	u.ok("", "logout")
	if got := u.run("", "usage", "--profile", "default"); got.status != 2 {
		t.Errorf("after the log-out: %+v", got)
	}
	u.ok("", "usage", "--profile", "work")
}

// TestAWrongKeyIsToldApartFromAMissingOne: the error says where the key came from, so that the right one is replaced.
func TestAWrongKeyIsToldApartFromAMissingOne(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	u.ok(u.key, "login", "--profile", "work", "--no-keyring")
	without := func(environ []string) []string {
		return slices.DeleteFunc(slices.Clone(environ), func(v string) bool { return strings.HasPrefix(v, "QUIRE_API_KEY=") })
	}
	stored, nobody := *u, *newUser(t, "")
	stored.environ = without(u.environ)
	profiles := filepath.Join(u.home, ".config", "quire", "profiles.json")
	data, err := os.ReadFile(profiles)
	if err != nil {
		t.Fatal(err)
	}
	u.file(".config/quire/profiles.json", strings.Replace(string(data), u.key, "qk_wrong", 1))
	for _, test := range []struct {
		from          result
		says, without string
	}{
		{nobody.run("", "usage"), "Log in with quire paste login, or set QUIRE_API_KEY.", "The key is from"},
		{nobody.with("QUIRE_API_KEY=").run("", "usage"), "Log in with quire paste login, or set QUIRE_API_KEY.", "The key is from"},
		{u.with("QUIRE_API_KEY=qk_wrong").run("", "usage"), "The key is from QUIRE_API_KEY. Correct it, or unset it", "Log in again"},
		{stored.run("", "usage"), `The key is from the profile "work". Log in again with quire paste login --profile work.`, "QUIRE_API_KEY"},
		{nobody.run("qk_wrong\n", "login"), "Copy the key again, or create one in the console of " + shared.quire.URL(), "QUIRE_API_KEY"},
	} {
		if got := test.from; got.status != 3 || got.out != "" || !strings.Contains(got.err, test.says) || strings.Contains(got.err, test.without) {
			t.Errorf("%+v, want %q", got, test.says)
		}
	}
}

// TestWhatFailsBehindACreationIsToldAlone: with another exit status a script would create the paste again.
func TestWhatFailsBehindACreationIsToldAlone(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro").with("BROWSER=false")
	got := u.run("hello", "create", "--open")
	if got.status != 0 || got.out == "" || !strings.Contains(got.err, "quire: open the browser: ") {
		t.Errorf("%+v", got)
	}
}

func TestOpenRunsTheBrowser(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	browser := u.file("browser", "#!/bin/sh\necho noise\nprintf '%s' \"$1\" > \"$HOME/opened\"\n")
	u = u.with("BROWSER=" + browser)
	opened := func() string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(u.home, "opened"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	page := strings.TrimSpace(u.ok("hello", "create", "--quick", "--open"))
	if opened() != page {
		t.Errorf("%q, want %q", opened(), page)
	}
	if got := u.ok("", "open", filepath.Base(page)); got != page+"\n" || opened() != page {
		t.Errorf("by its id: %q, opened %q, want %q", got, opened(), page)
	}
	u.ok("", "open")
	if opened() != shared.quire.URL()+"/console" {
		t.Errorf("%q", opened())
	}
}
