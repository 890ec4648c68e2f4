package web

import (
	"fmt"
	"time"

	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/pages"
	"quire.dev/services/edge/internal/reference"
	"quire.dev/services/edge/internal/render"
)

// documentation is everything below /docs, llms.txt and the page that verifies bills. But for the header, it is the same for everybody.
type documentation struct {
	site *reference.Site
	kept map[string]*pages.Kept // by path
}

// docsDeadline is the time limit for rendering one snippet.
const docsDeadline = 10 * time.Second

func (s *Server) newDocumentation() (*documentation, error) {
	// A separate renderer is not busy with user texts, and may take its time, since this is done once.
	renderer := render.New(render.Config{Concurrent: 1, Wait: time.Minute, Deadline: docsDeadline}).Uncached()
	site, err := reference.New(s.PublicURL(), func(text, language string) []string {
		return renderer.Text(s.ctx, text, language).Lines
	})
	if err != nil {
		return nil, fmt.Errorf("make the documentation: %w", err)
	}
	d := &documentation{site: site, kept: make(map[string]*pages.Kept)}
	for _, path := range site.Paths() {
		if d.kept[path], err = s.pages.Keep(documentationPage(site.Page(path), path), s.PublicURL()); err != nil {
			return nil, fmt.Errorf("make the documentation: %w", err)
		}
	}
	if d.kept["/verify"], err = s.pages.Keep(verifyPage(), s.PublicURL()); err != nil {
		return nil, fmt.Errorf("make the page that verifies bills: %w", err)
	}
	for path, text := range site.Texts() {
		d.kept[path] = pages.KeepText("text/plain; charset=utf-8", []byte(text))
	}
	return d, nil
}

func documentationPage(p *reference.Page, path string) *pages.Page {
	return &pages.Page{
		Path:     path,
		Template: "docs", Title: p.Title, Description: p.Description, Data: p.Main, Index: true,
		Styles: []string{"document", "docs"}, Scripts: []string{"docs.js", "copy.js"}, Fetches: true, Wide: true, Section: "/docs",
	}
}

// verifyPage checks the proof of a bill in the visitor's browser. Its policy lets it send nothing anywhere.
func verifyPage() *pages.Page {
	return &pages.Page{
		Path: "/verify", Template: "verify", Title: "Verify a bill", Description: "Check the proof of a bill in your browser.", Index: true,
		Styles: []string{"parts", "verify"}, Scripts: []string{"verify.js"}, Modules: []string{pages.VerifierModule},
	}
}

// documentation answers with one of its pages.
func (s *Server) documentation(c *endpoint.Call) error {
	d, err := s.docs()
	if err != nil {
		return err
	}
	kept, ok := d.kept[c.Path()]
	if !ok {
		return endpoint.NotFound()
	}
	return s.pages.Answer(c.Ctx, kept)
}

// searchDocumentation answers with a page of search results. It works without a script.
func (s *Server) searchDocumentation(c *endpoint.Call) error {
	var query string
	if err := input.QueryFields(c.Ctx, input.Fields{"q": input.To(&query, input.StringField)}.Set); err != nil {
		return err
	}
	d, err := s.docs()
	if err != nil {
		return err
	}
	found, err := d.site.Search(query)
	if err != nil {
		return err
	}
	p := documentationPage(found, "/docs")
	p.Index = false
	return s.pages.Render(c.Ctx, p)
}

func (s *Server) openapi(c *endpoint.Call) error { return s.pages.OpenAPI(c.Ctx) }

func (s *Server) pagesOpenAPI(c *endpoint.Call) error { return s.pages.PagesOpenAPI(c.Ctx) }
