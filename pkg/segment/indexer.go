package segment

import (
	"encoding/binary"
	"fmt"
	"slices"

	"quire.dev/pkg/num"
)

// indexer collects the index of a segment while its messages pass.
type indexer struct {
	options *Options
	found   Mentions // of one message; reused

	accounts, networks principals
	frames             []indexed
	times, requests    span
	chain              Hash
	first, next        uint64 // next is 0 without a message
	bound              int    // of the encoded index
}

// indexed is a frame. The principals are numbered in order of appearance until the segment ends.
type indexed struct {
	frame
	accounts, networks []uint32
}

func newIndexer(options *Options, before Hash) *indexer {
	return &indexer{
		options: options, chain: before, bound: 2*(1+maxNameBytes) + 16,
		accounts: principals{numbers: map[uint64]uint32{}}, networks: principals{numbers: map[uint64]uint32{}},
	}
}

// inspect returns what the index will have of the message, and ErrFull if there is no space for that.
func (x *indexer) inspect(m Message) (*Mentions, error) {
	x.found = Mentions{Accounts: x.found.Accounts[:0], Networks: x.found.Networks[:0]}
	if x.options.Mentions != nil {
		x.options.Mentions(m, &x.found)
	}
	accounts, networks := len(x.found.Accounts), len(x.found.Networks)
	if x.bound+maxFrameEntry+(accounts+networks)*maxPrincipalEntry > maxIndexBytes ||
		len(x.accounts.ids)+accounts > maxPrincipals || len(x.networks.ids)+networks > maxPrincipals {
		if x.next == 0 {
			return nil, fmt.Errorf("%w: message %d mentions %d accounts and %d networks", ErrInvalid, m.Sequence, accounts, networks)
		}
		return nil, ErrFull
	}
	return &x.found, nil
}

// begin begins a frame at a message.
func (x *indexer) begin(m Message) {
	x.frames = append(x.frames, indexed{frame: frame{first: m.Sequence, earliest: m.TimeNanos, latest: m.TimeNanos, before: x.chain}})
	x.bound += maxFrameEntry
}

// add adds a message to the last frame.
func (x *indexer) add(m Message, found *Mentions) {
	if x.next == 0 {
		x.first = m.Sequence
	}
	x.next = m.Sequence + 1
	f, number := &x.frames[len(x.frames)-1], num.Uint32(len(x.frames))
	f.last = m.Sequence
	f.earliest, f.latest = min(f.earliest, m.TimeNanos), max(f.latest, m.TimeNanos)
	f.requests.add(span{lowest: found.lowest, highest: found.highest, any: found.requests})
	x.times.add(span{lowest: m.TimeNanos, highest: m.TimeNanos, any: true})
	x.requests.add(f.requests)
	ids, places := len(x.accounts.ids)+len(x.networks.ids), len(f.accounts)+len(f.networks)
	f.accounts = x.accounts.add(f.accounts, found.Accounts, number)
	f.networks = x.networks.add(f.networks, found.Networks, number)
	x.bound += (len(x.accounts.ids) + len(x.networks.ids) - ids) * binary.MaxVarintLen64
	x.bound += (len(f.accounts) + len(f.networks) - places) * maxPositionBytes
	x.chain = x.options.Chain(x.chain, m)
}

// encode returns the encoded index, and fills in the trailer what follows from the messages.
func (x *indexer) encode(stream string, t *trailer) []byte {
	out := &index{installation: x.options.Installation, stream: stream}
	var accounts, networks []uint32
	out.accounts, accounts = x.accounts.sorted()
	out.networks, networks = x.networks.sorted()
	t.before, t.after = x.frames[0].before, x.chain
	t.first, t.last, t.messages = x.first, x.next-1, x.next-x.first
	t.earliest, t.latest, t.requests = x.times.lowest, x.times.highest, x.requests
	for _, f := range x.frames {
		f.frame.accounts = appendPositions(nil, positions(f.accounts, accounts))
		f.frame.networks = appendPositions(nil, positions(f.networks, networks))
		out.frames = append(out.frames, f.frame)
	}
	return appendIndex(nil, out, t)
}

// principals numbers ids in order of appearance.
type principals struct {
	numbers map[uint64]uint32
	ids     []uint64
	frames  []uint32 // by number: the last frame with the id, counted from 1
}

// add adds ids to a frame's set, without duplicates.
func (p *principals) add(set []uint32, ids []uint64, frame uint32) []uint32 {
	for _, id := range ids {
		n, ok := p.numbers[id]
		if !ok {
			n = num.Uint32(len(p.ids))
			p.numbers[id] = n
			p.ids, p.frames = append(p.ids, id), append(p.frames, 0)
		}
		if p.frames[n] != frame {
			p.frames[n] = frame
			set = append(set, n)
		}
	}
	return set
}

// sorted returns the ids in ascending order, and the position of each number there.
func (p *principals) sorted() (ids []uint64, position []uint32) {
	ids = slices.Sorted(slices.Values(p.ids))
	position = make([]uint32, len(ids))
	for i, id := range ids {
		position[p.numbers[id]] = uint32(i)
	}
	return ids, position
}

// positions returns a set of numbers as ascending positions.
func positions(set, position []uint32) []uint32 {
	out := make([]uint32, len(set))
	for i, n := range set {
		out[i] = position[n]
	}
	slices.Sort(out)
	return out
}
