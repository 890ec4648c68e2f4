// Package endpointtest has shared helpers for tests of endpoints: raw requests, an edge that takes them, and the API
// descriptions that answers must match.
package endpointtest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"quire.dev/docs"
)

// load parses one of the two descriptions. The second refers to the first.
func load(t *testing.T, name string) *openapi3.T {
	t.Helper()
	files := map[string][]byte{"openapi.yaml": docs.API(), "openapi-pages.yaml": docs.Pages()}
	loader := openapi3.NewLoader()
	loader.ReadFromURIFunc = func(_ *openapi3.Loader, at *url.URL) ([]byte, error) {
		if data := files[path.Base(at.Path)]; data != nil {
			return data, nil
		}
		return nil, fmt.Errorf("no file %s", at)
	}
	spec, err := loader.LoadFromDataWithPath(files[name], &url.URL{Path: "/" + name})
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// API is the description of the API.
func API(t *testing.T) *openapi3.T { return load(t, "openapi.yaml") }

// PagesAPI is the description of the pages and of the paths for operators.
func PagesAPI(t *testing.T) *openapi3.T { return load(t, "openapi-pages.yaml") }

// Descriptions are both descriptions, by name.
func Descriptions(t *testing.T) map[string]*openapi3.T {
	t.Helper()
	return map[string]*openapi3.T{"openapi.yaml": API(t), "openapi-pages.yaml": PagesAPI(t)}
}

// KnownValues are the values that an open enum has today.
func KnownValues(t *testing.T, schema *openapi3.Schema) []string {
	t.Helper()
	list, _ := schema.Extensions["x-extensible-enum"].([]any)
	out := make([]string, 0, len(list))
	for _, v := range list {
		out = append(out, v.(string))
	}
	if len(out) == 0 || len(schema.Enum) > 0 {
		t.Errorf("not an open string with known values: %v", schema)
	}
	return out
}

// HasShape checks an answer against a schema of a description.
func HasShape(t *testing.T, spec *openapi3.T, schema string, answer any) {
	t.Helper()
	data, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	var decoded any
	if err := json.Unmarshal(data, &decoded); err != nil {
		t.Fatal(err)
	}
	if err := spec.Components.Schemas[schema].Value.VisitJSON(decoded, openapi3.VisitAsResponse(), openapi3.EnableJSONSchema2020()); err != nil {
		t.Errorf("%s: %s\n%v", schema, data, err)
	}
}
