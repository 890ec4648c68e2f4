package web

import (
	"quire.dev/services/edge/internal/httpin"

	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"sync"

	"github.com/gofiber/fiber/v2"
)

// openapiSource is docs/openapi.yaml as `make generate` copied it here: a file outside of the module
// can't be embedded. A test holds the two equal.
//
//go:embed openapi.yaml
var openapiSource []byte

func (s *Server) registerDocs() {
	p := newPages(s)
	reference := sync.OnceValues(func() (*referencePage, error) { return newReference(openapiSource, p.head) })
	s.http.Handle(fiber.MethodGet, "/docs", p.people(func(c *fiber.Ctx) error {
		page, err := reference()
		if err != nil {
			return fmt.Errorf("read the API's description: %w", err)
		}
		return p.render(c, fiber.StatusOK, "reference", page)
	}))
	sum := sha256.Sum256(openapiSource)
	tag := hex.EncodeToString(sum[:8])
	s.http.Handle(fiber.MethodGet, "/docs/openapi.yaml", func(c *fiber.Ctx) error {
		noneOf, err := httpin.ParseETags(c, fiber.HeaderIfNoneMatch)
		if err != nil {
			return err
		}
		c.Set(fiber.HeaderCacheControl, "no-cache")
		if noneOf.Matches(tag) {
			return httpin.NotModified(c, tag)
		}
		httpin.SetETag(c, tag)
		c.Set(fiber.HeaderContentType, "application/yaml; charset=utf-8")
		c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
		c.Response().SetBodyRaw(openapiSource)
		return nil
	})
}
