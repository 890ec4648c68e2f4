package web

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"quire.dev/services/edge/internal/endpoint/endpointtest"
	"quire.dev/services/edge/internal/fault"
)

func TestTheDescriptionsAreValid(t *testing.T) {
	for name, spec := range endpointtest.Descriptions(t) {
		if !strings.HasPrefix(spec.OpenAPI, "3.1.") {
			t.Errorf("%s is OpenAPI %s", name, spec.OpenAPI)
		}
		if err := spec.Validate(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEveryCodeIsDescribed compares the program's errors with the descriptions'.
func TestEveryCodeIsDescribed(t *testing.T) {
	kinds := faultKinds(t)
	known := endpointtest.KnownValues(t, endpointtest.API(t).Components.Schemas["Error"].Value.Properties["code"].Value)
	for _, kind := range kinds {
		if !slices.Contains(known, string(kind)) {
			t.Errorf("%s is not described", kind)
		}
	}
	described := make(map[string]bool)
	for name, spec := range endpointtest.Descriptions(t) {
		for where, op := range operations(spec) {
			for status, response := range op.Responses.Map() {
				for code, example := range errorExamples(response.Value) {
					described[code] = true
					checkErrorExample(t, fmt.Sprintf("%s: %s %s %s", name, where, status, code), status, code, example)
					if !slices.Contains(kinds, fault.Kind(code)) {
						t.Errorf("%s: %s has an example of %s, which is no error", name, where, code)
					}
				}
			}
		}
	}
	for _, code := range known {
		if !described[code] {
			t.Errorf("%s has no example", code)
		}
	}
}

// faultKinds are the constants of package fault.
func faultKinds(t *testing.T) []fault.Kind {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../fault/fault.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []fault.Kind
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if kind, named := valueType(spec, ok); named && kind == "Kind" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, fault.Kind(text))
		}
		return true
	})
	if len(kinds) < 30 {
		t.Fatalf("only %d kinds were found", len(kinds))
	}
	return kinds
}

func valueType(spec *ast.ValueSpec, ok bool) (string, bool) {
	if !ok {
		return "", false
	}
	name, ok := spec.Type.(*ast.Ident)
	if !ok {
		return "", false
	}
	return name.Name, len(spec.Values) == 1
}

// operations are a description's, by method and path.
func operations(spec *openapi3.T) map[string]*openapi3.Operation {
	out := make(map[string]*openapi3.Operation)
	for path, item := range spec.Paths.Map() {
		for method, op := range item.Operations() {
			out[method+" "+path] = op
		}
	}
	return out
}

// errorExamples are the examples of errors in JSON, by code.
func errorExamples(r *openapi3.Response) map[string]*openapi3.Example {
	out := make(map[string]*openapi3.Example)
	if media := r.Content["application/json"]; media != nil && media.Schema.Value.Properties["reason"] != nil {
		for code, example := range media.Examples {
			out[code] = example.Value
		}
	}
	return out
}

func checkErrorExample(t *testing.T, what, status, code string, example *openapi3.Example) {
	t.Helper()
	value, _ := example.Value.(map[string]any)
	if value["code"] != code || strconv.Itoa(fault.Kind(code).Status()) != status {
		t.Errorf("%s: %v", what, value)
	}
	if at, _ := value["docs"].(string); !strings.HasSuffix(at, "/docs/errors#"+code) {
		t.Errorf("%s: docs is %q", what, at)
	}
	if example.Summary == "" {
		t.Errorf("%s: the example does not say the cause", what)
	}
}

// TestEverythingIsDescribed walks both descriptions: every field must state its unit and its limit.
func TestEverythingIsDescribed(t *testing.T) {
	for name, spec := range endpointtest.Descriptions(t) {
		w := &walk{t: t, name: name}
		if spec.Info.License == nil || spec.Info.License.Identifier != "Apache-2.0" || len(spec.Servers) == 0 {
			t.Errorf("%s: the licence or the servers are missing", name)
		}
		tags := make(map[string]bool)
		for _, tag := range spec.Tags {
			tags[tag.Name] = true
			w.text("tag "+tag.Name, tag.Description)
		}
		ids := regexp.MustCompile(`^(apply|ask|audit|cancel|change|check|close|create|delete|detect|download|explain|get|grant|list|make|open|post|preview|put|record|refund|regenerate|register|repair|replay|rotate|resume|reveal|reverse|search|set|show|sign|suspend|test|update|upload|withdraw)[A-Z]\w+$`)
		seen := make(map[string]bool)
		for where, op := range operations(spec) {
			w.text(where+": summary", op.Summary)
			w.text(where, op.Description)
			if !ids.MatchString(op.OperationID) || seen[op.OperationID] {
				t.Errorf("%s: the operationId %q is not a verb and a noun, or comes twice", where, op.OperationID)
			}
			seen[op.OperationID] = true
			if len(op.Tags) != 1 || !tags[op.Tags[0]] {
				t.Errorf("%s: tags %v", where, op.Tags)
			}
			for _, p := range op.Parameters {
				w.parameter(where, p.Value)
			}
			if op.RequestBody != nil {
				w.text(where+": body", op.RequestBody.Value.Description)
				w.content(where+": body", op.RequestBody.Value.Content)
			}
			for status, r := range op.Responses.Map() {
				w.text(where+" "+status, *r.Value.Description)
				w.content(where+" "+status, r.Value.Content)
				for header, h := range r.Value.Headers {
					w.text(where+" "+status+" "+header, h.Value.Description)
					w.example(where+" "+status+" "+header, h.Value.Schema.Value, h.Value.Example)
				}
			}
		}
	}
}

type walk struct {
	t    *testing.T
	name string
}

func (w *walk) text(what, text string) {
	w.t.Helper()
	if strings.TrimSpace(text) == "" {
		w.t.Errorf("%s: %s is not described", w.name, what)
	}
}

// example validates an example against its schema.
func (w *walk) example(what string, schema *openapi3.Schema, value any) {
	w.t.Helper()
	if value == nil {
		w.t.Errorf("%s: %s has no example", w.name, what)
		return
	}
	if err := schema.VisitJSON(value, openapi3.EnableJSONSchema2020(), openapi3.EnableFormatValidation()); err != nil {
		w.t.Errorf("%s: the example of %s: %v", w.name, what, err)
	}
}

func (w *walk) parameter(where string, p *openapi3.Parameter) {
	w.t.Helper()
	what := where + ": " + p.Name
	w.text(what, p.Description)
	w.example(what, p.Schema.Value, p.Example)
}

func (w *walk) content(where string, content openapi3.Content) {
	w.t.Helper()
	for media, m := range content {
		what := where + " " + media
		// Importers take an example of a form for its fields, and fail if it is text.
		fieldless := media == "application/x-www-form-urlencoded" && m.Schema.Value.Type.Is("string")
		if fieldless != (len(m.Examples) == 0) {
			w.t.Errorf("%s: %s has %d examples", w.name, what, len(m.Examples))
		}
		for name, example := range m.Examples {
			w.example(what+" "+name, m.Schema.Value, example.Value.Value)
			w.text(what+" "+name, example.Value.Summary)
		}
		w.schema(what, m.Schema, 0)
	}
}

// schema walks the properties, which nest only a few levels deep.
func (w *walk) schema(what string, ref *openapi3.SchemaRef, depth int) {
	w.t.Helper()
	if depth > 8 {
		w.t.Fatalf("%s: %s nests too deeply", w.name, what)
	}
	s := ref.Value
	if s.Format != "binary" && len(s.OneOf)+len(s.AnyOf) == 0 {
		w.text(what, s.Description)
	}
	if s.Type.Is("number") {
		w.t.Errorf("%s: %s is a number: money is text, all else is whole", w.name, what)
	}
	if slices.Contains(s.Enum, nil) && !s.Type.Includes("null") {
		w.t.Errorf("%s: %s has null among its values, and its type does not", w.name, what)
	}
	for name, property := range s.Properties {
		w.text(what+"."+name, property.Value.Description)
		w.schema(what+"."+name, property, depth+1)
	}
	if s.AdditionalProperties.Schema != nil {
		w.schema(what+".*", s.AdditionalProperties.Schema, depth+1)
	}
	if s.Items != nil && len(s.Items.Value.Properties) > 0 {
		w.schema(what+"[]", s.Items, depth+1)
	}
}

// TestAnswersAreOpen: answers may grow, so no answer's schema is closed to new fields.
func TestAnswersAreOpen(t *testing.T) {
	var open func(t *testing.T, what string, s *openapi3.Schema)
	open = func(t *testing.T, what string, s *openapi3.Schema) {
		t.Helper()
		if no := s.AdditionalProperties.Has; no != nil && !*no {
			t.Errorf("%s is closed", what)
		}
		for name, property := range s.Properties {
			open(t, what+"."+name, property.Value)
		}
		if s.Items != nil {
			open(t, what+"[]", s.Items.Value)
		}
		for _, one := range append(slices.Clone(s.AnyOf), s.OneOf...) {
			open(t, what, one.Value)
		}
	}
	for _, spec := range endpointtest.Descriptions(t) {
		for where, op := range operations(spec) {
			for status, r := range op.Responses.Map() {
				for media, m := range r.Value.Content {
					open(t, where+" "+status+" "+media, m.Schema.Value)
				}
			}
		}
	}
}

// TestComponentNamesAreUnique across all kinds: generators make a type of each.
func TestComponentNamesAreUnique(t *testing.T) {
	for file, spec := range endpointtest.Descriptions(t) {
		kinds := make(map[string]string)
		c := spec.Components
		for kind, names := range map[string][]string{
			"schemas": slices.Collect(maps.Keys(c.Schemas)), "parameters": slices.Collect(maps.Keys(c.Parameters)),
			"headers": slices.Collect(maps.Keys(c.Headers)), "requestBodies": slices.Collect(maps.Keys(c.RequestBodies)),
			"responses": slices.Collect(maps.Keys(c.Responses)), "examples": slices.Collect(maps.Keys(c.Examples)),
			"securitySchemes": slices.Collect(maps.Keys(c.SecuritySchemes)),
		} {
			for _, name := range names {
				if other, taken := kinds[strings.ToLower(name)]; taken {
					t.Errorf("%s: %s is among %s and %s", file, name, kind, other)
				}
				kinds[strings.ToLower(name)] = kind
			}
		}
		if len(kinds) < 30 {
			t.Errorf("%s: only %d components were seen", file, len(kinds))
		}
	}
}
