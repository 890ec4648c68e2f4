package commandline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// kept are the receipts that the commands keep of a user.
type kept struct {
	Verified, Newest string
	Mismatch         bool
}

func (u *user) receiptsPath() string {
	return filepath.Join(u.home, ".config", "quire", "receipts.json")
}

// kept is what is kept of the only key.
func (u *user) kept() kept {
	u.t.Helper()
	data, err := os.ReadFile(u.receiptsPath())
	if err != nil {
		u.t.Fatal(err)
	}
	var file struct{ Services map[string]map[string]kept }
	if err := json.Unmarshal(data, &file); err != nil || len(file.Services) != 1 {
		u.t.Fatalf("%v %s", err, data)
	}
	for _, keys := range file.Services {
		for _, k := range keys {
			return k
		}
	}
	u.t.Fatalf("%s", data)
	return kept{}
}

func (u *user) forge(from, to string) {
	u.t.Helper()
	data, err := os.ReadFile(u.receiptsPath())
	if err == nil {
		err = os.WriteFile(u.receiptsPath(), bytes.ReplaceAll(data, []byte(from), []byte(to)), 0o600)
	}
	if err != nil {
		u.t.Fatal(err)
	}
}

func numberOf(t *testing.T, receipt string) int {
	t.Helper()
	number, _, _ := strings.Cut(receipt, ".")
	n, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestReceiptsAreKeptAndVerified(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	if got := u.run("", "usage", "--verify"); got != (result{"Nothing was verified: the account has no entries yet.\n", "No receipt was kept yet.\n", 0}) {
		t.Errorf("before the first call: %+v", got)
	}
	if _, err := os.Stat(u.receiptsPath()); err == nil {
		t.Error("nothing is kept in a file")
	}
	u.ok("one", "create")
	first := u.kept()
	if first.Verified == "" || first.Verified != first.Newest {
		t.Errorf("after the first call: %+v", first)
	}
	page := strings.TrimSpace(u.ok("two", "create"))
	u.ok("", "get", page)
	u.ok("", "usage") // has no receipt
	from, to := numberOf(t, first.Verified), numberOf(t, u.kept().Newest)
	if now := u.kept(); now.Verified != first.Verified || to != from+2 {
		t.Errorf("after three calls: %+v", now)
	}
	found := u.object("", "usage", "--verify")
	if found["after"] != first.Verified || found["newest"] != u.kept().Newest || found["entries"] != 2.0 || found["calls"] != 2.0 || found["credits"] != "0.000000" || len(found) != 5 {
		t.Errorf("%v", found)
	}
	if now := u.kept(); now.Verified != now.Newest || numberOf(t, now.Newest) != to {
		t.Errorf("after the verification: %+v", now)
	}
	unproven := "\nNot proven: that entries were right when they were made, that calls without a receipt were not counted, and entries after %d.\n"
	if got := u.run("", "usage", "--verify"); got != (result{fmt.Sprintf("No new entries. Receipt %d is still the newest."+unproven, to, to), "", 0}) {
		t.Errorf("again: %+v", got)
	}
	u.ok("three", "create")
	if got := u.run("", "usage", "--verify"); got != (result{fmt.Sprintf("Verified 1 entry, up to %d: 1 call and 0.000000 credits, refunds deducted."+unproven, to+1, to+1), "", 0}) {
		t.Errorf("one more: %+v", got)
	}
	data, err := os.ReadFile(u.receiptsPath())
	if info, err2 := os.Stat(u.receiptsPath()); err != nil || err2 != nil || info.Mode().Perm() != 0o600 || strings.Contains(string(data), u.key) {
		t.Errorf("%v %v %v %s", err, err2, info.Mode(), data)
	}
	if got := u.run("", "usage", "--reset"); got.status != 2 {
		t.Errorf("--reset alone: %+v", got)
	}
}

// TestWithoutAKeptReceiptTheNewestIsKept: of calls before, made elsewhere.
func TestWithoutAKeptReceiptTheNewestIsKept(t *testing.T) {
	t.Parallel()
	elsewhere := newUser(t, "pro")
	u := *elsewhere
	u.home = t.TempDir()
	u.environ = append(append([]string{}, elsewhere.environ...), "HOME="+u.home)
	elsewhere.ok("one", "create")
	newest := elsewhere.kept().Newest
	if found := u.object("", "usage", "--verify"); found["after"] != nil || found["newest"] != newest || found["entries"] != 0.0 {
		t.Errorf("%v", found)
	}
	if now := u.kept(); now != (kept{newest, newest, false}) {
		t.Errorf("%+v", now)
	}
	elsewhere.ok("two", "create")
	if found := u.object("", "usage", "--verify"); found["after"] != newest || found["newest"] != elsewhere.kept().Newest || found["entries"] != 1.0 {
		t.Errorf("%v", found)
	}
}

// TestReceiptsThatDontFitAreNamed: with the number, and the receipts stay as they are until the user starts anew.
func TestReceiptsThatDontFitAreNamed(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("0", 64)
	for name, test := range map[string]struct {
		forge func(u *user, k kept)
		want  func(k kept) int
	}{
		"another hash of the verified one": {func(u *user, k kept) {
			u.forge(k.Verified, fmt.Sprintf("%d.%s", numberOf(u.t, k.Verified), zeros))
		}, func(k kept) int { return numberOf(t, k.Verified) }},
		"another hash of the newest one": {func(u *user, k kept) {
			u.forge(k.Newest, fmt.Sprintf("%d.%s", numberOf(u.t, k.Newest), zeros))
		}, func(k kept) int { return numberOf(t, k.Newest) }},
		"beyond the newest": {func(u *user, k kept) {
			u.forge(k.Newest, fmt.Sprintf("%d.%s", numberOf(u.t, k.Newest)+2, zeros))
		}, func(k kept) int { return numberOf(t, k.Newest) + 1 }},
		"both beyond the newest": {func(u *user, k kept) {
			u.forge(k.Newest, "900."+zeros)
			u.forge(k.Verified, "900."+zeros)
		}, func(kept) int { return 900 }},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			u := newUser(t, "pro")
			u.ok("one", "create")
			u.ok("two", "create")
			before := u.kept()
			test.forge(u, before)
			forged := u.kept()
			forged.Mismatch = true
			got := u.run("", "usage", "--verify")
			if got.status != 1 || got.out != "" || !strings.HasPrefix(got.err, fmt.Sprintf("quire: entry %d does not fit the receipts: ", test.want(before))) || !strings.Contains(got.err, "--reset") {
				t.Errorf("%+v", got)
			}
			u.ok("three", "create")
			if now := u.kept(); now != forged {
				t.Errorf("%+v, want %+v", now, forged)
			}
			got = u.run("", "usage", "--verify", "--json")
			var printed struct {
				Error struct{ Code, Reason, Suggestion string }
			}
			if err := json.Unmarshal([]byte(got.err), &printed); err != nil || printed.Error.Code != "receipt_mismatch" || !strings.Contains(printed.Error.Suggestion, u.receiptsPath()) {
				t.Errorf("%v %+v", err, got)
			}
			if found := u.object("", "usage", "--verify", "--reset"); found["after"] != nil || numberOf(t, found["newest"].(string)) != numberOf(t, before.Newest)+1 {
				t.Errorf("reset: %v", found)
			}
			u.ok("", "usage", "--verify")
		})
	}
}

// TestEditedEntriesAreFound: the service shows another entry, then the true one again.
func TestEditedEntriesAreFound(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	target, err := url.Parse(shared.quire.URL())
	if err != nil {
		t.Fatal(err)
	}
	var edits atomic.Bool
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(r *http.Response) error {
		if !edits.Load() || r.Request.URL.Path != "/api/users/user/receipts" {
			return nil
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		body = bytes.Replace(body, []byte(`"entry":"02`), []byte(`"entry":"03`), 1)
		r.Body = io.NopCloser(bytes.NewReader(body))
		return nil
	}
	server := httptest.NewServer(proxy)
	defer server.Close()
	u = u.with("QUIRE_URL=" + server.URL)
	u.ok("one", "create")
	u.ok("two", "create")
	before := u.kept()
	edits.Store(true)
	if got := u.run("", "usage", "--verify"); got.status != 1 || !strings.Contains(got.err, fmt.Sprintf("entry %d does not fit", numberOf(t, before.Newest))) {
		t.Errorf("%+v", got)
	}
	if now := u.kept(); now != (kept{before.Verified, before.Newest, true}) {
		t.Errorf("%+v, before %+v", now, before)
	}
	edits.Store(false)
	if found := u.object("", "usage", "--verify"); found["entries"] != 1.0 {
		t.Errorf("%v", found)
	}
	if now := u.kept(); now != (kept{before.Newest, before.Newest, false}) {
		t.Errorf("%+v", now)
	}
}

// TestAFileThatCantBeReadIsAWarning, once for each command that would keep a receipt; usage --verify fails. The file stays.
func TestAFileThatCantBeReadIsAWarning(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	u.ok("one", "create")
	good, err := os.ReadFile(u.receiptsPath())
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"garbage", strings.Replace(string(good), `"format": 1`, `"format": 0`, 1)} {
		if err := os.WriteFile(u.receiptsPath(), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got := u.run("", "create", u.file("a.txt", "a"), u.file("b.txt", "b"))
		if got.status != 0 || strings.Count(got.out, "\n") != 2 || strings.Count(got.err, "The receipt was not kept: ") != 1 || !strings.Contains(got.err, u.receiptsPath()) {
			t.Errorf("%+v", got)
		}
		if got := u.run("c", "create", "--quiet"); got.status != 0 || got.err != "" {
			t.Errorf("quiet: %+v", got)
		}
		if got := u.run("", "usage", "--verify"); got.status != 1 || !strings.Contains(got.err, u.receiptsPath()) {
			t.Errorf("verify: %+v", got)
		}
		if after, err := os.ReadFile(u.receiptsPath()); err != nil || string(after) != content {
			t.Errorf("%v %s", err, after)
		}
	}
	// A folder that can't be written, for root too.
	folder := filepath.Dir(u.receiptsPath())
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := u.run("d", "create"); got.status != 0 || got.out == "" || strings.Count(got.err, "The receipt was not kept: ") != 1 {
		t.Errorf("%+v", got)
	}
	// Without a folder at all, receipts aren't kept, and only --verify says so.
	if got := u.with("HOME=").run("e", "create"); got.status != 0 || strings.Contains(got.err, "receipt") {
		t.Errorf("%+v", got)
	}
	if got := u.with("HOME=").run("", "usage", "--verify"); got.status != 1 || !strings.Contains(got.err, "HOME") {
		t.Errorf("%+v", got)
	}
}

func TestConcurrentCommandsKeepTheGreatestReceipt(t *testing.T) {
	t.Parallel()
	u := newUser(t, "pro")
	const commands = 6
	results := make([]result, commands)
	var running sync.WaitGroup
	for n := range results {
		running.Go(func() { results[n] = u.run("hello", "create") })
	}
	running.Wait()
	for _, got := range results {
		if got.status != 0 || strings.Contains(got.err, "not kept") {
			t.Errorf("%+v", got)
		}
	}
	before := u.kept()
	found := u.object("", "usage", "--verify")
	if found["newest"] != before.Newest || found["after"] != before.Verified {
		t.Errorf("%v, kept %+v", found, before)
	}
}
