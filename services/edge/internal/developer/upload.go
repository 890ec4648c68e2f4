package developer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/httpin/headers"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

// docs/api.md, Limits.
const (
	nameChars         = 255
	partFieldBytes    = 4 << 10
	multipartOverhead = 64 << 10 // for the other parts
	SniffBytes        = 512
)

func fileTooLarge() error {
	e := httperr.TooLarge(endpoint.MaxFileBytes, "A file must be at most 50 MB (%d bytes).", endpoint.MaxFileBytes)
	e.Field = "file"
	return e
}

// upload streams a file from the request to the blob store, without holding it in memory.
type upload struct {
	writing
	s  *API
	id string

	form *input.Form     // nil: the body is the file
	part *multipart.Part // of the file
	file string          // name of the file part
	body *httpin.Body

	name       string
	named      bool // by a field, which takes precedence over the part's file name
	visibility event.Visibility
	lifetime   time.Duration
	seen       []string          // names of fields
	Also       input.Fields      // fields of our own forms, besides the API's
	Sent       map[string]string // gets the text of each field; nil: none

	contentType string
	size        int64
	held        int64 // bytes of the memory for streams
	sum         hash.Hash
	document    *event.Document
}

func (s *API) NewUpload(c *endpoint.Call) *upload {
	return &upload{
		writing: writing{Call: c, domain: event.File}, s: s, body: httpin.BodyOf(c.Ctx), visibility: event.Unlisted, sum: sha256.New(),
	}
}

func (s *API) uploadFile(c *endpoint.Call) error {
	u := s.NewUpload(c)
	if err := u.Open(); err != nil {
		return err
	}
	done, err := u.Write()
	if err != nil {
		return err
	}
	return u.Answer(done)
}

// Write stores the file found by Open.
func (u *upload) Write() (*Written, error) {
	u.id = u.s.newItemID(u.Call.Idem)
	m, err := u.s.admit(&u.writing)
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return u.s.replay(&u.writing, u.skim())
	}
	return u.s.execute(&u.writing, m, u.store(u.s.ctx))
}

// Answer describes the stored file.
func (u *upload) Answer(done *Written) error {
	s, c := u.s, u.Call
	doc := done.Outcome.Document
	if doc == nil || doc.Id == "" {
		doc = u.document
	}
	out := done.Outcome
	done.Receipt.SetHeaders(&c.Response().Header)
	s.SetLocation(c.Ctx, "/api/dev/files/get/", out.Item)
	return endpoint.Send(c.Ctx, fiber.StatusCreated, fileFacts(endpoint.NewAnswer(512).Str("id", out.Item), doc).Str("url", s.URL("/f/"+out.Item)).
		Time("createdAt", out.CreatedMs).Time("expiresAt", out.ExpiresMs).Receipt(&done.Receipt))
}

// Open checks all that is known before the file's first byte.
func (u *upload) Open() error {
	if u.body == nil {
		return httperr.InvalidField("file", "must not be empty")
	}
	if err := httpin.RequireIdentity(u.Call.Ctx); err != nil {
		return err
	}
	media, _, params := headers.MediaType(u.Call.Ctx)
	if media == "multipart/form-data" {
		return u.openForm(params["boundary"])
	}
	if err := u.body.Limit(endpoint.MaxFileBytes, fileTooLarge); err != nil {
		return err
	}
	if err := input.QueryFields(u.Call.Ctx, u.set); err != nil {
		return err
	}
	if u.name == "" {
		return httperr.InvalidField("name", "is required: the file's name as ?name=")
	}
	if media != "application/x-www-form-urlencoded" { // curl's default
		u.contentType = cleanType(string(u.Call.Request().Header.ContentType()))
	}
	return nil
}

func (u *upload) openForm(boundary string) error {
	form, err := input.NewForm(u.body, boundary)
	if err != nil {
		return err
	}
	if err := u.body.Limit(endpoint.MaxFileBytes+multipartOverhead, fileTooLarge); err != nil {
		return err
	}
	if err := input.NoQuery(u.Call.Ctx); err != nil {
		return err
	}
	u.form = form
	if err := u.nextFile(); err != nil {
		return err
	}
	if u.part == nil {
		return httperr.InvalidField("file", "is required: the multipart body needs a part of that name").InForm("Choose a file.")
	}
	u.contentType = cleanType(u.part.Header.Get(fiber.HeaderContentType))
	if !u.named {
		return u.setName(u.file)
	}
	return nil
}

// nextFile reads fields up to the file part. At the end of the form, part is nil.
func (u *upload) nextFile() error {
	u.part = nil
	for {
		part, name, file, err := u.form.Next()
		switch {
		case input.FormEnded(err):
			return nil
		case err != nil:
			return formFailure(err)
		}
		if name == "file" {
			if slices.Contains(u.seen, name) {
				return httperr.InvalidField(name, "must be one part")
			}
			u.seen = append(u.seen, name)
			u.part, u.file = part, file
			return nil
		}
		if err := u.field(name, part); err != nil {
			return err
		}
	}
}

func (u *upload) field(name string, part *multipart.Part) error {
	if slices.Contains(u.seen, name) {
		return httperr.InvalidField(name, "must be sent only once")
	}
	u.seen = append(u.seen, name)
	text, err := io.ReadAll(io.LimitReader(part, partFieldBytes+1))
	if err != nil {
		return formFailure(err)
	}
	if len(text) > partFieldBytes || !utf8.Valid(text) {
		return httperr.OverLimit(name, partFieldBytes, "must be text of at most 4 KB in UTF-8")
	}
	return u.set(name, input.Value{Kind: input.Query, Text: text})
}

// formFailure is the error of the body, or 400 for a malformed form.
func formFailure(err error) error {
	if fault.KindOf(err) != fault.Internal {
		return err
	}
	return httperr.Malformed("The multipart body is not valid.")
}

func (u *upload) set(name string, v input.Value) (err error) {
	if u.Sent != nil {
		u.Sent[name] = string(v.Text)
	}
	if set, ok := u.Also[name]; ok {
		return set(name, v)
	}
	switch name {
	case "name":
		u.named = true
		return u.setName(string(v.Text))
	case "visibility":
		u.visibility, err = visibilityField(name, v, false)
		return err
	case "expiresIn":
		u.lifetime, err = endpoint.LifetimeField(name, v, endpoint.MaxLifetime)
		return err
	}
	if u.form == nil {
		return httperr.UnknownParameter(name, "name", "visibility", "expiresIn")
	}
	return httperr.UnknownField(name, "file", "name", "visibility", "expiresIn")
}

func (u *upload) setName(name string) error {
	if err := input.CheckFileName("name", name); err != nil {
		return err
	}
	switch n := utf8.RuneCountInString(name); {
	case n < 1 || n > nameChars || name == "." || name == "..":
		err := httperr.OverLimit("name", nameChars, "must have 1 to "+strconv.Itoa(nameChars)+" characters, and not be \".\" or \"..\"")
		if n == 0 { // a form's field without a file
			err = err.InForm("Choose a file.")
		}
		return err
	case strings.ContainsAny(name, `/\`):
		return httperr.InvalidField("name", "must not contain / or \\")
	}
	u.name = name
	return nil
}

// cleanType is a declared media type in canonical form; "" if it is malformed.
func cleanType(declared string) string {
	media, params, err := mime.ParseMediaType(declared)
	if err != nil || len(declared) > 200 || !strings.Contains(media, "/") {
		return ""
	}
	return mime.FormatMediaType(media, params)
}

// Read reads and counts the file's bytes. Its callers hash them too.
func (u *upload) Read(p []byte) (int, error) {
	source := io.Reader(u.body)
	if u.part != nil {
		source = u.part
	}
	if err := u.hold(); err != nil {
		return 0, err
	}
	n, err := source.Read(p)
	u.size += int64(n)
	switch {
	case u.size > endpoint.MaxFileBytes:
		return n, fileTooLarge()
	case err != nil && !errors.Is(err, io.EOF):
		return n, formFailure(err)
	}
	return n, err
}

// holdFirst is the memory that a store may use before the first byte has arrived.
const holdFirst = 64 << 10

// hold reserves the memory that the store uses for the file: four times the bytes received, up to the store's maximum.
func (u *upload) hold() error {
	want := min(max(4*u.size, holdFirst), u.s.putBytes)
	if want <= u.held || u.blob == "" {
		return nil
	}
	err := u.s.http.ReserveStream(u.Call.Ctx, want-u.held)
	u.held = want
	return err
}

// finish reads the parts after the file, and checks the complete form. Uploads with the same Idempotency-Key are compared by the
// file and the fields, however they were sent.
func (u *upload) finish() error {
	if u.form != nil {
		if err := u.nextFile(); err != nil {
			return err
		}
	}
	if u.size == 0 {
		return httperr.InvalidField("file", "must not be empty")
	}
	u.hash = event.BodyHash(u.sum.Sum(nil), []byte(u.name), []byte(u.visibility.String()), []byte(u.lifetime.String()))
	return nil
}

// store streams the file to the blob store. It runs after the admission.
func (u *upload) store(ctx context.Context) error {
	first := make([]byte, SniffBytes)
	n, err := io.ReadFull(u, first)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	first = first[:n]
	if u.contentType == "" {
		u.contentType = http.DetectContentType(first)
	}
	if n == 0 {
		return httperr.InvalidField("file", "must not be empty")
	}
	size := int64(-1)
	if u.form == nil {
		size = u.body.Length()
	}
	key := u.s.contents.NewKey(event.File, u.id)
	u.blob = key // from here on there may be a blob to delete
	begun := time.Now()
	_, err = blob.PutHashed(ctx, u.s.blobs, key, io.MultiReader(bytes.NewReader(first), u), size, u.sum)
	u.Call.Blob(begun) // and the arrival of the file
	if err != nil {
		if fault.KindOf(err) != fault.Internal {
			return err // the body's error
		}
		return endpoint.Unavailable(fmt.Errorf("store file: %w", err))
	}
	if err := u.finish(); err != nil {
		return err
	}
	sum := u.sum.Sum(nil)
	u.document = &event.Document{
		Id: u.id, Owner: uint64(u.Call.Who.Account), Title: u.name, Visibility: uint32(u.visibility), ContentType: u.contentType,
		Content: &event.Content{Blob: key, SizeBytes: num.Uint64(u.size), Sha256: sum},
	}
	r := &u.toBus.Request
	r.Item = u.id
	r.Action = &event.Request_Create{Create: &event.Create{Document: u.document, ExpiresInMs: u.lifetime.Milliseconds()}}
	return nil
}

// skim reads an upload without storing it: its Idempotency-Key already has an outcome.
func (u *upload) skim() error {
	if _, err := io.Copy(u.sum, struct{ io.Reader }{u}); err != nil {
		return err
	}
	return u.finish()
}
