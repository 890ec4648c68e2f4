package snippets

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"quire.dev/docs"
	"quire.dev/pkg/apikey"
	"quire.dev/pkg/eventually"
)

// operation is an operation of the reference with its snippets, by language.
type operation struct {
	id, method string
	path       *regexp.Regexp
	success    []int
	tag        string
	snippets   map[string]string
}

// operations reads the snippets from the pages, and what they must do from the document.
func operations(t *testing.T, i *instance) []*operation {
	t.Helper()
	spec, err := openapi3.NewLoader().LoadFromData(docs.API())
	if err != nil {
		t.Fatal(err)
	}
	byID := make(map[string]*operation)
	var out []*operation
	for path, item := range spec.Paths.Map() {
		for method, op := range item.Operations() {
			pattern := regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(path), `[^/]+`)
			o := &operation{
				id: op.OperationID, method: method, path: regexp.MustCompile("^" + pattern + "$"), tag: op.Tags[0],
				snippets: make(map[string]string),
			}
			for status := range op.Responses.Map() {
				if code, err := strconv.Atoi(status); err == nil && code < 300 {
					o.success = append(o.success, code)
				}
			}
			byID[o.id] = o
			out = append(out, o)
		}
	}
	for _, path := range links(i.page(t, "/docs"), "/docs/api/") {
		for _, b := range blocks(i.page(t, path)) {
			if b.snippet == "" {
				continue
			}
			if byID[b.snippet] == nil || byID[b.snippet].snippets[b.language] != "" {
				t.Fatalf("%s has a snippet of %s in %s that is not described, or twice", path, b.snippet, b.language)
			}
			byID[b.snippet].snippets[b.language] = b.text
		}
	}
	slices.SortFunc(out, func(a, b *operation) int { return strings.Compare(a.id, b.id) })
	for _, o := range out {
		if len(o.snippets) != 3 {
			t.Errorf("%s has %d snippets", o.id, len(o.snippets))
		}
	}
	return out
}

// setting is what a snippet finds when it runs.
type setting struct {
	text      string            // of the snippet, with the values of this set-up in place of the examples
	variables map[string]string // of the environment
	session   string
}

var (
	// assignments are the first lines of a snippet that set the ids of its path.
	assignments = map[string]*regexp.Regexp{
		"bash": regexp.MustCompile(`(?m)^([A-Z_]+)=(\S+)$`),
		"go":   regexp.MustCompile(`(?m)^\t(\w+) := "([^"]*)"$`),
		"ts":   regexp.MustCompile(`(?m)^const (\w+) = "([^"]*)";$`),
	}
	emails = regexp.MustCompile(`[\w.+-]+@[\w-]+\.[\w.-]+`)
)

// prepare creates the objects that a snippet works on, and puts their ids in place of the examples.
func (i *instance) prepare(t *testing.T, o *operation, language string) setting {
	t.Helper()
	email := fmt.Sprintf("%s-%s@snippets.example", o.id, language)
	account, key := i.account(t, "owner-"+email, "pro")
	s := setting{text: o.snippets[language], variables: map[string]string{"API_KEY": key, "ADMIN_TOKEN": adminToken}}
	session := sync.OnceValue(func() string { return i.session(t, "session-"+email, password) })
	s.text = assignments[language].ReplaceAllStringFunc(s.text, func(line string) string {
		m := assignments[language].FindStringSubmatch(line)
		value, known := i.value(t, o, m[1], owner{account, key, session})
		if !known {
			return line
		}
		return strings.Replace(line, m[2], value, 1)
	})
	switch o.id {
	case "listPayments":
		i.do(t, "POST", "/api/admin/accounts/"+account+"/payments", map[string]string{"payment": "2026-0042", "credits": "10"}, "Authorization", "Bearer "+adminToken)
	case "getStatementProof":
		i.awaitSeal(t, key)
	case "openSession":
		i.session(t, email, password)
	case "reversePayment":
		i.do(t, "POST", "/api/admin/accounts/"+account+"/payments", map[string]string{"payment": "2026-0042", "credits": "10"}, "Authorization", "Bearer "+adminToken)
	case "refundRequests":
		i.overQuota(t, account, key)
		s.text = strings.ReplaceAll(s.text, "2026-11", time.Now().UTC().Format("2006-01")) // the example's month is past
	}
	s.text = emails.ReplaceAllString(s.text, email)
	s.text = strings.ReplaceAll(s.text, "2027-01-01T00:00:00Z", time.Now().UTC().AddDate(0, 1, 0).Format(time.RFC3339)) // the example's time may be past
	if strings.Contains(s.text, "cookies.txt") || strings.Contains(s.text, `"SESSION"`) || strings.Contains(s.text, ".SESSION") {
		s.session = session()
		s.variables["SESSION"] = "quire_session=" + s.session
		if o.id == "getExport" {
			i.do(t, "POST", "/api/users/user/export", nil, "Cookie", "quire_session="+s.session, "Sec-Fetch-Site", "same-origin")
		}
	}
	return s
}

// awaitSeal makes a metered call, and waits until the log has a seal of the account's month.
func (i *instance) awaitSeal(t *testing.T, key string) {
	t.Helper()
	i.do(t, "POST", "/api/dev/paste-lite/create", map[string]string{"content": "hello\n"}, "x-api-key", key)
	eventually.NoError(t, "the log has a seal", func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, i.direct+"/api/users/user/statements/"+time.Now().UTC().Format("2006-01")+"/proof", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("x-api-key", key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return errors.New(res.Status)
		}
		return nil
	})
}

// owner has the things that a snippet works on. session opens the one session of another account, which may change itself.
type owner struct {
	account, key string
	session      func() string
}

// value makes what a variable of a snippet names, and gives its id.
func (i *instance) value(t *testing.T, o *operation, variable string, of owner) (id string, known bool) {
	t.Helper()
	account, key := of.account, of.key
	path := "/api/dev/pastes/create"
	if strings.Contains(o.path.String(), "paste-lite") {
		path = "/api/dev/paste-lite/create"
	}
	content := map[string]string{"content": "hello\n"}
	switch strings.ReplaceAll(strings.ToUpper(variable), "_", "") {
	case "PASTEID":
		return i.do(t, "POST", path, content, "x-api-key", key).text(t, "id"), true
	case "FILEID":
		return i.do(t, "POST", "/api/dev/files/upload?name=notes.txt", "hello", "x-api-key", key).text(t, "id"), true
	case "ACCOUNTID":
		return account, true
	case "REQUESTID":
		return i.do(t, "POST", path, content, "x-api-key", key).header.Get("X-Request-Id"), true
	case "AUDITID":
		return i.do(t, "POST", "/api/admin/audit", nil, "Authorization", "Bearer "+adminToken, "Prefer", "respond-async").text(t, "id"), true
	case "KEYID":
		made := i.do(t, "POST", "/api/users/user/keys", map[string]any{"name": "snippet"}, "Cookie", "quire_session="+of.session(), "Sec-Fetch-Site", "same-origin")
		return made.text(t, "key", "id"), true
	case "KEY": // of the account
		return "default", true
	case "WEBHOOKID":
		id, _ := i.webhook(t, of)
		return id, true
	case "DELIVERY", "DELIVERYID":
		_, delivery := i.webhook(t, of)
		return delivery, true
	case "PRICEID":
		return i.priceBook(t, o.method == "DELETE"), true
	case "SESSIONID":
		return hex.EncodeToString(apikey.HashToken(of.session())[:12]), true
	case "PERIOD":
		return time.Now().UTC().Format("2006-01"), true
	case "NAME", "URL":
		return "", false // of a file: the example is as good as any; the address of a call
	}
	t.Errorf("%s sets %s, for which this test has no value", o.id, variable)
	return "", false
}

// overQuota creates pastes until credits have paid for one.
func (i *instance) overQuota(t *testing.T, account, key string) {
	t.Helper()
	i.do(t, "POST", "/api/admin/accounts/"+account+"/credits", map[string]string{"amount": "1", "reason": "a gift"}, "Authorization", "Bearer "+adminToken)
	for {
		paste := i.do(t, "POST", "/api/dev/pastes/create", map[string]string{"content": "hello\n"}, "x-api-key", key)
		if paste.header.Get("X-Charge-Source") == "credits" {
			break
		}
	}
	eventually.True(t, "the charge is in the ledger", func() bool {
		return len(i.do(t, "GET", "/api/users/user/credits?type=charge", nil, "x-api-key", key).body["entries"].([]any)) > 0
	})
}

// priceBook is the id of the price book in force, or of an upcoming one.
func (i *instance) priceBook(t *testing.T, upcoming bool) string {
	t.Helper()
	admin := []string{"Authorization", "Bearer " + adminToken}
	current := i.do(t, "GET", "/api/prices", nil)
	if !upcoming {
		return current.text(t, "current", "id")
	}
	i.mu.Lock() // a book can't be withdrawn before a later one
	defer i.mu.Unlock()
	i.books++
	book := current.body["current"].(map[string]any)
	delete(book, "id")
	delete(book, "effectiveAt")
	at := time.Now().UTC().AddDate(1, 0, i.books).Format(time.RFC3339)
	return i.do(t, "POST", "/api/admin/prices", map[string]any{"book": book, "effectiveAt": at}, admin...).text(t, "id")
}

// webhook returns a webhook of an owner's session with an event, creating both on first use.
func (i *instance) webhook(t *testing.T, of owner) (id, delivery string) {
	t.Helper()
	i.mu.Lock()
	made, found := i.webhooks[of.session()]
	i.mu.Unlock()
	if found {
		return made[0], made[1]
	}
	cookie := []string{"Cookie", "quire_session=" + of.session(), "Sec-Fetch-Site", "same-origin"}
	id = i.do(t, "POST", "/api/users/user/webhooks", map[string]any{"url": "https://hooks.invalid/quire", "events": []string{"quota.threshold"}}, cookie...).text(t, "webhook", "id")
	delivery = i.do(t, "POST", "/api/users/user/webhooks/"+id+"/test", nil, cookie...).text(t, "delivery")
	i.mu.Lock()
	defer i.mu.Unlock()
	i.webhooks[of.session()] = [2]string{id, delivery}
	return id, delivery
}

// expect holds the calls that the proxy saw to the operation whose snippet ran.
func expect(t *testing.T, o *operation, language, output string, err error, calls []call) {
	t.Helper()
	for len(calls) > 1 && o.id == "explainRequest" && calls[0].status == http.StatusAccepted { // the clients ask again
		calls = calls[1:]
	}
	if err != nil {
		t.Errorf("%s in %s: %v\n%s\n%s", o.id, language, err, output, o.snippets[language])
	}
	if len(calls) != 1 || calls[0].method != o.method || !o.path.MatchString(calls[0].path) || !slices.Contains(o.success, calls[0].status) {
		t.Errorf("%s in %s: calls %v, documented is %s %s with %v\n%s\n%s", o.id, language, calls, o.method, o.path, o.success, output, o.snippets[language])
	}
}

// run runs a program in a folder, and gives what it printed.
func run(t *testing.T, folder string, variables map[string]string, name string, arguments ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, arguments...)
	cmd.Dir, cmd.Env = folder, environment(folder, variables)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTheReferencesSnippetsDoWhatTheyShow(t *testing.T) {
	needTools(t)
	i := start(t)
	ops := operations(t, i)
	if len(ops) < 20 {
		t.Fatalf("%d operations", len(ops))
	}
	t.Run("bash", func(t *testing.T) { i.runBash(t, ops) })
	t.Run("go", func(t *testing.T) { i.runGo(t, ops) })
	t.Run("ts", func(t *testing.T) { i.runTypeScript(t, ops) })
}

func (i *instance) runBash(t *testing.T, ops []*operation) {
	for _, o := range ops {
		s := i.prepare(t, o, "bash")
		folder := t.TempDir()
		write(t, filepath.Join(folder, "notes.txt"), "Meeting notes\n")
		if s.session != "" {
			write(t, filepath.Join(folder, "cookies.txt"), "127.0.0.1\tFALSE\t/\tFALSE\t0\tquire_session\t"+s.session+"\n")
		}
		out, err := run(t, folder, s.variables, "bash", "-euo", "pipefail", "-c", s.text)
		expect(t, o, "bash", out, err, i.seen())
	}
}

// runGo makes one program of all snippets, a package of each: linking takes longer than compiling.
func (i *instance) runGo(t *testing.T, ops []*operation) {
	folder := t.TempDir()
	settings := make(map[string]setting)
	var imports, cases strings.Builder
	for _, o := range ops {
		s := i.prepare(t, o, "go")
		settings[o.id] = s
		if !strings.HasPrefix(s.text, "package main\n") || strings.Count(s.text, "\nfunc main() {\n") != 1 {
			t.Fatalf("%s is no program:\n%s", o.id, s.text)
		}
		name := strings.ToLower(o.id)
		source := strings.Replace(strings.Replace(s.text, "package main", "package "+name, 1), "func main()", "func Main()", 1)
		write(t, filepath.Join(folder, name, "snippet.go"), source+"\n")
		fmt.Fprintf(&imports, "\t%q\n", "snippets/"+name)
		fmt.Fprintf(&cases, "\tcase %q:\n\t\t%s.Main()\n", o.id, name)
	}
	writeModule(t, folder)
	write(t, filepath.Join(folder, "main.go"), "package main\n\nimport (\n\t\"os\"\n\n"+imports.String()+")\n\nfunc main() {\n\tswitch os.Args[1] {\n"+cases.String()+"\t}\n}\n")
	unformatted, err := run(t, folder, nil, "gofmt", "-l", ".")
	if err != nil || strings.Contains(unformatted, "snippet.go") {
		t.Errorf("snippets are not formatted: %s %v", unformatted, err)
	}
	build := goVariables(t)
	if out, err := run(t, folder, build, "go", "vet", "./..."); err != nil {
		t.Fatalf("vet: %v\n%s", err, out)
	}
	if out, err := run(t, folder, build, "go", "build", "-o", "snippet", "."); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for _, o := range ops {
		out, err := run(t, folder, settings[o.id].variables, filepath.Join(folder, "snippet"), o.id)
		expect(t, o, "go", out, err, i.seen())
	}
}

// goVariables are what the go command needs to build a module outside of the workspace.
func goVariables(t *testing.T) map[string]string {
	t.Helper()
	variables := map[string]string{"GOWORK": "off", "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod"}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOROOT"} {
		out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		variables[name] = strings.TrimSpace(string(out))
	}
	return variables
}

// writeModule makes a folder the place of a program with the Go client.
func writeModule(t *testing.T, folder string) {
	t.Helper()
	client, err := filepath.Abs("../../../clients/go")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "go.mod"), "module snippets\n\ngo 1.26.0\n\nrequire quire.dev/client v0.0.0\n\nreplace quire.dev/client => "+client+"\n")
}

// tsconfig is as strict as it can be.
const tsconfig = `{
  "compilerOptions": {
    "strict": true, "target": "es2022", "module": "esnext", "moduleDetection": "force", "moduleResolution": "bundler",
    "lib": ["es2022", "dom", "dom.iterable", "dom.asynciterable"], "types": %s, "typeRoots": [%q], "noUnusedLocals": true
  },
  "include": ["*.ts"]
}
`

const nodeTypes = "declare global {\n  const process: { env: Record<string, string | undefined> };\n}\nexport {};\n"

// compileTypeScript compiles the programs of a folder, each into a file that node runs. They may use the TypeScript client,
// and what the packages of types declare.
func compileTypeScript(t *testing.T, folder string, types ...string) {
	t.Helper()
	client, err := filepath.Abs("../../../clients/ts")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(folder, "node_modules"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(client, filepath.Join(folder, "node_modules", "quire-client")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "package.json"), `{"type": "module"}`)
	write(t, filepath.Join(folder, "tsconfig.json"), fmt.Sprintf(tsconfig, toJSON(t, append([]string{}, types...)), filepath.Join(*nodeModules, "@types")))
	if out, err := run(t, folder, nil, filepath.Join(*nodeModules, ".bin", "tsc"), "-p", "."); err != nil {
		t.Fatalf("types: %v\n%s", err, out)
	}
}

func (i *instance) runTypeScript(t *testing.T, ops []*operation) {
	folder := t.TempDir()
	settings := make(map[string]setting)
	for _, o := range ops {
		s := i.prepare(t, o, "ts")
		settings[o.id] = s
		write(t, filepath.Join(folder, o.id+".ts"), s.text+"\n")
	}
	write(t, filepath.Join(folder, "node.d.ts"), nodeTypes) // the snippets use nothing of node but its environment
	compileTypeScript(t, folder)
	i.seen()
	for _, o := range ops {
		out, err := run(t, folder, settings[o.id].variables, "node", o.id+".js")
		expect(t, o, "ts", out, err, i.seen())
	}
}
