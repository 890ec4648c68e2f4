package developer

import (
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/contents"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/headers"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/kind"
)

const ReadTries = 3

func passwordNeeded() error {
	return endpoint.FailedAt(endpoint.HeaderPassword, fault.WrongPassword, "This paste has a password. Send it in %s.", endpoint.HeaderPassword)
}

func wrongPassword() error {
	return endpoint.FailedAt(endpoint.HeaderPassword, fault.WrongPassword, "The password in %s is wrong.", endpoint.HeaderPassword)
}

// reading is a metered read of a text.
type reading struct {
	s          *API
	c          *endpoint.Call
	k          *kind.Kind
	ref        string
	version    uint64 // 0: current
	conditions headers.Conditions
	password   string

	checked  uint64 // version of the document whose password was checked
	mismatch error  // the result of that check
}

func (s *API) getText(c *endpoint.Call, k *kind.Kind) (err error) {
	r := &reading{s: s, c: c, k: k, ref: c.Param("ref"), password: strings.Clone(c.Get(endpoint.HeaderPassword))}
	if r.conditions, err = headers.ReadConditions(c.Ctx); err != nil {
		return err
	}
	if r.version, err = versionQuery(c.Ctx); err != nil {
		return err
	}
	f, err := s.readText(r)
	if err != nil {
		return err
	}
	if f.known {
		f.receipt.SetHeaders(&c.Response().Header)
		return headers.NotModified(c.Ctx, strconv.FormatUint(f.doc.Version, 10))
	}
	err = r.answer(&f)
	f.receipt.SetHeaders(&c.Response().Header)
	return err
}

// readText reads a text, which is charged unless the client already has it.
func (s *API) readText(r *reading) (found, error) {
	if f, err := r.unchanged(); f.known || err != nil {
		return f, err
	}
	m, err := s.startReading(r.c, r.k.Domain, r.read)
	if err != nil {
		return found{}, err
	}
	var pending *bus.PendingRead
	there := event.ValidItemID(r.ref)
	if there && !m.Pending.Refused() {
		pending = s.startRead(r)
	}
	if err := m.Wait(); err != nil {
		return found{}, err
	}
	if there && pending == nil { // the refusal did not apply to this request
		pending = s.startRead(r)
	}
	f, err := r.find(pending)
	switch {
	case err != nil:
		return found{}, m.Void(err)
	case f.known:
		f.receipt, err = m.Cancel(false)
		return f, err
	}
	m.Served()
	f.receipt = m.Receipt()
	return f, nil
}

func versionQuery(c *fiber.Ctx) (uint64, error) {
	if len(c.Context().QueryArgs().QueryString()) == 0 {
		return 0, nil
	}
	var version uint64
	err := input.QueryFields(c, input.Fields{"version": input.To(&version, input.CountField(math.MaxInt64))}.Set)
	return version, err
}

func (r *reading) read() *event.Read {
	return &event.Read{Item: r.ref, Requester: uint64(r.c.Who.Account), Version: r.version}
}

func (s *API) startRead(r *reading) *bus.PendingRead {
	return s.bus.StartRead(r.k.Domain, r.read(), &r.c.Timing)
}

// startReading asks for the admission of a read. With an Idempotency-Key it first looks up the current version.
func (s *API) startReading(c *endpoint.Call, d event.Domain, read func() *event.Read) (*endpoint.Metered, error) {
	m := s.Meter(c)
	if c.Idem == nil {
		return m.Start(), nil
	}
	doc, err := s.look(c, d, read())
	if err != nil {
		return nil, err
	}
	m.Repeatable(doc.GetVersion())
	return m.Start(), nil
}

// found is the result of a read: a document that may be shown, with its content.
type found struct {
	doc     *event.Document
	inline  []byte
	stream  io.ReadCloser // instead of inline, for large content
	known   bool          // the client already has it: no content
	receipt endpoint.Receipt
}

// find waits for the read, checks the document's password, and burns the document if this is its last read.
func (r *reading) find(pending *bus.PendingRead) (found, error) {
	for range ReadTries {
		doc, err := r.s.ReadDocument(pending)
		if err != nil {
			return found{}, err
		}
		if err := r.checkPassword(doc); err != nil {
			return found{}, err
		}
		f := found{doc: doc, inline: doc.GetContent().GetInline()}
		known, err := r.conditions.Check(ValidatorsOf(r.k.Domain, doc))
		switch {
		case err != nil:
			return found{}, err
		case known: // since the look in unchanged; it shows nothing, so it burns nothing
			f.known = true
			return f, nil
		}
		if !r.burns(doc) {
			if err = r.open(&f); errors.Is(err, blob.ErrNotFound) {
				pending = r.s.startRead(r) // changed since the read
				continue
			}
			return f, err
		}
		if r.c.Method() == fiber.MethodHead {
			return f, nil // shows nothing, so it burns nothing
		}
		f.inline, err = r.s.Burn(r.c, r.k.Domain, doc, r.c.Who.Account)
		if err == nil {
			return f, nil
		}
		if fault.KindOf(err) != fault.VersionMismatch && !errors.Is(err, blob.ErrNotFound) {
			return found{}, err
		}
		pending = r.s.startRead(r)
	}
	return found{}, endpoint.Unavailable(ErrReadRace)
}

var ErrReadRace = errors.New("the document changed each time it was read")

// checkPassword is RequirePassword, once per version.
func (r *reading) checkPassword(doc *event.Document) error {
	if r.checked != doc.Version {
		r.checked, r.mismatch = doc.Version, r.s.RequirePassword(r.c, doc, r.password)
	}
	return r.mismatch
}

func (r *reading) open(f *found) (err error) {
	if f.doc.GetContent().GetBlob() != "" {
		defer r.c.Blob(time.Now())
		f.stream, err = r.s.contents.Open(r.s.ctx, f.doc.Content, 0, -1)
	}
	return err
}

// ReadDocument waits for a read. It fails with 404 if the caller may not know of the document. pending is nil for a ref that
// can't exist.
func (s *API) ReadDocument(pending *bus.PendingRead) (*event.Document, error) {
	if pending == nil {
		return nil, endpoint.NotFound()
	}
	found, err := pending.Wait(s.ctx)
	if err == nil && found.Document == nil {
		err = endpoint.NotFound()
	}
	return found.Document, err
}

// RequirePassword checks the document's password, which the owner needs too. Wrong guesses count for the document, whatever
// their source.
func (s *API) RequirePassword(c *endpoint.Call, doc *event.Document, password string) error {
	if len(doc.PasswordHash) == 0 {
		return nil
	}
	if password == "" {
		return passwordNeeded()
	}
	now := s.Now()
	try, wait := s.Guesses.Begin(doc.Id, s.http.Source(c.Ctx), now)
	if wait > 0 {
		return endpoint.TooManyFailures(wait, now)
	}
	if len(password) > 4*passwordChars {
		return wrongPassword()
	}
	ok, err := s.documentHashes.Check(s.ctx, doc.PasswordHash, password)
	switch {
	case err != nil:
		try.Undecided()
		return err
	case !ok:
		return wrongPassword()
	}
	try.Right()
	return nil
}

// Burn makes this read the document's last and returns its content. Of concurrent attempts, one succeeds. A blob is read
// first, since the burn deletes it. fault.VersionMismatch means that the document has changed since doc was read.
func (s *API) Burn(c *endpoint.Call, d event.Domain, doc *event.Document, account event.AccountID) ([]byte, error) {
	if doc.GetContent().GetBlob() != "" {
		if err := s.http.Reserve(c.Ctx, doc.Content.Length()); err != nil {
			return nil, err
		}
	}
	content, err := s.contents.Load(s.ctx, doc.GetContent())
	if err != nil {
		return nil, err
	}
	id := c.ID()
	o, err := s.bus.Write(s.ctx, d, &bus.Write{Timing: &c.Timing, Request: event.Request{
		RequestId: id[:], Item: doc.Id, Account: uint64(account),
		Action: &event.Request_Burn{Burn: &event.Burn{Version: doc.Version}},
	}})
	if err != nil {
		return nil, err
	}
	if err := outcomeError(o.Status); err != nil {
		return nil, err
	}
	switch burned := o.GetDocument().GetContent(); {
	case len(burned.GetInline()) > 0:
		return burned.Inline, nil // inline content was not revealed before the burn
	case content == nil && burned.GetBlob() != "":
		return s.contents.Load(s.ctx, burned)
	}
	return content, nil
}

// answer sends the document.
func (r *reading) answer(f *found) error {
	doc := f.doc
	headers.SetETag(r.c.Ctx, strconv.FormatUint(doc.Version, 10))
	head := append(endpoint.NewAnswer(640+len(f.inline)+len(f.inline)/8).Key("paste"), '{').Str("id", doc.Id).Str("title", doc.Title).Key("content")
	head = append(head, '"')
	if f.stream == nil {
		return endpoint.Send(r.c.Ctx, fiber.StatusOK, r.s.afterContent(endpoint.AppendEscaped(head, f.inline), r.k, doc, &f.receipt))
	}
	if err := endpoint.Send(r.c.Ctx, fiber.StatusOK, nil); err != nil {
		return err
	}
	stream := contents.NewEscapingReader(head, f.stream, doc.Content.Length(), r.s.afterContent(nil, r.k, doc, &f.receipt))
	r.c.Context().Response.SetBodyStream(stream, -1)
	return nil
}

// afterContent writes the answer from the quote that ends the content.
func (s *API) afterContent(o endpoint.Object, k *kind.Kind, doc *event.Document, receipt *endpoint.Receipt) endpoint.Object {
	return s.textFacts(append(o, '"').Str("language", doc.Language), k, doc).End().Receipt(receipt)
}

// textFacts adds the members of a text that lists show too, from visibility on.
func (s *API) textFacts(o endpoint.Object, k *kind.Kind, doc *event.Document) endpoint.Object {
	o = o.Str("visibility", event.Visibility(doc.Visibility).String()).Int("size", doc.GetContent().Length()).
		Int("version", num.Int64(doc.Version)).Key("tags")
	o = append(o, '[')
	for i, tag := range doc.Tags {
		if i > 0 {
			o = append(o, ',')
		}
		o = endpoint.AppendString(o, tag)
	}
	o = append(o, ']').Bool("burnAfterRead", doc.BurnAfterRead).Bool("passwordProtected", len(doc.PasswordHash) > 0).
		Time("createdAt", doc.CreatedMs).Time("updatedAt", doc.UpdatedMs).Time("expiresAt", doc.ExpiresMs)
	return s.pageURLs(o, k, doc.Id)
}

// ListedText adds a text as lists show it: without its content.
func (s *API) ListedText(o endpoint.Object, k *kind.Kind, doc *event.Document) endpoint.Object {
	return s.textFacts(append(o, '{').Str("id", doc.Id).Str("title", doc.Title).Str("language", doc.Language), k, doc).End()
}

func Owns(doc *event.Document, account uint64) bool { return account != 0 && doc.Owner == account }
