package load

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"quire.dev/pkg/wait"
)

// domain is a kind of document.
type domain struct {
	kind       Kind
	path       string // of its endpoints
	quota      string // the beginning of its quota keys
	makes      string // the endpoint that creates a document
	small      int    // bytes of a content, about
	large      int    // bytes of one content in largeEvery
	largeEvery int64
}

// domains returns the three domains. Content of more than 64 KiB is stored as a blob.
func domains() (lite, paste, file *domain) {
	lite = &domain{kind: Lite, path: "/api/dev/paste-lite/", quota: "pasteLite.", makes: "create", large: 70 << 10, largeEvery: 32}
	paste = &domain{kind: Paste, path: "/api/dev/pastes/", quota: "pastes.", makes: "create", small: 2 << 10, large: 100 << 10, largeEvery: 16}
	file = &domain{kind: File, path: "/api/dev/files/", quota: "files.", makes: "upload", small: 4 << 10, large: 200 << 10, largeEvery: 8}
	return lite, paste, file
}

// createCall is the call that creates a document with the content of a number.
func (d *domain) createCall(key string, number int64, home int) call {
	c := call{kind: d.kind, method: http.MethodPost, path: d.path + d.makes, key: key, home: home}
	if d.kind == File {
		c.path += fmt.Sprintf("?name=%d.bin", number)
		c.body, c.binary = d.content(number), true
		return c
	}
	c.body = d.textBody(number)
	return c
}

func (d *domain) textBody(number int64) []byte {
	body, err := json.Marshal(map[string]string{"content": string(d.content(number))})
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return body
}

// readCall is the call that reads a document's content.
func (d *domain) readCall(key, id string, home int) call {
	c := call{kind: Read, method: http.MethodGet, path: d.path + "get/" + id, key: key, home: home}
	if d.kind == File {
		c.path += "?download=1"
	}
	return c
}

// deleteCall is the call that deletes a document.
func (d *domain) deleteCall(key, id string, home int) call {
	return call{kind: d.kind, method: http.MethodDelete, path: d.path + "delete/" + id, key: key, home: home}
}

// read returns the content in the answer to a read.
func (d *domain) read(a *answer) []byte {
	if d.kind == File {
		return a.body
	}
	var body struct{ Paste struct{ Content string } }
	_ = json.Unmarshal(a.body, &body) // without JSON it is empty, which is a wrong content
	return []byte(body.Paste.Content)
}

// shop is one account's documents of one domain.
type shop struct {
	l *Load
	*domain
	owner *account
	shelf shelf
}

// create creates a document, and remembers it if it was acknowledged.
func (s *shop) create(ctx context.Context, w *client) {
	number := s.l.next()
	a := s.l.send(ctx, s.createCall(s.owner.key, number, w.home))
	s.owner.meter(s.quota+s.makes, a)
	if s.kind == File {
		s.owner.stored.upload(len(s.content(number)), a.effect())
	}
	switch {
	case a.acked() && a.id() == "":
		s.l.strange.note(strangeAnswer, "no id in %s", a)
	case a.acked():
		s.shelf.put(w.random, a.id(), number)
	case a.outcome() == refusedOutcome:
		s.noteRefusal(ctx, a)
	}
}

// noteRefusal notes an unexpected refusal. Too many failures are expected, since clients read what others have just deleted.
func (s *shop) noteRefusal(ctx context.Context, a *answer) {
	if a.overFailed() {
		wait.For(ctx, failPause)
		return
	}
	s.l.strange.note(strangeAnswer, "%s", a)
}

// get reads a random document, which must have its content.
func (s *shop) get(ctx context.Context, w *client) {
	if live, seen := s.shelf.any(w.random); live != nil {
		s.fetch(ctx, live, seen, w.home)
	}
}

// fetch reads a document. seen is a copy of the item from before the call.
func (s *shop) fetch(ctx context.Context, live *item, seen item, home int) {
	a := s.l.send(ctx, s.readCall(s.owner.key, seen.id, home))
	s.owner.meter(s.quota+"get", a)
	if o := a.outcome(); o != ackedOutcome && o != refusedOutcome {
		return
	}
	switch {
	case a.acked() && seen.fits(s.domain, s.read(a)):
		s.shelf.found(s.domain, live, s.read(a))
	case a.overFailed():
		wait.For(ctx, failPause)
	case !s.shelf.unchanged(live, seen): // another client has changed it
	case a.status == http.StatusNotFound:
		s.l.strange.note("lost", "%s, which was acknowledged: %s", seen.id, a)
	case a.acked():
		s.l.strange.note("wrong content", "%s must be %.60q: %s", seen.id, s.content(seen.number), a)
	default:
		s.l.strange.note(strangeAnswer, "%s", a)
	}
}

// update edits a random document, and reads it through another base at once.
func (s *shop) update(ctx context.Context, w *client) {
	i := s.shelf.lease(w.random, false)
	if i == nil {
		return
	}
	number := s.l.next()
	a := s.l.send(ctx, call{
		kind: s.kind, method: http.MethodPut, path: s.path + "update/" + i.id, key: s.owner.key, body: s.textBody(number), home: w.home,
	})
	s.owner.meter(s.quota+"update", a)
	switch a.effect() {
	case ackedOutcome:
		s.shelf.changed(i, number, 0)
		s.fetch(ctx, i, s.shelf.copy(i), w.home+1)
	case unknownOutcome:
		s.shelf.changed(i, i.number, number)
	case refusedOutcome, unavailableOutcome:
		s.shelf.changed(i, i.number, 0)
	}
	if a.outcome() == refusedOutcome {
		s.noteRefusal(ctx, a)
	}
}

// remove deletes a random document.
func (s *shop) remove(ctx context.Context, w *client) {
	i := s.shelf.lease(w.random, true)
	if i == nil {
		return
	}
	a := s.l.send(ctx, s.deleteCall(s.owner.key, i.id, w.home))
	s.owner.meter(s.quota+"delete", a)
	if s.kind == File {
		s.owner.stored.deletion(len(s.content(i.number)), a.effect())
	}
	if a.outcome() == refusedOutcome {
		s.noteRefusal(ctx, a)
	}
	switch a.effect() {
	case ackedOutcome:
		s.shelf.forget(i, true)
	case unknownOutcome:
		s.shelf.forget(i, false)
	case refusedOutcome, unavailableOutcome:
		s.shelf.changed(i, i.number, i.other)
	}
}

// crowd is the work without Idempotency-Keys.
type crowd struct {
	l                 *Load
	owner             *account
	lite, paste, file *shop
}

func (l *Load) newCrowd(ctx context.Context) (*crowd, error) {
	owner, err := l.newAccount(ctx, "the crowd's", "admin")
	if err != nil {
		return nil, err
	}
	lite, paste, file := domains()
	return &crowd{
		l: l, owner: owner, lite: &shop{l: l, domain: lite, owner: owner},
		paste: &shop{l: l, domain: paste, owner: owner}, file: &shop{l: l, domain: file, owner: owner},
	}, nil
}

func (c *crowd) stepLite(ctx context.Context, w *client, n int) {
	switch {
	case n%4 == 1:
		c.lite.get(ctx, w)
	case n%16 == 3:
		c.lite.remove(ctx, w)
	case n%16 == 7:
		c.lite.update(ctx, w)
	default:
		c.lite.create(ctx, w)
	}
}

func (c *crowd) stepPaste(ctx context.Context, w *client, n int) {
	switch n % 8 {
	case 0, 4:
		c.paste.create(ctx, w)
	case 2, 5:
		c.paste.update(ctx, w)
	case 7:
		c.paste.remove(ctx, w)
	default:
		c.paste.get(ctx, w)
	}
	wait.For(ctx, c.l.rarely(w.random))
}

func (c *crowd) stepFile(ctx context.Context, w *client, n int) {
	switch n % 8 {
	case 0, 4:
		c.file.create(ctx, w)
	case 7:
		c.file.remove(ctx, w)
	default:
		c.file.get(ctx, w)
	}
	wait.For(ctx, c.l.rarely(w.random))
}

// rarely is how long clients wait between two calls whose kinds are rarer than quick pastes.
func (l *Load) rarely(random *rand.Rand) time.Duration {
	return l.pace.rare/2 + time.Duration(random.Int64N(int64(l.pace.rare)))
}
