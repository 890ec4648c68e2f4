package developer

import (
	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/kind"
)

// listVersions answers with a page of a text's versions, newest first, for those who may update the text.
func (s *API) listVersions(c *endpoint.Call, k *kind.Kind) error {
	read, scope, err := s.versionsQuery(c, k)
	if err != nil {
		return err
	}
	var pending *bus.PendingRead
	start := func() {
		if event.ValidItemID(read.Item) {
			pending = s.bus.StartRead(k.Domain, read, &c.Timing)
		}
	}
	return s.metered(c, k.Read, start, func(receipt *endpoint.Receipt) error { return s.answerVersions(c, pending, scope, receipt) })
}

// answerVersions waits for the page and answers with it.
func (s *API) answerVersions(c *endpoint.Call, pending *bus.PendingRead, scope string, receipt *endpoint.Receipt) error {
	found, err := s.FoundVersions(pending)
	if err != nil {
		return err
	}
	o := append(endpoint.NewAnswer(192+160*len(found.Versions)).Key("versions"), '[')
	for i, v := range found.Versions {
		if i > 0 {
			o = append(o, ',')
		}
		o = ListedVersion(o, v)
	}
	next := ""
	if found.More {
		last := found.Versions[len(found.Versions)-1]
		next = s.formatCursor(scope, position{num.Int64(last.Version), c.Param("ref")})
	}
	return sendPage(c, o, next, receipt)
}

// ListedVersion adds a version as lists show it: without its content.
func ListedVersion(o endpoint.Object, v *event.Document) endpoint.Object {
	return append(o, '{').Int("version", num.Int64(v.Version)).Str("title", v.Title).Str("language", v.Language).
		Int("size", v.GetContent().Length()).Time("createdAt", v.UpdatedMs).End()
}

// versionsQuery parses the parameters of a list of versions. scope binds its cursors to the text and the account.
func (s *API) versionsQuery(c *endpoint.Call, k *kind.Kind) (read *event.Read, scope string, err error) {
	read = &event.Read{Item: c.Param("ref"), Requester: uint64(c.Who.Account), ListVersions: endpoint.DefaultPage}
	scope = "versions 1 " + string(k.Domain) + " " + c.Who.Account.String() + " "
	var cursor string
	err = input.QueryFields(c.Ctx, input.Fields{
		"limit":  input.To(&read.ListVersions, endpoint.PageLimit),
		"cursor": input.To(&cursor, input.StringField),
	}.Set)
	if err != nil || cursor == "" {
		return read, scope, err
	}
	at, ok := s.parseCursor(scope, cursor)
	if !ok || at.id != read.Item || at.listed < 1 {
		return nil, "", endpoint.InvalidCursor()
	}
	read.BelowVersion = uint64(at.listed)
	return read, scope, nil
}

// FoundVersions waits for a list of versions. pending is nil for a ref that can't exist.
func (s *API) FoundVersions(pending *bus.PendingRead) (bus.Found, error) {
	if pending == nil {
		return bus.Found{}, endpoint.NotFound()
	}
	found, err := pending.Wait(s.ctx)
	switch {
	case err != nil:
		return bus.Found{}, err
	case found.NotOwner:
		return bus.Found{}, outcomeError(event.OutcomeStatus_NOT_OWNER)
	case len(found.Versions) == 0:
		return bus.Found{}, endpoint.NotFound()
	}
	return found, nil
}
