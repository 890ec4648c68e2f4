package pages

import (
	"net/url"

	"github.com/gofiber/fiber/v2"
)

// Visitor is the signed-in user or admin who views a page, for the menu in its header.
type Visitor struct {
	Email   string
	Plan    string // display name; empty if unknown
	Balance string // in credits; empty if unknown
	Admin   string // name of the admin token, for a page for admins; the other fields are empty then
}

// ShowVisitors makes find the source of the visitors in headers. It returns nil for a visitor without a session. Call it before
// the first page is rendered.
func (p *Pages) ShowVisitors(find func(*fiber.Ctx) *Visitor) { p.visitor = find }

// visitorOf returns the visitor of a page: the one set by its handler, or else the one of the request's session.
func (p *Pages) visitorOf(c *fiber.Ctx, page *Page) *Visitor {
	if page.Visitor != nil || page.ForAdmins || p.visitor == nil {
		return page.Visitor
	}
	return p.visitor(c)
}

// signInQuery leads back to the page after signing in. Only a page that a GET shows again has one.
func signInQuery(path string) string {
	if path == "" || path == "/console" {
		return ""
	}
	return "?next=" + url.QueryEscape(path)
}

// Answer sends a kept response. A page is rendered anew for a visitor with a session, since its header names them.
func (p *Pages) Answer(c *fiber.Ctx, k *Kept) error {
	if k.page != nil && p.visitor != nil {
		if visitor := p.visitor(c); visitor != nil {
			page := *k.page
			page.Visitor = visitor
			return p.Render(c, &page)
		}
	}
	return k.Answer(c)
}
