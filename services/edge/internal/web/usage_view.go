package web

import (
	"quire.dev/services/edge/internal/httpin"

	"fmt"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/credit"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// success is how every success of the account and admin endpoints begins: none of them is metered.
type success struct {
	Success   bool  `json:"success"`
	Remaining int64 `json:"remaining"`
}

func unmetered() success { return success{Success: true, Remaining: plan.Unlimited} }

// usageView is dev-usage (contract.md, dev-usage), also as an admin sees it.
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

// viewUsage is an answer of billing's as the API shows it.
func viewUsage(u *event.UsageAnswer, email string) usageView {
	out := usageView{
		success: unmetered(),
		Account: viewAccount(event.AccountID(u.Account), email, plan.Tier(u.Tier)),
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

func viewKey(u *event.UsageAnswer) *keyView {
	if u.KeyVersion == 0 {
		return nil
	}
	return &keyView{Prefix: u.KeyPrefix, Version: u.KeyVersion, CreatedAt: formatTime(u.KeyCreatedMs)}
}

// credits is an amount as the API writes it.
func credits(micros uint64) string { return credit.Micros(micros).String() }

// dollars is an amount of cents as the API writes it.
func dollars(cents uint64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

// usage asks billing for the account's current month. check says whose key it was asked with: one
// that is not current is 401. nil is of a session, or an admin.
func (s *Server) usage(c *fiber.Ctx, account event.AccountID, check *caller) (*event.UsageAnswer, error) {
	q := &event.UsageQuery{}
	if check != nil {
		q.CheckKey, q.KeyVersion, q.KeyFingerprint = true, check.key.Version, check.key.Fingerprint()
	}
	a, err := s.query(account, &event.Query{Query: &event.Query_Usage{Usage: q}})
	switch {
	case err != nil:
		return nil, err
	case a.Status == event.QueryStatus_QUERY_INVALID_KEY, check != nil && a.Status == event.QueryStatus_QUERY_NOT_FOUND:
		return nil, s.badKey(c)
	case a.Status == event.QueryStatus_QUERY_NOT_FOUND:
		return nil, notFound()
	case a.Status != event.QueryStatus_QUERY_OK || a.GetUsage() == nil:
		return nil, unavailable(errQueryAnswer)
	}
	return a.GetUsage(), nil
}

// ownUsage is the usage and email of the account that asks, by its key or session.
func (s *Server) ownUsage(c *fiber.Ctx) (*event.UsageAnswer, string, error) {
	who, err := s.keyOrSession(c)
	if err != nil {
		return nil, "", err
	}
	if err := httpin.NoQuery(c); err != nil {
		return nil, "", err
	}
	u, err := s.usage(c, who.account, who.keyed())
	if err != nil {
		return nil, "", err
	}
	email, err := s.emailOf(who.account)
	return u, email, err
}

// devUsage answers GET /api/users/user/dev-usage, for a key or a session.
func (s *Server) devUsage(c *fiber.Ctx) error {
	u, email, err := s.ownUsage(c)
	if err != nil {
		return err
	}
	return s.json(c, fiber.StatusOK, viewUsage(u, email))
}
