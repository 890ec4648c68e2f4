package scenario

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// signed is what one secret has signed for clients.
type signed struct {
	i       *instance
	person  *person
	account account
	link    string // of a file
	cursor  string // of a list
	keyless string // id of a quick paste
	token   string // that manages it
	source  string // that it came from

	creation, rotation, registration request // under an Idempotency-Key
	created, rotated, registered     answer
}

const (
	quickCreate = "/api/dev/paste-lite/create"
	regenerate  = "/api/users/user/dev-key/regenerate"
	register    = "/api/users/register"
)

// sign has the instance sign one of each.
func sign(t *testing.T, i *instance) *signed {
	t.Helper()
	s := &signed{i: i, person: i.person(t), source: newSource()}
	s.rotation = request{header: map[string]string{"Idempotency-Key": "rotation", "Sec-Fetch-Site": "same-origin"}, cookies: s.person.cookies}
	s.rotated = i.do(t, "POST", regenerate, s.rotation)
	profile := s.person.do(t, "GET", "/api/users/user", nil).ok(t, http.StatusOK)
	s.account = account{i: i, id: text(t, profile, "account", "id"), key: text(t, s.rotated.ok(t, http.StatusOK), "apiKey")}
	s.account.setTier(t, "pro")
	for range 2 {
		s.account.paste(t, nil)
	}
	page := s.account.do(t, "GET", "/api/dev/pastes/list?limit=1", nil).ok(t, http.StatusOK)
	s.cursor = text(t, page, "nextCursor")
	file := s.account.upload(t, "notes.txt", []byte("hello"))
	_, link, _ := strings.Cut(text(t, s.account.do(t, "GET", "/api/dev/files/get/"+file, nil).ok(t, http.StatusOK), "file", "downloadUrl"), "/f/")
	s.link = "/f/" + link
	s.creation = request{header: map[string]string{"Idempotency-Key": "creation"}, body: object{"content": "x"}, source: s.source}
	s.created = i.do(t, "POST", quickCreate, s.creation)
	body := s.created.ok(t, http.StatusCreated)
	s.keyless, s.token = text(t, body, "id"), text(t, body, "manageToken")
	s.registration = request{
		header: map[string]string{"Idempotency-Key": "registration"}, source: s.source,
		body: object{"email": fmt.Sprintf("person%d@example.org", persons.Add(1)), "password": "correct horse"},
	}
	s.registered = i.do(t, "POST", register, s.registration)
	s.registered.ok(t, http.StatusCreated)
	return s
}

// holds tells that everything is valid, and that what was answered under an Idempotency-Key is answered again.
func (s *signed) holds(t *testing.T) {
	t.Helper()
	for range s.i.bases {
		s.account.usage(t)
		s.account.do(t, "GET", "/api/dev/pastes/list?cursor="+s.cursor, nil).ok(t, http.StatusOK)
		s.person.do(t, "GET", "/api/users/user", nil).ok(t, http.StatusOK)
		s.i.do(t, "GET", s.link, request{}).shows(t, http.StatusOK, "hello")
		s.i.do(t, "PUT", "/api/dev/paste-lite/update/"+s.keyless, request{
			header: map[string]string{"X-Manage-Token": s.token}, body: object{"content": "y"},
		}).ok(t, http.StatusOK)
		for _, again := range []struct {
			path  string
			r     request
			first answer
		}{{quickCreate, s.creation, s.created}, {regenerate, s.rotation, s.rotated}, {register, s.registration, s.registered}} {
			got := s.i.do(t, "POST", again.path, again.r)
			got.hasHeader(t, "Idempotency-Replayed", "true")
			if string(got.body) != string(again.first.body) {
				t.Errorf("%s: %s, then %s", again.path, again.first.body, got.body)
			}
		}
	}
}

// ended tells that nothing is valid any more.
func (s *signed) ended(t *testing.T) {
	t.Helper()
	for range s.i.bases {
		s.account.do(t, "GET", "/api/users/user/dev-usage", nil).fails(t, http.StatusUnauthorized, "invalid_api_key", "")
		s.person.do(t, "GET", "/api/users/user", nil).fails(t, http.StatusUnauthorized, "session_required", "")
		s.i.do(t, "GET", s.link, request{}).fails(t, http.StatusNotFound, "not_found", "")
		s.i.do(t, "DELETE", "/api/dev/paste-lite/delete/"+s.keyless, request{header: map[string]string{"X-Manage-Token": s.token}}).
			fails(t, http.StatusForbidden, "invalid_manage_token", "")
	}
}

// TestTheSecretIsReplacedWithoutAnOutage goes the steps of docs/operations.md, Rotate secrets.
func TestTheSecretIsReplacedWithoutAnOutage(t *testing.T) {
	t.Parallel()
	one, two := strings.Repeat("first", 7), strings.Repeat("second", 6)
	i := start(t, with("QUIRE_SECRET", one), with("QUIRE_PUBLIC_URL", manyPublicURL), behindProxy())
	before := sign(t, i)
	before.holds(t)

	i.settings["QUIRE_SECRET_PREVIOUS"] = two
	i.restart(t)
	before.holds(t)

	i.settings["QUIRE_SECRET"], i.settings["QUIRE_SECRET_PREVIOUS"] = two, one
	i.restart(t)
	before.holds(t)
	after := sign(t, i)
	after.holds(t)

	i.settings["QUIRE_SECRET_PREVIOUS"] = "" // as if unset; a cluster keeps settings that are not overridden
	i.restart(t)
	after.holds(t)
	before.ended(t)
	i.audit(t)
}

// TestNoLimitBeginsAnewWhileTheSecretIsReplaced: a network is known by each of the secrets.
func TestNoLimitBeginsAnewWhileTheSecretIsReplaced(t *testing.T) {
	t.Parallel()
	const registrations = 6
	one, two := strings.Repeat("first", 7), strings.Repeat("second", 6)
	i := start(t, with("QUIRE_SECRET", one), with("QUIRE_PUBLIC_URL", manyPublicURL), with("QUIRE_REGISTER_LIMIT", fmt.Sprint(registrations)), behindProxy())
	source := "198.51.100.7"
	create := func() answer {
		return i.do(t, "POST", quickCreate, request{body: object{"content": "x"}, source: source})
	}
	add := func() answer {
		return i.do(t, "POST", register, request{source: source, body: object{
			"email": fmt.Sprintf("person%d@example.org", persons.Add(1)), "password": "correct horse",
		}})
	}
	for n := range anonLimit - 3 {
		if left := number(t, create().ok(t, http.StatusCreated), "remaining"); left != int64(anonLimit-1-n) {
			t.Errorf("%d left after %d", left, n+1)
		}
	}
	for range registrations - 2 {
		add().ok(t, http.StatusCreated)
	}
	i.settings["QUIRE_SECRET_PREVIOUS"] = two
	i.restart(t)
	i.settings["QUIRE_SECRET"], i.settings["QUIRE_SECRET_PREVIOUS"] = two, one
	i.restart(t)
	for left := range int64(3) {
		got := create()
		if number(t, got.ok(t, http.StatusCreated), "remaining") != 2-left {
			t.Errorf("%s, want %d left", got.body, 2-left)
		}
		got.hasHeader(t, "RateLimit-Policy", fmt.Sprintf(`"pasteLite.create";q=%d`, anonLimit))
	}
	for range 2 * len(i.bases) {
		got := create()
		got.fails(t, http.StatusTooManyRequests, "anonymous_limit", "Anonymous limit of 10 quick pastes per 24 hours reached. Use an API key to continue.")
		if got.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	i.do(t, "GET", "/", request{source: source, header: map[string]string{"User-Agent": "curl/8"}}).shows(t, http.StatusOK, "You have 0 left.")
	for range 2 {
		add().ok(t, http.StatusCreated)
	}
	add().fails(t, http.StatusTooManyRequests, "registration_limit", "")
	i.audit(t)
}
