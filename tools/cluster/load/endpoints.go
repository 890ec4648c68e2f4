package load

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// endpoint is one that takes an API key.
type endpoint struct {
	method, path string // with the parameters of docs/openapi.yaml
	quota        string // key; empty: it is not metered
}

// body is right for each endpoint that takes one: a paste, a change of one, and the content of a file.
func (e endpoint) body() []byte {
	if e.method == http.MethodPost || e.method == http.MethodPut {
		return []byte(`{"content":"x"}`)
	}
	return nil
}

// endpoints are all that take an API key, by a description of the API such as docs/openapi.yaml.
func endpoints(description []byte) (all []endpoint, err error) {
	var described struct {
		Paths map[string]map[string]yaml.Node
	}
	err = yaml.Unmarshal(description, &described)
	for path, operations := range described.Paths {
		for method, node := range operations {
			if err != nil || node.Kind != yaml.MappingNode { // the parameters of the path
				continue
			}
			var o struct {
				Security []map[string][]string
				Quota    string `yaml:"x-quota-key"`
			}
			err = node.Decode(&o)
			if slices.ContainsFunc(o.Security, func(s map[string][]string) bool { return s["ApiKey"] != nil }) {
				all = append(all, endpoint{strings.ToUpper(method), path, o.Quota})
			}
		}
	}
	if err == nil && len(all) == 0 {
		err = errors.New("no endpoint takes an API key")
	}
	if err != nil {
		return nil, fmt.Errorf("load: description of the API: %w", err)
	}
	slices.SortFunc(all, func(a, b endpoint) int {
		return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(a.method, b.method)) // draws are repeated by their seed
	})
	return all, nil
}
