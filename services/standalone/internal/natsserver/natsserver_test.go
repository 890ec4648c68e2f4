package natsserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"quire.dev/pkg/eventually"
)

func start(t *testing.T, folder string) *Server {
	t.Helper()
	s, err := Start(t.Context(), Options{Folder: folder, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// counted are options that count the starts.
func counted(folder string, starts *atomic.Int64) Options {
	count := func(context.Context) error { starts.Add(1); return nil }
	return Options{Folder: folder, BeforeStart: count, Logger: slog.New(slog.DiscardHandler)}
}

// watch supervises until the test ends.
func watch(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
}

func connect(t *testing.T, s *Server) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func makeStream(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Discard: jetstream.DiscardNew})
	if err != nil {
		t.Fatal(err)
	}
}

func publish(ctx context.Context, js jetstream.JetStream, data []byte) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	ack, err := js.Publish(ctx, "s", data)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

func stored(t *testing.T, js jetstream.JetStream) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	stream, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatalf("message %d: %v", seq, err)
		}
		name, _, _ := strings.Cut(string(m.Data), " ")
		out[name] = true
	}
	return out
}

func TestConnectionsSurviveARestartAndNothingAcknowledgedIsLost(t *testing.T) {
	var starts atomic.Int64
	s, err := Start(t.Context(), counted(t.TempDir(), &starts))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	js := connect(t, s)
	makeStream(t, js)
	acked := map[string]bool{}
	for i := range 60 {
		if i%20 == 19 {
			if err := s.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		name := fmt.Sprint(i)
		eventually.NoError(t, "publish", func() error {
			_, err := publish(t.Context(), js, []byte(name+" x"))
			return err
		})
		acked[name] = true
	}
	if got := starts.Load(); got != 4 {
		t.Errorf("%d starts", got)
	}
	have := stored(t, js)
	for name := range acked {
		if !have[name] {
			t.Errorf("message %s was acknowledged and is gone", name)
		}
	}
}

func TestAMessageOfTheLargestPayloadIsStored(t *testing.T) {
	js := connect(t, start(t, t.TempDir()))
	makeStream(t, js)
	ack, err := js.Publish(t.Context(), "s", make([]byte, maxPayloadBytes-1024))
	if err != nil || ack.Sequence != 1 {
		t.Fatalf("%+v, %v", ack, err)
	}
}

func TestStopRefusesConnections(t *testing.T) {
	s := start(t, t.TempDir())
	s.Stop()
	if _, err := s.InProcessConn(); !errors.Is(err, ErrDown) {
		t.Fatalf("got %v", err)
	}
	if err := s.Restart(t.Context()); !errors.Is(err, ErrDown) {
		t.Fatalf("restart after stop: %v", err)
	}
}

func TestBeforeStartStopsTheStart(t *testing.T) {
	refusal := errors.New("no")
	_, err := Start(t.Context(), Options{
		Folder: t.TempDir(), Logger: slog.New(slog.DiscardHandler),
		BeforeStart: func(context.Context) error { return refusal },
	})
	if !errors.Is(err, refusal) {
		t.Fatalf("got %v", err)
	}
}

// smallDisk is a folder with limited space. It needs the permission to mount.
func smallDisk(t *testing.T, megabytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", megabytes)); err != nil {
		t.Skipf("NOT TESTED: what a full disk does. Mounting a tmpfs needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

func TestAFullDiskIsRecoveredFromOnceThereIsRoom(t *testing.T) {
	dir := smallDisk(t, 48)
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 24<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	var starts atomic.Int64
	s, err := Start(t.Context(), counted(filepath.Join(dir, "nats"), &starts))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop() // before the disk goes
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(ctx) }()
	defer func() { cancel(); <-done }()
	js := connect(t, s)
	makeStream(t, js)
	acked := map[string]bool{}
	body := bytes.Repeat([]byte("x"), 512<<10)
	full := false
	for i := 0; i < 200 && !full; i++ {
		name := fmt.Sprint(i)
		if _, err := publish(t.Context(), js, append([]byte(name+" "), body...)); err != nil {
			full = true
			break
		}
		acked[name] = true
	}
	if !full {
		t.Fatal("the disk never got full")
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	eventually.NoError(t, "publish after there is room", func() error {
		_, err := publish(t.Context(), js, []byte("after x"))
		return err
	})
	have := stored(t, js)
	for name := range acked {
		if !have[name] {
			t.Errorf("message %s was acknowledged and is gone", name)
		}
	}
	if !have["after"] || starts.Load() < 2 {
		t.Errorf("after %v, %d starts", have["after"], starts.Load())
	}
}

func TestAHealthCheckThatRanOutOfTimeIsDoneAgain(t *testing.T) {
	const (
		late    = "failed to be ready for connections after 1ms: startup did not complete"
		unasked = "failed to be ready for connections after 1ms: "
		full    = "no space left on device"
	)
	for name, test := range map[string]struct {
		failures int
		text     string
		checks   int
		healthy  bool
	}{
		"healthy":            {0, "", 1, true},
		"late twice":         {2, late, 3, true},
		"late nearly always": {healthTries - 1, late, healthTries, true},
		"late always":        {healthTries, late, healthTries, false},
		"not asked":          {1, unasked, 2, true},
		"not late":           {1, full, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			checks := 0
			err := retryCheck(func() (recorder, error) {
				if checks++; checks <= test.failures {
					return recorder{status: 503, body: []byte(test.text)}, nil
				}
				return recorder{}, nil
			})
			if checks != test.checks || (err == nil) != test.healthy {
				t.Errorf("%d checks, %v", checks, err)
			}
		})
	}
}

// A stream under creation has a folder before the server knows it.
func TestAStreamThatIsBeingMadeIsNotTakenForLost(t *testing.T) {
	folder := t.TempDir()
	s := start(t, folder)
	js := connect(t, s)
	makeStream(t, js)
	streams, err := filepath.Glob(filepath.Join(folder, "jetstream", "*", "streams"))
	if err != nil || len(streams) != 1 {
		t.Fatalf("folders of streams: %v, %v", streams, err)
	}
	var w watcher
	begun := filepath.Join(streams[0], "begun")
	checks := func(times int) (failed error) {
		for range times {
			failed = w.filter(s.Health())
		}
		return failed
	}
	for range 3 { // one stream after the other
		if err := os.Mkdir(begun, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := checks(lastingChecks - 1); err != nil {
			t.Fatalf("a stream that is being made: %v", err)
		}
		if err := os.Remove(begun); err != nil {
			t.Fatal(err)
		}
		if err := checks(1); err != nil {
			t.Fatalf("all is well: %v", err)
		}
	}
	if err := os.Mkdir(begun, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := checks(lastingChecks); err == nil {
		t.Fatal("a stream that stays lost is not found")
	}
}

// A kill while the server deletes a stream leaves its folder, under a name with a dot.
func TestAStreamThatIsBeingDeletedIsNotTakenForLost(t *testing.T) {
	folder := t.TempDir()
	s := start(t, folder)
	makeStream(t, connect(t, s))
	streams, err := filepath.Glob(filepath.Join(folder, "jetstream", "*", "streams"))
	if err != nil || len(streams) != 1 {
		t.Fatalf("folders of streams: %v, %v", streams, err)
	}
	if err := os.Mkdir(filepath.Join(streams[0], ".deleted"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Health(); err != nil {
		t.Error(err)
	}
	if err := os.Mkdir(filepath.Join(streams[0], "lost"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Health(); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("with a lost stream: %v", err)
	}
}

func TestDisabledJetStreamIsEnabledAgain(t *testing.T) {
	s := start(t, t.TempDir())
	watch(t, s)
	js := connect(t, s)
	makeStream(t, js)
	if err := s.current.ShutdownJetStream(); err != nil {
		t.Fatal(err)
	}
	eventually.NoError(t, "publish", func() error {
		_, err := publish(t.Context(), js, []byte("again x"))
		return err
	})
}
