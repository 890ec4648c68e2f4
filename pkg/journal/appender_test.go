package journal_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
)

func TestBatchesFoldInOrder(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	ensure(t, nc, billing(0))
	var o outcomes
	cfg := publishingOnce(&o)
	cfg.MaxItems = 7
	a, stop := start(t, nc, cfg)
	const items = 1000
	for i := range uint64(items) {
		add(t, a, item{id: i})
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	messages, _ := stored(t, journal.Open(nc, "BILLING_0"))
	var ids []uint64
	for i, m := range messages {
		if m.number != uint64(i+1) {
			t.Fatalf("message %d has number %d", i+1, m.number)
		}
		if len(m.ids) > 7 {
			t.Fatalf("a batch of %d items, 7 allowed", len(m.ids))
		}
		ids = append(ids, m.ids...)
	}
	if len(ids) != items || !slices.IsSorted(ids) || !slices.Equal(ids, o.ackedIDs()) {
		t.Fatalf("%d items in the stream, %d acknowledged, %d added; in order: %v", len(ids), len(o.ackedIDs()), items, slices.IsSorted(ids))
	}
}

// TestLingeringItemsLeaveWithOthers: they start no batch of their own before their time is over, and Run writes them at its end.
func TestLingeringItemsLeaveWithOthers(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	ensure(t, nc, billing(0))
	lingering := func(a *journal.Appender[item], id uint64) {
		if err := a.AddLingering(item{id: id}); err != nil {
			t.Fatal(err)
		}
	}
	var o outcomes
	cfg := publishingOnce(&o)
	cfg.Linger = time.Hour
	a, stop := start(t, nc, cfg)
	for i := uint64(0); i < 30; i += 3 {
		lingering(a, i)
		lingering(a, i+1)
		add(t, a, item{id: i + 2})
		eventually.True(t, "all three stored", func() bool { return len(o.ackedIDs()) == int(i+3) })
	}
	lingering(a, 30)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	messages, _ := stored(t, journal.Open(nc, "BILLING_0"))
	if len(messages) != 11 || !slices.IsSorted(o.ackedIDs()) || len(o.ackedIDs()) != 31 {
		t.Fatalf("%d messages with the items %v; want 11 with 0 to 30", len(messages), o.ackedIDs())
	}

	var alone outcomes
	cfg = config(&alone)
	cfg.Linger = time.Millisecond
	a, stop = start(t, nc, cfg)
	lingering(a, 100)
	eventually.True(t, "stored without others", func() bool { return len(alone.ackedIDs()) == 1 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestWhatWaitsLeavesInOneMessage(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	ensure(t, nc, billing(0))
	var o outcomes
	a, err := journal.NewAppender(nc, publishingOnce(&o))
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(1000) { // before Run: all of them wait
		add(t, a, item{id: i})
	}
	done := make(chan error, 1)
	go func() { done <- a.Run(t.Context()) }()
	eventually.True(t, "1000 acknowledgements", func() bool { return len(o.ackedIDs()) == 1000 })
	messages, _ := stored(t, journal.Open(nc, "BILLING_0"))
	if len(messages) != 1 || len(messages[0].ids) != 1000 {
		t.Fatalf("%d messages, want 1 with all items", len(messages))
	}
}

// stream answers instead of a stream, as a test decides.
func stream(t *testing.T, nc *nats.Conn, respond func(n int, m *nats.Msg)) (received func() []string) {
	t.Helper()
	var data atomic.Pointer[[]string]
	data.Store(new([]string))
	sub, err := nc.Subscribe(testSubject, func(m *nats.Msg) {
		all := append(slices.Clone(*data.Load()), string(m.Data))
		data.Store(&all)
		respond(len(all), m)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return func() []string { return *data.Load() }
}

const (
	ackJSON        = `{"stream":"BILLING_0", "seq":12}`
	fullJSON       = `{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"},"stream":"BILLING_0","seq":0}`
	diskJSON       = `{"error":{"code":503,"err_code":10077,"description":"write: input/output error"},"stream":"BILLING_0","seq":0}`
	outOfSpaceJSON = `{"error":{"code":503,"err_code":10023,"description":"insufficient resources"},"stream":"BILLING_0","seq":0}`
)

func TestUnknownOutcomeIsPublishedAgainByteForByte(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	received := stream(t, nc, func(n int, m *nats.Msg) {
		switch n {
		case 1: // no answer
		case 2:
			_ = m.Respond([]byte(diskJSON))
		default:
			_ = m.Respond([]byte(ackJSON))
		}
	})
	var o outcomes
	cfg := config(&o)
	cfg.AckWait, cfg.MaxWait = 20*time.Millisecond, time.Hour
	a, stop := start(t, nc, cfg)
	add(t, a, item{id: 5, padding: 100})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	got := received()
	if len(got) < 3 {
		t.Fatalf("%d attempts, want at least 3", len(got))
	}
	for _, data := range got {
		if data != got[0] {
			t.Fatal("an attempt had other bytes")
		}
	}
	if !slices.Equal(o.ackedIDs(), []uint64{5}) {
		t.Fatalf("acknowledged %v", o.ackedIDs())
	}
}

func TestOutcomeStaysUnknownWhereOnlyALaterAttemptIsRefused(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	stream(t, nc, func(n int, m *nats.Msg) {
		if n > 1 { // the first may have been stored
			_ = m.Respond([]byte(fullJSON))
		}
	})
	var o outcomes
	cfg := config(&o)
	cfg.AckWait, cfg.MaxWait = 20*time.Millisecond, 300*time.Millisecond
	a, stop := start(t, nc, cfg)
	add(t, a, item{id: 5})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if n, err := o.failures(); n != 1 || !errors.Is(err, journal.ErrUnknown) {
		t.Fatalf("%d failed with %v, want 1 with ErrUnknown", n, err)
	}
}

func TestRefusalIsDefiniteAtOnce(t *testing.T) {
	for answer, want := range map[string]error{
		fullJSON:       journal.ErrFull,
		outOfSpaceJSON: journal.ErrUnavailable,
		`{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"}}`: journal.ErrTooLarge,
	} {
		t.Run(want.Error(), func(t *testing.T) {
			nc := journaltest.Start(t).Conn(t)
			received := stream(t, nc, func(_ int, m *nats.Msg) { _ = m.Respond([]byte(answer)) })
			var o outcomes
			cfg := config(&o)
			cfg.AckWait, cfg.MaxWait = time.Hour, time.Hour
			a, stop := start(t, nc, cfg)
			add(t, a, item{id: 5})
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if n, err := o.failures(); n != 1 || !errors.Is(err, want) || len(received()) != 1 {
				t.Fatalf("%d failed with %v after %d attempts, want 1 with %v after 1", n, err, len(received()), want)
			}
		})
	}
}

func TestRefusalIsRetriedWhereNothingMayBeLost(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	stream(t, nc, func(n int, m *nats.Msg) {
		if n < 4 {
			_ = m.Respond([]byte(fullJSON))
			return
		}
		_ = m.Respond([]byte(ackJSON))
	})
	var o outcomes
	a, stop := start(t, nc, config(&o)) // MaxWait 0
	add(t, a, item{id: 5})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if n, err := o.failures(); n != 0 || len(o.ackedIDs()) != 1 {
		t.Fatalf("%d failed with %v, %d acknowledged", n, err, len(o.ackedIDs()))
	}
}

func TestNobodyThereIsUnavailable(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	var o outcomes
	cfg := config(&o)
	cfg.MaxWait = 100 * time.Millisecond
	a, _ := start(t, nc, cfg)
	added := 0
	eventually.True(t, "ErrUnavailable", func() bool { // on a busy machine it may be unknown first
		n, err := o.failures()
		if n == added && !errors.Is(err, journal.ErrUnavailable) {
			add(t, a, item{id: 5})
			added++
		}
		return errors.Is(err, journal.ErrUnavailable) && !errors.Is(err, journal.ErrUnknown)
	})
}

func TestConfirmEndsTheWaitForAnAcknowledgement(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	var a *journal.Appender[item]
	started := make(chan struct{})
	stream(t, nc, func(int, *nats.Msg) { // the edge learns it from the verdict
		<-started
		a.Confirm(1)
	})
	var o outcomes
	cfg := config(&o)
	cfg.AckWait = time.Hour
	a, stop := start(t, nc, cfg)
	close(started)
	add(t, a, item{id: 5})
	eventually.True(t, "the acknowledgement", func() bool { return len(o.ackedIDs()) == 1 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestResendPublishesTheSameBytesAndForgetsOldOnes(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	ensure(t, nc, billing(0))
	var o outcomes
	a, _ := start(t, nc, config(&o))
	for i := range uint64(3) {
		add(t, a, item{id: i})
		eventually.True(t, "the acknowledgement", func() bool { return len(o.ackedIDs()) == int(i+1) })
	}
	if err := a.Resend(3); err != nil {
		t.Fatal(err)
	}
	j := journal.Open(nc, "BILLING_0")
	eventually.True(t, "the message that was sent again", func() bool {
		last, err := j.LastSequence(t.Context())
		return err == nil && last == 4
	})
	first, err := j.Get(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	second, err := j.Get(t.Context(), 4)
	if err != nil || string(first.Data) != string(second.Data) {
		t.Fatalf("sent again: %x, before: %x, %v", second.Data, first.Data, err)
	}
	for _, number := range []uint64{0, 1, 4} {
		if err := a.Resend(number); !errors.Is(err, journal.ErrForgotten) {
			t.Errorf("resend %d: %v, want ErrForgotten", number, err)
		}
	}
	_, folded := stored(t, j)
	mustHoldOnce(t, folded, o.ackedIDs())
}

func TestFullStreamRefusesAndRecovers(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	ensure(t, nc, billing(4096))
	var o outcomes
	cfg := config(&o)
	cfg.MaxWait = time.Minute
	a, stop := start(t, nc, cfg)
	next := uint64(0)
	eventually.True(t, "a full stream", func() bool {
		add(t, a, item{id: next, padding: 200})
		next++
		n, err := o.failures()
		if n > 0 && !errors.Is(err, journal.ErrFull) {
			t.Fatalf("failed with %v, want ErrFull", err)
		}
		return n > 0
	})
	ensure(t, nc, billing(1<<20))
	before := next
	add(t, a, item{id: before, padding: 200})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(o.ackedIDs(), before) {
		t.Fatalf("item %d is not acknowledged after there is room", before)
	}
	_, folded := stored(t, journal.Open(nc, "BILLING_0"))
	mustHoldOnce(t, folded, o.ackedIDs())
	if failed, _ := o.failures(); len(o.ackedIDs())+failed != int(next)+1 || len(folded) != len(o.ackedIDs()) {
		t.Fatalf("%d added, %d acknowledged, %d failed, %d stored", next+1, len(o.ackedIDs()), failed, len(folded))
	}
}

func TestServerOutOfStorageIsUnavailable(t *testing.T) {
	nc := journaltest.Start(t, journaltest.WithMaxStore(16<<10)).Conn(t)
	ensure(t, nc, billing(0))
	var o outcomes
	cfg := config(&o)
	cfg.MaxWait = time.Minute
	a, _ := start(t, nc, cfg)
	next := uint64(0)
	eventually.True(t, "a refusal", func() bool {
		add(t, a, item{id: next, padding: 1000})
		next++
		n, _ := o.failures()
		return n > 0
	})
	if _, err := o.failures(); !errors.Is(err, journal.ErrUnavailable) {
		t.Fatalf("failed with %v, want ErrUnavailable", err)
	}
}

func TestTooLargeItemsAreRefusedAndLargeBatchesCut(t *testing.T) {
	nc := journaltest.Start(t, journaltest.WithMaxPayload(8192)).Conn(t)
	ensure(t, nc, billing(0))
	var o outcomes
	cfg := publishingOnce(&o)
	a, err := journal.NewAppender(nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Add(item{padding: 8192}); !errors.Is(err, journal.ErrTooLarge) {
		t.Fatalf("err = %v, want ErrTooLarge", err)
	}
	for i := range uint64(40) { // 40 kB wait, 8 kB fit
		add(t, a, item{id: i, padding: 1000})
	}
	done := make(chan error, 1)
	go func() { done <- a.Run(t.Context()) }()
	eventually.True(t, "40 acknowledgements", func() bool { return len(o.ackedIDs()) == 40 })
	messages, folded := stored(t, journal.Open(nc, "BILLING_0"))
	mustHoldOnce(t, folded, o.ackedIDs())
	if len(messages) != 6 { // of 7, 7, 7, 7, 7 and 5
		t.Errorf("%d messages, want 6", len(messages))
	}
}

func TestWrongSizesStillLeaveInWholeItems(t *testing.T) {
	nc := journaltest.Start(t, journaltest.WithMaxPayload(8192)).Conn(t)
	ensure(t, nc, billing(0))
	var o outcomes
	cfg := config(&o)
	cfg.Size = func(item) int { return 1 }
	a, stop := start(t, nc, cfg)
	for i := range uint64(40) {
		add(t, a, item{id: i, padding: 1000})
	}
	add(t, a, item{id: 40, padding: 9000}) // fits in no message
	add(t, a, item{id: 41})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if n, err := o.failures(); n != 1 || !errors.Is(err, journal.ErrTooLarge) {
		t.Fatalf("%d failed with %v, want 1 with ErrTooLarge", n, err)
	}
	_, folded := stored(t, journal.Open(nc, "BILLING_0"))
	mustHoldOnce(t, folded, o.ackedIDs())
	if len(folded) != 41 || folded[41] != 1 {
		t.Fatalf("%d stored, want 41", len(folded))
	}
}

func TestFullQueueIsBusyAndAStoppedAppenderClosed(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	ensure(t, nc, billing(0))
	var o outcomes
	cfg := config(&o)
	cfg.MaxQueue = 2
	a, err := journal.NewAppender(nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Add(item{id: 1}), a.Add(item{id: 2})); err != nil {
		t.Fatal(err)
	}
	if err := a.Add(item{id: 3}); !errors.Is(err, journal.ErrBusy) {
		t.Fatalf("err = %v, want ErrBusy", err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Run(t.Context()) }()
	eventually.True(t, "both", func() bool { return len(o.ackedIDs()) == 2 })
	b, stop := start(t, nc, config(&o))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := b.Add(item{id: 4}); !errors.Is(err, journal.ErrClosed) {
		t.Fatalf("err = %v, want ErrClosed", err)
	}
}

func TestStopThatCannotWriteFailsWhatWaits(t *testing.T) {
	s := journaltest.Start(t)
	nc := s.Conn(t)
	ensure(t, nc, billing(0))
	var o outcomes
	cfg := config(&o)
	cfg.MaxItems, cfg.DrainWait = 1, 50*time.Millisecond
	a, stop := start(t, nc, cfg)
	s.Stop()
	for i := range uint64(3) {
		add(t, a, item{id: i})
	}
	if err := stop(); !errors.Is(err, journal.ErrClosed) {
		t.Fatalf("Run returned %v, want ErrClosed", err)
	}
	if n, _ := o.failures(); n != 3 {
		t.Fatalf("%d failed, want 3", n)
	}
}
