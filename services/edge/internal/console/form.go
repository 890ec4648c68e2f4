package console

import (
	"cmp"
	"slices"
	"strings"

	"quire.dev/services/edge/internal/pages"
)

// Form is a form and the input of its user. Its fields are named as in the API, so that an API error finds its field.
type Form struct {
	ID      string // prefix of its fields' ids
	Action  string // path it is posted to
	Account string // id of the account that the page was rendered for
	Once    string // random idempotency token: sent twice, the form takes effect once
	Values  map[string]string
	Errors  map[string]Problem // by the name of the field; "" is the whole form

	fields []Field
	start  string // name of the field that has the focus at first; empty: none
}

// Problem is an error of a field.
type Problem struct {
	Message    string
	Suggestion string // what the user may have meant; empty if unknown
}

// Field is a field of a form.
type Field struct {
	Name         string
	Label        string
	Hint         string
	Type         string // of an input; "select" and "checkbox" too
	Autocomplete string
	Most         int // characters
	Required     bool
	Options      [][2]string // of a select: values and their names
	Subject      string      // replaces the field's name at the start of an error; the label if empty
	Covers       string      // property of Subject that the API names as a field, whose errors are shown here; empty: none
	Least        int         // characters

	// Set by Form.Field.
	ID, Value string
	Problem   *Problem
	Focus     bool // the first field with an error, or where the form begins
}

// Option is one of the values of a select.
type Option struct {
	Value, Name string
	Selected    bool
}

// Choices are the options of a select, and its current value if that is none of them.
func (f Field) Choices() []Option {
	out := make([]Option, 0, len(f.Options)+1)
	found := false
	for _, o := range f.Options {
		found = found || o[0] == f.Value
		out = append(out, Option{o[0], o[1], o[0] == f.Value})
	}
	if !found && f.Value != "" {
		out = append(out, Option{f.Value, f.Value, true})
	}
	return out
}

// DescribedBy are the ids of the texts about the field.
func (f Field) DescribedBy() string {
	var ids []string
	if f.Hint != "" {
		ids = append(ids, f.ID+"-hint")
	}
	if f.Problem != nil {
		ids = append(ids, f.ID+"-error")
	}
	return strings.Join(ids, " ")
}

// Names lists the fields.
func (f *Form) Names() []string {
	out := make([]string, 0, len(f.fields))
	for _, field := range f.fields {
		out = append(out, field.Name)
	}
	return out
}

// Has reports whether the form has the field.
func (f *Form) Has(name string) bool { return slices.Contains(f.Names(), name) }

// Field is the named field. A template with an unknown name gets the zero Field, which a test finds.
func (f *Form) Field(name string) Field {
	first := ""
	for _, field := range f.fields {
		if _, wrong := f.Errors[field.Name]; wrong && first == "" {
			first = field.Name
		}
	}
	for _, field := range f.fields {
		if field.Name != name {
			continue
		}
		field.ID = f.ID + "-" + strings.ReplaceAll(name, ".", "-")
		if field.Type != "password" { // a page shows no password again
			field.Value = f.Values[name]
		} else if f.Values[name] != "" && !field.Required {
			field.Required, field.Hint = true, pages.AgainHint
		}
		if p, wrong := f.Errors[name]; wrong {
			field.Problem = &p
		}
		field.Focus = name == first || first == "" && name == f.start
		return field
	}
	return Field{}
}

// Wrong reports whether a field or the whole form was refused.
func (f *Form) Wrong() bool { return len(f.Errors) > 0 }

// Whole is the error of the form as a whole; nil if it has none.
func (f *Form) Whole() *Problem {
	if p, ok := f.Errors[""]; ok {
		return &p
	}
	return nil
}

// Refuse sets an API error. Its message begins with the name of the field. If the form has no such field, the error is
// about the whole form.
func (f *Form) Refuse(field string, p Problem) {
	f.Errors = map[string]Problem{}
	for name := field; name != ""; name = parent(name) {
		for _, known := range f.fields {
			if known.Name != name && known.Covers != name {
				continue
			}
			if rest, ok := strings.CutPrefix(p.Message, field+" "); ok {
				subject := cmp.Or(known.Subject, known.Label)
				if known.Name != name {
					subject += "’s " + name
				}
				p.Message = subject + " " + rest
			}
			f.Errors[known.Name] = p
			return
		}
	}
	f.Errors[""] = p
}

// As is another form with the account, input and errors of f.
func (f *Form) As(other *Form) *Form {
	other.Account, other.Once, other.Values, other.Errors = f.Account, f.Once, f.Values, f.Errors
	return other
}

// parent is the field that a nested name belongs to: "quotas" for "quotas.pastes.get".
func parent(field string) string {
	before, _, found := strings.Cut(field, ".")
	if !found {
		return ""
	}
	return before
}

// lifetimes are the choices for a key's expiry.
func lifetimes() [][2]string {
	return [][2]string{{"never", "Never"}, {"1d", "In 1 day"}, {"7d", "In 7 days"}, {"30d", "In 30 days"}, {"90d", "In 90 days"}, {"1y", "In a year"}}
}

// periods are the choices for a spending cap.
func periods() [][2]string {
	return [][2]string{{"day", "per day"}, {"month", "per month"}, {"total", "in total"}}
}

// capFields are the fields of a spending cap. before is the prefix of their names.
func capFields(before string) []Field {
	return []Field{
		{Name: before + "amount", Label: "Credits", Type: "text", Hint: "For example 5 or 0.25. Leave empty for no cap.", Subject: "The amount"},
		{Name: before + "period", Label: "Period", Type: "select", Options: periods(), Subject: "The period"},
	}
}
