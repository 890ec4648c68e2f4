// Package readers is the pages for readers: texts, their versions and changes, files, and the first page with its form.
package readers

import (
	"context"

	"golang.org/x/sync/semaphore"

	"quire.dev/pkg/telemetry"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/contents"
	"quire.dev/services/edge/internal/developer"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/pages"
	"quire.dev/services/edge/internal/render"
)

// Deps are the parts that pages are made of. All are required but Health and Checks.
type Deps struct {
	Bus       *bus.Bus
	Contents  *contents.Store
	Developer *developer.API // that reads documents, and makes the paste of the form
	Pages     *pages.Pages
	Render    *render.Renderer
	Health    *telemetry.Health // that the first page shows; nil: what billing answers is all
	Checks    string            // path of the readiness that the first page links to; empty: none
}

// Readers answers with pages.
type Readers struct {
	*endpoint.Base
	bus       *bus.Bus
	contents  *contents.Store
	developer *developer.API
	pages     *pages.Pages
	render    *render.Renderer
	forgetful *render.Renderer    // render, without its cache
	rendering *semaphore.Weighted // bytes of texts that pages are made of: see renderBudget
	health    *telemetry.Health
	checks    string
	http      *httpin.Server
	ctx       context.Context // of calls to other parts
}

// New prepares the pages.
func New(base *endpoint.Base, deps Deps) *Readers {
	return &Readers{
		Base: base, bus: deps.Bus, contents: deps.Contents, developer: deps.Developer, pages: deps.Pages, health: deps.Health, checks: deps.Checks,
		render: deps.Render, forgetful: deps.Render.Uncached(), rendering: semaphore.NewWeighted(renderBudget),
		http: base.HTTP(), ctx: base.HTTP().Context(),
	}
}
