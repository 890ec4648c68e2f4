package web

import (
	"fmt"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// success is how every success of the account and admin endpoints begins: none of them is metered.
type success struct {
	Success   bool  `json:"success"`
	Remaining int64 `json:"remaining"`
}

func succeeded() success { return success{Success: true, Remaining: plan.Unlimited} }

// usageView is dev-usage, which an admin sees too.
type usageView struct {
	success
	Account accountView             `json:"account"`
	Period  periodView              `json:"period"`
	Usage   map[string]keyUsageView `json:"usage"` // every quota key
	Credits creditsView             `json:"credits"`
	Storage storageView             `json:"storage"`
	Key     *keyView                `json:"key"` // null: the account has none yet
}

type accountView struct {
	ID    string `json:"id"`
	Email string `json:"email"`
	Tier  string `json:"tier"`

	SuspendedAt      string `json:"suspendedAt,omitempty"`      // left out unless it is suspended
	SuspensionReason string `json:"suspensionReason,omitempty"` // shown to admins only
	DeletesAt        string `json:"deletesAt,omitempty"`        // left out unless it is to be deleted
	DeletedAt        string `json:"deletedAt,omitempty"`        // likewise, unless it is
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

// viewUsage is billing's answer as the API shows it.
func viewUsage(u *event.UsageAnswer, email string) usageView {
	out := usageView{
		success: succeeded(),
		Account: viewDeletion(viewSuspended(viewAccount(event.AccountID(u.Account), email, plan.Tier(u.Tier)), u.SuspendedMs), u.DeletesMs, u.ErasedMs),
		Period:  periodView{Start: formatTime(u.PeriodStartMs), End: formatTime(u.PeriodEndMs)},
		Usage:   make(map[string]keyUsageView, plan.KeyCount),
		Credits: creditsView{Balance: credits(u.BalanceMicros), SpentThisPeriod: credits(u.SpentMicros)},
		Storage: storageView{
			UsedBytes: u.StorageUsedBytes, FreeBytes: u.StorageFreeBytes, AverageBytes: u.StorageAverageBytes,
			OverageUSD: dollars(u.StorageOverageCents),
		},
		Key: viewKey(u),
	}
	for _, k := range u.Usage {
		out.Usage[plan.QuotaKey(k.QuotaKey).String()] = keyUsageView{
			Used: k.Used, Limit: k.Limit, Remaining: k.Remaining, Overage: k.Overage, CreditsSpent: credits(k.SpentMicros),
		}
	}
	return out
}

func viewAccount(id event.AccountID, email string, tier plan.Tier) accountView {
	return accountView{ID: id.String(), Email: email, Tier: tier.String()}
}

// viewSuspended is the account with the time since when it is suspended, unless that is 0.
func viewSuspended(a accountView, sinceMs int64) accountView {
	if sinceMs != 0 {
		a.SuspendedAt = formatTime(sinceMs)
	}
	return a
}

// viewDeletion is the account with the times of its deletion, unless they are 0.
func viewDeletion(a accountView, deletesMs, erasedMs int64) accountView {
	if deletesMs != 0 {
		a.DeletesAt = formatTime(deletesMs)
	}
	if erasedMs != 0 {
		a.DeletedAt = formatTime(erasedMs)
	}
	return a
}

func viewKey(u *event.UsageAnswer) *keyView {
	if u.KeyVersion == 0 {
		return nil
	}
	return &keyView{Prefix: u.KeyPrefix, Version: u.KeyVersion, CreatedAt: formatTime(u.KeyCreatedMs)}
}

// credits is an amount as the API writes it.
func credits(micros uint64) string { return plan.Micros(micros).String() }

// dollars is an amount of cents as the API writes it.
func dollars(cents uint64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

// usage asks billing for the account's current month.
func (s *Server) usage(account event.AccountID) (*event.UsageAnswer, error) {
	return s.usageOf(nil, account, &event.UsageQuery{})
}

// callerUsage is usage of the account that calls. An API key that is not a current one of the account is 401, one with scopes
// is 403.
func (s *Server) callerUsage(c *call) (*event.UsageAnswer, error) {
	return s.usageForKey(c, unmetered)
}

// usageForKey is callerUsage for a key that may have scopes, if the quota key is one of them.
func (s *Server) usageForKey(c *call, scope plan.QuotaKey) (*event.UsageAnswer, error) {
	q := &event.UsageQuery{}
	if key := c.who.key; key.Version != 0 {
		q = keyCheck(key)
		q.KeyFingerprint = c.who.keyFingerprint()
		q.Scope = uint32(scope)
	}
	return s.usageOf(c, c.who.account, q)
}

func (s *Server) usageOf(c *call, account event.AccountID, q *event.UsageQuery) (*event.UsageAnswer, error) {
	a, err := s.bus.Query(s.ctx, account, &event.Query{Query: &event.Query_Usage{Usage: q}})
	switch {
	case err != nil:
		return nil, err
	case q.CheckKey && (a.Status == event.QueryStatus_QUERY_INVALID_KEY || a.Status == event.QueryStatus_QUERY_NOT_FOUND):
		return nil, s.badKey(c.Ctx)
	case a.Status == event.QueryStatus_QUERY_ACCOUNT_SUSPENDED:
		return nil, accountSuspended()
	case a.Status == event.QueryStatus_QUERY_KEY_SCOPE:
		return nil, keyScope(plan.QuotaKey(q.Scope))
	case a.Status == event.QueryStatus_QUERY_NOT_FOUND:
		return nil, notFound()
	case a.Status != event.QueryStatus_QUERY_OK || a.GetUsage() == nil:
		return nil, unavailable(errQueryAnswer)
	}
	return a.GetUsage(), nil
}

// ownUsage is the usage and email of the account that calls.
func (s *Server) ownUsage(c *call) (*event.UsageAnswer, string, error) {
	u, err := s.callerUsage(c)
	if err != nil {
		return nil, "", err
	}
	email, err := s.emailOf(c.who.account)
	return u, email, err
}

func (s *Server) devUsage(c *call) error {
	u, email, err := s.ownUsage(c)
	if err != nil {
		return err
	}
	return s.json(c.Ctx, fiber.StatusOK, viewUsage(u, email))
}
