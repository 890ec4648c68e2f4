package web

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

const (
	defaultPage = 50
	maxPage     = 100
)

// pageLimit is how many items a page of a list may have.
func pageLimit(name string, v input.Value) (uint32, error) {
	n, err := input.CountField(maxPage)(name, v)
	return uint32(n), err
}

// listing is a kind of list.
type listing struct {
	domain event.Domain
	field  string        // of the answer
	scope  plan.QuotaKey // that a key with scopes needs for a list that is not metered
	item   func(o object, doc *event.Document) object
}

func (s *Server) textList(k *textKind) *listing {
	return &listing{domain: k.domain, field: "pastes", scope: k.read, item: func(o object, doc *event.Document) object {
		return s.listedText(o, k, doc)
	}}
}

func (s *Server) fileList() *listing {
	return &listing{domain: event.File, field: "files", item: func(o object, doc *event.Document) object {
		return s.fileMembers(o, doc).end()
	}}
}

// list answers with one page of the account's documents, newest first unless asked otherwise. Lists that have no quota key
// are not metered.
func (s *Server) list(c *call, l *listing) error {
	q, err := s.listQuery(c, l)
	if err != nil {
		return err
	}
	if c.route.key == unmetered {
		if err := s.checkUnmetered(c, l.scope); err != nil {
			return err
		}
		return s.answerList(c, l, q)
	}
	m := s.meter(c)
	if err := m.start().wait(); err != nil {
		return err
	}
	if err := s.answerList(c, l, q); err != nil {
		return m.void(err)
	}
	m.served()
	return nil
}

// answerList asks for the page and answers with it.
func (s *Server) answerList(c *call, l *listing, q *event.ListRequest) error {
	page, err := s.bus.List(s.ctx, l.domain, q)
	if err != nil {
		return err
	}
	o := append(newAnswer(256+512*len(page.Documents)).key(l.field), '[')
	for i, doc := range page.Documents {
		if i > 0 {
			o = append(o, ',')
		}
		o = l.item(o, doc)
	}
	return sendPage(c, o, s.nextCursor(l, &c.who, q, page))
}

// sendPage ends the list in o and answers with it. next is the cursor of the next page, empty for the last one.
func sendPage(c *call, o object, next string) error {
	o = append(o, ']').key("nextCursor")
	if next != "" {
		o = appendString(o, next)
	} else {
		o = append(o, "null"...)
	}
	return send(c.Ctx, fiber.StatusOK, o.bool("hasMore", next != "").remaining(plan.Unlimited))
}

// checkUnmetered has billing confirm the key of a call that it does not count. A key with scopes needs that one.
func (s *Server) checkUnmetered(c *call, scope plan.QuotaKey) error {
	if err := s.checkKey(c, scope); err != nil {
		return err
	}
	c.Set(headerChargeSource, "none")
	return nil
}

// listQuery reads the parameters of a list.
func (s *Server) listQuery(c *call, l *listing) (*event.ListRequest, error) {
	q := &event.ListRequest{Account: uint64(c.who.account), Limit: defaultPage}
	var cursor string
	if err := input.QueryFields(c.Ctx, listFields(q, &cursor).Set); err != nil {
		return nil, err
	}
	return q, s.continueList(q, l, &c.who, cursor)
}

// listFields are the parameters of a list.
func listFields(q *event.ListRequest, cursor *string) input.Fields {
	return input.Fields{
		"limit":    input.To(&q.Limit, pageLimit),
		"cursor":   input.To(cursor, input.StringField),
		"q":        input.To(&q.TitleContains, input.Line(nameChars)),
		"tag":      input.To(&q.Tag, input.Line(tagChars)),
		"language": input.To(&q.Language, input.Line(languageChars)),
		"order": func(name string, v input.Value) error {
			q.Ascending = string(v.Text) == "asc"
			if !q.Ascending && string(v.Text) != "desc" {
				return httperr.NotAnOption(name, string(v.Text), "desc", "asc")
			}
			return nil
		},
		"visibility": func(name string, v input.Value) error {
			visibility, err := visibilityField(name, v, false)
			q.Visibility = new(uint32(visibility))
			return err
		},
	}
}

// continueList has a list go on where the cursor says; an empty one is its beginning.
func (s *Server) continueList(q *event.ListRequest, l *listing, who *caller, cursor string) error {
	if cursor == "" {
		return nil
	}
	at, ok := s.parseCursor(cursorScope(l, who, q), cursor)
	if !ok {
		return invalidCursor()
	}
	q.AfterPosition, q.AfterId = at.listed, at.id
	return nil
}

// nextCursor is the cursor of the page after this one; empty where this is the last.
func (s *Server) nextCursor(l *listing, who *caller, q *event.ListRequest, page *event.ListAnswer) string {
	if !page.More {
		return ""
	}
	return s.formatCursor(cursorScope(l, who, q), position{page.ScannedPosition, page.ScannedId})
}

func invalidCursor() error {
	e := fault.New(fault.InvalidCursor, "cursor is not a nextCursor of this list. Begin again without it.")
	e.Field = "cursor"
	return e
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
