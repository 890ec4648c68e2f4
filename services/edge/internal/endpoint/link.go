package endpoint

import (
	"net/url"
	"strconv"
	"time"

	"quire.dev/services/edge/internal/httpin/input"
)

// SignedLink returns a path with the query that lets anyone get it for that long.
func (s *Base) SignedLink(path string, lifetime time.Duration) string {
	expires := s.Now().Add(lifetime).Unix()
	return path + "?" + url.Values{"expires": {strconv.FormatInt(expires, 10)}, "signature": {s.secret.SignLink(path, expires)}}.Encode()
}

// LinkQuery is the query of a signed link.
type LinkQuery struct{ expires, signature string }

// ReadLink reads the query of a signed link.
func ReadLink(c *Call) (q LinkQuery, err error) {
	err = input.QueryFields(c.Ctx, input.Fields{
		"expires":   input.To(&q.expires, input.StringField),
		"signature": input.To(&q.signature, input.StringField),
	}.Set)
	return q, err
}

// LinkValid reports whether the query signs the path and has not expired.
func (s *Base) LinkValid(path string, q LinkQuery) bool {
	expires, err := strconv.ParseInt(q.expires, 10, 64)
	return err == nil && expires > s.Now().Unix() && s.secret.CheckLink(path, expires, q.signature)
}
