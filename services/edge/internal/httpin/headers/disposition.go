package headers

import (
	"mime"
	"net/url"
	"strings"
)

// ContentDisposition tells a browser to save a file under a name: in ASCII for old clients, and also in UTF-8 if that differs
// (RFC 6266, appendix D).
func ContentDisposition(name string) string {
	plain := strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f || r == '"' || r == '\\' || r == '%' {
			return '_'
		}
		return r
	}, name)
	params := map[string]string{"filename": plain}
	if plain != name {
		params["filename*"] = "UTF-8''" + strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
	}
	return mime.FormatMediaType("attachment", params)
}
