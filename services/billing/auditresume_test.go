package billing_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/rpc"
	"quire.dev/services/billing"
	"quire.dev/services/billing/internal/account"
)

// written remembers what was written under a key.
type written struct {
	blob.Store
	key string

	mu  sync.Mutex
	all [][]byte
}

func (w *written) Put(ctx context.Context, key string, r io.Reader, size int64) (blob.Info, error) {
	if key == w.key {
		data, err := io.ReadAll(r)
		if err != nil {
			return blob.Info{}, err
		}
		w.mu.Lock()
		w.all = append(w.all, data)
		w.mu.Unlock()
		r = bytes.NewReader(data)
	}
	return w.Store.Put(ctx, key, r, size)
}

// resuming is a stack with a journal of two months, with many snapshots and seals, and the progress that a complete audit saved on its way.
type resuming struct {
	*stack
	cfg    billing.Config
	offset time.Duration
	run    *running
	query  *event.AuditQuery
	whole  *event.AuditAnswer
	saved  [][]byte
}

const (
	auditID = "the id of a test"
	leaving = 4711 // an account that is scheduled for deletion

	afterDeletion = later + 20*24*time.Hour
)

func progressKey() string { return installation.AuditProgressKey(event.Billing.Stream(0)) }

func newResuming(t *testing.T) *resuming {
	t.Helper()
	s, cfg := books(t)
	w := &written{Store: s.blobs.Store, key: progressKey()}
	s.blobs.Store = w
	cfg.SnapshotMessages, cfg.HistoryMessages, cfg.AuditRequests, cfg.AuditProgress, cfg.SealInterval = 1, 1, 1, time.Nanosecond, time.Millisecond
	p := &resuming{stack: s, cfg: cfg, offset: afterDeletion, query: &event.AuditQuery{Head: 14}}
	p.run = s.start(cfg, later)
	s.account(leaving, plan.Free)
	s.did(&event.Command{Account: leaving, Action: &event.Command_DeleteAccount{DeleteAccount: &event.DeleteAccount{}}})
	p.run.stop()
	for range 4 { // each stop writes a snapshot
		p.run = s.start(cfg, p.offset)
		for range 3 { // seals of one process refer to earlier ones
			seals := s.sealsIn()
			s.serve(alice, plan.LiteGet, 2)
			s.grant(bob, 1_000_000)
			eventually.True(t, "a seal", func() bool { return s.sealsIn() > seals })
		}
		p.run.stop()
	}
	p.cfg.SealInterval = time.Hour // the journal stays as it is
	p.run = s.start(p.cfg, p.offset)
	if p.whole = p.audit(auditID); !p.whole.Match || p.whole.Folded != p.whole.LastSequence || len(p.whole.HeadChain) == 0 {
		t.Fatalf("a complete audit: %v", p.whole)
	}
	if p.saved = w.all; len(p.saved) < 3 {
		t.Fatalf("it saved its progress %d times", len(p.saved))
	}
	return p
}

// sealsIn is the number of seals in the journal.
func (s *stack) sealsIn() (seals int) {
	s.t.Helper()
	s.fold(account.New(), func(_ uint64, e account.Effects) {
		if e.Seal != nil {
			seals++
		}
	})
	return seals
}

// audit audits as a caller who polls.
func (p *resuming) audit(id string) *event.AuditAnswer {
	p.t.Helper()
	a := p.try(id)
	if a.Status != event.QueryStatus_QUERY_OK {
		p.t.Fatalf("audit: %v", a.Status)
	}
	return a.GetAudit()
}

func (p *resuming) try(id string) (a *event.QueryAnswer) {
	p.t.Helper()
	p.query.Id = []byte(id)
	eventually.True(p.t, "the audit ends", func() bool {
		a = p.queryAt(0, &event.Query{Query: &event.Query_Audit{Audit: p.query}})
		return a.Status != event.QueryStatus_QUERY_PENDING
	})
	return a
}

// interrupt restarts billing as if it had crashed right after saving this progress. change is called in between.
func (p *resuming) interrupt(progress []byte, change func()) {
	p.t.Helper()
	p.run.stop()
	change()
	if _, err := p.blobs.Put(p.t.Context(), progressKey(), bytes.NewReader(progress), int64(len(progress))); err != nil {
		p.t.Fatal(err)
	}
	p.run = p.start(p.cfg, p.offset)
}

func nothing() {}

// TestAnInterruptedAuditIsResumed at its last progress, and finds the same. An audit that was resumed is resumed again.
func TestAnInterruptedAuditIsResumed(t *testing.T) {
	t.Parallel()
	p := newResuming(t)
	last := p.lastSequence()
	resume := func(progress []byte) (folded uint64) {
		t.Helper()
		p.interrupt(progress, nothing)
		a := p.audit(auditID)
		if !a.Match || a.LastSequence != last || a.Entries != p.whole.Entries || !bytes.Equal(a.ReplayHash, p.whole.ReplayHash) || !bytes.Equal(a.Chain, p.whole.Chain) {
			t.Errorf("resumed: %v; the complete one was %v", a, p.whole)
		}
		if !bytes.Equal(a.HeadChain, p.whole.HeadChain) {
			t.Errorf("resumed: the chain at the head is %x, want %x", a.HeadChain, p.whole.HeadChain)
		}
		for _, table := range []string{"ledger", "days", "statements", "events", "adminLog", "accounts", "networks", "entries", "seals", "snapshots"} {
			if rows := rowsOf(a, table); rows != rowsOf(p.whole, table) {
				t.Errorf("resumed: %d rows of %s, %d in the complete audit", rows, table, rowsOf(p.whole, table))
			}
		}
		return a.Folded
	}
	before := len(p.saved)
	folded := []uint64{p.whole.Folded}
	for i, progress := range slices.Clone(p.saved) {
		folded = append(folded, resume(progress))
		if folded[i+1] >= folded[i] {
			t.Errorf("resumed at %d it folded %d messages, at the one before %d", i, folded[i+1], folded[i])
		}
	}
	again := p.blobs.Store.(*written).all[before+1] // saved by the audit that was resumed with all[before]
	if n := resume(again); n != folded[2] {
		t.Errorf("resumed again it folded %d messages, want %d", n, folded[2])
	}
}

// TestAResumedAuditFindsAnEarlierChange by the sums that were saved, and names it.
func TestAResumedAuditFindsAnEarlierChange(t *testing.T) {
	t.Parallel()
	p := newResuming(t)
	edit(p.stack, "billing_ledger", event.AccountID(alice).String(), &event.LedgerEntry{}, func(e *event.LedgerEntry) { e.AmountMicros += 7 })
	for i, progress := range slices.Clone(p.saved) {
		p.interrupt(progress, nothing)
		if a := p.audit(auditID); a.Match || !names(a, alice, "ledger amountMicros 1000000 1000007") || a.Folded >= 2*p.lastSequence() {
			t.Errorf("resumed at %d: %v", i, a) // a second pass, from the first message, names the row
		}
	}
}

// TestAnAuditStartsOver under another id, with other parameters, after 23 hours, with damaged progress, or after the read model has changed.
func TestAnAuditStartsOver(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	p := newResuming(t)
	last := p.saved[len(p.saved)-1]
	audit := func(name string, resumed bool, id string, progress []byte, change func()) {
		t.Helper()
		p.interrupt(progress, change)
		if a := p.audit(id); !a.Match || (a.Folded < a.LastSequence) != resumed || !resumed && a.Folded%a.LastSequence != 0 { // once for each part
			t.Errorf("%s: %v", name, a)
		}
	}
	audit("the same", true, auditID, last, nothing)
	audit("another id", false, "another test's i", last, nothing)
	for name, query := range map[string]*event.AuditQuery{"deep": {Head: 14, Deep: true}, "another head": {Head: 3}} {
		p.interrupt(last, nothing)
		right := p.query
		p.query = query
		if err := p.refused(); !strings.Contains(err, "other parameters") {
			t.Errorf("%s: %v", name, err)
		}
		p.query = right
		if a := p.audit(auditID); !a.Match || a.Folded >= a.LastSequence { // the refused one does not spoil it
			t.Errorf("after %s: %v", name, a)
		}
	}
	damaged := bytes.Clone(last)
	damaged[random.IntN(len(damaged))] ^= byte(1 + random.IntN(255))
	audit("damaged", false, auditID, damaged, nothing)
	audit("truncated", false, auditID, last[:random.IntN(len(last))], nothing)
	audit("oversized", false, auditID, make([]byte, 16<<20+1), nothing)
	audit("in 23 hours", true, auditID, last, func() { p.offset = afterDeletion + 23*time.Hour - 10*time.Minute })
	audit("after 23 hours", false, auditID, last, func() { p.offset = afterDeletion + 23*time.Hour + 10*time.Minute })
	audit("of the future", false, auditID, last, func() { p.offset = afterDeletion - time.Hour })
	p.offset = afterDeletion
	audit("in parts", false, auditID, last, func() { p.cfg.AuditPrincipals = 1 })
	p.cfg.AuditPrincipals = 0
	kept := p.takeBlobs(installation.SnapshotPrefix(event.Billing.Stream(0)))
	audit("without the snapshot", false, auditID, last, func() { p.deleteBlobs(installation.SnapshotPrefix(event.Billing.Stream(0))) })
	for key, data := range kept {
		p.put(key, data)
	}
	audit("with it", true, auditID, last, nothing)
	audit("an account erased", false, auditID, last, func() {
		r := p.start(p.cfg, p.offset)
		p.did(&event.Command{Account: leaving, Action: &event.Command_EraseAccount{EraseAccount: &event.EraseAccount{}}})
		r.stop()
	})
}

// TestProgressIsSavedIfEnoughFollows for comparing recent requests: twice as many entries as requests are held.
func TestProgressIsSavedIfEnoughFollows(t *testing.T) {
	t.Parallel()
	p := newResuming(t)
	entries := map[uint64]uint64{} // by sequence
	fold := account.New()
	p.fold(fold, func(sequence uint64, _ account.Effects) { entries[sequence] = fold.Entries() })
	var follow []uint64 // entries, by snapshot
	for _, s := range p.sortedSnapshots() {
		sequence, err := strconv.ParseUint(path.Base(s.Key)[:20], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		follow = append(follow, fold.Entries()-entries[sequence])
	}
	w := p.blobs.Store.(*written)
	limit := follow[1] / 2
	for _, requests := range []uint64{limit, limit + 1} {
		p.cfg.AuditRequests = int(requests)
		before, want := len(w.all), 0
		for _, n := range follow {
			if n >= 2*requests {
				want++
			}
		}
		p.run.stop()
		p.run = p.start(p.cfg, p.offset)
		if a := p.audit(fmt.Sprintf("%016d", requests)); !a.Match || len(w.all)-before != want || want == 0 {
			t.Errorf("with %d requests in memory: %v, saved %d times, want %d; %d entries follow the snapshots", requests, a, len(w.all)-before, want, follow)
		}
	}
}

// TestAnAuditOfAnIDKeepsItsParameters: a caller with other ones is refused.
func TestAnAuditOfAnIDKeepsItsParameters(t *testing.T) {
	t.Parallel()
	p := newResuming(t)
	p.query = &event.AuditQuery{Head: 14, Deep: true, Id: []byte(auditID)}
	if err := p.refused(); !strings.Contains(err, "other parameters") {
		t.Errorf("with other parameters: %v", err)
	}
}

// refused is the error of an audit with the test's id.
func (p *resuming) refused() (message string) {
	p.t.Helper()
	p.query.Id = []byte(auditID)
	payload, err := event.Encode(&event.Query{Query: &event.Query_Audit{Audit: p.query}})
	if err != nil {
		p.t.Fatal(err)
	}
	eventually.True(p.t, "an error", func() bool {
		_, err = rpc.Call(p.t.Context(), p.nc, event.QuerySubject(0), payload)
		return err != nil && !strings.Contains(err.Error(), "no responders")
	})
	return err.Error()
}

// TestAResumedAuditChecksEarlierSnapshots again, since they are what a start uses.
func TestAResumedAuditChecksEarlierSnapshots(t *testing.T) {
	t.Parallel()
	p := newResuming(t)
	p.query = &event.AuditQuery{Head: 14, Deep: true}
	const other = "the id of anothe"
	before := len(p.blobs.Store.(*written).all)
	whole := p.audit(other)
	all := p.blobs.Store.(*written).all
	first := p.sortedSnapshots()[0].Key
	for _, damaged := range []bool{false, true} {
		p.run.stop()
		if damaged {
			data, err := blob.Read(t.Context(), p.blobs, first, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			data[len(data)/2] ^= 1
			p.put(first, data)
		}
		p.put(progressKey(), all[before+1])
		p.run = p.start(p.cfg, p.offset)
		a := p.audit(other)
		if a.Match == damaged || rowsOf(a, "snapshots") != rowsOf(whole, "snapshots") || !damaged && a.Folded >= a.LastSequence || damaged && !strings.Contains(fmt.Sprint(a.Differences), first) {
			t.Errorf("damaged: %t: %v; the complete audit was %v", damaged, a, whole)
		}
	}
}
