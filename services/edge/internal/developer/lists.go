package developer

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/kind"
)

// Listing describes a list.
type Listing struct {
	Domain event.Domain
	field  string        // of the answer
	scope  plan.QuotaKey // scope required for an unmetered list
	Item   func(o endpoint.Object, doc *event.Document) endpoint.Object
}

func (s *API) TextList(k *kind.Kind) *Listing {
	return &Listing{Domain: k.Domain, field: "pastes", scope: k.Read, Item: func(o endpoint.Object, doc *event.Document) endpoint.Object {
		return s.ListedText(o, k, doc)
	}}
}

func (s *API) FileList() *Listing {
	return &Listing{Domain: event.File, field: "files", Item: func(o endpoint.Object, doc *event.Document) endpoint.Object {
		return s.fileMembers(o, doc).End()
	}}
}

// list answers with a page of the account's documents, newest first by default.
func (s *API) list(c *endpoint.Call, l *Listing) error {
	q, err := s.listQuery(c, l)
	if err != nil {
		return err
	}
	return s.metered(c, l.scope, func() {}, func(receipt *endpoint.Receipt) error { return s.answerList(c, l, q, receipt) })
}

// metered counts a call that lists something under the quota key of its row, which may have none. start begins a read beside the
// admission; answer waits for it.
func (s *API) metered(c *endpoint.Call, scope plan.QuotaKey, start func(), answer func(*endpoint.Receipt) error) error {
	if c.Row.Key == endpoint.Unmetered {
		return s.unmetered(c, scope, start, answer)
	}
	m := s.Meter(c)
	admission := m.Start()
	start()
	if err := admission.Wait(); err != nil {
		return err
	}
	receipt := m.Receipt()
	if err := answer(&receipt); err != nil {
		return m.Void(err)
	}
	m.Served()
	return nil
}

// unmetered answers a free call. Its API key needs the scope, and the account's failures are counted here.
func (s *API) unmetered(c *endpoint.Call, scope plan.QuotaKey, start func(), answer func(*endpoint.Receipt) error) error {
	account := endpoint.AccountSource(c.Who.Account)
	if err := s.CheckFailures(account); err != nil {
		return err
	}
	start()
	if err := s.CheckKey(c, scope); err != nil {
		return err
	}
	free := endpoint.FreeReceipt()
	err := answer(&free)
	if err != nil && endpoint.FailedInExecution(fault.KindOf(err).Status()) {
		s.Failures.Add(account, s.Now())
	}
	return free.Fail(err)
}

// answerList fetches the page and answers with it.
func (s *API) answerList(c *endpoint.Call, l *Listing, q *event.ListRequest, receipt *endpoint.Receipt) error {
	page, err := s.bus.List(s.ctx, l.Domain, q)
	if err != nil {
		return err
	}
	o := append(endpoint.NewAnswer(256+512*len(page.Documents)).Key(l.field), '[')
	for i, doc := range page.Documents {
		if i > 0 {
			o = append(o, ',')
		}
		o = l.Item(o, doc)
	}
	return sendPage(c, o, s.NextCursor(l, &c.Who, q, page), receipt)
}

// sendPage completes the list in o and answers with it. next is the cursor of the next page, empty for the last one.
func sendPage(c *endpoint.Call, o endpoint.Object, next string, receipt *endpoint.Receipt) error {
	receipt.SetHeaders(&c.Response().Header)
	o = append(o, ']').Key("nextCursor")
	if next != "" {
		o = endpoint.AppendString(o, next)
	} else {
		o = append(o, "null"...)
	}
	return endpoint.Send(c.Ctx, fiber.StatusOK, o.Bool("hasMore", next != "").Receipt(receipt))
}

// listQuery parses the parameters of a list.
func (s *API) listQuery(c *endpoint.Call, l *Listing) (*event.ListRequest, error) {
	q := &event.ListRequest{Account: uint64(c.Who.Account), Limit: endpoint.DefaultPage}
	var cursor string
	if err := input.QueryFields(c.Ctx, ListFields(q, &cursor).Set); err != nil {
		return nil, err
	}
	return q, s.ContinueList(q, l, &c.Who, cursor)
}

// ListFields are the parameters of a list.
func ListFields(q *event.ListRequest, cursor *string) input.Fields {
	return input.Fields{
		"limit":    input.To(&q.Limit, endpoint.PageLimit),
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

// ContinueList continues a list at the cursor; an empty one starts it.
func (s *API) ContinueList(q *event.ListRequest, l *Listing, who *endpoint.Caller, cursor string) error {
	if cursor == "" {
		return nil
	}
	at, ok := s.parseCursor(cursorScope(l, who, q), cursor)
	if !ok {
		return endpoint.InvalidCursor()
	}
	q.AfterPosition, q.AfterId = at.listed, at.id
	return nil
}

// NextCursor is the cursor of the next page; empty after the last one.
func (s *API) NextCursor(l *Listing, who *endpoint.Caller, q *event.ListRequest, page *event.ListAnswer) string {
	if !page.More {
		return ""
	}
	return s.formatCursor(cursorScope(l, who, q), position{page.ScannedPosition, page.ScannedId})
}

// position is where a page of a list ended.
type position struct {
	listed int64 // Document.ListPosition
	id     string
}

// cursorScope is what a cursor is bound to: the list, the account and the order. Filters may change.
func cursorScope(l *Listing, who *endpoint.Caller, q *event.ListRequest) string {
	order := " desc "
	if q.Ascending {
		order = " asc "
	}
	return "cursor 1 " + string(l.Domain) + order + who.Account.String() + " "
}

// formatCursor returns an opaque cursor: the position, and a MAC over it and the scope.
func (s *API) formatCursor(scope string, at position) string {
	raw := append(binary.BigEndian.AppendUint64(nil, num.Bits(at.listed)), at.id...)
	return base64.RawURLEncoding.EncodeToString(raw) + "." + s.secret.SignLink(scope+at.id, at.listed)
}

// parseCursor parses a cursor of formatCursor for the same scope.
func (s *API) parseCursor(scope, text string) (position, bool) {
	encoded, signature, ok := strings.Cut(text, ".")
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if !ok || err != nil || len(raw) < 8 || len(raw) > 8+64 || !utf8.Valid(raw[8:]) {
		return position{}, false
	}
	at := position{num.FromBits(binary.BigEndian.Uint64(raw)), string(raw[8:])}
	return at, s.secret.CheckLink(scope+at.id, at.listed, signature)
}
