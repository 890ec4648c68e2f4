package load

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

const fakeToken = "a token"

// fake is a Quire in memory with two edges, and with the parts of the API that the checker uses. It can be made to lie.
type fake struct {
	mu       sync.Mutex
	lie      lie
	lied     int
	requests int
	faults   bool // some calls have no answer, or 503, or 504
	random   *rand.Rand
	accounts map[string]*fakeAccount // by id
	keys     map[string]*fakeKey
	docs     map[string]*fakeDoc
	guests   map[string]int         // keyless creations, by source
	outcomes map[string]*fakeAnswer // by account, endpoint and Idempotency-Key
	ids      int
}

type fakeAccount struct {
	id, tier      string
	used, overage map[string]int64
	spent         map[string]int64
	granted, gone int64
	version       int
	key           string
	ledger        []entry
}

type fakeKey struct {
	account *fakeAccount
	version int
}

type fakeDoc struct {
	owner   *fakeAccount
	content string
	deleted bool
	file    bool
	burns   bool
	burned  bool
}

type fakeAnswer struct {
	status int
	header map[string]string
	body   map[string]any
	raw    []byte
}

// lie is a way in which the fake breaks its promises.
type lie string

func newFake(t *testing.T, l lie, faults bool) (*fake, []string) {
	t.Helper()
	f := &fake{
		lie: l, faults: faults, random: rand.New(rand.NewPCG(7, 7)),
		accounts: map[string]*fakeAccount{}, keys: map[string]*fakeKey{}, docs: map[string]*fakeDoc{}, guests: map[string]int{}, outcomes: map[string]*fakeAnswer{},
	}
	var bases []string
	for base := range 2 {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.serve(w, r, base) }))
		t.Cleanup(server.Close)
		bases = append(bases, server.URL)
	}
	return f, bases
}

// lies reports whether to tell the lie now, which it does for one call in oneIn.
func (f *fake) lies(l lie, oneIn int) bool {
	if f.lie != l || f.random.IntN(oneIn) != 0 {
		return false
	}
	f.lied++
	return true
}

func failure(status int, code string) *fakeAnswer {
	return &fakeAnswer{status: status, body: map[string]any{"success": false, "code": code, "reason": code}}
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request, base int) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.mu.Lock()
	f.requests++
	fault := 0
	if f.faults && !strings.HasPrefix(r.URL.Path, "/api/admin") {
		fault = f.random.IntN(24)
	}
	var a *fakeAnswer
	switch fault {
	case 1:
		a = failure(503, "unavailable")
	case 2:
		a = failure(504, "outcome_unknown")
	case 3:
		a = &fakeAnswer{} // not done, no answer
	default:
		a = f.answer(r, body, base)
	}
	f.mu.Unlock()
	switch fault {
	case 4: // done, but not answered
		panic(http.ErrAbortHandler)
	case 5:
		a = failure(504, "outcome_unknown")
	}
	if a.status == 0 {
		panic(http.ErrAbortHandler)
	}
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	w.Header().Set("X-Request-Id", "a-request")
	if a.raw == nil {
		if a.raw, err = json.Marshal(a.body); err != nil {
			panic(err)
		}
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.raw) // the client may be gone
}

func (f *fake) answer(r *http.Request, body []byte, base int) *fakeAnswer {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/"), "/")
	var fields map[string]any
	_ = json.Unmarshal(body, &fields) // uploads are no JSON
	switch {
	case !strings.HasPrefix(r.URL.Path, "/api/"):
		return f.metered(r, []string{"paste-lite", "create"}, fields, body, base)
	case parts[0] == "dev" && (parts[2] == "list" || parts[2] == "versions"), parts[0] == "users" && r.Header.Get("x-api-key") != "":
		return f.unmetered(r, base)
	case parts[0] == "dev":
		return f.metered(r, parts[1:], fields, body, base)
	}
	admin := r.Header.Get("Authorization") == "Bearer "+fakeToken
	if parts[0] == "admin" && !admin {
		return failure(401, "admin_token_required")
	}
	switch path := r.Method + " " + r.URL.Path; {
	case path == "POST /api/admin/audit":
		return &fakeAnswer{status: 200, body: map[string]any{"match": base == 0 || !f.lies("audit", 1)}}
	case path == "POST /api/admin/accounts":
		a := f.account(fields["tier"].(string))
		return &fakeAnswer{status: 201, body: map[string]any{"account": map[string]any{"id": a.id}, "apiKey": f.rotate(a)}}
	case path == "POST /api/users/register":
		a := f.account("free")
		return &fakeAnswer{status: 201, body: map[string]any{"account": map[string]any{"id": a.id}}}
	case r.Method == "GET":
		return f.usage(f.accounts[parts[2]])
	case strings.HasSuffix(path, "/key/regenerate"):
		return f.regenerate(f.accounts[parts[2]], r)
	case parts[3] == "tier":
		f.accounts[parts[2]].tier = fields["tier"].(string)
	default:
		a := f.accounts[parts[2]]
		a.granted, _ = micros(fields["amount"].(string))
		a.ledger = append(a.ledger, entry{ID: "grant", Type: "grant", Amount: formatMicros(a.granted), Balance: formatMicros(a.granted)})
	}
	return &fakeAnswer{status: 200, body: map[string]any{"success": true}}
}

// keyOf returns the account of the call's key, or the refusal of a key that is not current.
func (f *fake) keyOf(r *http.Request, base int) (*fakeAccount, *fakeAnswer) {
	k := f.keys[r.Header.Get("x-api-key")]
	if k == nil || k.version != k.account.version && (base == 0 || !f.lies("old key", 1)) {
		return nil, failure(401, "invalid_api_key")
	}
	return k.account, nil
}

// unmetered serves what takes a key and is not metered.
func (f *fake) unmetered(r *http.Request, base int) *fakeAnswer {
	a, refusal := f.keyOf(r, base)
	switch path := r.URL.Path; {
	case refusal != nil && f.lies("old key is listed", 1):
		return &fakeAnswer{status: 200, body: map[string]any{}}
	case refusal != nil:
		return refusal
	case strings.HasSuffix(path, "/credits"):
		return &fakeAnswer{status: 200, body: map[string]any{"entries": f.ledger(a), "hasMore": false}}
	case strings.HasSuffix(path, "/dev-usage"):
		return f.usage(a)
	case strings.Contains(path, "/statements/"):
		return f.statement(a)
	}
	return &fakeAnswer{status: 200, body: map[string]any{}}
}

// statement has the figures of the usage under other names.
func (f *fake) statement(a *fakeAccount) *fakeAnswer {
	lines := map[string]any{}
	requests, spent := int64(0), int64(0)
	for key, used := range a.used {
		if f.lies("statement", 1) {
			used++
		}
		lines[key] = map[string]any{"requests": used, "overage": a.overage[key], "creditsSpent": formatMicros(a.spent[key])}
		requests += used
		spent += a.spent[key]
	}
	for _, key := range fakeQuotaKeys() {
		if lines[key] == nil {
			lines[key] = map[string]any{"creditsSpent": formatMicros(0)}
		}
	}
	return &fakeAnswer{status: 200, body: map[string]any{"usage": lines, "requests": requests, "creditsSpent": formatMicros(spent)}}
}

func fakeQuotaKeys() []string {
	var keys []string
	for _, d := range []string{"pasteLite", "pastes", "files"} {
		for _, verb := range []string{"create", "upload", "get", "update", "delete"} {
			keys = append(keys, d+"."+verb)
		}
	}
	return keys
}

func (f *fake) account(tier string) *fakeAccount {
	f.ids++
	a := &fakeAccount{id: fmt.Sprintf("account%d", f.ids), tier: tier, used: map[string]int64{}, overage: map[string]int64{}, spent: map[string]int64{}}
	f.accounts[a.id] = a
	return a
}

func (f *fake) rotate(a *fakeAccount) string {
	a.version++
	a.key = fmt.Sprintf("key-%s-%d", a.id, a.version)
	f.keys[a.key] = &fakeKey{a, a.version}
	return a.key
}

func (f *fake) regenerate(a *fakeAccount, r *http.Request) *fakeAnswer {
	id := a.id + " " + r.Header.Get(headerIdempotency)
	if done := f.outcomes[id]; done != nil {
		return done
	}
	done := &fakeAnswer{status: 200, body: map[string]any{"apiKey": f.rotate(a), "key": map[string]any{"version": a.version}}}
	f.outcomes[id] = done
	return done
}

// ledger returns the entries, the newest first.
func (f *fake) ledger(a *fakeAccount) []entry {
	out := []entry{}
	for _, e := range a.ledger {
		out = append([]entry{e}, out...)
	}
	return out
}

func (f *fake) usage(a *fakeAccount) *fakeAnswer {
	keys := map[string]any{}
	total := int64(0)
	for _, key := range fakeQuotaKeys() {
		limit, _ := f.limit(a, key)
		keys[key] = map[string]any{"used": a.used[key], "overage": a.overage[key], "limit": limit, "creditsSpent": formatMicros(a.spent[key])}
		total += a.spent[key]
	}
	stored := 0
	for _, d := range f.docs {
		if d.file && d.owner == a && !d.deleted {
			stored += len(d.content)
		}
	}
	if stored > 0 && f.lies("storage", 1) {
		stored--
	}
	return &fakeAnswer{status: 200, body: map[string]any{
		"usage": keys, "credits": map[string]any{"balance": formatMicros(a.granted - a.gone), "spentThisPeriod": formatMicros(total)},
		"storage": map[string]any{"usedBytes": stored},
	}}
}

// limit returns the limit of a tier and the price beyond it. The limits are much smaller than those of Quire.
func (f *fake) limit(a *fakeAccount, key string) (limit, price int64) {
	prices := map[string]int64{"pasteLite.create": 500, "pastes.create": 2000, "files.upload": 5000, "files.delete": 500}
	switch {
	case a.tier == "admin":
		return -1, 0
	case a.tier == "free" && !strings.HasPrefix(key, "pasteLite."):
		return 0, 0
	case a.tier == "free":
		return 3, 0
	}
	return 5, prices[key]
}

// formatMicros writes an amount in the form that micros reads.
func formatMicros(v int64) string {
	sign := ""
	if v < 0 {
		sign, v = "-", -v
	}
	return fmt.Sprintf("%s%d.%06d", sign, v/1_000_000, v%1_000_000)
}
