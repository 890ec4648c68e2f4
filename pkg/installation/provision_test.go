package installation_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/members"
)

func domains() []event.Domain { return append([]event.Domain{event.Billing}, event.Documents()...) }

// TestTwoRunsAtATimeMakeOneInstallation: all streams have one id, whoever comes first, and it stays.
func TestTwoRunsAtATimeMakeOneInstallation(t *testing.T) {
	server := journaltest.Start(t)
	cfg := installation.Config{Partitions: 2, Members: true}
	var group sync.WaitGroup
	for range 2 {
		nc := server.Conn(t)
		group.Go(func() {
			if err := installation.Provision(t.Context(), nc, cfg); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	nc := server.Conn(t)
	ids := map[string]bool{}
	look := func() {
		for _, domain := range domains() {
			for p := range cfg.Partitions {
				metadata, err := journal.Open(nc, domain.Stream(p)).Metadata(t.Context())
				if err != nil || metadata[journal.InstallationKey] == "" {
					t.Fatalf("%s: %v, %v", domain.Stream(p), metadata, err)
				}
				ids[metadata[journal.InstallationKey]] = true
			}
		}
	}
	look()
	if err := installation.Provision(t.Context(), nc, cfg); err != nil {
		t.Fatal(err)
	}
	look()
	if len(ids) != 1 {
		t.Errorf("ids %v", ids)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.KeyValue(t.Context(), members.Bucket); err != nil {
		t.Errorf("the bucket of the members: %v", err)
	}
	for _, domain := range domains() {
		if err := journal.Await(t.Context(), nc, installation.Streams(domain, cfg.Partitions), cfg.Partitions, nil); err != nil {
			t.Errorf("what services of %s find: %v", domain, err)
		}
	}
	if err := installation.Provision(t.Context(), nc, installation.Config{Partitions: 3}); !errors.Is(err, journal.ErrPartitions) {
		t.Errorf("another number of partitions: %v", err)
	}
}

// TestJournalsOfEarlierVersionsGetAnID, and keep the one that some of them have.
func TestJournalsOfEarlierVersionsGetAnID(t *testing.T) {
	for name, given := range map[string]string{"none has one": "", "one has one": "mine"} {
		t.Run(name, func(t *testing.T) {
			nc := journaltest.Start(t).Conn(t)
			for _, domain := range domains() {
				stream := installation.Stream(domain, 0)
				if domain == event.File {
					stream.Installation = given
				}
				if err := journal.Ensure(t.Context(), nc, []journal.Stream{stream}, 1); err != nil {
					t.Fatal(err)
				}
			}
			if err := installation.Provision(t.Context(), nc, installation.Config{Partitions: 1}); err != nil {
				t.Fatal(err)
			}
			ids := map[string]bool{}
			for _, domain := range domains() {
				metadata, err := journal.Open(nc, domain.Stream(0)).Metadata(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				ids[metadata[journal.InstallationKey]] = true
			}
			if len(ids) != 1 || ids[""] || given != "" && !ids[given] {
				t.Errorf("ids %v", ids)
			}
		})
	}
}

// TestTwoUpgradesAtATimeMakeOneInstallation: a run that has read the streams before another one gave them an id gives them the
// same one.
func TestTwoUpgradesAtATimeMakeOneInstallation(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	old := installation.Stream(event.Billing, 0)
	if err := journal.Ensure(t.Context(), nc, []journal.Stream{old}, 1); err != nil {
		t.Fatal(err)
	}
	id := func() string {
		t.Helper()
		metadata, created, err := journal.Open(nc, old.Name).Made(t.Context())
		if err != nil || created.IsZero() {
			t.Fatalf("made at %v: %v", created, err)
		}
		return metadata[journal.InstallationKey]
	}
	if given := id(); given != "" {
		t.Fatalf("the old stream has the id %q", given)
	}
	if err := installation.Provision(t.Context(), nc, installation.Config{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	first := id()
	for _, domain := range domains() { // as the other run has read them
		stream, err := js.Stream(t.Context(), domain.Stream(0))
		if err != nil {
			t.Fatal(err)
		}
		cfg := stream.CachedInfo().Config
		delete(cfg.Metadata, journal.InstallationKey)
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	if err := installation.Provision(t.Context(), nc, installation.Config{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	if second := id(); len(first) != 20 || second != first {
		t.Errorf("the first run gave the id %q, the second %q", first, second)
	}
}

func TestProvisioningWaitsForTheServer(t *testing.T) {
	server := journaltest.Start(t)
	nc := server.Conn(t)
	server.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := installation.Provision(ctx, nc, installation.Config{Partitions: 1, Members: true}); err == nil {
		t.Error("made without a server")
	}
	done := make(chan error, 1)
	go func() {
		done <- installation.Provision(t.Context(), nc, installation.Config{Partitions: 1, Members: true})
	}()
	server.Restart(t)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
