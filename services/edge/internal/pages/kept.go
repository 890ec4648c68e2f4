package pages

import (
	"regexp"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"quire.dev/services/edge/internal/httpin"
)

// Kept is an answer that is the same for everybody, such as a page of the documentation. It is compressed once. A browser
// may keep it, and asks each time whether it is still the same. It does not change and is safe for concurrent use.
type Kept struct {
	contentType string
	page        *Page // nil of an answer that is no page
	sheets      []sheet
	scripts     []string // addresses
	plain       []byte
	hash        string
	gzip        func() []byte // made when first asked for
	brotli      func() []byte
}

// Keep renders a page whose main part depends on nobody.
func (p *Pages) Keep(page *Page) (*Kept, error) {
	body, sheets, err := p.execute(page, "")
	if err != nil {
		return nil, err
	}
	k := KeepText(fiber.MIMETextHTMLCharsetUTF8, body)
	k.page, k.sheets = page, sheets
	for _, name := range page.Scripts {
		address, err := p.assets.address(name)
		if err != nil {
			return nil, err
		}
		k.scripts = append(k.scripts, address)
	}
	return k, nil
}

// KeepText is an answer with this body, which must not change.
func KeepText(contentType string, body []byte) *Kept {
	return &Kept{
		contentType: contentType, plain: body, hash: tagOf(body),
		gzip: sync.OnceValue(func() []byte {
			return fasthttp.AppendGzipBytesLevel(nil, body, fasthttp.CompressBestCompression)
		}),
		brotli: sync.OnceValue(func() []byte {
			return fasthttp.AppendBrotliBytesLevel(nil, body, fasthttp.CompressBrotliDefaultCompression)
		}),
	}
}

// hostForm is a host as a source of a policy may have it.
var hostForm = regexp.MustCompile(`^[A-Za-z0-9.-]+(:[0-9]+)?$`)

// policy is that of a page. It allows the page's scripts by their addresses: a page that is kept can't have a nonce. host is what the browser
// calls this server.
func (k *Kept) policy(host string) string {
	policy := k.page.policy(k.sheets, "")
	if len(k.scripts) == 0 || !hostForm.MatchString(host) {
		return policy
	}
	return policy + "; script-src " + host + strings.Join(k.scripts, " "+host)
}

// Answer answers with it.
func (k *Kept) Answer(c *fiber.Ctx) error {
	noneOf, err := httpin.ParseETags(c, fiber.HeaderIfNoneMatch)
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
	if k.page != nil {
		protectPage(c, k.policy(c.Hostname()))
	} else {
		protect(c, "default-src 'none'; frame-ancestors 'none'")
	}
	c.Set(fiber.HeaderCacheControl, "no-cache")
	c.Vary(fiber.HeaderAcceptEncoding)
	if noneOf.Matches(tag) {
		return httpin.NotModified(c, tag)
	}
	httpin.SetETag(c, tag)
	c.Set(fiber.HeaderContentType, k.contentType)
	if encoding != "" {
		c.Set(fiber.HeaderContentEncoding, encoding)
	}
	c.Response().SetBodyRaw(body)
	return nil
}
