package web

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
)

// regenerateKeyOf makes a new key the only one of an account. Its old one is dead once this has answered.
func (s *Server) regenerateKeyOf(c *call) error {
	user, err := s.pathUser(c)
	if err != nil {
		return err
	}
	made, err := s.makeKey(c, event.AccountID(user.Account))
	if err != nil {
		return err
	}
	return s.json(c.Ctx, fiber.StatusOK, made)
}

type suspensionView struct {
	success
	Account accountView `json:"account"`
}

// suspendAccount has every later call with the account's key refused. The outcome comes from the fold that admits requests,
// which announces it to the edges first.
func (s *Server) suspendAccount(c *call) error {
	reason, err := readReason(c.json)
	if err != nil {
		return err
	}
	return s.setSuspension(c, &event.Command{Action: &event.Command_Suspend{Suspend: &event.Suspend{Reason: reason}}})
}

func (s *Server) resumeAccount(c *call) error {
	reason, err := readReason(c.json)
	if err != nil {
		return err
	}
	return s.setSuspension(c, &event.Command{Action: &event.Command_Resume{Resume: &event.Resume{Reason: reason}}})
}

func readReason(body []byte) (reason string, err error) {
	err = httpin.ParseObject(body, httpin.Fields{"reason": httpin.To(&reason, httpin.Line(reasonChars))}.Set)
	if err == nil && strings.TrimSpace(reason) == "" {
		err = httpin.InvalidField("reason", "is required: 1 to 200 characters")
	}
	return reason, err
}

func (s *Server) setSuspension(c *call, cmd *event.Command) error {
	user, err := s.pathUser(c)
	if err != nil {
		return err
	}
	cmd.Account, cmd.IdempotencyId, cmd.BodyHash = user.Account, c.idem, c.hash
	o, err := s.command(c, cmd)
	if err != nil {
		return err
	}
	return s.json(c.Ctx, fiber.StatusOK, suspensionView{success: succeeded(), Account: viewOutcome(user, o)})
}

// viewOutcome is the account after a command.
func viewOutcome(user *event.User, o *event.CommandOutcome) accountView {
	return viewDeletion(viewSuspended(viewAccount(event.AccountID(user.Account), user.Email, plan.Tier(o.Tier)), o.SuspendedMs), o.DeletesMs, 0)
}

// accountList is a page of accounts.
type accountList struct {
	success
	Accounts   []listedAccount `json:"accounts"`
	NextCursor *string         `json:"nextCursor"`
	HasMore    bool            `json:"hasMore"`
}

type listedAccount struct {
	ID          string  `json:"id"`
	Email       string  `json:"email"`
	Tier        string  `json:"tier"`
	CreatedAt   string  `json:"createdAt"`
	SuspendedAt *string `json:"suspendedAt"`
	DeletesAt   *string `json:"deletesAt"`
}

// listAccounts looks an email up, or lists all accounts in the order of their ids.
func (s *Server) listAccounts(c *call) error {
	var email string
	page := &event.ListUsers{Limit: defaultPage}
	err := httpin.QueryFields(c.Ctx, httpin.Fields{
		"email":  httpin.To(&email, emailField),
		"limit":  httpin.To(&page.Limit, pageLimit),
		"cursor": httpin.To(&page.AfterAccount, accountCursor),
	}.Set)
	if err != nil {
		return err
	}
	if email != "" {
		return s.lookUpAccount(c, email)
	}
	if err := s.note(c, 0, noteList, ""); err != nil {
		return err
	}
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_List{List: page}})
	if err != nil {
		return err
	}
	return s.answerAccounts(c, a.Users, a.More)
}

// lookUpAccount answers with the account of an email, or with none.
func (s *Server) lookUpAccount(c *call, email string) error {
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_Find{Find: &event.FindUser{Email: email}}})
	if err != nil {
		return err
	}
	var found []*event.User
	if a.Status == event.UserStatus_USER_OK {
		found = append(found, a.User)
	}
	// The journal is kept for ever: it has the account, and no email.
	if err := s.note(c, a.User.GetAccount(), noteFind, ""); err != nil && fault.KindOf(err) != fault.NotFound {
		return err
	}
	return s.answerAccounts(c, found, false)
}

// answerAccounts leaves out users whose registration stopped before billing had their account.
func (s *Server) answerAccounts(c *call, users []*event.User, more bool) error {
	ids := make([]event.AccountID, 0, len(users))
	for _, u := range users {
		ids = append(ids, event.AccountID(u.Account))
	}
	known, err := s.bus.Accounts(s.ctx, ids)
	if err != nil {
		return err
	}
	out := accountList{success: succeeded(), Accounts: make([]listedAccount, 0, len(users)), HasMore: more}
	for _, u := range users {
		if a := known[event.AccountID(u.Account)]; a != nil {
			view := listedAccount{
				ID: event.AccountID(u.Account).String(), Email: u.Email, Tier: plan.Tier(a.Tier).String(), CreatedAt: formatTime(a.CreatedMs),
			}
			view.SuspendedAt, view.DeletesAt = optionalTime(a.SuspendedMs), optionalTime(a.DeletesMs)
			out.Accounts = append(out.Accounts, view)
		}
	}
	if more {
		out.NextCursor = new(ids[len(ids)-1].String())
	}
	return s.json(c.Ctx, fiber.StatusOK, out)
}

// accountCursor reads the id of the last account of the page before.
func accountCursor(_ string, v httpin.Value) (uint64, error) {
	id, err := event.ParseAccountID(string(v.Text))
	if err != nil {
		return 0, invalidCursor()
	}
	return uint64(id), nil
}
