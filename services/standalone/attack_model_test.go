package standalone

import (
	"slices"
	"time"

	"quire.dev/pkg/plan"
)

type faultf func(format string, args ...any)

// attackMonthly is a quota key in a month.
type attackMonthly struct {
	month time.Time
	quota string
}

// model is what the operations of a month have to cost: under each plan those beyond its limit, at its price.
func (n *attackAccount) model(month time.Time, fail faultf) (parts []map[string]attackLine, all map[string]attackLine) {
	all = map[string]attackLine{}
	for p, period := range n.periods {
		part := map[string]attackLine{}
		for _, c := range n.charges {
			if c.period == p && monthOf(c.start).Equal(month) && !c.replaced {
				part[c.quota] = part[c.quota].plus(attackLine{used: 1})
			}
		}
		for quota, l := range part {
			term := attackTerm(period.tier, quota)
			l.paid = l.used - min(max(0, term.Limit-all[quota].used), l.used)
			l.cost = plan.Micros(l.paid) * term.Price
			if l.paid > 0 && !term.Overage {
				fail("%d of %s were served over quota on %s", l.paid, quota, period.tier)
			}
			part[quota], all[quota] = l, all[quota].plus(l)
		}
		parts = append(parts, part)
	}
	return parts, all
}

// checkPeriods holds the periods of a statement with requests to those of the model.
func (n *attackAccount) checkPeriods(b *attackBooks, parts []map[string]attackLine, fail faultf) {
	type named struct {
		tier  string
		lines map[string]attackLine
	}
	var want, got []named
	for p, part := range parts {
		if len(part) > 0 {
			want = append(want, named{n.periods[p].tier.String(), part})
		}
	}
	for _, p := range b.statement.Periods {
		lines := map[string]attackLine{}
		for quota, l := range p.Lines {
			if l.Used > 0 {
				lines[quota] = attackLine{l.Used, l.Paid, plan.Micros(l.Amount)}
			}
		}
		if len(lines) > 0 {
			got = append(got, named{p.Tier, lines})
		}
	}
	if len(got) != len(want) {
		fail("the statement has %d periods with requests, there were %d", len(got), len(want))
		return
	}
	for i := range got {
		for _, k := range plan.QuotaKeys() {
			if g, w := got[i].lines[k.String()], want[i].lines[k.String()]; g != w || got[i].tier != want[i].tier {
				fail("%s of period %d: the statement has %+v on %s, the answers sum to %+v on %s", k, i, g, got[i].tier, w, want[i].tier)
			}
		}
	}
}

// checkCredits holds the sums of a statement to the ledger.
func (n *attackAccount) checkCredits(b *attackBooks, month time.Time, fail faultf) {
	var want struct{ granted, charged, refunded plan.Micros }
	at := map[string]time.Time{}
	for _, e := range b.entries {
		if e.kind == "charge" {
			at[e.request] = e.time
		}
	}
	for _, e := range b.entries {
		switch {
		case e.kind == "grant" && monthOf(e.time).Equal(month):
			want.granted += e.amount
		case e.kind == "charge" && monthOf(e.time).Equal(month):
			want.charged -= e.amount
		case e.kind == "adjustment" && monthOf(at[e.request]).Equal(month):
			want.refunded += e.amount
		}
	}
	c := b.statement.Credits
	if plan.Micros(c.Granted) != want.granted || plan.Micros(c.Charged) != want.charged || plan.Micros(c.Refunded) != want.refunded || c.Adjusted != 0 || c.Expired != 0 {
		fail("the statement of %s has %+v, the ledger %+v", month.Format("2006-01"), c, want)
	}
}

// checkLedger finds each charge that an answer stated in the ledger exactly once, with that amount, and charges without such an
// answer only for as many operations as kills took the answers of. It returns what was paid in the end.
func (n *attackAccount) checkLedger(b *attackBooks, fail faultf) map[attackMonthly]attackLine {
	shown := map[attackMonthly]attackLine{}
	charged, refunded := map[string]attackEntry{}, map[string]bool{}
	var granted plan.Micros
	for _, e := range b.entries {
		first, again := charged[e.request]
		switch {
		case e.kind == "grant":
			granted += e.amount
		case e.kind == "charge" && !again:
			charged[e.request] = e
			m := attackMonthly{monthOf(e.time), e.quota}
			shown[m] = shown[m].plus(attackLine{paid: 1, cost: -e.amount})
		case e.kind == "adjustment" && again && !refunded[e.request] && e.amount == -first.amount:
			refunded[e.request] = true
			m := attackMonthly{monthOf(first.time), first.quota}
			shown[m] = shown[m].plus(attackLine{paid: -1, cost: -e.amount})
		default:
			fail("entry %+v of the ledger, after %+v", e, first)
		}
	}
	if granted != n.granted {
		fail("the ledger has grants of %s, %s were granted", granted, n.granted)
	}
	unknown := map[string]int{}
	for _, c := range n.charges {
		if !c.known {
			unknown[c.quota]++
			continue
		}
		e, found := charged[c.request]
		delete(charged, c.request)
		if found != (c.cost > 0) || found && (e.amount != -c.cost || e.quota != c.quota || monthOf(e.time) != monthOf(c.start)) {
			fail("the answer to %s of %s at %s says that it cost %s, the ledger has %+v", c.request, c.quota, c.start, c.cost, e)
		}
	}
	for _, e := range charged {
		if unknown[e.quota]--; unknown[e.quota] < 0 {
			fail("nobody was answered about entry %+v", e)
		}
	}
	return shown
}

// checkCaps: between two changes of a key's cap, its lineage spends no more than the cap, unless it had before.
func (n *attackAccount) checkCaps(b *attackBooks, fail faultf) {
	refunded := map[string]bool{}
	for _, e := range b.entries {
		refunded[e.request] = refunded[e.request] || e.kind == "adjustment"
	}
	for number, l := range n.lineages {
		for i, limit := range l.caps {
			if limit.amount < 0 {
				continue
			}
			until := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
			if i+1 < len(l.caps) {
				until = l.caps[i+1].sent
			}
			before, by := map[string]plan.Micros{}, map[string]plan.Micros{}
			for _, c := range n.charges {
				in := limit.bucket(c.start)
				switch {
				case !c.known && c.start.Before(limit.answered): // which lineage, nobody was told
					price := attackTerm(plan.Pro, c.quota).Price
					if before[in] += price; limit.bucket(c.end) != in {
						before[limit.bucket(c.end)] += price
					}
				case c.lineage == number && c.start.Before(limit.answered):
					before[in] += c.cost
				}
				if c.known && c.lineage == number && c.end.Before(until) && !refunded[c.request] {
					by[in] += c.cost
				}
			}
			for in, spent := range by {
				if most := max(limit.amount, before[in]); spent > most {
					fail("lineage %d spent %s in its %s %s, capped at %s from %s to %s, when it had spent at most %s",
						number, spent, limit.period, in, limit.amount, limit.answered, until, before[in])
				}
			}
		}
	}
}

// bucket names the period of the cap that a time is in.
func (c attackCap) bucket(t time.Time) string {
	return t.Format(map[string]string{"day": time.DateOnly, "month": "2006-01", "total": ""}[c.period])
}

// charged is how many operations were charged something, and total how much, as their answers said.
func (a *attack) charged() (count int) {
	for _, n := range a.accounts {
		count += len(slices.DeleteFunc(slices.Clone(n.charges), func(c *attackCharge) bool { return c.cost == 0 }))
	}
	return count
}

func (a *attack) total() (sum plan.Micros) {
	for _, n := range a.accounts {
		for _, c := range n.charges {
			sum += c.cost
		}
	}
	return sum
}
