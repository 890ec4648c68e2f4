package reference

import (
	"html/template"
	"slices"
	"strings"

	"quire.dev/pkg/plan"
)

// The views of a document, as the templates take them.

type operationView struct {
	*Operation
	Text       template.HTML
	Auth       template.HTML
	Plans      string // that include it; empty if no quota counts it
	Idempotent bool
	InPath     []parametersView // none or one
	Parameters []parametersView // the other ones
	Body       []bodyView
	BodyText   template.HTML
	Answers    []answerView // of success
	Failures   []Answer
	Snippets   []Snippet
}

type parametersView struct {
	Title  string
	Fields []fieldView
}

type bodyView struct {
	Type   string
	Text   template.HTML // of a body that has no fields
	Fields []fieldView
}

type answerView struct {
	Status, Title string
	Text          template.HTML
	Headers       []fieldView
	Bodies        []bodyView
	Examples      []Example
}

type fieldView struct {
	ID, Name, Type   string
	Required         bool
	Limits           []template.HTML
	Values           []string
	Default, Example string
	Text             template.HTML
	Fields           []fieldView
	Like             string // name of an earlier field with the same fields
}

// viewer makes views.
type viewer struct {
	markdown markdown
	base     string
	schemes  map[string]Scheme
}

func (v *viewer) operation(op *Operation) operationView {
	out := operationView{Operation: op, Text: v.markdown.block(op.Description), Auth: v.auth(op), Plans: plansOf(op), Snippets: SnippetsOf(v.base, op)}
	for _, place := range [][2]string{{"path", "Path"}, {"query", "Query"}, {"header", "Headers"}} {
		view := parametersView{Title: place[1]}
		for i := range op.Parameters {
			p := &op.Parameters[i]
			if p.In != place[0] {
				continue
			}
			out.Idempotent = out.Idempotent || p.Name == "Idempotency-Key"
			view.Fields = append(view.Fields, v.parameter(op.ID, p))
		}
		switch {
		case len(view.Fields) == 0:
		case place[0] == "path":
			out.InPath = append(out.InPath, view)
		default:
			out.Parameters = append(out.Parameters, view)
		}
	}
	if op.Body != nil {
		out.BodyText = v.markdown.inline(op.Body.Description)
		for i := range op.Body.Media {
			out.Body = append(out.Body, v.body(op.ID, &op.Body.Media[i]))
		}
	}
	for i := range op.Answers {
		if a := op.Answers[i]; a.Success() {
			out.Answers = append(out.Answers, v.answer(op.ID, &a))
		} else {
			out.Failures = append(out.Failures, a)
		}
	}
	return out
}

// plansOf names the plans that include an operation, by the price book.
func plansOf(op *Operation) string {
	if op.QuotaKey == "" {
		return ""
	}
	book := plan.Published(0)
	var names []string
	all := []plan.Tier{plan.Free, plan.Pro, plan.Max} // Admin is not for sale
	for _, key := range plan.QuotaKeys() {
		for _, tier := range all {
			if key.String() == op.QuotaKey && book.Plans[tier].Terms[key].Limit != 0 {
				names = append(names, tier.Title(""))
			}
		}
	}
	if len(names) == len(all) {
		return "any"
	}
	return strings.Join(names, " or ")
}

// auth are the ways to authenticate.
func (v *viewer) auth(op *Operation) template.HTML {
	var ways []string
	for _, name := range op.Security {
		if name == "" {
			ways = append(ways, "nothing")
		} else {
			ways = append(ways, v.schemes[name].Text)
		}
	}
	if len(ways) == 0 || len(ways) == 1 && ways[0] == "nothing" {
		return "none"
	}
	return v.markdown.inline(strings.Join(ways, " or "))
}

func (v *viewer) parameter(id string, p *Parameter) fieldView {
	f := v.field(id, Field{Name: p.Name, Required: p.Required, Schema: p.Schema}, make(map[string]string))
	f.ID = id + "-" + slug(p.In+" "+p.Name)
	f.Text = v.markdown.inline(p.Description)
	if len(f.Values) == 0 {
		f.Example = firstOf(p.Example, f.Example)
	}
	return f
}

func (v *viewer) body(id string, m *Media) bodyView {
	out := bodyView{Type: m.Type, Fields: v.fields(id, &m.Schema, make(map[string]string))}
	if len(out.Fields) == 0 {
		out.Text = v.markdown.inline(m.Schema.Description)
	}
	return out
}

func (v *viewer) answer(id string, a *Answer) answerView {
	out := answerView{Status: a.Status, Title: a.Title, Text: v.markdown.inline(a.Description)}
	for i := range a.Headers {
		out.Headers = append(out.Headers, v.parameter(id+"-"+a.Status, &a.Headers[i]))
	}
	for i := range a.Media {
		out.Bodies = append(out.Bodies, v.body(id+"-"+a.Status, &a.Media[i]))
		if strings.Contains(a.Media[i].Type, "json") {
			for _, e := range a.Media[i].Examples {
				e.Text = strings.ReplaceAll(e.Text, exampleBase, v.base)
				out.Examples = append(out.Examples, e)
			}
		}
	}
	return out
}

// fields are the fields of an object, or of the objects in a list, map or choice. seen maps the components shown so far to
// the fields they were shown for.
func (v *viewer) fields(id string, s *Schema, seen map[string]string) []fieldView {
	var out []fieldView
	for _, f := range s.Fields {
		out = append(out, v.field(id, f, seen))
	}
	if s.Items != nil {
		out = append(out, v.fields(id, s.Items, seen)...)
	}
	if s.Others != nil && (len(s.Others.Fields) > 0 || s.Others.Description != "") {
		out = append(out, v.field(id, Field{Name: "<name>", Schema: *s.Others}, seen))
	}
	for i := range s.Variants {
		for _, f := range v.fields(id, &s.Variants[i], seen) {
			if !slices.ContainsFunc(out, func(o fieldView) bool { return o.Name == f.Name }) {
				out = append(out, f)
			}
		}
	}
	return out
}

func (v *viewer) field(id string, f Field, seen map[string]string) fieldView {
	s := &f.Schema
	out := fieldView{
		ID: id + "-" + slug(f.Name), Name: f.Name, Type: s.Type, Required: f.Required, Values: s.Values, Default: s.Default, Example: s.Example,
		Text: v.markdown.inline(s.Description),
	}
	for _, l := range s.limits() {
		out.Limits = append(out.Limits, v.markdown.inline(l))
	}
	if len(out.Values) > 0 && out.Example != "" {
		out.Example = "" // the values say it
	}
	name := s.component()
	if like, ok := seen[name]; ok && name != "" {
		out.Like = like
		return out
	}
	if name != "" {
		seen[name] = f.Name
	}
	out.Fields = v.fields(out.ID, s, seen)
	if len(out.Fields) == 0 {
		delete(seen, name)
	}
	return out
}

// limits are the limits of a value and of a list's items.
func (s *Schema) limits() []string {
	out := s.Limits
	if s.Items != nil && len(s.Items.Fields) == 0 {
		for _, l := range s.Items.Limits {
			out = append(slices.Clip(out), "each "+l)
		}
	}
	return out
}

// component names the component that defines a value's fields.
func (s *Schema) component() string {
	switch {
	case s.Items != nil:
		return s.Items.component()
	case s.Others != nil:
		return s.Others.component()
	}
	return s.Name
}
