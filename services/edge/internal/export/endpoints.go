package export

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/headers"
)

const (
	exportPath     = "/api/users/user/export"
	exportLinkTime = time.Hour
)

type exportAnswer struct {
	endpoint.Success
	Export exportView `json:"export"`
}

type exportView struct {
	Status    string  `json:"status"`
	Done      uint64  `json:"done"`
	Total     uint64  `json:"total"`
	CreatedAt string  `json:"createdAt"`
	EndedAt   *string `json:"endedAt"`
	ExpiresAt *string `json:"expiresAt"`
	SizeBytes *uint64 `json:"sizeBytes"`
	URL       *string `json:"url"`
}

// startExport starts an export of everything that the account owns, or answers with the one in progress.
func (s *Exports) startExport(c *endpoint.Call) error {
	e, err := s.BegunExport(c)
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderLocation, exportPath)
	return s.JSON(c.Ctx, fiber.StatusAccepted, s.viewExport(e))
}

// BegunExport returns the export that the call started, or the one in progress.
func (s *Exports) BegunExport(c *endpoint.Call) (*event.Export, error) {
	id := c.Who.Account.String() + "-" + rand.Text()
	if len(c.Idem) > 0 {
		id = c.Who.Account.String() + "-" + hex.EncodeToString(c.Idem)
	}
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_StartExport{
		StartExport: &event.StartExport{Account: uint64(c.Who.Account), Id: id},
	}})
	switch {
	case err != nil:
		return nil, err
	case a.Status == event.UserStatus_USER_LIMITED:
		now := s.Now()
		wait := max(1, (a.ResetMs-now.UnixMilli()+999)/1000)
		return nil, endpoint.WaitFor(fault.New(fault.RateLimited, "An account can start %d exports per day. Try again later.", a.Limit), a.Limit, int(wait), now)
	case a.Status == event.UserStatus_USER_EXISTS && slices.ContainsFunc(a.Export.GetBegun(), func(b *event.BegunExport) bool { return b.Id == id }):
		c.Set(endpoint.HeaderReplayed, "true") // with the current state of the last export, as for any later call
	case a.Status == event.UserStatus_USER_NOT_FOUND:
		return nil, endpoint.SessionRequired()
	}
	if a.Export == nil {
		return nil, endpoint.Unavailable(endpoint.ErrUserAnswer)
	}
	return a.Export, nil
}

func (s *Exports) showExport(c *endpoint.Call) error {
	e, err := s.ExportOf(c.Who.Account)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, s.viewExport(e))
}

// ExportOf returns the last export of an account. An expired one is not found.
func (s *Exports) ExportOf(account event.AccountID) (*event.Export, error) {
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_FindExport{FindExport: &event.FindExport{Account: uint64(account)}}})
	switch {
	case err != nil:
		return nil, err
	case a.Status == event.UserStatus_USER_NOT_FOUND:
		return nil, endpoint.NotFound()
	case a.Export == nil:
		return nil, endpoint.Unavailable(endpoint.ErrUserAnswer)
	case a.Export.ExpiresMs != 0 && a.Export.ExpiresMs <= s.Now().UnixMilli():
		return nil, endpoint.NotFound()
	}
	return a.Export, nil
}

func (s *Exports) viewExport(e *event.Export) exportAnswer {
	out := exportAnswer{Success: endpoint.Succeeded(), Export: exportView{
		Status: strings.ToLower(strings.TrimPrefix(e.State.String(), "EXPORT_")), Done: e.Done, Total: e.Total,
		CreatedAt: endpoint.FormatTime(e.CreatedMs), EndedAt: endpoint.OptionalTime(e.EndedMs), ExpiresAt: endpoint.OptionalTime(e.ExpiresMs),
	}}
	if e.State == event.ExportState_EXPORT_READY {
		out.Export.SizeBytes, out.Export.URL = &e.SizeBytes, new(s.ExportURL(e))
	}
	return out
}

// ExportURL is a signed link to the archive, which needs no session.
func (s *Exports) ExportURL(e *event.Export) string {
	return s.URL(s.SignedLink(exportDownloadPath(e.Id), exportLinkTime))
}

func exportDownloadPath(id string) string { return "/exports/" + id }

// downloadExport serves a signed link.
func (s *Exports) downloadExport(c *endpoint.Call) error {
	link, err := endpoint.ReadLink(c)
	if err != nil {
		return err
	}
	conditions, err := headers.ReadConditions(c.Ctx)
	if err != nil {
		return err
	}
	id := c.Param("id")
	if !s.LinkValid(exportDownloadPath(id), link) {
		return fault.New(fault.NotFound, "This link is not valid or has expired. Get a new url from GET %s.", exportPath)
	}
	text, _, _ := strings.Cut(id, "-")
	account, err := event.ParseAccountID(text)
	if err != nil {
		return endpoint.NotFound()
	}
	e, err := s.ExportOf(account)
	if err != nil {
		return err
	}
	if e.Id != id || e.State != event.ExportState_EXPORT_READY {
		return endpoint.NotFound()
	}
	return s.developer.SendFile(c, &event.Document{
		Title: "quire-" + time.UnixMilli(e.CreatedMs).UTC().Format(time.DateOnly) + ".zip", ContentType: "application/zip", CreatedMs: e.EndedMs,
		Content: &event.Content{Blob: exportKey(e.Id, e.Attempts), SizeBytes: e.SizeBytes, Sha256: e.Sha256},
	}, conditions)
}
