package scenario

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestGuessingAnAccountsPasswordIsLimited: by source and address, alike for addresses that nobody has, and without locking
// out who knows the password.
func TestGuessingAnAccountsPasswordIsLimited(t *testing.T) {
	i := common(t)
	p := i.person(t)
	home := newSource()
	login := func(email, password, source string) answer {
		return i.do(t, "POST", "/api/users/login", request{body: object{"email": email, "password": password}, source: source})
	}
	for range i.bases { // each edge remembers for itself
		login(p.email, p.password, home).ok(t, http.StatusOK)
	}
	var refusals []answer
	for _, email := range []string{p.email, "nobody-" + p.email} {
		attacker := newSource()
		var last answer
		wrong := i.untilRefused(t, "too_many_failures", func() answer {
			last = login(email, "wrong password", attacker)
			return last
		}, func(got answer) { got.fails(t, http.StatusUnauthorized, "invalid_credentials", "") })
		if wrong < 11 || wrong > 11*len(i.bases) {
			t.Errorf("%d wrong passwords for %s were answered", wrong, email)
		}
		login(strings.ToUpper(email), "wrong password", attacker).fails(t, http.StatusTooManyRequests, "too_many_failures", "")
		if email == p.email { // to register again with the right password opens a session too
			i.do(t, "POST", "/api/users/register", request{body: object{"email": email, "password": p.password}, source: attacker}).
				fails(t, http.StatusTooManyRequests, "too_many_failures", "")
		}
		refusals = append(refusals, last)
	}
	one, two := refusals[0].json(t), refusals[1].json(t)
	if one["reason"] != two["reason"] || one["limit"] != two["limit"] {
		t.Errorf("the refusal tells whether the address has an account: %s, %s", refusals[0].body, refusals[1].body)
	}
	for range i.bases {
		login(p.email, p.password, home).ok(t, http.StatusOK)
		login(p.email, p.password, newSource()).ok(t, http.StatusOK)
	}
}

// TestGuessesAtACurrentPasswordAreLimited: even concurrent ones with a session.
func TestGuessesAtACurrentPasswordAreLimited(t *testing.T) {
	i := common(t)
	p := i.person(t)
	var wrong atomic.Int64
	var all sync.WaitGroup
	for range 150 * len(i.bases) {
		all.Go(func() {
			if p.do(t, "PUT", "/api/users/user/password", object{"currentPassword": "wrong", "password": "another horse"}).status == http.StatusForbidden {
				wrong.Add(1)
			}
		})
	}
	all.Wait()
	if most := int64(101 * len(i.bases)); wrong.Load() > most {
		t.Errorf("%d wrong passwords were answered, want %d at most", wrong.Load(), most)
	}
}

// TestTriesOfTakenAddressesAreLimited: even concurrent ones.
func TestTriesOfTakenAddressesAreLimited(t *testing.T) {
	i := common(t)
	email := i.account(t, "free").email // without a password, whose guesses are limited too
	source := newSource()
	var taken, refused atomic.Int64
	for rounds := 0; rounds < 50 && refused.Load() == 0; rounds++ {
		var all sync.WaitGroup
		for range 60 * len(i.bases) {
			all.Go(func() {
				got := i.do(t, "POST", "/api/users/register", request{body: object{"email": email, "password": "correct horse"}, source: source})
				switch got.status {
				case http.StatusConflict:
					taken.Add(1)
				case http.StatusTooManyRequests:
					refused.Add(1)
				case http.StatusServiceUnavailable: // more passwords than are hashed at a time
				default:
					t.Errorf("%d %s", got.status, got.body)
				}
			})
		}
		all.Wait()
	}
	if most := int64(101 * len(i.bases)); taken.Load() > most || refused.Load() == 0 {
		t.Errorf("%d were told that the address is taken, want %d at most; %d were refused", taken.Load(), most, refused.Load())
	}
}

// TestRegistrationsOfANetworkAreLimited: exactly, over all edges and concurrently. A taken address is reported as such even
// beyond the limit.
func TestRegistrationsOfANetworkAreLimited(t *testing.T) {
	i := common(t)
	const limit, tries = 20, 30
	for _, network := range []string{"198.51.100.%d", "2001:db8:7:%x::1"} {
		register := func(email string, n int) answer {
			return i.do(t, "POST", "/api/users/register", request{
				body: object{"email": email, "password": "correct horse"}, source: fmt.Sprintf(network, n),
			})
		}
		var made, refused atomic.Int64
		var all sync.WaitGroup
		emails := make([]string, tries)
		for n := range tries {
			emails[n] = fmt.Sprintf("person%d@example.org", persons.Add(1))
			all.Go(func() {
				got := register(emails[n], n+1)
				unknown := false
				for got.status == http.StatusServiceUnavailable { // a busy machine; it may have been made
					unknown, got = true, register(emails[n], n+1)
				}
				switch {
				case got.status == http.StatusCreated, got.status == http.StatusConflict && unknown:
					made.Add(1)
				case got.status == http.StatusTooManyRequests:
					got.fails(t, http.StatusTooManyRequests, "registration_limit", "Limit of 20 new accounts per day reached for this network. Try again tomorrow.")
					if got.header.Get("Retry-After") == "" {
						t.Error("no Retry-After")
					}
					refused.Add(1)
					emails[n] = ""
				default:
					t.Errorf("%d %s", got.status, got.body)
				}
			})
		}
		all.Wait()
		if made.Load() != limit || refused.Load() != tries-limit {
			t.Errorf("from %s %d were made and %d refused", network, made.Load(), refused.Load())
		}
		for n, email := range emails {
			if email != "" {
				register(email, n+1).fails(t, http.StatusConflict, "email_taken", "")
				break
			}
		}
	}
	i.person(t) // of another network
}

// TestGuessingAPasteIsLimitedByDocument: also from many sources. A source that knows the password still reads it.
func TestGuessingAPasteIsLimitedByDocument(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	path := "/p/" + a.paste(t, object{"password": "right"}) + "/raw"
	reader := newSource()
	guess := func(password, source string) answer {
		return i.do(t, "GET", path, request{source: source, header: map[string]string{"X-Paste-Password": password}})
	}
	for range i.bases {
		guess("right", reader).shows(t, http.StatusOK, "some content")
	}
	long := strings.Repeat("x", 600) // is refused without being hashed: that takes long
	guesses := i.untilRefused(t, "too_many_failures", func() answer { return guess(long, newSource()) }, func(got answer) {
		got.fails(t, http.StatusForbidden, "wrong_password", "")
	})
	if guesses < 101 || guesses > 101*len(i.bases) {
		t.Errorf("refused after %d guesses", guesses)
	}
	for range i.bases {
		guess("right", newSource()).fails(t, http.StatusTooManyRequests, "too_many_failures", "")
		guess("right", reader).shows(t, http.StatusOK, "some content")
	}
	other := "/p/" + a.paste(t, object{"password": "right"}) + "/raw"
	i.do(t, "GET", other, request{header: map[string]string{"X-Paste-Password": "right"}}).shows(t, http.StatusOK, "some content")
}
