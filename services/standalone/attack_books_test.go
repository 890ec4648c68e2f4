package standalone

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/plan"
)

// attackLine is a quota key in a month or a part of it.
type attackLine struct {
	used, paid int64
	cost       plan.Micros
}

func (l attackLine) plus(o attackLine) attackLine {
	return attackLine{l.used + o.used, l.paid + o.paid, l.cost + o.cost}
}

// attackEntry is an entry of the ledger.
type attackEntry struct {
	time           time.Time
	kind, quota    string
	amount         plan.Micros
	request, title string
}

// attackBooks are what an account is shown about its money.
type attackBooks struct {
	usage     map[string]attackLine // of the present month
	balance   plan.Micros
	entries   []attackEntry         // oldest first
	sum       plan.Micros           // of them
	days      map[string]attackLine // of the month, added up
	statement attackStatement
}

type attackStatement struct {
	Closed       bool
	Requests     int64
	CreditsSpent credits
	Usage        map[string]struct {
		Requests, Overage int64
		CreditsSpent      credits
	}
	Periods []struct {
		Start, End time.Time
		Tier       string
		Lines      map[string]struct {
			Limit, Used, Free, Paid int64
			Price                   *credits
			Amount                  credits
		}
	}
	Credits struct{ Opening, Granted, Refunded, Adjusted, Expired, Charged, Closing, Pending credits }
}

// credits is an amount in JSON.
type credits plan.Micros

func (c *credits) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	var err error
	*c, err = parseSigned(text)
	return err
}

func parseSigned(text string) (credits, error) {
	rest, negative := strings.CutPrefix(text, "-")
	v, err := plan.ParseCredits(rest)
	if negative {
		v = -v
	}
	return credits(v), err
}

// books reads the account's books of a month. Each look is with the account's own session.
func (a *attack) books(ctx context.Context, n *attackAccount, month time.Time) (*attackBooks, error) {
	b := &attackBooks{usage: map[string]attackLine{}, days: map[string]attackLine{}}
	get := func(path string, out any) error {
		_, err := a.server.must(ctx, attackCall{method: http.MethodGet, path: "/api/users/user/" + path, session: n.session}, out)
		return err
	}
	var now struct {
		Usage map[string]struct {
			Used, Overage int64
			CreditsSpent  credits
		}
		Credits struct{ Balance credits }
	}
	var days struct {
		Days []struct {
			QuotaKey      string
			Used, Overage int64
			CreditsSpent  credits
		}
	}
	period := "?from=" + month.Format(time.DateOnly) + "&to=" + month.AddDate(0, 1, -1).Format(time.DateOnly) + "&by=quotaKey"
	err := cmp.Or(get("dev-usage", &now), a.ledger(ctx, n, b), get("usage"+period, &days), get("statements/"+month.Format("2006-01"), &b.statement))
	for quota, u := range now.Usage {
		b.usage[quota] = attackLine{u.Used, u.Overage, plan.Micros(u.CreditsSpent)}
	}
	for _, d := range days.Days {
		b.days[d.QuotaKey] = b.days[d.QuotaKey].plus(attackLine{d.Used, d.Overage, plan.Micros(d.CreditsSpent)})
	}
	b.balance = plan.Micros(now.Credits.Balance)
	return b, err
}

// ledger reads all of the ledger, in pieces.
func (a *attack) ledger(ctx context.Context, n *attackAccount, b *attackBooks) error {
	seen := map[string]bool{}
	var rows [][]string
	for path := "/api/users/user/credits"; path != ""; {
		r, err := a.server.must(ctx, attackCall{method: http.MethodGet, path: path, session: n.session, accept: "text/csv"}, nil)
		if err != nil {
			return err
		}
		piece, err := csv.NewReader(strings.NewReader(string(r.body))).ReadAll()
		if err != nil || len(piece) == 0 {
			return fmt.Errorf("the ledger: %w: %s", err, r)
		}
		rows = append(rows, piece[1:]...)
		path = strings.TrimSuffix(strings.TrimPrefix(r.header.Get("Link"), "<"), `>; rel="next"`)
		if i := strings.Index(path, "/api/"); i > 0 {
			path = path[i:]
		}
	}
	for _, row := range slices.Backward(rows) {
		at, err := time.Parse(time.RFC3339, row[1])
		amount, wrong := parseSigned(row[4])
		balance, unread := parseSigned(row[5])
		if err = cmp.Or(err, wrong, unread); err != nil {
			return err
		}
		b.sum += plan.Micros(amount)
		if seen[row[0]] || plan.Micros(balance) != b.sum {
			return fmt.Errorf("%s: entry %v after a sum of %s, listed twice: %v", n.name, row, b.sum, seen[row[0]])
		}
		seen[row[0]] = true
		b.entries = append(b.entries, attackEntry{time: at, kind: row[2], quota: row[3], amount: plan.Micros(amount), request: row[6], title: row[0]})
	}
	return nil
}

// look holds the books of an account without a call in flight to each other and to what its clients know.
func (a *attack) look(ctx context.Context, n *attackAccount) error {
	a.count("looks")
	for {
		month := monthOf(a.server.now())
		b, err := a.books(ctx, n, month)
		if err != nil {
			return err
		}
		if monthOf(a.server.now()) != month {
			continue
		}
		if err := b.consistent(); err != nil {
			return fmt.Errorf("a look: %w", err)
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		for quota, got := range b.usage {
			sure, maybe := n.countIn(month, quota)
			if got.used < sure || got.used > sure+maybe || got != b.days[quota] {
				return fmt.Errorf("a look: %s of %s: shown %+v, days %+v, served %d to %d", quota, month.Format("2006-01"), got, b.days[quota], sure, sure+maybe)
			}
		}
		if pending := plan.Micros(b.statement.Credits.Pending); b.sum-pending != b.balance || b.sum != plan.Micros(b.statement.Credits.Closing) {
			return fmt.Errorf("a look: the ledger sums to %s, %s are pending, the balance is %s, the statement closes with %s", b.sum, pending, b.balance, plan.Micros(b.statement.Credits.Closing))
		}
		return nil
	}
}

func monthOf(t time.Time) time.Time { return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC) }

// countIn is how many operations of a month were served, and how many more may be of that month.
func (n *attackAccount) countIn(month time.Time, quota string) (sure, maybe int64) {
	for _, c := range n.charges {
		switch first, last := monthOf(c.start).Equal(month), monthOf(c.end).Equal(month); {
		case c.quota != quota || c.replaced:
		case first && last:
			sure++
		case first || last:
			maybe++
		}
	}
	return sure, maybe
}

// consistent computes each total of the books from its parts.
func (b *attackBooks) consistent() error {
	s, sums := &b.statement, map[string]attackLine{}
	var total attackLine
	for _, p := range s.Periods {
		for quota, l := range p.Lines {
			price := plan.Micros(0)
			if l.Price != nil {
				price = plan.Micros(*l.Price)
			}
			if l.Free+l.Paid != l.Used || plan.Micros(l.Paid)*price != plan.Micros(l.Amount) {
				return fmt.Errorf("the statement's line of %s: %+v, price %s", quota, l, price)
			}
			line := attackLine{l.Used, l.Paid, plan.Micros(l.Amount)}
			sums[quota], total = sums[quota].plus(line), total.plus(line)
		}
	}
	for quota, u := range s.Usage {
		got := attackLine{u.Requests, u.Overage, plan.Micros(u.CreditsSpent)}
		if got != sums[quota] || got != b.days[quota] {
			return fmt.Errorf("%s: the statement has %+v, its lines %+v, the days %+v", quota, got, sums[quota], b.days[quota])
		}
	}
	c := s.Credits
	if c.Opening+c.Granted+c.Refunded+c.Adjusted-c.Expired-c.Charged != c.Closing || c.Charged-c.Refunded+c.Pending != s.CreditsSpent ||
		total.used != s.Requests || total.cost != plan.Micros(s.CreditsSpent) {
		return fmt.Errorf("the statement does not add up: %+v, %d requests for %d, the lines sum to %+v", c, s.Requests, s.CreditsSpent, total)
	}
	return nil
}

// verify holds all figures of both months to the answers.
func (a *attack) verify(t *testing.T, n *attackAccount, month time.Time) {
	t.Helper()
	months := []time.Time{month.AddDate(0, -1, 0), month}
	var books []*attackBooks
	eventually.NoError(t, n.name+": the old month is closed and nothing is pending", func() error {
		books = nil
		for _, m := range months {
			b, err := a.books(t.Context(), n, m)
			if err != nil {
				return err
			}
			books = append(books, b)
		}
		if !books[0].statement.Closed || books[1].statement.Credits.Pending != 0 || books[0].statement.Credits.Pending != 0 {
			return fmt.Errorf("closed: %v, pending %+v", books[0].statement.Closed, books[1].statement.Credits)
		}
		return nil
	})
	fail := func(format string, args ...any) { a.wrong(n.name+": "+format, args...) }
	n.mu.Lock()
	defer n.mu.Unlock()
	a.date(t, n, books, fail)
	shown := n.checkLedger(books[1], fail)
	var cost plan.Micros
	for i, m := range months {
		b := books[i]
		if err := b.consistent(); err != nil {
			fail("%s: %v", m.Format("2006-01"), err)
		}
		parts, all := n.model(m, fail)
		for _, k := range plan.QuotaKeys() {
			quota := k.String()
			want := all[quota]
			cost += want.cost
			if got := b.days[quota]; got != want {
				fail("%s of %s: shown %+v, the answers sum to %+v; at the month's end %s", quota, m.Format("2006-01"), got, want, n.near(month, quota))
			}
			if got := shown[attackMonthly{m, quota}]; got.paid != want.paid || got.cost != want.cost {
				fail("%s of %s: the ledger has %+v, the answers sum to %+v", quota, m.Format("2006-01"), got, want)
			}
			if i == 1 && b.usage[quota] != want {
				fail("%s of this month: shown %+v, the answers sum to %+v", quota, b.usage[quota], want)
			}
		}
		n.checkPeriods(b, parts, fail)
		n.checkCredits(b, m, fail)
	}
	if want := n.granted - cost; books[1].balance != want || books[1].sum != want || plan.Micros(books[1].statement.Credits.Closing) != want {
		fail("the balance is %s, the ledger sums to %s, the statement closes with %s: %s were granted and %s spent, which leaves %s",
			books[1].balance, books[1].sum, plan.Micros(books[1].statement.Credits.Closing), n.granted, cost, want)
	}
	if books[0].statement.Credits.Closing != books[1].statement.Credits.Opening {
		fail("a month closes with %d, the next opens with %d", books[0].statement.Credits.Closing, books[1].statement.Credits.Opening)
	}
	n.checkCaps(books[1], fail)
}

// near lists the operations under a quota key within a second of a time.
func (n *attackAccount) near(at time.Time, quota string) string {
	var list []string
	for _, c := range n.charges {
		if c.quota == quota && c.end.After(at.Add(-time.Second)) && c.start.Before(at.Add(time.Second)) {
			list = append(list, fmt.Sprintf("%s from %s to %s, known %v, replaced %v", c.request, c.start.Format("05.000"), c.end.Format("05.000"), c.known, c.replaced))
		}
	}
	return strings.Join(list, "; ")
}

// date finds out in which month each operation was admitted whose answer a kill took while the month ended: the month's counter
// decides. Of the others in flight then, the explanation has to name the month that the answer did.
func (a *attack) date(t *testing.T, n *attackAccount, books []*attackBooks, fail faultf) {
	t.Helper()
	left := map[string]int64{}
	for _, c := range n.charges {
		if c.turn && !c.replaced {
			if at, text := a.explained(t, c.request); monthOf(at) != monthOf(c.start) {
				fail("%s of %s was admitted in the month of %s by its answer, at %s by its explanation: %s", c.request, c.quota, c.start, at, text)
			}
		}
		first := monthOf(c.start)
		if first.Equal(monthOf(c.end)) || c.replaced {
			continue
		}
		if _, there := left[c.quota]; !there {
			sure, _ := n.countIn(first, c.quota)
			left[c.quota] = books[0].days[c.quota].used - sure
		}
		if left[c.quota]--; left[c.quota] >= 0 {
			c.end = c.start
		} else {
			c.start = c.end
		}
		a.count("dated by a counter")
	}
}

// explained is when a request was admitted, and its explanation.
func (a *attack) explained(t *testing.T, request string) (at time.Time, text []byte) {
	t.Helper()
	a.count("dated at the month's end")
	var e struct{ Request *struct{ Time time.Time } }
	eventually.NoError(t, "an explanation", func() error {
		r, err := a.server.must(t.Context(), attackCall{method: http.MethodGet, path: "/api/admin/requests/" + request, admin: true}, &e)
		if r != nil {
			text = r.body
		}
		if err == nil && e.Request == nil {
			err = errors.New("it is still being read")
		}
		return err
	})
	return e.Request.Time, text
}
