package standalone

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/plan"
	"quire.dev/services/standalone/internal/export"
)

var verifierSeed = flag.Uint64("verifier.seed", 0, "what TestTheVerifierFindsWhatBillingShows draws; 0 draws one")

// verifier runs verifier/verify.mjs.
func verifier(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.Command("node", append([]string{"../../verifier/verify.mjs"}, args...)...)
	data, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(data), cmd.ProcessState.ExitCode()
}

// hasNode reports whether the verifier can run here. If CI is set, it fails the test where node is missing.
func hasNode(t *testing.T) bool {
	t.Helper()
	_, err := exec.LookPath("node")
	if err != nil && os.Getenv("CI") != "" {
		t.Fatalf("the verifier needs node: %v", err)
	}
	return err == nil
}

// agrees exports from a folder and fails unless the verifier comes to the same books.
func agrees(t *testing.T, folder string) {
	t.Helper()
	if !hasNode(t) {
		t.Log("NOT TESTED: the verifier. There is no node.")
		return
	}
	to := filepath.Join(t.TempDir(), "export")
	exportTo(t, folder, []string{"QUIRE_ADMIN_TOKEN=" + testAdminToken}, to, "--books")
	out, code := verifier(t, "--export", to)
	t.Logf("%s", out)
	if code != 0 {
		keepExport(t, to)
		t.Errorf("the verifier: exit code %d", code)
	}
}

// variety makes calls of every kind that billing's journals record, of which many are refused, with accounts of its own.
type variety struct {
	*attack
	accounts []*attackAccount

	mu       sync.Mutex
	charged  []string // requests that credits paid
	receipts []string // of metered calls, after the account's id
	items    map[string][]string
	statuses map[string]int
}

// try makes a call until its answer is definite.
func (v *variety) try(ctx context.Context, c attackCall) (*attackAnswer, error) {
	if c.body != "" && c.kind == "" {
		c.kind = "application/json"
	}
	if c.method != http.MethodGet {
		c.once = v.newKey()
	}
	r, err := v.server.settle(ctx, c)
	if err == nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		path := strings.Split(c.path, "?")[0]
		for _, n := range v.accounts {
			if receipt := r.header.Get("X-Receipt"); receipt != "" && c.key == n.defaultKey() {
				v.receipts = append(v.receipts, n.id+" "+receipt)
			}
			path = strings.ReplaceAll(path, n.id, "ID")
		}
		parts := strings.Split(path, "/")
		if len(parts) > 5 && parts[2] != "admin" {
			parts = parts[:5]
		}
		v.statuses[fmt.Sprintf("%s %s %d", c.method, strings.Join(parts, "/"), r.status)]++
	}
	return r, err
}

// request makes a metered call.
func (v *variety) request(ctx context.Context, n *attackAccount, random *rand.Rand) error {
	kind := []string{"files", "files", "files", "files", "pastes", "pasteLite"}[random.IntN(6)]
	v.mu.Lock()
	list := v.items[n.id+kind]
	item := noDocument
	if len(list) > 0 {
		item = list[random.IntN(len(list))]
	}
	v.mu.Unlock()
	c := attackCall{method: http.MethodPost, path: attackPaths(kind) + "create", body: `{"content":"variety"}`, key: n.defaultKey()}
	switch what := random.IntN(20); {
	case what < 12 && kind == "files":
		c.path, c.kind, c.body = attackPaths(kind)+"upload?name=f", "application/octet-stream", strings.Repeat("v", 1+random.IntN(100_000))
	case what < 10:
	case what < 11 && kind != "files":
		c.body = `{"content":""}` // invalid
	case what < 15:
		c.method, c.path, c.body = http.MethodGet, attackPaths(kind)+"get/"+item, ""
	case what < 16 && kind != "files":
		c.method, c.path = http.MethodPut, attackPaths(kind)+"update/"+item
	case what < 17 && kind != "pastes":
		c.method, c.path, c.body = http.MethodGet, attackPaths(kind)+"list", ""
	case what < 18:
		c.method, c.path, c.body = http.MethodDelete, attackPaths(kind)+"delete/"+item, ""
	case what < 19:
		c.method, c.path, c.body = http.MethodDelete, attackPaths(kind)+"delete/"+noDocument, "" // admitted, then voided
	default:
		c.key, c.path = "", attackPaths("pasteLite")+"create" // by nobody
	}
	r, err := v.try(ctx, c)
	if err != nil || !r.ok() || c.key == "" {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if r.header.Get("X-Charge-Source") == "credits" {
		v.charged = append(v.charged, n.id+" "+r.id())
	}
	var made struct{ ID string }
	if c.method == http.MethodPost && json.Unmarshal(r.body, &made) == nil && made.ID != "" {
		v.items[n.id+kind] = append(v.items[n.id+kind], made.ID)
	}
	return nil
}

// change makes a change to the account, by its owner or by an admin.
func (v *variety) change(ctx context.Context, n *attackAccount, random *rand.Rand) error {
	month := v.server.now().AddDate(0, -random.IntN(2), 0).Format("2006-01")
	quota := plan.QuotaKeys()[random.IntN(len(plan.QuotaKeys()))]
	admin := func(path, body string, values ...any) attackCall {
		return attackCall{method: http.MethodPost, path: "/api/admin/accounts/" + n.id + path, body: fmt.Sprintf(body, values...), admin: true}
	}
	owner := func(method, path, body string, values ...any) attackCall {
		return attackCall{method: method, path: "/api/users/user/" + path, body: fmt.Sprintf(body, values...), session: n.session}
	}
	var c attackCall
	switch random.IntN(20) {
	case 0:
		c = admin("/tier", `{"tier":%q}`, []string{"free", "pro", "max", "pro", "max", "pro"}[random.IntN(6)])
		c.method = http.MethodPut
	case 1:
		c = admin("/credits", `{"amount":"%d.%06d","reason":"more"}`, random.IntN(2), random.IntN(1_000_000))
	case 2:
		c = admin("/credits", `{"amount":"-0.%06d","reason":"less"}`, random.IntN(100_000))
	case 3:
		c = admin("/credits", `{"amount":"0.05","reason":"for some time","expiresAt":%q}`, v.server.now().Add(time.Duration(random.IntN(40*24))*time.Hour).Add(5*time.Second).Format(time.RFC3339))
	case 4, 5:
		c = admin("/payments", `{"payment":"%s-%d","credits":"0.0%d"}`, n.name, random.IntN(6), 1+random.IntN(2))
	case 6, 7:
		c = admin("/reversals", `{"payment":"%s-%d","credits":"0.00%d","chargeback":%v,"reason":"back"}`, n.name, random.IntN(6), random.IntN(10), random.IntN(2) == 0)
	case 8:
		c = admin("/refunds", `{"period":%q,"quotaKey":%q,"amount":"0.00%d","reason":"slow"}`, month, quota, random.IntN(10))
	case 9:
		c = admin("/refunds", `{"period":%q,"quotaKey":"files.upload","amount":"%s0.00%d","reason":"slow"}`, month, []string{"", "-"}[random.IntN(2)], 1+random.IntN(9))
	case 10:
		v.mu.Lock()
		of, request := n.id, noDocument
		if len(v.charged) > 0 {
			of, request, _ = strings.Cut(v.charged[random.IntN(len(v.charged))], " ")
		}
		v.mu.Unlock()
		c = admin("/refunds", `{"requestId":%q,"takeBack":%v,"reason":"this one"}`, request, random.IntN(3) == 0)
		c.path = "/api/admin/accounts/" + of + "/refunds"
	case 11:
		if _, err := v.try(ctx, admin("/suspend", `{"reason":"a look"}`)); err != nil {
			return err
		}
		if err := v.request(ctx, n, random); err != nil {
			return err
		}
		c = admin("/resume", `{"reason":"looked"}`)
	case 12:
		c = owner(http.MethodPut, "spending-cap", `{"amount":"0.0%d","period":%q}`, 1+random.IntN(9), []string{"day", "month", "total"}[random.IntN(3)])
	case 13:
		c = owner(http.MethodPut, "spending-cap", `{"amount":null}`)
	case 14:
		c = owner(http.MethodPost, "webhooks", `{"url":"https://127.0.0.1:1/hook","events":["quota.threshold","cap.threshold","paste.created"],"thresholds":[%d,100]}`, 1+random.IntN(50))
	case 15:
		scopes := []string{`"files.upload",`, ""}[random.IntN(2)]
		c = owner(http.MethodPost, "keys", `{"name":"key %d","scopes":[%s%q],"spendingCap":{"amount":"0.00%d","period":"day"}}`, random.IntN(1000), scopes, quota, random.IntN(10))
	case 16:
		c = owner(http.MethodPost, "keys", `{"limits":{"files.upload":%d},"expiresAt":%q}`, random.IntN(5), v.server.now().Add(time.Duration(1+random.IntN(200))*time.Hour).Format(time.RFC3339))
	case 17, 18:
		var listed struct{ Keys []struct{ ID string } }
		r, err := v.try(ctx, owner(http.MethodGet, "keys", ""))
		if err != nil || json.Unmarshal(r.body, &listed) != nil || len(listed.Keys) == 0 {
			return err
		}
		id := listed.Keys[random.IntN(len(listed.Keys))].ID
		if id == "default" {
			return nil
		}
		c = owner(http.MethodPost, "keys/"+id+"/rotate", `{"overlap":"%dh"}`, random.IntN(30))
		if random.IntN(3) == 0 {
			c = owner(http.MethodDelete, "keys/"+id, "")
		}
	default:
		c = owner(http.MethodPut, "top-up", `{"below":"0.5","credits":"1","monthlyLimit":"3"}`)
	}
	_, err := v.try(ctx, c)
	return err
}

// run makes calls of some workers until stop is called.
func (v *variety) run(t *testing.T, seed uint64) (stop func(), done *atomic.Int64) {
	t.Helper()
	done = &atomic.Int64{}
	var ended atomic.Bool
	var all sync.WaitGroup
	for n := range v.accounts {
		random := rand.New(rand.NewPCG(seed, uint64(n)))
		all.Go(func() {
			for !ended.Load() && !v.failed() {
				a := v.accounts[n]
				work := v.request
				if random.IntN(4) == 0 {
					work = v.change
				}
				if err := work(t.Context(), a, random); err != nil {
					v.wrong("%s: %v", a.name, err)
				}
				done.Add(1)
			}
		})
	}
	return func() { ended.Store(true); all.Wait() }, done
}

// exhaust uses up the uploads of the accounts on Pro, so that credits pay further ones.
func (v *variety) exhaust(t *testing.T) {
	t.Helper()
	var all sync.WaitGroup
	for _, n := range v.accounts {
		all.Go(func() {
			for range 105 {
				r, err := v.try(t.Context(), attackCall{method: http.MethodPost, path: "/api/dev/files/upload?name=f", kind: "application/octet-stream", body: "v", key: n.defaultKey()})
				if err != nil {
					v.wrong("%s: %v", n.name, err)
				}
				if err != nil || r.header.Get("X-Charge-Source") == "credits" || !r.ok() {
					return
				}
			}
		})
	}
	all.Wait()
}

// applied applies a price book in a minute, with another price of uploads, and withdraws a second one.
func (v *variety) applied(t *testing.T) {
	t.Helper()
	var books struct{ Current map[string]any }
	if _, err := v.server.must(t.Context(), attackCall{method: http.MethodGet, path: "/api/admin/prices", admin: true}, &books); err != nil {
		t.Fatal(err)
	}
	delete(books.Current, "id")
	delete(books.Current, "effectiveAt")
	apply := func(price string, in time.Duration) (id string) {
		document, err := json.Marshal(books.Current)
		if err != nil {
			t.Fatal(err)
		}
		var made struct{ ID string }
		if _, err := v.server.must(t.Context(), attackCall{method: http.MethodPost, path: "/api/admin/prices", admin: true, body: fmt.Sprintf(`{"book":%s,"effectiveAt":%q}`,
			strings.ReplaceAll(string(document), `"price":"0.005000"`, `"price":"`+price+`"`), v.server.now().Add(in).Format(time.RFC3339))}, &made); err != nil {
			t.Fatal(err)
		}
		return made.ID
	}
	apply("0.008", 90*time.Second)
	id := apply("0.009", time.Hour)
	if _, err := v.server.must(t.Context(), attackCall{method: http.MethodDelete, path: "/api/admin/prices/" + id, admin: true}, nil); err != nil {
		t.Fatal(err)
	}
}

// TestTheVerifierFindsWhatBillingShows: verifier/verify.mjs folds an export of a process that was killed, and whose clock passed the ends
// of months, and comes to the same books. A changed row is named.
func TestTheVerifierFindsWhatBillingShows(t *testing.T) {
	t.Parallel()
	if !hasNode(t) {
		t.Skip("NOT TESTED: the verifier. There is no node.")
	}
	seed := *verifierSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d: again with -args -verifier.seed=%d", seed, seed)
	random := rand.New(rand.NewPCG(seed, 1))
	folder := filepath.Join(t.TempDir(), "data")
	settings := []string{"QUIRE_ADMIN_TOKEN=" + testAdminToken, "QUIRE_PARTITIONS=2"}
	a := &attack{server: newAttackServer(), counts: map[string]int{}}
	start := func(at time.Time) *child {
		t.Helper()
		if !at.IsZero() {
			a.server.offset.Store(int64(time.Until(at)))
		}
		c := launch(t, folder, append(settings, "QUIRE_DEV=1", "QUIRE_CLOCK_OFFSET="+time.Duration(a.server.offset.Load()).String(), "QUIRE_CHECKPOINT_INTERVAL=1s",
			"QUIRE_TRUSTED_PROXIES=127.0.0.0/8", "QUIRE_UNMETERED_RATE=100000", "QUIRE_REGISTER_LIMIT=100", "QUIRE_WEBHOOK_ALLOW_PRIVATE=true")...)
		a.server.arrive(c.base)
		return c
	}
	now := time.Now().UTC()
	month := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	if month.Sub(now) < 4*24*time.Hour {
		month = month.AddDate(0, 1, 0)
	}
	c := start(month.AddDate(0, 0, -3))
	a.gather(t, seed)
	v := &variety{attack: a, items: map[string][]string{}, statuses: map[string]int{}}
	for i, tier := range []plan.Tier{plan.Pro, plan.Pro, plan.Max, plan.Free, plan.Pro} {
		n, err := a.newAccount(t.Context(), fmt.Sprintf("various%d", i), tier, plan.MustParseCredits("0.2"))
		if err != nil {
			t.Fatal(err)
		}
		v.accounts = append(v.accounts, n)
	}
	work := func(seed uint64, calls int64) (stop func()) {
		t.Helper()
		v.exhaust(t)
		stop, done := v.run(t, seed)
		eventually.True(t, "clients work", func() bool { return a.failed() || done.Load() >= calls })
		return stop
	}

	// The first month ends a second after a kill under load. The attack is over then: it could not know in which month a call was counted.
	attacked := a.run(t)
	stop := work(random.Uint64(), 250)
	kill := func(next time.Time) {
		t.Helper()
		a.server.leave()
		_ = c.end(t, syscall.SIGKILL) // "signal: killed"
		c = start(next)
	}
	kill(time.Time{})
	attacked()
	kill(month.Add(-time.Second))
	eventually.True(t, "the month ends", func() bool { return a.failed() || a.server.now().After(month.Add(time.Second)) })
	stop()
	a.check(t, seed, c)
	v.applied(t)
	leaves := v.accounts[4]
	if _, err := v.try(t.Context(), attackCall{method: http.MethodDelete, path: "/api/users/user", session: leaves.session, body: `{"currentPassword":"correct horse battery"}`}); err != nil {
		t.Fatal(err)
	}
	a.stop(t, c)
	// The second one ends while nothing runs. So does the time in which the account that leaves could stay.
	for i, at := range []time.Time{month.Add(20 * time.Minute), month.AddDate(0, 0, 15), month.AddDate(0, 1, 2)} {
		if i > 0 {
			a.stop(t, c)
		}
		c = start(at)
		work(random.Uint64(), 200)()
		a.check(t, seed, c)
		if i > 0 {
			v.bills(t, logKey(t, c), month.AddDate(0, -1, 0).Format("2006-01"), true)
		}
	}
	v.bills(t, logKey(t, c), month.Format("2006-01"), true)
	v.bills(t, logKey(t, c), month.AddDate(0, 1, 0).Format("2006-01"), false)
	t.Logf("%v\nattack:%s", v.statuses, a.summary())

	to := filepath.Join(t.TempDir(), "running")
	exportTo(t, folder, settings, to, "--books")
	key := logged(t, c, to)
	changedMessage(t, to, c.base+"/log", key, random)
	a.stop(t, c)

	to = filepath.Join(t.TempDir(), "stopped")
	m := exportTo(t, folder, settings, to, "--books")
	out, code := verifier(t, "--export", to)
	t.Logf("%s", out)
	if code != 0 || !strings.Contains(out, "OK: everything checked fits.") {
		keepExport(t, to)
		t.Fatalf("seed %d: exit code %d", seed, code)
	}

	v.keptReceipts(t, to, random)

	// A row of the ledger is changed, and the manifest with it.
	edited := m.Journals[random.IntN(2)]
	path := filepath.Join(to, edited.Books.File)
	books, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\{"ledger".*"amount_micros":"-?([0-9]+)".*$`).FindAllSubmatchIndex(books, -1)
	if len(rows) == 0 {
		t.Fatal("no ledger")
	}
	row := rows[random.IntN(len(rows))]
	var line struct{ Ledger struct{ ID string } }
	if err := json.Unmarshal(books[row[0]:row[1]], &line); err != nil {
		t.Fatal(err)
	}
	books = append(append(bytes.Clone(books[:row[2]]), []byte("1"+string(books[row[2]:row[3]]))...), books[row[3]:]...)
	rewrite(t, to, path, books)
	out, code = verifier(t, "--export", to)
	if code != 1 || !strings.Contains(out, fmt.Sprintf("partition %d, account ", edited.Partition)) || !strings.Contains(out, line.Ledger.ID) || strings.Contains(out, "sha256") {
		t.Errorf("seed %d: of the changed entry %s: exit code %d\n%s", seed, line.Ledger.ID, code, out)
	}
}

// keptReceipts has the verifier compare the receipts that the calls got with the chains of an export, then with one of them changed.
func (v *variety) keptReceipts(t *testing.T, exported string, random *rand.Rand) {
	t.Helper()
	kept := filepath.Join(t.TempDir(), "receipts")
	compare := func(want int) string {
		t.Helper()
		if err := os.WriteFile(kept, []byte(strings.Join(v.receipts, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		out, code := verifier(t, "--export", exported, "--receipts", kept)
		if code != want {
			t.Fatalf("%d receipts: exit code %d\n%s", len(v.receipts), code, out)
		}
		return out
	}
	numbers := map[string]bool{}
	for _, line := range v.receipts {
		number, _, _ := strings.Cut(line, ".")
		if numbers[number] {
			t.Errorf("two calls have the number %s", number)
		}
		numbers[number] = true
	}
	if len(numbers) < 300 {
		t.Errorf("%d receipts", len(numbers))
	}
	compare(0)
	i := random.IntN(len(v.receipts))
	id, receipt, _ := strings.Cut(v.receipts[i], " ")
	last := receipt[len(receipt)-1]
	v.receipts[i] = strings.TrimSuffix(v.receipts[i], string(last)) + string("0123456789abcdef0"[strings.IndexByte("0123456789abcdef", last)+1])
	number, _, _ := strings.Cut(receipt, ".")
	if out := compare(1); !strings.Contains(out, id) || !strings.Contains(out, number) {
		t.Errorf("receipt %s of %s, changed:\n%s", receipt, id, out)
	}
}

// bills has the verifier check the proof of each account's month, against all receipts that the account got. The month is sealed with its
// statement, or still open.
func (v *variety) bills(t *testing.T, key, month string, sealed bool) {
	t.Helper()
	folder := t.TempDir()
	receipts := filepath.Join(folder, "receipts")
	if err := os.WriteFile(receipts, []byte(strings.Join(v.receipts, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	earlier, since := "", ""
	for _, n := range v.accounts[:4] { // the last one is deleted
		file := filepath.Join(folder, n.id+".tlog-proof")
		args := []string{file, "--key", key, "--receipts", receipts}
		if earlier != "" {
			args = append(args, "--checkpoint", earlier)
		}
		out := ""
		eventually.True(t, "the log has a seal of "+month, func() bool {
			r, err := v.server.settle(t.Context(), attackCall{method: http.MethodGet, path: "/api/users/user/statements/" + month + "/proof" + since, key: n.defaultKey()})
			if err != nil || r.status != http.StatusOK && r.status != http.StatusServiceUnavailable {
				t.Fatalf("account %s: %v, %v", n.id, r, err)
			}
			if r.status != http.StatusOK {
				return false
			}
			if err := os.WriteFile(file, r.body, 0o600); err != nil {
				t.Fatal(err)
			}
			var code int
			if out, code = verifier(t, args...); code != 0 {
				t.Fatalf("account %s, %s: exit code %d\n%s", n.id, month, code, out)
			}
			return strings.Contains(out, "the seal has no statements of the month") != sealed
		})
		earlier = file
		since = "?since=" + regexp.MustCompile(`([0-9,]+) entries, root`).FindStringSubmatch(out)[1]
		since = strings.ReplaceAll(since, ",", "")
		t.Logf("%s", out)
	}
}

// logKey is the key of a running process's log.
func logKey(t *testing.T, c *child) string {
	t.Helper()
	answer, err := http.Get(c.base + "/log/key")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// logged waits until the log of a running process has all messages of an export, which then have to equal its entries. It returns the
// log's key.
func logged(t *testing.T, c *child, exported string) (key string) {
	t.Helper()
	key = logKey(t, c)
	var out string
	eventually.True(t, "the log has all messages", func() bool {
		var code int
		if out, code = verifier(t, "--export", exported, "--log", c.base+"/log", "--key", key); code != 0 {
			keepExport(t, exported)
			t.Fatalf("exit code %d\n%s", code, out)
		}
		return strings.Contains(out, ", 0 not yet in the log, ")
	})
	t.Logf("%s", out)
	kept := filepath.Join(t.TempDir(), "checkpoint")
	sameKey := []string{"--export", exported, "--log", c.base + "/log", "--checkpoint", kept}
	first, err := http.Get(c.base + "/log/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Body.Close()
	data, err := io.ReadAll(first.Body)
	if err == nil {
		err = os.WriteFile(kept, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, code := verifier(t, sameKey...); code != 0 || !strings.Contains(out, "that this is the log's key") {
		t.Errorf("with the log's own key: exit code %d\n%s", code, out)
	}
	return key
}

// changedMessage changes a message of an export, and SHA-256 and chain of its manifest, so that nothing but the log shows it.
func changedMessage(t *testing.T, to, log, key string, random *rand.Rand) {
	t.Helper()
	partition := random.IntN(2)
	manifest := func() (j export.Journal) {
		data, err := os.ReadFile(filepath.Join(to, "manifest.json"))
		m := export.Manifest{}
		if err == nil {
			err = json.Unmarshal(data, &m)
		}
		if err != nil {
			t.Fatal(err)
		}
		return m.Journals[partition]
	}
	before := manifest()
	path := filepath.Join(to, before.File)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	changed := 1 + random.IntN(int(before.Messages))
	for regexp.MustCompile(`"time":"[0-9]*9"`).Match(lines[changed-1]) { // a nanosecond later would be another millisecond, perhaps
		changed = 1 + random.IntN(int(before.Messages))
	}
	lines[changed-1] = regexp.MustCompile(`("time":"[0-9]*)([0-8])"`).ReplaceAllFunc(lines[changed-1], func(b []byte) []byte {
		b = bytes.Clone(b)
		b[len(b)-2]++
		return b
	})
	rewrite(t, to, path, bytes.Join(lines, nil))
	after := manifest()
	chains := chainsOf(t, path, after)
	rewritten, err := os.ReadFile(filepath.Join(to, "manifest.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(to, "manifest.json"), bytes.Replace(rewritten, []byte(before.Chain), []byte(chains[len(chains)-1]), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, code := verifier(t, "--export", to); code != 0 {
		t.Errorf("without the log: exit code %d\n%s", code, out)
	}
	out, code := verifier(t, "--export", to, "--log", log, "--key", key)
	named := regexp.MustCompile(fmt.Sprintf(`(?m)^partition %d, log, entry \d+ \(message %d\), field time: expected \d+, found \d+$`, partition, changed))
	if code != 1 || !named.MatchString(out) || !strings.Contains(out, "DIFFERS: 1 difference.") {
		t.Errorf("of the changed message %d of partition %d: exit code %d\n%s", changed, partition, code, out)
	}
}

// rewrite replaces a file of an export. The manifest then says what it has.
func rewrite(t *testing.T, folder, path string, data []byte) {
	t.Helper()
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(folder, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	before, after := sha256.Sum256(old), sha256.Sum256(data)
	text := strings.Replace(string(manifest), hex.EncodeToString(before[:]), hex.EncodeToString(after[:]), 1)
	size := regexp.MustCompile(fmt.Sprintf(`("file": ?"%s",\s*(?:"messages": ?\d+,\s*)?"bytes": ?)%d\b`, regexp.QuoteMeta(filepath.Base(path)), len(old)))
	text = size.ReplaceAllString(text, fmt.Sprintf("${1}%d", len(data)))
	for file, content := range map[string]string{path: string(data), filepath.Join(folder, "manifest.json"): text} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// keepExport copies an export that differs, for a look at it.
func keepExport(t *testing.T, folder string) {
	t.Helper()
	kept, err := os.MkdirTemp("", "quire-differs-")
	if err == nil {
		err = os.CopyFS(kept+"/export", os.DirFS(folder))
	}
	t.Logf("the export is kept in %s: %v", kept, err)
}
