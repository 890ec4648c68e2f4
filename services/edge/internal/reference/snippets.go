package reference

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Snippet is a call of an operation in one language.
type Snippet struct {
	Language string // for programs: bash, go, ts
	Title    string
	Text     string
}

// SnippetsOf returns an operation's call in every language, for the server at base. Secrets come from the environment, and
// the first lines set the path's ids. Programs use the clients if they have the operation.
func SnippetsOf(base string, op *Operation) []Snippet {
	r := requestOf(base, op)
	golang, typescript := "", ""
	if call, found := clientCalls()[op.ID]; found {
		golang, typescript = r.golangClient(call), r.typescriptClient(call)
	} else {
		golang, typescript = r.golang(), r.typescript()
	}
	return []Snippet{
		{Language: "bash", Title: "curl", Text: r.curl()},
		{Language: "go", Title: "Go", Text: golang},
		{Language: "ts", Title: "TypeScript", Text: typescript},
	}
}

func (r *request) curl() string {
	var out strings.Builder
	address := r.base
	for _, p := range r.path {
		if p.name == "" {
			address += p.text
			continue
		}
		fmt.Fprintf(&out, "%s=%s\n", p.name, shellWord(p.text))
		address += "$" + p.name
	}
	address += r.query
	if strings.ContainsAny(address, "$?&") {
		address = `"` + address + `"`
	}
	out.WriteString("curl ")
	if r.method != http.MethodGet && (r.method != http.MethodPost || r.body.kind == "") {
		out.WriteString("-X " + r.method + " ")
	}
	out.WriteString(address)
	argument := func(flag, value string) { out.WriteString(" \\\n  " + flag + " " + value) }
	for _, h := range r.headers {
		if h.secret != "" {
			argument("-H", `"`+h.name+": "+h.prefix+"$"+h.secret+`"`)
		} else {
			argument("-H", shellQuote(h.name+": "+h.prefix))
		}
	}
	switch r.session {
	case sendsSession:
		argument("-b", "cookies.txt")
	case opensSession:
		argument("-c", "cookies.txt")
	}
	switch {
	case r.body.multipart:
		argument("-F", shellWord(r.body.file+"=@"+r.body.fileName))
		for _, f := range r.body.fields {
			argument("-F", shellWord(f[0]+"="+f[1]))
		}
	case r.body.kind != "":
		argument("-H", shellQuote("Content-Type: "+r.body.kind))
		flag := "--data-binary"
		if r.body.kind == "application/json" {
			flag = "-d"
		}
		argument(flag, shellQuote(r.body.text))
	}
	return out.String()
}

// shellWord quotes a word for the shell if needed.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@,") == "" {
		return s
	}
	return shellQuote(s)
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// goProgram builds a Go program.
type goProgram struct {
	main    strings.Builder
	imports map[string]bool
}

func (p *goProgram) line(format string, args ...any) { fmt.Fprintf(&p.main, "\t"+format+"\n", args...) }

func (p *goProgram) check() { p.line("if err != nil {\n\t\tlog.Fatal(err)\n\t}") }

func (p *goProgram) blank() { p.main.WriteByte('\n') }

// text is the program's source. further are its imports from other modules.
func (p *goProgram) text(further ...string) string {
	var out strings.Builder
	out.WriteString("package main\n\nimport (\n")
	for _, name := range []string{"bytes", "context", "fmt", "io", "log", "mime/multipart", "net/http", "os", "strings", "time"} {
		if p.imports[name] {
			out.WriteString("\t\"" + name + "\"\n")
		}
	}
	for _, name := range further {
		out.WriteString("\n\t\"" + name + "\"\n")
	}
	out.WriteString(")\n\nfunc main() {\n" + p.main.String() + "}")
	return out.String()
}

func (r *request) golang() string {
	p := &goProgram{imports: map[string]bool{"fmt": true, "io": true, "log": true, "net/http": true}}
	address := r.goAddress(p)
	body := r.goBody(p)
	p.line("url := %s", address)
	p.line("req, err := http.NewRequest(%q, url, %s)", r.method, body)
	p.check()
	r.goHeaders(p)
	p.blank()
	p.line("res, err := http.DefaultClient.Do(req)")
	p.check()
	p.line("defer res.Body.Close()")
	p.line("answer, err := io.ReadAll(res.Body)")
	p.check()
	p.line("if res.StatusCode != %s {", statusConstant(r.success))
	p.line("\tlog.Fatalf(%q, res.Status, answer)\n\t}", "%s: %s")
	p.line("fmt.Println(string(answer))")
	return p.text()
}

// goAddress declares the path's ids and returns the URL as an expression.
func (r *request) goAddress(to *goProgram) string {
	address := strconv.Quote(r.base)[:len(strconv.Quote(r.base))-1]
	open := true // address ends within a string
	for _, p := range r.path {
		switch {
		case p.name != "":
			to.line("%s := %s", camel(p.name, "ID"), strconv.Quote(p.text))
			address += `" + ` + camel(p.name, "ID")
			open = false
		case open:
			address += p.text
		default:
			address += ` + "` + p.text
			open = true
		}
	}
	switch {
	case open:
		address += r.query + `"`
	case r.query != "":
		address += ` + "` + r.query + `"`
	}
	return address
}

// goBody declares the body and returns its expression.
func (r *request) goBody(to *goProgram) string {
	switch {
	case r.body.multipart:
		to.imports["bytes"], to.imports["mime/multipart"] = true, true
		to.line("var form bytes.Buffer")
		to.line("fields := multipart.NewWriter(&form)")
		to.line("file, err := fields.CreateFormFile(%q, %q)", r.body.file, r.body.fileName)
		to.check()
		to.line("if _, err := io.WriteString(file, %s); err != nil {\n\t\tlog.Fatal(err)\n\t}", strconv.Quote(r.body.text))
		for _, f := range r.body.fields {
			to.line("if err := fields.WriteField(%q, %q); err != nil {\n\t\tlog.Fatal(err)\n\t}", f[0], f[1])
		}
		to.line("if err := fields.Close(); err != nil {\n\t\tlog.Fatal(err)\n\t}")
		to.blank()
		return "&form"
	case r.body.kind != "":
		to.imports["strings"] = true
		to.line("body := strings.NewReader(%s)", goText(r.body.text))
		return "body"
	}
	return "nil"
}

func (r *request) goHeaders(to *goProgram) {
	for _, h := range r.headers {
		value := strconv.Quote(h.prefix)
		if h.secret != "" {
			to.imports["os"] = true
			value = fmt.Sprintf("os.Getenv(%q)", h.secret)
			if h.prefix != "" {
				value = strconv.Quote(h.prefix) + "+" + value
			}
		}
		to.line("req.Header.Set(%q, %s)", h.name, value)
	}
	switch {
	case r.body.multipart:
		to.line(`req.Header.Set("Content-Type", fields.FormDataContentType())`)
	case r.body.kind != "":
		to.line("req.Header.Set(%q, %q)", "Content-Type", r.body.kind)
	}
}

// goText is a readable string literal.
func goText(s string) string {
	if strconv.CanBackquote(strings.ReplaceAll(s, "\n", "")) {
		return "`" + s + "`"
	}
	return strconv.Quote(s)
}

func statusConstant(status string) string {
	switch status {
	case "200":
		return "http.StatusOK"
	case "201":
		return "http.StatusCreated"
	case "202":
		return "http.StatusAccepted"
	case "204":
		return "http.StatusNoContent"
	}
	return status
}

// camel is an environment variable in camel case: pasteID for PASTE_ID.
func camel(name, id string) string {
	var out strings.Builder
	for i, word := range strings.Split(strings.ToLower(name), "_") {
		switch {
		case i == 0 || word == "":
			out.WriteString(word)
		case word == "id":
			out.WriteString(id)
		default:
			out.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return out.String()
}

func (r *request) typescript() string {
	var out strings.Builder
	address, plainAddress := "", true
	for _, p := range r.path {
		if p.name == "" {
			address += p.text
			continue
		}
		plainAddress = false
		fmt.Fprintf(&out, "const %s = %s;\n", camel(p.name, "Id"), quote(p.text))
		address += "${" + camel(p.name, "Id") + "}"
	}
	address = r.base + address + r.query
	if plainAddress {
		address = quote(address)
	} else {
		address = "`" + address + "`"
	}
	if r.body.multipart {
		out.WriteString("const form = new FormData();\n")
		fmt.Fprintf(&out, "form.set(%s, new File([%s], %s));\n", quote(r.body.file), quote(r.body.text), quote(r.body.fileName))
		for _, f := range r.body.fields {
			fmt.Fprintf(&out, "form.set(%s, %s);\n", quote(f[0]), quote(f[1]))
		}
	}
	options := r.fetchOptions()
	if options == "" {
		fmt.Fprintf(&out, "const res = await fetch(%s);\n", address)
	} else {
		fmt.Fprintf(&out, "const res = await fetch(%s, {\n%s});\n", address, options)
	}
	out.WriteString("if (!res.ok) throw new Error(`${res.status}: ${await res.text()}`);\n")
	if r.json {
		out.WriteString("console.log(await res.json());")
	} else {
		out.WriteString("console.log(await res.text());")
	}
	return out.String()
}

func (r *request) fetchOptions() string {
	var out strings.Builder
	if r.method != http.MethodGet {
		fmt.Fprintf(&out, "  method: %s,\n", quote(r.method))
	}
	var headers []string
	for _, h := range r.headers {
		value := quote(h.prefix)
		switch {
		case h.secret != "" && h.prefix != "":
			value = "`" + h.prefix + "${process.env." + h.secret + "}`"
		case h.secret != "":
			value = "process.env." + h.secret + "!"
		}
		headers = append(headers, quote(h.name)+": "+value)
	}
	if r.body.kind != "" && !r.body.multipart {
		headers = append(headers, quote("Content-Type")+": "+quote(r.body.kind))
	}
	switch len(headers) {
	case 0:
	case 1:
		out.WriteString("  headers: { " + headers[0] + " },\n")
	default:
		out.WriteString("  headers: {\n    " + strings.Join(headers, ",\n    ") + ",\n  },\n")
	}
	switch {
	case r.body.multipart:
		out.WriteString("  body: form,\n")
	case r.body.kind == "application/json":
		out.WriteString("  body: JSON.stringify(" + strings.ReplaceAll(r.body.text, "\n", "\n  ") + "),\n")
	case r.body.kind != "":
		out.WriteString("  body: " + quote(r.body.text) + ",\n")
	}
	return out.String()
}
