package web

import (
	"quire.dev/services/edge/internal/httpin"

	"encoding/base64"
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/fault"
)

const (
	defaultPage = 50
	maxPage     = 100
)

// pageLimit is how many items a page of a list may have.
func pageLimit(name string, v httpin.Value) (uint32, error) {
	n, err := httpin.CountField(name, v, maxPage)
	return uint32(n), err
}

// listing is a kind of list.
type listing struct {
	domain event.Domain
	field  string // of the answer
	item   func(b []byte, doc *event.Document) []byte
}

func (s *Server) quickList() *listing {
	quick := quickKind()
	return &listing{domain: event.Lite, field: "pastes", item: func(b []byte, doc *event.Document) []byte {
		return s.appendTextObject(b, quick, doc)
	}}
}

func (s *Server) fileList() *listing {
	return &listing{domain: event.File, field: "files", item: s.appendFileObject}
}

// list answers with one page of the account's documents, newest first unless asked otherwise.
func (s *Server) list(c *call, l *listing) error {
	q, err := s.listQuery(c, l)
	if err != nil {
		return err
	}
	m := s.meter(c)
	if err := m.start().wait(); err != nil {
		return err
	}
	page, err := s.bus.List(s.ctx, l.domain, q)
	if err != nil {
		return m.void(err)
	}
	m.served()
	b := append(make([]byte, 0, 256+512*len(page.Documents)), `{"success":true,"`...)
	b = append(append(b, l.field...), `":[`...)
	for i, doc := range page.Documents {
		if i > 0 {
			b = append(b, ',')
		}
		b = l.item(b, doc)
	}
	b = append(b, `],"nextCursor":`...)
	if page.More {
		b = appendString(b, s.formatCursor(cursorScope(l, &c.who, q), position{page.ScannedPosition, page.ScannedId}))
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"hasMore":`...)
	b = appendBool(b, page.More)
	return send(c.Ctx, fiber.StatusOK, appendRemaining(b, plan.Unlimited))
}

// listQuery reads the parameters of a list.
func (s *Server) listQuery(c *call, l *listing) (*event.ListRequest, error) {
	q := &event.ListRequest{Account: uint64(c.who.account), Limit: defaultPage}
	var cursor string
	err := httpin.QueryFields(c.Ctx, func(name string, v httpin.Value) (err error) {
		switch name {
		case "limit":
			q.Limit, err = pageLimit(name, v)
		case "cursor":
			cursor = string(v.Text)
		case "order":
			q.Ascending = string(v.Text) == "asc"
			if !q.Ascending && string(v.Text) != "desc" {
				return httpin.InvalidField(name, "must be desc or asc")
			}
		case "q":
			q.TitleContains, err = httpin.LineField(name, v, nameChars)
		case "tag":
			q.Tag, err = httpin.LineField(name, v, tagChars)
		case "language":
			q.Language, err = httpin.LineField(name, v, languageChars)
		case "visibility":
			visibility, err := visibilityField(name, v, false)
			if err != nil {
				return err
			}
			number := uint32(visibility)
			q.Visibility = &number
		default:
			return httpin.UnknownField(name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if cursor != "" {
		at, ok := s.parseCursor(cursorScope(l, &c.who, q), cursor)
		if !ok {
			return nil, fault.New(fault.InvalidCursor, "The cursor is not one that this list gave.")
		}
		q.AfterPosition, q.AfterId = at.listed, at.id
	}
	return q, nil
}

// position is where in a list a page ended.
type position struct {
	listed int64 // Document.ListPosition
	id     string
}

// cursorScope is where a cursor is valid: the list, the account and the order. Filters may change.
func cursorScope(l *listing, who *caller, q *event.ListRequest) string {
	order := " desc "
	if q.Ascending {
		order = " asc "
	}
	return "cursor 1 " + string(l.domain) + order + who.account.String() + " "
}

// formatCursor makes an opaque cursor: the position, and a MAC of it and its scope.
func (s *Server) formatCursor(scope string, at position) string {
	raw := append(binary.BigEndian.AppendUint64(nil, uint64(at.listed)), at.id...)
	return base64.RawURLEncoding.EncodeToString(raw) + "." + s.secret.SignLink(scope+at.id, at.listed)
}

// parseCursor reads a cursor that formatCursor made for the same scope.
func (s *Server) parseCursor(scope, text string) (position, bool) {
	encoded, signature, ok := strings.Cut(text, ".")
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if !ok || err != nil || len(raw) < 8 || len(raw) > 8+64 || !utf8.Valid(raw[8:]) {
		return position{}, false
	}
	at := position{int64(binary.BigEndian.Uint64(raw)), string(raw[8:])}
	return at, s.secret.CheckLink(scope+at.id, at.listed, signature)
}
