package web

import (
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/pages"

	"encoding/hex"
	"errors"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/fault"
)

const (
	filesAPI     = "/api/dev/files"
	linkLifetime = 15 * time.Minute // of a downloadUrl
)

func (s *Server) getFile(c *call) error {
	noneOf, err := httpin.ParseETags(c.Ctx, fiber.HeaderIfNoneMatch)
	if err != nil {
		return err
	}
	download, err := wantsBytes(c.Ctx)
	if err != nil {
		return err
	}
	id := c.param("id")
	m := s.meter(c).start()
	var pending *bus.PendingRead
	if event.ValidItemID(id) {
		pending = s.bus.StartRead(event.File, &event.Read{Item: id, Requester: uint64(c.who.account)})
	}
	if err := m.wait(); err != nil {
		return err
	}
	doc, err := s.readDocument(pending)
	if err != nil {
		return m.void(err)
	}
	if !download {
		m.served()
		return send(c.Ctx, fiber.StatusOK, appendRemaining(s.appendFile(make([]byte, 0, 768), doc, c.who.account), m.remaining()))
	}
	if noneOf.Matches(fileTag(doc)) {
		if err := m.void(nil); err != nil {
			return err
		}
		return httpin.NotModified(c.Ctx, fileTag(doc))
	}
	if err := s.sendFile(c.Ctx, doc); err != nil {
		return m.void(err)
	}
	m.served()
	c.Set(headerQuotaRemaining, strconv.FormatInt(m.remaining(), 10))
	return nil
}

// wantsBytes tells whether the file itself is asked for: ?download=1, or Accept names its type.
func wantsBytes(c *fiber.Ctx) (bool, error) {
	download := false
	err := httpin.QueryFields(c, func(name string, v httpin.Value) error {
		if name != "download" {
			return httpin.UnknownField(name)
		}
		switch string(v.Text) {
		case "1", "true":
			download = true
		case "0", "false":
		default:
			return httpin.InvalidField(name, "must be 1 or 0")
		}
		return nil
	})
	for part := range strings.SplitSeq(c.Get(fiber.HeaderAccept), ",") {
		media, params, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(media), "application/octet-stream") && strings.ReplaceAll(params, " ", "") != "q=0" {
			download = true
		}
	}
	return download, err
}

// fileTag is the entity tag of a file's bytes.
func fileTag(doc *event.Document) string { return hex.EncodeToString(doc.GetContent().GetSha256()) }

// sendFile answers with the file's bytes, or the part that Range asks for.
func (s *Server) sendFile(c *fiber.Ctx, doc *event.Document) error {
	err := httpin.WriteRange(c, &httpin.Ranged{
		Size: int64(doc.GetContent().GetSizeBytes()), ETag: fileTag(doc),
		Open: func(offset, length int64) (io.ReadCloser, error) {
			return s.openContent(s.ctx, doc.GetContent(), offset, length)
		},
	})
	if errors.Is(err, blob.ErrNotFound) {
		return notFound() // deleted since it was read
	}
	if err == nil {
		pages.ProtectFile(c, doc)
	}
	return err
}

func (s *Server) appendFile(b []byte, doc *event.Document, reader event.AccountID) []byte {
	b = append(b, `{"success":true,"file":`...)
	b = s.appendFileObject(b, doc)
	b = append(b[:len(b)-1], `,"downloadUrl":`...)
	b = appendString(b, s.downloadURL(doc.Id, reader))
	return append(b, '}')
}

// appendFileObject is a file as lists show it.
func (s *Server) appendFileObject(b []byte, doc *event.Document) []byte {
	b = append(b, `{"id":`...)
	b = appendString(b, doc.Id)
	b = appendFileFacts(b, doc)
	b = append(b, `,"visibility":`...)
	b = appendString(b, event.Visibility(doc.Visibility).String())
	b = append(b, `,"createdAt":`...)
	b = appendTime(b, doc.CreatedMs)
	b = append(b, `,"expiresAt":`...)
	b = appendTime(b, doc.ExpiresMs)
	b = append(b, `,"url":`...)
	b = appendString(b, s.url("/f/"+doc.Id))
	return append(b, '}')
}

// downloadURL is a signed link to a file's bytes, good for linkLifetime. It may read what the account may; 0 is anybody.
func (s *Server) downloadURL(id string, reader event.AccountID) string {
	expires := s.now().Add(linkLifetime).Unix()
	q := url.Values{"expires": {strconv.FormatInt(expires, 10)}}
	if reader != 0 {
		q.Set("as", reader.String())
	}
	q.Set("signature", s.secret.SignLink(signedPath(id, reader.String()), expires))
	return s.url("/f/" + id + "/download?" + q.Encode())
}

func signedPath(id, reader string) string { return "/f/" + id + "/download?as=" + reader }

// downloadFile serves a signed link. It is not metered.
func (s *Server) downloadFile(c *call) error {
	var expiresText, as, signature string
	err := httpin.QueryFields(c.Ctx, func(name string, v httpin.Value) error {
		switch name {
		case "expires":
			expiresText = string(v.Text)
		case "as":
			as = string(v.Text)
		case "signature":
			signature = string(v.Text)
		default:
			return httpin.UnknownField(name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	noneOf, err := httpin.ParseETags(c.Ctx, fiber.HeaderIfNoneMatch)
	if err != nil {
		return err
	}
	id := c.param("id")
	expires, err := strconv.ParseInt(expiresText, 10, 64)
	if err != nil || !event.ValidItemID(id) || expires <= s.now().Unix() || !s.secret.CheckLink(signedPath(id, as), expires, signature) {
		return fault.New(fault.NotFound, "This download link is not valid, or no longer.")
	}
	var reader event.AccountID
	if as != "" {
		if reader, err = event.ParseAccountID(as); err != nil {
			return notFound()
		}
	}
	doc, err := s.readDocument(s.bus.StartRead(event.File, &event.Read{Item: id, Requester: uint64(reader)}))
	if err != nil {
		return err
	}
	if noneOf.Matches(fileTag(doc)) {
		return httpin.NotModified(c.Ctx, fileTag(doc))
	}
	return s.sendFile(c.Ctx, doc)
}

func (s *Server) deleteFile(c *call) error { return s.deleteItem(c, event.File, "id") }
