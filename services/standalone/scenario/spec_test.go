package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

const (
	specificationFile      = "../../../docs/openapi.yaml"
	pagesSpecificationFile = "../../../docs/openapi-pages.yaml"
)

// specification is docs/openapi.yaml with docs/openapi-pages.yaml beside it, to which all answers are held.
var specification = sync.OnceValue(func() *spec {
	out := &spec{}
	for _, file := range []string{specificationFile, pagesSpecificationFile} {
		loader := openapi3.NewLoader()
		loader.IsExternalRefsAllowed = true // the second refers to the first
		doc, err := loader.LoadFromFile(file)
		if err == nil {
			err = doc.Validate(context.Background())
		}
		if err != nil {
			return &spec{err: fmt.Errorf("load %s: %w", file, err)}
		}
		router, err := gorillamux.NewRouter(doc)
		if err != nil {
			return &spec{err: fmt.Errorf("route %s: %w", file, err)}
		}
		out.docs, out.routers = append(out.docs, doc), append(out.routers, router)
	}
	return out
})

type spec struct {
	docs    []*openapi3.T
	routers []routers.Router
	err     error
}

// route finds the operation in the document that has it.
func (s *spec) route(r *http.Request) (*routers.Route, map[string]string, error) {
	var errs []error
	for _, router := range s.routers {
		route, params, err := router.FindRoute(r)
		if err == nil {
			return route, params, nil
		}
		errs = append(errs, err)
	}
	return nil, nil, errors.Join(errs...)
}

// validator is a client's transport that fails if an answer is not as documented.
type validator struct {
	next http.RoundTripper
	spec *spec
}

func (v *validator) CloseIdleConnections() {
	if c, ok := v.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper.
func (v *validator) RoundTrip(r *http.Request) (*http.Response, error) {
	if v.spec.err != nil {
		return nil, v.spec.err
	}
	res, err := v.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	closeErr := res.Body.Close()
	if err = errors.Join(err, closeErr); err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	if err := v.spec.check(r, res, body); err != nil {
		return nil, fmt.Errorf("answer %d %.300q is not as documented: %w", res.StatusCode, body, err)
	}
	return res, nil
}

func (s *spec) check(r *http.Request, res *http.Response, body []byte) error {
	if res.Header.Get("X-Request-Id") == "" {
		return errors.New("no X-Request-Id")
	}
	contentType, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	isJSON := contentType == "application/json"
	route, params, err := s.route(r)
	if err != nil {
		// The path or the method is not documented. Only errors that say so, pages, OPTIONS and HEAD may be answered.
		switch {
		case contentType == "text/plain" && bytes.HasPrefix(body, []byte("error: ")) && (r.Method == http.MethodPut || r.URL.Path == "/"):
			return nil // docs/api.md, From a terminal
		case res.StatusCode >= 400 && !isJSON && r.Method != http.MethodHead && contentType != "text/html":
			return fmt.Errorf("an error of type %q", contentType)
		case res.StatusCode == http.StatusNotFound, res.StatusCode == http.StatusMethodNotAllowed, !isJSON,
			r.Method == http.MethodOptions, r.Method == http.MethodHead:
			return nil
		}
		return err
	}
	response := route.Operation.Responses.Status(res.StatusCode)
	if response == nil {
		return fmt.Errorf("status %d is not documented", res.StatusCode)
	}
	if contentType != "text/html" { // what keeps a page safe is the browser's, and its own tests'
		if err := checkHeaders(res.Header, response.Value); err != nil {
			return err
		}
	}
	if r.Method == http.MethodHead {
		return nil
	}
	if len(body) > 0 && response.Value.Content.Get(contentType) == nil {
		return fmt.Errorf("type %q is not documented", contentType)
	}
	if res.StatusCode >= http.StatusBadRequest && isJSON {
		if err := checkError(body, response.Value); err != nil {
			return err
		}
	}
	input := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route}
	answer := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: res.StatusCode, Header: res.Header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, ExcludeResponseBody: !isJSON, MultiError: true},
	}
	answer.SetBodyBytes(body)
	return openapi3filter.ValidateResponse(r.Context(), answer)
}

// checkHeaders holds that every header of an answer is documented, but those of HTTP itself, which are the same
// everywhere.
func checkHeaders(sent http.Header, documented *openapi3.Response) error {
	for name := range sent {
		switch name {
		case "Connection", "Content-Length", "Content-Type", "Date", "Transfer-Encoding", "Vary":
			continue
		}
		known := false
		for header := range documented.Headers {
			known = known || strings.EqualFold(header, name)
		}
		if !known {
			return fmt.Errorf("header %s is not documented", name)
		}
	}
	return nil
}

// checkError holds that an error's code is among those documented for the operation and status, and that it has no field
// that the documented example of the code has not, but those that only some errors of a code have.
func checkError(body []byte, documented *openapi3.Response) error {
	var sent object
	if err := json.Unmarshal(body, &sent); err != nil {
		return err
	}
	code, _ := sent["code"].(string)
	example := documented.Content["application/json"].Examples[code]
	if example == nil {
		return fmt.Errorf("code %q is not documented", code)
	}
	shown, _ := example.Value.Value.(map[string]any)
	for field := range sent {
		_, ok := shown[field]
		if ofSome := field == "field" || field == "suggestion" || field == "limit"; !ok && !ofSome {
			return fmt.Errorf("the documented example of %s has no %s", code, field)
		}
	}
	return nil
}
