package console

import (
	"fmt"

	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/kind"
)

// Meter announces the quota cost of a form's requests before they are sent.
type Meter struct {
	Key           plan.QuotaKey
	Count         int // requests
	Keys          []Key
	Known         bool // the fields below are set
	Left, Limit   int64
	Sold          bool // requests over quota use credits
	PriceMicros   uint64
	BalanceMicros uint64
	Tier          string
	UpgradeURL    string
}

// Blocked reports whether the form can't succeed, as far as the page knows.
func (m *Meter) Blocked() bool {
	return len(m.Keys) == 0 || m.Known && m.Limit != plan.Unlimited && m.Left <= 0 && (!m.Sold || m.BalanceMicros < m.PriceMicros)
}

// Upgradable reports whether another plan would help.
func (m *Meter) Upgradable() bool { return m.Blocked() && len(m.Keys) > 0 && m.UpgradeURL != "" }

// Several reports whether the user has to choose a key.
func (m *Meter) Several() bool { return len(m.Keys) > 1 }

// Says describes the cost of the form's requests.
func (m *Meter) Says() string {
	subject, what := "This", counted(m.Key)
	if m.Key == plan.FilesUpload {
		subject = "Each file"
	}
	count := int64(max(1, m.Count))
	over := count - max(0, m.Left)
	price := uint64(max(0, over)) * m.PriceMicros
	switch {
	case len(m.Keys) == 0:
		return "None of your API keys can do this."
	case !m.Known:
		return fmt.Sprintf("%s uses %d of this month’s %s.", subject, count, what)
	case m.Limit == plan.Unlimited:
		return fmt.Sprintf("Your plan has unlimited %s.", what)
	case m.Limit == 0 && !m.Sold:
		return fmt.Sprintf("The %s plan doesn’t include %s.", m.Tier, what)
	case over <= 0:
		return fmt.Sprintf("%s uses %d of the %s %s you have left this month.", subject, count, number(m.Left), what)
	case !m.Sold && m.Left > 0:
		return fmt.Sprintf("You have %s %s left this month. The rest of these %d will be refused.", number(m.Left), what, count)
	case !m.Sold:
		return fmt.Sprintf("You have used all %s %s this month.", number(m.Limit), what)
	case m.Left <= 0 && m.BalanceMicros < m.PriceMicros:
		return fmt.Sprintf("You have used all %s %s this month. The next one costs %s credits, more than you have.", number(m.Limit), what, plan.Short(m.PriceMicros))
	}
	return fmt.Sprintf("%s is over the quota of %s %s per month and costs %s of your %s credits.", subject, number(m.Limit), what, plan.Short(price), plan.Short(m.BalanceMicros))
}

// counted names what a quota key counts.
func counted(key plan.QuotaKey) string {
	for _, k := range kind.All() {
		switch key {
		case plan.FilesUpload:
			return "uploads"
		case k.Create:
			return k.Name
		case k.Update:
			return k.One + " edits"
		case k.Delete:
			return k.One + " deletions"
		}
	}
	return "requests of " + key.String()
}
