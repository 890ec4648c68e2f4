package limit

import (
	"net/netip"
	"time"

	"quire.dev/pkg/event"
)

const (
	sourceBytes = 8  // of an IPv6 address: a /64
	siteBits    = 48 // what one client may have many sources of (RFC 6177)

	sourcesOfSite = 16 // an IPv6 /48 may do as much as so many of its sources, of which it has 65,536
)

// Hash stands for a network in limits and messages. It is keyed, so that no other edge learns an address.
type Hash func(network []byte) event.AccountID

// Source is the part of a client's address by which sources are told apart: an IPv4 address or an IPv6 /64. It is empty for a peer
// without an address.
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

// Networks limits how often each source may do something, and each IPv6 /48: as often as 16 sources.
type Networks struct {
	hash           Hash
	Sources, Sites *Rate
	Limit          int64 // of a source, as refusals name it
}

// NewNetworks makes a limit of burst at once and perSecond on the average. limit is what refusals name it.
func NewNetworks(hash Hash, perSecond float64, burst int, limit int64) *Networks {
	return &Networks{
		hash: hash, Limit: limit,
		Sources: NewRate(perSecond, burst), Sites: NewRate(perSecond*sourcesOfSite, burst*sourcesOfSite),
	}
}

// Admit counts a call. If the source or its site has made too many it counts none, and returns the limit that was reached and the
// seconds until the next call may be made, which are above 0.
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
