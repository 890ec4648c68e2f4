package users

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

func changeEmail(t *testing.T, u *Users, account uint64, email string) *event.UserAnswer {
	t.Helper()
	a, err := u.setEmail(t.Context(), &event.SetEmail{Account: account, Email: email, IfHash: "first", Change: []byte("change")})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestAnAddressMovesBackAndForth: the store ignores documents older than a deletion, but not an address that comes back.
func TestAnAddressMovesBackAndForth(t *testing.T) {
	u := open(t)
	ann := register(t, u, "ann@example.com", 5)
	signIn(t, u, ann, "here")
	for n, email := range []string{"Ann@new.example", "ANN@example.com", "ann@new.example", "ann@example.com", "Ann@Example.com"} {
		a := changeEmail(t, u, 5, email)
		if a.Status != event.UserStatus_USER_OK || a.User.Email != email || string(a.User.EmailChange) != strings.Repeat("change", n+1) {
			t.Fatalf("change %d: %v", n, a)
		}
		for _, other := range []string{"ann@example.com", "ann@new.example"} {
			user, err := u.find(t.Context(), &event.FindUser{Email: other})
			if err != nil || (user.GetAccount() == 5) != strings.EqualFold(other, email) {
				t.Fatalf("after change %d %s has %v, %v", n, other, user, err)
			}
		}
		if !signedIn(t, u, "here") {
			t.Fatal("the session has ended")
		}
	}
	if a, err := u.setPassword(t.Context(), &event.SetPassword{Account: 5, PasswordHash: "second"}); err != nil || a.Status != event.UserStatus_USER_OK {
		t.Fatalf("%v, %v", a, err)
	}
	if user, err := u.find(t.Context(), &event.FindUser{Account: 5}); err != nil || user.PasswordHash != "second" {
		t.Errorf("a new password after a new address: %v, %v", user, err)
	}
	if a := changeEmail(t, u, 5, "late@example.com"); a.Status != event.UserStatus_USER_CHANGED {
		t.Errorf("with the password of before: %v", a)
	}
	if again := register(t, u, "ann@new.example", 6); again.Account != 6 {
		t.Errorf("the address that was given up has %v", again)
	}
	if a := changeEmail(t, u, 6, "ann@example.com"); a.Status != event.UserStatus_USER_EXISTS {
		t.Errorf("an address that is taken: %v", a)
	}
	if a := changeEmail(t, u, 7, "seven@example.com"); a.Status != event.UserStatus_USER_NOT_FOUND {
		t.Errorf("no such account: %v", a)
	}
}

// TestAChangeThatStoppedHalfWay reserves the address for an hour. The account itself may continue. Nobody finds or becomes a
// user under it.
func TestAChangeThatStoppedHalfWay(t *testing.T) {
	u := open(t)
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	u.clock = func() time.Time { return now }
	register(t, u, "ann@example.com", 5)
	register(t, u, "bob@example.com", 6)
	stop := func() {
		t.Helper()
		if free, err := u.reserve(t.Context(), &event.User{Account: 5, Email: "new@example.com"}, 0); err != nil || !free {
			t.Fatalf("%v, %v", free, err)
		}
	}
	stop()
	if user, err := u.find(t.Context(), &event.FindUser{Email: "new@example.com"}); err != nil || user != nil {
		t.Errorf("a user of a reserved address: %v, %v", user, err)
	}
	a, err := u.register(t.Context(), &event.RegisterUser{Email: "new@example.com", Account: 7, PasswordHash: "x"})
	if err != nil || a.Status != event.UserStatus_USER_EXISTS || a.User.PasswordHash != "" {
		t.Errorf("registered with a reserved address: %v, %v", a, err)
	}
	if a := changeEmail(t, u, 6, "new@example.com"); a.Status != event.UserStatus_USER_EXISTS {
		t.Errorf("another account takes it: %v", a)
	}
	if list, err := u.list(t.Context(), &event.ListUsers{Limit: 10}); err != nil || len(list.Users) != 2 {
		t.Errorf("listed are %v, %v", list, err)
	}
	now = now.Add(reservedFor)
	if err := u.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop() // it is free again
	if a := changeEmail(t, u, 5, "NEW@example.com"); a.Status != event.UserStatus_USER_OK {
		t.Errorf("the account goes on: %v", a)
	}
	now = now.Add(2 * reservedFor)
	if err := u.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if user, err := u.find(t.Context(), &event.FindUser{Email: "new@example.com"}); err != nil || user.GetAccount() != 5 {
		t.Errorf("the sweep took the user: %v, %v", user, err)
	}
}

// TestTheUseOfASessionIsNotedByTheHour, and a late record undoes neither an end nor a change of the session.
func TestTheUseOfASessionIsNotedByTheHour(t *testing.T) {
	u := open(t)
	ann := register(t, u, "ann@example.com", 5)
	hash := []byte("a hash")
	if _, err := u.openSession(t.Context(), &event.OpenSession{
		SessionHash: hash, Account: 5, Epoch: ann.Epoch, ExpiresMs: time.Now().Add(24 * time.Hour).UnixMilli(),
	}); err != nil {
		t.Fatal(err)
	}
	seen := func() int64 {
		t.Helper()
		a, err := u.listSessions(t.Context(), 5)
		if err != nil || len(a.Sessions) != 1 {
			t.Fatalf("%v, %v", a, err)
		}
		return a.Sessions[0].SeenMs
	}
	opened := seen()
	if _, err := u.checkSession(t.Context(), hash, opened+seenEvery.Milliseconds()-1); err != nil || seen() != opened {
		t.Errorf("noted within the hour, or %v", err)
	}
	later := opened + seenEvery.Milliseconds()
	if _, err := u.checkSession(t.Context(), hash, later); err != nil || seen() != later {
		t.Errorf("not noted after an hour, or %v", err)
	}
	s, seq, err := u.session(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.setPassword(t.Context(), &event.SetPassword{Account: 5, PasswordHash: "second", KeepSession: hash}); err != nil {
		t.Fatal(err)
	}
	u.see(t.Context(), s, seq, opened+1)
	if !signedIn(t, u, string(hash)) {
		t.Error("a late note made the session one of before the new password")
	}
	if s, seq, err = u.session(t.Context(), hash); err != nil {
		t.Fatal(err)
	}
	if _, err := u.closeSession(t.Context(), hash); err != nil {
		t.Fatal(err)
	}
	u.see(t.Context(), s, seq, opened+2)
	if signedIn(t, u, string(hash)) {
		t.Error("a late note brought the session back")
	}
}

// TestASessionIsEndedByItsAccountAlone, and a list respects its limit.
func TestASessionIsEndedByItsAccountAlone(t *testing.T) {
	u := open(t)
	ann, bob := register(t, u, "ann@example.com", 5), register(t, u, "bob@example.com", 6)
	const total = views.MaxList + 3
	for n := range total {
		signIn(t, u, ann, fmt.Sprintf("%012d of ann", n))
	}
	used := fmt.Sprintf("%012d of ann", total-1)
	session, seq, err := u.session(t.Context(), []byte(used))
	if err != nil {
		t.Fatal(err)
	}
	u.see(t.Context(), session, seq, time.Now().Add(time.Minute).UnixMilli())
	signIn(t, u, bob, "000000000bob of bob")
	a, err := u.listSessions(t.Context(), 5)
	if err != nil || len(a.Sessions) != maxSessions || string(a.Sessions[0].SessionHash) != used {
		t.Fatalf("%d sessions, %v", len(a.GetSessions()), err)
	}
	end := func(account uint64, prefix string) event.UserStatus {
		t.Helper()
		a, err := u.endSession(t.Context(), &event.EndSession{Account: account, Prefix: []byte(prefix)})
		if err != nil {
			t.Fatal(err)
		}
		return a.Status
	}
	for _, c := range []struct {
		account uint64
		prefix  string
		want    event.UserStatus
	}{
		{6, "000000000001", event.UserStatus_USER_NOT_FOUND},
		{7, "000000000001", event.UserStatus_USER_NOT_FOUND},
		{5, "00000000000", event.UserStatus_USER_NOT_FOUND},
		{5, "", event.UserStatus_USER_NOT_FOUND},
		{5, "000000000001", event.UserStatus_USER_OK},
		{5, "000000000001", event.UserStatus_USER_NOT_FOUND},
		{5, "000000001002", event.UserStatus_USER_OK},
	} {
		if got := end(c.account, c.prefix); got != c.want {
			t.Errorf("account %d ends %q: %v, want %v", c.account, c.prefix, got, c.want)
		}
	}
	if !signedIn(t, u, "000000000bob of bob") || signedIn(t, u, "000000000001 of ann") || !signedIn(t, u, "000000000002 of ann") {
		t.Error("another session has ended, or that one has not")
	}
	first, err := u.store.List(t.Context(), sessions, views.Query{Index: byExpiry, Limit: views.MaxList})
	if err != nil {
		t.Fatal(err)
	}
	expiry := views.Index{Name: byExpiry, Keys: []string{"expires"}}
	rest, err := u.store.List(t.Context(), sessions, views.Query{Index: byExpiry, Limit: views.MaxList}.NextAfter(expiry, first[len(first)-1]))
	if err != nil || len(first)+len(rest) != total-1 {
		t.Errorf("%d sessions are stored, %v", len(first)+len(rest), err)
	}
}

// TestTheEndOfASessionIsKnownAgain under the id of the call that ended it, for a day.
func TestTheEndOfASessionIsKnownAgain(t *testing.T) {
	u := open(t)
	now := time.Now()
	u.clock = func() time.Time { return now }
	ann := register(t, u, "ann@example.com", 5)
	signIn(t, u, ann, "000000000001 of ann")
	end := func(change string) event.UserStatus {
		t.Helper()
		a, err := u.endSession(t.Context(), &event.EndSession{Account: 5, Prefix: []byte("000000000001"), Change: []byte(change)})
		if err != nil {
			t.Fatal(err)
		}
		return a.Status
	}
	for n, c := range []struct {
		change string
		want   event.UserStatus
	}{
		{"one", event.UserStatus_USER_OK},
		{"one", event.UserStatus_USER_EXISTS},
		{"one", event.UserStatus_USER_EXISTS},
		{"other", event.UserStatus_USER_NOT_FOUND},
		{"", event.UserStatus_USER_NOT_FOUND},
	} {
		if got := end(c.change); got != c.want {
			t.Errorf("call %d: %v, want %v", n, got, c.want)
		}
	}
	if a, err := u.listSessions(t.Context(), 5); err != nil || len(a.Sessions) != 0 {
		t.Errorf("listed are %v, %v", a, err)
	}
	now = now.Add(endedFor)
	if got := end("one"); got != event.UserStatus_USER_NOT_FOUND {
		t.Errorf("after a day: %v", got)
	}
	if err := u.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if docs, err := u.store.List(t.Context(), sessions, views.Query{Index: byExpiry, Limit: 10}); err != nil || len(docs) != 0 {
		t.Errorf("%d notes stay, %v", len(docs), err)
	}
}

// TestTheLastChangesOfAnAddressAreKnown, so that a repeated call changes nothing.
func TestTheLastChangesOfAnAddressAreKnown(t *testing.T) {
	u := open(t)
	register(t, u, "ann@example.com", 5)
	var last *event.User
	for n := range keptChanges + 3 {
		a, err := u.setEmail(t.Context(), &event.SetEmail{Account: 5, Email: fmt.Sprintf("%d@example.com", n), IfHash: "first", Change: fmt.Appendf(nil, "%024d", n)})
		if err != nil {
			t.Fatal(err)
		}
		last = a.User
	}
	if got := string(last.EmailChange); len(got) != 24*keptChanges || !strings.HasPrefix(got, fmt.Sprintf("%024d%024d", keptChanges+2, keptChanges+1)) {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	a, err := u.setEmail(t.Context(), &event.SetEmail{Account: 5, Email: "without@example.com", IfHash: "first"})
	if err != nil || string(a.User.EmailChange) != string(last.EmailChange) {
		t.Errorf("a change without a key: %v, %v", a, err)
	}
}

// TestADeletionIsNotedAndEndsInNoUser: the list of due deletions has a user from the set time on, and the address is free once
// the user is erased.
func TestADeletionIsNotedAndEndsInNoUser(t *testing.T) {
	u := open(t)
	now := time.Now().Truncate(time.Millisecond)
	u.clock = func() time.Time { return now }
	for n := range uint64(3) {
		user := register(t, u, fmt.Sprintf("%d@example.com", n), 5+n)
		signIn(t, u, user, fmt.Sprintf("session of %d", n))
		signIn(t, u, user, fmt.Sprintf("another session of %d", n))
	}
	note := func(account uint64, deletion event.Deletion, deletesMs int64) {
		t.Helper()
		if err := u.Deletion(t.Context(), event.AccountID(account), deletion, deletesMs); err != nil {
			t.Fatal(err)
		}
	}
	due := func() (list []uint64) {
		t.Helper()
		if err := u.DueDeletions(t.Context(), func(user *event.User) error { list = append(list, user.Account); return nil }); err != nil {
			t.Fatal(err)
		}
		return list
	}
	later := now.Add(time.Hour)
	note(5, event.Deletion_DELETION_ASKED, 0)
	note(6, event.Deletion_DELETION_SET, later.UnixMilli())
	if !signedIn(t, u, "session of 0") || signedIn(t, u, "session of 1") || !signedIn(t, u, "session of 2") {
		t.Error("sessions end when the deletion is set, and not before")
	}
	for _, c := range []struct {
		after time.Duration
		want  []uint64
	}{{0, nil}, {askedWait - 1, nil}, {askedWait, []uint64{5}}, {time.Hour - 1, []uint64{5}}, {time.Hour, []uint64{5, 6}}} {
		at := now.Add(c.after)
		u.clock = func() time.Time { return at }
		if got := due(); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("due after %v: %v, want %v", c.after, got, c.want)
		}
	}
	note(5, event.Deletion_DELETION_NONE, later.UnixMilli()) // by a call that has read another stage
	note(6, event.Deletion_DELETION_NONE, now.UnixMilli())
	if got := due(); len(got) != 2 {
		t.Errorf("a note that was not read is taken back: %v", got)
	}
	note(5, event.Deletion_DELETION_NONE, now.UnixMilli())
	if got := due(); len(got) != 1 || !signedIn(t, u, "session of 0") {
		t.Errorf("after one was taken back: %v", got)
	}
	for range 2 { // the second time there is nothing left
		if err := u.Erase(t.Context(), 6); err != nil {
			t.Fatal(err)
		}
	}
	if got := due(); got != nil {
		t.Errorf("due after the end: %v", got)
	}
	docs, err := u.store.List(t.Context(), sessions, views.Query{Index: byExpiry, Limit: views.MaxList})
	if err != nil || len(docs) != 4 {
		t.Errorf("%d sessions are left, %v", len(docs), err)
	}
	if again := register(t, u, "1@EXAMPLE.com", 9); again.Account != 9 || again.Deletion != event.Deletion_DELETION_NONE {
		t.Errorf("the address has %v", again)
	}
	if user, err := u.find(t.Context(), &event.FindUser{Account: 6}); err != nil || user != nil {
		t.Errorf("the account has %v, %v", user, err)
	}
}

// TestAnExportIsOneWorkersAtATime: a stopped worker loses it to another, who restarts it, and can't change it any more.
func TestAnExportIsOneWorkersAtATime(t *testing.T) {
	u := open(t)
	now := time.Now().Truncate(time.Millisecond)
	u.clock = func() time.Time { return now }
	register(t, u, "ann@example.com", 5)
	begin := func(id string) *event.UserAnswer {
		t.Helper()
		a, err := u.startExport(t.Context(), &event.StartExport{Account: 5, Id: id})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	claim := func(worker string) *event.Export {
		t.Helper()
		a, err := u.claimExport(t.Context(), &event.ClaimExport{Worker: worker, LeaseMs: 30_000})
		if err != nil {
			t.Fatal(err)
		}
		return a.Export
	}
	save := func(e *event.Export, remove bool) event.UserStatus {
		t.Helper()
		a, err := u.saveExport(t.Context(), &event.SaveExport{Export: e, LeaseMs: 30_000, Remove: remove})
		if err != nil {
			t.Fatal(err)
		}
		return a.Status
	}
	if a, err := u.startExport(t.Context(), &event.StartExport{Account: 9, Id: "x"}); err != nil || a.Status != event.UserStatus_USER_NOT_FOUND {
		t.Errorf("of nobody: %v, %v", a, err)
	}
	if e := claim("one"); e != nil {
		t.Errorf("claimed %v", e)
	}
	begin("first")
	if a := begin("second"); a.Status != event.UserStatus_USER_EXISTS || a.Export.Id != "first" {
		t.Errorf("two at a time: %v", a)
	}
	one := claim("one")
	if one.GetId() != "first" || one.State != event.ExportState_EXPORT_RUNNING || claim("two") != nil {
		t.Fatalf("%v", one)
	}
	now = now.Add(29 * time.Second)
	one.Done = 7
	if save(one, false) != event.UserStatus_USER_OK || claim("two") != nil {
		t.Error("progress does not prolong the lease")
	}
	now = now.Add(30 * time.Second)
	two := claim("two")
	if two == nil || two.Attempts != 2 || two.Done != 0 {
		t.Fatalf("%v", two)
	}
	if save(one, false) != event.UserStatus_USER_CHANGED {
		t.Error("who has lost the export changes it")
	}
	two.State, two.SizeBytes, two.Sha256 = event.ExportState_EXPORT_READY, 5, []byte("sum")
	if save(two, false) != event.UserStatus_USER_OK {
		t.Fatal("not saved")
	}
	if a, err := u.findExport(t.Context(), 5); err != nil || a.Export.SizeBytes != 5 || a.Export.ExpiresMs != now.Add(exportKept).UnixMilli() {
		t.Errorf("%v, %v", a, err)
	}
	if a := begin("third"); a.Status != event.UserStatus_USER_OK || len(a.Export.Stale) != 1 || a.Export.Stale[0] != "first" {
		t.Errorf("%v", a)
	}
	if a := begin("first"); a.Status != event.UserStatus_USER_EXISTS || a.Export.Id != "third" {
		t.Errorf("begun twice under one key: %v", a)
	}
	for range exportAttempts {
		if claim("dying") == nil {
			t.Fatal("an export is given up too early")
		}
		now = now.Add(30 * time.Second)
	}
	if e := claim("three"); e != nil {
		t.Errorf("after %d attempts: %v", exportAttempts, e)
	}
	if a, err := u.findExport(t.Context(), 5); err != nil || a.Export.State != event.ExportState_EXPORT_FAILED {
		t.Errorf("%v, %v", a, err)
	}
	for n := 2; n < exportsADay; n++ {
		if a := begin(fmt.Sprint(n)); a.Status != event.UserStatus_USER_OK {
			t.Fatalf("%d: %v", n, a)
		}
		e := claim("one")
		e.State = event.ExportState_EXPORT_READY
		save(e, false)
	}
	if a := begin("more"); a.Status != event.UserStatus_USER_LIMITED || a.Limit != exportsADay {
		t.Errorf("%v", a)
	}
	if done, err := u.EraseExport(t.Context(), 5); err != nil || done {
		t.Errorf("erased before its archive is: %v, %v", done, err)
	}
	last := claim("one")
	if last == nil || last.State != event.ExportState_EXPORT_READY || save(last, true) != event.UserStatus_USER_OK {
		t.Fatalf("%v", last)
	}
	for range 2 {
		if done, err := u.EraseExport(t.Context(), 5); err != nil || !done {
			t.Errorf("%v, %v", done, err)
		}
	}
}
