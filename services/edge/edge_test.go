package edge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/document"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/views/sqlite"
	"quire.dev/services/edge"
)

// These tests cover what needs a misbehaving billing or a short time-out. services/standalone/scenario covers all else that
// clients rely on, against the whole product.

const testSecret = "a secret of the edge's tests"

type component interface {
	Run(context.Context) error
	Ready() <-chan struct{}
}

// run runs a component until the test ends, and returns once it is ready.
func run(t *testing.T, name string, c component) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	select {
	case <-c.Ready():
	case <-time.After(30 * time.Second):
		t.Fatalf("%s is not ready", name)
	}
}

// ensure creates the one stream of a domain.
func ensure(t *testing.T, nc *nats.Conn, d event.Domain) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := journal.Ensure(ctx, nc, []journal.Stream{{
		Domain: string(d), Name: d.Stream(0), Subjects: d.Subjects(0), KeepForever: d == event.Billing,
	}}, 1)
	if err != nil {
		t.Fatal(err)
	}
}

// follow calls fold for each message of billing's journal until the test ends.
func follow(t *testing.T, nc *nats.Conn, fold func(m journal.Message) (subject string, answer event.Message)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = journal.Open(nc, event.Billing.Stream(0)).Follow(ctx, 0, func(_ context.Context, m journal.Message) error {
			subject, answer := fold(m)
			if subject == "" {
				return nil
			}
			data, err := event.Encode(answer)
			if err != nil {
				return err
			}
			return nc.Publish(subject, data)
		}, journal.FollowOptions{})
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// answer is an HTTP answer.
type answer struct {
	status int
	header http.Header
	raw    string
	body   struct {
		Code, ID  string
		Remaining int64
		Account   struct{ ID, Email, Tier string }
	}
}

// call sends a request and checks the answer's status and error code. header is "Name: value" lines; body is a string, or a
// value that is sent as JSON.
func call(t *testing.T, method, url string, body any, status int, code string, header ...string) *answer {
	t.Helper()
	text, plain := body.(string)
	if !plain && body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		text, header = string(data), append(header, "Content-Type: application/json")
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := &answer{status: res.StatusCode, header: res.Header, raw: string(data)}
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&a.body); err != nil {
		t.Fatalf("%s %s: %.300q: %v", method, url, data, err)
	}
	if a.status != status || a.body.Code != code {
		t.Errorf("%s %s: %d %.300s, want %d %s", method, url, a.status, a.raw, status, code)
	}
	return a
}

// generousBilling admits and counts everything.
type generousBilling struct {
	mu                       sync.Mutex
	admitted, served, voided int
}

func (b *generousBilling) fold(m journal.Message) (string, event.Message) {
	var batch event.UsageBatch
	asked := m.Subject == event.UsageSubject(0)
	if !asked && m.Subject != event.File.SettleSubject(0) || event.Decode(m.Data, &batch) != nil {
		return "", nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	verdicts := &event.VerdictBatch{Source: batch.Source, Number: batch.Number, TimeMs: batch.StampMs, Sequence: m.Sequence}
	for range batch.Admissions {
		b.admitted++
		verdicts.Verdicts = append(verdicts.Verdicts, &event.Verdict{
			Decision: event.Decision_ADMITTED, Charge: event.ChargeSource_CHARGE_QUOTA, Limit: 1000, Remaining: 999, ResetSeconds: 3600,
		})
	}
	for _, of := range batch.Served {
		b.served += max(1, len(of.Places))
	}
	for _, s := range batch.Settlements {
		if s.Result == event.Result_SERVED {
			b.served++
		} else {
			b.voided++
		}
	}
	if !asked {
		return "", nil
	}
	return event.VerdictSubject(batch.Source), verdicts
}

func (b *generousBilling) has(admitted, served, voided int) func() bool {
	return func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.admitted == admitted && b.served == served && b.voided == voided
	}
}

// TestAnUploadThatTookLongIsAdmittedAnew: billing voids a hold that has been open for two minutes. A client may take longer
// to send a file, so the edge voids such an admission and asks for another.
func TestAnUploadThatTookLongIsAdmittedAnew(t *testing.T) {
	billing, path, key, _ := startFiles(t, 1)
	made := call(t, "POST", path+"upload?name=a", "slow", 201, "", key, "Idempotency-Key: a")
	if made.body.Remaining != 999 {
		t.Errorf("%s", made.raw)
	}
	eventually.True(t, "one admission is served, and one given back", billing.has(2, 1, 1))
	again := call(t, "POST", path+"upload?name=a", "slow", 201, "", key, "Idempotency-Key: a")
	if made.raw != again.raw || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("first %s, then %s", made.raw, again.raw)
	}
	call(t, "GET", path+"get/"+made.body.ID, nil, 200, "", key)
}

// TestAReadThatPanicsCostsNothing: its admission is voided, as for any call that fails.
func TestAReadThatPanicsCostsNothing(t *testing.T) {
	billing, path, key, blobs := startFiles(t, time.Minute)
	made := call(t, "POST", path+"upload?name=a", "bytes", 201, "", key)
	eventually.True(t, "the upload is served", billing.has(1, 1, 0))
	blobs.panics.Store(true)
	call(t, "GET", path+"get/"+made.body.ID+"?download=1", nil, 500, "internal", key)
	eventually.True(t, "the read is given back", billing.has(2, 1, 1))
	blobs.panics.Store(false)
	call(t, "GET", path+"get/"+made.body.ID, nil, 200, "", key)
	eventually.True(t, "the next one is served", billing.has(3, 2, 1))
}

// panickyBlobs panic on reads while told to.
type panickyBlobs struct {
	blob.Store
	panics atomic.Bool
}

func (b *panickyBlobs) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, blob.Info, error) {
	if b.panics.Load() {
		panic("on purpose")
	}
	return b.Store.Get(ctx, key, offset, length)
}

// startFiles starts an edge and the file service. It returns the path of the files and a header with a key.
func startFiles(t *testing.T, admissionAge time.Duration) (billing *generousBilling, path, key string, blobs *panickyBlobs) {
	t.Helper()
	server := journaltest.Start(t)
	nc := server.Conn(t)
	ensure(t, nc, event.Billing)
	ensure(t, nc, event.File)
	billing = &generousBilling{}
	follow(t, nc, billing.fold)
	serve(t, nc, event.QuerySubject(0), func([]byte) ([]byte, error) {
		return event.Encode(&event.QueryAnswer{Status: event.QueryStatus_QUERY_OK, Answer: &event.QueryAnswer_Usage{Usage: &event.UsageAnswer{Account: 1001}}})
	})
	folder, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })
	blobs = &panickyBlobs{Store: folder}
	store, err := sqlite.Open(t.Context(), sqlite.Config{
		Path: filepath.Join(t.TempDir(), "views.db"), Collections: document.Collections(event.File), Synchronous: sqlite.Normal,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	files, err := document.New(document.Config{Policy: fold.Files(), PartitionCount: 1}, document.Deps{NC: server.Conn(t), Views: store, Blobs: blobs})
	if err != nil {
		t.Fatal(err)
	}
	run(t, "files", files)
	service, err := edge.New(edge.Config{
		Listen: "127.0.0.1:0", Secret: []byte(testSecret), Partitions: 1, AdmissionAge: admissionAge,
	}, edge.Deps{NC: server.Conn(t), Blobs: blobs})
	if err != nil {
		t.Fatal(err)
	}
	run(t, "edge", service)

	secret, err := apikey.NewSecret([]byte(testSecret))
	if err != nil {
		t.Fatal(err)
	}
	key = "X-Api-Key: " + secret.Format(apikey.Key{Account: 1001, Version: 1, Nonce: 1})
	return billing, "http://" + service.Addr() + "/api/dev/files/", key, blobs
}

// registry fakes billing's users and accounts. It can lose the accounts: an interrupted registration leaves a user without
// one.
type registry struct {
	mu       sync.Mutex
	users    map[string]*event.User // by email, lower case
	sessions map[string]uint64      // accounts
	accounts map[uint64]uint32      // tiers
	deletes  map[uint64]int64       // when accounts will be deleted
	lacking  bool                   // billing has noticed that users are missing
	erased   map[uint64]bool
}

func (r *registry) user(q *event.UserRequest) *event.UserAnswer {
	r.mu.Lock()
	defer r.mu.Unlock()
	answer := &event.UserAnswer{Status: event.UserStatus_USER_OK}
	switch a := q.Action.(type) {
	case *event.UserRequest_Register:
		email := strings.ToLower(a.Register.Email)
		if answer.User = r.users[email]; answer.User == nil && r.lacking {
			answer.UsersMissing = true
		} else if answer.User == nil {
			answer.User = &event.User{Account: a.Register.Account, Email: a.Register.Email, PasswordHash: a.Register.PasswordHash, CreatedMs: q.NowMs}
			r.users[email] = answer.User
		} else if answer.User.Account != a.Register.Account {
			answer.Status = event.UserStatus_USER_EXISTS
		}
	case *event.UserRequest_Find:
		if answer.User = r.users[strings.ToLower(a.Find.Email)]; answer.User == nil {
			answer.User = r.byAccount(a.Find.Account)
		}
		answer.UsersMissing = r.lacking && a.Find.Email != ""
	case *event.UserRequest_OpenSession:
		r.sessions[string(a.OpenSession.SessionHash)] = a.OpenSession.Account
		answer.User = r.byAccount(a.OpenSession.Account)
	case *event.UserRequest_CheckSession:
		answer.User = r.byAccount(r.sessions[string(a.CheckSession.SessionHash)])
	case *event.UserRequest_SetDeletion:
		answer.User = r.byAccount(a.SetDeletion.Account)
		answer.User.Deletion = a.SetDeletion.Deletion
	}
	if answer.User == nil {
		answer.Status = event.UserStatus_USER_NOT_FOUND
	}
	return answer
}

func (r *registry) byAccount(account uint64) *event.User {
	for _, u := range r.users {
		if u.Account == account {
			return u
		}
	}
	return nil
}

func (r *registry) query(q *event.Query) *event.QueryAnswer {
	r.mu.Lock()
	defer r.mu.Unlock()
	tier, exists := r.accounts[q.Account]
	if !exists {
		return &event.QueryAnswer{Status: event.QueryStatus_QUERY_NOT_FOUND}
	}
	erased := int64(0)
	if r.erased[q.Account] {
		erased = 1
	}
	return &event.QueryAnswer{Status: event.QueryStatus_QUERY_OK, Answer: &event.QueryAnswer_Usage{
		Usage: &event.UsageAnswer{Account: q.Account, Tier: tier, CreatedMs: 1, DeletesMs: r.deletes[q.Account], ErasedMs: erased},
	}}
}

func (r *registry) fold(m journal.Message) (string, event.Message) {
	var batch event.CommandBatch
	if m.Subject != event.AccountSubject(0) || event.Decode(m.Data, &batch) != nil {
		return "", nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	outcomes := &event.CommandOutcomeBatch{Source: batch.Source, Number: batch.Number, Sequence: m.Sequence}
	for _, c := range batch.Commands {
		status := event.CommandStatus_COMMAND_OK
		if c.GetKeepAccount() != nil {
			delete(r.deletes, c.Account)
		} else if _, exists := r.accounts[c.Account]; exists {
			status = event.CommandStatus_COMMAND_ACCOUNT_EXISTS
		} else {
			r.accounts[c.Account] = c.GetCreate().GetTier()
		}
		outcomes.Outcomes = append(outcomes.Outcomes, &event.CommandOutcome{Status: status, Tier: r.accounts[c.Account], TimeMs: 1})
	}
	return event.CommandOutcomeSubject(batch.Source), outcomes
}

// cutOff deletes every account and keeps the users.
func (r *registry) cutOff() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.accounts)
}

// session returns the Cookie header for the session that an answer set; "" if it set none.
func (a *answer) session() string {
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		if c.Name == "quire_session" && c.Value != "" {
			return "Cookie: quire_session=" + c.Value
		}
	}
	return ""
}

// startRegistry starts an edge, and returns the fake billing and the base of the edge's paths for users.
func startRegistry(t *testing.T) (r *registry, path string) {
	t.Helper()
	server := journaltest.Start(t)
	nc := server.Conn(t)
	ensure(t, nc, event.Billing)
	r = &registry{
		users: map[string]*event.User{}, sessions: map[string]uint64{}, accounts: map[uint64]uint32{}, deletes: map[uint64]int64{},
		erased: map[uint64]bool{},
	}
	serve(t, nc, event.UserSubject, func(payload []byte) ([]byte, error) {
		var q event.UserRequest
		if err := event.Decode(payload, &q); err != nil {
			return nil, err
		}
		return event.Encode(r.user(&q))
	})
	serve(t, nc, event.QuerySubject(0), func(payload []byte) ([]byte, error) {
		var q event.Query
		if err := event.Decode(payload, &q); err != nil {
			return nil, err
		}
		return event.Encode(r.query(&q))
	})
	follow(t, nc, r.fold)
	service, err := edge.New(edge.Config{Listen: "127.0.0.1:0", Secret: []byte(testSecret), Partitions: 1}, edge.Deps{NC: server.Conn(t)})
	if err != nil {
		t.Fatal(err)
	}
	run(t, "edge", service)

	return r, "http://" + service.Addr() + "/api/users/"
}

// TestASignInGoesByTheJournal: a concurrent call may have overwritten the user's record.
func TestASignInGoesByTheJournal(t *testing.T) {
	r, path := startRegistry(t)
	ann := map[string]string{"email": "ann@example.org", "password": "correct horse"}
	call(t, "POST", path+"register", ann, 201, "")
	r.mu.Lock()
	account := r.users["ann@example.org"].Account
	r.deletes[account] = 1 << 40
	r.mu.Unlock()
	if asked := call(t, "POST", path+"login", ann, 409, "deletion_scheduled"); !strings.Contains(asked.raw, `"deletesAt":"2004-11-03T19:53:47.776Z"`) || asked.session() != "" {
		t.Errorf("%s", asked.raw)
	}
	call(t, "POST", path+"login", map[string]string{"email": "ann@example.org", "password": "not correct"}, 401, "invalid_credentials")
	r.mu.Lock()
	if r.deletes[account] == 0 {
		t.Error("a sign-in without consent has canceled the deletion")
	}
	r.mu.Unlock()
	back := call(t, "POST", path+"login", map[string]any{"email": "ann@example.org", "password": "correct horse", "cancelDeletion": true}, 200, "")
	if !strings.Contains(back.raw, `"deletionUndone":true`) || strings.Contains(back.raw, "deletesAt") || back.session() == "" {
		t.Errorf("%s", back.raw)
	}
	if again := call(t, "POST", path+"login", ann, 200, ""); strings.Contains(again.raw, "deletionUndone") {
		t.Errorf("%s", again.raw)
	}
	r.mu.Lock()
	r.erased[account] = true
	r.mu.Unlock()
	if gone := call(t, "POST", path+"login", ann, 401, "invalid_credentials"); gone.session() != "" {
		t.Error("a session of an account that was erased is opened")
	}
}

// TestALoginSaysThatUsersAreMissing: a lost user must not read that the password is wrong, and nobody else may take the address. The
// answer does not tell which addresses are known.
func TestALoginSaysThatUsersAreMissing(t *testing.T) {
	r, path := startRegistry(t)
	ann := map[string]string{"email": "ann@example.org", "password": "correct horse"}
	call(t, "POST", path+"register", ann, 201, "")
	r.mu.Lock()
	r.lacking = true
	r.mu.Unlock()
	call(t, "POST", path+"login", ann, 200, "")
	bob := map[string]string{"email": "bob@example.org", "password": "correct horse"}
	lost := call(t, "POST", path+"login", bob, 503, "unavailable")
	wrong := call(t, "POST", path+"login", map[string]string{"email": "ann@example.org", "password": "wrong horse"}, 503, "unavailable")
	taken := call(t, "POST", path+"register", bob, 503, "unavailable")
	for _, a := range []*answer{lost, wrong, taken} {
		if !strings.Contains(a.raw, "records of users are missing") || a.header.Get("Retry-After") != "60" {
			t.Errorf("%s, retry after %q", a.raw, a.header.Get("Retry-After"))
		}
	}
	form, err := http.NewRequestWithContext(t.Context(), http.MethodPost, strings.TrimSuffix(path, "/api/users/")+"/console/sign-in",
		strings.NewReader("email=bob@example.org&password=x"))
	if err != nil {
		t.Fatal(err)
	}
	form.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"text/html"}}
	page, err := http.DefaultClient.Do(form)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	shown, err := io.ReadAll(page.Body)
	if err != nil || page.StatusCode != 503 || !bytes.Contains(shown, []byte("<form")) || !bytes.Contains(shown, []byte("records of users are missing")) {
		t.Errorf("%d, %v: %s", page.StatusCode, err, shown)
	}
	r.mu.Lock()
	r.lacking = false
	r.mu.Unlock()
	call(t, "POST", path+"login", bob, 401, "invalid_credentials")
}

// TestNobodyGetsTheIDOfAnErasedAccount, not even by the Idempotency-Key that created it.
func TestNobodyGetsTheIDOfAnErasedAccount(t *testing.T) {
	r, path := startRegistry(t)
	ann := map[string]string{"email": "ann@example.org", "password": "correct horse"}
	seen := map[string]bool{}
	for range 3 {
		made := call(t, "POST", path+"register", ann, 201, "", "Idempotency-Key: register")
		if seen[made.body.Account.ID] {
			t.Fatalf("made again: %s", made.raw)
		}
		seen[made.body.Account.ID] = true
		r.mu.Lock()
		r.erased[r.users["ann@example.org"].Account] = true
		clear(r.users)
		r.mu.Unlock()
	}
}

func TestARegistrationThatWasCutOffCanBeFinished(t *testing.T) {
	r, path := startRegistry(t)
	ann := map[string]string{"email": "ann@example.org", "password": "correct horse"}
	first := call(t, "POST", path+"register", ann, 201, "")
	call(t, "POST", path+"register", ann, 409, "email_taken")

	r.cutOff()
	stranger := call(t, "POST", path+"register", map[string]string{"email": "ANN@example.org", "password": "another horse"}, 409, "email_taken")
	if stranger.session() != "" {
		t.Error("somebody else was logged in")
	}
	again := call(t, "POST", path+"register", ann, 201, "")
	if again.body.Account.ID != first.body.Account.ID || again.session() == "" {
		t.Errorf("%s, first %s", again.raw, first.raw)
	}

	r.cutOff()
	login := call(t, "POST", path+"login", ann, 200, "")
	if login.body.Account.ID != first.body.Account.ID {
		t.Errorf("%s", login.raw)
	}
	profile := call(t, "GET", path+"user", nil, 200, "", login.session())
	if profile.body.Account.Email != "ann@example.org" || profile.body.Account.Tier != "free" {
		t.Errorf("%s", profile.raw)
	}
}

// TestEdgesTellEachOtherOfViews: a source that exhausted its limit on one edge is refused by the other too.
func TestEdgesTellEachOtherOfViews(t *testing.T) {
	server := journaltest.Start(t)
	var edges []*edge.Service
	for range 2 {
		service, err := edge.New(edge.Config{Listen: "127.0.0.1:0", Secret: []byte(testSecret), Partitions: 1}, edge.Deps{NC: server.Conn(t)})
		if err != nil {
			t.Fatal(err)
		}
		run(t, "edge", service)
		edges = append(edges, service)
	}
	view := func(of *edge.Service) int {
		res, err := http.Get("http://" + of.Addr() + "/p/x") // not an id: no service is asked
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode
	}
	for calls := 0; view(edges[0]) == http.StatusNotFound; calls++ {
		if calls == 1000 {
			t.Fatal("the first edge never refuses")
		}
	}
	answered := 0
	eventually.True(t, "the second edge refuses", func() bool {
		status := view(edges[1])
		if status == http.StatusNotFound {
			answered++
		}
		return status == http.StatusTooManyRequests
	})
	if answered >= 300 { // the limit of a single edge
		t.Errorf("the second edge answered %d calls", answered)
	}
}
