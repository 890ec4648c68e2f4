package developer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
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
	Rules draftRules
	Draft draft

	bodyBytes int64 // maximum for the body
	// read reads the body into draft, and sets hash. It is nil once the body was read.
	read    func(t *textWriting) error
	readErr error // of read
}

// Creation creates a text.
type Creation struct {
	textWriting
	document event.Document
	create   event.Request_Create
}

func (s *API) NewCreation(c *endpoint.Call, k *kind.Kind) *Creation {
	n := &Creation{}
	n.begin(s, c, k)
	n.action = n
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
	u.Rules.update, u.action = true, u
	return u
}

func (t *textWriting) begin(s *API, c *endpoint.Call, k *kind.Kind) {
	t.Call, t.domain, t.s = c, k.Domain, s
	t.Rules = draftRules{now: s.Now(), content: c.Row.Body.Limit(), keyless: c.Who.Anonymous}
}

// Fill reads the fields of the text from a form instead of the body. Requests with the same Idempotency-Key are compared by
// hash.
func (t *textWriting) Fill(from input.Source, hash uint64) error {
	t.hash, t.bodyBytes = hash, math.MaxInt64
	return t.Draft.read(&t.Rules, from)
}

// receiveJSON expects the draft as a JSON object in the body.
func (t *textWriting) receiveJSON() {
	t.bodyBytes, t.read = JSONBytes(t.Rules.content), (*textWriting).readJSON
}

// receiveText expects the content of the draft as the body.
func (t *textWriting) receiveText(read func(t *textWriting) error) {
	t.bodyBytes, t.read = t.Rules.content.Bytes, read
}

// admitFirstBytes is the body length from which the request is admitted before the body is read:
// docs/adr/0010-large-bodies-are-admitted-before-they-are-read.md.
const admitFirstBytes = 64 << 10

// receive reads a small body. A larger one is read after the admission, so that a client whose request is refused does not
// have to send it.
func (t *textWriting) receive() (err error) {
	c := t.Call.Ctx
	if err := httpin.CheckBody(c, httpin.Limit{Bytes: t.bodyBytes}); err != nil {
		return ofContent(err, t.Rules.content)
	}
	if t.late, err = t.s.http.BodyExceeds(c, admitFirstBytes); err != nil || t.late {
		return err
	}
	_, err = t.readHash()
	return err
}

func (t *textWriting) readHash() (uint64, error) {
	if read := t.read; read != nil {
		t.read = nil
		t.readErr = read(t)
	}
	return t.hash, t.readErr
}

// readBody reads the body. The error for too long a body states the limit of its content.
func (t *textWriting) readBody() ([]byte, error) {
	return t.s.ReadContent(t.Call, t.bodyBytes, t.Rules.content)
}

func (t *textWriting) readJSON() error {
	body, err := t.readBody()
	if err != nil {
		return err
	}
	t.hash = endpoint.BodyHash(t.Call.Ctx, body)
	return t.Draft.parse(&t.Rules, endpoint.OrObject(body))
}

func (t *textWriting) readText() error {
	body, err := t.readBody()
	if err != nil {
		return err
	}
	t.hash = endpoint.BodyHash(t.Call.Ctx, body)
	if !utf8.Valid(body) {
		return httperr.InvalidField("content", "must be valid UTF-8")
	}
	if len(body) > 0 {
		t.Draft.text = body
	}
	return t.Draft.check(&t.Rules)
}

// store reads a late body, and stores the draft's content and password for the item.
func (t *textWriting) store(ctx context.Context, item string, r *event.Request) (err error) {
	if r.BodyHash, err = t.readHash(); err != nil {
		return err
	}
	return t.Draft.store(ctx, t.s, t.domain, item)
}

func (t *textWriting) discard() { t.s.contents.Drop(t.Draft.Content.GetBlob()) }

func (n *Creation) prepare(ctx context.Context, r *event.Request) error {
	if err := n.store(ctx, n.document.Id, r); err != nil {
		return err
	}
	r.Item = n.document.Id
	n.create.Create = fold.Create(&n.document, &n.Draft.Update)
	r.Action = &n.create
	return nil
}

func (u *update) prepare(ctx context.Context, r *event.Request) error {
	u.Draft.ManageTokenHash = u.Call.Who.TokenHash()
	if err := u.store(ctx, u.item, r); err != nil {
		return err
	}
	if len(u.Draft.IfMatch) == 0 { // pages set it themselves
		var err error
		if u.Draft.IfMatch, err = u.s.allowedVersions(&u.writing); err != nil {
			return err
		}
	}
	u.update.Update = &u.Draft.Update
	r.Action = &u.update
	return nil
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
	return s.write(&n.writing)
}

// Update changes the text in the path by the draft.
func (s *API) Update(u *update) (*Written, error) {
	if err := u.receive(); err != nil {
		return nil, err
	}
	return s.change(&u.writing)
}

// open checks the header and query of a new text: JSON, or plain text with the other fields in the query. curl --data-binary
// declares a form by default, so a form counts as plain text.
func (n *Creation) open() error {
	media, charset, _ := headers.MediaType(n.Call.Ctx)
	switch {
	case !headers.UTF8(charset):
	case media == "" || media == "application/json":
		n.receiveJSON()
		return noQueryBesideJSON(n.Call)
	case media == "text/plain" || media == "application/x-www-form-urlencoded":
		n.receiveText((*textWriting).readText)
		return n.Draft.setQuery(n.Call, &n.Rules)
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
