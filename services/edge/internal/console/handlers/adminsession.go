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
	secureAdminCookie = "__Host-" + adminCookie // behind TLS, as secureCookie
	// adminLifetime is that of an admin's session, whatever is done with it. No edge keeps it: signing out deletes the cookie.
	adminLifetime = 30 * time.Minute
	// adminCookieParts are the name of the token, the second in which the session ends, random text, and the signature.
	adminCookieParts = 4
)

func (s *Admins) adminCookieName(c *fiber.Ctx) string {
	if s.BehindTLS(c) {
		return secureAdminCookie
	}
	return adminCookie
}

// adminClaim is what the signature of a session holds. The token is in it, so that the session ends where the token is replaced. The
// path of a link begins otherwise.
func adminClaim(token admins.Token, nonce string) string {
	return "admin session\n" + token.Name + "\n" + nonce + "\n" + token.Secret
}

// openAdminSession gives the browser a session of the token. Every edge knows it by its signature.
func (s *Admins) openAdminSession(c *endpoint.Call, token admins.Token) {
	nonce, expires := rand.Text(), s.Now().Add(adminLifetime).Unix()
	signature := s.secret.SignLink(adminClaim(token, nonce), expires)
	s.setAdminCookie(c, strings.Join([]string{token.Name, strconv.FormatInt(expires, 10), nonce, signature}, "~"), adminLifetime)
}

// setAdminCookie sets the cookie, or deletes it where value is empty. No other site's link carries it.
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

// adminOf is the name of the token whose session the browser has; empty where it has none.
func (s *Admins) adminOf(c *endpoint.Call) string {
	parts := strings.Split(strings.Clone(c.Cookies(s.adminCookieName(c.Ctx))), "~")
	if len(parts) != adminCookieParts {
		return ""
	}
	expires, err := strconv.ParseInt(parts[1], 10, 64)
	left := time.Unix(expires, 0).Sub(s.Now())
	if err != nil || left <= 0 || left > adminLifetime+time.Minute { // edges' clocks differ
		return ""
	}
	i := slices.IndexFunc(s.tokens, func(t admins.Token) bool { return t.Name == parts[0] })
	if i < 0 || !s.secret.CheckLink(adminClaim(s.tokens[i], parts[2]), expires, parts[3]) {
		return ""
	}
	return s.tokens[i].Name
}

// ForAdmins is a page for who has a session of an admin token. Others sign in first.
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
		// A script asks for the part of a page that has the path above. It would follow a redirect, and put the form into the page.
		c.Set("HX-Redirect", adminSignIn(path.Dir(next)))
		return s.pages.Fragment(c.Ctx, "")
	}
}

// adminSignIn is the address of the form that leads on to a page.
func adminSignIn(next string) string {
	return console.AdminSignInPath + (&console.Sign{Next: next}).Query()
}

// adminNext is the page to go on to.
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

// signInAdmin opens a session for a token. A wrong one counts against its source, as with the API.
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
