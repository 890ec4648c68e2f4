package console

import (
	"slices"
	"strings"
)

// Form is a form of a page, and what its reader has written into it. Its fields have the names that the API gives them, so
// that an error of the API finds its field.
type Form struct {
	ID      string // begins the ids of its fields
	Action  string // path that it is posted to
	Account string // that the page was made for
	Once    string // drawn for each form: sent twice, it does its work once
	Values  map[string]string
	Errors  map[string]Problem // by the name of the field; "" is the whole form

	fields []Field
}

// Problem is why a field can't be taken.
type Problem struct {
	Message    string
	Suggestion string // what may have been meant; empty: nothing is known
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
	Subject      string      // what an error begins with, in place of the field's name; the label where empty

	// These are the form's.
	ID, Value string
	Problem   *Problem
	Focus     bool // the first field with an error
}

// Option is one of the values of a select.
type Option struct {
	Value, Name string
	Selected    bool
}

// Choices are the options of a select. A value that is none of them is offered too.
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

// Names are those of the fields.
func (f *Form) Names() []string {
	out := make([]string, 0, len(f.fields))
	for _, field := range f.fields {
		out = append(out, field.Name)
	}
	return out
}

// Has tells whether there is a field of that name.
func (f *Form) Has(name string) bool { return slices.Contains(f.Names(), name) }

// Field is the field of that name. A template that names none gets one without a name, which a test finds.
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
		}
		if p, wrong := f.Errors[name]; wrong {
			field.Problem, field.Focus = &p, name == first
		}
		return field
	}
	return Field{}
}

// Wrong tells whether a field or the whole form was refused.
func (f *Form) Wrong() bool { return len(f.Errors) > 0 }

// Whole is the error of the whole form; nil where there is none.
func (f *Form) Whole() *Problem {
	if p, ok := f.Errors[""]; ok {
		return &p
	}
	return nil
}

// Refuse notes an error of the API: its field, its message, which begins with the name of the field, and what may have been
// meant. An error about no field of the form is about the whole.
func (f *Form) Refuse(field string, p Problem) {
	f.Errors = map[string]Problem{}
	for ; field != ""; field = parent(field) {
		for _, known := range f.fields {
			if known.Name != field {
				continue
			}
			subject := known.Subject
			if subject == "" {
				subject = known.Label
			}
			if rest, ok := strings.CutPrefix(p.Message, field+" "); ok {
				p.Message = subject + " " + rest
			}
			f.Errors[field] = p
			return
		}
	}
	f.Errors[""] = p
}

// parent is the field that a part belongs to: "quotas" of "quotas.pastes.get".
func parent(field string) string {
	before, _, found := strings.Cut(field, ".")
	if !found {
		return ""
	}
	return before
}

// lifetimes are those that a form offers for a key.
func lifetimes() [][2]string {
	return [][2]string{{"never", "Never"}, {"1d", "In 1 day"}, {"7d", "In 7 days"}, {"30d", "In 30 days"}, {"90d", "In 90 days"}, {"1y", "In a year"}}
}

// periods are those of a spending cap.
func periods() [][2]string {
	return [][2]string{{"day", "a day"}, {"month", "a month"}, {"total", "in all"}}
}

// capFields are the fields of a spending cap. before begins their names.
func capFields(before string) []Field {
	return []Field{
		{Name: before + "amount", Label: "Credits", Type: "text", Hint: "Like 5 or 0.25. Empty: no cap.", Subject: "The amount"},
		{Name: before + "period", Label: "For", Type: "select", Options: periods(), Subject: "The period"},
	}
}
