package web

import (
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/input"
)

// listVersions answers with one page of the versions of a text, newest first. It is for those who may update the text. It
// is not metered. The account's failures are counted here, since billing does not see the call.
func (s *Server) listVersions(c *call, k *textKind) error {
	read, scope, err := s.versionsQuery(c, k)
	if err != nil {
		return err
	}
	account := accountSource(c.who.account)
	if err := s.checkFailures(account); err != nil {
		return err
	}
	var pending *bus.PendingRead
	if event.ValidItemID(read.Item) {
		pending = s.bus.StartRead(k.domain, read)
	}
	if err := s.checkUnmetered(c, k.read); err != nil {
		return err
	}
	found, err := s.foundVersions(pending)
	if err != nil {
		if failedInExecution(fault.KindOf(err).Status()) {
			s.failures.Add(account, s.now())
		}
		return err
	}
	o := append(newAnswer(192+160*len(found.Versions)).key("versions"), '[')
	for i, v := range found.Versions {
		if i > 0 {
			o = append(o, ',')
		}
		o = listedVersion(o, v)
	}
	next := ""
	if found.More {
		last := found.Versions[len(found.Versions)-1]
		next = s.formatCursor(scope, position{int64(last.Version), read.Item})
	}
	return sendPage(c, o, next)
}

// listedVersion is a version as lists show it: without its content.
func listedVersion(o object, v *event.Document) object {
	return append(o, '{').int("version", int64(v.Version)).str("title", v.Title).str("language", v.Language).
		int("size", int64(v.GetContent().GetSizeBytes())).time("createdAt", v.UpdatedMs).end()
}

// versionsQuery reads the parameters of a list of versions. scope is where its cursors are valid: the text and the account.
func (s *Server) versionsQuery(c *call, k *textKind) (read *event.Read, scope string, err error) {
	read = &event.Read{Item: c.param("ref"), Requester: uint64(c.who.account), ListVersions: defaultPage}
	scope = "versions 1 " + string(k.domain) + " " + c.who.account.String() + " "
	var cursor string
	err = input.QueryFields(c.Ctx, input.Fields{
		"limit":  input.To(&read.ListVersions, pageLimit),
		"cursor": input.To(&cursor, input.StringField),
	}.Set)
	if err != nil || cursor == "" {
		return read, scope, err
	}
	at, ok := s.parseCursor(scope, cursor)
	if !ok || at.id != read.Item || at.listed < 1 {
		return nil, "", invalidCursor()
	}
	read.BelowVersion = uint64(at.listed)
	return read, scope, nil
}

// foundVersions waits for a list of versions. pending is nil for a ref that can't exist.
func (s *Server) foundVersions(pending *bus.PendingRead) (bus.Found, error) {
	if pending == nil {
		return bus.Found{}, notFound()
	}
	found, err := pending.Wait(s.ctx)
	switch {
	case err != nil:
		return bus.Found{}, err
	case found.NotOwner:
		return bus.Found{}, outcomeError(event.OutcomeStatus_NOT_OWNER)
	case len(found.Versions) == 0:
		return bus.Found{}, notFound()
	}
	return found, nil
}
