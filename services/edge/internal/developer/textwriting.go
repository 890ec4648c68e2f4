package developer

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/httpin/headers"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/kind"
)

// textWriting is the common part of creating and updating a text.
type textWriting struct {
	writing
	s     *API
	rules draftRules
	draft draft

	body           bodyFormat
	name, boundary string // of a bodyBytes, and of a bodyForm
}

// bodyFormat is how the body of a request has the text.
type bodyFormat uint8

const (
	noBody    bodyFormat = iota // the draft is complete
	bodyJSON                    // a JSON object with all fields
	bodyText                    // the content alone
	bodyBytes                   // the content from a terminal
	bodyForm                    // a form with the content and other fields from a terminal
)

// Creation creates a text.
type Creation struct {
	textWriting
	document event.Document
	create   event.Request_Create
}

func (s *API) NewCreation(c *endpoint.Call, k *kind.Kind) *Creation {
	n := &Creation{}
	n.begin(s, c, k)
	return n
}

// update changes an existing text.
type update struct {
	textWriting
	update event.Request_Update
}

func (s *API) NewUpdate(c *endpoint.Call, k *kind.Kind) *update {
	u := &update{}
	u.begin(s, c, k)
	u.changes(c.Param("ref"))
	u.rules.update = true
	return u
}

func (t *textWriting) begin(s *API, c *endpoint.Call, k *kind.Kind) {
	t.Call, t.domain, t.s = c, k.Domain, s
	t.rules = draftRules{now: s.Now(), content: c.Row.Body.Limit(), keyless: c.Who.Anonymous}
}

// Fill reads the fields of the text from a form instead of the body. Requests with the same Idempotency-Key are compared by
// hash.
func (t *textWriting) Fill(from input.Source, hash uint64) error {
	t.hash = hash
	if err := t.draft.read(&t.rules, from); err != nil {
		return err
	}
	return t.s.resolveLanguage(&t.draft, "")
}

// check validates the draft once all of its fields are set, and detects its language if that is asked for. file is as for
// resolveLanguage.
func (t *textWriting) check(file string) error {
	if err := t.draft.check(&t.rules); err != nil {
		return err
	}
	return t.s.resolveLanguage(&t.draft, file)
}

// maxBody is the maximum length of the body.
func (t *textWriting) maxBody() int64 {
	switch t.body {
	case bodyJSON:
		return JSONBytes(t.rules.content)
	case bodyForm:
		return t.rules.content.Bytes + multipartOverhead
	}
	return t.rules.content.Bytes
}

// admitFirstBytes is the body length from which the request is admitted before the body is read:
// docs/adr/0010-large-bodies-are-admitted-before-they-are-read.md.
const admitFirstBytes = 64 << 10

// receive reads a small body. A larger one is read after the admission, so that a client whose request is refused does not
// have to send it.
func (t *textWriting) receive() (err error) {
	if t.body == noBody {
		return nil
	}
	c := t.Call.Ctx
	if err := httpin.CheckBody(c, httpin.Limit{Bytes: t.maxBody()}); err != nil {
		return ofContent(err, t.rules.content)
	}
	if t.late, err = t.s.http.BodyExceeds(c, admitFirstBytes); err != nil || t.late {
		return err
	}
	return t.readBody()
}

// readBody reads the body into the draft and sets the hash, unless that was done.
func (t *textWriting) readBody() error {
	if t.body == noBody {
		return nil
	}
	body, err := t.s.ReadContent(t.Call, t.maxBody(), t.rules.content)
	if err != nil {
		return err
	}
	format := t.body
	t.body = noBody
	if format == bodyForm { // its hash ignores the encoding
		return t.parseTerminalForm(body)
	}
	t.hash = endpoint.BodyHash(t.Call.Ctx, body)
	switch {
	case format == bodyJSON:
		if err := t.draft.parse(&t.rules, endpoint.OrObject(body)); err != nil {
			return err
		}
		return t.s.resolveLanguage(&t.draft, "")
	case format == bodyBytes:
		t.draft.text = body
		return t.finishFromTerminal(t.name)
	case !utf8.Valid(body):
		return httperr.InvalidField("content", "must be valid UTF-8")
	case len(body) > 0:
		t.draft.text = body
	}
	return t.check("")
}

// store reads a late body, and stores the draft's content and password for the item.
func (t *textWriting) store(item string) error {
	if err := t.readBody(); err != nil {
		return err
	}
	begun := time.Now()
	err := t.draft.store(t.s.ctx, t.s, t.domain, item)
	if t.blob = t.draft.Content.GetBlob(); t.blob != "" {
		t.Call.Blob(begun)
	}
	return err
}

// Create creates a text from the draft.
func (s *API) Create(n *Creation) (*Written, error) {
	c, doc := n.Call, &n.document
	doc.Id, doc.Owner = s.newItemID(c.Idem), uint64(c.Who.Account)
	if c.Who.Anonymous {
		doc.ManageTokenHash = apikey.HashToken(s.secret.ManageToken(doc.Id))
	}
	if err := n.receive(); err != nil {
		return nil, err
	}
	m, err := s.admit(&n.writing)
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return s.replay(&n.writing, n.readBody())
	}
	return s.execute(&n.writing, m, n.prepare())
}

func (n *Creation) prepare() error {
	if err := n.store(n.document.Id); err != nil {
		return err
	}
	n.create.Create = fold.Create(&n.document, &n.draft.Update)
	n.toBus.Request.Item, n.toBus.Request.Action = n.document.Id, &n.create
	return nil
}

// IfMatch lets the update change this version alone.
func (u *update) IfMatch(version uint64) { u.draft.IfMatch = []uint64{version} }

// Update changes the text in the path by the draft.
func (s *API) Update(u *update) (*Written, error) {
	if err := u.receive(); err != nil {
		return nil, err
	}
	if err := s.checkSource(u.Call); err != nil {
		return nil, err
	}
	done, err := s.update(u)
	return done, s.countFailure(u.Call, err)
}

func (s *API) update(u *update) (*Written, error) {
	m, err := s.admitChange(&u.writing)
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return s.replay(&u.writing, u.readBody())
	}
	return s.execute(&u.writing, m, u.prepare())
}

func (u *update) prepare() error {
	u.draft.ManageTokenHash = u.Call.Who.TokenHash()
	if err := u.store(u.item); err != nil {
		return err
	}
	if len(u.draft.IfMatch) == 0 {
		var err error
		if u.draft.IfMatch, err = u.s.allowedVersions(&u.writing); err != nil {
			return err
		}
	}
	u.update.Update = &u.draft.Update
	u.toBus.Request.Action = &u.update
	return nil
}

// open checks the header and query of a new text: JSON, or plain text with the other fields in the query. curl --data-binary
// declares a form by default, so a form counts as plain text.
func (n *Creation) open() error {
	media, charset, _ := headers.MediaType(n.Call.Ctx)
	switch {
	case !headers.UTF8(charset):
	case media == "" || media == "application/json":
		n.body = bodyJSON
		return noQueryBesideJSON(n.Call)
	case media == "text/plain" || media == "application/x-www-form-urlencoded":
		n.body = bodyText
		return n.draft.setQuery(n.Call, &n.rules)
	}
	return httperr.UnsupportedMediaType("Content-Type must be application/json or text/plain, in UTF-8.")
}

// noQueryBesideJSON rejects every query parameter. Fields belong in the JSON.
func noQueryBesideJSON(c *endpoint.Call) error {
	err := input.NoQuery(c.Ctx)
	if e, ok := errors.AsType[*httperr.Error](err); ok && slices.Contains(draftFields(), e.Field) {
		e.Message = fmt.Sprintf("%s must be a field of the JSON body: query parameters are for text/plain bodies.", e.Field)
	}
	return err
}
