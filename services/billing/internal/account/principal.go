package account

import (
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// principal makes requests: an account or an anonymous network. It holds their common fields.
type principal struct {
	id       uint64
	account  *account // one of the two
	network  *network
	open     holdList
	closed   holdList // remembered
	failures []int64  // times of failed calls in the last minute
	late     []lateWrite
	dirty    bool
	gone     bool
	encoded  []byte // the state when the principal was last clean, immutable since images share it
	openBy   [plan.KeyCount]uint32
	openPaid uint32 // open holds that credits paid

	// holding counts the holds that may still be voided and whose void makes room for others: all but the movable ones.
	holding  [plan.KeyCount]uint32
	latePaid uint32 // movable holds served by a time-out that a settlement may still void
}

type account struct {
	principal
	tier        plan.Tier
	created     int64
	keyVersion  uint32
	fingerprint uint64
	keyPrefix   string
	keyCreated  int64

	suspended        int64 // since when; 0: not suspended
	suspensionReason string
	deletes          int64     // earliest erasure; 0: not to be deleted
	erased           int64     // since when; 0: not erased
	nextTier         plan.Tier // from the end of the month on; 0: the same

	quarantined      int64 // since when; 0: not in quarantine
	quarantineReason string

	month     uint32 // number of the month counted by current
	current   counters
	previous  *counters // nil: all are zero
	tierThen  plan.Tier // at the end of the previous month
	termsThen uint64    // terms at the end of the previous month
	grants    []*grant  // in the order of spending
	available int64     // total left in the grants
	owed      int64     // of reversed payments: then nothing is available
	settled   int64     // the ledger's balance: available, plus what open holds have taken, minus what is owed
	entries   uint64    // in the ledger
	receipt   receipt
	listed    bool // for TakeReceipts

	purchases     purchases
	subscriptions []*event.SetSubscription // by creation: all active ones, and the newest ended ones; immutable
	topUp         *event.TopUpState        // nil: never set

	terms uint64     // sequence of the last change of tier, prices or rules applied to the account
	paid  []paidList // served paid requests that voids may make free

	alerts *alerts // nil: no webhooks

	keys     *keyring // nil: only the default key, without rules
	keyUsed  int64    // last admission with the default key
	spending spending

	storageBytes uint64
	storageSince int64 // time up to which storageBytes is in the integrals
}

// counters are the counters of one month.
type counters struct {
	used       [plan.KeyCount]uint64 // requests
	charges    *charges              // nil: all are zero, as for most accounts
	byteMillis uint128
	days       *storageDays // byteMillis by day; nil: all are zero
	bill       *bill        // nil: nothing to tell beside the counters
}

// charges count what credits paid in a month, by quota key.
type charges struct {
	overage  [plan.KeyCount]uint64 // requests paid by credits
	paid     [plan.KeyCount]uint64 // overage paid under the present terms
	spent    [plan.KeyCount]uint64 // micro-credits
	waived   [plan.KeyCount]uint64 // requests charged late that the account could not pay
	refunded [plan.KeyCount]uint64 // of spent, by admins
	refunds  []refund              // of single requests, oldest first
}

func (c *counters) zero() bool {
	return c == nil || *c == counters{charges: c.charges} && c.charges.zero()
}

func (of *charges) zero() bool {
	var none [plan.KeyCount]uint64
	return of == nil || of.overage == none && of.paid == none && of.spent == none && of.waived == none && of.refunded == none && len(of.refunds) == 0
}

// charged returns the charges of a quota key.
func (c *counters) charged(key plan.QuotaKey) (overage, paid, spent, waived uint64) {
	if of := c.charges; of != nil {
		return of.overage[key], of.paid[key], of.spent[key], of.waived[key]
	}
	return 0, 0, 0, 0
}

// charging returns the charges to be changed.
func (c *counters) charging() *charges {
	if c.charges == nil {
		c.charges = &charges{}
	}
	return c.charges
}

type network struct {
	principal
	admitted []int64 // times of the admissions in the window, oldest first
}

type networkTime struct {
	time    int64
	network *network
}

type principalTime struct {
	time      int64
	principal *principal
}

func newPrincipal(id uint64) principal {
	return principal{id: id, open: holdList{kind: linkPrincipal}, closed: holdList{kind: linkPrincipal}}
}

// principals are the accounts and networks of a fold, and the queues by which it forgets parts of them.
type principals struct {
	*base
	accounts map[uint64]*account
	networks map[uint64]*network
	admitted fifo[networkTime]
	failures fifo[principalTime]
	late     fifo[principalTime]
}

func newPrincipals(b *base) principals {
	return principals{base: b, accounts: map[uint64]*account{}, networks: map[uint64]*network{}}
}

func (s *principals) network(id uint64) *network {
	n := s.networks[id]
	if n == nil {
		n = &network{principal: newPrincipal(id)}
		n.principal.network = n
		s.networks[id] = n
	}
	return n
}

// touch marks the principal as changed, so that it is hashed again.
func (b *base) touch(p *principal) {
	b.changing = p
	if a := p.account; a != nil && a.topUp != nil && (len(b.watched) == 0 || b.watched[len(b.watched)-1] != a) {
		b.watched = append(b.watched, a)
	}
	if !p.dirty {
		p.dirty = true
		b.dirty = append(b.dirty, p)
	}
}

// reap forgets a network with nothing left to remember.
func (s *principals) reap(p *principal) {
	n := p.network
	if n == nil || len(n.admitted) > 0 || len(p.failures) > 0 || len(p.late) > 0 || p.open.count > 0 || p.closed.count > 0 {
		return
	}
	s.touch(p)
	p.gone = true
	delete(s.networks, p.id)
}

// fail counts a failed call.
func (s *principals) fail(p *principal) {
	s.touch(p)
	p.failures = append(p.failures, s.time)
	s.failures.push(principalTime{s.time, p})
}

// trim drops expired failures and voided writes; trimAdmitted drops admissions.
func (s *principals) trim() {
	for s.failures.len() > 0 && s.failures.first().time+FailureMillis <= s.time {
		s.trimFailures(s.failures.pop())
	}
	for s.late.len() > 0 && s.late.first().time+LateMillis <= s.time {
		s.trimLate(s.late.pop())
	}
}

func (s *principals) trimFailures(at principalTime) {
	p := at.principal
	if p.gone || len(p.failures) == 0 || p.failures[0] > at.time {
		return
	}
	s.touch(p)
	p.failures = dropUntil(p.failures, at.time)
	s.reap(p)
}

// trimAdmitted removes admissions that have left the rolling window from the networks' logs.
func (s *principals) trimAdmitted(windowMillis int64) {
	for s.admitted.len() > 0 && s.admitted.first().time+windowMillis <= s.time {
		at := s.admitted.pop()
		n := at.network
		if n.gone || len(n.admitted) == 0 || n.admitted[0] > at.time {
			continue
		}
		s.touch(&n.principal)
		n.admitted = dropUntil(n.admitted, at.time)
		s.reap(&n.principal)
	}
}

// dropUntil removes the times up to last.
func dropUntil(times []int64, last int64) []int64 {
	n := 0
	for n < len(times) && times[n] <= last {
		n++
	}
	return slices.Delete(times, 0, n)
}
