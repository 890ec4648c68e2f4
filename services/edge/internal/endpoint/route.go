package endpoint

import (
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/httpin"
)

// Row is one endpoint. call.go runs its checks before its handler.
type Row struct {
	Method string // GET answers HEAD too
	Path   string
	Who    Credential
	Key    plan.QuotaKey // counts the call
	Body   Body
	Rules  Rules
	Handle func(*Call) error
}

// NewRow returns a row of the route table, from its columns in order.
func NewRow(method, path string, who Credential, key plan.QuotaKey, body Body, rules Rules, handle func(*Call) error) Row {
	return Row{Method: method, Path: path, Who: who, Key: key, Body: body, Rules: rules, Handle: handle}
}

// Credential is how a caller must authenticate.
type Credential uint8

const (
	_             Credential = iota
	Anybody                  // writes must come from the same origin
	APIKey                   // 401 without one
	KeyOrKeyless             // without a key, the caller is the source
	KeyOrVisitor             // a key or a session as for Session; without either, the caller is the source
	KeyOrToken               // without a key, a management token is required, and the call is not metered
	Session                  // writes must come from the same origin
	KeyOrSession             // a key, or a session as for Session
	SessionOrNone            // as Anybody; the handler checks for a session
	Admin                    // the path exists only with an admin token configured
	AdminPage                // as Anybody, for paths that exist as Admin's do; the handler checks the admin's session
	Operators                // as Anybody; the path exists only if operators have no listener of their own
)

// takesKey reports whether an API key identifies the caller.
func (c Credential) takesKey() bool {
	return c == APIKey || c == KeyOrKeyless || c == KeyOrVisitor || c == KeyOrToken || c == KeyOrSession
}

// Unmetered is the key of calls that no quota counts.
const Unmetered = plan.KeyUnspecified

// Body is the format of a request's body, and its maximum size.
type Body uint8

const (
	NoBody      Body = iota // ignored
	Empty                   // nothing, or an empty JSON object
	Fields                  // a JSON object: Call.Fields
	BookJSON                // likewise, with a price book
	WebhookJSON             // likewise, signed
	Form                    // a form, or nothing: Call.Form
	BookForm                // likewise, with a price book
	PasteJSON               // a JSON object with a paste's content; the handler reads it
	QuickJSON               // likewise, for a quick paste
	PasteText               // JSON or plain text; the handler reads it
	QuickText               // likewise, for a quick paste
	QuickBytes              // the content of a quick paste, or a form with it; the handler reads it
	File                    // bytes; the handler reads them
)

// MaxFileBytes is the maximum size of a file: docs/api.md, Limits.
const MaxFileBytes = 50 << 20

// Limit is the maximum size of the body.
func (b Body) Limit() httpin.Limit {
	switch b {
	case PasteJSON, PasteText:
		return httpin.Limit{Bytes: 4 << 20, Name: "4 MB"}
	case QuickJSON, QuickText, QuickBytes, WebhookJSON:
		return httpin.Limit{Bytes: 256 << 10, Name: "256 KB"}
	case BookForm:
		return httpin.Limit{Bytes: 192 << 10, Name: "192 KB"} // a book of 64 KB, encoded
	case BookJSON:
		return httpin.Limit{Bytes: 64 << 10, Name: "64 KB"}
	case File:
		return httpin.Limit{Bytes: MaxFileBytes, Name: "50 MB"}
	}
	return httpin.Limit{Bytes: 16 << 10, Name: "16 KB"}
}

// Rules are further properties of a route.
type Rules uint16

const (
	Idempotent Rules = 1 << iota // takes an Idempotency-Key: Call.Idem
	Repeatable                   // a read that takes an Idempotency-Key, under which it is charged once
	OwnQuery                     // the handler parses the query; without this or AnyQuery, a parameter is 400
	AnyQuery                     // query parameters are ignored
	Limited                      // limited per source and minute
	HTML                         // failures are pages if a browser asks
	Terminal                     // failures are text unless JSON is asked for
	Content                      // also exists on the host of Config.ContentURL, unlike other routes
	Command                      // changes the session's account: AdmitChange limits the rate
	Otherwise                    // matches paths of one segment that no other route has in any method
	Unlimited                    // exempt from QUIRE_UNMETERED_RATE, which limits other unmetered calls

	Views = Limited | AnyQuery
	Page  = Views | HTML
	Asked = Limited | HTML | OwnQuery // a page whose handler parses the query, and ignores unknown parameters
)

// Has reports whether rule is set.
func (r Rules) Has(rule Rules) bool { return r&rule != 0 }

// With returns a handler that passes v to h.
func With[T any](v T, h func(*Call, T) error) func(*Call) error {
	return func(c *Call) error { return h(c, v) }
}

// ForAdmins reports whether the path exists only if admins are served.
func (r *Row) ForAdmins() bool { return r.Who == Admin || r.Who == AdminPage }
