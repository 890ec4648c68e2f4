package users

import (
	"log/slog"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
	"quire.dev/pkg/views/sqlite"
)

func TestExpiredSessionsAreSwept(t *testing.T) {
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "v.db"), Collections: Collections()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	u := New(store, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	if _, err := u.register(t.Context(), &event.RegisterUser{Email: "a@example.com", Account: 5}); err != nil {
		t.Fatal(err)
	}
	const total = sweepPage + 20
	for i := range total {
		a, err := u.openSession(t.Context(), &event.OpenSession{
			SessionHash: []byte("session " + strconv.Itoa(i)), Account: 5, ExpiresMs: now.UnixMilli() + int64(i+1)*1000,
		})
		if err != nil || a.Status != event.UserStatus_USER_OK {
			t.Fatalf("%v, %v", a, err)
		}
	}
	left := func() int {
		docs, err := store.List(t.Context(), sessions, views.Query{Index: byExpiry, Limit: views.MaxList})
		if err != nil {
			t.Fatal(err)
		}
		return len(docs)
	}
	for _, c := range []struct{ seconds, want int }{{0, total}, {10, total - 10}, {total - 1, 1}, {total, 0}} {
		later := now.Add(time.Duration(c.seconds) * time.Second)
		u.clock = func() time.Time { return later }
		if err := u.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := left(); n != c.want {
			t.Fatalf("%d sessions after %d s, want %d", n, c.seconds, c.want)
		}
	}
}
