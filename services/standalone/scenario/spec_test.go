package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

const specificationFile = "../../../docs/openapi.yaml"

// specification is docs/openapi.yaml, to which all answers are held.
var specification = sync.OnceValue(func() *spec {
	doc, err := openapi3.NewLoader().LoadFromFile(specificationFile)
	if err == nil {
		err = doc.Validate(context.Background())
	}
	if err != nil {
		return &spec{err: fmt.Errorf("load %s: %w", specificationFile, err)}
	}
	router, err := gorillamux.NewRouter(doc)
	return &spec{router: router, err: err}
})

type spec struct {
	router routers.Router
	err    error
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
	route, params, err := s.router.FindRoute(r)
	if err != nil {
		// The path or the method is not documented. Only errors that say so, pages, OPTIONS and HEAD may be answered.
		switch {
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
	if r.Method == http.MethodHead {
		return nil
	}
	if len(body) > 0 && response.Value.Content.Get(contentType) == nil {
		return fmt.Errorf("type %q is not documented", contentType)
	}
	input := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route}
	answer := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: res.StatusCode, Header: res.Header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, ExcludeResponseBody: !isJSON, MultiError: true},
	}
	answer.SetBodyBytes(body)
	return openapi3filter.ValidateResponse(r.Context(), answer)
}
