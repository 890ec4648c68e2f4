// Package developer is the developer API: pastes, quick pastes and files, each call of which is metered.
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

// defaultAdmissionAge is well within the 2 minutes of journal time after which billing voids the hold of a write by
// itself.
const defaultAdmissionAge = 60 * time.Second

// Config says how documents are written.
type Config struct {
	Partitions     int           // of every journal
	PasswordHashes int           // that may run at a time
	AdmissionAge   time.Duration // a write that took longer to arrive is admitted anew; 60 s
}

// Deps are the parts that the API works with.
type Deps struct {
	Bus      *bus.Bus
	Blobs    blob.Store
	Contents *contents.Store
	Secret   *apikey.Secret
	Render   *render.Renderer // whose languages documents have
}

// API answers the calls of the developer API, and carries out what the pages do with documents.
type API struct {
	*endpoint.Base
	bus      *bus.Bus
	blobs    blob.Store
	contents *contents.Store
	secret   *apikey.Secret
	render   *render.Renderer
	http     *httpin.Server
	ctx      context.Context // of calls to other parts

	partitions     int
	admissionAge   time.Duration
	putBytes       int64 // of a file that blobs holds in memory while it is put
	documentHashes *password.Hasher
}

// New prepares the API.
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
