// Package readers has the pages for readers: texts, their versions and changes, files, and the landing page with its form.
package readers

import (
	"context"

	"golang.org/x/sync/semaphore"

	"quire.dev/pkg/event"
	"quire.dev/pkg/telemetry"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/contents"
	"quire.dev/services/edge/internal/developer"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/kind"
	"quire.dev/services/edge/internal/pages"
	"quire.dev/services/edge/internal/render"
)

// Deps are the dependencies of the pages. All are required but Health and Checks.
type Deps struct {
	Bus       *bus.Bus
	Contents  *contents.Store
	Developer *developer.API // reads documents, and creates the paste of the form
	Pages     *pages.Pages
	Render    *render.Renderer
	Health    *telemetry.Health // for the landing page; nil: judged by whether billing answers
	Checks    string            // path of the readiness endpoint, linked by the landing page; empty: none
}

// Readers answers with pages.
type Readers struct {
	*endpoint.Base
	bus       *bus.Bus
	contents  *contents.Store
	developer *developer.API
	pages     *pages.Pages
	render    *render.Renderer
	forgetful *render.Renderer    // render without its cache
	rendering *semaphore.Weighted // bytes of text being rendered: see renderBudget
	health    *telemetry.Health
	checks    string
	own       OwnPart
	http      *httpin.Server
	ctx       context.Context // for calls to other components
}

// OwnPart returns the part of a document's page that only its signed-in owner sees.
type OwnPart func(c *endpoint.Call, k *kind.Kind, doc *event.Document) (*pages.Own, error)

// ShowOwn sets what pages show to the owners of documents. Call it before the first request.
func (s *Readers) ShowOwn(part OwnPart) { s.own = part }

// ownPart returns the owner's part of a document's page, nil unless the account owns the document.
func (s *Readers) ownPart(c *endpoint.Call, k *kind.Kind, doc *event.Document, account uint64) (*pages.Own, error) {
	if s.own == nil || !developer.Owns(doc, account) {
		return nil, nil
	}
	c.Who.Account = event.AccountID(account)
	return s.own(c, k, doc)
}

// New returns the pages.
func New(base *endpoint.Base, deps Deps) *Readers {
	return &Readers{
		Base: base, bus: deps.Bus, contents: deps.Contents, developer: deps.Developer, pages: deps.Pages, health: deps.Health, checks: deps.Checks,
		render: deps.Render, forgetful: deps.Render.Uncached(), rendering: semaphore.NewWeighted(renderBudget),
		http: base.HTTP(), ctx: base.HTTP().Context(),
	}
}
