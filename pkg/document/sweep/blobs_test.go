package sweep_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/document/sweep"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/telemetry"
)

// refusing is a blob store that refuses the first deletion.
type refusing struct {
	blob.Store
	deletions atomic.Int64
}

func (r *refusing) Delete(ctx context.Context, key string) error {
	if r.deletions.Add(1) == 1 {
		return errors.Join(blob.ErrUnavailable, io.ErrUnexpectedEOF)
	}
	return r.Store.Delete(ctx, key)
}

func TestABlobIsDeletedOnceItIsDueHoweverOftenThatFails(t *testing.T) {
	files, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := files.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, key := range []string{"due", "later"} {
		if _, err := files.Put(t.Context(), key, strings.NewReader(key), int64(len(key))); err != nil {
			t.Fatal(err)
		}
	}
	has := func(key string) bool {
		r, _, err := files.Get(t.Context(), key, 0, 1)
		if err != nil {
			return false
		}
		return r.Close() == nil
	}
	store := &refusing{Store: files}
	var clock atomic.Int64         // Unix seconds
	var metrics *telemetry.Metrics // none
	desc := telemetry.Desc{Service: "paste", Name: "counted", Help: "Counted."}
	blobs := sweep.NewBlobs(&sweep.Config{
		Blobs: store, Bounds: sweep.Bounds{Poll: time.Millisecond}, CallWait: time.Minute, Clock: func() time.Time { return time.Unix(clock.Load(), 0) },
		Logger:   slog.New(slog.DiscardHandler),
		Failures: metrics.CounterVec(desc, "call"), Swept: metrics.CounterVec(desc, "what"),
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- blobs.Run(ctx) }()
	blobs.Add(time.Unix(100, 0), []string{"later"})
	blobs.Add(time.Unix(0, 0), []string{"due"})
	eventually.True(t, "the blob that is due is gone", func() bool { return !has("due") })
	if store.deletions.Load() != 2 || !has("later") {
		t.Errorf("%d deletions, the later blob is there: %v", store.deletions.Load(), has("later"))
	}
	clock.Store(100)
	eventually.True(t, "the later blob is gone", func() bool { return !has("later") })
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
