package standalone

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"quire.dev/pkg/admin"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/views/sqlite/sqlitetest"
	"quire.dev/services/billing/bookstest"
	"quire.dev/services/standalone/internal/export"
)

// bookLine is a line of exported books, with some of its fields.
type bookLine struct {
	Ledger *struct {
		ID, Type, Reason          string
		Account                   uint64 `json:",string"`
		Amount_Micros, Settled_Ms int64  `json:",string"`
	}
	Closed *struct {
		Account   string
		Statement bookStatement
	}
	Account *struct {
		Account string
		Usage   struct {
			Balance_Micros, Erased_Ms int64 `json:",string"`
		}
	}
}

type bookStatement struct {
	Period       string
	Closed       bool
	Spent_Micros int64 `json:",string"`
	Credits      struct {
		Closing_Micros, Charged_Micros int64 `json:",string"`
	}
}

// exportBooks exports with books and returns all of their lines. They are what the exported messages fold to, unless tampered.
func exportBooks(t *testing.T, folder string, settings []string, tampered bool, args ...string) (m *export.Manifest, lines []bookLine) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "export")
	m = exportTo(t, folder, settings, to, append([]string{"--books"}, args...)...)
	for _, j := range m.Journals {
		if j.Books == nil || j.Books.Sequence != j.Messages || j.Books.File != fmt.Sprintf("BOOKS_%d.jsonl", j.Partition) {
			t.Fatalf("the manifest says %+v of %+v", j.Books, j)
		}
		data, err := os.ReadFile(filepath.Join(to, j.Books.File))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		if n := uint64(bytes.Count(data, []byte("\n"))); n != j.Books.Lines || int64(len(data)) != j.Books.Bytes || hex.EncodeToString(sum[:]) != j.Books.SHA256 {
			t.Errorf("%s has %d lines and %d bytes, the manifest says %+v", j.Books.File, n, len(data), j.Books)
		}
		if want := strings.Join(bookstest.Lines(t, j.Partition, exportedMessages(t, filepath.Join(to, j.File))), ""); !tampered && string(data) != want {
			t.Errorf("%s\n%s\nthe messages fold to\n%s", j.Books.File, data, want)
		}
		for text := range bytes.Lines(data) {
			var l bookLine
			if err := json.Unmarshal(text, &l); err != nil || l.Ledger == nil && l.Closed == nil && l.Account == nil {
				t.Fatalf("%s: %v", text, err)
			}
			lines = append(lines, l)
		}
	}
	return m, lines
}

func exportedMessages(t *testing.T, path string) (list []journal.Message) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 32<<20)
	for lines.Scan() {
		var m struct {
			Sequence uint64 `json:",string"`
			Time     int64  `json:",string"`
			Subject  string
			Data     []byte
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		list = append(list, journal.Message{Sequence: m.Sequence, Time: time.Unix(0, m.Time), Subject: m.Subject, Data: m.Data})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

const bookPassword = "correct horse battery"

// billed registers an account on the Pro plan with credits, of which three uploads are paid and one is refunded.
func billed(t *testing.T, base, email string) (h *holder, id string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	h = &holder{client: &http.Client{Jar: jar, Timeout: bootLimit}}
	var made struct {
		Account struct{ ID string }
		APIKey  string
	}
	for _, answer := range [][]byte{
		h.call(t, http.MethodPost, base+"/api/users/register", strings.NewReader(`{"email":"`+email+`","password":"`+bookPassword+`"}`)),
		h.call(t, http.MethodPost, base+"/api/users/user/dev-key/regenerate", nil),
	} {
		if err := json.Unmarshal(answer, &made); err != nil {
			t.Fatal(err)
		}
	}
	h.key, id = made.APIKey, made.Account.ID
	account := base + "/api/admin/accounts/" + id
	h.call(t, http.MethodPut, account+"/tier", strings.NewReader(`{"tier":"pro"}`))
	h.call(t, http.MethodPost, account+"/credits", strings.NewReader(`{"amount":"1","reason":"a <gift> & more"}`))
	for n := range 103 {
		h.call(t, http.MethodPost, fmt.Sprintf("%s/api/dev/files/upload?name=%d.txt", base, n), strings.NewReader("x"))
	}
	// The price of a request is charged once it is settled.
	eventually.True(t, "three uploads are charged", func() bool { return len(h.ledger(t, base)) == 4 })
	refund := fmt.Sprintf(`{"period":%q,"quotaKey":"files.upload","amount":"0.005","reason":"sorry"}`, time.Now().UTC().Format("2006-01"))
	h.call(t, http.MethodPost, account+"/refunds", strings.NewReader(refund))
	return h, id
}

type shownEntry struct {
	ID, Type string
	Amount   credits
	Reason   string
	Settled  time.Time `json:"settledAt"`
}

// ledger is what the API shows of it, by id.
func (h *holder) ledger(t *testing.T, base string) map[string]shownEntry {
	t.Helper()
	var page struct{ Entries []shownEntry }
	if err := json.Unmarshal(h.look(t, base+"/api/users/user/credits?limit=100"), &page); err != nil {
		t.Fatal(err)
	}
	byID := map[string]shownEntry{}
	for _, e := range page.Entries {
		byID[e.ID] = e
	}
	return byID
}

// look makes a call with the key.
func (h *holder) look(t *testing.T, url string) []byte {
	t.Helper()
	var answer json.RawMessage
	base, path, _ := strings.Cut(url, "/api/")
	if err := (admin.Client{Base: base, Token: h.key}).Call(t.Context(), http.MethodGet, "/api/"+path, nil, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// of are the lines of an account.
func of(lines []bookLine, id string) (ledger map[string]shownEntry, closed []bookStatement, balance, erased int64) {
	number, err := event.ParseAccountID(id)
	if err != nil {
		panic(err)
	}
	ledger = map[string]shownEntry{}
	for _, l := range lines {
		switch {
		case l.Ledger != nil && l.Ledger.Account == uint64(number):
			kind := strings.ToLower(strings.TrimPrefix(l.Ledger.Type, "LEDGER_"))
			ledger[l.Ledger.ID] = shownEntry{l.Ledger.ID, kind, credits(l.Ledger.Amount_Micros), l.Ledger.Reason, time.UnixMilli(l.Ledger.Settled_Ms).UTC()}
		case l.Closed != nil && l.Closed.Account == id:
			closed = append(closed, l.Closed.Statement)
		case l.Account != nil && l.Account.Account == id:
			balance, erased = l.Account.Usage.Balance_Micros, l.Account.Usage.Erased_Ms
		}
	}
	return ledger, closed, balance, erased
}

// TestExportedBooksAreWhatTheAPIShows: the ledger, closed statements and balances, of a running process and of a stopped one, also where
// somebody has changed them.
func TestExportedBooksAreWhatTheAPIShows(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	settings := []string{"QUIRE_ADMIN_TOKEN=" + testAdminToken, "QUIRE_PARTITIONS=2"}
	month := time.Now().UTC().Format("2006-01")
	c := launch(t, folder, settings...)
	stays, id := billed(t, c.base, "stays@example.org")
	leaves, gone := billed(t, c.base, "leaves@example.org")
	leaves.call(t, http.MethodDelete, c.base+"/api/users/user", strings.NewReader(`{"currentPassword":"`+bookPassword+`"}`))
	_, lines := exportBooks(t, folder, settings, false)
	if ledger, closed, balance, _ := of(lines, gone); len(ledger) != 5 || len(closed) != 0 || balance != 990_000 {
		t.Errorf("of the one that leaves: %v, %v, balance %d", ledger, closed, balance)
	}
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}

	c = launch(t, folder, append(settings, "QUIRE_DEV=1", "QUIRE_CLOCK_OFFSET=1800h")...)                 // two months have ended since
	stays.call(t, http.MethodPost, c.base+"/api/dev/files/upload?name=later.txt", strings.NewReader("x")) // its months are closed with this message
	var ledger map[string]shownEntry
	var closed []bookStatement
	var m *export.Manifest
	eventually.True(t, "one account is erased", func() bool {
		m, lines = exportBooks(t, folder, settings, false)
		_, closed, balance, erased := of(lines, gone)
		return erased != 0 && balance == 990_000 && len(closed) > 0
	})
	var balance int64
	ledger, closed, balance, _ = of(lines, id)
	if shown := stays.ledger(t, c.base); len(shown) != 5 || fmt.Sprint(ledger) != fmt.Sprint(shown) {
		t.Errorf("the ledger in the books:\n%v\nshown:\n%v", ledger, shown)
	}
	var shown attackStatement
	if err := json.Unmarshal(stays.look(t, c.base+"/api/users/user/statements/"+month), &shown); err != nil {
		t.Fatal(err)
	}
	if len(closed) == 0 {
		t.Fatal("no closed statement")
	}
	if s := closed[0]; s.Period != month || !s.Closed || !shown.Closed || s.Spent_Micros != int64(shown.CreditsSpent) || s.Spent_Micros != 15_000 ||
		s.Credits.Closing_Micros != int64(shown.Credits.Closing) || s.Credits.Charged_Micros != int64(shown.Credits.Charged) {
		t.Errorf("the statement in the books: %+v, shown: %+v", s, shown)
	}
	var now struct{ Credits struct{ Balance credits } }
	if err := json.Unmarshal(stays.look(t, c.base+"/api/users/user/dev-usage"), &now); err != nil || int64(now.Credits.Balance) != balance {
		t.Errorf("balance in the books: %d, shown: %v, %v", balance, now, err)
	}

	one, some := exportBooks(t, folder, settings, false, "--partition", "1")
	if len(one.Journals) != 1 || one.Journals[0].Partition != 1 || len(m.Journals) != 2 || len(some) >= len(lines) && m.Journals[0].Books.Lines > 0 {
		t.Errorf("partition 1 alone: %+v, with the other one %+v", one.Journals, m.Journals)
	}
	plain := filepath.Join(t.TempDir(), "plain")
	exportTo(t, folder, settings, plain)
	manifest, err := os.ReadFile(filepath.Join(plain, "manifest.json"))
	if names, _ := filepath.Glob(filepath.Join(plain, "*")); err != nil || bytes.Contains(manifest, []byte("ooks")) || len(names) != 3 {
		t.Errorf("without books: %v %v\n%s", names, err, manifest)
	}

	sqlitetest.Edit(t, viewFile(folder, event.Billing), "billing_ledger", id, func(head []byte) []byte {
		e := &event.LedgerEntry{}
		if err := event.Decode(head, e); err != nil {
			t.Fatal(err)
		}
		e.AmountMicros = 77_777_777
		data, err := event.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		return data
	})
	changed := func() bool {
		_, lines := exportBooks(t, folder, settings, true)
		ledger, _, _, _ := of(lines, id)
		return len(ledger) == 5 && slices.ContainsFunc(lines, func(l bookLine) bool { return l.Ledger != nil && l.Ledger.Amount_Micros == 77_777_777 })
	}
	if !changed() {
		t.Error("the changed amount is not in the books")
	}
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if !changed() {
		t.Error("the changed amount is not in the books of a stopped quire")
	}
}

// TestBooksBesideTrafficAreAsOfTheLastExportedMessage: so are those of a stopped quire, unless the read model lacks messages.
func TestBooksBesideTrafficAreAsOfTheLastExportedMessage(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	settings := []string{"QUIRE_ADMIN_TOKEN=" + testAdminToken, "QUIRE_PARTITIONS=2"}
	c := launch(t, folder, settings...)
	stop := writing(t, c.base, newShelves(t, c.base, 3, rand.New(rand.NewPCG(3, 2))))
	var messages uint64
	for range 4 {
		m, _ := exportBooks(t, folder, settings, false)
		now := m.Journals[0].Messages + m.Journals[1].Messages
		if now <= messages {
			t.Errorf("%d messages after %d: there is no traffic", now, messages)
		}
		messages = now
	}
	stop()
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	exportBooks(t, folder, settings, false)
	sqlitetest.Exec(t, viewFile(folder, event.Billing), `UPDATE "checkpoints" SET seq = seq - 1 WHERE stream = 'BILLING_1'`)
	out, errs, code := quire(t, folder, settings, "journal", "export", "--books", "--to", filepath.Join(t.TempDir(), "export"))
	if code == 0 || !strings.Contains(errs, "messages of BILLING_1. Start quire") {
		t.Errorf("of a read model that is behind: %d %q %q", code, out, errs)
	}
	elsewhere := []string{"QUIRE_NATS_URL=nats://127.0.0.1:1"}
	out, errs, code = quire(t, t.TempDir(), elsewhere, "journal", "export", "--books", "--to", filepath.Join(t.TempDir(), "export"))
	if code == 0 || !strings.Contains(errs, "name no other read model") {
		t.Errorf("without the read model of a cluster: %d %q %q", code, out, errs)
	}
}

// TestAKilledExportHasNoManifest, unless it had finished, and its folder is not exported to again.
func TestAKilledExportHasNoManifest(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	settings := []string{"QUIRE_ADMIN_TOKEN=" + testAdminToken}
	c := launch(t, folder, settings...)
	for _, s := range newShelves(t, c.base, 2, rand.New(rand.NewPCG(4, 2))) {
		for range 5 {
			s.step(t.Context())
		}
	}
	for attempt := range 200 {
		to := filepath.Join(t.TempDir(), "export")
		cmd := exec.Command(binary(t), "journal", "export", "--books", "--to", to)
		cmd.Env = environment(append([]string{"QUIRE_DATA=" + folder}, settings...)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		name := []string{"BILLING_0.jsonl", "BOOKS_0.jsonl"}[attempt%2]
		begins := func() bool { _, err := os.Stat(filepath.Join(to, name)); return err == nil }
		for since := time.Now(); !begins() && time.Since(since) < time.Minute; { // without a pause: the rest takes milliseconds
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if _, err := os.Stat(filepath.Join(to, "manifest.json")); err == nil {
			continue // too late
		}
		if out, errs, code := quire(t, folder, settings, "journal", "export", "--books", "--to", to); code == 0 || !strings.Contains(errs, "has files") {
			t.Errorf("%d %q %q", code, out, errs)
		}
		return
	}
	t.Error("no export was killed before it had finished")
}
