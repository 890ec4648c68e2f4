package pages

import (
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/httpin"
)

// protect keeps a browser from making more of an answer than it is.
func protect(c *fiber.Ctx, policy string) {
	c.Set(fiber.HeaderContentSecurityPolicy, policy)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	c.Set(fiber.HeaderXFrameOptions, "DENY")
}

// ProtectRaw protects an answer that is a text's content itself. A browser may keep it but has to ask each time, since
// the text may be gone; a text with a password it may not keep.
func ProtectRaw(c *fiber.Ctx, doc *event.Document) {
	protect(c, "sandbox; default-src 'none'; frame-ancestors 'none'")
	SetRobots(c, doc)
	cache := "no-cache"
	if len(doc.PasswordHash) > 0 {
		cache = "no-store"
	}
	c.Set(fiber.HeaderCacheControl, cache)
}

// ProtectFile protects an answer that is the bytes of a file: a browser saves them and runs nothing of them.
func ProtectFile(c *fiber.Ctx, doc *event.Document) {
	c.Set(fiber.HeaderContentType, doc.ContentType)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderContentSecurityPolicy, "sandbox; default-src 'none'")
	c.Set(fiber.HeaderContentDisposition, httpin.ContentDisposition(doc.Title))
	c.Set(fiber.HeaderCacheControl, "private, no-cache")
	c.Set(fiber.HeaderLastModified, time.UnixMilli(doc.CreatedMs).UTC().Format(http.TimeFormat))
}

// SetRobots keeps a document that is not public out of search engines.
func SetRobots(c *fiber.Ctx, doc *event.Document) {
	if event.Visibility(doc.Visibility) != event.Public {
		c.Set("X-Robots-Tag", "noindex, nofollow")
	}
}
