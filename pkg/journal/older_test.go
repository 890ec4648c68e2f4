package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/archived/archivedtest"
	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/segment"
)

// trimmable is a stream as billing has it, but one that can be purged.
func trimmable() journal.Stream {
	s := billing(0)
	s.KeepForever = false
	return s
}

// aged is a stream of drawn messages, whose first ones an archive has as well.
type aged struct {
	t        *testing.T
	random   *rand.Rand
	nc       *nats.Conn
	whole    *journal.Journal // of the stream alone
	j        *journal.Journal
	messages []journal.Message
	archive  archivedtest.Archive
	store    *archivedtest.Unreachable
	segments []segment.Segment
}

func newAged(t *testing.T, s testServer, count int) *aged {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	store, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	a := &aged{t: t, random: rand.New(rand.NewPCG(seed, 0)), nc: s.Conn(t), store: &archivedtest.Unreachable{Store: store}}
	a.archive = archivedtest.Archive{Blobs: a.store, Installation: "test", Partitions: 1}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for i := range count {
		subject := "billing.0.usage"
		if a.random.IntN(20) == 0 {
			subject = "billing.0.account"
		}
		at = at.Add(time.Duration(a.random.IntN(3)) * time.Second) // some have the same time
		a.messages = append(a.messages, journal.Message{Sequence: uint64(i + 1), Time: at, Subject: subject, Data: fmt.Append(nil, "message ", a.random.Uint64())})
	}
	if err := journal.Restore(t.Context(), a.nc, trimmable(), 1, at, 0, messagesOf(a.messages)); err != nil {
		t.Fatal(err)
	}
	a.whole = s.files.Open(a.nc, "BILLING_0")
	a.j = a.whole.WithOlder(a.archive.Journals())
	return a
}

// file archives the messages up to a sequence at least, in some segments.
func (a *aged) file(to uint64) {
	a.t.Helper()
	for last := uint64(0); last < to; {
		last += 1 + a.random.Uint64N(uint64(len(a.messages))-last)
		a.segments = append(a.segments, a.archive.File(a.t, a.nc, "BILLING_0", 0, last))
	}
}

// trim removes the messages before a sequence from the stream.
func (a *aged) trim(first uint64) {
	a.t.Helper()
	if err := a.whole.Purge(a.t.Context(), first-1); err != nil {
		a.t.Fatal(err)
	}
}

// take returns a handler that fails unless it gets the messages after a sequence in order, and their number.
func (a *aged) take(from uint64) (func(journal.Message) error, *atomic.Uint64) {
	taken := &atomic.Uint64{}
	return func(m journal.Message) error {
		want := a.messages[from+taken.Load()]
		if !same(m, want) {
			return fmt.Errorf("got message %d %s %v %q, want %d %s %v %q", m.Sequence, m.Subject, m.Time, m.Data, want.Sequence, want.Subject, want.Time, want.Data)
		}
		taken.Add(1)
		return nil
	}, taken
}

func same(a, b journal.Message) bool {
	return a.Sequence == b.Sequence && a.Time.Equal(b.Time) && a.Subject == b.Subject && bytes.Equal(a.Data, b.Data)
}

// border draws the first message that the stream keeps: sometimes one after the last, in an emptied stream.
func (a *aged) border() uint64 { return 2 + a.random.Uint64N(uint64(len(a.messages))) }

// around draws a sequence: often one near the border.
func (a *aged) around(border uint64) uint64 {
	if a.random.IntN(2) == 0 {
		return a.random.Uint64N(uint64(len(a.messages)) + 1)
	}
	return min(border-2+a.random.Uint64N(4), uint64(len(a.messages)))
}

func TestReadersFollowAcrossTheBorder(t *testing.T) { bothWays(t, readersFollowAcrossTheBorder) }

func readersFollowAcrossTheBorder(t *testing.T, boot func(*testing.T) testServer) {
	a := newAged(t, boot(t), 2000)
	last, border := uint64(len(a.messages)), a.border()
	a.file(border - 1)
	a.trim(border)
	if state, err := a.j.State(t.Context()); err != nil || state.First != border || state.Last != last {
		t.Errorf("the stream has %+v, %v, want its own extent from %d", state, err, border)
	}
	for range 20 {
		from := a.around(border)
		to := a.around(border)
		take, taken := a.take(from)
		var done, total uint64
		err := a.j.Replay(t.Context(), from, to, take, func(d, of uint64) { done, total = d, of })
		if want := max(to, from) - from; err != nil || taken.Load() != want || done != want || total != want {
			t.Fatalf("replay from %d to %d, border %d: %d messages, progress %d of %d, %v", from, to, border, taken.Load(), done, total, err)
		}
		if to < border && to > from { // the stream has none of them
			if err := a.whole.Replay(t.Context(), from, to, func(journal.Message) error { return nil }, nil); !errors.Is(err, journal.ErrGap) {
				t.Errorf("without an archive: %v, want ErrGap", err)
			}
		}
		a.follow(from, last)
	}
}

// follow follows all messages after a sequence.
func (a *aged) follow(from, last uint64) {
	a.t.Helper()
	ctx, cancel := context.WithCancel(a.t.Context())
	defer cancel()
	take, taken := a.take(from)
	err := a.j.Follow(ctx, from, func(_ context.Context, m journal.Message) error { return take(m) }, journal.FollowOptions{CaughtUp: cancel})
	if !errors.Is(err, context.Canceled) || taken.Load() != last-from {
		a.t.Fatalf("follow from %d: caught up after %d messages of %d, %v", from, taken.Load(), last-from, err)
	}
}

// Single messages, the next ones of subjects and those after times are those that the whole stream had.
func TestReadersFindMessagesBeforeTheBorder(t *testing.T) {
	a := newAged(t, testServer{Server: journaltest.Start(t)}, 300)
	type answer struct {
		message journal.Message
		err     error
	}
	type question struct {
		sequence uint64
		subject  string
		time     time.Time
	}
	ask := func(j *journal.Journal, q question) (answers [3]answer) {
		answers[0].message, answers[0].err = j.Get(t.Context(), q.sequence)
		answers[1].message, answers[1].err = j.NextOf(t.Context(), q.subject, q.sequence)
		answers[2].message.Sequence, answers[2].err = j.SeekTime(t.Context(), q.time)
		return answers
	}
	border := a.border()
	end := a.messages[len(a.messages)-1].Time
	var questions []question
	for range 60 {
		sequence := a.around(border)
		near := a.messages[max(sequence, 1)-1].Time
		questions = append(questions, question{
			sequence, []string{"billing.0.usage", "billing.0.account"}[a.random.IntN(2)], near.Add(time.Duration(a.random.IntN(3)-1) * time.Nanosecond),
		})
	}
	for _, at := range []time.Time{{}, time.Unix(0, 0), end, end.Add(1), time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC)} {
		questions = append(questions, question{uint64(len(a.messages)) + 1, "billing.0.none", at})
	}
	var want [][3]answer
	for _, q := range questions {
		want = append(want, ask(a.whole, q))
	}
	a.file(border - 1)
	a.trim(border)
	for i, q := range questions {
		for k, got := range ask(a.j, q) {
			if wanted := want[i][k]; !same(got.message, wanted.message) || errors.Is(got.err, journal.ErrNoMessage) != errors.Is(wanted.err, journal.ErrNoMessage) {
				t.Errorf("border %d, %+v, answer %d: %d, %v, want %d, %v", border, q, k, got.message.Sequence, got.err, wanted.message.Sequence, wanted.err)
			}
		}
	}
}

// The stream may lose what is archived at any time, also the messages that its reader wants next.
func TestTheBorderMovesWhileOneFollows(t *testing.T) { bothWays(t, theBorderMovesWhileOneFollows) }

func theBorderMovesWhileOneFollows(t *testing.T, boot func(*testing.T) testServer) {
	a := newAged(t, boot(t), 12_000)
	last := uint64(len(a.messages))
	a.file(last)
	take, taken := a.take(0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := a.j.Follow(ctx, 0, func(_ context.Context, m journal.Message) error {
		if a.random.IntN(1000) == 0 {
			a.trim(m.Sequence + a.random.Uint64N(last-m.Sequence+1) + 1)
		}
		return take(m)
	}, journal.FollowOptions{CaughtUp: cancel})
	if !errors.Is(err, context.Canceled) || taken.Load() != last {
		t.Fatalf("%d messages, %v", taken.Load(), err)
	}
}

func TestAReaderWaitsForTheArchive(t *testing.T) {
	a := newAged(t, testServer{Server: journaltest.Start(t)}, 500)
	last, border := uint64(len(a.messages)), a.border()
	a.file(border - 1)
	a.trim(border)
	a.store.Down.Store(true)
	if _, err := a.j.Get(t.Context(), 1); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("get: %v, want ErrUnavailable", err)
	}
	if _, err := a.j.SeekTime(t.Context(), time.Unix(0, 0)); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("seek: %v, want ErrUnavailable", err)
	}
	take, taken := a.take(0)
	down := a.random.Uint64N(border) // it goes away again at this message
	end := follow(t, a.j, 0, func(_ context.Context, m journal.Message) error {
		if m.Sequence == down {
			a.store.Down.Store(true)
		}
		return take(m)
	})
	for range 2 {
		tries := a.store.Tries.Load() + 3
		eventually.True(t, "the archive is tried again, or was not needed", func() bool { return a.store.Tries.Load() >= tries || taken.Load() == last })
		a.store.Down.Store(false)
	}
	eventually.True(t, "all messages are read", func() bool { a.store.Down.Store(false); return taken.Load() == last })
	if err := end(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAReaderNamesWhatTheArchiveLacks(t *testing.T) {
	for name, damage := range map[string]func(*aged, segment.Segment) string{
		"missing": func(a *aged, s segment.Segment) string {
			if err := a.store.Delete(t.Context(), s.Key); err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf("messages %d to", s.First)
		},
		"damaged": func(a *aged, s segment.Segment) string {
			data, err := blob.Read(t.Context(), a.store, s.Key, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			data[a.random.IntN(len(data))] ^= 1
			if _, err := a.store.Put(t.Context(), s.Key, bytes.NewReader(data), s.Size); err != nil {
				t.Fatal(err)
			}
			return s.Key
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAged(t, testServer{Server: journaltest.Start(t)}, 300)
			border := a.border()
			a.file(border - 1)
			a.trim(border)
			lost := a.segments[a.random.IntN(len(a.segments))]
			if lost.First >= border {
				lost = a.segments[0]
			}
			what := damage(a, lost)
			_, taken := a.take(0)
			err := a.j.Follow(t.Context(), 0, func(context.Context, journal.Message) error { taken.Add(1); return nil }, journal.FollowOptions{})
			if !errors.Is(err, journal.ErrGap) || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "BILLING_0") {
				t.Errorf("follow: %v, want ErrGap and %s", err, what)
			}
			if got := taken.Load(); got < lost.First-1 || got > lost.Last {
				t.Errorf("%d messages were handled before %s", got, lost.Key)
			}
			if _, err := a.j.Get(t.Context(), lost.First); !errors.Is(err, journal.ErrGap) || !strings.Contains(err.Error(), what) {
				t.Errorf("get: %v, want ErrGap and %s", err, what)
			}
		})
	}
}

// A message that is deleted in the middle of the stream is one that no reader gets, whatever is archived.
func TestAGapInTheStreamIsNotFilled(t *testing.T) {
	s := testServer{Server: journaltest.Start(t)}
	a := newAged(t, s, 10)
	js := jetstreamOf(t, a.nc)
	if err := js.DeleteStream(t.Context(), "BILLING_0"); err != nil {
		t.Fatal(err)
	}
	config := streamThatDeletes()
	config.Name, config.Subjects = "BILLING_0", trimmable().Subjects
	eventually.NoError(t, "the stream is made again", func() error {
		_, err := js.CreateStream(t.Context(), config)
		return err
	})
	publish(t, a.nc, testSubject, "a", "b", "c")
	a.archive.File(t, a.nc, "BILLING_0", 0, 3)
	made, err := js.Stream(t.Context(), "BILLING_0")
	if err == nil {
		err = made.DeleteMsg(t.Context(), 2)
	}
	if err != nil {
		t.Fatal(err)
	}
	var seen []uint64
	err = a.j.Follow(t.Context(), 0, func(_ context.Context, m journal.Message) error { seen = append(seen, m.Sequence); return nil }, journal.FollowOptions{})
	if !errors.Is(err, journal.ErrGap) || !slices.Equal(seen, []uint64{1}) {
		t.Errorf("%v after %d, want ErrGap after 1", err, seen)
	}
}
