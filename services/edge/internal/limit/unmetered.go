package limit

import (
	"net/netip"
	"time"

	"quire.dev/pkg/event"
)

// unmeteredBurst is the size of a burst, in seconds of the rate.
const unmeteredBurst = 10

// Unmetered limits calls that no quota counts, per account, API key and network. A key has its own limit first, so that a
// revoked key can't exhaust its account's limit.
type Unmetered struct {
	PerSecond int64

	networks *Networks // accounts and keys are in Networks.Sources: their ids are as random as the hashes of networks
}

// NewUnmetered returns a limit; nil, which limits nothing, for a rate of 0.
func NewUnmetered(hash Hash, perSecond int) *Unmetered {
	if perSecond == 0 {
		return nil
	}
	return &Unmetered{
		PerSecond: int64(perSecond),
		networks:  NewNetworks(hash, float64(perSecond), unmeteredBurst*perSecond, int64(perSecond)),
	}
}

// Turn is what a call has taken from Unmetered's limits; the zero value is nothing. Keep or Return ends it.
type Turn struct {
	key, account, source, site event.AccountID // 0: not taken
}

// TakeNetwork takes a call of a client's network. Over the limit, it takes nothing and returns the limit and the seconds to
// wait, at least 1.
func (u *Unmetered) TakeNetwork(t *Turn, client netip.Addr, now time.Time) (limit int64, seconds int) {
	source := u.networks.hash.source(client)
	if seconds := u.networks.Sources.Take(source, now); seconds > 0 {
		return u.PerSecond, seconds
	}
	if client.Is6() {
		site := u.networks.hash.site(client)
		if seconds := u.networks.Sites.Take(site, now); seconds > 0 {
			u.networks.Sources.Return(source)
			return u.PerSecond * sourcesOfSite, seconds
		}
		t.site = site
	}
	t.source = source
	return 0, 0
}

// TakeAccount takes a call of an account. key is the fingerprint of its API key, 0 for a session. Over the limit, it takes
// nothing and returns the seconds to wait.
func (u *Unmetered) TakeAccount(t *Turn, account event.AccountID, key uint64, now time.Time) (seconds int) {
	if key != 0 {
		if seconds := u.networks.Sources.Take(event.AccountID(key), now); seconds > 0 {
			return seconds
		}
		t.key = event.AccountID(key)
	}
	if seconds := u.networks.Sources.Take(account, now); seconds > 0 {
		u.give(&t.key, u.networks.Sources.Return)
		return seconds
	}
	t.account = account
	return 0
}

// Keep counts the call.
func (u *Unmetered) Keep(t *Turn) { u.end(t, u.networks.Sources.Keep, u.networks.Sites.Keep) }

// Return gives the call back, since a quota counts it.
func (u *Unmetered) Return(t *Turn) { u.end(t, u.networks.Sources.Return, u.networks.Sites.Return) }

// ReturnAccount gives back the account's share: the key did not belong to the account.
func (u *Unmetered) ReturnAccount(t *Turn) { u.give(&t.account, u.networks.Sources.Return) }

func (u *Unmetered) end(t *Turn, caller, site func(event.AccountID)) {
	u.give(&t.key, caller)
	u.give(&t.account, caller)
	u.give(&t.source, caller)
	u.give(&t.site, site)
}

func (u *Unmetered) give(taken *event.AccountID, to func(event.AccountID)) {
	if *taken != 0 {
		to(*taken)
		*taken = 0
	}
}

// Drain returns the calls since the last Drain: of accounts, keys and sources, and of sites. A nil limit has none.
func (u *Unmetered) Drain() (callers, sites []*event.SourceCount) {
	if u == nil {
		return nil, nil
	}
	return u.networks.Sources.Drain(), u.networks.Sites.Drain()
}

// Merge counts calls admitted by another edge.
func (u *Unmetered) Merge(callers, sites []*event.SourceCount, now time.Time) {
	if u != nil {
		u.networks.Sources.Merge(callers, now)
		u.networks.Sites.Merge(sites, now)
	}
}
