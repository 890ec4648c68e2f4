package pages

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/httpin/headers"
)

const (
	headerOpenerPolicy   = "Cross-Origin-Opener-Policy"
	headerResourcePolicy = "Cross-Origin-Resource-Policy"
)

// protect keeps a browser from making more of an answer than it is. The referrer stays within this site: with no referrer
// at all a browser would name no origin where a form is sent, and the same-origin check of plain HTTP needs one.
func protect(c *fiber.Ctx, policy string) {
	c.Set(fiber.HeaderContentSecurityPolicy, policy)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderReferrerPolicy, "same-origin")
	c.Set(fiber.HeaderXFrameOptions, "DENY")
}

// protectPage is protect for a page of our own: no other site may open it as a part of itself or talk to its window, and
// it uses no device.
func protectPage(c *fiber.Ctx, policy string) {
	protect(c, policy)
	c.Set(headerOpenerPolicy, "same-origin")
	c.Set(headerResourcePolicy, "same-origin")
	c.Set(fiber.HeaderPermissionsPolicy, "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
}

// policy is the Content-Security-Policy of a page. Style sheets are allowed by their hashes, scripts by the nonce of this one
// answer: 'self' would let a page run whatever somebody uploaded here.
func (page *Page) policy(sheets []sheet, nonce string) string {
	var b strings.Builder
	b.WriteString("default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; img-src 'self'")
	for _, source := range page.Embeds {
		b.WriteString(" " + source)
	}
	b.WriteString("; style-src")
	for _, s := range sheets {
		b.WriteString(" " + s.source)
	}
	if len(page.Scripts) > 0 && nonce != "" {
		b.WriteString("; script-src 'nonce-" + nonce + "'")
	}
	if page.Fetches {
		b.WriteString("; connect-src 'self'")
	}
	if len(page.Embeds) > 0 {
		b.WriteString("; frame-src " + strings.Join(page.Embeds, " "))
	}
	return b.String()
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
	c.Set(fiber.HeaderContentDisposition, headers.ContentDisposition(doc.Title))
	c.Set(fiber.HeaderCacheControl, "private, no-cache")
}

// ProtectFrame protects an answer that is a PDF for a frame on a page of this site, which clients find at site. The sandbox
// keeps what is in it from running: it stands in the answer, since browsers show no PDF in a frame that has the attribute.
func ProtectFrame(c *fiber.Ctx, doc *event.Document, site string) {
	c.Set(fiber.HeaderContentType, "application/pdf")
	c.Set(fiber.HeaderContentSecurityPolicy, "sandbox; default-src 'none'; frame-ancestors 'self' "+site)
	c.Set(fiber.HeaderContentDisposition, strings.Replace(headers.ContentDisposition(doc.Title), "attachment", "inline", 1))
}

// SetRobots keeps a document that is not public out of search engines.
func SetRobots(c *fiber.Ctx, doc *event.Document) {
	if event.Visibility(doc.Visibility) != event.Public {
		c.Set("X-Robots-Tag", "noindex, nofollow")
	}
}
