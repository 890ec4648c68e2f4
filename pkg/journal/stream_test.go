package journal_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
)

func jetstreamOf(t testing.TB, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func publish(t testing.TB, nc *nats.Conn, subject string, payloads ...string) {
	t.Helper()
	js := jetstreamOf(t, nc)
	for _, p := range payloads {
		if _, err := js.Publish(t.Context(), subject, []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStreamRefusesDeletesAndPurges(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	ensure(t, nc, billing(0), paste())
	publish(t, nc, testSubject, "a", "b")
	publish(t, nc, "paste.0.request", "a", "b", "c")
	js := jetstreamOf(t, nc)
	for _, name := range []string{"BILLING_0", "PASTE_0"} {
		s, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.DeleteMsg(t.Context(), 1); err == nil {
			t.Errorf("%s lets a message be deleted", name)
		}
	}
	if err := journal.Open(nc, "BILLING_0").Purge(t.Context(), 1); err == nil {
		t.Error("a stream that is kept for ever lets itself be purged")
	}
	if last, err := journal.Open(nc, "BILLING_0").State(t.Context()); err != nil || last.Messages != 2 {
		t.Errorf("state %+v, %v: 2 messages wanted", last, err)
	}
	p := journal.Open(nc, "PASTE_0")
	if err := p.Purge(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	state, err := p.State(t.Context())
	if err != nil || state.First != 3 || state.Last != 3 || state.Messages != 1 {
		t.Errorf("after a purge up to 2: %+v, %v", state, err)
	}
}

func TestEnsureRefusesAnotherNumberOfPartitions(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	ensure(t, nc, billing(0))
	ensure(t, nc, billing(0)) // the same again is fine
	err := journal.Ensure(t.Context(), nc, []journal.Stream{billing(0)}, 16)
	if !errors.Is(err, journal.ErrPartitions) {
		t.Fatalf("err = %v, want ErrPartitions", err)
	}
}

func TestEnsureRefusesStreamsThatCouldLoseMessages(t *testing.T) {
	for name, spoil := range map[string]func(*jetstream.StreamConfig){
		"memory":       func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"age":          func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"discard old":  func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"delete":       func(c *jetstream.StreamConfig) { c.DenyDelete = false },
		"purge":        func(c *jetstream.StreamConfig) { c.DenyPurge = false },
		"interest":     func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
		"no ack":       func(c *jetstream.StreamConfig) { c.NoAck = true },
		"subjects":     func(c *jetstream.StreamConfig) { c.Subjects = []string{"billing.0.usage", "other"} },
		"republish":    func(c *jetstream.StreamConfig) { c.RePublish = &jetstream.RePublish{Destination: "elsewhere.>"} },
		"installation": func(c *jetstream.StreamConfig) { c.Metadata[journal.InstallationKey] = "another" },
		"message TTL":  func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true },
		"async writes": func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
	} {
		t.Run(name, func(t *testing.T) {
			nc := journaltest.Start(t).Conn(t)
			cfg := jetstream.StreamConfig{
				Name: "BILLING_0", Subjects: []string{"billing.0.usage", "billing.0.account"},
				Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, DenyDelete: true, DenyPurge: true,
				Metadata: map[string]string{"quire-partitions": "1", "quire-domain": "billing", "quire-partition": "0"},
			}
			spoil(&cfg)
			if _, err := jetstreamOf(t, nc).CreateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			streams := []journal.Stream{billing(0)}
			streams[0].Installation = "this"
			if err := journal.Ensure(t.Context(), nc, streams, 1); !errors.Is(err, journal.ErrStreamConfig) {
				t.Fatalf("err = %v, want ErrStreamConfig", err)
			}
			if err := journal.Await(t.Context(), nc, streams, 1, nil); !errors.Is(err, journal.ErrStreamConfig) {
				t.Fatalf("err = %v, want ErrStreamConfig", err)
			}
		})
	}
}

// TestStreamsOfEarlierVersionsAreBroughtUpToDate: a stream with fewer subjects, and without description and installation,
// gets all of them and keeps what it has. Until then Await waits.
func TestStreamsOfEarlierVersionsAreBroughtUpToDate(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	js := jetstreamOf(t, nc)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "BILLING_0", Subjects: []string{"billing.0.usage"}, Replicas: 1, MaxBytes: -1,
		Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, DenyDelete: true, DenyPurge: true,
		Metadata: map[string]string{"quire-partitions": "1", "quire-domain": "billing", "quire-partition": "0", "mine": "stays"},
	}); err != nil {
		t.Fatal(err)
	}
	publish(t, nc, "billing.0.usage", "a")
	stream := billing(0)
	stream.Installation = "this"
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := journal.Await(short, nc, []journal.Stream{stream}, 1, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stream without all subjects is taken: %v", err)
	}
	for range 2 { // the second time there is nothing to do
		if err := journal.Ensure(t.Context(), nc, []journal.Stream{stream}, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := journal.Await(t.Context(), nc, []journal.Stream{stream}, 1, nil); err != nil {
		t.Error(err)
	}
	info, err := js.Stream(t.Context(), "BILLING_0")
	if err != nil {
		t.Fatal(err)
	}
	have := info.CachedInfo()
	if have.Config.Description != "Quire: journal of billing, partition 0 of 1" || have.State.Msgs != 1 || have.Config.Metadata["mine"] != "stays" {
		t.Errorf("%q, %d messages, %v", have.Config.Description, have.State.Msgs, have.Config.Metadata)
	}
	metadata, err := journal.Open(nc, "BILLING_0").Metadata(t.Context())
	if err != nil || metadata[journal.InstallationKey] != "this" {
		t.Errorf("%v, %v", metadata, err)
	}
	publish(t, nc, "billing.0.account", "b")
}

func TestAwaitWaitsForTheStream(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := journal.Await(short, nc, []journal.Stream{billing(0)}, 1, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stream that is missing: %v", err)
	}
	if _, err := journal.Open(nc, "BILLING_0").State(t.Context()); !errors.Is(err, journal.ErrNoStream) {
		t.Errorf("Await has made the stream: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- journal.Await(t.Context(), nc, []journal.Stream{billing(0)}, 1, nil) }()
	ensure(t, nc, billing(0))
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := journal.Await(t.Context(), nc, []journal.Stream{billing(0)}, 16, nil); !errors.Is(err, journal.ErrPartitions) {
		t.Errorf("another number of partitions: %v", err)
	}
}

// TestConsumersSayWhoseTheyAre: an operator who lists the consumers of a journal sees who follows it.
func TestConsumersSayWhoseTheyAre(t *testing.T) {
	nc := journaltest.Start(t).Conn(t, nats.Name("quire billing"))
	ensure(t, nc, billing(0))
	ctx, stop := context.WithCancel(t.Context())
	following := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = journal.Open(nc, "BILLING_0").Follow(ctx, 0, func(context.Context, journal.Message) error {
			close(following)
			return nil
		}, journal.FollowOptions{})
	}()
	defer func() { stop(); <-done }()
	publish(t, nc, testSubject, "a")
	<-following
	stream, err := jetstreamOf(t, nc).Stream(t.Context(), "BILLING_0")
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for c := range stream.ListConsumers(t.Context()).Info() {
		found++
		if want := "quire billing on " + host + " follows this journal"; c.Config.Description != want || c.Config.Metadata["quire-client"] != "quire billing" {
			t.Errorf("%q, %v", c.Config.Description, c.Config.Metadata)
		}
	}
	if found != 1 {
		t.Errorf("%d consumers", found)
	}
}

func TestEnsureWaitsForTheServer(t *testing.T) {
	s := journaltest.Start(t)
	nc := s.Conn(t)
	s.Stop()
	done := make(chan error, 1)
	go func() { done <- journal.Ensure(t.Context(), nc, []journal.Stream{billing(0)}, 1) }()
	s.Restart(t)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestNextOfIsOfASubject(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	j := journal.Open(nc, "BILLING_0")
	ensure(t, nc, billing(0))
	publish(t, nc, "billing.0.usage", "first")
	publish(t, nc, "billing.0.account", "other")
	publish(t, nc, "billing.0.usage", "second")
	publish(t, nc, "billing.0.usage", "")
	for from, want := range map[uint64]uint64{0: 1, 2: 3, 3: 3, 4: 4} {
		if m, err := j.NextOf(t.Context(), "billing.0.usage", from); err != nil || m.Sequence != want {
			t.Errorf("next of %d: %v, %v", from, m, err)
		}
	}
	if _, err := j.NextOf(t.Context(), "billing.0.usage", 5); !errors.Is(err, journal.ErrNoMessage) {
		t.Errorf("after the last one: %v", err)
	}
}

func TestSeekTimeFindsTheFirstMessageNotBefore(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	ensure(t, nc, billing(0))
	j := journal.Open(nc, "BILLING_0")
	if at, err := j.SeekTime(t.Context(), time.Now()); err != nil || at != 1 {
		t.Fatalf("in an empty stream: %d, %v; want 1", at, err)
	}
	publish(t, nc, testSubject, "a", "b", "c", "d")
	for sequence := uint64(1); sequence <= 4; sequence++ {
		m, err := j.Get(t.Context(), sequence)
		if err != nil {
			t.Fatal(err)
		}
		if at, err := j.SeekTime(t.Context(), m.Time); err != nil || at != sequence {
			t.Errorf("at the time of %d: %d, %v", sequence, at, err)
		}
		if at, err := j.SeekTime(t.Context(), m.Time.Add(1)); err != nil || at != sequence+1 {
			t.Errorf("just after %d: %d, %v", sequence, at, err)
		}
	}
	if at, err := j.SeekTime(t.Context(), time.Unix(0, 0)); err != nil || at != 1 {
		t.Errorf("before all: %d, %v; want 1", at, err)
	}
	m, err := j.Get(t.Context(), 2)
	if err != nil || string(m.Data) != "b" || m.Subject != testSubject || m.Sequence != 2 {
		t.Errorf("message 2: %+v, %v", m, err)
	}
	if _, err := j.Get(t.Context(), 5); !errors.Is(err, journal.ErrNoMessage) {
		t.Errorf("message 5: %v, want ErrNoMessage", err)
	}
	if _, err := journal.Open(nc, "NONE").LastSequence(t.Context()); !errors.Is(err, journal.ErrNoStream) {
		t.Errorf("a stream that is not there: %v, want ErrNoStream", err)
	}
}

// streamThatDeletes is a stream from which a test can delete a message.
func streamThatDeletes() jetstream.StreamConfig {
	return jetstream.StreamConfig{Name: "PASTE_0", Subjects: []string{"paste.0.request"}}
}
