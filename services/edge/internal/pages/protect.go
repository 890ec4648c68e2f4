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

// protect sets the policy and forbids framing and sniffing. Referrers stay within this site, rather than none at all: the
// same-origin check of plain HTTP needs the origin that browsers then send with a form.
func protect(c *fiber.Ctx, policy string) {
	c.Set(fiber.HeaderContentSecurityPolicy, policy)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderReferrerPolicy, "same-origin")
	c.Set(fiber.HeaderXFrameOptions, "DENY")
}

// protectPage protects a page of this site: no other site can frame it or access its window, and it can't use devices.
func protectPage(c *fiber.Ctx, policy string) {
	protect(c, policy)
	c.Set(headerOpenerPolicy, "same-origin")
	c.Set(headerResourcePolicy, "same-origin")
	c.Set(fiber.HeaderPermissionsPolicy, "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
}

// policy is the Content-Security-Policy of a page. It allows style sheets by hash, and scripts by the sources, which are
// hashes, the response's nonce or addresses: 'self' would let a page run uploaded files.
func (page *Page) policy(sheets []sheet, scripts ...string) string {
	var b strings.Builder
	b.WriteString("default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; img-src 'self'")
	for _, source := range page.Embeds {
		b.WriteString(" " + source)
	}
	b.WriteString("; style-src")
	for _, s := range sheets {
		b.WriteString(" " + s.source)
	}
	if page.Fetches {
		b.WriteString("; connect-src 'self'")
	}
	if len(page.Embeds) > 0 {
		b.WriteString("; frame-src " + strings.Join(page.Embeds, " "))
	}
	b.WriteString("; script-src " + strings.Join(scripts, " "))
	return b.String()
}

// ProtectRaw protects a response with the raw content of a text. Browsers must revalidate it, since the text may be
// deleted, and must not store a text with a password.
func ProtectRaw(c *fiber.Ctx, doc *event.Document) {
	protect(c, "sandbox; default-src 'none'; frame-ancestors 'none'")
	SetRobots(c, doc)
	cache := "no-cache"
	if len(doc.PasswordHash) > 0 {
		cache = "no-store"
	}
	c.Set(fiber.HeaderCacheControl, cache)
}

// ProtectFile protects a response with the bytes of a file: browsers download it and run nothing in it.
func ProtectFile(c *fiber.Ctx, doc *event.Document) {
	c.Set(fiber.HeaderContentType, doc.ContentType)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderContentSecurityPolicy, "sandbox; default-src 'none'")
	c.Set(fiber.HeaderContentDisposition, headers.ContentDisposition(doc.Title))
	c.Set(fiber.HeaderCacheControl, "private, no-cache")
}

// ProtectFrame protects a PDF in a frame on a page of this site. The sandbox, which stops its scripts, is in the
// response's policy, because browsers show no PDF in a frame with the sandbox attribute. site is the public URL.
func ProtectFrame(c *fiber.Ctx, doc *event.Document, site string) {
	c.Set(fiber.HeaderContentType, "application/pdf")
	c.Set(fiber.HeaderContentSecurityPolicy, "sandbox; default-src 'none'; frame-ancestors 'self' "+site)
	c.Set(fiber.HeaderContentDisposition, strings.Replace(headers.ContentDisposition(doc.Title), "attachment", "inline", 1))
}

// SetRobots keeps search engines from indexing a document that isn't public.
func SetRobots(c *fiber.Ctx, doc *event.Document) {
	if event.Visibility(doc.Visibility) != event.Public {
		c.Set("X-Robots-Tag", "noindex, nofollow")
	}
}
