package journal_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
)

const closedSubject = "billing.0.closed"

func advance(t testing.TB, nc *nats.Conn, s journal.Stream) {
	t.Helper()
	if err := journal.Advance(t.Context(), nc, s, 1); err != nil {
		t.Fatal(err)
	}
}

func generations(t testing.TB, nc *nats.Conn, want int) []journal.Generation {
	t.Helper()
	list, err := journal.Generations(t.Context(), nc, billing(0))
	if err != nil || len(list) != want {
		t.Fatalf("%d generations, want %d: %v", len(list), want, err)
	}
	return list
}

func deleteOldest(t testing.TB, nc *nats.Conn) {
	t.Helper()
	if err := journal.DeleteGeneration(t.Context(), nc, nc, generations(t, nc, 2)[0]); err != nil {
		t.Fatal(err)
	}
}

// TestGenerationsAreReadAsOneJournal, whatever one reads, from wherever, while there are two, one, and the names are used again.
func TestGenerationsAreReadAsOneJournal(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, boot func(*testing.T) testServer) {
		s := boot(t)
		nc := s.Conn(t)
		ensure(t, nc, billing(0))
		j := s.files.Open(nc, "BILLING_0")
		behind := collect(t, s.files.Open(s.Conn(t), "BILLING_0"))
		var want []journal.Message
		expect := func(subject, data string) {
			m := journal.Message{Sequence: uint64(len(want) + 1), Subject: subject, Data: []byte(data)}
			want = append(want, m)
			got := <-behind.messages
			if got.Sequence != m.Sequence || got.Subject != m.Subject || string(got.Data) != data {
				t.Fatalf("followed %d %s %q, want %d %s %q", got.Sequence, got.Subject, got.Data, m.Sequence, subject, data)
			}
			want[len(want)-1].Time = got.Time
		}
		first := uint64(1)
		for g := range 3 {
			for n := range 3 {
				data := fmt.Sprintf("%d of generation %d", n, g)
				publish(t, nc, testSubject, data)
				expect(testSubject, data)
			}
			advance(t, nc, billing(0))
			expect(closedSubject, fmt.Sprintf("generation %d ends", g))
			publish(t, nc, "billing.0.account", "first of the next")
			expect("billing.0.account", "first of the next")
			if err := journal.Advance(t.Context(), nc, billing(0), 1); !errors.Is(err, journal.ErrGenerations) {
				t.Fatalf("a third generation: %v", err)
			}
			readAll(t, j, first, want)
			list := generations(t, nc, 2)
			if a, b := list[0], list[1]; a.Number != g || b.Number != g+1 || a.First != first || a.Last+1 != b.First || a.Closed.IsZero() || !b.Closed.IsZero() ||
				b.Last != uint64(len(want)) || a.Oldest.IsZero() {
				t.Errorf("generations %+v", list)
			}
			first = list[1].First
			deleteOldest(t, nc)
			readAll(t, j, first, want)
			err := j.Replay(t.Context(), 0, first, func(journal.Message) error { return nil }, nil)
			if !errors.Is(err, journal.ErrGap) {
				t.Errorf("below the first message: %v", err)
			}
		}
	})
}

// readAll reads the messages from first on in each way that there is.
func readAll(t *testing.T, j *journal.Journal, first uint64, want []journal.Message) {
	t.Helper()
	last := uint64(len(want))
	state, err := j.State(t.Context())
	if err != nil || state.First != first || state.Last != last || state.Messages != last-first+1 {
		t.Errorf("state %+v, want %d to %d: %v", state, first, last, err)
	}
	if end, err := j.LastSequence(t.Context()); err != nil || end != last {
		t.Errorf("it ends at %d, want %d: %v", end, last, err)
	}
	for from := first - 1; from <= last; from += 3 {
		next := from + 1
		err := j.Replay(t.Context(), from, last, func(m journal.Message) error {
			if w := want[next-1]; m.Sequence != next || m.Subject != w.Subject || string(m.Data) != string(w.Data) || !m.Time.Equal(w.Time) {
				t.Errorf("message %d is %d %s %q", next, m.Sequence, m.Subject, m.Data)
			}
			next++
			return nil
		}, nil)
		if err != nil || next != last+1 && from < last {
			t.Errorf("read from %d to %d of %d: %v", from, next-1, last, err)
		}
	}
	for sequence := first; sequence <= last; sequence++ {
		w := want[sequence-1]
		if m, err := j.Get(t.Context(), sequence); err != nil || m.Subject != w.Subject || string(m.Data) != string(w.Data) || m.Sequence != sequence {
			t.Errorf("message %d: %+v, %v", sequence, m, err)
		}
		if m, err := j.NextOf(t.Context(), w.Subject, sequence); err != nil || m.Sequence != sequence {
			t.Errorf("next of %s from %d: %d, %v", w.Subject, sequence, m.Sequence, err)
		}
		if found, err := j.SeekTime(t.Context(), w.Time); err != nil || found > sequence || found < first || !want[found-1].Time.Equal(w.Time) {
			t.Errorf("message %d is of %s, found %d: %v", sequence, w.Time, found, err)
		}
	}
	if _, err := j.Get(t.Context(), last+1); !errors.Is(err, journal.ErrNoMessage) {
		t.Errorf("after the last one: %v", err)
	}
}

// TestOneClosesAGeneration at a time. One that was killed is taken over 20 seconds later.
func TestOneClosesAGeneration(t *testing.T) {
	t.Parallel()
	nc := journaltest.Start(t).Conn(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ensure(t, nc, billing(0))
	publish(t, nc, testSubject, "1")
	moved := func(since time.Time) {
		change(t, js, "BILLING_0", func(c *jetstream.StreamConfig) {
			c.Subjects = []string{closedSubject}
			c.Metadata["quire-closer"] = "another " + since.Format(time.RFC3339Nano)
		})
	}
	moved(time.Now())
	if err := journal.Advance(t.Context(), nc, billing(0), 1); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("beside another one: %v", err)
	}
	generations(t, nc, 1)
	moved(time.Now().Add(-20 * time.Second))
	advance(t, nc, billing(0))
	generations(t, nc, 2)
}

// TestTheEndOfAGenerationIsWhereTheNextBegins, also if an update that was late has overwritten what was recorded.
func TestTheEndOfAGenerationIsWhereTheNextBegins(t *testing.T) {
	t.Parallel()
	nc := journaltest.Start(t).Conn(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ensure(t, nc, billing(0))
	var before jetstream.StreamConfig
	change(t, js, "BILLING_0", func(c *jetstream.StreamConfig) { before = *c })
	publish(t, nc, testSubject, "1")
	advance(t, nc, billing(0))
	publish(t, nc, testSubject, "3")
	change(t, js, "BILLING_0", func(c *jetstream.StreamConfig) { c.Metadata = before.Metadata })
	for _, j := range []*journal.Journal{journal.Open(nc, "BILLING_0"), journal.Open(nc, "BILLING_0")} {
		read := 0
		err := j.Replay(t.Context(), 0, 3, func(journal.Message) error { read++; return nil }, nil)
		if last, lastErr := j.LastSequence(t.Context()); err != nil || lastErr != nil || read != 3 || last != 3 {
			t.Errorf("%d messages were read, it ends at %d: %v, %v", read, last, err, lastErr)
		}
	}
	if list := generations(t, nc, 2); !list[0].Closed.IsZero() || list[0].Last != 2 {
		t.Errorf("%+v", list)
	}
	if err := journal.Advance(t.Context(), nc, billing(0), 1); !errors.Is(err, journal.ErrGenerations) {
		t.Errorf("closed again: %v", err)
	}
	ensure(t, nc, billing(0))
	if list := generations(t, nc, 2); list[0].Closed.IsZero() || list[0].Last != 2 || list[1].First != 3 {
		t.Errorf("once provisioned: %+v", list)
	}
	deleteOldest(t, nc)
}

// TestManyCloseAtOnce: one of them does, and the generations follow one another.
func TestManyCloseAtOnce(t *testing.T) {
	t.Parallel()
	nc := journaltest.Start(t).Conn(t)
	ensure(t, nc, billing(0))
	for g := range 5 {
		publish(t, nc, testSubject, "1")
		var closing sync.WaitGroup
		for range 4 {
			closing.Go(func() { _ = journal.Advance(t.Context(), nc, billing(0), 1) })
		}
		closing.Wait()
		ensure(t, nc, billing(0)) // if all of them gave way
		if list, err := journal.Generations(t.Context(), nc, billing(0)); err != nil || len(list) == 1 {
			advance(t, nc, billing(0))
		}
		list := generations(t, nc, 2)
		publish(t, nc, testSubject, "2")
		if list[0].Number != g || list[1].Number != g+1 || list[1].First != list[0].Last+1 {
			t.Fatalf("%+v", list)
		}
		j := journal.Open(nc, "BILLING_0")
		last, err := j.LastSequence(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Replay(t.Context(), list[0].First-1, last, func(journal.Message) error { return nil }, nil); err != nil {
			t.Fatal(err)
		}
		deleteOldest(t, nc)
	}
}

// change updates the configuration of a stream. Its metadata may be changed.
func change(t *testing.T, js jetstream.JetStream, stream string, edit func(*jetstream.StreamConfig)) {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	config := s.CachedInfo().Config
	config.Metadata = maps.Clone(config.Metadata)
	edit(&config)
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

// TestOnlyAClosedGenerationIsDeleted, and only the one that was meant.
func TestOnlyAClosedGenerationIsDeleted(t *testing.T) {
	t.Parallel()
	nc := journaltest.Start(t).Conn(t)
	ensure(t, nc, billing(0))
	publish(t, nc, testSubject, "1")
	open := generations(t, nc, 1)[0]
	refused := func(what string, g journal.Generation) {
		t.Helper()
		if err := journal.DeleteGeneration(t.Context(), nc, nc, g); !errors.Is(err, journal.ErrNoStream) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("the only one", open)
	advance(t, nc, billing(0))
	refused("as it was before it was closed", open)
	list := generations(t, nc, 2)
	refused("the open one", list[1])
	deleteOldest(t, nc)
	refused("one that is gone", list[0])
	advance(t, nc, billing(0))
	again := generations(t, nc, 2)
	if again[1].Stream != list[0].Stream {
		t.Fatalf("the name %s is not used again: %+v", list[0].Stream, again)
	}
	refused("an earlier one of the same name", list[0])
	deleteOldest(t, nc)
	refused("an earlier one of the same name, without another", list[0])
	advance(t, nc, billing(0))
	refused("an earlier one of the same name that is closed", list[0])
	generations(t, nc, 2)
	publish(t, nc, testSubject, "2")
}

// TestWritersAndFollowersOverGenerations: nothing that is acknowledged is lost or doubled, while generations are closed and deleted, and
// each follower has every message once.
func TestWritersAndFollowersOverGenerations(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, boot func(*testing.T) testServer) {
		s := boot(t)
		nc := s.Conn(t)
		ensure(t, nc, billing(0))
		u := use(t, func() *nats.Conn { return s.Conn(t) }, s.files)
		for range 6 {
			u.more()
			advance(t, nc, billing(0))
			u.follows(generations(t, nc, 2)[0].Last)
			deleteOldest(t, nc)
		}
		u.end(nc)
	})
}

// usage is a journal with a writer and a follower.
type usage struct {
	t        *testing.T
	outcomes outcomes
	all      folding
	stopLoad func() uint64
	stop     func() error
}

// use writes and follows until end, each on a connection of its own.
func use(t *testing.T, connect func() *nats.Conn, files *journal.Files) *usage {
	t.Helper()
	u := &usage{t: t}
	follow(t, files.Open(connect(), "BILLING_0"), 0, u.all.handle)
	cfg := config(&u.outcomes)
	cfg.Files, cfg.MaxItems, cfg.MaxQueue = files, 10, 100
	var a *journal.Appender[item]
	a, u.stop = start(t, connect(), cfg)
	u.stopLoad = load(t, a)
	return u
}

// more waits until more is acknowledged.
func (u *usage) more() {
	u.t.Helper()
	goal := len(u.outcomes.ackedIDs()) + 50
	eventually.True(u.t, "more acknowledgments", func() bool { return len(u.outcomes.ackedIDs()) >= goal })
}

// follows waits until the follower is in the generation after one that ends at last.
func (u *usage) follows(last uint64) {
	u.t.Helper()
	eventually.True(u.t, "the follower in the next generation", func() bool { return u.all.at() > last })
}

// end fails unless the follower has everything that was acknowledged once.
func (u *usage) end(nc *nats.Conn) {
	u.t.Helper()
	u.stopLoad()
	if err := u.stop(); err != nil {
		u.t.Fatal(err)
	}
	if n, err := u.outcomes.failures(); n > 0 {
		u.t.Fatalf("%d failed: %v", n, err)
	}
	last, err := journal.Open(nc, "BILLING_0").LastSequence(u.t.Context())
	if err != nil {
		u.t.Fatal(err)
	}
	eventually.True(u.t, "the follower at the end", func() bool { return u.all.at() == last })
	mustHoldOnce(u.t, u.all.folded(), u.outcomes.ackedIDs())
}

// TestAJournalOfVersion010HasGenerations: the stream is the one that version 0.1.0 creates, with messages. It is closed, also again under
// its name, and deleted while one writes and follows, and every item is there once.
func TestAJournalOfVersion010HasGenerations(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, boot func(*testing.T) testServer) {
		s := boot(t)
		nc := s.Conn(t)
		if _, err := jetstreamOf(t, nc).CreateStream(t.Context(), version010()); err != nil {
			t.Fatal(err)
		}
		var all folding
		follow(t, s.files.Open(s.Conn(t), "BILLING_0"), 0, all.handle)
		var o outcomes
		cfg := s.config(&o)
		cfg.MaxItems = 10
		a, _ := start(t, s.Conn(t), cfg)
		written := 0
		write := func() {
			for range 100 {
				written++
				add(t, a, item{id: uint64(written)})
			}
			eventually.True(t, "all are acknowledged", func() bool { return len(o.ackedIDs()) == written })
		}
		write()
		stream := billing(0)
		stream.Subjects, stream.Installation = version010().Subjects, "made by 0.1.0"
		ensure(t, nc, stream)
		for g := range 3 {
			advance(t, nc, stream)
			mustHoldOnce(t, remaining(t, s.files.Open(nc, "BILLING_0"), nc), o.ackedIDs()[100*g:])
			write()
			mustHoldOnce(t, remaining(t, s.files.Open(nc, "BILLING_0"), nc), o.ackedIDs()[100*g:])
			last := generations(t, nc, 2)[0].Last
			eventually.True(t, "the follower in the next generation", func() bool { return all.at() > last })
			deleteOldest(t, nc)
			mustHoldOnce(t, remaining(t, s.files.Open(nc, "BILLING_0"), nc), o.ackedIDs()[100*(g+1):])
			list, err := journal.Streams(t.Context(), nc, stream)
			if err != nil || len(list) != 1 || list[0].Config.Metadata[journal.InstallationKey] != stream.Installation {
				t.Fatalf("generation %d does not belong to its installation, alone: %d streams, %v", g+1, len(list), err)
			}
		}
		eventually.True(t, "the follower at the end", func() bool { return len(all.folded()) == written })
		mustHoldOnce(t, all.folded(), o.ackedIDs())
	})
}

// version010 is the stream that version 0.1.0 creates. It stays as it is, whatever later versions create.
func version010() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: "BILLING_0", Description: "Quire: journal of billing, partition 0 of 1",
		Subjects: []string{
			"billing.0.usage", "billing.0.account", "billing.0.prices", "billing.0.settle.paste", "billing.0.settle.lite", "billing.0.settle.file",
		},
		Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew,
		MaxConsumers: -1, MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxMsgSize: -1,
		Replicas: 1, Duplicates: 100 * time.Millisecond, DenyDelete: true, DenyPurge: true, AllowDirect: true,
		Metadata: map[string]string{
			"quire-partitions": "1", "quire-domain": "billing", "quire-partition": "0", "quire-installation": "made by 0.1.0",
		},
	}
}

// remaining reads what the journal's streams have, in order, and returns how often each item is there.
func remaining(t *testing.T, j *journal.Journal, nc *nats.Conn) map[uint64]int {
	t.Helper()
	list, err := journal.Generations(t.Context(), nc, billing(0))
	if err != nil {
		t.Fatal(err)
	}
	rest, last := folding{position: list[0].First - 1}, list[len(list)-1].Last
	err = j.Replay(t.Context(), rest.position, last, func(m journal.Message) error { return rest.handle(t.Context(), m) }, nil)
	if err != nil || rest.position != last {
		t.Fatalf("read to %d of %d: %v", rest.position, last, err)
	}
	return rest.folded()
}

// folding folds what a follower is given, as stored does.
type folding struct {
	mu       sync.Mutex
	position uint64
	marks    map[uint64]uint64
	count    map[uint64]int
}

func (f *folding) handle(_ context.Context, m journal.Message) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.Sequence != f.position+1 {
		return fmt.Errorf("message %d after %d", m.Sequence, f.position)
	}
	f.position = m.Sequence
	if m.Subject != testSubject {
		return nil
	}
	b, err := decode(m.Data)
	if err != nil {
		return err
	}
	if f.marks == nil {
		f.marks, f.count = map[uint64]uint64{}, map[uint64]int{}
	}
	if b.number <= f.marks[b.source] {
		return nil
	}
	f.marks[b.source] = b.number
	for _, id := range b.ids {
		f.count[id]++
	}
	return nil
}

func (f *folding) at() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.position
}

func (f *folding) folded() map[uint64]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.count)
}
