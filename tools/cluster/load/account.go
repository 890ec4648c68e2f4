package load

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// account is an account created by New, with its calls.
type account struct {
	name, id, key string

	mu      sync.Mutex
	tallies map[string]*tally // by quota key
	stored  stored
}

// stored bounds the bytes of an account's files.
type stored struct {
	least atomic.Int64 // of uploads that were acknowledged, without those whose deletion may have happened
	most  atomic.Int64 // of uploads that may have happened, without those whose deletion was acknowledged
}

// upload adds an upload of that size according to its answer.
func (s *stored) upload(size int, o outcome) {
	s.change(int64(size), o, &s.least, &s.most)
}

// deletion removes a file of that size according to the answer to its deletion.
func (s *stored) deletion(size int, o outcome) {
	s.change(-int64(size), o, &s.most, &s.least)
}

// change adds bytes to both bounds if the change was acknowledged, and to one if it may have happened.
func (*stored) change(bytes int64, o outcome, sure, perhaps *atomic.Int64) {
	switch o {
	case ackedOutcome:
		sure.Add(bytes)
		perhaps.Add(bytes)
	case unknownOutcome:
		perhaps.Add(bytes)
	case refusedOutcome, unavailableOutcome:
	}
}

// tally bounds the number of calls that Quire may count under a quota key.
type tally struct {
	acked       atomic.Int64 // answered with 2xx, so counted
	unknown     atomic.Int64 // without an answer, so perhaps counted
	unavailable atomic.Int64 // answered with 503, so not counted
	// void says that calls without an answer are not counted once their holds are closed, since these calls can only fail.
	void bool
}

// meter adds an answer to the tally of a quota key.
func (a *account) meter(quotaKey string, ans *answer) {
	t := a.tally(quotaKey)
	switch ans.effect() {
	case ackedOutcome:
		t.acked.Add(1)
	case unknownOutcome:
		t.unknown.Add(1)
	case unavailableOutcome:
		t.unavailable.Add(1)
	case refusedOutcome:
	}
}

func (a *account) tally(quotaKey string) *tally {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.tallies[quotaKey]
	if t == nil {
		t = &tally{}
		a.tallies[quotaKey] = t
	}
	return t
}

// newAccount creates an account with the admin API. name is for findings.
func (l *Load) newAccount(ctx context.Context, name, tier string) (*account, error) {
	number := l.next()
	a, err := l.sure(ctx, call{
		kind: Admin, method: http.MethodPost, path: "/api/admin/accounts", admin: true, idempotency: l.newKey(), home: int(number),
		body: fmt.Appendf(nil, `{"email":"load-%s-%d@example.org","tier":%q}`, l.run, number, tier),
	})
	if err != nil {
		return nil, err
	}
	var made struct {
		Account struct{ ID string }
		APIKey  string
	}
	if err := json.Unmarshal(a.body, &made); err != nil || made.Account.ID == "" || made.APIKey == "" {
		return nil, fmt.Errorf("load: no account in %s", a)
	}
	return &account{name: name, id: made.Account.ID, key: made.APIKey, tallies: map[string]*tally{}}, nil
}

// makeAnchor creates a quick paste that is never edited, and returns its id.
func (l *Load) makeAnchor(ctx context.Context, a *account) (string, error) {
	made, err := l.sure(ctx, call{
		kind: Lite, method: http.MethodPost, path: "/api/dev/paste-lite/create", body: []byte(`{"content":"an anchor"}`),
		key: a.key, idempotency: l.newKey(),
	})
	if err != nil {
		return "", err
	}
	a.tally("pasteLite.create").acked.Add(1)
	return made.id(), nil
}

// usage is the part of an account's month that is checked.
type usage struct {
	base   int
	Period struct{ Start string }
	Usage  map[string]struct {
		Used, Overage, Limit int64
		CreditsSpent         string
	}
	Credits struct{ Balance, SpentThisPeriod string }
	Storage struct{ UsedBytes int64 }
}

func (l *Load) usage(ctx context.Context, id string, base int) (*usage, error) {
	a, err := l.patient(ctx, call{kind: Admin, method: http.MethodGet, path: "/api/admin/accounts/" + id, admin: true, home: base, only: true})
	if err != nil {
		return nil, err
	}
	u := &usage{base: base}
	if err := json.Unmarshal(a.body, u); err != nil {
		return nil, fmt.Errorf("usage in %s: %w", a, err)
	}
	return u, nil
}

// checkStorage compares the bytes of the files with what uploads and deletions say. An upload counts once it is answered, a
// deletion once it is settled.
func (a *account) checkStorage(u *usage, least, most int64, settled bool, f *findings) {
	if used := u.Storage.UsedBytes; used < least || settled && used > most {
		f.note(wrongStorage, "%s account %s through base %d: %d bytes are stored, want %d to %d", a.name, a.id, u.base, used, least, most)
	}
}

// check compares the usage with the tallies. A quota key without a tally must be at 0.
func (a *account) check(u *usage, settled bool, f *findings) {
	a.checkStorage(u, a.stored.least.Load(), a.stored.most.Load(), settled, f)
	for _, quotaKey := range slices.Sorted(maps.Keys(u.Usage)) {
		t := a.tally(quotaKey)
		used, low, high := u.Usage[quotaKey].Used, t.acked.Load(), t.acked.Load()+t.unknown.Load()
		if t.void && settled {
			high = low
		}
		if used < low || used > high {
			f.note(wrongCounts, "%s of %s account %s through base %d: %d counted, want %d to %d: %d calls acknowledged, %d without an answer, %d answered 503",
				quotaKey, a.name, a.id, u.base, used, low, high, low, t.unknown.Load(), t.unavailable.Load())
		}
	}
}

// micros reads an amount of credits in the form of docs/api.md, Money, which has six places. It returns millionths.
func micros(text string) (int64, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	v, err := strconv.ParseInt(whole+fraction, 10, 64)
	if err != nil || len(fraction) != 6 || whole == "" {
		return 0, fmt.Errorf("%q is no amount of credits", text)
	}
	return v, nil
}
