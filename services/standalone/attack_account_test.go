package standalone

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"quire.dev/pkg/plan"
)

// attackAccount is an account with what its clients know about it.
type attackAccount struct {
	name    string
	id      string
	session string
	moves   bool // its plan changes
	// quiet is held for reading by each operation until its answer is definite, so that a writer sees the account with none in flight.
	quiet  sync.RWMutex
	change sync.Mutex // held by the one that changes keys, caps, credits

	mu       sync.Mutex
	periods  []attackPeriod
	lineages []*attackLineage
	charges  []*attackCharge
	granted  plan.Micros
	changes  int
	failures int
}

// attackPeriod is the time of a plan.
type attackPeriod struct {
	tier plan.Tier
	from time.Time
}

// attackLineage is a key, its predecessors and its successors.
type attackLineage struct {
	keys []attackKey // the last one is current
	caps []attackCap
	gone bool
	busy bool // it is being replaced or revoked
}

type attackKey struct {
	id, secret string
	over       bool // it was replaced without an overlap
}

// attackCap is a cap of a lineage, in force from a time between sent and answered on.
type attackCap struct {
	sent, answered time.Time
	amount         plan.Micros // -1: none
	period         string
}

// attackCharge is an operation that was served, hence counted once.
type attackCharge struct {
	quota      string
	lineage    int
	period     int
	start, end time.Time
	replaced   bool        // after a kill by a repeated call, so that it is not counted
	known      bool        // the answer said what paid; otherwise it was replayed, and said nothing
	cost       plan.Micros // 0: its quota
	turn       bool        // the month ended while it was in flight
	request    string
}

func (n *attackAccount) tier() plan.Tier {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.periods[len(n.periods)-1].tier
}

// record keeps a served operation.
func (n *attackAccount) record(c attackCharge) *attackCharge {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.period = len(n.periods) - 1
	n.charges = append(n.charges, &c)
	return &c
}

// replace keeps that a served read was not counted.
func (n *attackAccount) replace(c *attackCharge) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.replaced, c.cost = true, 0
}

// pick draws a lineage that is in use, and one of its keys: mostly the current one, or else one that it replaced.
func (n *attackAccount) pick(random *rand.Rand) (int, attackKey) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		number := random.IntN(len(n.lineages))
		if l := n.lineages[number]; !l.gone {
			keys := l.keys[max(0, len(l.keys)-2):]
			if random.IntN(4) > 0 {
				keys = keys[len(keys)-1:]
			}
			return number, keys[random.IntN(len(keys))]
		}
	}
}

// revoked draws a key that was revoked or replaced at once, or "" if there is none.
func (n *attackAccount) revoked(random *rand.Rand) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var gone []string
	for _, l := range n.lineages {
		for i, key := range l.keys {
			if key.over || l.gone && i == len(l.keys)-1 {
				gone = append(gone, key.secret)
			}
		}
	}
	if len(gone) == 0 {
		return ""
	}
	return gone[random.IntN(len(gone))]
}

// defaultKey is the current default key, which is never revoked.
func (n *attackAccount) defaultKey() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	keys := n.lineages[0].keys
	return keys[len(keys)-1].secret
}

// mayFail takes one of the failed calls that no limit refuses.
func (n *attackAccount) mayFail() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failures++
	return n.failures <= attackFailures
}

const (
	// Too many failed calls, or changes by a holder, would be refused: docs/api.md, Limits.
	attackFailures = 90
	attackChanges  = 280
	attackLineages = 4 // of an account that are in use
)

// newAccount registers an account and gives it a plan, a default key, further keys and credits.
func (a *attack) newAccount(ctx context.Context, name string, tier plan.Tier, credits plan.Micros) (*attackAccount, error) {
	n := &attackAccount{name: name, periods: []attackPeriod{{tier: plan.Free, from: a.server.now()}}}
	var made struct{ Account struct{ ID string } }
	r, err := a.server.must(ctx, attackCall{
		method: http.MethodPost, path: "/api/users/register", once: a.newKey(),
		body: fmt.Sprintf(`{"email":"%s@example.org","password":"correct horse battery"}`, name),
	}, &made)
	if err != nil {
		return nil, err
	}
	n.id = made.Account.ID
	for _, c := range (&http.Response{Header: r.header}).Cookies() {
		n.session = c.Name + "=" + c.Value
	}
	var key struct{ APIKey string }
	if _, err := a.server.must(ctx, attackCall{method: http.MethodPost, path: "/api/users/user/dev-key/regenerate", session: n.session, once: a.newKey()}, &key); err != nil {
		return nil, err
	}
	n.lineages = []*attackLineage{{keys: []attackKey{{id: "default", secret: key.APIKey}}}}
	for range attackLineages - 1 {
		if err := a.addKey(ctx, n); err != nil {
			return nil, err
		}
	}
	if tier != plan.Free {
		if err := a.setTier(ctx, n, tier); err != nil {
			return nil, err
		}
	}
	if credits > 0 {
		return n, a.grant(ctx, n, credits)
	}
	return n, nil
}

func (a *attack) addKey(ctx context.Context, n *attackAccount) error {
	var made struct {
		APIKey string
		Key    struct{ ID string }
	}
	if _, err := a.holder(ctx, n, http.MethodPost, "keys", `{}`, &made); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lineages = append(n.lineages, &attackLineage{keys: []attackKey{{id: made.Key.ID, secret: made.APIKey}}})
	return nil
}

// holder makes a change with the account's session.
func (a *attack) holder(ctx context.Context, n *attackAccount, method, path, body string, out any) (*attackAnswer, error) {
	return a.server.must(ctx, attackCall{method: method, path: "/api/users/user/" + path, body: body, session: n.session, once: a.newKey()}, out)
}

func (a *attack) setTier(ctx context.Context, n *attackAccount, tier plan.Tier) error {
	_, err := a.server.must(ctx, attackCall{
		method: http.MethodPut, path: "/api/admin/accounts/" + n.id + "/tier", admin: true, once: a.newKey(), body: fmt.Sprintf(`{"tier":%q}`, tier),
	}, nil)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.periods = append(n.periods, attackPeriod{tier: tier, from: a.server.now()})
	return err
}

func (a *attack) grant(ctx context.Context, n *attackAccount, amount plan.Micros) error {
	c := attackCall{
		method: http.MethodPost, path: "/api/admin/accounts/" + n.id + "/credits", admin: true, once: a.newKey(),
		body: fmt.Sprintf(`{"amount":%q,"reason":"attack"}`, amount),
	}
	// Whoever isn't sure sends it again.
	for range 2 {
		if _, err := a.server.must(ctx, c, nil); err != nil {
			return err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.granted += amount
	return nil
}

// meddle makes one change to the account, or looks at its books. Only one at a time does.
func (a *attack) meddle(ctx context.Context, n *attackAccount, random *rand.Rand) error {
	if !n.change.TryLock() {
		return nil
	}
	defer n.change.Unlock()
	n.mu.Lock()
	n.changes++
	spent := n.changes >= attackChanges
	n.mu.Unlock()
	switch what := random.IntN(100); {
	case what < 20:
		n.quiet.Lock()
		defer n.quiet.Unlock()
		return a.look(ctx, n)
	case what < 40:
		return a.grant(ctx, n, plan.Micros(1+random.IntN(40))*500)
	case what < 50:
		if !n.moves {
			return nil
		}
		n.quiet.Lock()
		defer n.quiet.Unlock()
		tiers := slices.DeleteFunc([]plan.Tier{plan.Free, plan.Pro, plan.Max}, func(t plan.Tier) bool { return t == n.tier() })
		return a.setTier(ctx, n, tiers[random.IntN(len(tiers))])
	case spent:
		return nil
	case what < 75:
		return a.setCap(ctx, n, random)
	case what < 90:
		return a.rotate(ctx, n, random)
	}
	return a.revoke(ctx, n, random)
}

// setCap sets the cap of a key around what its lineage has spent, or clears it.
func (a *attack) setCap(ctx context.Context, n *attackAccount, random *rand.Rand) error {
	l, _ := n.pick(random)
	id := n.current(l)
	if id == "default" {
		return nil // it stays without a cap, so that the account goes on spending
	}
	c := attackCap{amount: -1, period: []string{"day", "month", "total"}[random.IntN(3)], sent: a.server.now()}
	body := `{"spendingCap":null}`
	if random.IntN(4) > 0 {
		c.amount = n.spent(l)*plan.Micros(random.IntN(4))/2 + plan.Micros(random.IntN(20))*500
		body = fmt.Sprintf(`{"spendingCap":{"amount":%q,"period":%q}}`, c.amount, c.period)
	}
	if _, err := a.holder(ctx, n, http.MethodPut, "keys/"+id, body, nil); err != nil {
		return err
	}
	c.answered = a.server.now()
	a.count("caps")
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lineages[l].caps = append(n.lineages[l].caps, c)
	return nil
}

// current is the id of the lineage's current key.
func (n *attackAccount) current(lineage int) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	keys := n.lineages[lineage].keys
	return keys[len(keys)-1].id
}

// begin announces that a key is about to be replaced or revoked.
func (n *attackAccount) begin(lineage int) string {
	n.mu.Lock()
	n.lineages[lineage].busy = true
	n.mu.Unlock()
	return n.current(lineage)
}

func (n *attackAccount) finish(lineage int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lineages[lineage].busy = false
}

// valid reports whether a key is surely still valid.
func (n *attackAccount) valid(lineage int, key attackKey) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.lineages[lineage]
	return !l.gone && !l.busy && l.keys[len(l.keys)-1].secret == key.secret
}

// spent is about what the lineage has spent.
func (n *attackAccount) spent(lineage int) (sum plan.Micros) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.charges {
		if c.lineage == lineage {
			sum += c.cost
		}
	}
	return sum
}

// rotate replaces a key. The old one is valid for a while, or ends at once.
func (a *attack) rotate(ctx context.Context, n *attackAccount, random *rand.Rand) error {
	l, _ := n.pick(random)
	id, overlap := n.begin(l), random.IntN(3)*2
	defer n.finish(l)
	var made struct {
		APIKey string
		Key    struct{ ID string }
	}
	r, err := a.holder(ctx, n, http.MethodPost, "keys/"+id+"/rotate", fmt.Sprintf(`{"overlap":"%ds"}`, overlap), &made)
	if r != nil && r.code == "too_many_keys" {
		return nil
	}
	if err != nil {
		return err
	}
	a.count("rotations")
	n.mu.Lock()
	defer n.mu.Unlock()
	keys := n.lineages[l].keys
	keys[len(keys)-1].over = overlap == 0
	n.lineages[l].keys = append(keys, attackKey{id: made.Key.ID, secret: made.APIKey})
	return nil
}

// revoke revokes a key and creates another one.
func (a *attack) revoke(ctx context.Context, n *attackAccount, random *rand.Rand) error {
	l, _ := n.pick(random)
	id := n.begin(l)
	defer n.finish(l)
	if id == "default" {
		return nil
	}
	if _, err := a.holder(ctx, n, http.MethodDelete, "keys/"+id, "", nil); err != nil {
		return err
	}
	a.count("revocations")
	n.mu.Lock()
	n.lineages[l].gone = true
	n.mu.Unlock()
	return a.addKey(ctx, n)
}

// refusedByRule reports whether a code is of the rules that an operation may break.
func refusedByRule(code string) bool {
	return slices.Contains([]string{"quota_exhausted", "quota_held", "plan_upgrade_required", "spending_cap_reached", "too_many_failures"}, code)
}

func (a *attack) summary() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(a.counts)) {
		fmt.Fprintf(&b, " %s %d,", what, a.counts[what])
	}
	return strings.TrimSuffix(b.String(), ",")
}
