package edge_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/rpc"
	"quire.dev/services/edge"
)

// registry stands for billing's user store and accounts, so that a test can take the account of a
// user away: what a registration leaves behind that was cut off.
type registry struct {
	mu       sync.Mutex
	users    map[string]*event.User // by email, lower case
	sessions map[string]uint64
	accounts map[uint64]*event.CommandOutcome
	kept     map[string]keptOutcome
}

type keptOutcome struct {
	hash    uint64
	outcome *event.CommandOutcome
}

func newPeople(t *testing.T) (*world, *registry) {
	t.Helper()
	server := journaltest.Start(t)
	nc := server.Conn(t)
	ensure(t, nc, event.Billing)
	r := &registry{
		users: map[string]*event.User{}, sessions: map[string]uint64{},
		accounts: map[uint64]*event.CommandOutcome{}, kept: map[string]keptOutcome{},
	}
	r.serve(t, nc)
	cfg := edge.Config{Listen: "127.0.0.1:0", Secret: []byte(testSecret), Partitions: 1}
	service, err := edge.New(cfg, edge.Deps{NC: server.Conn(t)})
	if err != nil {
		t.Fatal(err)
	}
	run(t, "edge", service)
	return &world{url: "http://" + service.Addr()}, r
}

func (r *registry) serve(t *testing.T, nc *nats.Conn) {
	t.Helper()
	for subject, handle := range map[string]func(context.Context, []byte) ([]byte, error){
		event.UserSubject: r.user, event.QuerySubject(0): r.query,
	} {
		s, err := rpc.Serve(nc, subject, "", 1, handle)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Drain(context.Background()) })
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	marks := map[string]uint64{}
	go func() {
		defer close(done)
		_ = journal.Open(nc, event.Billing.Stream(0)).Follow(ctx, 0, func(_ context.Context, m journal.Message) error {
			var batch event.CommandBatch
			if m.Subject != event.AccountSubject(0) || event.Decode(m.Data, &batch) != nil {
				return nil
			}
			if batch.Number <= marks[batch.Source] {
				return nil
			}
			marks[batch.Source] = batch.Number
			answer := &event.CommandOutcomeBatch{Source: batch.Source, Number: batch.Number, Sequence: m.Sequence}
			for _, c := range batch.Commands {
				answer.Outcomes = append(answer.Outcomes, r.command(c))
			}
			data, err := event.Encode(answer)
			if err != nil {
				return err
			}
			return nc.Publish(event.CommandOutcomeSubject(batch.Source), data)
		}, journal.FollowOptions{})
	}()
	t.Cleanup(func() { cancel(); <-done })
}

func (r *registry) user(_ context.Context, payload []byte) ([]byte, error) {
	var q event.UserRequest
	if err := event.Decode(payload, &q); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	answer := &event.UserAnswer{Status: event.UserStatus_USER_OK}
	switch a := q.Action.(type) {
	case *event.UserRequest_Register:
		email := strings.ToLower(a.Register.Email)
		if answer.User = r.users[email]; answer.User == nil {
			answer.User = &event.User{Account: a.Register.Account, Email: a.Register.Email, PasswordHash: a.Register.PasswordHash, CreatedMs: q.NowMs}
			r.users[email] = answer.User
		} else if answer.User.Account != a.Register.Account {
			answer.Status = event.UserStatus_USER_EXISTS
		}
	case *event.UserRequest_Find:
		answer.User = r.users[strings.ToLower(a.Find.Email)]
		for _, u := range r.users {
			if a.Find.Account != 0 && u.Account == a.Find.Account {
				answer.User = u
			}
		}
	case *event.UserRequest_OpenSession:
		r.sessions[string(a.OpenSession.SessionHash)] = a.OpenSession.Account
		answer.User = r.byAccount(a.OpenSession.Account)
	case *event.UserRequest_CheckSession:
		answer.User = r.byAccount(r.sessions[string(a.CheckSession.SessionHash)])
	case *event.UserRequest_CloseSession:
		delete(r.sessions, string(a.CloseSession.SessionHash))
		return event.Encode(answer)
	}
	if answer.User == nil {
		answer.Status = event.UserStatus_USER_NOT_FOUND
	}
	return event.Encode(answer)
}

func (r *registry) byAccount(account uint64) *event.User {
	for _, u := range r.users {
		if u.Account == account {
			return u
		}
	}
	return nil
}

func (r *registry) query(_ context.Context, payload []byte) ([]byte, error) {
	var q event.Query
	if err := event.Decode(payload, &q); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.accounts[q.Account]
	if o == nil {
		return event.Encode(&event.QueryAnswer{Status: event.QueryStatus_QUERY_NOT_FOUND})
	}
	return event.Encode(&event.QueryAnswer{Status: event.QueryStatus_QUERY_OK, Answer: &event.QueryAnswer_Usage{Usage: &event.UsageAnswer{
		Account: q.Account, Tier: o.Tier, KeyVersion: o.KeyVersion, CreatedMs: o.TimeMs,
	}}})
}

func (r *registry) command(c *event.Command) *event.CommandOutcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := string(c.IdempotencyId)
	if k, ok := r.kept[id]; ok && id != "" {
		if k.hash != c.BodyHash {
			return &event.CommandOutcome{Status: event.CommandStatus_COMMAND_IDEMPOTENCY_MISMATCH}
		}
		again := event.CommandOutcome{
			Status: k.outcome.Status, Replayed: true, Tier: k.outcome.Tier, KeyVersion: k.outcome.KeyVersion, KeyCreatedMs: 1, TimeMs: k.outcome.TimeMs,
		}
		return &again
	}
	o := r.execute(c)
	r.kept[id] = keptOutcome{c.BodyHash, o}
	return o
}

func (r *registry) execute(c *event.Command) *event.CommandOutcome {
	o := r.accounts[c.Account]
	switch create := c.GetCreate(); {
	case create != nil && o != nil:
		return &event.CommandOutcome{Status: event.CommandStatus_COMMAND_ACCOUNT_EXISTS}
	case create == nil && o == nil:
		return &event.CommandOutcome{Status: event.CommandStatus_COMMAND_ACCOUNT_NOT_FOUND}
	case create != nil:
		o = &event.CommandOutcome{Status: event.CommandStatus_COMMAND_OK, Tier: create.Tier, TimeMs: 1_795_000_000_000}
	}
	next := event.CommandOutcome{Status: event.CommandStatus_COMMAND_OK, Tier: o.Tier, KeyVersion: o.KeyVersion, TimeMs: o.TimeMs, KeyCreatedMs: 1}
	if c.GetRotateKey() != nil {
		next.KeyVersion++
	}
	r.accounts[c.Account] = &next
	return &next
}

// cutOff forgets every account and keeps the users.
func (r *registry) cutOff() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.accounts)
	clear(r.kept)
}

func (r *registry) counts() (users, sessions int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.users), len(r.sessions)
}

// session is the Cookie header that goes with the session of an answer; "" where it set none.
func (a *answer) session() string {
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		if c.Name == "quire_session" && c.Value != "" {
			return "Cookie: quire_session=" + c.Value
		}
	}
	return ""
}

func TestARegistrationThatWasCutOffCanBeFinished(t *testing.T) {
	w, r := newPeople(t)
	ann := obj{"email": "ann@example.org", "password": "correct horse"}
	first := w.call(t, "POST", "/api/users/register", ann).want(201, "")
	w.call(t, "POST", "/api/users/register", ann).want(409, "email_taken")

	r.cutOff()
	other := obj{"email": "ANN@example.org", "password": "another horse"}
	if stranger := w.call(t, "POST", "/api/users/register", other).want(409, "email_taken"); stranger.session() != "" {
		t.Error("somebody else was logged in")
	}
	again := w.call(t, "POST", "/api/users/register", ann).want(201, "")
	if again.str("account", "id") != first.str("account", "id") || again.session() == "" {
		t.Errorf("%s, first %s", again.raw, first.raw)
	}

	r.cutOff()
	login := w.call(t, "POST", "/api/users/login", ann).want(200, "")
	if login.str("account", "id") != first.str("account", "id") {
		t.Errorf("%s", login.raw)
	}
	w.call(t, "GET", "/api/users/user", nil, login.session()).want(200, "").wantAt("ann@example.org", "account", "email").wantAt("free", "account", "tier")
}

func TestARegistrationIsIdempotent(t *testing.T) {
	w, r := newPeople(t)
	const key = "Idempotency-Key: one"
	ann := obj{"email": "ann@example.org", "password": "correct horse"}
	first := w.call(t, "POST", "/api/users/register", ann, key).want(201, "").wantHeader("Idempotency-Replayed", "")
	again := w.call(t, "POST", "/api/users/register", ann, key).want(201, "").wantHeader("Idempotency-Replayed", "true")
	if first.raw != again.raw || again.session() == "" {
		t.Errorf("%s, then %s", first.raw, again.raw)
	}
	for _, body := range []obj{
		{"email": "ann@example.org", "password": "another horse"}, {"email": "bob@example.org", "password": "correct horse"},
	} {
		if got := w.call(t, "POST", "/api/users/register", body, key).want(422, "idempotency_mismatch"); got.session() != "" {
			t.Errorf("%v was logged in", body)
		}
	}
	if _, sessions := r.counts(); sessions != 2 {
		t.Errorf("%d sessions", sessions)
	}
	// What was refused under the key can be had without it.
	w.call(t, "POST", "/api/users/register", obj{"email": "bob@example.org", "password": "correct horse"}).want(201, "")
}

func TestANewKeyIsShownAgainUnderItsIdempotencyKey(t *testing.T) {
	w, _ := newPeople(t)
	me := w.call(t, "POST", "/api/users/register", obj{"email": "ann@example.org", "password": "correct horse"}).want(201, "").session()
	const path, key = "/api/users/user/dev-key/regenerate", "Idempotency-Key: one"
	w.call(t, "POST", path, nil).want(401, "session_required")
	w.call(t, "POST", path, nil, me, "Sec-Fetch-Site: cross-site").want(403, "cross_origin")
	w.call(t, "POST", path, obj{"version": 1}, me).want(400, "unknown_field")
	first := w.call(t, "POST", path, nil, me, key).want(200, "").wantAt(1, "key", "version").wantHeader("Idempotency-Replayed", "")
	second := w.call(t, "POST", path, obj{}, me).want(200, "").wantAt(2, "key", "version")
	again := w.call(t, "POST", path, nil, me, key).want(200, "").wantHeader("Idempotency-Replayed", "true")
	if again.raw != first.raw || first.str("apiKey") == second.str("apiKey") {
		t.Errorf("%s, then %s", first.raw, again.raw)
	}
	secret, err := apikey.NewSecret([]byte(testSecret))
	if err != nil {
		t.Fatal(err)
	}
	k, err := secret.Parse(second.str("apiKey"))
	if err != nil || k.Version != 2 || !strings.HasPrefix(second.str("apiKey"), second.str("key", "prefix")) {
		t.Errorf("%s: %v", second.raw, err)
	}
}

func TestSessionsEndWithTheLogout(t *testing.T) {
	w, r := newPeople(t)
	me := w.call(t, "POST", "/api/users/register", obj{"email": "ann@example.org", "password": "correct horse"}).want(201, "").session()
	w.call(t, "POST", "/api/users/logout", nil, me, "Origin: https://evil.example").want(403, "cross_origin")
	w.call(t, "GET", "/api/users/user/dev-usage", nil, me).want(200, "")
	w.call(t, "POST", "/api/users/logout", nil, me, "Origin: "+w.url).want(200, "")
	for _, path := range []string{"/api/users/user", "/api/users/user/dev-usage", "/api/users/user/credits", "/api/users/user/statements/2026-11"} {
		w.call(t, "GET", path, nil, me).want(401, "session_required")
		w.call(t, "GET", path, nil).want(401, "api_key_required")
		w.call(t, "GET", path, nil, me, "x-api-key: wrong").want(401, "invalid_api_key")
	}
	w.call(t, "POST", "/api/users/logout", nil, me).want(200, "")
	w.call(t, "POST", "/api/users/logout", nil).want(200, "")
	if _, sessions := r.counts(); sessions != 0 {
		t.Errorf("%d sessions are left", sessions)
	}
}

func TestGuessingLoginsIsLimitedBySource(t *testing.T) {
	w, _ := newPeople(t)
	ann := obj{"email": "ann@example.org", "password": "correct horse"}
	w.call(t, "POST", "/api/users/register", ann).want(201, "")
	for range 101 { // wrong admin tokens and keys count for the same source, and cost nothing to check
		w.call(t, "GET", "/api/users/user", nil, "x-api-key: wrong").want(401, "invalid_api_key")
	}
	w.call(t, "POST", "/api/users/login", ann).want(429, "too_many_failures")
	w.call(t, "POST", "/api/users/register", obj{"email": "bob@example.org", "password": "correct horse"}).want(429, "too_many_failures")
}
