package web

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/pages"
)

// missingPage answers a path without a route: outside the API, browsers get a page.
func (s *Server) missingPage(c *fiber.Ctx, err error) error {
	if strings.HasPrefix(c.Path(), "/api/") || !pages.WantsHTML(c) || s.OnContentHost(c) {
		return err
	}
	if err := s.AdmitView(s.http.Source(c)); err != nil {
		return err
	}
	return s.FailurePage(c, err)
}

// asset answers with an asset of the pages.
func (s *Server) asset(c *endpoint.Call) error {
	found, err := s.pages.Asset(c.Ctx, c.Params("name"))
	if err == nil && !found {
		err = endpoint.NotFound()
	}
	return err
}

// operate answers /livez, /readyz and /metrics. It completes their failures to the form of all failures.
func (s *Server) operate(c *endpoint.Call) error {
	s.ops(c.Context())
	if c.Response().StatusCode() < fiber.StatusBadRequest {
		return nil
	}
	var failure operatorFailure
	if err := json.Unmarshal(c.Response().Body(), &failure); err != nil || failure.Code == "" {
		return fault.New(fault.Internal, httperr.InternalMessage).Because(errors.New(string(c.Response().Body())))
	}
	failure.RequestID, failure.Docs = httpin.RequestID(c.Ctx), s.URL("/docs/errors#"+failure.Code)
	body, err := json.Marshal(failure)
	if err != nil {
		return err
	}
	c.Response().SetBodyRaw(append(body, '\n'))
	return nil
}

// operatorFailure is a failure as telemetry's handler writes it, with the missing members.
type operatorFailure struct {
	Success   bool            `json:"success"`
	Reason    string          `json:"reason"`
	Code      string          `json:"code"`
	RequestID string          `json:"requestId"`
	Docs      string          `json:"docs"`
	Failing   json.RawMessage `json:"failing,omitempty"`
}
