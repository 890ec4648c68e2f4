package accounts

import (
	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/endpoint"
)

// ViewOutcome shows the account after a command.
func ViewOutcome(user *event.User, o *event.CommandOutcome) AccountView {
	view := viewDeletion(viewSuspended(ViewAccount(event.AccountID(user.Account), user.Email, plan.Tier(o.Tier).Name(o.Plan)), o.SuspendedMs), o.DeletesMs, 0)
	view.NextTier = nextTier(o.NextTier, o.NextPlan)
	return view
}

// nextTier is the name of the tier that begins with the next month, empty if the present one stays.
func nextTier(tier uint32, given string) string {
	if tier == 0 {
		return ""
	}
	return plan.Tier(tier).Name(given)
}

// usageView is the answer of dev-usage, also for admins.
type usageView struct {
	endpoint.Success
	Account AccountView             `json:"account"`
	Period  periodView              `json:"period"`
	Usage   map[string]keyUsageView `json:"usage"` // every quota key
	Credits creditsView             `json:"credits"`
	Storage storageView             `json:"storage"`
	Key     *keyView                `json:"key"` // null: the account has none yet
}

type AccountView struct {
	ID    string `json:"id"`
	Email string `json:"email"`
	Tier  string `json:"tier"`

	NextTier         string `json:"nextTier,omitempty"`         // only if it changes with the month
	SuspendedAt      string `json:"suspendedAt,omitempty"`      // only if suspended
	SuspensionReason string `json:"suspensionReason,omitempty"` // shown to admins only
	QuarantinedAt    string `json:"quarantinedAt,omitempty"`    // only if in quarantine
	QuarantineReason string `json:"quarantineReason,omitempty"` // shown to admins only
	DeletesAt        string `json:"deletesAt,omitempty"`        // only if scheduled for deletion
	DeletedAt        string `json:"deletedAt,omitempty"`        // only if deleted
}

type periodView struct {
	Start string `json:"start"`
	End   string `json:"end"`
}

type keyUsageView struct {
	Used         uint64 `json:"used"`
	Limit        int64  `json:"limit"`
	Remaining    int64  `json:"remaining"`
	Overage      uint64 `json:"overage"`
	CreditsSpent string `json:"creditsSpent"`

	CreditsRefunded string `json:"creditsRefunded"` // of those spent
}

type creditsView struct {
	Balance         string `json:"balance"`
	SpentThisPeriod string `json:"spentThisPeriod"`
}

type storageView struct {
	UsedBytes    uint64 `json:"usedBytes"`
	FreeBytes    uint64 `json:"freeBytes"`
	AverageBytes uint64 `json:"averageBytes"`
	OverageUSD   string `json:"overageUsd"`
}

type keyView struct {
	Prefix    string `json:"prefix"`
	Version   uint32 `json:"version"`
	CreatedAt string `json:"createdAt"`
}

// ViewUsage shows billing's answer.
func ViewUsage(u *event.UsageAnswer, email string) usageView {
	out := usageView{
		Success: endpoint.Succeeded(),
		Account: viewUser(u, email),
		Period:  periodView{Start: endpoint.FormatTime(u.PeriodStartMs), End: endpoint.FormatTime(u.PeriodEndMs)},
		Usage:   make(map[string]keyUsageView, plan.KeyCount),
		Credits: creditsView{Balance: plan.Credits(u.BalanceMicros), SpentThisPeriod: plan.Credits(u.SpentMicros)},
		Storage: storageView{
			UsedBytes: u.StorageUsedBytes, FreeBytes: u.StorageFreeBytes, AverageBytes: u.StorageAverageBytes,
			OverageUSD: plan.Dollars(u.StorageOverageCents),
		},
		Key: viewKey(u),
	}
	for _, k := range u.Usage {
		out.Usage[plan.QuotaKey(k.QuotaKey).String()] = keyUsageView{
			Used: k.Used, Limit: k.Limit, Remaining: k.Remaining, Overage: k.Overage, CreditsSpent: plan.Credits(k.SpentMicros), CreditsRefunded: plan.Credits(k.RefundedMicros),
		}
	}
	return out
}

func ViewAccount(id event.AccountID, email, tier string) AccountView {
	return AccountView{ID: id.String(), Email: email, Tier: tier}
}

// viewUser is the account of a usage.
func viewUser(u *event.UsageAnswer, email string) AccountView {
	a := viewSuspended(ViewAccount(event.AccountID(u.Account), email, plan.Tier(u.Tier).Name(u.Plan)), u.SuspendedMs)
	a.NextTier = nextTier(u.NextTier, u.NextPlan)
	if u.QuarantinedMs != 0 {
		a.QuarantinedAt = endpoint.FormatTime(u.QuarantinedMs)
	}
	return viewDeletion(a, u.DeletesMs, u.ErasedMs)
}

// viewSuspended sets when the account was suspended, unless that is 0.
func viewSuspended(a AccountView, sinceMs int64) AccountView {
	if sinceMs != 0 {
		a.SuspendedAt = endpoint.FormatTime(sinceMs)
	}
	return a
}

// viewDeletion sets the times of the account's deletion, unless they are 0.
func viewDeletion(a AccountView, deletesMs, erasedMs int64) AccountView {
	if deletesMs != 0 {
		a.DeletesAt = endpoint.FormatTime(deletesMs)
	}
	if erasedMs != 0 {
		a.DeletedAt = endpoint.FormatTime(erasedMs)
	}
	return a
}

func viewKey(u *event.UsageAnswer) *keyView {
	if u.KeyVersion == 0 {
		return nil
	}
	return &keyView{Prefix: u.KeyPrefix, Version: u.KeyVersion, CreatedAt: endpoint.FormatTime(u.KeyCreatedMs)}
}

// ownUsage returns the usage and email of the caller's account.
func (s *Accounts) ownUsage(c *endpoint.Call) (*event.UsageAnswer, string, error) {
	u, err := s.CallerUsage(c)
	if err != nil {
		return nil, "", err
	}
	email, err := s.EmailOf(c.Who.Account)
	return u, email, err
}

func (s *Accounts) devUsage(c *endpoint.Call) error {
	u, email, err := s.ownUsage(c)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, ViewUsage(u, email))
}
