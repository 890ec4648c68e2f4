// Package developer is the developer API: pastes, quick pastes and files. Every call is metered.
package developer

import (
	"cmp"
	"context"
	"time"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/blob"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/contents"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/password"
	"quire.dev/services/edge/internal/render"
)

// defaultAdmissionAge is well below the 2 minutes of journal time after which billing voids the hold of a write.
const defaultAdmissionAge = 60 * time.Second

// Config configures the writing of documents.
type Config struct {
	Partitions     int           // of every journal
	PasswordHashes int           // concurrent hashes
	AdmissionAge   time.Duration // a write that took longer to arrive is admitted again; 60 s
}

// Deps are the dependencies of the API.
type Deps struct {
	Bus      *bus.Bus
	Blobs    blob.Store
	Contents *contents.Store
	Secret   *apikey.Secret
	Render   *render.Renderer // knows the languages of documents
}

// API implements the developer API, and the operations on documents behind it for pages.
type API struct {
	*endpoint.Base
	bus      *bus.Bus
	blobs    blob.Store
	contents *contents.Store
	secret   *apikey.Secret
	render   *render.Renderer
	http     *httpin.Server
	ctx      context.Context // for calls to other components

	partitions     int
	admissionAge   time.Duration
	putBytes       int64 // memory that blobs uses while storing a file
	documentHashes *password.Hasher
}

// New returns the API.
func New(base *endpoint.Base, cfg Config, deps Deps) *API {
	s := &API{
		Base: base, bus: deps.Bus, blobs: deps.Blobs, contents: deps.Contents, secret: deps.Secret, render: deps.Render,
		http: base.HTTP(), ctx: base.HTTP().Context(),
		partitions: cfg.Partitions, admissionAge: cmp.Or(cfg.AdmissionAge, defaultAdmissionAge), documentHashes: password.New(cfg.PasswordHashes),
	}
	if b, ok := deps.Blobs.(blob.Buffering); ok {
		s.putBytes = b.PutBytes()
	}
	return s
}
