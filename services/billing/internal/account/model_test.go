package account

import (
	"cmp"
	"math"
	"math/big"
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// model is a second implementation of the billing rules, simple and slow: it keeps all requests and counts by looking at all of
// them.
type model struct {
	now      int64
	book     *plan.Book
	changes  int // of prices and rules
	upcoming []modelBook
	applied  []modelBook // that came into force; from the first on, configured ones have no effect
	accounts map[uint64]*modelAccount
	networks map[uint64]*modelParty
	requests []*modelRequest
	alerts   []string // see modelAlert
}

// modelBook is an applied price book.
type modelBook struct {
	id   string
	at   int64
	book *plan.Book // nil once it is withdrawn
}

type modelParty struct {
	failures []int64
}

type modelAccount struct {
	modelParty
	tier     plan.Tier
	nextTier plan.Tier // from nextAt on; 0: the same
	nextAt   int64
	version  uint32
	created  int64
	renewed  int64 // creation of the default key
	changes  int   // of the tier
	changed  int64 // time of the last change of tier, prices or rules
	stored   []modelStorage
	grants   []*modelGrant
	granted  int64 // all of these are sums over time
	taken    int64
	expired  int64
	ledger   int64
	owed     int64
	reversed bool // some payment was
	bought   map[string]*modelPurchase
	refunded map[modelLine]int64
	free     int // refunded requests
	waived   int

	suspended bool
	deletes   int64 // earliest erasure; 0: not to be deleted
	erased    bool

	keys     []*modelKey // the default key, once others exist
	lineages map[uint32]*modelLineage
	next     uint32
	cap      spendingCap
	hooks    modelHooks

	subscriptions map[string]*event.SetSubscription
	topUp         *modelTopUp
}

// modelLine is what a statement has for a quota key.
type modelLine struct {
	month uint32
	key   plan.QuotaKey
}

type modelPurchase struct{ credits, reversed, asOf int64 }

// modelStorage is a change of stored bytes.
type modelStorage struct {
	delta   int64
	from    int64 // when it was
	learned int64 // when billing learned it
}

type modelGrant struct {
	number  int
	left    int64
	expires int64
	over    bool
}

type modelRequest struct {
	id        string
	account   uint64
	anonymous bool
	key       plan.QuotaKey
	month     uint32
	at        int64
	write     bool
	idem      string
	read      uint64 // event.ReadHash of a read with an idempotency id
	repeats   int    // of such a read
	state     string // open, served or void: how it counts
	memory    string // the same, as remembered; empty: forgotten
	timedOut  bool   // closed by a time-out and not settled since
	closed    int64
	late      bool // voided without confirmation from its service, which may still report that it was served
	paid      int64
	uses      map[*modelGrant]int64
	entered   bool   // the charge is in the ledger
	terms     [2]int // changes of prices, rules and tier before it
	order     int    // of being counted
	lineage   uint32
	counts    uint32 // number of the key
	day       int64  // in which it counts; 0: in none
	refunded  int64  // by an admin
}

// balance is the sum of what the grants have left.
func (a *modelAccount) balance() (sum int64) {
	for _, g := range a.grants {
		sum += g.left
	}
	return sum
}

func (a *modelAccount) inSpendOrder() []*modelGrant {
	list := slices.Clone(a.grants)
	slices.SortFunc(list, func(x, y *modelGrant) int {
		ex, ey := x.expires, y.expires
		if ex == 0 {
			ex = math.MaxInt64
		}
		if ey == 0 {
			ey = math.MaxInt64
		}
		return cmp.Or(cmp.Compare(ex, ey), cmp.Compare(x.number, y.number))
	})
	return list
}

// take spends an amount. The account must have it.
func (a *modelAccount) take(amount int64) map[*modelGrant]int64 {
	uses := map[*modelGrant]int64{}
	for _, g := range a.inSpendOrder() {
		if part := min(g.left, amount); part > 0 {
			g.left -= part
			amount -= part
			uses[g] = part
		}
	}
	return uses
}

// counted reports whether a request is in a counter.
func (m *model) counted(account uint64, key plan.QuotaKey, month uint32) (used, overage int, spent int64) {
	for _, r := range m.requests {
		if r.account == account && !r.anonymous && r.key == key && r.month == month && r.state != "void" {
			used++
			if r.uses != nil {
				overage++
				spent += r.paid
			}
		}
	}
	return used, overage, spent
}

// terms returns the terms under which an account's requests are admitted.
func (m *model) terms(a *modelAccount) [2]int { return [2]int{m.changes, a.changes} }

// makeRoom makes the newest requests paid under the present terms free, until no more are paid than exceed the limit.
func (m *model) makeRoom(account uint64, key plan.QuotaKey, month uint32) {
	a := m.accounts[account]
	limit := m.book.Plans[a.tier].Terms[key].Limit
	for limit != plan.Unlimited {
		used, _, _ := m.counted(account, key, month)
		var newest *modelRequest
		paid := 0
		for _, r := range m.requests {
			if r.account == account && !r.anonymous && r.key == key && r.month == month && r.state != "void" && r.uses != nil && r.terms == m.terms(a) {
				paid++
				if newest == nil || r.order > newest.order {
					newest = r
				}
			}
		}
		if paid == 0 || int64(paid) <= int64(used)-limit {
			return
		}
		m.payBack(a, newest)
		a.free++
	}
}

func (m *model) payBack(a *modelAccount, r *modelRequest) {
	if r.entered {
		a.ledger += r.paid
	}
	uses := r.uses
	r.uses, r.paid = nil, 0
	for g, part := range uses {
		g.left += part
		if g.over {
			m.expireRest(a, g)
		}
	}
	a.repay()
}

// repay pays what is owed for reversed payments.
func (a *modelAccount) repay() {
	part := min(a.owed, a.balance())
	a.take(part)
	a.owed -= part
	a.taken += part
}

// integral is the byte-milliseconds of a month so far.
func (m *model) integral(a *modelAccount, of month) *big.Int {
	return m.integralBetween(a, of, of.start, of.end)
}

// integralBetween is the part of a month's integral that falls on some of its days.
func (m *model) integralBetween(a *modelAccount, of month, start, end int64) *big.Int {
	sum := new(big.Int)
	add := func(bytes, millis int64) {
		if millis > 0 {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(bytes), big.NewInt(millis)))
		}
	}
	for _, s := range a.stored {
		from := max(s.from, a.created)
		add(s.delta, min(m.now, end)-max(from, start))
		before := monthNumber(of.number - 1)
		learned := monthOf(s.learned)
		switch last := monthNumber(learned.number - 1); {
		case s.learned < last.end+CloseMillis: // that month was not closed yet
		case of.number == last.number:
			add(-s.delta, min(m.now, end)-max(from, start))
		case of.number == learned.number && s.learned >= start && s.learned < end:
			add(s.delta, before.end-max(from, before.start))
		}
	}
	return sum
}

// advance does everything due, earliest first.
func (m *model) advance(now int64) {
	for {
		var what func()
		due := now + 1
		for i, b := range m.upcoming {
			if b.at < due {
				due, what = b.at, func() {
					m.upcoming = slices.Delete(m.upcoming, i, i+1)
					if b.book != nil {
						m.bring(b, b.at)
					}
				}
			}
		}
		for _, a := range m.accounts {
			if a.nextTier != 0 && a.nextAt < due {
				due, what = a.nextAt, func() {
					a.tier, a.nextTier, a.changed = a.nextTier, 0, a.nextAt
					a.changes++
				}
			}
		}
		for id, a := range m.accounts {
			for _, g := range a.grants {
				if g.expires != 0 && !g.over && g.expires < due {
					due, what = g.expires, func() {
						before := a.balance()
						m.expire(a, g)
						m.tellLow(id, before)
					}
				}
			}
		}
		for _, r := range m.requests {
			if r.state == "open" && r.at+HoldMillis < due {
				due, what = r.at+HoldMillis, func() { m.timeOut(r) }
			}
		}
		if what == nil {
			break
		}
		what()
	}
	m.warn(now)
	m.now = max(m.now, now)
}

// changeBook brings prices into force.
func (m *model) changeBook(book *plan.Book, at int64) {
	m.book = book
	m.changes++
	for _, a := range m.accounts {
		a.changed = at
	}
}

// apply takes an applied book of a message with that stamp.
func (m *model) apply(b modelBook, stamp int64) {
	switch same := func(o modelBook) bool { return o.id == b.id }; {
	case slices.ContainsFunc(m.applied, same) || slices.ContainsFunc(m.upcoming, same):
	case b.at > m.now:
		m.upcoming = append(m.upcoming, b)
	case stamp >= b.at:
		m.bring(b, m.now)
	}
}

// bring brings an applied book into force.
func (m *model) bring(b modelBook, at int64) {
	m.applied = append(m.applied, b)
	m.changeBook(b.book, at)
}

func (m *model) expire(a *modelAccount, g *modelGrant) {
	g.over = true
	m.expireRest(a, g)
}

func (m *model) expireRest(a *modelAccount, g *modelGrant) {
	a.expired += g.left
	a.ledger -= g.left
	g.left = 0
}

func (m *model) timeOut(r *modelRequest) {
	r.closed, r.timedOut = r.at+HoldMillis, true
	if r.write {
		r.late = true
		m.void(r)
		r.memory, r.idem = "void", ""
	} else {
		m.serve(r)
		r.memory = "served"
	}
}

func (m *model) serve(r *modelRequest) {
	r.state = "served"
	if !r.anonymous && !r.entered {
		m.accounts[r.account].ledger -= r.paid
		r.entered = true
	}
}

func (m *model) void(r *modelRequest) {
	r.state = "void"
	if r.anonymous {
		return
	}
	a := m.accounts[r.account]
	m.payBack(a, r)
	r.entered = false
	m.makeRoom(r.account, r.key, r.month)
}

func (m *model) recentFailures(p *modelParty) (n int) {
	for _, t := range p.failures {
		if t > m.now-FailureMillis {
			n++
		}
	}
	return n
}

// inWindow is the log of a network.
func (m *model) inWindow(network uint64) (n int) {
	for _, r := range m.requests {
		if r.anonymous && r.account == network && r.state != "void" && r.at > m.now-m.book.AnonymousWindowMillis {
			n++
		}
	}
	return n
}

// known reports whether the fold still remembers a request.
func (m *model) known(r *modelRequest) bool {
	return r.memory == "open" || r.memory != "" && r.closed > m.now-MemoryMillis
}

// idempotency is the refusal of a request by one with its idempotency id.
func (m *model) idempotency(next *modelRequest) event.Decision {
	for _, r := range m.requests {
		if r.idem != next.idem || next.idem == "" || !m.known(r) {
			continue
		}
		switch {
		case r.read>>32 != next.read>>32:
			return event.Decision_IDEMPOTENCY_OTHER
		case r.memory == "open":
			return event.Decision_IDEMPOTENCY_IN_FLIGHT
		case r.read == 0:
			return event.Decision_IDEMPOTENCY_SERVED
		case r.read == next.read && r.repeats < MaxRepeats && m.now < r.at+RepeatMillis:
			r.repeats++
			return event.Decision_IDEMPOTENCY_SERVED
		}
	}
	return admitted
}

// takesOver frees the idempotency id of an admitted read from one with no repeats left.
func (m *model) takesOver(next *modelRequest) {
	for _, r := range m.requests {
		if r != next && r.idem == next.idem {
			r.idem = ""
		}
	}
}

// admit decides a request.
func (m *model) admit(item *event.Admission) (decision event.Decision, remaining, paid int64) {
	r := &modelRequest{
		id: string(item.RequestId), account: item.Account, anonymous: item.Anonymous, key: plan.QuotaKey(item.QuotaKey),
		month: monthOf(m.now).number, at: m.now, write: item.Write, idem: string(item.IdempotencyId), state: "open", memory: "open",
	}
	if r.idem == "" && !item.Write && !item.Anonymous && item.ReadHash != 0 {
		r.idem, r.read = string(item.ReadId), item.ReadHash
	}
	if item.Anonymous {
		if m.networks[item.Account] == nil {
			m.networks[item.Account] = &modelParty{}
		}
		if m.recentFailures(m.networks[item.Account]) > MaxFailures {
			return event.Decision_TOO_MANY_FAILURES, 0, 0
		}
		if d := m.idempotency(r); d != admitted {
			return d, 0, 0
		}
		if m.inWindow(item.Account) >= m.book.AnonymousLimit {
			return event.Decision_ANONYMOUS_LIMIT, 0, 0
		}
		m.requests = append(m.requests, r)
		return admitted, int64(m.book.AnonymousLimit - m.inWindow(item.Account)), 0
	}
	a := m.accounts[item.Account]
	k := m.key(a, item)
	if k == nil || a.erased {
		return invalid, 0, 0
	}
	r.lineage, r.counts = k.lineage, k.counts
	if a.suspended || a.deletes != 0 {
		return event.Decision_ACCOUNT_SUSPENDED, 0, 0
	}
	if l := a.lineages[r.lineage]; l != nil && l.scope != 0 && l.scope != r.key {
		return event.Decision_KEY_SCOPE, 0, 0
	}
	if m.recentFailures(&a.modelParty) > MaxFailures {
		return event.Decision_TOO_MANY_FAILURES, 0, 0
	}
	if d := m.idempotency(r); d != admitted {
		return d, 0, 0
	}
	decision, remaining, paid = m.charge(a, r)
	if decision == admitted && r.read != 0 {
		m.takesOver(r)
	}
	return decision, remaining, paid
}

// charge counts a request by quota or credits.
func (m *model) charge(a *modelAccount, r *modelRequest) (event.Decision, int64, int64) {
	term := m.book.Plans[a.tier].Terms[r.key]
	used, _, _ := m.counted(r.account, r.key, r.month)
	r.day = m.now / dayMillis
	l := a.lineages[r.lineage]
	if l != nil && l.quota >= 0 && r.key == plan.FilesUpload && (term.Limit != 0 || term.Overage) && m.countedBy(r, r.lineage) >= l.quota {
		return event.Decision_KEY_QUOTA_EXHAUSTED, 0, 0
	}
	switch {
	case term.Limit == plan.Unlimited:
		m.requests = append(m.requests, r)
		return admitted, -1, 0
	case int64(used) < term.Limit:
		m.requests = append(m.requests, r)
		m.tellUsed(r.account, r.key, r.month, used+1)
		return admitted, term.Limit - int64(used) - 1, 0
	case term.Limit == 0 && !term.Overage:
		return upgrade, 0, 0
	case term.Overage && (l != nil && m.passes(l.cap, r, &r.lineage, int64(term.Price)) || m.passes(a.cap, r, nil, int64(term.Price))):
		return event.Decision_SPENDING_CAP_REACHED, 0, 0
	case !term.Overage || a.balance() < int64(term.Price):
		return exhausted, 0, 0
	}
	r.paid = int64(term.Price)
	before := a.balance()
	r.uses = a.take(r.paid)
	m.tellLow(r.account, before)
	m.notifyCaps(a, r)
	r.terms, r.order = m.terms(a), len(m.requests)
	m.requests = append(m.requests, r)
	m.tellUsed(r.account, r.key, r.month, used+1)
	return admitted, 0, r.paid
}

// settle closes a request.
func (m *model) settle(s *event.Settlement) {
	i := slices.IndexFunc(m.requests, func(r *modelRequest) bool { return r.id == string(s.RequestId) })
	r := m.requests[i]
	fail := func() {
		if s.Failed && s.Result == event.Result_VOID {
			if r.anonymous {
				m.networks[r.account].failures = append(m.networks[r.account].failures, m.now)
			} else {
				m.accounts[r.account].failures = append(m.accounts[r.account].failures, m.now)
			}
		}
	}
	served := s.Result == event.Result_SERVED
	late := r.late && r.closed > m.now-LateMillis
	fromDomain := s.Sequence != 0
	if fromDomain {
		if !r.write || domainOf(r.key) == "" {
			return
		}
		r.late = false
	}
	switch {
	case r.memory == "open":
		r.closed, r.memory = m.now, ""
		if !served {
			r.late = !fromDomain && r.write
			m.void(r)
			fail()
			return
		}
		m.serve(r)
		if r.idem != "" {
			r.memory = "served"
		}
	case !m.known(r) && fromDomain:
		if late && served {
			m.chargeLate(r)
		}
	case !m.known(r):
		fail()
	case served && r.memory == "void":
		r.memory, r.timedOut = "served", false
		m.chargeLate(r)
	case r.timedOut && served == (r.memory == "served"):
		r.timedOut = false
		fail()
	case r.timedOut && !served:
		m.void(r)
		r.memory = ""
		fail()
	}
}

// chargeLate counts a request that was served after its hold was gone.
func (m *model) chargeLate(r *modelRequest) {
	n := &modelRequest{account: r.account, anonymous: r.anonymous, key: r.key, month: monthOf(m.now).number, at: m.now, state: "open"}
	n.lineage, n.counts = r.lineage, r.counts
	if r.anonymous {
		if m.inWindow(r.account) < m.book.AnonymousLimit {
			n.state = "served"
			m.requests = append(m.requests, n)
		}
		return
	}
	a := m.accounts[r.account]
	if decision, _, _ := m.charge(a, n); decision != admitted {
		a.waived++
		return
	}
	m.serve(n)
}

// modelKey is a key as a request names it.
type modelKey struct {
	number, version uint32
	fingerprint     uint64
	counts          uint32 // number that its requests count for
	lineage         uint32
	ends            int64 // 0: never
	replaced        bool
	created         int64
	expires         int64 // by its rules; 0: never
}

// modelLineage has the rules of a key and its successors.
type modelLineage struct {
	scope plan.QuotaKey // 0: all
	quota int64         // of uploads; -1: none
	cap   spendingCap
}

// key returns the valid key named by a request, or nil.
func (m *model) key(a *modelAccount, item *event.Admission) *modelKey {
	if a == nil {
		return nil
	}
	if a.keys == nil {
		if item.KeyVersion == a.version && item.Key == 0 {
			return &modelKey{}
		}
		return nil
	}
	for _, k := range a.keys {
		if k.number == item.Key && k.version == item.KeyVersion && k.fingerprint == item.KeyFingerprint && k.live(m.now) {
			return k
		}
	}
	return nil
}

func (k *modelKey) live(now int64) bool { return k.ends == 0 || now < k.ends }

// countedBy is the number of requests like r counted for a lineage.
func (m *model) countedBy(r *modelRequest, lineage uint32) (n int64) {
	for _, o := range m.requests {
		if o.account == r.account && !o.anonymous && o.key == r.key && o.month == r.month && o.lineage == lineage && o.state != "void" {
			n++
		}
	}
	return n
}

// passes reports whether a price would exceed a cap, of a lineage or of the account.
func (m *model) passes(c spendingCap, r *modelRequest, lineage *uint32, price int64) bool {
	return c.period != event.CapPeriod_CAP_NONE && price > 0 && m.spentFor(c, r.account, lineage)+price > int64(c.amount)
}

func (m *model) spentFor(c spendingCap, account uint64, lineage *uint32) (sum int64) {
	for _, o := range m.requests {
		if o.account != account || o.anonymous || o.state == "void" || o.uses == nil || lineage != nil && o.lineage != *lineage {
			continue
		}
		switch c.period {
		case event.CapPeriod_CAP_DAY:
			if o.day == m.now/dayMillis {
				sum += o.paid
			}
		case event.CapPeriod_CAP_MONTH:
			if o.month == monthOf(m.now).number {
				sum += o.paid
			}
		case event.CapPeriod_CAP_TOTAL:
			if o.day != 0 {
				sum += o.paid
			}
		}
	}
	return sum
}

// several gives the account a list of keys.
func (a *modelAccount) several() {
	if a.keys == nil {
		a.keys = []*modelKey{{version: a.version, fingerprint: 1, created: a.renewed}}
		a.lineages = map[uint32]*modelLineage{0: {quota: -1}}
		a.next = 1
	}
}

// keyCommand applies a command about keys or caps that the fold has accepted.
func (m *model) keyCommand(a *modelAccount, c *event.Command) {
	set := func(k *modelKey, l *modelLineage, r *event.KeyRules) {
		if r.ExpiresInMs != nil {
			k.expires = m.now + *r.ExpiresInMs
			k.ends = k.expires
		}
		if r.Scopes != nil {
			l.scope = 0
			if len(r.Scopes.QuotaKeys) > 0 {
				l.scope = plan.QuotaKey(r.Scopes.QuotaKeys[0])
			}
		}
		if r.Quotas != nil {
			l.quota = -1
			if len(r.Quotas.Limits) > 0 {
				l.quota = int64(r.Quotas.Limits[0].Limit)
			}
		}
		if r.Cap != nil {
			l.cap = capOf(r.Cap)
		}
	}
	find := func(number uint32) *modelKey {
		return a.keys[slices.IndexFunc(a.keys, func(k *modelKey) bool { return k.counts == number && !k.replaced })]
	}
	switch action := c.Action.(type) {
	case *event.Command_SetSpendingCap:
		a.cap = capOf(action.SetSpendingCap.Cap)
	case *event.Command_CreateKey:
		a.several()
		l := &modelLineage{quota: -1}
		k := &modelKey{
			number: a.next, version: 1, fingerprint: action.CreateKey.Fingerprint, counts: a.next, lineage: a.next, created: m.now,
		}
		set(k, l, action.CreateKey.Rules)
		a.lineages[a.next] = l
		a.keys = append(a.keys, k)
		a.next++
	case *event.Command_UpdateKey:
		a.several()
		k := find(action.UpdateKey.Key)
		set(k, a.lineages[k.lineage], action.UpdateKey.Rules)
	case *event.Command_RevokeKey:
		a.several()
		if k := find(action.RevokeKey.Key); k.live(m.now) {
			k.ends = m.now
		}
	case *event.Command_ReplaceKey:
		a.several()
		old, number := find(action.ReplaceKey.Key), a.next
		ends := m.now + action.ReplaceKey.OverlapMs
		a.next++
		made := &modelKey{number: number, version: 1, fingerprint: action.ReplaceKey.Fingerprint, counts: number, lineage: old.lineage, created: m.now}
		if old.expires != 0 {
			made.expires = m.now + old.expires - old.created
			made.ends, ends = made.expires, min(ends, old.expires)
		}
		if old.counts == 0 {
			a.version++
			a.renewed = m.now
			made.number, made.counts, made.version = 0, 0, a.version
			old.counts = number
		}
		old.replaced, old.ends = true, ends
		a.keys = append(a.keys, made)
	}
}
