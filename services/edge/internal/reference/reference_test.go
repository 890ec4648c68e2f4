package reference

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"html"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"quire.dev/docs"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/fault"
)

const base = "https://paste.example"

var newSite = sync.OnceValues(func() (*Site, error) { return New(base, nil) })

func site(t *testing.T) *Site {
	t.Helper()
	s, err := newSite()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// kinds are the codes that package fault declares.
func kinds(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../fault/fault.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Kind" {
			return true
		}
		code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, code)
		return true
	})
	if len(out) < 30 {
		t.Fatalf("only %d kinds were found: %v", len(out), out)
	}
	return out
}

// TestEveryErrorHasItsCauseAndCure: the field docs of an error is the address of its section.
func TestEveryErrorHasItsCauseAndCure(t *testing.T) {
	s := site(t)
	page := string(s.Page("/docs/errors").Main)
	var described []string
	for _, f := range s.failures {
		described = append(described, f.Code)
		if len(f.Cause) < 20 || len(f.Fix) < 20 {
			t.Errorf("%s: cause %q, fix %q", f.Code, f.Cause, f.Fix)
		}
		if f.Status != fault.Kind(f.Code).Status() || !strings.Contains(page, `id="`+f.Code+`"`) {
			t.Errorf("%s is not on the page with its status", f.Code)
		}
	}
	slices.Sort(described)
	want := kinds(t)
	slices.Sort(want)
	for _, code := range want {
		if !slices.Contains(described, code) {
			t.Errorf("docs/errors.md has no section about %s", code)
		}
	}
	for i, code := range described {
		if !slices.Contains(want, code) || i > 0 && described[i-1] == code {
			t.Errorf("docs/errors.md has a section too many, about %s", code)
		}
	}
}

// TestTheReferenceHasEveryOperation compares with another reader of the document.
func TestTheReferenceHasEveryOperation(t *testing.T) {
	spec, err := openapi3.NewLoader().LoadFromData(docs.API())
	if err != nil {
		t.Fatal(err)
	}
	s := site(t)
	full := s.fullText()
	calls := clientCalls()
	count := 0
	for path, item := range spec.Paths.Map() {
		for method, op := range item.Operations() {
			count++
			delete(calls, op.OperationID)
			page := s.Page(apiPath + slug(op.Tags[0]))
			if page == nil {
				t.Errorf("there is no page for the tag %s", op.Tags[0])
				continue
			}
			_, section, found := strings.Cut(string(page.Main), `<section class="operation" id="`+op.OperationID+`">`)
			if !found {
				t.Errorf("%s is not on its page", op.OperationID)
				continue
			}
			section, _, _ = strings.Cut(section, "</section>")
			programs := []string{`"quire.dev/client"`, `from "quire-client"`}
			if op.Tags[0] == "Admin" || op.Tags[0] == "From a terminal" || op.OperationID == "getStatementProof" { // the clients have no methods for these
				programs = []string{"http.NewRequest", "await fetch("}
			}
			text := html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(section, ""))
			for _, want := range programs {
				if !strings.Contains(text, want) {
					t.Errorf("%s: no program has %q", op.OperationID, want)
				}
			}
			for _, want := range []string{">" + method + "</b> <code>" + path + "</code>", "curl "} {
				if !strings.Contains(section, want) {
					t.Errorf("%s: %q is not shown", op.OperationID, want)
				}
			}
			for _, p := range op.Parameters {
				if !strings.Contains(section, `<code class="name">`+p.Value.Name+"</code>") {
					t.Errorf("%s: its parameter %s is not shown", op.OperationID, p.Value.Name)
				}
			}
			for status := range op.Responses.Map() {
				if !regexp.MustCompile(`<span class="status[^>]*>` + status + `</span>`).MatchString(section) {
					t.Errorf("%s: its answer %s is not shown", op.OperationID, status)
				}
			}
			if !strings.Contains(full, method+" "+path+" ("+op.OperationID+")") || !strings.Contains(s.shortText(), "["+method+" "+path+"]") {
				t.Errorf("%s is not in the texts for language models", op.OperationID)
			}
		}
	}
	for id := range calls {
		t.Errorf("there is a call of %s, which is no operation", id)
	}
	if count < 20 {
		t.Fatalf("%d operations", count)
	}
}

// TestLinksLeadSomewhere follows every link within the documentation, also those of the texts for language models.
func TestLinksLeadSomewhere(t *testing.T) {
	s := site(t)
	others := []string{"/docs/openapi.yaml", "/docs/openapi-pages.yaml", "/llms.txt", "/llms-full.txt", "/", "/console", "/verify"}
	id := regexp.MustCompile(` id="([^"]+)"`)
	anchors := make(map[string][]string)
	for _, path := range s.Paths() {
		for _, m := range id.FindAllStringSubmatch(string(s.Page(path).Main), -1) {
			if slices.Contains(anchors[path], m[1]) {
				t.Errorf("%s has %q twice", path, m[1])
			}
			anchors[path] = append(anchors[path], m[1])
		}
	}
	check := func(from, link string) {
		path, anchor, _ := strings.Cut(strings.TrimPrefix(link, base), "#")
		if path == "" {
			path = from
		}
		switch {
		case s.Page(path) == nil && !slices.Contains(others, path):
			t.Errorf("%s has a link to %s", from, link)
		case anchor != "" && !slices.Contains(anchors[path], anchor):
			t.Errorf("%s has a link to %s, which has no such part", from, link)
		}
	}
	count := 0
	for _, path := range s.Paths() {
		for _, m := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(string(s.Page(path).Main), -1) {
			count++
			if !strings.Contains(m[1], "://") {
				check(path, m[1])
			}
		}
	}
	for _, e := range s.entries {
		check("search", e.URL)
	}
	for path, text := range s.Texts() {
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(text, -1) {
			count++
			switch {
			case strings.HasPrefix(m[1], base+"/"):
				check(path, m[1])
			case !strings.HasPrefix(m[1], "https://"):
				t.Errorf("%s has a link to %s, which leads nowhere from there", path, m[1])
			}
		}
	}
	if count < 200 {
		t.Errorf("only %d links were found", count)
	}
}

func TestEveryGuideIsListedAndOpensWithItsTitle(t *testing.T) {
	s := site(t)
	files, err := fs.Glob(docs.Guides(), "*.md")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v %v", files, err)
	}
	if len(s.guides) != len(files)-1 {
		t.Errorf("docs/guides/README.md lists %d of %d guides", len(s.guides), len(files)-1)
	}
	for _, g := range s.guides {
		if !strings.HasPrefix(g.Source, "# "+g.Title+"\n") {
			t.Errorf("guide %s does not begin with its title %q", g.Name, g.Title)
		}
		if g.Summary == "" || strings.Contains(string(s.Page(guidesPath+g.Name).Main), exampleBase) {
			t.Errorf("guide %s has no summary, or the address of another server", g.Name)
		}
	}
}

func TestSearchFindsTheBestFirst(t *testing.T) {
	s := site(t)
	for _, tc := range []struct{ query, url string }{
		{"quota_exhausted", "/docs/errors#quota_exhausted"},
		{"QUOTA_exhausted", "/docs/errors#quota_exhausted"},
		{"create a paste", "/docs/api/pastes#createPaste"},
		{"first call", "/docs/guides/first-call"},
	} {
		found := find(s.entries, tc.query)
		if len(found) == 0 || found[0].URL != tc.url {
			t.Errorf("%s: %v", tc.query, found[:min(len(found), 2)])
		}
	}
	if found := find(s.entries, "burnAfterRead"); !slices.ContainsFunc(found, func(e entry) bool { return e.Kind == "field" && e.Title == "burnAfterRead" }) {
		t.Errorf("the field is not found: %v", found)
	}
	for _, query := range []string{"", "  ", "quota_exhausted xyzzy", strings.Repeat("é", 5000)} {
		if found := find(s.entries, query); len(found) > 0 {
			t.Errorf("%.20q: %v", query, found)
		}
	}
	if found := find(s.entries, "e"); len(found) != maxResults {
		t.Errorf("%d results", len(found))
	}
}

func TestASearchIsText(t *testing.T) {
	p, err := site(t).Search(`"><script>alert(1)</script>`)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(p.Main), "<script") || !strings.Contains(string(p.Main), "&lt;script&gt;") {
		t.Errorf("%s", p.Main)
	}
}

func TestSchemasInWords(t *testing.T) {
	source := `
openapi: 3.1.0
components:
  schemas:
    Id: {type: string, pattern: "^[a-z]+$", description: An id.}
    Circle: {type: object, properties: {again: {$ref: "#/components/schemas/Circle"}}}
s:
  plain: {type: string, minLength: 1, maxLength: 200}
  nullable: {type: [string, "null"], format: date-time}
  old: {type: integer, nullable: true, minimum: 0}
  reference: {$ref: "#/components/schemas/Id", description: Another text.}
  maybe: {oneOf: [{$ref: "#/components/schemas/Id"}, {type: "null"}]}
  choice: {oneOf: [{type: integer, minimum: 60}, {type: string}]}
  list: {type: array, maxItems: 10, items: {type: string, maxLength: 32}}
  both: {allOf: [{$ref: "#/components/schemas/Id"}], default: x}
  count: {type: integer, minimum: 1, maximum: 4194304, examples: [5]}
  open: {type: object, additionalProperties: {type: integer}}
  bytes: {type: string, contentMediaType: application/octet-stream}
  fixed: {type: boolean, const: true}
  growing: {type: string, x-extensible-enum: [a, b]}
  circle: {$ref: "#/components/schemas/Circle"}
`
	root, err := parse([]byte(source))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Schema{
		"plain":     {Type: "string", Limits: []string{"1 to 200 characters"}},
		"nullable":  {Type: "time or null"},
		"old":       {Type: "integer or null", Limits: []string{"at least 0"}},
		"reference": {Name: "Id", Type: "string", Description: "Another text.", Limits: []string{"matches `^[a-z]+$`"}},
		"maybe":     {Name: "Id", Type: "string or null", Description: "An id.", Limits: []string{"matches `^[a-z]+$`"}},
		"choice":    {Type: "integer or string"},
		"list":      {Type: "list of strings", Limits: []string{"at most 10 items"}},
		"both":      {Name: "Id", Type: "string", Description: "An id.", Default: `"x"`, Limits: []string{"matches `^[a-z]+$`"}},
		"count":     {Type: "integer", Limits: []string{"1 to 4,194,304"}, Example: "5"},
		"open":      {Type: "object"},
		"bytes":     {Type: "bytes"},
		"fixed":     {Type: "boolean", Values: []string{"true"}},
		"growing":   {Type: "string", Values: []string{`"a"`, `"b"`}},
		"circle":    {Name: "Circle", Type: "object"},
	} {
		got := schemaOf(root.child("s").child(name))
		if got.Name != want.Name || got.Type != want.Type || got.Description != want.Description || got.Default != want.Default ||
			got.Example != want.Example || !slices.Equal(got.Limits, want.Limits) || !slices.Equal(got.Values, want.Values) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// cells are the rows of the tables of a text, without the line below the heads.
func cells(source string) [][]string {
	var out [][]string
	for line := range strings.Lines(source) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") {
			continue
		}
		var row []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			row = append(row, strings.Trim(strings.TrimSpace(cell), "`"))
		}
		out = append(out, row)
	}
	return out
}

func sourceOf(t *testing.T, s *Site, name string) string {
	t.Helper()
	for _, g := range s.guides {
		if g.Name == name {
			return g.Source
		}
	}
	t.Fatalf("there is no guide %s", name)
	return ""
}

// TestTheGuidesHaveThePublishedPrices holds the table of quotas to the price book.
func TestTheGuidesHaveThePublishedPrices(t *testing.T) {
	source := sourceOf(t, site(t), "quotas-and-credits")
	book := plan.Published(10)
	rows := make(map[string][]string)
	for _, row := range cells(source) {
		for key := range strings.SplitSeq(row[0], "`, `") {
			rows[key] = row[1:]
		}
	}
	for _, key := range plan.QuotaKeys() {
		if book.Plans[plan.Pro].Terms[key].Limit == plan.Unlimited {
			if row := rows[key.String()]; len(row) != 5 || row[0] != "unlimited" {
				t.Errorf("%s is not among what is unlimited: %v", key, row)
			}
			continue
		}
		row := rows[key.String()]
		if len(row) != 5 {
			t.Errorf("%s: %v", key, row)
			continue
		}
		for i, tier := range []plan.Tier{plan.Free, plan.Pro, plan.Max} {
			if want := groupDigits(strconv.FormatInt(book.Plans[tier].Terms[key].Limit, 10)); row[i] != want {
				t.Errorf("%s on %s: %s, the price book has %s", key, tier, row[i], want)
			}
		}
		for i, tier := range []plan.Tier{plan.Pro, plan.Max} {
			if price := plan.MustParseCredits(row[3+i]); price != book.Plans[tier].Terms[key].Price {
				t.Errorf("%s on %s costs %s, the price book has %s", key, tier, row[3+i], book.Plans[tier].Terms[key].Price)
			}
		}
	}
	free := &book.Plans[plan.Free]
	for _, want := range []string{
		fmt.Sprintf("%d GB are included", free.FreeStorageBytes/plan.GB), fmt.Sprintf("costs $0.%02d per month", free.StorageCentsPerGBMonth),
	} {
		if !strings.Contains(source, want) {
			t.Errorf("the guide does not say %q", want)
		}
	}
	if want := fmt.Sprintf("can create %d quick pastes in any %d hours", book.AnonymousLimit, book.AnonymousWindowMillis/3_600_000); !strings.Contains(sourceOf(t, site(t), "keyless"), want) {
		t.Errorf("the guide about keyless use does not say %q", want)
	}
}

// TestTheGuidesHaveTheLimitsOfTheRules holds the page of limits to docs/api.md, which the scenario tests hold the product to.
func TestTheGuidesHaveTheLimitsOfTheRules(t *testing.T) {
	rules, err := os.ReadFile("../../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(rules), "\n## Limits\n")
	section, _, _ = strings.Cut(section, "\n## ")
	number := regexp.MustCompile(`[\d,]+ (?:MB|KB|characters|bytes|years|items|a minute|a day|an hour|minute|byte)|\d+ to \d+|\b\d+ of \d+|\d+ by default`)
	guide := sourceOf(t, site(t), "limits")
	count := 0
	for _, row := range cells(section) {
		for _, limit := range number.FindAllString(strings.Join(row, " "), -1) {
			count++
			if !strings.Contains(guide, limit) {
				t.Errorf("the limit %q of %s is not in the guide", limit, row[0])
			}
		}
	}
	if count < 15 {
		t.Errorf("only %d limits were found in docs/api.md", count)
	}
	for _, row := range cells(guide) {
		for _, m := range regexp.MustCompile(`^(\d{3}) `+"`"+`(\w+)$`).FindAllStringSubmatch(row[len(row)-1], -1) {
			if status := fault.Kind(m[2]).Status(); strconv.Itoa(status) != m[1] {
				t.Errorf("%s is %d, not %s", m[2], status, m[1])
			}
		}
	}
}

// TestTheReferenceSaysWhichPlanACallNeeds, by the price book.
func TestTheReferenceSaysWhichPlanACallNeeds(t *testing.T) {
	s := site(t)
	book := plan.Published(0)
	keys := map[string]plan.QuotaKey{}
	for _, key := range plan.QuotaKeys() {
		keys[key.String()] = key
	}
	seen := map[string]int{}
	for _, tag := range s.document.Tags {
		for i := range tag.Operations {
			op := &tag.Operations[i]
			_, section, _ := strings.Cut(string(s.Page(apiPath+tag.Slug).Main), `<section class="operation" id="`+op.ID+`">`)
			section, _, _ = strings.Cut(section, "</section>")
			want := ""
			switch {
			case op.QuotaKey == "":
			case book.Plans[plan.Free].Terms[keys[op.QuotaKey]].Limit != 0:
				want = "any"
			case book.Plans[plan.Pro].Terms[keys[op.QuotaKey]].Limit != 0:
				want = "Pro or Max"
			default:
				want = "Max"
			}
			seen[want]++
			if got := strings.Contains(section, "<dt>Plan</dt>"); got != (want != "") || want != "" && !strings.Contains(section, "<dt>Plan</dt><dd>"+want+"</dd>") {
				t.Errorf("%s does not say that it needs the plan %q", op.ID, want)
			}
		}
	}
	if seen["any"] < 5 || seen["Pro or Max"] < 6 || seen[""] < 20 {
		t.Errorf("%v", seen)
	}
}

var (
	shownCode = regexp.MustCompile(`(?s)<(pre|code)[ >].*?</(pre|code)>`)
	anyTag    = regexp.MustCompile(`<[^>]*>`)
)

// TestNoPageShowsMarkdown: a backtick outside of code is one that nobody has rendered.
func TestNoPageShowsMarkdown(t *testing.T) {
	s := site(t)
	texts := map[string]string{}
	for _, path := range s.Paths() {
		p := s.Page(path)
		texts[path] = p.Title + "\n" + p.Description + "\n" + string(p.Main)
	}
	for _, query := range []string{"quota", "paste", "key", "idempotency", "limit", "file", "webhook"} {
		p, err := s.Search(query)
		if err != nil {
			t.Fatal(err)
		}
		texts["search for "+query] = string(p.Main)
	}
	for where, text := range texts {
		text = anyTag.ReplaceAllString(shownCode.ReplaceAllString(text, ""), "")
		if at := strings.IndexByte(text, '`'); at >= 0 {
			t.Errorf("%s: %q", where, text[max(0, at-60):min(len(text), at+60)])
		}
	}
}

func TestResultsAreGroupedByPage(t *testing.T) {
	s := site(t)
	groups := s.byPage(find(s.entries, "burn"))
	seen := map[string]bool{}
	for _, g := range groups {
		if seen[g.URL] || g.Title == "" || s.Page(g.URL) == nil {
			t.Errorf("%+v", g)
		}
		seen[g.URL] = true
		for _, e := range g.Entries {
			if !strings.HasPrefix(e.URL, g.URL+"#") {
				t.Errorf("%s is under %s", e.URL, g.URL)
			}
		}
	}
	if len(groups) < 2 || len(groups[0].Entries) == 0 {
		t.Errorf("%+v", groups)
	}
	p, err := s.Search("keyless use")
	if err != nil || !strings.Contains(string(p.Main), `<h2><a href="/docs/guides/keyless">Keyless use</a></h2>`) {
		t.Errorf("%v %s", err, p.Main)
	}
}

var statusOfCode = regexp.MustCompile("\\b([1-5]\\d\\d) \\[?`([a-z_]+)`")

// TestTheGuidesSayEachCodesStatus: "404 `not_found`" in a guide is the status that the code has.
func TestTheGuidesSayEachCodesStatus(t *testing.T) {
	s := site(t)
	all := kinds(t)
	seen := 0
	for _, g := range s.guides {
		for _, m := range statusOfCode.FindAllStringSubmatch(g.Source, -1) {
			if !slices.Contains(all, m[2]) {
				continue
			}
			seen++
			if want := fault.Kind(m[2]).Status(); m[1] != strconv.Itoa(want) {
				t.Errorf("%s says that %s is %s: it is %d", g.Name, m[2], m[1], want)
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d codes have their status", seen)
	}
}
