package admin

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin/input"
)

// Actions of admins that are not billing commands: see note.
const (
	noteExplain = "request.explain"
	noteAudit   = "audit.start"
	noteRepair  = "audit.repair"
	noteList    = "accounts.list"
	noteFind    = "accounts.find"
)

// note records an admin's action that changes nothing in billing. It comes before the action, which is not done if it can't
// be recorded. The account may be 0. detail must hold no personal data, since the journal is kept forever.
func (s *Admin) note(c *endpoint.Call, account uint64, action, detail string) error {
	_, err := s.accounts.Command(c, &event.Command{
		Account: account, Action: &event.Command_Note{Note: &event.Note{Action: action, Detail: detail}},
	})
	return err
}

type adminLogView struct {
	endpoint.Success
	Entries    []adminEntryView `json:"entries"`
	NextCursor *string          `json:"nextCursor"`
	HasMore    bool             `json:"hasMore"`
}

type adminEntryView struct {
	ID        string  `json:"id"`
	Time      string  `json:"time"`
	Token     string  `json:"token"`
	Action    string  `json:"action"`
	Account   *string `json:"account"`
	RequestID string  `json:"requestId"`
	Outcome   string  `json:"outcome"`
	Tier      *string `json:"tier"`
	Amount    *string `json:"amount"`
	ExpiresAt *string `json:"expiresAt"`
	Detail    *string `json:"detail"`
}

// adminLog answers with a page of the log of all admins' actions, newest first.
func (s *Admin) adminLog(c *endpoint.Call) error {
	limit, before := uint32(endpoint.DefaultPage), ""
	err := input.QueryFields(c.Ctx, input.Fields{
		"limit": input.To(&limit, endpoint.PageLimit), "cursor": input.To(&before, adminCursor),
	}.Set)
	if err != nil {
		return err
	}
	out, err := s.adminEntries(before, int(limit))
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, out)
}

// AdminLogPage returns the page of the log at a cursor; empty starts at the newest entry.
func (s *Admin) AdminLogPage(cursor string) (adminLogView, error) {
	before := ""
	if cursor != "" {
		var err error
		if before, err = adminCursor("cursor", input.Value{Kind: input.Query, Text: []byte(cursor)}); err != nil {
			return adminLogView{}, err
		}
	}
	return s.adminEntries(before, endpoint.DefaultPage)
}

func (s *Admin) adminEntries(before string, limit int) (adminLogView, error) {
	page, err := s.bus.AdminLog(s.ctx, before, limit)
	if err != nil {
		return adminLogView{}, err
	}
	if page == nil {
		return adminLogView{}, endpoint.InvalidCursor()
	}
	out := adminLogView{Success: endpoint.Succeeded(), Entries: make([]adminEntryView, 0, len(page.Entries)), HasMore: page.More}
	for _, e := range page.Entries {
		out.Entries = append(out.Entries, viewAdminEntry(e))
	}
	if page.More {
		out.NextCursor, _ = endpoint.NextCursor([]byte(page.Entries[len(page.Entries)-1].Id))
	}
	return out, nil
}

func adminCursor(name string, v input.Value) (string, error) {
	id, err := endpoint.OpaqueCursor(name, v)
	return string(id), err
}

func viewAdminEntry(e *event.AdminEntry) adminEntryView {
	out := adminEntryView{
		ID: e.Id, Time: endpoint.FormatTime(e.TimeMs), Token: e.Token, Action: e.Action, Outcome: adminOutcome(e), Detail: endpoint.OptionalText(e.Detail),
	}
	if id := endpoint.RequestIDText(e.RequestId); id != nil {
		out.RequestID = *id
	}
	if e.Account != 0 {
		out.Account = new(event.AccountID(e.Account).String())
	}
	if e.Tier != 0 {
		out.Tier = new(plan.Tier(e.Tier).Name(e.Plan))
	}
	if e.AmountMicros != 0 {
		out.Amount = new(plan.Credits(e.AmountMicros))
	}
	if e.ExpiresMs != 0 {
		out.ExpiresAt = new(endpoint.FormatTime(e.ExpiresMs))
	}
	return out
}

// adminOutcome is "done", "replayed", or the reason for a refusal.
func adminOutcome(e *event.AdminEntry) string {
	switch {
	case e.Replayed:
		return "replayed"
	case e.Status == event.CommandStatus_COMMAND_OK, e.Action == accounts.NotePassword, e.Action == noteAudit:
		return "done"
	}
	return strings.ToLower(strings.TrimPrefix(e.Status.String(), "COMMAND_"))
}
