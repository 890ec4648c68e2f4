package admin

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

// regenerateKeyOf replaces all keys of an account with a new one. The old ones are revoked once this has answered.
func (s *Admin) regenerateKeyOf(c *endpoint.Call) error {
	made, err := s.KeyReplaced(c)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, made)
}

func (s *Admin) KeyReplaced(c *endpoint.Call) (*accounts.NewKeyView, error) {
	user, err := s.pathUser(c)
	if err != nil {
		return nil, err
	}
	return s.accounts.MakeKey(c, event.AccountID(user.Account))
}

type suspensionView struct {
	endpoint.Success
	Account accounts.AccountView `json:"account"`
}

// suspendAccount suspends an account: every later call with its keys is refused. The outcome comes from the fold that admits
// requests, which announces it to the edges first.
func (s *Admin) suspendAccount(c *endpoint.Call) error { return s.answerSuspension(c, s.Suspended) }

func (s *Admin) resumeAccount(c *endpoint.Call) error { return s.answerSuspension(c, s.Resumed) }

func (s *Admin) Suspended(c *endpoint.Call, reason string) (*event.User, *event.CommandOutcome, error) {
	return s.setSuspension(c, &event.Command{Action: &event.Command_Suspend{Suspend: &event.Suspend{Reason: reason}}})
}

func (s *Admin) Resumed(c *endpoint.Call, reason string) (*event.User, *event.CommandOutcome, error) {
	return s.setSuspension(c, &event.Command{Action: &event.Command_Resume{Resume: &event.Resume{Reason: reason}}})
}

// ReadReason reads {reason}.
func ReadReason(from input.Source) (reason string, err error) {
	err = from(input.Fields{"reason": input.To(&reason, input.Line(accounts.ReasonChars))}.Set)
	if err == nil && strings.TrimSpace(reason) == "" {
		err = httperr.InvalidField("reason", "is required: 1 to 200 characters")
	}
	return reason, err
}

func (s *Admin) setSuspension(c *endpoint.Call, cmd *event.Command) (*event.User, *event.CommandOutcome, error) {
	user, err := s.pathUser(c)
	if err != nil {
		return nil, nil, err
	}
	cmd.Account, cmd.IdempotencyId, cmd.BodyHash = user.Account, c.Idem, c.Hash
	o, err := s.accounts.Command(c, cmd)
	return user, o, err
}

func (s *Admin) answerSuspension(c *endpoint.Call, set func(*endpoint.Call, string) (*event.User, *event.CommandOutcome, error)) error {
	reason, err := ReadReason(input.JSON(c.Fields))
	if err != nil {
		return err
	}
	user, o, err := set(c, reason)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, suspensionView{Success: endpoint.Succeeded(), Account: accounts.ViewOutcome(user, o)})
}

// accountList is a page of accounts.
type accountList struct {
	endpoint.Success
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

// listAccounts finds an account by email, or lists all accounts by id.
func (s *Admin) listAccounts(c *endpoint.Call) error {
	var email string
	page := &event.ListUsers{Limit: endpoint.DefaultPage}
	err := input.QueryFields(c.Ctx, input.Fields{
		"email":  input.To(&email, accounts.EmailField),
		"limit":  input.To(&page.Limit, endpoint.PageLimit),
		"cursor": input.To(&page.AfterAccount, accountCursor),
	}.Set)
	if err != nil {
		return err
	}
	found, err := s.accountPage(c, email, page)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, found)
}

// AccountsShown is a page of accounts for the console, or the account of the email that the admin entered.
func (s *Admin) AccountsShown(c *endpoint.Call, email, cursor string) (found accountList, err error) {
	page := &event.ListUsers{Limit: endpoint.DefaultPage}
	if cursor != "" {
		if page.AfterAccount, err = accountCursor("cursor", input.Value{Kind: input.Query, Text: []byte(cursor)}); err != nil {
			return found, err
		}
	}
	if email != "" {
		if email, err = accounts.EmailField("email", input.Value{Kind: input.Query, Text: []byte(email)}); err != nil {
			return found, err
		}
	}
	return s.accountPage(c, email, page)
}

// accountPage finds an account by email, or returns a page of all accounts if email is empty.
func (s *Admin) accountPage(c *endpoint.Call, email string, page *event.ListUsers) (accountList, error) {
	if email != "" {
		return s.lookUpAccount(c, email)
	}
	if err := s.note(c, 0, noteList, ""); err != nil {
		return accountList{}, err
	}
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_List{List: page}})
	if err != nil {
		return accountList{}, err
	}
	return s.listOf(a.Users, a.More)
}

// lookUpAccount returns the account of an email, or an empty list.
func (s *Admin) lookUpAccount(c *endpoint.Call, email string) (accountList, error) {
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_Find{Find: &event.FindUser{Email: email}}})
	if err != nil {
		return accountList{}, err
	}
	var found []*event.User
	if a.Status == event.UserStatus_USER_OK {
		found = append(found, a.User)
	}
	// The journal is kept forever, so it gets the account and not the email.
	if err := s.note(c, a.User.GetAccount(), noteFind, ""); err != nil && fault.KindOf(err) != fault.NotFound {
		return accountList{}, err
	}
	return s.listOf(found, false)
}

// listOf omits users whose registration was interrupted before billing had their account.
func (s *Admin) listOf(users []*event.User, more bool) (accountList, error) {
	ids := make([]event.AccountID, 0, len(users))
	for _, u := range users {
		ids = append(ids, event.AccountID(u.Account))
	}
	known, err := s.bus.Accounts(s.ctx, ids)
	if err != nil {
		return accountList{}, err
	}
	out := accountList{Success: endpoint.Succeeded(), Accounts: make([]listedAccount, 0, len(users)), HasMore: more}
	for _, u := range users {
		if a := known[event.AccountID(u.Account)]; a != nil {
			view := listedAccount{
				ID: event.AccountID(u.Account).String(), Email: u.Email, Tier: plan.Tier(a.Tier).Name(a.Plan), CreatedAt: endpoint.FormatTime(a.CreatedMs),
			}
			view.SuspendedAt, view.DeletesAt = endpoint.OptionalTime(a.SuspendedMs), endpoint.OptionalTime(a.DeletesMs)
			out.Accounts = append(out.Accounts, view)
		}
	}
	if more {
		out.NextCursor = new(ids[len(ids)-1].String())
	}
	return out, nil
}

// accountCursor parses the id of the last account of the previous page.
func accountCursor(_ string, v input.Value) (uint64, error) {
	id, err := event.ParseAccountID(string(v.Text))
	if err != nil {
		return 0, endpoint.InvalidCursor()
	}
	return uint64(id), nil
}
