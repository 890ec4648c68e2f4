package web

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
)

// The limits of contract.md, Pastes and quick pastes.
const (
	titleChars      = 200
	languageChars   = 50
	passwordChars   = 128
	maxTags         = 10
	tagChars        = 32
	defaultLanguage = "plaintext"
)

// draft is what a create or an update says. What is nil was not said.
type draft struct {
	content    []byte // part of the body
	hasContent bool
	title      *string
	language   *string
	visibility *event.Visibility
	lifetime   *time.Duration // 0: never
	expires    *time.Time
	burn       *bool
	password   *string // "": none
	tags       []string
	hasTags    bool
	any        bool // a field was said

	said struct{ expiresIn, expiresAt bool }
}

// draftRules is what the fields of a draft are held to.
type draftRules struct {
	now     time.Time
	content bodyLimit
	keyless bool
	update  bool // null resets to the default; in a create it is the default
}

func (r *draftRules) longest() time.Duration {
	if r.keyless {
		return keylessLifetime
	}
	return maxLifetime
}

// set takes one field, of a JSON object or of the query.
func (d *draft) set(r *draftRules, name string, v value) error {
	d.any = true
	null := v.kind == kindNull
	switch name {
	case "content":
		return d.setContent(r, v)
	case "title":
		return setText(&d.title, name, v, "", titleChars)
	case "language":
		return d.setLanguage(name, v)
	case "visibility":
		return d.setVisibility(r, name, v)
	case "expiresIn":
		d.said.expiresIn = true
		return d.setLifetime(r, name, v)
	case "expiresAt":
		d.said.expiresAt = true
		if null {
			return d.setLifetime(r, name, v)
		}
		t, err := instantField(name, v, r.now, r.longest())
		d.expires = &t
		return err
	case "burnAfterRead":
		burn, err := false, error(nil)
		if !null {
			burn, err = boolField(name, v)
		}
		d.burn = &burn
		return err
	case "password":
		return d.setPassword(name, v)
	case "tags":
		return d.setTags(name, v)
	}
	return unknownField(name)
}

// check holds the fields together, once all are set.
func (d *draft) check(r *draftRules) error {
	if d.said.expiresIn && d.said.expiresAt {
		return invalidField("expiresAt", "must not be beside expiresIn")
	}
	if !r.update && !d.hasContent {
		return invalidField("content", "is required")
	}
	if r.update && !d.any {
		return malformed("The body must have at least one field.")
	}
	return nil
}

func (d *draft) setContent(r *draftRules, v value) error {
	if v.kind != kindString {
		return invalidField("content", "must be a string")
	}
	d.content, d.hasContent = v.text, true
	return checkContent(v.text, r.content)
}

func checkContent(text []byte, limit bodyLimit) error {
	if len(text) == 0 {
		return invalidField("content", "must not be empty")
	}
	if int64(len(text)) > limit.bytes {
		return contentTooLarge(limit)
	}
	return nil
}

func contentTooLarge(limit bodyLimit) error {
	return fault.New(fault.TooLarge, "content must be at most %s (%d bytes) of UTF-8.", limit.name, limit.bytes)
}

// setText takes a line; null is reset.
func setText(to **string, name string, v value, reset string, max int) error {
	*to = &reset
	if v.kind == kindNull {
		return nil
	}
	text, err := lineField(name, v, max)
	*to = &text
	return err
}

func (d *draft) setLanguage(name string, v value) error {
	if err := setText(&d.language, name, v, defaultLanguage, languageChars); err != nil {
		return err
	}
	for i := range len(*d.language) {
		if !languageByte((*d.language)[i]) {
			return invalidField(name, "must be made of A-Z a-z 0-9 + # . _ -")
		}
	}
	if *d.language == "" {
		return invalidField(name, "must not be empty")
	}
	return nil
}

func languageByte(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	}
	return c == '+' || c == '#' || c == '.' || c == '_' || c == '-'
}

func (d *draft) setVisibility(r *draftRules, name string, v value) error {
	to := event.Unlisted
	if v.kind != kindNull {
		var err error
		if to, err = visibilityField(name, v, r.keyless); err != nil {
			return err
		}
	}
	d.visibility = &to
	return nil
}

func visibilityField(name string, v value, keyless bool) (event.Visibility, error) {
	text, err := stringField(name, v)
	if err != nil {
		return 0, err
	}
	to, ok := event.ParseVisibility(text)
	if !ok {
		return 0, invalidField(name, "must be public, unlisted or private")
	}
	if keyless && to == event.Private {
		return 0, invalidField(name, "must not be private without an API key")
	}
	return to, nil
}

func (d *draft) setLifetime(r *draftRules, name string, v value) error {
	if v.kind == kindNull {
		to := defaultLifetime(r.keyless)
		d.lifetime = &to
		return nil
	}
	to, err := lifetimeField(name, v, r.longest())
	d.lifetime = &to
	return err
}

func defaultLifetime(keyless bool) time.Duration {
	if keyless {
		return keylessLifetime
	}
	return 0
}

func (d *draft) setPassword(name string, v value) error {
	d.password = new(string)
	if v.kind == kindNull {
		return nil
	}
	text, err := stringField(name, v)
	if err != nil {
		return err
	}
	if n := utf8.RuneCountInString(text); n < 1 || n > passwordChars {
		return invalidField(name, "must have 1 to "+strconv.Itoa(passwordChars)+" characters")
	}
	d.password = &text
	return nil
}

// setTags takes a list of strings, or in the query one parameter of them with commas between.
func (d *draft) setTags(name string, v value) error {
	d.hasTags = true
	switch v.kind {
	case kindNull:
		return nil
	case kindQuery:
		for tag := range strings.SplitSeq(string(v.text), ",") {
			if err := d.addTag(name, value{kind: kindString, text: []byte(tag)}); err != nil {
				return err
			}
		}
		return nil
	case kindArray:
		for _, item := range v.items {
			if err := d.addTag(name, item); err != nil {
				return err
			}
		}
		return nil
	}
	return invalidField(name, "must be a list of strings")
}

// addTag keeps the first of tags that are the same.
func (d *draft) addTag(name string, v value) error {
	if v.kind != kindString {
		return invalidField(name, "must be a list of strings")
	}
	tag := string(v.text)
	if n := utf8.RuneCountInString(tag); n < 1 || n > tagChars || hasControl(tag) {
		return invalidField(name, "must each have 1 to "+strconv.Itoa(tagChars)+" characters and no control characters")
	}
	if isOneOf(tag, d.tags) {
		return nil
	}
	if len(d.tags) == maxTags {
		return invalidField(name, "must be at most "+strconv.Itoa(maxTags))
	}
	d.tags = append(d.tags, tag)
	return nil
}

// jsonLimit is how large a JSON body with content of the limit can be: each byte of it may be
// written as \u00xx, and there are the other fields.
func jsonLimit(content bodyLimit) bodyLimit {
	return bodyLimit{bytes: 6*content.bytes + 64<<10, name: "its content may be (" + content.name + ")"}
}

// readCreate reads a new paste: JSON, or plain text with the other fields in the query. What curl
// sends a file as unless it is told otherwise is taken for plain text too.
func (s *Server) readCreate(c *fiber.Ctx, r *draftRules) (*draft, uint64, error) {
	media, charset, _ := mediaType(c)
	d := &draft{}
	switch {
	case !utf8Charset(charset):
	case media == "" || media == "application/json":
		if err := noQuery(c); err != nil {
			return nil, 0, err
		}
		data, err := s.readBody(c, jsonLimit(r.content))
		if err != nil {
			return nil, 0, err
		}
		hash := bodyHash(c, data)
		if err := parseObject(data, func(name string, v value) error { return d.set(r, name, v) }); err != nil {
			return nil, 0, err
		}
		return d, hash, d.check(r)
	case media == "text/plain" || media == "application/x-www-form-urlencoded":
		hash, err := s.readText(c, r, d)
		return d, hash, err
	}
	return nil, 0, fault.New(fault.UnsupportedMediaType, "Content-Type must be application/json or text/plain, in UTF-8.")
}

func (s *Server) readText(c *fiber.Ctx, r *draftRules, d *draft) (uint64, error) {
	err := queryFields(c, func(name string, v value) error {
		if name == "content" {
			return unknownField(name)
		}
		return d.set(r, name, v)
	}, "tags")
	if err != nil {
		return 0, err
	}
	data, err := s.readBody(c, r.content)
	if err != nil {
		return 0, err
	}
	hash := bodyHash(c, data)
	if !utf8.Valid(data) {
		return 0, invalidField("content", "must be valid UTF-8")
	}
	d.content, d.hasContent = data, true
	if err := checkContent(data, r.content); err != nil {
		return 0, err
	}
	return hash, d.check(r)
}

// document is the draft as a new document.
func (d *draft) document() *event.Document {
	doc := &event.Document{Language: defaultLanguage, Visibility: uint32(event.Unlisted), Tags: d.tags}
	if d.title != nil {
		doc.Title = *d.title
	}
	if d.language != nil {
		doc.Language = *d.language
	}
	if d.visibility != nil {
		doc.Visibility = uint32(*d.visibility)
	}
	if d.burn != nil {
		doc.BurnAfterRead = *d.burn
	}
	if d.expires != nil {
		doc.ExpiresMs = d.expires.UnixMilli()
	}
	return doc
}

// newLifetime is the lifetime of a new document that has no expiresAt; 0: never.
func (d *draft) newLifetime(r *draftRules) time.Duration {
	switch {
	case d.expires != nil:
		return 0
	case d.lifetime != nil:
		return *d.lifetime
	}
	return defaultLifetime(r.keyless)
}

// update is the draft as a change, but for its content and password, which take time.
func (d *draft) update() *event.Update {
	u := &event.Update{Title: d.title, Language: d.language, BurnAfterRead: d.burn}
	if d.visibility != nil {
		v := uint32(*d.visibility)
		u.Visibility = &v
	}
	if d.hasTags {
		u.Tags = &event.Tags{Values: d.tags}
	}
	switch {
	case d.expires != nil:
		ms := d.expires.UnixMilli()
		u.ExpiresMs = &ms
	case d.lifetime != nil && *d.lifetime > 0:
		ms := d.lifetime.Milliseconds()
		u.ExpiresInMs = &ms
	case d.lifetime != nil:
		u.ExpiresMs = new(int64)
	}
	return u
}

// hash hashes the draft's password; nil where it has none.
func (d *draft) hash(ctx context.Context, s *Server) ([]byte, error) {
	if d.password == nil || *d.password == "" {
		return nil, nil
	}
	return s.hashPassword(ctx, *d.password)
}

// ownContent is the draft's content in bytes that outlive the handler where they may have to: what
// is inline waits in a batch that the bus may send again.
func (d *draft) ownContent() []byte {
	if len(d.content) <= event.InlineContentBytes {
		return bytes.Clone(d.content)
	}
	return d.content
}
