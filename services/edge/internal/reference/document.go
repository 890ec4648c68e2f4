package reference

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Document is an OpenAPI document, in its written order.
type Document struct {
	Title, Version, Description string
	Schemes                     []Scheme
	Tags                        []Tag
}

// Scheme is a way to authenticate.
type Scheme struct{ Name, Text, Description string }

// Tag is a group of operations.
type Tag struct {
	Name, Slug, Description string
	Operations              []Operation
}

// Operation is a method of a path.
type Operation struct {
	ID, Method, Path, Tag, Slug string
	Summary, Description        string
	QuotaKey                    string
	Security                    []string // alternative schemes; "" means no authentication
	Parameters                  []Parameter
	Body                        *Body
	Answers                     []Answer
}

// Parameter is a parameter of the path, the query or a header.
type Parameter struct {
	Name, In, Description string
	Required              bool
	Schema                Schema
	Example               string // as JSON; "" for none
}

// Body is the body of a request.
type Body struct {
	Description string
	Required    bool
	Media       []Media
}

// Media is a body of one media type.
type Media struct {
	Type     string
	Schema   Schema
	Examples []Example

	value node // of the first example
}

// Example is a value of a body.
type Example struct{ Name, Summary, Text string }

// Answer is an answer by its status.
type Answer struct {
	Status, Title, Description string
	Headers                    []Parameter
	Media                      []Media
	Codes                      []string // error codes, from its examples
}

// Success tells whether the status is a success.
func (a Answer) Success() bool { return a.Status < "400" && a.Status != "default" }

// ParseDocument reads an OpenAPI document, of version 3.0 or 3.1.
func ParseDocument(source []byte) (*Document, error) {
	root, err := parse(source)
	if err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	d := &Document{
		Title: root.get("info", "title").text(), Version: root.get("info", "version").text(),
		Description: root.get("info", "description").text(),
	}
	root.get("components", "securitySchemes").entries(func(name string, n node) { d.Schemes = append(d.Schemes, schemeOf(name, n.follow())) })
	operations := readOperations(root)
	for _, n := range root.get("tags").items() {
		tag := Tag{Name: n.get("name").text(), Description: n.get("description").text()}
		tag.Slug = slug(tag.Name)
		for _, op := range operations {
			if op.Tag == tag.Name {
				op.Slug = tag.Slug
				tag.Operations = append(tag.Operations, op)
			}
		}
		if len(tag.Operations) > 0 {
			d.Tags = append(d.Tags, tag)
		}
	}
	for _, op := range operations {
		if !slices.ContainsFunc(d.Tags, func(t Tag) bool { return t.Name == op.Tag }) {
			return nil, fmt.Errorf("read the OpenAPI document: %s has the tag %q, which is not described", op.ID, op.Tag)
		}
	}
	return d, nil
}

func schemeOf(name string, n node) Scheme {
	s := Scheme{Name: name, Description: n.get("description").text()}
	switch {
	case n.get("type").text() == "http":
		s.Text = "`Authorization: Bearer …`"
	case n.get("in").text() == "cookie":
		s.Text = "the cookie `" + n.get("name").text() + "`"
	default:
		s.Text = "`" + n.get("name").text() + ": …`"
	}
	return s
}

func readOperations(root node) []Operation {
	var out []Operation
	root.get("paths").entries(func(path string, item node) {
		item = item.follow()
		shared := item.get("parameters").items()
		item.entries(func(method string, n node) {
			method = strings.ToUpper(method)
			if !slices.Contains([]string{"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"}, method) {
				return
			}
			op := readOperation(root, n)
			op.Method, op.Path = method, path
			op.Parameters = slices.Concat(parametersOf(shared), op.Parameters)
			out = append(out, op)
		})
	})
	return out
}

func readOperation(root, n node) Operation {
	op := Operation{
		ID: n.get("operationId").text(), Summary: n.get("summary").text(), Description: n.get("description").text(),
		QuotaKey: n.get("x-quota-key").text(), Parameters: parametersOf(n.get("parameters").items()),
	}
	if tags := n.get("tags").texts(); len(tags) > 0 {
		op.Tag = tags[0]
	}
	security := n.get("security")
	if security.Node == nil {
		security = root.get("security")
	}
	for _, way := range security.items() {
		var names []string
		way.entries(func(name string, _ node) { names = append(names, name) })
		op.Security = append(op.Security, strings.Join(names, " and "))
	}
	if body := n.get("requestBody"); body.exists() {
		op.Body = &Body{Description: body.get("description").text(), Required: body.get("required").isTrue(), Media: mediaOf(body)}
	}
	n.get("responses").entries(func(status string, answer node) { op.Answers = append(op.Answers, answerOf(status, answer.follow())) })
	slices.SortStableFunc(op.Answers, func(a, b Answer) int { return strings.Compare(a.Status, b.Status) })
	return op
}

func parametersOf(list []node) []Parameter {
	out := make([]Parameter, 0, len(list))
	for _, n := range list {
		out = append(out, parameterOf(n.follow()))
	}
	return out
}

func parameterOf(n node) Parameter {
	p := Parameter{
		Name: n.get("name").text(), In: n.get("in").text(), Description: n.get("description").text(),
		Required: n.get("required").isTrue(), Schema: schemaOf(n.child("schema")),
	}
	p.Example = firstOf(exampleOf(n), firstExample(n), p.Schema.Example)
	p.Description = firstOf(p.Description, p.Schema.Description)
	return p
}

// firstExample is the first of the named examples.
func firstExample(n node) string {
	out := ""
	n.get("examples").entries(func(_ string, e node) {
		if value := e.follow().get("value"); out == "" && value.Node != nil {
			out = value.inlineJSON()
		}
	})
	return out
}

func mediaOf(n node) []Media {
	var out []Media
	n.get("content").entries(func(kind string, n node) {
		m := Media{Type: kind, Schema: schemaOf(n.child("schema"))}
		add := func(name, summary string, value node) {
			if value.Node == nil {
				return
			}
			if m.value.Node == nil {
				m.value = value
			}
			text := value.json()
			if kind != "application/json" && value.text() != "" {
				text = value.text()
			}
			m.Examples = append(m.Examples, Example{Name: name, Summary: firstOf(summary, name), Text: text})
		}
		add("", "", n.get("example"))
		n.get("examples").entries(func(name string, e node) {
			e = e.follow()
			add(name, e.get("summary").text(), e.get("value"))
		})
		out = append(out, m)
	})
	return out
}

func answerOf(status string, n node) Answer {
	a := Answer{Status: status, Description: n.get("description").text(), Media: mediaOf(n)}
	if code, err := strconv.Atoi(status); err == nil {
		a.Title = http.StatusText(code)
	}
	n.get("headers").entries(func(name string, h node) {
		p := parameterOf(h.follow())
		p.Name, p.In = name, "header"
		a.Headers = append(a.Headers, p)
	})
	for _, m := range a.Media {
		for _, value := range m.values(n) {
			if code := value.get("code").text(); code != "" && !slices.Contains(a.Codes, code) {
				a.Codes = append(a.Codes, code)
			}
		}
	}
	return a
}

// values are the examples of an answer with this body.
func (m Media) values(answer node) []node {
	var out []node
	content := answer.get("content").get(m.Type)
	if e := content.get("example"); e.Node != nil {
		out = append(out, e)
	}
	content.get("examples").entries(func(_ string, e node) { out = append(out, e.follow().get("value")) })
	return out
}

// slug is a name as a part of an address.
func slug(name string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '_':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, name), "-")
}
