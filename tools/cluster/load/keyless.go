package load

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"sync"

	"quire.dev/pkg/num"
)

// keyless creates quick pastes without a key. Each source may create keylessLimit of them in 24 hours, whichever edges it
// uses, and however many of its calls are in flight.
type keyless struct {
	l     *Load
	pool  shop // its owner has no key
	mu    sync.Mutex
	guest *guest
}

// keylessLimit is the default of QUIRE_ANON_LIMIT.
const keylessLimit = 10

const codeAnonymous = "anonymous_limit"

// guest is a source of keyless creations. Several clients use it at the same time.
type guest struct {
	address string
	begun   int // creations that clients have started
	acked   int
	cleared int // creations that had no effect: refused, or answered 503
	refused int // of these, because of the limit
}

// guestRefusals is how often the limit refuses a source before clients use another one.
const guestRefusals = 3

func (l *Load) newKeyless() *keyless {
	lite, _, _ := domains()
	return &keyless{l: l, pool: shop{l: l, domain: lite, owner: l.reader}}
}

// newSource is an address that no other client uses, of a network for documentation (RFC 3849) or for measurements (RFC
// 2544).
func (l *Load) newSource(random *rand.Rand) string {
	number := num.Uint32(l.next())
	if random.IntN(2) == 0 {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], 198<<24|18<<16|number&(1<<17-1))
		return netip.AddrFrom4(a).String()
	}
	// The limit is for the /64, which the first eight bytes name. A /48, the first six, has another limit for all its sources.
	a := [16]byte{0x20, 0x01, 0x0d, 0xb8}
	binary.BigEndian.PutUint32(a[4:], number<<16|number>>16)
	binary.BigEndian.PutUint64(a[8:], random.Uint64())
	return netip.AddrFrom16(a).String()
}

// step creates a quick paste. The limit must refuse it if and only if the source has used it up.
func (k *keyless) step(ctx context.Context, w *client, n int) {
	g, clearedBefore := k.begin(w)
	number := k.l.next()
	c := k.pool.createCall("", number, w.home+n)
	c.source = g.address
	var a *answer
	if n%2 == 0 {
		c.idempotency = k.l.newKey()
		var err error
		if a, err = k.l.retry(ctx, c, nil); err != nil {
			return // it may have happened
		}
	} else {
		a = k.l.send(ctx, c)
	}
	k.end(g, a, clearedBefore)
	if a.acked() {
		k.pool.shelf.put(w.random, a.id(), number)
	}
}

func (k *keyless) begin(w *client) (g *guest, clearedBefore int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.guest == nil || k.guest.refused >= guestRefusals {
		k.guest = &guest{address: k.l.newSource(w.random)}
	}
	k.guest.begun++
	return k.guest, k.guest.cleared
}

// end notes the answer to a creation. clearedBefore is the number of creations without an effect before this one began.
func (k *keyless) end(g *guest, a *answer, clearedBefore int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch o := a.outcome(); {
	case o == ackedOutcome:
		if g.acked++; g.acked > keylessLimit {
			k.l.strange.note("admitted beyond the limit", "number %d of source %s: %s", g.acked, g.address, a)
		}
	case a.is(http.StatusTooManyRequests, codeAnonymous):
		// All other creations that may have held part of the limit while this call was decided.
		if others := g.begun - 1 - clearedBefore; others < keylessLimit {
			k.l.strange.note("refused below the limit", "at most %d others of source %s count: %s", others, g.address, a)
		}
		g.cleared++
		g.refused++
	case o == unavailableOutcome:
		g.cleared++
	case a.effect() == refusedOutcome && !a.inFlight():
		g.cleared++
		k.l.strange.note(strangeAnswer, "%s", a)
	}
}
