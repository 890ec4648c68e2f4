package account

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
)

const (
	alice = uint64(0xA11CE)
	bob   = uint64(0xB0B)
	net1  = uint64(0x4E31)
)

func at(s string) int64 {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t.UnixMilli()
}

// tester is a testing.T or a rapid.T.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// history writes a journal and folds it as it goes.
type history struct {
	t        tester
	fold     *Fold
	now      int64 // of the journal and of all sources
	messages []Message
	number   map[string]uint64
	rules    uint32 // that the next price book names
	newest   uint32 // that the program knows
	requests uint64
	uuids    bool // request ids are UUIDv7
	ledger   []*event.LedgerEntry
	closed   []Closed
	changed  []event.AccountID
	told     []*event.AdminEntry
	alerts   []*event.Alert
	days     map[dayKey]dayCount
	recorded recordedLog
	chains   chains // nil: not checked
	after    func() // each message; nil: nothing
}

func newHistory(t tester, book *plan.Book) *history {
	h := &history{t: t, fold: New(), now: at("2026-10-15T12:00:00Z"), number: map[string]uint64{}, rules: NewestRules, newest: NewestRules, chains: chains{}}
	if book != nil {
		h.prices(book)
	}
	return h
}

func (h *history) append(kind Kind, m event.Message) []Answer {
	h.t.Helper()
	data, err := event.Encode(m)
	if err != nil {
		h.t.Fatalf("%v", err)
	}
	return h.appendData(kind, data)
}

func (h *history) appendData(kind Kind, data []byte) []Answer {
	h.t.Helper()
	m := Message{Sequence: uint64(len(h.messages)) + 1, TimeNanos: h.now * nanosPerMilli, Kind: kind, Data: data}
	h.messages = append(h.messages, m)
	effects, err := h.fold.Apply(m)
	if err != nil {
		h.t.Fatalf("apply %d: %v", m.Sequence, err)
	}
	h.ledger = append(h.ledger, effects.Ledger...)
	h.closed = append(h.closed, effects.Closed...)
	h.told = append(h.told, effects.Admin...)
	h.alerts = append(h.alerts, effects.Alerts...)
	h.countDays(effects.Usage)
	if h.recorded == nil {
		h.recorded = recordedLog{}
	}
	h.recorded.apply(h.t, effects.Requests)
	if h.chains != nil {
		h.chains.add(h.t, effects.Entries)
	}
	h.changed = append([]event.AccountID(nil), effects.Changed...)
	if h.after != nil {
		h.after()
	}
	return append([]Answer(nil), effects.Answers...)
}

func (h *history) prices(book *plan.Book) {
	h.t.Helper()
	b := pricebook.Configured(book)
	b.StampMs, b.Rules, b.Agreed = h.now, h.rules, true
	h.append(Prices, b)
}

// applied is an applied price book.
func applied(t tester, book *plan.Book, effective int64) *event.PriceBook {
	t.Helper()
	e, err := pricebook.Applied(book, effective)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return e
}

// apply publishes an applied price book, or a withdrawal.
func (h *history) apply(e *event.PriceBook) {
	h.t.Helper()
	e.StampMs = h.now
	h.append(Prices, e)
}

// tick moves the fold's time to the history's.
func (h *history) tick() {
	h.t.Helper()
	h.append(Usage, &event.UsageBatch{Source: "tick", StampMs: h.now})
}

func (h *history) wait(d time.Duration) *history {
	h.now += d.Milliseconds()
	return h
}

// usage is a batch of an edge.
func (h *history) usage(admissions []*event.Admission, settlements []*event.Settlement) *event.VerdictBatch {
	h.t.Helper()
	h.number["edge"]++
	answers := h.append(Usage, &event.UsageBatch{
		Source: "edge", Number: h.number["edge"], StampMs: h.now, Admissions: admissions, Settlements: settlements,
	})
	return h.verdicts(answers)
}

func (h *history) verdicts(answers []Answer) *event.VerdictBatch {
	h.t.Helper()
	if len(answers) != 1 || answers[0].Kind != Verdicts || answers[0].Source != "edge" {
		h.t.Fatalf("want one answer to the edge, got %v", answers)
	}
	b := &event.VerdictBatch{}
	if err := event.Decode(answers[0].Data, b); err != nil {
		h.t.Fatalf("%v", err)
	}
	return b
}

func (h *history) commands(commands ...*event.Command) []*event.CommandOutcome {
	h.t.Helper()
	h.number["admin"]++
	answers := h.append(Commands, &event.CommandBatch{
		Source: "admin", Number: h.number["admin"], StampMs: h.now, Commands: commands,
	})
	b := &event.CommandOutcomeBatch{}
	if err := event.Decode(answers[0].Data, b); err != nil {
		h.t.Fatalf("%v", err)
	}
	return b.Outcomes
}

func (h *history) command(c *event.Command) *event.CommandOutcome {
	h.t.Helper()
	return h.commands(c)[0]
}

// account creates an account with key version 1 and fingerprint 1.
func (h *history) account(id uint64, tier plan.Tier) {
	h.t.Helper()
	if o := h.command(create(id, tier)); o.Status != event.CommandStatus_COMMAND_OK {
		h.t.Fatalf("create: %v", o)
	}
}

func create(id uint64, tier plan.Tier) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_Create{Create: &event.CreateAccount{
		Tier: uint32(tier), Key: &event.RotateKey{Fingerprint: 1, Prefix: "qk_abcdef"},
	}}}
}

func setTier(id uint64, tier plan.Tier) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_SetTier{SetTier: &event.SetTier{Tier: uint32(tier)}}}
}

func setNextTier(id uint64, tier plan.Tier) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_SetNextTier{SetNextTier: &event.SetNextTier{Tier: uint32(tier)}}}
}

func suspend(id uint64) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_Suspend{Suspend: &event.Suspend{Reason: "spam"}}}
}

func resume(id uint64) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_Resume{Resume: &event.Resume{Reason: "sorry"}}}
}

func deleteAccount(id uint64) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_DeleteAccount{DeleteAccount: &event.DeleteAccount{}}}
}

func keepAccount(id uint64) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_KeepAccount{KeepAccount: &event.KeepAccount{}}}
}

func eraseAccount(id uint64) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_EraseAccount{EraseAccount: &event.EraseAccount{}}}
}

func grantOf(id uint64, amount int64, expires int64) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_Grant{Grant: &event.Grant{
		AmountMicros: amount, Reason: fmt.Sprintf("grant of %d", amount), ExpiresMs: expires,
	}}}
}

func (h *history) grant(id uint64, amount int64, expires int64) {
	h.t.Helper()
	if o := h.command(grantOf(id, amount, expires)); o.Status != event.CommandStatus_COMMAND_OK {
		h.t.Fatalf("grant: %v", o)
	}
}

func (h *history) requestID() []byte {
	h.requests++
	id := make([]byte, 16)
	for i := range 8 {
		id[15-i] = byte(h.requests >> (8 * i))
	}
	if h.uuids {
		binary.BigEndian.PutUint64(id, uint64(h.now)<<16|0x7000)
		id[8] |= 0x80
	}
	return id
}

func (h *history) admission(id uint64, key plan.QuotaKey) *event.Admission {
	return &event.Admission{
		RequestId: h.requestID(), Account: id, QuotaKey: uint32(key), KeyVersion: 1, KeyFingerprint: 1,
	}
}

func (h *history) anonymous() *event.Admission {
	return &event.Admission{
		RequestId: h.requestID(), Account: net1, QuotaKey: uint32(plan.LiteCreate), Anonymous: true, Write: true,
	}
}

func (h *history) admit(a *event.Admission) *event.Verdict {
	h.t.Helper()
	return h.usage([]*event.Admission{a}, nil).Verdicts[0]
}

// want admits and compares the decision.
func (h *history) want(a *event.Admission, decision event.Decision) *event.Verdict {
	h.t.Helper()
	v := h.admit(a)
	if v.Decision != decision {
		h.t.Fatalf("request %d: decided %v, want %v", h.requests, v.Decision, decision)
	}
	return v
}

func settlementOf(a *event.Admission, result event.Result) *event.Settlement {
	return &event.Settlement{
		RequestId: a.RequestId, Result: result, Account: a.Account, QuotaKey: a.QuotaKey, Anonymous: a.Anonymous,
	}
}

func (h *history) served(a *event.Admission) {
	h.t.Helper()
	h.usage(nil, []*event.Settlement{settlementOf(a, event.Result_SERVED)})
}

func (h *history) voided(a *event.Admission) {
	h.t.Helper()
	h.usage(nil, []*event.Settlement{settlementOf(a, event.Result_VOID)})
}

func (h *history) failed(a *event.Admission) {
	h.t.Helper()
	s := settlementOf(a, event.Result_VOID)
	s.Failed = true
	h.usage(nil, []*event.Settlement{s})
}

// domain settles as the document services do.
func (h *history) domain(sequence uint64, settlements ...*event.Settlement) {
	h.t.Helper()
	for _, s := range settlements {
		s.Sequence = sequence
		if s.StoredMs == 0 {
			s.StoredMs = h.now
		}
	}
	for _, d := range event.Documents() {
		if of := settledBy(d, settlements); len(of) > 0 {
			h.append(SettledBy(d), &event.UsageBatch{Source: d.Stream(0), StampMs: h.now, Settlements: of})
		}
	}
}

// settledBy returns the settlements that a domain sends. Requests executed by no domain are assigned to the first.
func settledBy(d event.Domain, settlements []*event.Settlement) (of []*event.Settlement) {
	for _, s := range settlements {
		sender := domainOf(plan.QuotaKey(s.QuotaKey))
		if len(s.RequestId) == 0 {
			sender = event.File // storage only
		}
		if sender == d || sender == "" && d == event.Documents()[0] {
			of = append(of, s)
		}
	}
	return of
}

func (h *history) usedBy(id uint64, key plan.QuotaKey) *event.KeyUsage {
	h.t.Helper()
	u := h.fold.UsageAt(event.AccountID(id), h.now)
	if u == nil {
		h.t.Fatalf("no account %d", id)
	}
	return u.Usage[key-1]
}

func (h *history) balance(id uint64) int64 {
	return h.fold.UsageAt(event.AccountID(id), h.now).BalanceMicros
}

// ledgerSum is the sum of an account's entries.
func (h *history) ledgerSum(id uint64) (sum int64) {
	for _, e := range h.ledger {
		if e.Account == id {
			sum += e.AmountMicros
		}
	}
	return sum
}

func stateHash(t tester, f *Fold) Hash {
	t.Helper()
	sum, err := f.StateHash()
	if err != nil {
		t.Fatalf("%v", err)
	}
	return sum
}

// restored is the fold after a round trip through an encoded snapshot.
func restored(t tester, f *Fold) *Fold {
	t.Helper()
	image, err := f.Image()
	if err != nil {
		t.Fatalf("%v", err)
	}
	data := image.Encode()
	s := &event.BillingState{}
	if err := event.Decode(data, s); err != nil {
		t.Fatalf("%v", err)
	}
	if plain, err := event.Encode(s); err != nil || len(plain) != len(data) {
		t.Fatalf("%d bytes, encoded again %d: %v", len(data), len(plain), err)
	}
	again, err := Restore(s)
	if err == nil {
		err = again.Know(f.newest)
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	return again
}

// replayed folds the messages from the first.
func (h *history) replayed() *Fold {
	h.t.Helper()
	f := New()
	_ = f.Know(h.newest) // no rules reached yet
	for _, m := range h.messages {
		if _, err := f.Apply(m); err != nil {
			h.t.Fatalf("replay %d: %v", m.Sequence, err)
		}
	}
	return f
}

// sound checks that replay and snapshot reach the live state.
func (h *history) sound() {
	h.t.Helper()
	live := stateHash(h.t, h.fold)
	if again := stateHash(h.t, h.replayed()); again != live {
		h.t.Fatalf("replay from the start comes to %x, live to %x", again, live)
	}
	if again := stateHash(h.t, restored(h.t, h.fold)); again != live {
		h.t.Fatalf("snapshot comes to %x, live to %x", again, live)
	}
	h.wholeInParts()
	if h.chains != nil {
		h.chains.agree(h.t, h.fold)
	}
}

func historyOf(t *testing.T) *history {
	t.Helper()
	h := newHistory(t, plan.Published(10))
	t.Cleanup(h.sound)
	return h
}
