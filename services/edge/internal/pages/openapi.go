package pages

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/gofiber/fiber/v2"
)

// TagOf is the entity tag of a body.
func TagOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// OpenAPI answers with the OpenAPI document of the API.
func (p *Pages) OpenAPI(c *fiber.Ctx) error { return p.openapi.Answer(c) }

// PagesOpenAPI answers with the OpenAPI document of the pages and the operators' paths.
func (p *Pages) PagesOpenAPI(c *fiber.Ctx) error { return p.pagesOpenAPI.Answer(c) }
