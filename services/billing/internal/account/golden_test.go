package account

import (
	"bufio"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// Recorded journals are added and never edited: they bind every later version to the same decisions.
var record = flag.String("record", "", "write this history as a new golden journal, such as v2")

// A recorded journal folds to the same state, ledger and answers. Changing that needs a new CodeVersion and a good reason.
func TestRecordedJournalsFoldAsTheyDid(t *testing.T) {
	if *record != "" {
		writeGolden(t, filepath.Join("testdata", *record))
	}
	folders, err := filepath.Glob("testdata/v*")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no recorded journals: %v", err)
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			want, err := os.ReadFile(filepath.Join(folder, "result.txt"))
			if err != nil {
				t.Fatal(err)
			}
			if got := resultOf(t, readJournal(t, filepath.Join(folder, "journal.bin"))); got != string(want) {
				t.Errorf("folds to\n%s\nwas\n%s", got, want)
			}
		})
	}
}

// resultOf is the result of folding a journal, for people to compare.
func resultOf(t *testing.T, messages []Message) string {
	t.Helper()
	f := New()
	var out strings.Builder
	for _, m := range messages {
		effects, err := f.Apply(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range effects.Answers {
			fmt.Fprintf(&out, "%d answer %s %x\n", m.Sequence, a.Source, a.Data)
		}
		for _, u := range effects.Usage {
			fmt.Fprintf(&out, "%d usage %s day %d %s key %d: %d %d %d\n", m.Sequence, u.Account, u.Day, u.QuotaKey, u.Key, u.Used, u.Overage, u.SpentMicros)
		}
		for _, a := range effects.Alerts {
			fmt.Fprintf(&out, "%d alert %s %x %v %d%% of %d\n", m.Sequence, a.Id, a.Account, a.Type, a.Threshold, a.Limit)
		}
		for _, e := range effects.Ledger {
			fmt.Fprintf(&out, "%d ledger %s %x %v %d of %d\n", m.Sequence, e.Id, e.Account, e.Type, e.AmountMicros, e.BalanceMicros)
		}
		for _, c := range effects.Closed {
			s := c.Statement
			fmt.Fprintf(&out, "%d closed %s %s spent %d storage %d cents\n", m.Sequence, c.Account, s.Period, s.SpentMicros, s.StorageOverageCents)
		}
	}
	fmt.Fprintf(&out, "entries %d\nchain %x\nstate %x\n", f.Entries(), f.chain, stateHash(t, f))
	return out.String()
}

func readJournal(t *testing.T, path string) []Message {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r := bufio.NewReader(file)
	var messages []Message
	for {
		var head struct {
			Time int64
			Kind uint8
			Size uint32
		}
		err := binary.Read(r, binary.BigEndian, &head)
		if errors.Is(err, io.EOF) {
			return messages
		}
		data := make([]byte, head.Size)
		if err == nil {
			_, err = io.ReadFull(r, data)
		}
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, Message{
			Sequence: uint64(len(messages)) + 1, TimeNanos: head.Time * nanosPerMilli, Kind: Kind(head.Kind), Data: data,
		})
	}
}

// writeGolden records a history that uses every rule. It refuses to overwrite one.
func writeGolden(t *testing.T, folder string) {
	t.Helper()
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	messages := goldenHistory(t).messages
	var out []byte
	for _, m := range messages {
		out = binary.BigEndian.AppendUint64(out, uint64(m.millis()))
		out = append(out, byte(m.Kind))
		out = binary.BigEndian.AppendUint32(out, uint32(len(m.Data)))
		out = append(out, m.Data...)
	}
	for name, data := range map[string][]byte{"journal.bin": out, "result.txt": []byte(resultOf(t, messages))} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func goldenHistory(t *testing.T) *history {
	h := newHistory(t, smallBook())
	h.account(alice, plan.Pro)
	h.account(bob, plan.Free)
	h.grant(alice, 20_000, 0)
	h.grant(alice, 12_000, h.now+3_600_000)
	var open []*event.Admission
	for range 6 { // three by quota, the rest by credits
		a := h.admission(alice, plan.FilesUpload)
		a.Write = true
		a.IdempotencyId = a.RequestId
		h.admit(a)
		open = append(open, a)
	}
	h.domain(1, settlementOf(open[0], event.Result_SERVED), settlementOf(open[4], event.Result_SERVED))
	h.voided(open[5])
	for range 4 {
		a := h.admission(bob, plan.PastesDelete)
		h.admit(a)
		h.failed(a)
		h.admit(h.admission(bob, plan.PastesDelete))
		h.admit(h.anonymous())
	}
	h.domain(2, &event.Settlement{Account: alice, StorageDelta: 500 * plan.GB})
	h.wait(3 * time.Minute).tick() // holds time out: writes are voided, reads served
	h.domain(3, settlementOf(open[1], event.Result_SERVED), settlementOf(open[3], event.Result_SERVED))
	h.wait(time.Hour).tick() // a grant expires
	h.command(setTier(bob, plan.Max))
	h.command(&event.Command{Account: bob, IdempotencyId: []byte("0123456789abcdef"), BodyHash: 5, Action: &event.Command_RotateKey{
		RotateKey: &event.RotateKey{Fingerprint: 2, Prefix: "qk_zzzzzz"},
	}})
	h.admit(h.admission(bob, plan.PastesGet)) // the old key
	h.command(grantOf(alice, -1_000, 0))
	h.wait(40 * 24 * time.Hour)
	h.domain(4, &event.Settlement{Account: alice, StorageDelta: -100 * plan.GB, StorageAtMs: h.now - 86_400_000})
	h.admit(h.admission(alice, plan.LiteList))
	h.wait(40 * 24 * time.Hour)
	h.admit(h.admission(alice, plan.FilesUpload))
	goldenHeld(h)
	goldenHolders(h)
	return h
}

// goldenHeld uses the rules of failed calls, held refusals, recreated streams and clocks that come back.
func goldenHeld(h *history) {
	h.grant(alice, 50_000, 0)
	failing := h.admission(alice, plan.FilesUpload)
	h.admit(failing)
	paid, _ := h.batchOf(alice, plan.FilesUpload, 3)
	h.served(paid[2])
	h.voided(failing) // the newest paid one becomes free
	h.served(paid[0])
	var free []*event.Admission
	for range 6 { // the last ones are refused, or held
		a := h.admission(bob, plan.LiteCreate)
		a.KeyVersion, a.KeyFingerprint = 2, 2
		free = append(free, a)
	}
	h.usage(free, nil)
	h.voided(free[0])
	h.domain(1, &event.Settlement{Account: bob, StorageDelta: 1, StoredMs: h.now}) // the stream was recreated
	h.wait(-time.Hour).tick()                                                      // the journal's clock came back
	again := h.admission(bob, plan.LiteCreate)
	again.KeyVersion, again.KeyFingerprint = 2, 2
	h.admit(again)
	book := smallBook()
	book.Plans[plan.Pro].Terms[plan.FilesUpload].Price = 7_000
	h.prices(book)
	h.voided(paid[1]) // paid under the previous prices
	h.wait(3 * time.Minute).tick()
}

// goldenHolders uses everything account holders set: several keys, their limits, caps, alerts, days.
func goldenHolders(h *history) {
	h.grant(alice, 200_000, 0)
	h.command(&event.Command{Account: alice, Action: &event.Command_SetWebhook{SetWebhook: &event.SetWebhook{
		Webhook: 7, Create: true, Events: new(uint32(1<<(event.AlertType_ALERT_QUOTA-1) | 1<<(event.AlertType_ALERT_CAP-1))),
	}}})
	h.command(setCap(alice, event.CapPeriod_CAP_MONTH, 40_000))
	h.command(createKey(alice, 11, &event.KeyRules{
		Scopes: scopesOf(plan.FilesUpload), Quotas: quotasOf(plan.FilesUpload, 5), ExpiresInMs: new(int64(30 * dayMillis)),
		Cap: &event.SpendingCap{Period: event.CapPeriod_CAP_DAY, AmountMicros: 14_000},
	}))
	use := func(number, version uint32, fingerprint uint64, key plan.QuotaKey) *event.Admission {
		a := h.sent(alice, key, number, version, fingerprint)
		h.admit(a)
		return a
	}
	failing := use(0, 1, 1, plan.FilesUpload)
	for range 4 { // the last ones pass the key's cap
		h.served(use(1, 1, 11, plan.FilesUpload))
	}
	h.voided(failing) // the newest paid request is refunded to its key and day
	use(1, 1, 11, plan.PastesGet)
	h.command(replaceKey(alice, 1, 12, time.Hour))
	h.command(replaceKey(alice, 0, 13, time.Hour))
	h.wait(time.Hour - time.Millisecond)
	h.served(use(1, 1, 11, plan.FilesUpload))
	use(0, 1, 1, plan.LiteList)
	h.wait(time.Millisecond)
	use(1, 1, 11, plan.FilesUpload)
	use(0, 1, 1, plan.LiteList)
	h.wait(24 * time.Hour)
	late := h.sent(alice, plan.FilesUpload, 2, 1, 12)
	late.Write = true
	h.admit(late)
	for range 9 { // up to the account's cap
		h.served(use(0, 2, 13, plan.FilesUpload))
	}
	h.wait(3 * time.Minute).tick()
	h.command(setCap(alice, event.CapPeriod_CAP_TOTAL, 1))
	h.domain(1, settlementOf(late, event.Result_SERVED))
	h.command(updateKey(alice, 2, &event.KeyRules{Name: new("renamed"), Scopes: &event.KeyScopes{}}))
	h.command(revokeKey(alice, 2))
	use(2, 1, 12, plan.LiteGet)
	h.command(&event.Command{Account: alice, Action: &event.Command_RotateKey{RotateKey: &event.RotateKey{Fingerprint: 14}}})
	use(0, 3, 14, plan.LiteGet)
	h.domain(2, &event.Settlement{Account: alice, StorageDelta: plan.GB})
	h.wait(40 * 24 * time.Hour).tick()
	use(0, 3, 14, plan.FilesUpload)
	goldenPlaces(h)
}

// goldenPlaces settles reads by offset: two of three, then the last once a time-out has served it.
func goldenPlaces(h *history) {
	const carol = 0xCA401
	h.account(carol, plan.Pro)
	var reads []*event.Admission
	for range 3 {
		reads = append(reads, h.admission(carol, plan.LiteGet))
	}
	sequence := h.usage(reads, nil).Sequence
	h.places(&event.Served{Sequence: sequence}, &event.Served{Sequence: sequence, Places: []uint32{2}})
	h.wait(HoldMillis * time.Millisecond).tick()
	h.places(&event.Served{Sequence: sequence, Places: []uint32{1, 2}})
	h.voided(reads[1])
}
