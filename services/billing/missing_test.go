package billing_test

import (
	"strings"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/views"
	"quire.dev/services/billing"
)

// lose deletes all documents of a collection, and returns them.
func (s *stack) lose(collection, index string) []views.Doc {
	s.t.Helper()
	docs, err := s.views.List(s.t.Context(), collection, views.Query{Index: index, Limit: views.MaxList})
	if err != nil || len(docs) == 0 {
		s.t.Fatalf("%s: %d documents, %v", collection, len(docs), err)
	}
	var b views.Batch
	for _, doc := range docs {
		b.Deletes = append(b.Deletes, views.Delete{Collection: collection, ID: doc.ID, Seq: doc.Seq})
	}
	if err := s.views.Commit(s.t.Context(), b); err != nil {
		s.t.Fatal(err)
	}
	return docs
}

// restore puts documents back, as a restore of the table does.
func (s *stack) restore(collection string, docs []views.Doc) {
	s.t.Helper()
	var b views.Batch
	for _, doc := range docs {
		doc.Seq++ // newer than the deletion
		b.Puts = append(b.Puts, views.Put{Collection: collection, Doc: doc})
	}
	if err := s.views.Commit(s.t.Context(), b); err != nil {
		s.t.Fatal(err)
	}
}

// TestLostUsersAreNoticedAtAStart: the read model alone has users and the addresses of webhooks. The journal knows how many there
// should be.
func TestLostUsersAreNoticedAtAStart(t *testing.T) {
	s := newStack(t)
	s.log = &lines{}
	r := s.start(billing.Config{Secrets: [][]byte{[]byte("secret of a test")}}, 0)
	register := func(email string, id uint64) *event.UserAnswer {
		return s.user(&event.UserRequest{Action: &event.UserRequest_Register{Register: &event.RegisterUser{Email: email, Account: id, PasswordHash: "hash"}}})
	}
	find := func(email string) *event.UserAnswer {
		return s.user(&event.UserRequest{Action: &event.UserRequest_Find{Find: &event.FindUser{Email: email}}})
	}
	for email, id := range map[string]uint64{"alice@example.com": alice, "bob@example.com": bob} {
		if a := register(email, id); a.Status != event.UserStatus_USER_OK {
			t.Fatalf("register: %v", a)
		}
		s.account(id, plan.Pro)
	}
	address := s.webhooks(&event.WebhookRequest{Account: alice, Action: &event.WebhookRequest_Create{Create: &event.CreateAddress{Url: "https://example.com/hook"}}})
	if len(address.Addresses) != 1 {
		t.Fatalf("webhook: %v", address)
	}
	events := uint32(1)
	if o := s.command(&event.Command{Account: alice, Action: &event.Command_SetWebhook{SetWebhook: &event.SetWebhook{
		Webhook: address.Addresses[0].Webhook, Create: true, Events: &events,
	}}}); o.Status != event.CommandStatus_COMMAND_OK {
		t.Fatalf("webhook: %v", o)
	}
	restart := func() {
		t.Helper()
		r.stop()
		r = s.start(billing.Config{Secrets: [][]byte{[]byte("secret of a test")}}, 0)
	}
	shows := func(metric string) {
		t.Helper()
		eventually.True(t, metric, func() bool { return strings.Contains(r.exposed(), metric+"\n") })
	}
	restart()
	shows(`quire_billing_missing{of="users",partition="0"} 0`)
	shows(`quire_billing_missing{of="webhook_addresses",partition="0"} 0`)
	if a := find("nobody@example.com"); a.Status != event.UserStatus_USER_NOT_FOUND || a.UsersMissing {
		t.Errorf("nobody, with all users: %v", a)
	}

	users, addresses := s.lose("billing_users", "by_account"), s.lose("billing_webhooks", "by_account")
	s.restore("billing_users", users[:1]) // one of two is there
	restart()
	shows(`quire_billing_missing{of="users",partition="0"} 1`)
	shows(`quire_billing_missing{of="webhook_addresses",partition="0"} 1`)
	eventually.True(t, "the log", s.log.has("the read model has lost what exists nowhere else"))
	for _, email := range []string{"nobody@example.com", users[0].ID, users[1].ID} {
		if a := find(email); !a.UsersMissing {
			t.Errorf("%s: %v", email, a)
		}
	}
	if a := register(users[1].ID, 0xC0FFEE); a.Status != event.UserStatus_USER_NOT_FOUND || !a.UsersMissing {
		t.Errorf("another takes the address of a lost user: %v", a)
	}
	if a := s.user(&event.UserRequest{Action: &event.UserRequest_SetEmail{SetEmail: &event.SetEmail{
		Account: accountOf(t, users[0]), Email: users[1].ID, IfHash: "hash",
	}}}); a.Status != event.UserStatus_USER_NOT_FOUND || !a.UsersMissing {
		t.Errorf("another changes to the address of a lost user: %v", a)
	}
	s.serve(alice, plan.FilesUpload, 1) // keys work

	s.restore("billing_users", users)
	s.restore("billing_webhooks", addresses)
	restart()
	shows(`quire_billing_missing{of="users",partition="0"} 0`)
	shows(`quire_billing_missing{of="webhook_addresses",partition="0"} 0`)
	eventually.True(t, "known as complete", func() bool { return !find("nobody@example.com").UsersMissing })
	if a := find(users[1].ID); a.Status != event.UserStatus_USER_OK {
		t.Errorf("restored: %v", a)
	}

	// They are lost again, and nothing brings them back.
	users = s.lose("billing_users", "by_account")
	s.lose("billing_webhooks", "by_account")
	s.restore("billing_users", users[:1])
	restart()
	eventually.True(t, "noted", func() bool {
		missing, err := billing.MissingIn(t.Context(), billing.Deps{Views: s.views}, 0)
		return err == nil && missing == billing.Missing{Users: 1, Addresses: 1}
	})
	if err := billing.GiveUpMissing(t.Context(), billing.Deps{Views: s.views}, 0, "ann"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		restart()
		shows(`quire_billing_missing{of="users",partition="0"} 0`)
		shows(`quire_billing_missing{of="webhook_addresses",partition="0"} 0`)
	}
	eventually.True(t, "given up", s.log.has("were given up"))
	if a := find(users[1].ID); a.Status != event.UserStatus_USER_NOT_FOUND || a.UsersMissing {
		t.Errorf("given up: %v", a)
	}
	if a := register("carol@example.com", 0xC0FFEE); a.Status != event.UserStatus_USER_OK {
		t.Errorf("a new user: %v", a)
	}
	s.lose("billing_users", "by_account") // the first user too
	restart()
	shows(`quire_billing_missing{of="users",partition="0"} 1`)
}

func (s *stack) webhooks(r *event.WebhookRequest) *event.WebhookAnswer {
	s.t.Helper()
	payload, err := event.Encode(r)
	if err != nil {
		s.t.Fatal(err)
	}
	data, err := rpc.Call(s.t.Context(), s.nc, event.WebhookSubject, payload)
	if err != nil {
		s.t.Fatal(err)
	}
	a := &event.WebhookAnswer{}
	decode(s.t, data, a)
	return a
}

func accountOf(t *testing.T, doc views.Doc) uint64 {
	t.Helper()
	user := &event.User{}
	decode(t, doc.Head, user)
	return user.Account
}

// TestALostKeyOfTheSnapshotsIsNoticed: without the key each snapshot looks forged, and a start folds the whole journal.
func TestALostKeyOfTheSnapshotsIsNoticed(t *testing.T) {
	s := newStack(t)
	s.log = &lines{}
	r := s.start(billing.Config{}, 0)
	s.account(alice, plan.Pro)
	r.stop() // writes a snapshot
	fresh := newStack(t)
	s.views.Store = fresh.views.Store // an empty read model
	r = s.start(billing.Config{}, 0)
	if !strings.Contains(r.exposed(), `quire_billing_missing{of="snapshot_key",partition="0"} 1`) {
		t.Errorf("%s", r.exposed())
	}
	if !s.log.has("the read model has lost the key that signs snapshots")() {
		t.Error("the log does not say it")
	}
}
