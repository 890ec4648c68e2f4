package cli

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"quire.dev/client"
)

// kind is what a document is.
type kind string

// The kinds of documents, as they are printed.
const (
	kindPaste kind = "paste"
	kindQuick kind = "quick"
	kindFile  kind = "file"
)

// name is the kind for people.
func (k kind) name() string {
	if k == kindQuick {
		return "quick paste"
	}
	return string(k)
}

// path is the kind in the address of a document's page.
func (k kind) path() string { return map[kind]string{kindPaste: "p", kindQuick: "q", kindFile: "f"}[k] }

// texts are the operations of the kind.
func (k kind) texts(c *client.Client) *client.Pastes {
	if k == kindQuick {
		return c.QuickPastes
	}
	return c.Pastes
}

// reference is a document as a user names it.
type reference struct {
	id    string
	kinds []kind // that it may be, the likeliest first
	host  string // of the address that the user gave; empty: they gave an id
}

const (
	idLength      = 12
	idCharacters  = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	pathOfDetails = "/versions /raw /download /view /diff"
)

// parseReference parses the id or the URL of a document. An id can be of any of kinds.
func parseReference(text string, kinds ...kind) (reference, error) {
	wrong := Usage("%q is neither the id nor the URL of a %s", text, names(kinds))
	ref := reference{id: text, kinds: kinds}
	if strings.Contains(text, "/") {
		path := text
		if strings.Contains(text, "://") {
			u, err := url.Parse(text)
			if err != nil {
				return ref, wrong
			}
			ref.host, path = u.Host, u.Path
		}
		parts := strings.Split(strings.Trim(path, "/"), "/")
		if n := len(parts); n > 2 && strings.Contains(pathOfDetails, "/"+parts[n-1]) {
			parts = parts[:n-1]
		}
		if len(parts) < 2 {
			return ref, wrong
		}
		ref.id = parts[len(parts)-1]
		ref.kinds = nil
		for _, k := range kinds {
			if k.path() == parts[len(parts)-2] {
				ref.kinds = []kind{k}
			}
		}
	}
	if len(ref.kinds) == 0 || len(ref.id) != idLength || strings.Trim(ref.id, idCharacters) != "" {
		return ref, wrong
	}
	return ref, nil
}

func names(kinds []kind) string {
	out := make([]string, len(kinds))
	for i, k := range kinds {
		out[i] = k.name()
	}
	return strings.Join(out, " or ")
}

// find runs an operation on a document, trying each possible kind until one succeeds. It skips kinds that the plan does not include or
// that have no such document. Failed calls cost nothing.
func find[T any](ctx context.Context, ref reference, try func(context.Context, kind) (T, error)) (T, kind, error) {
	var first error
	for _, k := range ref.kinds {
		found, err := try(ctx, k)
		if err == nil {
			return found, k, nil
		}
		var failed *client.APIError
		if !errors.As(err, &failed) || failed.Status != http.StatusNotFound && failed.Code != "plan_upgrade_required" && failed.Code != "key_scope" {
			return found, k, err
		}
		// Not found is more specific than a plan without the kind.
		var before *client.APIError
		if first == nil || errors.As(first, &before) && before.Status != http.StatusNotFound {
			first = err
		}
	}
	var none T
	return none, ref.kinds[0], first
}
