package handlers

import (
	"crypto/rand"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	admins "quire.dev/pkg/admin"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
)

const (
	adminCookie       = "quire_admin"
	secureAdminCookie = "__Host-" + adminCookie // behind TLS, like secureCookie
	// adminLifetime is the fixed lifetime of an admin's session. Edges don't store it, so signing out only deletes the cookie.
	adminLifetime = 30 * time.Minute
	// adminCookieParts are the name of the token, the second at which the session ends, random text, and the signature.
	adminCookieParts = 4
)

func (s *Admins) adminCookieName(c *fiber.Ctx) string {
	if s.BehindTLS(c) {
		return secureAdminCookie
	}
	return adminCookie
}

// adminClaim is the signed text of a session. It includes the token, so that replacing the token ends the session. It differs
// from signed paths of links by its prefix.
func adminClaim(token admins.Token, nonce string) string {
	return "admin session\n" + token.Name + "\n" + nonce + "\n" + token.Secret
}

// openAdminSession opens a session of the token in the browser. Every edge recognizes it by its signature.
func (s *Admins) openAdminSession(c *endpoint.Call, token admins.Token) {
	nonce, expires := rand.Text(), s.Now().Add(adminLifetime).Unix()
	signature := s.secret.SignLink(adminClaim(token, nonce), expires)
	s.setAdminCookie(c, strings.Join([]string{token.Name, strconv.FormatInt(expires, 10), nonce, signature}, "~"), adminLifetime)
}

// setAdminCookie sets the cookie, or deletes it if value is empty. Browsers don't send it when following another site's link.
func (s *Admins) setAdminCookie(c *endpoint.Call, value string, lifetime time.Duration) {
	cookie := &fiber.Cookie{
		Name: s.adminCookieName(c.Ctx), Value: value, Path: "/", MaxAge: int(lifetime.Seconds()),
		HTTPOnly: true, SameSite: fiber.CookieSameSiteStrictMode, Secure: s.BehindTLS(c.Ctx),
	}
	if value == "" {
		cookie.Expires = time.Unix(1, 0)
	}
	c.Cookie(cookie)
}

// adminOf returns the name of the token whose session the browser has; empty if none.
func (s *Admins) adminOf(c *endpoint.Call) string {
	parts := strings.Split(strings.Clone(c.Cookies(s.adminCookieName(c.Ctx))), "~")
	if len(parts) != adminCookieParts {
		return ""
	}
	expires, err := strconv.ParseInt(parts[1], 10, 64)
	left := time.Unix(expires, 0).Sub(s.Now())
	if err != nil || left <= 0 || left > adminLifetime+time.Minute { // edges' clocks may differ
		return ""
	}
	i := slices.IndexFunc(s.tokens, func(t admins.Token) bool { return t.Name == parts[0] })
	if i < 0 || !s.secret.CheckLink(adminClaim(s.tokens[i], parts[2]), expires, parts[3]) {
		return ""
	}
	return s.tokens[i].Name
}

// forAdmins wraps a page that requires an admin's session, and redirects others to the sign-in form.
func (s *Admins) forAdmins(handle func(*endpoint.Call) error) func(*endpoint.Call) error {
	return func(c *endpoint.Call) error {
		if c.Admin = s.adminOf(c); c.Admin != "" {
			return handle(c)
		}
		next := ""
		if c.Method() == fiber.MethodGet {
			next = c.Path()
		}
		if next == "" || c.Get("HX-Request") == "" {
			return redirect(c.Ctx, adminSignIn(next))
		}
		// A script requests a part of a page at a path below it. It would follow a redirect, and insert the form into the page.
		c.Set("HX-Redirect", adminSignIn(path.Dir(next)))
		return s.pages.Fragment(c.Ctx, "")
	}
}

// adminSignIn is the address of the sign-in form that continues to a page.
func adminSignIn(next string) string {
	return console.AdminSignInPath + (&console.Sign{Next: next}).Query()
}

// adminNext is the page to continue to.
func adminNext(next string) string {
	if next = nextPath(next); next == console.AdminPath || strings.HasPrefix(next, console.AdminPath+"/") && next != console.AdminSignInPath {
		return next
	}
	return console.AdminPath
}

func (s *Admins) showAdminSignIn(c *endpoint.Call) error {
	next := adminNext(c.Query("next"))
	if s.adminOf(c) != "" {
		return redirect(c.Ctx, next)
	}
	return s.console.AdminSignIn(c.Ctx, fiber.StatusOK, &console.AdminSign{Admin: s.adminHead(c), Form: console.AdminToken(next)})
}

// signInAdmin opens a session for a token. An invalid one counts as a failure of its source, as in the API.
func (s *Admins) signInAdmin(c *endpoint.Call) error {
	form := console.AdminToken("")
	return s.submit(c, form, submission{
		unlimited: true,
		do: func() error {
			i := -1
			err := s.Counted(c.Ctx, fault.AdminTokenRequired, func() error {
				name := s.tokens.Find(strings.TrimSpace(form.Values["token"]))
				if i = slices.IndexFunc(s.tokens, func(t admins.Token) bool { return name != "" && t.Name == name }); i < 0 {
					return endpoint.FailedAt("token", fault.AdminTokenRequired, "The token is not one of this Quire's.")
				}
				return nil
			})
			if err != nil {
				return err
			}
			s.openAdminSession(c, s.tokens[i])
			return redirect(c.Ctx, adminNext(form.Values["next"]))
		},
		show: func(status int) error {
			return s.console.AdminSignIn(c.Ctx, status, &console.AdminSign{Admin: s.adminHead(c), Form: form})
		},
	})
}

func (s *Admins) signOutAdmin(c *endpoint.Call) error {
	if len(c.Form) > 0 {
		return fault.New(fault.UnknownField, "The form has no fields.")
	}
	s.setAdminCookie(c, "", 0)
	return redirect(c.Ctx, console.AdminSignInPath)
}

// adminHead is what every page for admins has.
func (s *Admins) adminHead(c *endpoint.Call) console.Admin {
	out := console.Admin{Name: c.Admin}
	if s.alone { // the other pages are elsewhere
		out.Site = s.URL("")
	}
	return out
}
