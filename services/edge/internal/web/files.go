package web

import (
	"encoding/hex"
	"errors"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/bus"
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

func (s *Server) getFile(c *call) error {
	conditions, err := headers.ReadConditions(c.Ctx)
	if err != nil {
		return err
	}
	download, err := wantsBytes(c.Ctx)
	if err != nil {
		return err
	}
	id := c.param("id")
	if download {
		if done, err := s.fileUnchanged(c, id, conditions); done || err != nil {
			return err
		}
	}
	m, read := s.meter(c), &event.Read{Item: id, Requester: uint64(c.who.account)}
	if c.idem != nil {
		if err := m.repeatable(event.File, read); err != nil {
			return err
		}
	}
	m.start()
	var pending *bus.PendingRead
	if event.ValidItemID(id) {
		pending = s.bus.StartRead(event.File, read)
	}
	if err := m.waitRead(); err != nil {
		return err
	}
	doc, err := s.readDocument(pending)
	if err != nil {
		return m.void(err)
	}
	if !download {
		err := send(c.Ctx, fiber.StatusOK, s.fileMembers(newAnswer(768).key("file"), doc).
			str("downloadUrl", s.downloadURL(doc.Id)).end().remaining(m.remaining()))
		if err != nil {
			return m.void(err)
		}
		m.served()
		return nil
	}
	if err := s.sendFile(c, doc, conditions); err != nil {
		return m.void(err)
	}
	if c.Response().StatusCode() == fiber.StatusNotModified {
		return m.void(nil)
	}
	m.served()
	c.Set(headerQuotaRemaining, strconv.FormatInt(m.remaining(), 10))
	return nil
}

// wantsBytes tells whether the file itself is asked for: ?download=1, or Accept prefers
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

// fileTag is the entity tag of a file's bytes.
func fileTag(doc *event.Document) string { return hex.EncodeToString(doc.GetContent().GetSha256()) }

// validatorsOf are those of a document. A file never changes, and a text's version counts its changes.
func validatorsOf(d event.Domain, doc *event.Document) headers.Validators {
	if d == event.File {
		return headers.Validators{ETag: fileTag(doc), ModifiedMs: doc.CreatedMs, Settled: true}
	}
	return headers.Validators{ETag: strconv.FormatUint(doc.Version, 10), ModifiedMs: doc.UpdatedMs, Settled: doc.Version == 1}
}

// sendFile answers with the file's bytes or the part that Range asks for, or with 304 where the client has them.
func (s *Server) sendFile(c *call, doc *event.Document, conditions headers.Conditions) error {
	v := validatorsOf(event.File, doc)
	known, err := conditions.Check(v)
	switch {
	case err != nil:
		return err
	case known:
		return headers.NotModified(c.Ctx, v.ETag)
	}
	err = s.sendContent(c, doc, v)
	if err == nil {
		pages.ProtectFile(c.Ctx, doc)
	}
	return err
}

// sendContent answers with a document's content, or the part that Range asks for.
func (s *Server) sendContent(c *call, doc *event.Document, v headers.Validators) error {
	err := headers.WriteRange(c.Ctx, &headers.Ranged{
		Size: int64(doc.GetContent().GetSizeBytes()), Validators: v,
		Open: func(offset, length int64) (io.ReadCloser, error) {
			return s.openBody(c, doc.GetContent(), offset, length, c.Get(fiber.HeaderRange) != "")
		},
	})
	if errors.Is(err, blob.ErrNotFound) {
		return notFound() // deleted since it was read
	}
	return err
}

// fileMembers are the members of a file that lists show as well.
func (s *Server) fileMembers(o object, doc *event.Document) object {
	return fileFacts(append(o, '{').str("id", doc.Id), doc).str("visibility", event.Visibility(doc.Visibility).String()).
		time("createdAt", doc.CreatedMs).time("expiresAt", doc.ExpiresMs).str("url", s.url("/f/"+doc.Id))
}

func fileFacts(o object, doc *event.Document) object {
	return o.str("name", doc.Title).int("size", int64(doc.GetContent().GetSizeBytes())).str("contentType", doc.ContentType).
		str("sha256", fileTag(doc))
}

// downloadURL is a signed link to the bytes of a file, good for linkLifetime. Whoever has it may read this file and no other,
// since whoever asked for it might.
func (s *Server) downloadURL(id string) string {
	expires := s.now().Add(linkLifetime).Unix()
	q := url.Values{"expires": {strconv.FormatInt(expires, 10)}, "signature": {s.secret.SignLink(downloadPath(id), expires)}}
	return s.contentBase() + downloadPath(id) + "?" + q.Encode()
}

func downloadPath(id string) string { return "/f/" + id + "/download" }

// downloadFile serves a signed link. It is not metered.
func (s *Server) downloadFile(c *call) error {
	var expiresText, signature string
	err := input.QueryFields(c.Ctx, input.Fields{
		"expires":   input.To(&expiresText, input.StringField),
		"signature": input.To(&signature, input.StringField),
	}.Set)
	if err != nil {
		return err
	}
	conditions, err := headers.ReadConditions(c.Ctx)
	if err != nil {
		return err
	}
	id := c.param("id")
	expires, err := strconv.ParseInt(expiresText, 10, 64)
	if err != nil || !event.ValidItemID(id) || expires <= s.now().Unix() || !s.secret.CheckLink(downloadPath(id), expires, signature) {
		return fault.New(fault.NotFound, "This download link is not valid or has expired. Get a new downloadUrl from %s/get/:id.", filesAPI)
	}
	doc, err := s.readDocument(s.bus.StartRead(event.File, &event.Read{Item: id, ByLink: true}))
	if err != nil {
		return err
	}
	return s.sendFile(c, doc, conditions)
}

func (s *Server) deleteFile(c *call) error { return s.deleteItem(c, event.File, "id") }
