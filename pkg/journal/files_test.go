package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
)

// testServer is a server whose journals are followed in its files, unless files is nil.
type testServer struct {
	*journaltest.Server
	files *journal.Files
}

// config is that of an appender which notifies the followers.
func (s testServer) config(o *outcomes) journal.Config[item] {
	cfg := config(o)
	cfg.Files = s.files
	return cfg
}

func withFiles(s *journaltest.Server) testServer {
	return testServer{Server: s, files: journal.NewFiles(s.Folder())}
}

// bothWays runs a test with followers that a consumer serves, and with some that read the files of the server.
func bothWays(t *testing.T, test func(t *testing.T, boot func(*testing.T) testServer)) {
	t.Run("consumer", func(t *testing.T) {
		test(t, func(t *testing.T) testServer { return testServer{Server: journaltest.Start(t)} })
	})
	t.Run("files", func(t *testing.T) {
		test(t, func(t *testing.T) testServer { return withFiles(journaltest.Start(t)) })
	})
}

// collected are the messages that a follower was given.
type collected struct{ messages chan journal.Message }

func collect(t *testing.T, j *journal.Journal) collected {
	t.Helper()
	c := collected{make(chan journal.Message, 10_000)}
	follow(t, j, 0, func(_ context.Context, m journal.Message) error {
		m.Data = bytes.Clone(m.Data)
		c.messages <- m
		return nil
	})
	return c
}

func (c collected) must(t *testing.T, want journal.Message) {
	t.Helper()
	got := <-c.messages
	if got.Sequence != want.Sequence || !got.Time.Equal(want.Time) || got.Subject != want.Subject || !bytes.Equal(got.Data, want.Data) {
		t.Fatalf("got %d %s at %s, %d bytes; want %d %s at %s, %d bytes", got.Sequence, got.Subject, got.Time, len(got.Data),
			want.Sequence, want.Subject, want.Time, len(want.Data))
	}
}

// consumers counts the consumers of a stream.
func consumers(t *testing.T, nc *nats.Conn, stream string) (n int) {
	t.Helper()
	s, err := jetstreamOf(t, nc).Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	for range s.ListConsumers(t.Context()).Info() {
		n++
	}
	return n
}

// TestAJournalInThisProcessIsFollowedInItsFiles: messages of all sizes, over several blocks, and with headers, equal the
// server's, and no consumer is created.
func TestAJournalInThisProcessIsFollowedInItsFiles(t *testing.T) {
	s := withFiles(journaltest.Start(t))
	nc := s.Conn(t)
	ensure(t, nc, billing(0))
	j := s.files.Open(nc, "BILLING_0")
	got := collect(t, j)
	var sequence uint64
	send := func(m *nats.Msg) {
		t.Helper()
		if _, err := nc.RequestMsg(m, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		sequence++
		want, err := j.Get(t.Context(), sequence)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := j.State(t.Context()); err != nil { // as an appender, which learns of what it has stored
			t.Fatal(err)
		}
		got.must(t, want)
	}
	for round := range 12 {
		for _, size := range []int{0, 1, 100, 16<<10 - 60, 16<<10 + 1, 700_000} {
			send(&nats.Msg{Subject: testSubject, Data: bytes.Repeat([]byte{byte(round)}, size)})
		}
	}
	send(&nats.Msg{Subject: "billing.0.account", Data: []byte("with a header"), Header: nats.Header{"X-Test": {"a"}}})
	if n := consumers(t, nc, "BILLING_0"); n != 0 {
		t.Errorf("%d consumers", n)
	}
}

// TestAppendersTellFollowersOfWhatIsStored: nobody asks the stream for its end.
func TestAppendersTellFollowersOfWhatIsStored(t *testing.T) {
	s := withFiles(journaltest.Start(t))
	nc := s.Conn(t)
	ensure(t, nc, billing(0))
	j := s.files.Open(nc, "BILLING_0")
	var o outcomes
	a, stop := start(t, nc, s.config(&o))
	var check sequenceCheck
	follow(t, j, 0, check.handle)
	const items = 20_000
	for i := range items {
		for errors.Is(a.Add(item{id: uint64(i), padding: 1200}), journal.ErrBusy) {
			eventually.True(t, "room", func() bool { return len(o.ackedIDs()) > i/2 })
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	last, err := j.LastSequence(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "all messages", func() bool { return check.seen() == last })
	if n := consumers(t, nc, "BILLING_0"); n != 0 {
		t.Errorf("%d consumers", n)
	}
}

// TestAFollowerInFilesGoesOnAfterAPurge: of a part of the only block, of whole blocks, and of everything.
func TestAFollowerInFilesGoesOnAfterAPurge(t *testing.T) {
	s := withFiles(journaltest.Start(t))
	nc := s.Conn(t)
	ensure(t, nc, paste())
	j := s.files.Open(nc, "PASTE_0")
	got := collect(t, j)
	var sequence uint64
	send := func(n, size int) {
		t.Helper()
		for range n {
			publish(t, nc, "paste.0.request", string(bytes.Repeat([]byte{'x'}, size)))
		}
		if _, err := j.State(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range n {
			sequence++
			if m := <-got.messages; m.Sequence != sequence || len(m.Data) != size {
				t.Fatalf("message %d of %d bytes, want %d of %d", m.Sequence, len(m.Data), sequence, size)
			}
		}
	}
	send(10, 100_000)
	for _, keep := range []uint64{3, 1, 0, 0} {
		if err := j.Purge(t.Context(), sequence-keep); err != nil {
			t.Fatal(err)
		}
		send(3, 1000)
		send(20, 600_000)
		send(1, 10)
	}
	if n := consumers(t, nc, "PASTE_0"); n != 0 {
		t.Errorf("%d consumers", n)
	}
}

// TestWhatTheFilesLackAConsumerDelivers: a file that was changed under the server stops no follower, and gives it no other bytes.
func TestWhatTheFilesLackAConsumerDelivers(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"a changed byte": func(path string) error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			data[bytes.Index(data, []byte("message 2"))]++
			return os.WriteFile(path, data, 0o600)
		},
		"a file of another name": func(path string) error { return os.Rename(path, path+".away") },
	} {
		t.Run(name, func(t *testing.T) {
			s := withFiles(journaltest.Start(t))
			nc := s.Conn(t)
			ensure(t, nc, billing(0))
			for i := range 4 {
				publish(t, nc, testSubject, fmt.Sprintf("message %d", i))
			}
			files, err := filepath.Glob(filepath.Join(s.Folder(), "jetstream", "*", "streams", "BILLING_0", "msgs", "*.blk"))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			if err := change(files[0]); err != nil {
				t.Fatal(err)
			}
			var all []string
			err = s.files.Open(nc, "BILLING_0").Replay(t.Context(), 0, 4, func(m journal.Message) error { // the server has them in memory
				all = append(all, string(m.Data))
				return nil
			}, nil)
			if want := []string{"message 0", "message 1", "message 2", "message 3"}; err != nil || !slices.Equal(all, want) {
				t.Errorf("%q, %v", all, err)
			}
		})
	}
}
