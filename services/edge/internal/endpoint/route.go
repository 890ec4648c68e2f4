package endpoint

import (
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/httpin"
)

// Row is one endpoint. Its checks run in call.go, before its handler.
type Row struct {
	Method string // GET answers HEAD too
	Path   string
	Who    Credential
	Key    plan.QuotaKey // that the call is counted under
	Body   Body
	Rules  Rules
	Handle func(*Call) error
}

// NewRow is a row of the table of routes, its columns in their order.
func NewRow(method, path string, who Credential, key plan.QuotaKey, body Body, rules Rules, handle func(*Call) error) Row {
	return Row{Method: method, Path: path, Who: who, Key: key, Body: body, Rules: rules, Handle: handle}
}

// Credential says who may call, and by which proof.
type Credential uint8

const (
	_             Credential = iota
	Anybody                  // a write must come from the same origin
	APIKey                   // 401 without one
	KeyOrKeyless             // without a key the call is its source's
	KeyOrToken               // without a key the call needs a management token; it is not metered
	Session                  // a write must come from the same origin
	KeyOrSession             // likewise, with a session
	SessionOrNone            // as anybody; the handler looks for the session
	Admin                    // the paths exist only where there is an admin token
	AdminPage                // as anybody, and the paths exist as those of admin; the handler looks for the session of an admin
	Operators                // anybody; the paths exist only where operators have no listener of their own
)

// takesKey reports whether an API key that is sent is the caller's.
func (c Credential) takesKey() bool {
	return c == APIKey || c == KeyOrKeyless || c == KeyOrToken || c == KeyOrSession
}

// Unmetered is the key of calls that no quota counts.
const Unmetered = plan.KeyUnspecified

// Body says in which form the body of a request is, and how large it may be.
type Body uint8

const (
	NoBody     Body = iota // not looked at
	Empty                  // nothing, or an empty JSON object
	Fields                 // a JSON object: Call.Fields
	Form                   // a form, or nothing: Call.Form
	PasteJSON              // a JSON object with the content of a paste, which the handler reads
	QuickJSON              // likewise, of a quick paste
	PasteText              // JSON or plain text, which the handler reads
	QuickText              // likewise
	QuickBytes             // the content of a quick paste, or a form with it, which the handler reads
	File                   // bytes, which the handler reads
)

// MaxFileBytes is the size of the largest file: docs/api.md, Limits.
const MaxFileBytes = 50 << 20

// Limit is how large the body may be.
func (b Body) Limit() httpin.Limit {
	switch b {
	case PasteJSON, PasteText:
		return httpin.Limit{Bytes: 4 << 20, Name: "4 MiB"}
	case QuickJSON, QuickText, QuickBytes:
		return httpin.Limit{Bytes: 256 << 10, Name: "256 KiB"}
	case File:
		return httpin.Limit{Bytes: MaxFileBytes, Name: "50 MB"}
	}
	return httpin.Limit{Bytes: 16 << 10, Name: "16 KiB"}
}

// Rules are for the other checks.
type Rules uint16

const (
	Idempotent Rules = 1 << iota // takes an Idempotency-Key: Call.Idem
	Repeatable                   // takes one too: a read that is charged once under it
	OwnQuery                     // the handler reads the query; without this or AnyQuery a parameter is 400
	AnyQuery                     // query parameters are ignored
	Limited                      // a source may call so often a minute
	HTML                         // failures are pages where a browser asks
	Terminal                     // failures are text unless JSON is asked for
	Content                      // exists on the host of Config.ContentURL too; no other row does
	Command                      // changes the account of the session: AdmitChange limits how often
	Otherwise                    // the path is of one segment, and no other row has it in any method
	Unlimited                    // QUIRE_UNMETERED_RATE does not hold, as it does for the other calls that no quota counts

	Views = Limited | AnyQuery
	Page  = Views | HTML
	Asked = Limited | HTML | OwnQuery // a page whose handler reads the query, and ignores what it does not know
)

// Has reports whether the rule is one of them.
func (r Rules) Has(rule Rules) bool { return r&rule != 0 }

// With is a handler that gets v.
func With[T any](v T, h func(*Call, T) error) func(*Call) error {
	return func(c *Call) error { return h(c, v) }
}

// ForAdmins reports whether the path exists only where admins are served.
func (r *Row) ForAdmins() bool { return r.Who == Admin || r.Who == AdminPage }
