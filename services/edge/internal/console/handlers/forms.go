package handlers

import (
	"cmp"
	"crypto/rand"
	"strings"
	"unicode"
	"unicode/utf8"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/pages"
)

// inConsole wraps a handler that requires a session. Others are redirected to sign in, and then to the page they asked for.
func (s *desk) inConsole(handle func(*endpoint.Call) error) func(*endpoint.Call) error {
	return s.inSession(handle, s.signInFirst)
}

// inSession wraps a handler that requires a session. otherwise answers without a session, or if it can't be read.
func (s *desk) inSession(handle func(*endpoint.Call) error, otherwise func(*endpoint.Call, error) error) func(*endpoint.Call) error {
	return func(c *endpoint.Call) error {
		if err := s.ReadSession(c); err != nil {
			return otherwise(c, err)
		}
		return handle(c)
	}
}

// holder is the account of the session.
func (s *desk) holder(c *endpoint.Call) (console.Holder, error) {
	email, err := s.accounts.EmailOf(c.Who.Account)
	return console.Holder{Account: c.Who.Account.String(), Email: email}, err
}

// submission is what a console form does once it is parsed.
type submission struct {
	// do reads the request from the form, executes it as the API's handler does, and answers.
	do func() error
	// show answers with the page of the form, which holds its input and the error.
	show func(status int) error
	// unlimited exempts forms that don't change their reader's account: they write content, which is metered, or are an
	// admin's.
	unlimited bool
}

// submit handles a submitted form. A refused one is shown again, with the error beside its field.
func (s *desk) submit(c *endpoint.Call, f *console.Form, sub submission) error {
	other, err := s.readConsoleForm(c, f)
	if err != nil { // browsers send no such form
		return err
	}
	if other {
		err = otherAccount()
	}
	c.Hash = hashOf(f)
	if err == nil && !sub.unlimited {
		err = s.AdmitChange(c.Who.Account)
	}
	if err == nil {
		err = sub.do()
	}
	switch {
	case err == nil || !pages.WantsHTML(c.Ctx):
		return err
	case fault.KindOf(err) == fault.SessionRequired:
		return s.signInFirst(c, err)
	}
	e := endpoint.AsFault(err)
	s.Fail(c.Context(), c.Route().Path, e)
	f.Once = onceAfter(f.Once, e.Kind)
	refuse(f, e)
	return sub.show(e.Kind.Status())
}

// hashOf is the hash that submissions of a form with the same Once are compared by. The key that pays and the confirmation are
// no part of the request.
func hashOf(f *console.Form) uint64 {
	var parts [][]byte
	for _, name := range f.Names() {
		if name != console.KeyField && name != "confirm" {
			parts = append(parts, []byte(name), []byte(f.Values[name]))
		}
	}
	return event.BodyHash(parts...)
}

// fieldsOf are the form's fields of these names, which the API has too.
func fieldsOf(f *console.Form, names ...string) input.Source {
	var out []input.Member
	for _, name := range names {
		out = append(out, textField(name, f.Values[name]))
	}
	return input.List(out...)
}

// trimmed is the form without the space around a value.
func trimmed(f *console.Form, name string) *console.Form {
	f.Values[name] = strings.TrimSpace(f.Values[name])
	return f
}

func textField(name, text string) input.Member {
	return input.Member{Name: name, Value: input.Text(text)}
}

// refuse records in a form why it was refused.
func refuse(f *console.Form, e *fault.Error) {
	field := e.Field
	if e.Kind == fault.TooLarge && field == "" && f.Has("file") {
		field = "file"
	}
	f.Refuse(field, console.Problem{Message: cmp.Or(e.FormText, e.Message), Suggestion: sentence(e.Suggestion)})
}

func otherAccount() error {
	return fault.New(fault.InvalidField, "You have signed in to another account since this page was opened. Nothing was done. The page now belongs to that account.")
}

// readConsoleForm parses the input of a form. other means that its page was made for another account.
func (s *desk) readConsoleForm(c *endpoint.Call, f *console.Form) (other bool, err error) {
	f.Values = make(map[string]string)
	var account string
	fields := input.Fields{
		"account": input.To(&account, input.StringField), "once": input.To(&f.Once, input.StringField),
	}
	for _, name := range f.Names() {
		fields[name] = func(name string, v input.Value) (err error) {
			f.Values[name], err = input.StringField(name, v)
			return err
		}
	}
	if err := input.ParseForm(c.Form, fields); err != nil {
		return false, err
	}
	if f.Account == "" {
		f.Account = account
	}
	return account != "" && account != c.Who.Account.String(), s.readOnce(c, f.Once)
}

// onceAfter is the Once of a form that is shown again. It is kept if the operation may have been done, so that resending the
// form does not repeat it.
func onceAfter(once string, kind fault.Kind) string {
	switch kind {
	case fault.OutcomeUnknown, fault.Unavailable, fault.IdempotencyInFlight:
		return cmp.Or(once, rand.Text())
	}
	return rand.Text()
}

// sentence makes a text of the API a full sentence.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + text[size:]
}

// readFilters parses the filters in a page's address into fields, with the cursor. It skips empty ones, since browsers send
// all fields. The form gets all input, even if a value is invalid.
func readFilters(c *endpoint.Call, form *console.Form, fields input.Fields) error {
	set := func(name string) string {
		return strings.ToValidUTF8(strings.TrimSpace(strings.Clone(c.Query(name))), "\uFFFD")
	}
	for _, name := range form.Names() {
		if text := set(name); text != "" {
			form.Values[name] = text
		}
	}
	for _, name := range append(form.Names(), "cursor") {
		text := set(name)
		if form.Field(name).Type == "datetime-local" {
			text = momentOfForm(text)
		}
		if text == "" {
			continue
		}
		if err := fields[name](name, input.Value{Kind: input.Query, Text: []byte(text)}); err != nil {
			return err
		}
	}
	return nil
}

// momentOfForm converts a form's time for the API. Browsers omit the seconds and the zone, which is UTC. Other text is
// unchanged.
func momentOfForm(text string) string {
	for _, rest := range []string{":00Z", "Z"} {
		if _, err := input.ParseTime(text + rest); err == nil {
			return text + rest
		}
	}
	return text
}

// confirmed fails unless the form has the text that the reader was asked to type.
func confirmed(f *console.Form, text string) error {
	if strings.EqualFold(strings.TrimSpace(f.Values["confirm"]), strings.TrimSpace(text)) {
		return nil
	}
	return httperr.InvalidField("confirm", "must be "+text).InForm("Type “" + text + "” to confirm.")
}

// formChanged is the error of a hidden field with another value than its page gave it.
func formChanged(name string) error {
	return httperr.InvalidField(name, "must be what the page has").InForm("This page is out of date. Reload it and try again.")
}

// readOnce uses the form's Once as an Idempotency-Key. The page drew it at random, so that the journal, which is kept
// forever, gets nothing of the form's fields.
func (s *desk) readOnce(c *endpoint.Call, once string) error {
	if once == "" {
		return nil
	}
	if len(once) > endpoint.MaxOnceBytes {
		return formChanged("once")
	}
	scope := c.Who.Payer()
	if scope == 0 {
		scope = s.Network(c.Ctx)
	}
	c.Idem = onceID(scope, c.Method(), c.Path(), once)
	return nil
}

func onceID(scope event.AccountID, method, path, once string) []byte {
	id := event.NewIdempotencyID(scope.Bytes(), method, path, once)
	return id[:]
}
