package journal_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
)

func messagesOf(list []journal.Message) func() (journal.Message, bool, error) {
	return func() (journal.Message, bool, error) {
		if len(list) == 0 {
			return journal.Message{}, false, nil
		}
		m := list[0]
		list = list[1:]
		return m, true, nil
	}
}

// A restored stream has the same messages at the same sequences and times, also after a restart of the server, and goes on with the next
// sequence.
func TestARestoredStreamKeepsSequencesAndTimes(t *testing.T) {
	t.Parallel()
	then := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	large := make([]byte, 3<<20)
	for _, c := range []struct {
		name         string
		stream       journal.Stream
		first, count uint64
		last         uint64
		data         []byte
	}{
		{"from the first message", billing(0), 1, 2500, 0, []byte("data")},
		{"in several blocks", billing(0), 1, 7, 0, large},
		{"after a deleted generation", billing(0), 41, 3, 40, []byte("data")},
		{"after a deleted generation, without a message", billing(0), 0, 0, 40, nil},
		{"after a purge", paste(), 41, 3, 40, []byte("data")},
		{"emptied by a purge", paste(), 0, 0, 40, nil},
		{"never written to", paste(), 0, 0, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var want []journal.Message
			for i := range c.count {
				want = append(want, journal.Message{
					Sequence: c.first + i, Time: then.Add(time.Duration(i) * time.Millisecond), Subject: c.stream.Subjects[0], Data: append(fmt.Append(nil, i), c.data...),
				})
			}
			server := journaltest.Start(t)
			nc := server.Conn(t)
			if err := journal.Restore(t.Context(), nc, c.stream, 1, then, c.last, messagesOf(want)); err != nil {
				t.Fatal(err)
			}
			if err := journal.Restore(t.Context(), nc, c.stream, 1, then, c.last, messagesOf(want)); !errors.Is(err, journal.ErrExists) {
				t.Errorf("a second restore: %v", err)
			}
			server.Restart(t)
			ensure(t, nc, c.stream) // accepts its configuration
			end := max(c.last, c.first+c.count-min(c.first, 1))
			if got := appendTo(t, nc, c.stream.Subjects[0]); got != end+1 {
				t.Errorf("the next message has sequence %d, want %d", got, end+1)
			}
			var got []journal.Message
			j := journal.Open(nc, c.stream.Name)
			err := j.Replay(t.Context(), max(c.first, end+1-c.count)-1, end, func(m journal.Message) error {
				m.Data = slices.Clone(m.Data)
				got = append(got, m)
				return nil
			}, nil)
			if err != nil && c.count > 0 {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got, want, func(a, b journal.Message) bool {
				return a.Sequence == b.Sequence && a.Time.Equal(b.Time) && a.Subject == b.Subject && slices.Equal(a.Data, b.Data)
			}) {
				t.Errorf("%d messages differ from the %d restored", len(got), len(want))
			}
		})
	}
}

// appendTo stores a message and returns its sequence.
func appendTo(t *testing.T, nc *nats.Conn, subject string) (sequence uint64) {
	t.Helper()
	eventually.NoError(t, "a message is stored", func() error {
		answer, err := nc.Request(subject, []byte("x"), time.Second)
		if err != nil {
			return err
		}
		var ack struct {
			Seq uint64 `json:"seq"`
		}
		err = json.Unmarshal(answer.Data, &ack)
		sequence = ack.Seq
		return err
	})
	return sequence
}
