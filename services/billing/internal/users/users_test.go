package users

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
	"quire.dev/pkg/views/sqlite"
)

func TestExpiredSessionsAreSwept(t *testing.T) {
	store := openStore(t)
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	u := New(store, func() time.Time { return now }, 20, slog.New(slog.DiscardHandler))
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

func openStore(t *testing.T) views.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "v.db"), Collections: Collections()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func open(t *testing.T) *Users {
	t.Helper()
	return New(openStore(t), time.Now, 20, slog.New(slog.DiscardHandler))
}

func register(t *testing.T, u *Users, email string, account uint64) *event.User {
	t.Helper()
	a, err := u.register(t.Context(), &event.RegisterUser{Email: email, Account: account, PasswordHash: "first"})
	if err != nil || a.Status != event.UserStatus_USER_OK {
		t.Fatalf("%v, %v", a, err)
	}
	return a.User
}

// signIn opens a session like an edge that has checked the user's password.
func signIn(t *testing.T, u *Users, user *event.User, session string) {
	t.Helper()
	a, err := u.openSession(t.Context(), &event.OpenSession{
		SessionHash: []byte(session), Account: user.Account, ExpiresMs: time.Now().Add(time.Hour).UnixMilli(), Epoch: user.Epoch,
	})
	if err != nil || a.Status != event.UserStatus_USER_OK {
		t.Fatalf("%v, %v", a, err)
	}
}

func signedIn(t *testing.T, u *Users, session string) bool {
	t.Helper()
	a, err := u.checkSession(t.Context(), []byte(session), time.Now().UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	return a.Status == event.UserStatus_USER_OK
}

// TestEarlierChangesOfAPasswordAreKnown, as far as they are kept: a repeated call after another change changes nothing.
func TestEarlierChangesOfAPasswordAreKnown(t *testing.T) {
	u := open(t)
	register(t, u, "ann@example.com", 5)
	change := func(id string) *event.User {
		t.Helper()
		a, err := u.setPassword(t.Context(), &event.SetPassword{Account: 5, PasswordHash: "hash of " + id, Change: []byte(id)})
		if err != nil || a.Status != event.UserStatus_USER_OK {
			t.Fatalf("%v, %v", a, err)
		}
		return a.User
	}
	if user := change("0"); len(user.EarlierPasswordChanges) != 0 {
		t.Errorf("earlier changes %q", user.EarlierPasswordChanges)
	}
	change("") // without an Idempotency-Key
	var user *event.User
	for n := range keptChanges {
		user = change(fmt.Sprint(n + 1))
	}
	earlier := user.EarlierPasswordChanges
	if len(earlier) != keptChanges || string(earlier[0]) != "0" || string(earlier[keptChanges-1]) != fmt.Sprint(keptChanges-1) {
		t.Errorf("earlier changes %q", earlier)
	}
	if earlier = change("last").EarlierPasswordChanges; len(earlier) != keptChanges || string(earlier[0]) != "1" {
		t.Errorf("earlier changes %q", earlier)
	}
	a, err := u.list(t.Context(), &event.ListUsers{})
	if err != nil || len(a.Users) != 1 || len(a.Users[0].EarlierPasswordChanges) != 0 {
		t.Errorf("a list has %v, %v", a, err)
	}
}

// TestANewPasswordEndsTheOtherSessions, including one opened concurrently with the old password, and nobody else's.
func TestANewPasswordEndsTheOtherSessions(t *testing.T) {
	u := open(t)
	ann, bob := register(t, u, "ann@example.com", 5), register(t, u, "Bob@example.com", 6)
	for _, session := range []string{"here", "there"} {
		signIn(t, u, ann, session)
	}
	signIn(t, u, bob, "bob's")
	set := &event.SetPassword{Account: 5, PasswordHash: "second", IfHash: "first", KeepSession: []byte("here"), Change: []byte("change")}
	a, err := u.setPassword(t.Context(), set)
	if err != nil || a.Status != event.UserStatus_USER_OK || a.User.PasswordHash != "second" || string(a.User.PasswordChange) != "change" || a.User.PasswordMs == 0 {
		t.Fatalf("%v, %v", a, err)
	}
	signIn(t, u, ann, "late") // its password was checked before
	for session, want := range map[string]bool{"here": true, "there": false, "late": false, "bob's": true} {
		if signedIn(t, u, session) != want {
			t.Errorf("session %s: valid is not %v", session, want)
		}
	}
	signIn(t, u, a.User, "new")
	if !signedIn(t, u, "new") {
		t.Error("the new password opens no session")
	}
	if a, err := u.setPassword(t.Context(), set); err != nil || a.Status != event.UserStatus_USER_CHANGED {
		t.Errorf("with the old hash: %v, %v", a, err)
	}
	// Somebody else's session is not kept.
	if a, err := u.setPassword(t.Context(), &event.SetPassword{Account: 6, PasswordHash: "x", KeepSession: []byte("here")}); err != nil || a.Status != event.UserStatus_USER_OK {
		t.Errorf("%v, %v", a, err)
	}
	if signedIn(t, u, "bob's") || !signedIn(t, u, "here") {
		t.Error("a change of one account touched the sessions of another")
	}
	if a, err := u.setPassword(t.Context(), &event.SetPassword{Account: 7, PasswordHash: "x"}); err != nil || a.Status != event.UserStatus_USER_NOT_FOUND {
		t.Errorf("%v, %v", a, err)
	}
	user, err := u.find(t.Context(), &event.FindUser{Email: "bob@EXAMPLE.com"})
	if err != nil || user.GetEmail() != "Bob@example.com" || user.CreatedMs != bob.CreatedMs {
		t.Errorf("%v, %v", user, err)
	}
}

func TestSessionsAreEndedEverywhere(t *testing.T) {
	u := open(t)
	ann := register(t, u, "ann@example.com", 5)
	signIn(t, u, ann, "here")
	end := &event.UserRequest{Action: &event.UserRequest_EndSessions{EndSessions: &event.EndSessions{Account: 5}}}
	a, err := u.Answer(t.Context(), end)
	if err != nil || a.Status != event.UserStatus_USER_OK || a.User.PasswordHash != "first" {
		t.Fatalf("%v, %v", a, err)
	}
	if signedIn(t, u, "here") {
		t.Error("the session is still valid")
	}
	signIn(t, u, a.User, "again")
	if !signedIn(t, u, "again") {
		t.Error("no session can be opened any more")
	}
}

// TestChangesOfUsersDoNotUndoEachOther: of concurrent changes of the same password one succeeds.
func TestChangesOfUsersDoNotUndoEachOther(t *testing.T) {
	u := open(t)
	for account := range uint64(4) {
		register(t, u, strconv.FormatUint(account, 10)+"@example.com", account+1)
	}
	var (
		group errgroup.Group
		won   [4]atomic.Int32
	)
	for i := range 16 {
		group.Go(func() error {
			account := uint64(i%4) + 1
			a, err := u.setPassword(t.Context(), &event.SetPassword{Account: account, PasswordHash: strconv.Itoa(i), IfHash: "first"})
			if err == nil && a.Status == event.UserStatus_USER_OK {
				won[account-1].Add(1)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for i := range won {
		if n := won[i].Load(); n != 1 {
			t.Errorf("%d changes of account %d counted", n, i+1)
		}
	}
}

func TestUsersAreListedByPages(t *testing.T) {
	u := open(t)
	want := map[uint64]bool{}
	for account := range uint64(5) {
		register(t, u, strconv.FormatUint(account, 10)+"@example.com", account*7+1)
		want[account*7+1] = true
	}
	after := uint64(0)
	for page := range 3 {
		a, err := u.list(t.Context(), &event.ListUsers{Limit: 2, AfterAccount: after})
		if err != nil || a.More != (page < 2) {
			t.Fatalf("page %d: %v, %v", page, a, err)
		}
		for _, user := range a.Users {
			if !want[user.Account] || user.PasswordHash != "" || user.Email == "" {
				t.Errorf("page %d has %v", page, user)
			}
			delete(want, user.Account)
			after = user.Account
		}
	}
	if len(want) != 0 {
		t.Errorf("%v are on no page", want)
	}
}

// TestASourceMakesSoManyUsersADay: exactly, even with concurrent instances. Existing users are not created again, and users
// without a source are not counted.
func TestASourceMakesSoManyUsersADay(t *testing.T) {
	now := time.Date(2026, 11, 21, 23, 0, 0, 0, time.UTC)
	store := openStore(t)
	instances := []*Users{}
	for range 2 {
		instances = append(instances, New(store, func() time.Time { return now }, 5, slog.New(slog.DiscardHandler)))
	}
	var numbers atomic.Uint64
	register := func(source uint64) *event.UserAnswer {
		n := numbers.Add(1)
		a, err := instances[n%2].register(t.Context(), &event.RegisterUser{
			Email: fmt.Sprintf("user%d@example.org", n), Account: n, Source: source,
		})
		if err != nil {
			t.Error(err)
			return &event.UserAnswer{}
		}
		return a
	}
	count := func(source uint64) (made int) {
		var all sync.WaitGroup
		var ok atomic.Int64
		for range 12 {
			all.Go(func() {
				switch a := register(source); {
				case a.Status == event.UserStatus_USER_OK:
					ok.Add(1)
				case a.Status != event.UserStatus_USER_LIMITED || a.Limit != 5 || a.ResetMs <= now.UnixMilli() || a.ResetMs > now.Add(oneDay).UnixMilli():
					t.Errorf("answer %v", a)
				}
			})
		}
		all.Wait()
		return int(ok.Load())
	}
	for _, source := range []uint64{7, 8} {
		if made := count(source); made != 5 {
			t.Errorf("source %d made %d users", source, made)
		}
	}
	if made := count(0); made != 12 {
		t.Errorf("%d of 12 users without a source were made", made)
	}
	again, err := instances[0].register(t.Context(), &event.RegisterUser{Email: "user0@example.org", Account: 1000, Source: 7})
	if err != nil || again.Status != event.UserStatus_USER_LIMITED {
		t.Fatalf("%v, %v", again, err)
	}
	now = now.Add(time.Hour) // the next day
	if made := count(7); made != 5 {
		t.Errorf("%d users were made on the next day", made)
	}
	if err := instances[0].Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	docs, err := store.List(t.Context(), registrations, views.Query{Index: byExpiry, Limit: 100})
	if err != nil || len(docs) != 5 {
		t.Errorf("%d registrations are kept, %v", len(docs), err)
	}
}
