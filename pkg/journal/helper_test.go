package journal_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
)

const testSubject = "billing.0.usage"

// billing is a stream as the billing service has it.
func billing(maxBytes int64) journal.Stream {
	return journal.Stream{
		Domain: "billing", Name: "BILLING_0", KeepForever: true, MaxBytes: maxBytes,
		Subjects: []string{"billing.0.usage", "billing.0.account"},
	}
}

// paste is a stream that may be purged.
func paste() journal.Stream {
	return journal.Stream{Domain: "paste", Name: "PASTE_0", Subjects: []string{"paste.0.request"}}
}

func ensure(t testing.TB, nc *nats.Conn, streams ...journal.Stream) {
	t.Helper()
	if err := journal.Ensure(t.Context(), nc, streams, 1); err != nil {
		t.Fatal(err)
	}
}

// item is one that the tests append: numbered, and as large as its padding.
type item struct {
	id      uint64
	padding int
}

// encode puts source, number and the ids of the items into one message.
func encode(source uint64) func(uint64, []item) ([]byte, error) {
	return func(number uint64, items []item) ([]byte, error) {
		b := binary.AppendUvarint(nil, source)
		b = binary.AppendUvarint(b, number)
		b = binary.AppendUvarint(b, uint64(len(items)))
		padding := 0
		for _, it := range items {
			b = binary.AppendUvarint(b, it.id)
			padding += it.padding
		}
		return append(b, make([]byte, padding)...), nil
	}
}

type batch struct {
	source, number uint64
	ids            []uint64
}

func decode(data []byte) (b batch, err error) {
	fields := [3]uint64{}
	for i := range fields {
		n := 0
		if fields[i], n = binary.Uvarint(data); n <= 0 {
			return b, errors.New("short batch")
		}
		data = data[n:]
	}
	b.source, b.number = fields[0], fields[1]
	for range fields[2] {
		id, n := binary.Uvarint(data)
		if n <= 0 {
			return b, errors.New("short batch")
		}
		b.ids = append(b.ids, id)
		data = data[n:]
	}
	return b, nil
}

// outcomes collects the reports of an appender.
type outcomes struct {
	mu     sync.Mutex
	acked  []uint64
	failed []uint64
	err    error // of the last failure
}

func (o *outcomes) onAcked(items []item, _, _ uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, it := range items {
		o.acked = append(o.acked, it.id)
	}
}

func (o *outcomes) onFailed(items []item, _ uint64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, it := range items {
		o.failed = append(o.failed, it.id)
	}
	o.err = err
}

func (o *outcomes) ackedIDs() []uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.acked)
}

func (o *outcomes) failures() (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.failed), o.err
}

func config(o *outcomes) journal.Config[item] {
	return journal.Config[item]{
		Subject: testSubject,
		Encode:  encode(1),
		Size:    func(it item) int { return 10 + it.padding },
		Acked:   o.onAcked,
		Failed:  o.onFailed,
		AckWait: 200 * time.Millisecond,
	}
}

// publishingOnce is a config for tests that count messages: on a busy machine an answer can come later than AckWait.
func publishingOnce(o *outcomes) journal.Config[item] {
	cfg := config(o)
	cfg.AckWait = time.Hour
	return cfg
}

// start runs an appender until stop is called, or the test ends; stop drains it.
func start(t testing.TB, nc *nats.Conn, cfg journal.Config[item]) (a *journal.Appender[item], stop func() error) {
	t.Helper()
	a, err := journal.NewAppender(nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = stop() })
	return a, stop
}

// add waits while the queue is full.
func add(t testing.TB, a *journal.Appender[item], it item) {
	t.Helper()
	eventually.True(t, "room in the queue", func() bool {
		err := a.Add(it)
		if err != nil && !errors.Is(err, journal.ErrBusy) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// stored folds the stream: it returns the messages, and how often each id is in
// them if repeated batches are skipped.
func stored(t testing.TB, j *journal.Journal) (messages []batch, folded map[uint64]int) {
	t.Helper()
	last, err := j.LastSequence(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	folded = map[uint64]int{}
	marks := map[uint64]uint64{}
	err = j.Replay(t.Context(), 0, last, func(m journal.Message) error {
		b, err := decode(m.Data)
		if err != nil {
			return fmt.Errorf("message %d: %w", m.Sequence, err)
		}
		messages = append(messages, b)
		if b.number <= marks[b.source] {
			return nil
		}
		marks[b.source] = b.number
		for _, id := range b.ids {
			folded[id]++
		}
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return messages, folded
}

// mustHoldOnce fails if an acknowledged item is not in the fold exactly once.
func mustHoldOnce(t testing.TB, folded map[uint64]int, acked []uint64) {
	t.Helper()
	for _, id := range acked {
		if folded[id] != 1 {
			t.Fatalf("acknowledged item %d is folded %d times", id, folded[id])
		}
	}
	for id, n := range folded {
		if n != 1 {
			t.Fatalf("item %d is folded %d times", id, n)
		}
	}
}
