package pages

import (
	"cmp"
	"html"
	"html/template"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// reference is the API's description as people read it. All of its text is our own.
type reference struct {
	Title  string
	Intro  []template.HTML
	Groups []referenceGroup
}

type referenceGroup struct {
	ID, Name   string
	Operations []referenceOperation
}

type referenceOperation struct {
	ID, Method, Path, Auth string
	Summary                template.HTML
	Text                   []template.HTML
	Parameters, Body       []referenceField
	Answers                []referenceAnswer
}

type referenceField struct {
	Name, Kind string
	Text       template.HTML
}

type referenceAnswer struct {
	Status, Fields string
	Text           template.HTML
}

// newReference makes a page of a description, in the order of its tags.
func newReference(source []byte) (*reference, error) {
	spec, err := openapi3.NewLoader().LoadFromData(source)
	if err != nil {
		return nil, err
	}
	out := &reference{Title: spec.Info.Title, Intro: paragraphs(spec.Info.Description)}
	for _, tag := range spec.Tags {
		group := referenceGroup{ID: "tag-" + strings.ReplaceAll(tag.Name, " ", "-"), Name: tag.Name}
		for path, item := range spec.Paths.Map() {
			for method, op := range item.Operations() {
				if slices.Contains(op.Tags, tag.Name) {
					group.Operations = append(group.Operations, describeOperation(method, path, op))
				}
			}
		}
		slices.SortFunc(group.Operations, func(a, b referenceOperation) int {
			return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Method, b.Method))
		})
		out.Groups = append(out.Groups, group)
	}
	return out, nil
}

func describeOperation(method, path string, op *openapi3.Operation) referenceOperation {
	out := referenceOperation{
		ID: op.OperationID, Method: method, Path: path, Auth: describeAuth(op.Security),
		Summary: inline(op.Summary), Text: paragraphs(op.Description),
	}
	for _, p := range op.Parameters {
		kind := p.Value.In
		if p.Value.Required {
			kind += ", required"
		}
		out.Parameters = append(out.Parameters, referenceField{Name: p.Value.Name, Kind: kind, Text: inline(p.Value.Description)})
	}
	if op.RequestBody != nil {
		out.Body = describeBody(op.RequestBody.Value)
	}
	responses := op.Responses.Map()
	for _, status := range slices.Sorted(maps.Keys(responses)) {
		answer := referenceAnswer{Status: status}
		if r := responses[status].Value; r != nil {
			if r.Description != nil {
				answer.Text = inline(*r.Description)
			}
			if media := r.Content.Get("application/json"); media != nil && media.Schema != nil && status < "400" {
				answer.Fields = strings.Join(slices.Sorted(maps.Keys(media.Schema.Value.Properties)), ", ")
			}
		}
		out.Answers = append(out.Answers, answer)
	}
	return out
}

func describeBody(body *openapi3.RequestBody) []referenceField {
	var out []referenceField
	for _, name := range slices.Sorted(maps.Keys(body.Content)) {
		schema := body.Content[name].Schema
		if schema == nil || len(schema.Value.Properties) == 0 {
			out = append(out, referenceField{Name: name, Text: inline(body.Description)})
			continue
		}
		for _, field := range slices.Sorted(maps.Keys(schema.Value.Properties)) {
			f := schema.Value.Properties[field].Value
			kind := describeType(f)
			if slices.Contains(schema.Value.Required, field) {
				kind += ", required"
			}
			out = append(out, referenceField{Name: field, Kind: kind, Text: inline(f.Description)})
		}
	}
	return out
}

func describeType(s *openapi3.Schema) string {
	if s.Type == nil {
		return "any"
	}
	if len(s.Enum) > 0 {
		var values []string
		for _, v := range s.Enum {
			if text, ok := v.(string); ok {
				values = append(values, text)
			}
		}
		return strings.Join(values, " | ")
	}
	return strings.Join(s.Type.Slice(), " | ")
}

// describeAuth names the ways to be let in; "" where none is needed.
func describeAuth(security *openapi3.SecurityRequirements) string {
	if security == nil {
		return ""
	}
	var ways []string
	for _, way := range *security {
		if len(way) == 0 {
			ways = append(ways, "nothing")
		}
		for name := range way {
			ways = append(ways, authNames(name))
		}
	}
	return strings.Join(ways, ", or ")
}

func authNames(scheme string) string {
	switch scheme {
	case "ApiKey":
		return "an API key in x-api-key"
	case "BearerKey":
		return "an API key as Authorization: Bearer"
	case "ManageToken":
		return "a management token in X-Manage-Token"
	case "AdminToken":
		return "the admin token as Authorization: Bearer"
	case "Session":
		return "a session"
	}
	return scheme
}

// paragraphs splits text at blank lines.
func paragraphs(text string) []template.HTML {
	var out []template.HTML
	for p := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, inline(p))
		}
	}
	return out
}

// inline escapes text, and makes code of what stands between backticks.
func inline(text string) template.HTML {
	var out strings.Builder
	for i, part := range strings.Split(text, "`") {
		if i%2 == 0 {
			out.WriteString(html.EscapeString(part))
		} else {
			out.WriteString("<code>" + html.EscapeString(part) + "</code>")
		}
	}
	return template.HTML(out.String()) //nolint:gosec // escaped above
}
