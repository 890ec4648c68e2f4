package pages

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/httpin"
)

func tagOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// Reference answers with the description as a page.
func (p *Pages) Reference(c *fiber.Ctx) error {
	reference, err := p.reference()
	if err != nil {
		return fmt.Errorf("read the API's description: %w", err)
	}
	return p.Render(c, &Page{Template: "reference", Title: reference.Title, Index: true, Section: "/docs", Data: reference})
}

// OpenAPI answers with the description itself.
func (p *Pages) OpenAPI(c *fiber.Ctx) error {
	noneOf, err := httpin.ParseETags(c, fiber.HeaderIfNoneMatch)
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderCacheControl, "no-cache")
	if noneOf.Matches(p.openapiTag) {
		return httpin.NotModified(c, p.openapiTag)
	}
	httpin.SetETag(c, p.openapiTag)
	c.Set(fiber.HeaderContentType, "application/yaml; charset=utf-8")
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Response().SetBodyRaw(p.openapi)
	return nil
}
