package edge_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/telemetry"
	"quire.dev/services/edge"
)

// serve answers requests to a subject until the test ends.
func serve(t *testing.T, nc *nats.Conn, subject string, handle func(payload []byte) ([]byte, error)) {
	t.Helper()
	server, err := rpc.Serve(nc, subject, "", 1, func(_ context.Context, payload []byte) ([]byte, error) { return handle(payload) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Drain(context.Background()) }) // the connection may be gone
}

// TestAnEdgeOfAnotherNumberOfPartitionsTakesNoRequest: it would look for everything in the wrong partition.
func TestAnEdgeOfAnotherNumberOfPartitionsTakesNoRequest(t *testing.T) {
	server := journaltest.Start(t)
	blobs, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { blobs.Close() })
	start := func(partitions int) (*edge.Service, *telemetry.Health, chan error) {
		health := telemetry.NewHealth()
		service, err := edge.New(edge.Config{
			Listen: "127.0.0.1:0", Secret: []byte(testSecret), Partitions: partitions, AskPartitions: true,
		}, edge.Deps{NC: server.Conn(t), Blobs: blobs, Health: health})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			done <- service.Run(ctx)
		}()
		t.Cleanup(func() {
			cancel()
			<-ended
		})
		return service, health, done
	}
	right, health, _ := start(4)
	_, _, wrong := start(8)
	eventually.True(t, "it is not ready for operators", func() bool { return len(health.Failing()) == 1 })
	select {
	case <-right.Ready():
		t.Fatal("it takes requests before it knows the number of partitions")
	default:
	}
	serve(t, server.Conn(t), event.InstancesSubject, func([]byte) ([]byte, error) {
		return json.Marshal(event.Instance{Name: "i-1", Partitions: 4})
	})
	select {
	case <-right.Ready():
	case <-time.After(time.Minute):
		t.Fatal("not ready in a minute")
	}
	select {
	case err := <-wrong:
		if err == nil || !strings.Contains(err.Error(), "started with 8, billing has 4") {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it goes on with another number of partitions")
	}
}

func TestAnEdgeThatWaitsForBillingCanBeStopped(t *testing.T) {
	server := journaltest.Start(t)
	blobs, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { blobs.Close() })
	service, err := edge.New(edge.Config{
		Listen: "127.0.0.1:0", Secret: []byte(testSecret), Partitions: 1, AskPartitions: true,
	}, edge.Deps{NC: server.Conn(t), Blobs: blobs})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{}, 1)
	sub, err := server.Conn(t).Subscribe(event.InstancesSubject, func(*nats.Msg) {
		select {
		case asked <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	done := make(chan error, 1)
	go func() { done <- service.Run(ctx) }()
	<-asked
	cancel()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

// TestAnEdgeWithTheBlobsOfAnotherInstallationTakesNoRequest: its uploads would be orphans there.
func TestAnEdgeWithTheBlobsOfAnotherInstallationTakesNoRequest(t *testing.T) {
	server := journaltest.Start(t)
	serve(t, server.Conn(t), event.InstancesSubject, func([]byte) ([]byte, error) {
		return json.Marshal(event.Instance{Name: "i-1", Partitions: 1, Installation: "mine"})
	})
	for owner, fits := range map[string]bool{"mine": true, "theirs": false} {
		blobs, err := disk.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { blobs.Close() })
		if err := blobs.Create(t.Context(), installation.BlobKey, []byte(owner)); err != nil {
			t.Fatal(err)
		}
		service, err := edge.New(edge.Config{
			Listen: "127.0.0.1:0", Secret: []byte(testSecret), Partitions: 1, AskPartitions: true,
		}, edge.Deps{NC: server.Conn(t), Blobs: blobs})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- service.Run(ctx) }()
		select {
		case <-service.Ready():
			if !fits {
				t.Error("it takes requests")
			}
			cancel()
			<-done
		case err := <-done:
			if fits || !errors.Is(err, installation.ErrMixed) || !strings.Contains(err.Error(), "billing to mine, the blob store to theirs") {
				t.Errorf("ended with %v", err)
			}
			cancel()
		}
	}
}
