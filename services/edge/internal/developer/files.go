package developer

import (
	"encoding/hex"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/headers"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/pages"
)

const (
	filesAPI     = "/api/dev/files"
	linkLifetime = 15 * time.Minute // of a downloadUrl
)

func (s *API) getFile(c *endpoint.Call) error {
	conditions, err := headers.ReadConditions(c.Ctx)
	if err != nil {
		return err
	}
	download, err := wantsBytes(c.Ctx)
	if err != nil {
		return err
	}
	id := c.Param("id")
	if download {
		if done, err := s.fileUnchanged(c, id, conditions); done || err != nil {
			return err
		}
	}
	read := func() *event.Read { return &event.Read{Item: id, Requester: uint64(c.Who.Account)} }
	m, err := s.startReading(c, event.File, read)
	if err != nil {
		return err
	}
	var pending *bus.PendingRead
	if event.ValidItemID(id) {
		pending = s.bus.StartRead(event.File, read(), &c.Timing)
	}
	if err := m.Wait(); err != nil {
		return err
	}
	doc, err := s.ReadDocument(pending)
	if err != nil {
		return m.Void(err)
	}
	receipt := m.Receipt()
	if !download {
		err := endpoint.Send(c.Ctx, fiber.StatusOK, s.fileMembers(endpoint.NewAnswer(768).Key("file"), doc).
			Str("downloadUrl", s.downloadURL(doc.Id)).End().Receipt(&receipt))
		if err != nil {
			return m.Void(err)
		}
		m.Served()
		receipt.SetHeaders(&c.Response().Header)
		return nil
	}
	if err := s.SendFile(c, doc, conditions); err != nil {
		return m.Void(err)
	}
	if c.Response().StatusCode() == fiber.StatusNotModified {
		voided, err := m.Cancel(false)
		voided.SetHeaders(&c.Response().Header)
		return err
	}
	m.Served()
	receipt.SetHeaders(&c.Response().Header)
	receipt.SetRemaining(c.Ctx)
	return nil
}

// wantsBytes reports whether the call asks for the file itself: by ?download=1, or an Accept that prefers
// application/octet-stream to JSON.
func wantsBytes(c *fiber.Ctx) (bool, error) {
	download := false
	err := input.QueryFields(c, input.Fields{"download": func(name string, v input.Value) error {
		switch string(v.Text) {
		case "1", "true":
			download = true
		case "0", "false":
		default:
			return httperr.InvalidField(name, "must be 1 or 0")
		}
		return nil
	}}.Set)
	download = download || headers.Prefers(c.Context(), fiber.MIMEOctetStream, fiber.MIMEApplicationJSON)
	return download, err
}

// fileTag is the entity tag of a file.
func fileTag(doc *event.Document) string { return hex.EncodeToString(doc.GetContent().GetSha256()) }

// ValidatorsOf returns the validators of a document. Files never change; the version of a text counts its changes.
func ValidatorsOf(d event.Domain, doc *event.Document) headers.Validators {
	if d == event.File {
		return headers.Validators{ETag: fileTag(doc), ModifiedMs: doc.CreatedMs, Settled: true}
	}
	return headers.Validators{ETag: strconv.FormatUint(doc.Version, 10), ModifiedMs: doc.UpdatedMs, Settled: doc.Version == 1}
}

// SendFile answers with the file, the part that Range asks for, or 304 if the client has it.
func (s *API) SendFile(c *endpoint.Call, doc *event.Document, conditions headers.Conditions) error {
	v := ValidatorsOf(event.File, doc)
	known, err := conditions.Check(v)
	switch {
	case err != nil:
		return err
	case known:
		return headers.NotModified(c.Ctx, v.ETag)
	}
	err = s.SendContent(c, doc, v)
	if err == nil {
		pages.ProtectFile(c.Ctx, doc)
	}
	return err
}

// SendContent answers with a document's content, or the part that Range asks for.
func (s *API) SendContent(c *endpoint.Call, doc *event.Document, v headers.Validators) error {
	err := headers.WriteRange(c.Ctx, &headers.Ranged{
		Size: doc.GetContent().Length(), Validators: v,
		Open: func(offset, length int64) (io.ReadCloser, error) {
			return s.contents.OpenBody(c, doc.GetContent(), offset, length, c.Get(fiber.HeaderRange) != "")
		},
	})
	if errors.Is(err, blob.ErrNotFound) {
		return endpoint.NotFound() // deleted since the read
	}
	return err
}

// fileMembers adds the members of a file that lists show too.
func (s *API) fileMembers(o endpoint.Object, doc *event.Document) endpoint.Object {
	return fileFacts(append(o, '{').Str("id", doc.Id), doc).Str("visibility", event.Visibility(doc.Visibility).String()).
		Time("createdAt", doc.CreatedMs).Time("expiresAt", doc.ExpiresMs).Str("url", s.URL("/f/"+doc.Id))
}

func fileFacts(o endpoint.Object, doc *event.Document) endpoint.Object {
	return o.Str("name", doc.Title).Int("size", doc.GetContent().Length()).Str("contentType", doc.ContentType).
		Str("sha256", fileTag(doc))
}

func (s *API) downloadURL(id string) string { return s.ContentBase() + s.DownloadLink(id) }

// DownloadLink is a signed path of a file, valid for linkLifetime. Only callers who can read the file get it, and anyone with the link
// can read this one file.
func (s *API) DownloadLink(id string) string { return s.SignedLink(downloadPath(id), linkLifetime) }

func downloadPath(id string) string { return "/f/" + id + "/download" }

// downloadFile serves a signed link. It is not metered.
func (s *API) downloadFile(c *endpoint.Call) error {
	link, err := endpoint.ReadLink(c)
	if err != nil {
		return err
	}
	conditions, err := headers.ReadConditions(c.Ctx)
	if err != nil {
		return err
	}
	id := c.Param("id")
	if !event.ValidItemID(id) || !s.LinkValid(downloadPath(id), link) {
		return fault.New(fault.NotFound, "This download link is not valid or has expired. Get a new downloadUrl from %s/get/:id.", filesAPI)
	}
	doc, err := s.ReadDocument(s.bus.StartRead(event.File, &event.Read{Item: id, ByLink: true}, &c.Timing))
	if err != nil {
		return err
	}
	return s.SendFile(c, doc, conditions)
}

func (s *API) deleteFile(c *endpoint.Call) error { return s.deleteItem(c, event.File, "id") }
