// Package reference renders the documentation that the edge serves under /docs: the API reference from docs/openapi.yaml
// with snippets in three languages, the guides, the error codes, a search, and llms.txt. All its input is trusted.
package reference

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"quire.dev/docs"
)

// Paths of the site.
const (
	docsPath   = "/docs"
	guidesPath = docsPath + "/guides/"
	apiPath    = docsPath + "/api/"
	errorsPath = docsPath + "/errors"
	searchPath = docsPath + "/search"
)

//go:embed templates
var files embed.FS

// Page is a page without the layout.
type Page struct {
	Title, Description string
	Main               template.HTML
}

// Site is the documentation of one server. It is immutable and safe for concurrent use.
type Site struct {
	templates   *template.Template
	document    *Document
	guides      []guide
	failures    []failure
	errorsIntro string
	markdown    markdown
	base        string
	entries     []entry
	pages       map[string]*Page
}

// New renders the documentation of the server with the public URL base.
func New(base string, highlight Highlight) (*Site, error) {
	s := &Site{base: base, markdown: newMarkdown(highlight), pages: make(map[string]*Page)}
	var err error
	if s.document, err = ParseDocument(bytes.ReplaceAll(docs.API(), []byte(exampleBase), []byte(base))); err != nil {
		return nil, err
	}
	if s.guides, err = guidesIn(docs.Guides(), base); err != nil {
		return nil, err
	}
	if s.errorsIntro, s.failures, err = errorsIn(docs.Errors(), s.markdown); err != nil {
		return nil, err
	}
	functions := template.FuncMap{"lower": strings.ToLower, "code": highlight.code, "inline": s.markdown.inline}
	if s.templates, err = template.New("").Funcs(functions).ParseFS(files, "templates/*.html"); err != nil {
		return nil, err
	}
	s.index()
	return s, s.render()
}

// Page returns the page at a path, or nil.
func (s *Site) Page(path string) *Page { return s.pages[path] }

// Paths are the paths of the pages.
func (s *Site) Paths() []string { return slices.Sorted(maps.Keys(s.pages)) }

// Search is the page of search results.
func (s *Site) Search(query string) (*Page, error) {
	title := "Search"
	if query = strings.TrimSpace(query); query != "" {
		title = "Search: " + query
	}
	return s.page(searchPath, title, "search", struct {
		Query   string
		Results []results
	}{query, s.byPage(find(s.entries, query))})
}

// frame is the data of the navigation beside each page.
type frame struct {
	Path   string
	Query  string
	Guides []guide
	Tags   []Tag
	Main   template.HTML
}

func (s *Site) page(path, title, name string, data any) (*Page, error) {
	var out bytes.Buffer
	if err := s.templates.ExecuteTemplate(&out, name, data); err != nil {
		return nil, fmt.Errorf("render %s: %w", path, err)
	}
	f := frame{Path: path, Guides: s.guides, Tags: s.document.Tags, Main: template.HTML(out.String())} //nolint:gosec // a template made it
	out.Reset()
	if err := s.templates.ExecuteTemplate(&out, "frame", f); err != nil {
		return nil, fmt.Errorf("render %s: %w", path, err)
	}
	return &Page{Title: title, Main: template.HTML(out.String())}, nil //nolint:gosec // likewise
}

// render makes all pages.
func (s *Site) render() error {
	v := &viewer{markdown: s.markdown, base: s.base, schemes: make(map[string]Scheme)}
	for _, scheme := range s.document.Schemes {
		v.schemes[scheme.Name] = scheme
	}
	add := func(path, title, description, name string, data any) error {
		p, err := s.page(path, title, name, data)
		if err != nil {
			return err
		}
		p.Description = description
		s.pages[path] = p
		return nil
	}
	if err := add(docsPath, "Documentation", "How to use the API: guides, reference, errors.", "overview", s.overview()); err != nil {
		return err
	}
	for i := range s.document.Tags {
		tag := &s.document.Tags[i]
		data := struct {
			*Tag
			Text       template.HTML
			Operations []operationView
		}{Tag: tag, Text: s.markdown.block(tag.Description)}
		for j := range tag.Operations {
			data.Operations = append(data.Operations, v.operation(&tag.Operations[j]))
		}
		if err := add(apiPath+tag.Slug, heading1(tag.Name), "API reference: "+tag.Name+".", "tag", data); err != nil {
			return err
		}
	}
	for i, g := range s.guides {
		data := struct {
			Heading, Text  template.HTML
			Parts          []heading
			Previous, Next *guide
		}{}
		top, rest, _ := strings.Cut(string(s.markdown.block(g.Source)), "</h1>")
		data.Heading, data.Text = template.HTML(top+"</h1>"), template.HTML(rest) //nolint:gosec // halves of what goldmark made
		for _, h := range s.markdown.headings(g.Source) {
			if h.Level == 2 {
				data.Parts = append(data.Parts, h)
			}
		}
		if i > 0 {
			data.Previous = &s.guides[i-1]
		}
		if i+1 < len(s.guides) {
			data.Next = &s.guides[i+1]
		}
		if err := add(guidesPath+g.Name, g.Title, plainCode(g.Summary), "guide", data); err != nil {
			return err
		}
	}
	return add(errorsPath, "Errors", "Every error of the API with its cause and fix.", "errors", struct {
		Intro template.HTML
		Codes []failure
	}{s.markdown.block(s.errorsIntro), s.failures})
}

func (s *Site) overview() any {
	type schemeView struct {
		Name       string
		How, About template.HTML
	}
	var schemes []schemeView
	for _, scheme := range s.document.Schemes {
		schemes = append(schemes, schemeView{scheme.Name, s.markdown.inline(scheme.Text), s.markdown.inline(scheme.Description)})
	}
	lead, rest, _ := strings.Cut(strings.TrimSpace(s.document.Description), "\n\n")
	return struct {
		Lead, Text template.HTML
		Schemes    []schemeView
		Guides     []guide
		Tags       []Tag
	}{s.markdown.block(lead), s.markdown.block(rest), schemes, s.guides, s.document.Tags}
}

// index makes the entries that a search looks through.
func (s *Site) index() {
	for _, g := range s.guides {
		path := guidesPath + g.Name
		for i, h := range s.markdown.headings(g.Source) {
			e := entry{Kind: "guide", Title: h.Title, Where: g.Title, URL: path + "#" + h.ID, Text: h.Text}
			if i == 0 {
				e.Where, e.URL, e.Text = "", path, plainCode(g.Summary)+" "+h.Text
			}
			s.entries = append(s.entries, e)
		}
	}
	for _, f := range s.failures {
		s.entries = append(s.entries, entry{
			Kind: "error", Title: f.Code, Where: fmt.Sprint("status ", f.Status), URL: errorsPath + "#" + f.Code, Text: plainCode(f.Cause + " " + f.Fix),
		})
	}
	v := &viewer{markdown: s.markdown, base: s.base}
	for _, tag := range s.document.Tags {
		for i := range tag.Operations {
			op := &tag.Operations[i]
			url := apiPath + tag.Slug + "#"
			s.entries = append(s.entries, entry{
				Kind: "operation", Title: op.Summary, Where: op.Method + " " + op.Path, URL: url + op.ID,
				Text: strings.Join([]string{op.ID, tag.Name, op.QuotaKey, plainCode(op.Description)}, " "),
			})
			view := v.operation(op)
			for _, group := range slices.Concat(view.InPath, view.Parameters) {
				s.indexFields(url, op, group.Fields)
			}
			for _, body := range view.Body {
				s.indexFields(url, op, body.Fields)
			}
			for _, answer := range view.Answers {
				for _, body := range answer.Bodies {
					s.indexFields(url, op, body.Fields)
				}
			}
		}
	}
}

func (s *Site) indexFields(url string, op *Operation, fields []fieldView) {
	for i := range fields {
		f := &fields[i]
		s.entries = append(s.entries, entry{
			Kind: "field", Title: f.Name, Where: op.Summary + " · " + op.Method + " " + op.Path, URL: url + f.ID,
			Text: f.Type + " " + template.HTMLEscapeString(string(f.Text)),
		})
		s.indexFields(url, op, f.Fields)
	}
}

func plainCode(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "`", "")), " ")
}

func heading1(name string) string { return strings.ToUpper(name[:1]) + name[1:] }
