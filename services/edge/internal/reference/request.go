package reference

import (
	"encoding/json"
	"net/url"
	"strings"

	"go.yaml.in/yaml/v3"
)

// request is a call of an operation, made from the examples of the document. Every snippet is one form of it.
type request struct {
	method  string
	base    string
	path    []pathPart
	query   string // with its question mark; "" for none
	headers []header
	session sessionUse
	body    content
	json    bool // the answer is JSON
	success string
}

// pathPart is a text of the path, or a value of it that the caller sets.
type pathPart struct {
	text string
	name string // such as PASTE_ID; "" for a text
}

// header is a header of the request. Its value is prefix and then, where it has one, a secret from the environment.
type header struct{ name, prefix, secret string }

type sessionUse int

const (
	noSession sessionUse = iota
	sendsSession
	opensSession
)

// content is the body of a request.
type content struct {
	kind      string // media type; "" where there is no body
	text      string
	fields    [][2]string // of a form
	file      string      // name of the file's part
	fileName  string
	multipart bool
}

// secrets are read from the environment by snippets.
const (
	secretKey     = "API_KEY"
	secretAdmin   = "ADMIN_TOKEN"
	secretManage  = "MANAGE_TOKEN"
	secretSession = "SESSION"
)

// requestOf makes a call of an operation from its examples.
func requestOf(base string, op *Operation) request {
	r := request{method: op.Method, base: base, path: pathOf(op), query: queryOf(op)}
	r.authenticate(op)
	for _, p := range op.Parameters {
		if p.In == "header" && p.Required {
			r.headers = append(r.headers, header{name: p.Name, prefix: plain(p.Example)})
		}
	}
	r.body = contentOf(op.Body)
	for _, a := range op.Answers {
		if !a.Success() {
			continue
		}
		if r.success == "" {
			r.success = a.Status
			for i, m := range a.Media {
				r.json = r.json || i == 0 && m.Type == "application/json"
			}
		}
		for _, h := range a.Headers {
			if strings.EqualFold(h.Name, "Set-Cookie") && r.session == noSession {
				r.session = opensSession
			}
		}
	}
	return r
}

// authenticate uses an API key if allowed, else the first scheme described.
func (r *request) authenticate(op *Operation) {
	for _, scheme := range []string{"ApiKey", "AdminToken", "Session", "ManageToken"} {
		for _, way := range op.Security {
			if way != scheme {
				continue
			}
			switch scheme {
			case "ApiKey":
				r.headers = append(r.headers, header{name: "x-api-key", secret: secretKey})
			case "AdminToken":
				r.headers = append(r.headers, header{name: "Authorization", prefix: "Bearer ", secret: secretAdmin})
			case "ManageToken":
				r.headers = append(r.headers, header{name: "X-Manage-Token", secret: secretManage})
			case "Session":
				r.session = sendsSession
			}
			return
		}
	}
}

// pathOf splits a path at its parameters.
func pathOf(op *Operation) []pathPart {
	var out []pathPart
	rest, before := op.Path, ""
	for {
		text, tail, found := strings.Cut(rest, "{")
		if text != "" {
			out = append(out, pathPart{text: text})
		}
		if !found {
			return out
		}
		before += text
		name, after, _ := strings.Cut(tail, "}")
		part := pathPart{name: variable(before, name)}
		for _, p := range op.Parameters {
			if p.In == "path" && p.Name == name {
				part.text = plain(p.Example)
			}
		}
		out = append(out, part)
		rest = after
	}
}

// variable names a parameter of the path after what it identifies: PASTE_ID for /api/dev/pastes/get/{ref}.
func variable(before, name string) string {
	if name != "id" && name != "ref" {
		return screamingCase(name)
	}
	segments := strings.Split(strings.Trim(before, "/"), "/")
	for len(segments) > 1 {
		switch last := segments[len(segments)-1]; last {
		case "get", "update", "delete", "versions":
			segments = segments[:len(segments)-1]
		case "paste-lite":
			return "PASTE_ID"
		default:
			return screamingCase(strings.TrimSuffix(last, "s")) + "_ID"
		}
	}
	return "ID"
}

// screamingCase is a name in upper snake case: REQUEST_ID for requestId.
func screamingCase(name string) string {
	var out strings.Builder
	for _, r := range name {
		switch {
		case 'A' <= r && r <= 'Z':
			out.WriteByte('_')
			out.WriteRune(r)
		case 'a' <= r && r <= 'z':
			out.WriteRune(r - 'a' + 'A')
		case '0' <= r && r <= '9':
			out.WriteRune(r)
		default:
			out.WriteByte('_')
		}
	}
	return out.String()
}

func queryOf(op *Operation) string {
	var out []string
	for _, p := range op.Parameters {
		if p.In == "query" && p.Required {
			out = append(out, p.Name+"="+url.QueryEscape(plain(p.Example)))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "?" + strings.Join(out, "&")
}

// plain is a JSON value as written in a URL or header.
func plain(value string) string {
	var text string
	if json.Unmarshal([]byte(value), &text) == nil {
		return text
	}
	return value
}

// contentOf builds a body from its example: JSON if described, else the first media type.
func contentOf(b *Body) content {
	if b == nil || len(b.Media) == 0 {
		return content{}
	}
	m := b.Media[0]
	for _, other := range b.Media {
		if other.Type == "application/json" {
			m = other
			break
		}
	}
	switch m.Type {
	case "multipart/form-data":
		return formOf(m)
	case "application/json":
		text := m.value.json()
		if short := m.value.inlineJSON(); len(short) <= maxFlat {
			text = short
		}
		return content{kind: m.Type, text: text}
	case "*/*":
		return content{kind: "text/plain", text: m.value.text()}
	}
	return content{kind: m.Type, text: m.value.text()}
}

// formOf builds a form whose binary field is a file. The example of the field "name" names the file.
func formOf(m Media) content {
	c := content{kind: m.Type, multipart: true, fileName: "notes.txt"}
	bytes := make(map[string]bool)
	for _, f := range m.Schema.Fields {
		bytes[f.Name] = f.Schema.Type == "bytes"
		if bytes[f.Name] && c.file == "" {
			c.file, c.text = f.Name, plain(f.Schema.Example)
		}
	}
	m.value.entries(func(name string, value node) {
		switch {
		case name == c.file && value.Kind == yaml.ScalarNode:
			c.text = value.Value
		case value.Kind == yaml.ScalarNode:
			c.fields = append(c.fields, [2]string{name, value.Value})
		}
	})
	return c
}
