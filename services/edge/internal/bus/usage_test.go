package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/services/edge/internal/fault"
)

func TestAdmissionsThatWaitLeaveInOneBatch(t *testing.T) {
	w := newWorld(t, 1)
	newFakeBilling(t, w.nc, 1)
	b := w.idle(t, nil)
	pending := make([]*PendingVerdict, 1000)
	asked := make([]Admission, len(pending))
	for i := range pending {
		asked[i] = admission(event.AccountID(i + 1))
		pending[i] = b.StartAdmit(asked[i], nil)
	}
	start(t, b)
	for i, p := range pending {
		v, err := p.Wait(t.Context())
		if err != nil {
			t.Fatalf("admission %d: %v", i, err)
		}
		if !v.Admitted() || v.BalanceMicros != fingerprintOf(asked[i].RequestID[:]) {
			t.Fatalf("admission %d got the verdict of another: %v", i, v)
		}
		if v.TimeMs == 0 {
			t.Fatalf("verdict %d without a time", i)
		}
	}
	batches := w.usageBatches(t)
	if len(batches) != 1 || len(batches[0].Admissions) != len(pending) {
		t.Fatalf("%d batches, want one with %d admissions", len(batches), len(pending))
	}
}

func TestEveryConcurrentWaiterGetsItsOwnVerdict(t *testing.T) {
	const clients, each, partitions = 64, 40, 4
	w := newWorld(t, partitions)
	f := newFakeBilling(t, w.nc, partitions)
	newFakeBilling(t, w.nc, partitions) // a second replica: every batch is answered twice
	b := w.bus(t, nil)
	var group sync.WaitGroup
	for range clients {
		account := event.NewAccountID()
		group.Go(func() {
			for range each {
				a := admission(account)
				v, err := b.StartAdmit(a, nil).Wait(t.Context())
				if err != nil {
					t.Errorf("admit: %v", err)
					return
				}
				if v.BalanceMicros != fingerprintOf(a.RequestID[:]) {
					t.Errorf("verdict of another request")
				}
				b.Served(a, v)
			}
		})
	}
	group.Wait()
	if err := b.stop(); err != nil {
		t.Fatalf("run: %v", err)
	}
	f.countedOnce(t, clients*each)
}

// TestServedReadsRideWithTheNextAdmission: a client that sends one request after the other has one batch for each, in which the
// read before is settled by the offset of its admission.
func TestServedReadsRideWithTheNextAdmission(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeBilling(t, w.nc, 1)
	b := w.bus(t, func(c *Config) { c.Linger = time.Hour })
	const requests = 20
	for range requests {
		a := admission(1)
		v, err := b.StartAdmit(a, nil).Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b.Served(a, v)
	}
	batches := w.usageBatches(t)
	if len(batches) != requests {
		t.Fatalf("%d batches for %d requests", len(batches), requests)
	}
	for i, batch := range batches {
		if i > 0 && (len(batch.Served) != 1 || len(batch.Served[0].Places) > 0 || len(batch.Settlements) > 0) {
			t.Errorf("batch %d settles %v and %v", i+1, batch.Served, batch.Settlements)
		}
	}
	if err := b.stop(); err != nil {
		t.Fatalf("run: %v", err)
	}
	f.countedOnce(t, requests)
}

// TestALastReadIsSettledWithoutAnother: nothing else is sent to billing after it.
func TestALastReadIsSettledWithoutAnother(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeBilling(t, w.nc, 1)
	b := w.bus(t, nil)
	a := admission(1)
	v, err := b.StartAdmit(a, nil).Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.Served(a, v)
	f.countedOnce(t, 1)
	if settled := w.usageBatches(t)[1]; len(settled.Served) != 1 || len(settled.Settlements) > 0 {
		t.Errorf("settled by %v", settled)
	}
}

// TestPlacesOfManyMessages: the places of one message stand together, whatever their order is.
func TestPlacesOfManyMessages(t *testing.T) {
	var served []*event.Served
	for _, at := range []journalOffset{{7, 0}, {8, 3}, {7, 2}, {9, 0}, {8, 0}, {7, 1}} {
		served = withOffset(served, at)
	}
	var got []string
	for _, s := range served {
		got = append(got, fmt.Sprint(s.Sequence, s.Places))
	}
	if want := []string{"7 [0 2 1]", "8 [3 0]", "9 []"}; !slices.Equal(got, want) {
		t.Errorf("places %v, want %v", got, want)
	}
}

func TestLostVerdictIsAskedForAgainAndNothingIsCountedTwice(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeBilling(t, w.nc, 1)
	f.with(func() { f.lose = 2 })
	b := w.bus(t, func(c *Config) { c.ResendAfter = 30 * time.Millisecond })
	a := admission(5)
	v, err := b.StartAdmit(a, nil).Wait(t.Context())
	if err != nil || !v.Admitted() {
		t.Fatalf("verdict %v, %v", v, err)
	}
	f.with(func() {
		if f.admissions != 1 || f.messages < 3 {
			t.Errorf("%d admissions decided from %d messages, want 1 from 3 or more", f.admissions, f.messages)
		}
	})
	if _, err := b.StartAdmit(admission(5), nil).Wait(t.Context()); err != nil {
		t.Fatalf("the next admission: %v", err)
	}
}

func TestAdmissionsSurviveAServerRestart(t *testing.T) {
	w := newWorld(t, 2)
	f := newFakeBilling(t, w.nc, 2)
	b := w.bus(t, func(c *Config) {
		c.AdmitTimeout = time.Minute
		c.ResendAfter = 50 * time.Millisecond
	})
	const n = 20
	first := make([]*PendingVerdict, n)
	for i := range first {
		first[i] = b.StartAdmit(admission(event.NewAccountID()), nil)
	}
	w.server.Stop()
	second := make([]*PendingVerdict, n)
	for i := range second {
		second[i] = b.StartAdmit(admission(event.NewAccountID()), nil)
	}
	w.server.Restart(t)
	for i, p := range append(first, second...) {
		if v, err := p.Wait(t.Context()); err != nil || !v.Admitted() {
			t.Fatalf("admission %d: %v, %v", i, v, err)
		}
	}
	f.with(func() {
		if f.admissions != 2*n {
			t.Errorf("%d admissions decided, want %d", f.admissions, 2*n)
		}
	})
}

func TestVoidIsInTheJournalWhenItReturns(t *testing.T) {
	w := newWorld(t, 4)
	f := newFakeBilling(t, w.nc, 4)
	b := w.bus(t, nil)
	for range 20 {
		a := admission(event.NewAccountID())
		if _, err := b.StartAdmit(a, nil).Wait(t.Context()); err != nil {
			t.Fatalf("admit: %v", err)
		}
		if err := b.Void(t.Context(), a, true); err != nil {
			t.Fatalf("void: %v", err)
		}
		if served, voided := w.settled(t, a.RequestID); served != 0 || voided != 1 {
			t.Fatalf("served %d times, voided %d times", served, voided)
		}
	}
	eventually.True(t, "failures folded", f.is(func() bool { return f.failures == 20 }))
}

func TestAdmissionWhoseWaiterWentIsGivenBack(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeBilling(t, w.nc, 1)
	f.with(func() {
		f.silent = true
		f.limits[4] = 0
	})
	b := w.idle(t, func(c *Config) {
		c.AdmitTimeout = time.Minute
		c.ResendAfter = 20 * time.Millisecond
	})
	// All three are in one batch. Two of the callers go; the batch still gets its verdicts.
	admitted, refused := admission(3), admission(4)
	gone := []*PendingVerdict{b.StartAdmit(admitted, nil), b.StartAdmit(refused, nil)}
	stays := b.StartAdmit(admission(5), nil)
	start(t, b)
	eventually.True(t, "admissions folded", f.is(func() bool { return f.admissions == 3 }))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, p := range gone {
		_, err := p.Wait(ctx)
		if fault.KindOf(err) != fault.OutcomeUnknown || !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v, want outcome_unknown for the cancelled context", err)
		}
	}
	f.with(func() { f.silent = false })
	if v, err := stays.Wait(t.Context()); err != nil || !v.Admitted() {
		t.Fatalf("verdict of the one that waits: %v, %v", v, err)
	}
	eventually.True(t, "void folded", f.is(func() bool { return f.voided[admitted.RequestID] == 1 }))
	if _, err := b.StartAdmit(admission(6), nil).Wait(t.Context()); err != nil {
		t.Fatalf("the next admission: %v", err)
	}
	f.with(func() {
		if f.failures != 0 {
			t.Errorf("giving back counts as a failed call")
		}
		if f.voided[refused.RequestID] != 0 {
			t.Errorf("a refused admission was given back")
		}
	})
}

func TestAdmissionWhoseWaiterWentBeforeTheVerdictIsGivenBackWithoutIt(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeBilling(t, w.nc, 1)
	f.with(func() { f.silent = true })
	b := w.bus(t, func(c *Config) { c.AdmitTimeout = time.Minute })
	ctx, cancel := context.WithCancel(t.Context())
	a := admission(3)
	p := b.StartAdmit(a, nil)
	eventually.True(t, "admission folded", f.is(func() bool { return f.admissions == 1 }))
	cancel()
	if _, err := p.Wait(ctx); fault.KindOf(err) != fault.OutcomeUnknown {
		t.Fatalf("error %v, want outcome_unknown", err)
	}
	eventually.True(t, "void folded", f.is(func() bool { return f.voided[a.RequestID] == 1 }))
}

func TestAdmissionWithoutVerdictTimesOutAsUnknownAndIsGivenBack(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeBilling(t, w.nc, 1)
	f.with(func() { f.silent = true })
	b := w.bus(t, func(c *Config) {
		c.AdmitTimeout = 200 * time.Millisecond
		c.ResendAfter = 50 * time.Millisecond
	})
	a := admission(3)
	if _, err := b.StartAdmit(a, nil).Wait(t.Context()); fault.KindOf(err) != fault.OutcomeUnknown {
		t.Fatalf("error %v, want outcome_unknown", err)
	}
	eventually.True(t, "void folded", f.is(func() bool { return f.voided[a.RequestID] == 1 }))
}

// TestAdmissionThatNeverLeftIsUnavailable: also one that waits behind others, and gives up soon after these have failed. A
// settlement waits for the connection.
func TestAdmissionThatNeverLeftIsUnavailable(t *testing.T) {
	const partitions, each = 4, 3
	w := newWorld(t, partitions)
	f := newFakeBilling(t, w.nc, partitions)
	b := w.bus(t, func(c *Config) { c.AdmitTimeout = 2 * time.Second })
	w.server.Stop()
	eventually.True(t, "connection lost", func() bool { return !b.nc.IsConnected() })
	pending, settled := map[int][]*PendingVerdict{}, 0
	for account := event.AccountID(1); settled < partitions; account++ {
		p := event.AccountPartition(account, partitions)
		if len(pending[p]) > 0 {
			continue
		}
		settled++
		b.Served(admission(account), &Verdict{})
		for range each {
			pending[p] = append(pending[p], b.StartAdmit(admission(account), nil))
		}
	}
	for partition, all := range pending {
		for n, p := range all {
			_, err := p.Wait(t.Context())
			var f *fault.Error
			if !errors.As(err, &f) || f.Kind != fault.Unavailable || f.RetryAfter != 1 {
				t.Errorf("admission %d to partition %d: %v, want unavailable with a time to retry", n, partition, err)
			}
		}
	}
	w.server.Restart(t)
	eventually.True(t, "settlements stored", f.is(func() bool { return len(f.served) == partitions }))
	f.with(func() {
		if f.admissions != 0 {
			t.Errorf("%d admissions that were given up came to billing", f.admissions)
		}
	})
}

func TestFullQueueIsUnavailable(t *testing.T) {
	w := newWorld(t, 1)
	b := w.idle(t, func(c *Config) { c.MaxWaiting = 3 })
	var pending []*PendingVerdict
	for range 4 {
		pending = append(pending, b.StartAdmit(admission(1), nil))
	}
	if _, err := pending[3].Wait(t.Context()); fault.KindOf(err) != fault.Unavailable {
		t.Fatalf("error %v, want unavailable", err)
	}
	newFakeBilling(t, w.nc, 1)
	start(t, b)
	for _, p := range pending[:3] {
		if _, err := p.Wait(t.Context()); err != nil {
			t.Fatalf("admission before the queue was full: %v", err)
		}
	}
}

func TestSettlementsThatWaitAreStoredBeforeRunReturns(t *testing.T) {
	w := newWorld(t, 4)
	newFakeBilling(t, w.nc, 4)
	b := w.bus(t, nil)
	served := make([]Admission, 500)
	for i := range served {
		served[i] = admission(event.NewAccountID())
		b.Served(served[i], &Verdict{})
	}
	if err := b.stop(); err != nil {
		t.Fatalf("run: %v", err)
	}
	stored := map[event.RequestID]int{}
	for _, batch := range w.usageBatches(t) {
		for _, s := range batch.Settlements {
			stored[event.RequestID(s.RequestId)]++
		}
	}
	for i, a := range served {
		if stored[a.RequestID] != 1 {
			t.Fatalf("settlement %d stored %d times", i, stored[a.RequestID])
		}
	}
	if _, err := b.StartAdmit(admission(1), nil).Wait(t.Context()); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("admission after the stop: %v, want unavailable", err)
	}
	b.Served(admission(1), &Verdict{}) // must not block
}

func TestSettlementsOutliveAFullStream(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeBilling(t, w.nc, 1)
	b := w.bus(t, func(c *Config) { c.ResendAfter = 20 * time.Millisecond })
	if _, err := b.StartAdmit(admission(1), nil).Wait(t.Context()); err != nil {
		t.Fatalf("admit: %v", err)
	}
	w.ensure(t, event.Billing, 1) // no room for another message
	a := admission(2)
	b.Served(a, &Verdict{})
	if _, err := b.StartAdmit(admission(1), nil).Wait(t.Context()); fault.KindOf(err) != fault.Unavailable {
		t.Fatalf("admission to a full stream: %v, want unavailable", err)
	}
	w.ensure(t, event.Billing, 0)
	eventually.True(t, "settlement folded", f.is(func() bool { return f.served[a.RequestID] == 1 }))
	eventually.True(t, "admissions taken again", func() bool {
		_, err := b.StartAdmit(admission(1), nil).Wait(t.Context())
		return err == nil
	})
	if served, _ := w.settled(t, a.RequestID); served != 1 {
		t.Errorf("settlement stored %d times", served)
	}
}

func TestSettlementsOfABatchOfUnknownFateAreStoredAsTheSameBytes(t *testing.T) {
	w := newBareWorld(t, 1)
	// There is no stream, but a subscriber: what is published is neither acknowledged nor refused.
	published := make(chan *nats.Msg, 100)
	sub, err := w.nc.ChanSubscribe(event.UsageSubject(0), published)
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	if err := w.nc.Flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
	b := w.idle(t, func(c *Config) {
		c.AdmitTimeout = 200 * time.Millisecond
		c.ResendAfter = 50 * time.Millisecond
	})
	a, served := admission(1), admission(2)
	p := b.StartAdmit(a, nil)
	b.Served(served, &Verdict{})
	start(t, b)
	if _, err := p.Wait(t.Context()); fault.KindOf(err) != fault.OutcomeUnknown {
		t.Fatalf("error %v, want outcome_unknown", err)
	}
	first := <-published
	eventually.True(t, "admissions turned away", func() bool {
		_, err := b.StartAdmit(admission(1), nil).Wait(t.Context())
		return errors.Is(err, errStuck)
	})
	w.ensure(t, event.Billing, 0)
	if err := sub.Unsubscribe(); err != nil {
		t.Fatalf("unsubscribe: %v", err)
	}
	f := newFakeBilling(t, w.nc, 1)
	eventually.True(t, "void folded", f.is(func() bool { return f.voided[a.RequestID] == 1 }))
	f.with(func() {
		if f.served[served.RequestID] != 1 || f.admissions == 0 {
			t.Errorf("served %d times, %d admissions", f.served[served.RequestID], f.admissions)
		}
	})
	m, err := journal.Open(w.nc, event.Billing.Stream(0)).Get(t.Context(), 1)
	if err != nil || !bytes.Equal(m.Data, first.Data) {
		t.Errorf("the stored batch is not the one that was published first: %v", err)
	}
}

func TestLostConnectionsLoseNoVerdictAndCountNothingTwice(t *testing.T) {
	const clients, each = 16, 60
	w := newWorld(t, 2)
	f := newFakeBilling(t, w.nc, 2)
	b := w.bus(t, func(c *Config) {
		c.AdmitTimeout = time.Minute
		c.ResendAfter = 50 * time.Millisecond
	})
	var admitted atomic.Int64
	var group sync.WaitGroup
	for range clients {
		account := event.NewAccountID()
		group.Go(func() {
			for range each {
				a := admission(account)
				v, err := b.StartAdmit(a, nil).Wait(t.Context())
				if err != nil || !v.Admitted() {
					t.Errorf("verdict %v, %v", v, err)
					return
				}
				b.Served(a, v)
				if admitted.Add(1)%100 == 0 {
					w.server.Drop()
				}
			}
		})
	}
	group.Wait()
	if err := b.stop(); err != nil {
		t.Fatalf("run: %v", err)
	}
	f.countedOnce(t, clients*each)
}

func TestServedWaitsForRoomInsteadOfDropping(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeBilling(t, w.nc, 1)
	b := w.idle(t, func(c *Config) { c.MaxWaiting = 2 })
	const n = 50
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range n {
			b.Served(admission(1), &Verdict{})
		}
	}()
	l := b.usage[0]
	eventually.True(t, "queue full", func() bool { return len(l.tokens) == 2 })
	start(t, b)
	<-done
	eventually.True(t, "settlements folded", f.is(func() bool { return len(f.served) == n }))
}

func TestRunTellsOfSettlementsThatItCouldNotStore(t *testing.T) {
	w := newWorld(t, 1)
	b := w.bus(t, func(c *Config) { c.DrainTimeout = 50 * time.Millisecond })
	w.server.Stop()
	b.Served(admission(1), &Verdict{})
	if err := b.stop(); err == nil {
		t.Fatal("run returned nil with a settlement that was not stored")
	}
}

// TestAHeldRefusalIsAskedAgain: while holds that may be voided stand in the way, for about a second, under one request id.
func TestAHeldRefusalIsAskedAgain(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeBilling(t, w.nc, 1)
	b := w.bus(t, nil)
	hold := func(n int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.held, f.admissions = n, 0
	}
	asked := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.admissions
	}
	hold(2)
	a := admission(event.NewAccountID())
	if v, err := b.StartAdmit(a, nil).Wait(t.Context()); err != nil || !v.Admitted() || v.BalanceMicros != fingerprintOf(a.RequestID[:]) {
		t.Fatalf("the holds were voided: %v, %v", v, err)
	}
	if n := asked(); n != 3 {
		t.Errorf("asked %d times, want 3", n)
	}
	hold(1000)
	if v, err := b.StartAdmit(a, nil).Wait(t.Context()); err != nil || v.Admitted() || !v.Held {
		t.Fatalf("the holds stay: %v, %v", v, err)
	}
	if n := asked(); n < 2 || n > 20 {
		t.Errorf("asked %d times in a second", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	hold(1000)
	p := b.StartAdmit(a, nil)
	eventually.True(t, "it was asked", func() bool { return asked() > 0 })
	cancel()
	if v, err := p.Wait(ctx); err == nil && v.Admitted() {
		t.Errorf("given up: %v", v)
	}
}

// TestFewHeldRefusalsOfAnAccountAreAskedAgainAtATime: a client that sends many calls at once does not fill the journal.
func TestFewHeldRefusalsOfAnAccountAreAskedAgainAtATime(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeBilling(t, w.nc, 1)
	b := w.bus(t, nil)
	f.mu.Lock()
	f.held = 1 << 30
	f.mu.Unlock()
	a := admission(event.NewAccountID())
	who := asker{a.Account, a.Key}
	for range heldAskers {
		if !b.askers.enter(who) {
			t.Fatal("too few may ask again")
		}
	}
	asked := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		defer func() { f.admissions = 0 }()
		return f.admissions
	}
	if v, err := b.StartAdmit(a, nil).Wait(t.Context()); err != nil || !v.Held || asked() != 1 {
		t.Errorf("one too many is asked again: %v, %v", v, err)
	}
	other := admission(event.NewAccountID())
	if v, err := b.StartAdmit(other, nil).Wait(t.Context()); err != nil || !v.Held || asked() < 2 {
		t.Errorf("another account is not asked again: %v, %v", v, err)
	}
	b.askers.leave(who)
	if v, err := b.StartAdmit(a, nil).Wait(t.Context()); err != nil || !v.Held || asked() < 2 {
		t.Errorf("nobody asks again after one has ended: %v, %v", v, err)
	}
	for range heldAskers - 1 {
		b.askers.leave(who)
	}
	if len(b.askers.asking) != 0 {
		t.Errorf("%v are remembered", b.askers.asking)
	}
}

func TestAVerdictCanBeWaitedForTwice(t *testing.T) {
	w := newWorld(t, 1)
	newFakeBilling(t, w.nc, 1)
	b := w.bus(t, nil)
	p := b.StartAdmit(admission(1), nil)
	for range 2 {
		if v, err := p.Wait(t.Context()); err != nil || !v.Admitted() {
			t.Fatalf("%v, %v", v, err)
		}
	}
}
