package pages

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"quire.dev/services/edge/internal/httpin/headers"
)

// Kept is a response that is the same for every visitor without a session, such as a page of the documentation, compressed once. Browsers
// cache it and revalidate it on each visit, unless it is immutable. It is safe for concurrent use.
type Kept struct {
	contentType string
	immutable   bool  // an asset: its URL has its hash, and only pages of this site load it
	page        *Page // nil unless it is a page
	sheets      []sheet
	head        string   // source of the script in the head
	scripts     []string // addresses
	site        string   // host of the site's URL
	plain       []byte
	hash        string
	gzip        func() []byte // compresses on first use
	brotli      func() []byte
}

// Keep renders a page that is the same for every visitor. site is the public URL of the site.
func (p *Pages) Keep(page *Page, site string) (*Kept, error) {
	address, err := url.Parse(site)
	if err != nil {
		return nil, fmt.Errorf("keep page %s: %w", page.Template, err)
	}
	body, sheets, err := p.execute(page, "")
	if err != nil {
		return nil, err
	}
	k := KeepText(fiber.MIMETextHTMLCharsetUTF8, body)
	k.page, k.sheets, k.head, k.site = page, sheets, p.head.source, address.Host
	for _, name := range append(page.scripts(), page.Modules...) {
		script, err := p.assets.address(name)
		if err != nil {
			return nil, err
		}
		k.scripts = append(k.scripts, script)
	}
	return k, nil
}

// KeepText is a response with this body, which must not change.
func KeepText(contentType string, body []byte) *Kept {
	return &Kept{
		contentType: contentType, plain: body, hash: TagOf(body),
		gzip: sync.OnceValue(func() []byte {
			return fasthttp.AppendGzipBytesLevel(nil, body, fasthttp.CompressBestCompression)
		}),
		brotli: sync.OnceValue(func() []byte {
			return fasthttp.AppendBrotliBytesLevel(nil, body, fasthttp.CompressBrotliDefaultCompression)
		}),
	}
}

// hostForm is the syntax of a host in a policy's source list.
var hostForm = regexp.MustCompile(`^[A-Za-z0-9.-]+(:[0-9]+)?$`)

// policy is the Content-Security-Policy of a kept page. It allows scripts by address, since a cached page can't have a
// nonce, on two hosts: the request's Host header and the site's own, because a proxy may change the header.
func (k *Kept) policy(host string) string {
	hosts := []string{k.site}
	if !strings.EqualFold(host, k.site) {
		hosts = append(hosts, host)
	}
	sources := []string{k.head}
	for _, host := range hosts {
		if !hostForm.MatchString(host) {
			continue
		}
		for _, script := range k.scripts {
			sources = append(sources, host+script)
		}
	}
	return k.page.policy(k.sheets, sources...)
}

// Answer sends the response.
func (k *Kept) Answer(c *fiber.Ctx) error {
	conditions, err := headers.ReadConditions(c)
	if err != nil {
		return err
	}
	body, tag, encoding := k.plain, k.hash, ""
	switch accepted := c.Get(fiber.HeaderAcceptEncoding); {
	case len(body) < minCompressBytes:
	case accepts(accepted, "br"):
		body, encoding = k.brotli(), "br"
	case accepts(accepted, "gzip"):
		body, encoding = k.gzip(), "gzip"
	}
	if encoding != "" {
		tag += "-" + encoding
	}
	known, err := conditions.Check(headers.Validators{ETag: tag})
	if err != nil {
		return err
	}
	cache := "no-cache"
	if k.page != nil {
		protectPage(c, k.policy(string(c.Context().Host())))
	} else {
		protect(c, "default-src 'none'; frame-ancestors 'none'")
	}
	if k.immutable {
		c.Set(headerResourcePolicy, "same-origin")
		cache = "public, max-age=31536000, immutable"
	}
	c.Set(fiber.HeaderCacheControl, cache)
	c.Vary(fiber.HeaderAcceptEncoding)
	if k.page != nil {
		c.Vary(fiber.HeaderCookie) // see Pages.Answer
	}
	if known {
		return headers.NotModified(c, tag)
	}
	headers.SetETag(c, tag)
	c.Set(fiber.HeaderContentType, k.contentType)
	if encoding != "" {
		c.Set(fiber.HeaderContentEncoding, encoding)
	}
	c.Response().SetBodyRaw(body)
	return nil
}
