package standalone

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"quire.dev/pkg/admin"
)

// repriced is the output of quire reprice --json.
type repriced struct {
	Month    string
	Sum      repricedRow
	Accounts []repricedRow
}

type repricedRow struct {
	Account      string
	Was, WouldBe map[string]any
}

// checkSum fails unless each figure of the sum is what the accounts' figures add up to.
func (r repriced) checkSum(t *testing.T) {
	t.Helper()
	for name, bill := range map[string]func(repricedRow) map[string]any{
		"was":     func(row repricedRow) map[string]any { return row.Was },
		"wouldBe": func(row repricedRow) map[string]any { return row.WouldBe },
	} {
		for _, key := range []string{"requests", "refused", "credits", "creditsUsd", "feesUsd", "storageUsd", "totalUsd"} {
			var sum int64
			for _, row := range r.Accounts {
				sum += figure(t, bill(row)[key])
			}
			if got := figure(t, bill(r.Sum)[key]); got != sum {
				t.Errorf("%s of the sum, %s: %d, and the accounts' add up to %d", key, name, got, sum)
			}
		}
	}
}

// figure is a number of bills, or an amount in its smallest unit.
func figure(t *testing.T, value any) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.Replace(fmt.Sprint(value), ".", "", 1), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestAnotherPriceBookIsTriedOnAMonth: the journal's own book comes to the same bills, and another one charges and refuses as it says.
func TestAnotherPriceBookIsTriedOnAMonth(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	settings := []string{"QUIRE_ADMIN_TOKEN=" + testAdminToken, "QUIRE_PARTITIONS=2"}
	c := launch(t, folder, settings...)
	month := time.Now().UTC().Format("2006-01")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, s := range newShelves(t, c.base, 3, rand.New(rand.NewPCG(seed, 2))) {
		for range 20 {
			s.step(t.Context())
		}
	}
	call := func(method, path, token string, body, into any) {
		t.Helper()
		if err := (admin.Client{Base: c.base, Token: token}).Call(t.Context(), method, path, body, into); err != nil {
			t.Fatal(err)
		}
	}
	// Five quick pastes each: one account has a credit, the other has none.
	var rich, poor, free struct {
		APIKey  string
		Account struct{ ID string }
	}
	call("POST", "/api/admin/accounts", testAdminToken, map[string]any{"email": "rich@example.org", "tier": "pro"}, &rich)
	call("POST", "/api/admin/accounts", testAdminToken, map[string]any{"email": "poor@example.org", "tier": "pro"}, &poor)
	call("POST", "/api/admin/accounts", testAdminToken, map[string]any{"email": "free@example.org", "tier": "free"}, &free)
	var ignored any
	call("POST", "/api/admin/accounts/"+rich.Account.ID+"/credits", testAdminToken, map[string]any{"amount": "1", "reason": "test"}, &ignored)
	for n := range 5 {
		for _, key := range []string{rich.APIKey, poor.APIKey} {
			call("POST", "/api/dev/paste-lite/create", key, map[string]any{"content": fmt.Sprint("text ", n)}, &ignored)
		}
	}
	// The Free plan has no pastes: billing refuses one, and the edge remembers that for the others.
	err := (admin.Client{Base: c.base, Token: free.APIKey}).Call(t.Context(), "POST", "/api/dev/pastes/create", map[string]any{"content": "x"}, &ignored)
	if err == nil {
		t.Fatal("a paste on the Free plan")
	}
	var shown struct{ Current map[string]any }
	call("GET", "/api/prices", "", nil, &shown)
	delete(shown.Current, "id")
	delete(shown.Current, "effectiveAt")
	write := func(name string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), name)
		data, err := json.Marshal(shown.Current)
		if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	run := func(book string) (r repriced) {
		t.Helper()
		out, errs, code := quire(t, folder, settings, "reprice", "--prices", book, "--month", month, "--json")
		if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
			t.Fatalf("%d %s %s: %v", code, out, errs, err)
		}
		r.checkSum(t)
		return r
	}
	if time.Now().UTC().Format("2006-01") != month {
		t.Skip("the month has changed meanwhile")
	}
	same := write("same.json")
	before := run(same)
	if len(before.Accounts) < 5 || before.Month != month {
		t.Errorf("%d accounts in %s", len(before.Accounts), before.Month)
	}
	for _, a := range before.Accounts {
		if fmt.Sprint(a.Was) != fmt.Sprint(a.WouldBe) {
			t.Errorf("by the book in force, account %s has %v, and had %v", a.Account, a.WouldBe, a.Was)
		}
	}

	change := func(plan, key string, limit, price any) {
		for _, p := range shown.Current["plans"].([]any) {
			for _, q := range p.(map[string]any)["quotas"].([]any) {
				if quota := q.(map[string]any); p.(map[string]any)["name"] == plan && quota["quotaKey"] == key {
					quota["limit"], quota["price"] = limit, price
				}
			}
		}
	}
	change("pro", "pasteLite.create", 2, "0.5")
	change("free", "pastes.create", 10, nil)
	shown.Current["creditPrice"] = "2"
	other := write("other.json")
	if err := c.end(t, syscall.SIGTERM); err != nil { // and of a stopped one
		t.Fatal(err)
	}
	for _, a := range run(other).Accounts {
		got := fmt.Sprint(a.Was["requests"], " ", a.Was["refused"], " ", a.Was["creditsUsd"], ", ", a.WouldBe["requests"], " ", a.WouldBe["refused"], " ", a.WouldBe["credits"], " ", a.WouldBe["creditsUsd"])
		want := map[string]string{rich.Account.ID: "5 0 0.00, 4 1 1.000000 2.00", poor.Account.ID: "5 0 0.00, 2 3 0.000000 0.00", free.Account.ID: "0 1 0.00, 1 0 0.000000 0.00"}[a.Account]
		if want != "" && got != want {
			t.Errorf("account %s: %s, want %s", a.Account, got, want)
		}
	}
	out, errs, code := quire(t, folder, settings, "reprice", "--prices", other, "--month", month)
	if code != 0 || !strings.Contains(out, "bills would differ, and 2 accounts would have more requests refused.") || !strings.Contains(out, "Most refused") || !strings.Contains(out, rich.Account.ID) || !strings.Contains(out, "$2.00") {
		t.Errorf("%d %s %s", code, out, errs)
	}

	shown.Current["plans"] = shown.Current["plans"].([]any)[:1]
	lacking := write("lacking.json")
	broken := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for says, args := range map[string][]string{
		"are required":          {"--month", month},
		"must have the plan":    {"--month", month, "--prices", lacking},
		"not JSON":              {"--month", month, "--prices", broken},
		"no such file":          {"--month", month, "--prices", broken + "x"},
		"must be a month":       {"--month", "2026-13", "--prices", same},
		"no account has a bill": {"--month", "2020-01", "--prices", same},
		"has a bill of 2099-01": {"--month", "2099-01", "--prices", same},
	} {
		if out, errs, code := quire(t, folder, settings, append([]string{"reprice"}, args...)...); code == 0 || !strings.Contains(errs, says) {
			t.Errorf("want an error that says %q: %d %q %q", says, code, out, errs)
		}
	}
}
