package limit

import (
	"net/netip"
	"time"

	"quire.dev/pkg/event"
)

// unmeteredBurst is how many seconds of the rate may be used at once.
const unmeteredBurst = 10

// Unmetered limits the calls that no quota counts: those of each account, of each API key and of each network. A key is limited by
// itself first, so that one that is no longer valid can't use up what its account may do.
type Unmetered struct {
	PerSecond int64

	networks *Networks // accounts and keys are in Networks.Sources: their ids are as random as the hashes of networks
}

// NewUnmetered makes a limit; nil for a rate of 0, which is none.
func NewUnmetered(hash Hash, perSecond int) *Unmetered {
	if perSecond == 0 {
		return nil
	}
	return &Unmetered{
		PerSecond: int64(perSecond),
		networks:  NewNetworks(hash, float64(perSecond), unmeteredBurst*perSecond, int64(perSecond)),
	}
}

// Turn is what a call has taken of Unmetered. Its zero value is nothing; Keep or Return ends it.
type Turn struct {
	key, account, source, site event.AccountID // 0: not taken
}

// TakeNetwork takes a call of a client. If too many were made it takes none, and returns the limit that was reached and the seconds
// until the next call may be made, which are above 0.
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

// TakeAccount takes a call of an account. key is the fingerprint of its API key, 0 for a session. If too many were made it takes none,
// and returns the seconds until the next call may be made.
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

// Keep makes the call count.
func (u *Unmetered) Keep(t *Turn) { u.end(t, u.networks.Sources.Keep, u.networks.Sites.Keep) }

// Return gives the call back, since a quota counts it.
func (u *Unmetered) Return(t *Turn) { u.end(t, u.networks.Sources.Return, u.networks.Sites.Return) }

// ReturnAccount gives back what the account has of the call: the key was not the account's.
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

// Drain returns the calls since the last time, of accounts, keys and sources and of sites. None of a nil limit.
func (u *Unmetered) Drain() (callers, sites []*event.SourceCount) {
	if u == nil {
		return nil, nil
	}
	return u.networks.Sources.Drain(), u.networks.Sites.Drain()
}

// Merge counts what another edge has let through.
func (u *Unmetered) Merge(callers, sites []*event.SourceCount, now time.Time) {
	if u != nil {
		u.networks.Sources.Merge(callers, now)
		u.networks.Sites.Merge(sites, now)
	}
}
