// Package tilelogtest reads an installation's log as its edges serve it, for tests.
package tilelogtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/proof"
	"quire.dev/pkg/tilelog"
)

// Served is the log below the URL of an edge, for tilelog.NewReader.
type Served struct {
	blob.Store // has no other methods than Get
	Base       string
}

// Get implements blob.Store for whole parts of the log.
func (s Served) Get(ctx context.Context, key string, _, _ int64) (io.ReadCloser, blob.Info, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Base+"/"+key, nil)
	if err != nil {
		return nil, blob.Info{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, blob.Info{}, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, blob.Info{}, errors.Join(fmt.Errorf("get %s: %s", request.URL, response.Status), response.Body.Close())
	}
	return response.Body, blob.Info{Size: response.ContentLength}, nil
}

// Checkpoint returns the tree of the checkpoint, which is signed with the key that the edge serves.
func (s Served) Checkpoint(ctx context.Context) (tree tlog.Tree, err error) {
	key, err := blob.Read(ctx, s, proof.LogKey, tilelog.MaxCheckpoint)
	if err != nil {
		return tree, err
	}
	verifier, err := note.NewVerifier(strings.TrimSpace(string(key)))
	if err != nil {
		return tree, err
	}
	signed, err := blob.Read(ctx, s, proof.LogCheckpoint, tilelog.MaxCheckpoint)
	if err != nil {
		return tree, err
	}
	return tilelog.Parse(signed, verifier)
}
