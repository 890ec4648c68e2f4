package limit

import (
	"net/netip"
	"time"

	"quire.dev/pkg/event"
)

const (
	sourceBytes = 8  // of an IPv6 address: a /64
	siteBits    = 48 // a /48, which one client may control (RFC 6177)

	sourcesOfSite = 16 // sources' worth of limit for an IPv6 /48, which has 65,536
)

// Hash identifies a network in limits and messages. It is keyed, so that messages don't reveal addresses.
type Hash func(network []byte) event.AccountID

// Source is the part of an address that identifies a client: an IPv4 address or an IPv6 /64. It is empty for a peer without
// an address.
func Source(client netip.Addr) []byte {
	if client.Is6() {
		return client.AsSlice()[:sourceBytes]
	}
	return client.AsSlice()
}

func (hash Hash) source(client netip.Addr) event.AccountID { return hash(Source(client)) }

// site is the hash of an IPv6 /48.
func (hash Hash) site(client netip.Addr) event.AccountID {
	return hash(client.AsSlice()[:siteBits/8])
}

// Networks limits the rate of each source and of each IPv6 /48, which has the limit of 16 sources.
type Networks struct {
	hash           Hash
	Sources, Sites *Rate
	Limit          int64 // of a source, as refusals name it
}

// NewNetworks limits sources to perSecond on average, with bursts of burst. Refusals report limit.
func NewNetworks(hash Hash, perSecond float64, burst int, limit int64) *Networks {
	return &Networks{
		hash: hash, Limit: limit,
		Sources: NewRate(perSecond, burst), Sites: NewRate(perSecond*sourcesOfSite, burst*sourcesOfSite),
	}
}

// Admit counts a call. If the source or its site is over the limit, it returns that limit and the seconds to wait, at
// least 1, and counts nothing.
func (n *Networks) Admit(client netip.Addr, now time.Time) (limit int64, seconds int) {
	source := n.hash.source(client)
	if seconds := n.Sources.Take(source, now); seconds > 0 {
		return n.Limit, seconds
	}
	if client.Is6() {
		if seconds := n.Sites.Admit(n.hash.site(client), now); seconds > 0 {
			n.Sources.Return(source)
			return n.Limit * sourcesOfSite, seconds
		}
	}
	n.Sources.Keep(source)
	return 0, 0
}
