package headers

import (
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// Prefers reports whether the request asks for a media type by name, with at least the weight of the other one. Both are in
// lower case. A client that sends */* asks for no type in particular (RFC 9110, 12.5.1).
func Prefers(ctx *fasthttp.RequestCtx, wanted, other string) bool {
	named, rival := 0.0, 0.0
	for _, header := range ctx.Request.Header.PeekAll(fiber.HeaderAccept) {
		for part := range strings.SplitSeq(string(header), ",") {
			media, params, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(media)) {
			case wanted:
				named = max(named, quality(params))
			case other:
				rival = max(rival, quality(params))
			}
		}
	}
	return named > 0 && named >= rival
}

// quality is the weight in the parameters of a media range, 0 to 1; 1 if it is missing or malformed.
func quality(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(param, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		if q, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil && q >= 0 && q <= 1 {
			return q
		}
	}
	return 1
}
