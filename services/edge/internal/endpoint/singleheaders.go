package endpoint

import "github.com/gofiber/fiber/v2"

// HeaderPrefer is the header of RFC 7240.
const HeaderPrefer = "Prefer"

// SingleHeaders are the request headers that the edge reads and that must not be repeated, since a proxy might read the other
// one. Headers that may be repeated are lists (RFC 9110, 5.3): Accept, Connection, Cookie, If-None-Match and X-Forwarded-For.
// Package httpin adds those that frame a request.
func SingleHeaders() []string {
	return []string{
		fiber.HeaderAcceptEncoding, fiber.HeaderAccessControlRequestHeaders, fiber.HeaderAccessControlRequestMethod,
		fiber.HeaderAuthorization, fiber.HeaderContentEncoding, fiber.HeaderContentType, fiber.HeaderIfMatch,
		fiber.HeaderIfModifiedSince, fiber.HeaderIfRange, fiber.HeaderIfUnmodifiedSince, fiber.HeaderOrigin, fiber.HeaderRange,
		fiber.HeaderUserAgent, fiber.HeaderXForwardedProto,
		"HX-Request", headerIdempotencyKey, HeaderPrefer, "Sec-Fetch-Site",
		headerAPIKey, HeaderManageToken, HeaderPassword,
	}
}
