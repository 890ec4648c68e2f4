package developer

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/contents"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

// docs/api.md, Limits.
const (
	titleChars    = 200
	languageChars = 50
	passwordChars = 128
	maxTags       = 10
	tagChars      = 32
)

// draft has the fields of a create or an update as sent. store adds the content and the password.
type draft struct {
	event.Update
	text     []byte // the content, aliasing the body; nil if missing
	around   int    // bytes that text keeps in memory as part of a JSON object
	stored   contents.Hashed
	never    int64   // ExpiresMs of a text that never expires
	Password *string // "": none

	any                             bool // any field was sent
	writesLifetime, writesExpiresAt bool
}

// draftRules are a draft's rules for its fields.
type draftRules struct {
	now     time.Time
	content httpin.Limit
	keyless bool
	update  bool // null resets to the default; in a create it is the default
}

func (r *draftRules) longest() time.Duration {
	if r.keyless {
		return endpoint.KeylessLifetime
	}
	return endpoint.MaxLifetime
}

// read reads all fields of the draft.
func (d *draft) read(r *draftRules, from input.Source) error {
	if err := from(func(name string, v input.Value) error { return d.set(r, name, v) }); err != nil {
		return err
	}
	return d.check(r)
}

// parse is read for a JSON object.
func (d *draft) parse(r *draftRules, data []byte) error {
	d.around = cap(data)
	return d.read(r, input.JSON(data))
}

// set sets one field, from a JSON object or the query.
func (d *draft) set(r *draftRules, name string, v input.Value) error {
	d.any = true
	null := v.Kind == input.Null
	switch name {
	case "content":
		return d.setContent(r, v)
	case "title":
		return setText(&d.Title, name, v, "", titleChars)
	case "language":
		return d.setLanguage(name, v)
	case "visibility":
		return d.setVisibility(r, name, v)
	case "expiresIn":
		if null && !r.update {
			return nil
		}
		d.writesLifetime = true
		return d.setLifetime(r, name, v)
	case "expiresAt":
		if null && !r.update {
			return nil
		}
		d.writesExpiresAt = true
		if null {
			return d.setLifetime(r, name, v)
		}
		t, err := endpoint.InstantField(name, v, r.now, r.longest())
		d.ExpiresMs = new(t.UnixMilli())
		return err
	case "burnAfterRead":
		burn, err := false, error(nil)
		if !null {
			burn, err = input.BoolField(name, v)
		}
		d.BurnAfterRead = &burn
		return err
	case "password":
		return d.setPassword(name, v)
	case "tags":
		return d.setTags(name, v)
	}
	if v.Kind == input.Query {
		return httperr.UnknownParameter(name, draftFields()[1:]...) // the body is the content
	}
	return httperr.UnknownField(name, draftFields()...)
}

// draftFields are the names of the fields, the content first.
func draftFields() []string {
	return []string{"content", "title", "language", "visibility", "expiresIn", "expiresAt", "burnAfterRead", "password", "tags"}
}

// check validates the fields in combination, once all are set.
func (d *draft) check(r *draftRules) error {
	if d.writesLifetime && d.writesExpiresAt {
		return httperr.InvalidField("expiresAt", "must not be sent together with expiresIn")
	}
	if r.update {
		if !d.any {
			return httperr.Malformed("The body must be a JSON object with at least one field to change: %s.", strings.Join(draftFields(), ", "))
		}
		return nil
	}
	if d.text == nil {
		return contentRequired()
	}
	if !d.writesLifetime && !d.writesExpiresAt {
		d.expireIn(defaultLifetime(r.keyless))
	}
	return nil
}

func (d *draft) setContent(r *draftRules, v input.Value) error {
	if v.Kind != input.String {
		return httperr.InvalidField("content", "must be a string")
	}
	if len(v.Text) == 0 && !r.update {
		return contentRequired()
	}
	d.text = v.Text
	return checkContent(v.Text, r.content)
}

// contentRequired is the error for a creation without content. Programs compare its message, which has no full stop.
func contentRequired() error {
	return endpoint.FailedAt("content", fault.InvalidField, "content is required").InForm("Enter some text.")
}

func checkContent(text []byte, limit httpin.Limit) error {
	if len(text) == 0 {
		return httperr.InvalidField("content", "must not be empty")
	}
	if int64(len(text)) > limit.Bytes {
		return contentTooLarge(limit)
	}
	return nil
}

func contentTooLarge(limit httpin.Limit) error {
	e := httperr.TooLarge(limit.Bytes, "content must be at most %s (%d bytes) of UTF-8.", limit.Name, limit.Bytes)
	e.Field = "content"
	return e
}

// setText sets a line of text; null is reset.
func setText(to **string, name string, v input.Value, reset string, max int) error {
	text, err := reset, error(nil)
	if v.Kind != input.Null {
		text, err = input.LineField(name, v, max)
	}
	*to = &text
	return err
}

func (d *draft) setLanguage(name string, v input.Value) error {
	if err := setText(&d.Language, name, v, fold.DefaultLanguage, languageChars); err != nil {
		return err
	}
	switch {
	case *d.Language == "":
		return httperr.InvalidField(name, "must not be empty")
	case !ValidLanguage(*d.Language):
		return httperr.InvalidField(name, "must be made of A-Z a-z 0-9 + # . _ -").
			InForm(name + " may only have letters, digits and + # . _ -")
	}
	return nil
}

// ValidLanguage reports whether s has only characters that a language may have. It ignores the length.
func ValidLanguage(s string) bool {
	for i := range len(s) {
		if !languageByte(s[i]) {
			return false
		}
	}
	return s != ""
}

func languageByte(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	}
	return c == '+' || c == '#' || c == '.' || c == '_' || c == '-'
}

func (d *draft) setVisibility(r *draftRules, name string, v input.Value) error {
	to := fold.DefaultVisibility
	if v.Kind != input.Null {
		var err error
		if to, err = visibilityField(name, v, r.keyless); err != nil {
			return err
		}
	}
	d.Visibility = new(uint32(to))
	return nil
}

func visibilityField(name string, v input.Value, keyless bool) (event.Visibility, error) {
	text, err := input.StringField(name, v)
	if err != nil {
		return 0, err
	}
	to, ok := event.ParseVisibility(text)
	if !ok {
		return 0, httperr.NotAnOption(name, text, "public", "unlisted", "private")
	}
	if keyless && to == event.Private {
		return 0, httperr.InvalidField(name, "must not be private without an API key").InForm(name + " must not be private without an account.")
	}
	return to, nil
}

func (d *draft) setLifetime(r *draftRules, name string, v input.Value) error {
	if v.Kind == input.Null {
		d.expireIn(defaultLifetime(r.keyless))
		return nil
	}
	to, err := endpoint.LifetimeField(name, v, r.longest())
	d.expireIn(to)
	return err
}

// expireIn sets the lifetime; 0: never.
func (d *draft) expireIn(lifetime time.Duration) {
	if lifetime == 0 {
		d.ExpiresMs = &d.never
		return
	}
	d.ExpiresInMs = new(lifetime.Milliseconds())
}

func defaultLifetime(keyless bool) time.Duration {
	if keyless {
		return endpoint.KeylessLifetime
	}
	return 0
}

func (d *draft) setPassword(name string, v input.Value) error {
	d.Password = new(string)
	if v.Kind == input.Null {
		return nil
	}
	text, err := input.StringField(name, v)
	if err != nil {
		return err
	}
	if n := utf8.RuneCountInString(text); n < 1 || n > passwordChars {
		return httperr.OverLimit(name, passwordChars, "must have 1 to "+strconv.Itoa(passwordChars)+" characters")
	}
	d.Password = &text
	return nil
}

// setTags takes a list of strings, or comma-separated ones from query parameters.
func (d *draft) setTags(name string, v input.Value) error {
	if d.Tags == nil {
		d.Tags = &event.Tags{}
	}
	switch v.Kind {
	case input.Null:
		return nil
	case input.Query:
		for tag := range strings.SplitSeq(string(v.Text), ",") {
			if err := d.addTag(name, input.Value{Kind: input.String, Text: []byte(tag)}); err != nil {
				return err
			}
		}
		return nil
	case input.Array:
		for _, item := range v.Items {
			if err := d.addTag(name, item); err != nil {
				return err
			}
		}
		return nil
	}
	return httperr.InvalidField(name, "must be a list of strings")
}

// addTag adds a tag unless the draft has it already.
func (d *draft) addTag(name string, v input.Value) error {
	if v.Kind != input.String {
		return httperr.InvalidField(name, "must be a list of strings")
	}
	tag := string(v.Text)
	if n := utf8.RuneCountInString(tag); n < 1 || n > tagChars || input.HasControl(tag) {
		return httperr.OverLimit(name, tagChars, "must each have 1 to "+strconv.Itoa(tagChars)+" characters and no control characters")
	}
	if slices.Contains(d.Tags.Values, tag) {
		return nil
	}
	if len(d.Tags.Values) == maxTags {
		return httperr.OverLimit(name, maxTags, "must be at most "+strconv.Itoa(maxTags)+" different tags").
			InForm("Enter at most " + strconv.Itoa(maxTags) + " different tags.")
	}
	d.Tags.Values = append(d.Tags.Values, tag)
	return nil
}

// JSONBytes is the maximum length of a JSON body for a limit of its content: each byte may be escaped as \u00xx, and there
// are other fields.
func JSONBytes(content httpin.Limit) int64 { return 6*content.Bytes + 64<<10 }

// ReadContent reads a body of limited size. The error for a longer one states the limit of the content.
func (s *API) ReadContent(c *endpoint.Call, bytes int64, content httpin.Limit) ([]byte, error) {
	body, err := s.http.ReadBody(c.Ctx, httpin.Limit{Bytes: bytes})
	return body, ofContent(err, content)
}

// ofContent makes the error for too long a body state the limit of its content.
func ofContent(err error, content httpin.Limit) error {
	if fault.KindOf(err) == fault.TooLarge {
		return contentTooLarge(content)
	}
	return err
}

// setQuery sets the fields from the query, for a draft whose content is the body.
func (d *draft) setQuery(c *endpoint.Call, r *draftRules) error {
	return input.QueryFields(c.Ctx, func(name string, v input.Value) error {
		if name == "content" {
			e := httperr.UnknownParameter(name)
			e.Message = "content must be the request body, not a query parameter."
			return e
		}
		return d.set(r, name, v)
	}, "tags")
}

// store hashes the draft's password and stores its content. It runs after the admission.
func (d *draft) store(ctx context.Context, s *API, domain event.Domain, item string) (err error) {
	if d.Password != nil {
		d.PasswordHash = []byte{} // set but empty: remove the password
		if *d.Password != "" {
			if d.PasswordHash, err = s.documentHashes.Hash(ctx, *d.Password); err != nil {
				return err
			}
		}
	}
	if d.text == nil {
		return nil
	}
	if err := s.contents.Put(ctx, domain, item, d.ownText(), &d.stored); err != nil {
		return err
	}
	d.Content = &d.stored.Content
	return nil
}

// ownText copies the content if it is part of a longer body: the bus keeps inline content for
// resending, and accounts only for the content itself.
func (d *draft) ownText() []byte {
	if len(d.text) <= event.InlineContentBytes && max(d.around, cap(d.text)) > 2*len(d.text) {
		return bytes.Clone(d.text)
	}
	return d.text
}
