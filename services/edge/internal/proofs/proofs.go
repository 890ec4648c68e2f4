// Package proofs serves what proves bills to people who do not trust the installation: its log, and proofs of an account's months.
package proofs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/proof"
	"quire.dev/pkg/tilelog"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin/headers"
	"quire.dev/services/edge/internal/pages"
)

const (
	// maxBytes bounds a part of the log: 256 entries, each with a subject.
	maxBytes = 256 << 10
	timeout  = 10 * time.Second
	// billTimeout bounds the work for the proof of a bill.
	billTimeout = 20 * time.Second

	immutable = "public, max-age=31536000, immutable"
)

// Proofs answers with parts of the log, and with proofs of bills.
type Proofs struct {
	*endpoint.Base
	blobs      blob.Store
	partitions int
	ctx        context.Context // of reads
	bills      chan struct{}   // bounds the proofs that are being made
	proving    sync.Map        // accounts with one
}

// New returns the handlers.
func New(base *endpoint.Base, blobs blob.Store, partitions int) *Proofs {
	return &Proofs{Base: base, blobs: blobs, partitions: partitions, ctx: base.HTTP().Context(), bills: make(chan struct{}, maxBills)}
}

// Rows are the endpoints of the log, in the paths of C2SP's tlog-tiles, and of bills.
func (s *Proofs) Rows() []endpoint.Row {
	row := endpoint.NewRow
	return []endpoint.Row{
		// method, path, who may call, counted under, body, rules, handler
		row("GET", "/log/checkpoint", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.AnyQuery, endpoint.With(proof.LogCheckpoint, s.text)),
		row("GET", "/log/key", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.AnyQuery, endpoint.With(proof.LogKey, s.text)),
		row("GET", "/log/tile/+", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.AnyQuery, s.tile),
		row("GET", "/api/users/user/statements/:period/proof", endpoint.KeyOrSession, endpoint.Unmetered, endpoint.NoBody, endpoint.OwnQuery, s.bill),
	}
}

// text answers with a text that changes.
func (s *Proofs) text(c *endpoint.Call, key string) error {
	data, err := s.read(key)
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, fiber.MIMETextPlainCharsetUTF8)
	return send(c, data, "no-cache")
}

// tile answers with hashes or entries, which never change.
func (s *Proofs) tile(c *endpoint.Call) error {
	path := "tile/" + c.Param("+")
	if !tilelog.IsTile(path) {
		return endpoint.NotFound()
	}
	data, err := s.read(proof.LogPrefix + path)
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, fiber.MIMEOctetStream)
	return send(c, data, immutable)
}

func send(c *endpoint.Call, data []byte, cache string) error {
	conditions, err := headers.ReadConditions(c.Ctx)
	if err != nil {
		return err
	}
	tag := pages.TagOf(data)
	known, err := conditions.Check(headers.Validators{ETag: tag})
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderCacheControl, cache)
	if known {
		return headers.NotModified(c.Ctx, tag)
	}
	headers.SetETag(c.Ctx, tag)
	c.Response().SetBodyRaw(data)
	return nil
}

func (s *Proofs) read(key string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	data, err := blob.Read(ctx, s.blobs, key, maxBytes)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, endpoint.NotFound()
	}
	if err != nil {
		return nil, endpoint.Unavailable(err)
	}
	return data, nil
}
