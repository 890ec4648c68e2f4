package erasure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/views/sqlite"
	"quire.dev/services/billing/internal/users"
)

// world is the environment of one partition's job: real users, document services with some documents, and a journal that is a
// map.
type world struct {
	t     *testing.T
	job   *Job
	users *users.Users
	now   time.Time

	mu        sync.Mutex
	accounts  map[event.AccountID]*event.AccountSummary
	documents map[string]int // by subject
	failing   string         // subject of a service that does not answer
	appended  int
	unhooked  []event.AccountID
}

var errDown = errors.New("down")

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "v.db"), Collections: users.Collections()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	w := &world{
		t: t, now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), accounts: map[event.AccountID]*event.AccountSummary{}, documents: map[string]int{},
	}
	log := slog.New(slog.DiscardHandler)
	w.users = users.New(store, func() time.Time { return w.now }, 20, log)
	nc := journaltest.Start(t).Conn(t)
	for _, domain := range event.Documents() {
		for p := range 1 {
			subject := domain.EraseSubject(p)
			server, err := rpc.Serve(nc, subject, "q", 1, func(context.Context, []byte) ([]byte, error) { return w.delete(subject) })
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { rpc.Stop(time.Second, server) })
		}
	}
	w.job = New(Config{
		Partition: 0, Partitions: 1, Users: w.users, NC: nc, Now: func() time.Time { return w.now }, Log: log,
		Account: func(_ context.Context, id event.AccountID) (*event.AccountSummary, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.accounts[id], nil
		},
		Append: w.append,
		Rows: func(_ context.Context, id event.AccountID) error {
			w.unhooked = append(w.unhooked, id)
			return nil
		},
	})
	return w
}

// delete deletes up to two documents, like a document service with small pages.
func (w *world) delete(subject string) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if subject == w.failing {
		return nil, errDown
	}
	n := min(w.documents[subject], 2)
	w.documents[subject] -= n
	return event.Encode(&event.EraseAnswer{Deleting: uint32(n)})
}

// append decides like the fold.
func (w *world) append(c *event.Command) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.appended++
	if a := w.accounts[event.AccountID(c.Account)]; a.DeletesMs != 0 && a.DeletesMs <= w.now.UnixMilli() {
		a.DeletesMs, a.ErasedMs = 0, w.now.UnixMilli()
	}
	return nil
}

func (w *world) register(n uint64) event.AccountID {
	w.t.Helper()
	w.ask(&event.UserRequest{Action: &event.UserRequest_Register{
		Register: &event.RegisterUser{Email: fmt.Sprintf("%d@example.com", n), Account: n, PasswordHash: "x"},
	}})
	w.accounts[event.AccountID(n)] = &event.AccountSummary{Account: n}
	return event.AccountID(n)
}

func (w *world) note(id event.AccountID, deletion event.Deletion, deletes time.Time) {
	w.t.Helper()
	if err := w.users.Deletion(w.t.Context(), id, deletion, deletes.UnixMilli()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) ask(r *event.UserRequest) *event.UserAnswer {
	w.t.Helper()
	answer, err := w.users.Answer(w.t.Context(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer
}

func (w *world) user(id event.AccountID) *event.User {
	w.t.Helper()
	return w.ask(&event.UserRequest{Action: &event.UserRequest_Find{Find: &event.FindUser{Account: uint64(id)}}}).User
}

// TestAnErasureWaitsForTheExport: the account's archive is deleted at once, its worker loses it, and the user is deleted after
// it.
func TestAnErasureWaitsForTheExport(t *testing.T) {
	w := newWorld(t)
	id := w.register(5)
	w.note(id, event.Deletion_DELETION_SET, w.now)
	w.accounts[id].ErasedMs = w.now.UnixMilli()
	w.ask(&event.UserRequest{Action: &event.UserRequest_StartExport{StartExport: &event.StartExport{Account: uint64(id), Id: "a"}}})
	claim := func(worker string) *event.Export {
		t.Helper()
		return w.ask(&event.UserRequest{Action: &event.UserRequest_ClaimExport{
			ClaimExport: &event.ClaimExport{Worker: worker, LeaseMs: 30_000},
		}}).Export
	}
	save := func(e *event.Export, remove bool) event.UserStatus {
		t.Helper()
		return w.ask(&event.UserRequest{Action: &event.UserRequest_SaveExport{
			SaveExport: &event.SaveExport{Export: e, LeaseMs: 30_000, Remove: remove},
		}}).Status
	}
	making := claim("one")
	for range 2 {
		if err := w.job.Round(t.Context()); !errors.Is(err, errExport) || w.user(id) == nil {
			t.Fatalf("with an archive: %v, user %v", err, w.user(id))
		}
	}
	if got := save(making, false); got != event.UserStatus_USER_CHANGED {
		t.Errorf("it is still made: %v", got)
	}
	deleting := claim("two")
	if deleting.GetState() != event.ExportState_EXPORT_READY || deleting.Attempts != 1 {
		t.Fatalf("to be deleted: %v", deleting)
	}
	if err := w.job.Round(t.Context()); !errors.Is(err, errExport) { // which leaves its worker
		t.Fatal(err)
	}
	if got := save(deleting, true); got != event.UserStatus_USER_OK {
		t.Fatalf("deleted: %v", got)
	}
	if err := w.job.Round(t.Context()); err != nil || w.user(id) != nil {
		t.Errorf("without an archive: %v, user %v", err, w.user(id))
	}
}

// TestAnErasureGoesOnWhereItWasCutOff: after an unresponsive document service or a crash the user remains, which marks the
// remaining work. The user is deleted last.
func TestAnErasureGoesOnWhereItWasCutOff(t *testing.T) {
	w := newWorld(t)
	id, other := w.register(5), w.register(6)
	due := w.now.Add(time.Hour)
	w.note(id, event.Deletion_DELETION_SET, due)
	w.accounts[id].DeletesMs = due.UnixMilli()
	w.documents[event.Paste.EraseSubject(0)], w.documents[event.File.EraseSubject(0)] = 5, 1
	w.failing = event.File.EraseSubject(0)

	w.now = due.Add(-time.Millisecond)
	if err := w.job.Round(t.Context()); err != nil || w.appended != 0 {
		t.Fatalf("before it is due: %v, %d commands", err, w.appended)
	}
	w.now = due
	for range 2 {
		if err := w.job.Round(t.Context()); err == nil {
			t.Fatal("a service that is down does not show")
		}
		if w.user(id) == nil || w.documents[event.Paste.EraseSubject(0)] != 0 || w.appended != 1 {
			t.Fatalf("the user is %v, documents %v, %d commands", w.user(id), w.documents, w.appended)
		}
	}
	w.failing = ""
	for range 2 {
		if err := w.job.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if w.user(id) != nil || w.user(other) == nil || w.documents[event.File.EraseSubject(0)] != 0 || !slices.Contains(w.unhooked, id) || slices.Contains(w.unhooked, other) {
		t.Errorf("users %v and %v, documents %v, webhooks of %v", w.user(id), w.user(other), w.documents, w.unhooked)
	}
}

// TestTheJournalDecidesWhetherAnAccountIsErased: an edge that ended between its steps leaves a contradicting record.
func TestTheJournalDecidesWhetherAnAccountIsErased(t *testing.T) {
	w := newWorld(t)
	never, told, kept := w.register(5), w.register(6), w.register(7)
	w.note(never, event.Deletion_DELETION_ASKED, time.Time{})
	w.note(told, event.Deletion_DELETION_ASKED, time.Time{})
	w.note(kept, event.Deletion_DELETION_SET, w.now.Add(time.Minute))
	due := w.now.Add(14 * 24 * time.Hour)
	w.accounts[told].DeletesMs = due.UnixMilli()
	w.now = w.now.Add(time.Hour)
	if err := w.job.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id   event.AccountID
		want event.Deletion
		at   int64
	}{
		{never, event.Deletion_DELETION_NONE, 0},
		{told, event.Deletion_DELETION_SET, due.UnixMilli()},
		{kept, event.Deletion_DELETION_NONE, 0},
	} {
		if user := w.user(c.id); user.GetDeletion() != c.want || user.GetDeletionMs() != c.at {
			t.Errorf("account %d: %v", c.id, user)
		}
	}
	if w.appended != 0 {
		t.Errorf("%d commands", w.appended)
	}
}
