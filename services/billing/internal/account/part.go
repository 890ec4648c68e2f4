package account

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"quire.dev/pkg/event"
)

// A part is a fold of some of the principals. Decisions about accounts and networks depend on their own requests and on shared
// state: time, prices, rules, watermarks and the outcomes of commands. So the parts of a journal, folded one after the other,
// reach the state of the whole in a fraction of its memory. Only an id used by two principals would couple them, which
// CoupledError reports: every edge draws its ids at random.

// CoupledError means that principals of two parts used the same request or idempotency id. Decisions about one depend on the
// other, so both must be in the same part.
type CoupledError struct {
	Sequence uint64
	Kept     event.AccountID // of this part
	Other    event.AccountID
}

func (e *CoupledError) Error() string {
	return fmt.Sprintf("message %d names a request of %s and one of %s by the same id", e.Sequence, e.Kept, e.Other)
}

// NewPart is New for the principals whose ids keep selects. keep must be deterministic. Apply fails with a CoupledError if
// other principals are needed. A part's answers lack those for other principals.
func NewPart(keep func(id uint64) bool) *Fold {
	f := New()
	f.keep = keep
	return f
}

// Principals is the number of accounts and networks in the state.
func (s *principals) Principals() int { return len(s.accounts) + len(s.networks) }

// crowded reports whether a part must be split again.
func (f *Fold) crowded() bool { return f.maxPrincipals > 0 && f.Principals() > f.maxPrincipals }

// selection selects the principals of a part; nil: all.
type selection func(id uint64) bool

func (keep selection) has(id uint64) bool { return keep == nil || keep(id) }

// passes reports whether an admission or settlement belongs to another part.
func (f *Fold) passes(id uint64, request, idempotency []byte) bool {
	if f.keep.has(id) {
		return false
	}
	var h *hold
	if len(request) == 16 {
		h = f.holds.byRequest[event.RequestID(request)]
	}
	if h == nil && len(idempotency) == 16 {
		h = f.holds.byIdempotency[event.IdempotencyID(idempotency)]
	}
	if h != nil && f.broken == nil {
		f.broken = &CoupledError{Sequence: f.sequence, Kept: event.AccountID(h.principal.id), Other: event.AccountID(id)}
	}
	return true
}

// errCrowded ends the fold of a part with too many principals.
var errCrowded = errors.New("a part has too many principals")

// Bounds of HashInParts.
const (
	// maxBits bounds how finely the principals are split. Beyond it a part may be larger than requested.
	maxBits = 24
	// maxJoins bounds the restarts after principals turn out to be coupled.
	maxJoins = 64
)

// slice is a part of the principals: those whose mixed ids begin with the bits of prefix.
type slice struct {
	bits   int
	prefix uint64
}

// Whole is the result of folding a whole journal in parts.
type Whole struct {
	Hash     Hash // as StateHash
	Sequence uint64
	Entries  uint64
}

// HashInParts folds a journal in parts of at most maxPrincipals, one after the other. about is their approximate total, if
// known. replay folds the whole journal into the given fold, and returns the errors of Apply other than ErrUndecodable. Its
// arguments include the number of finished passes, and of all passes as far as known.
func HashInParts(about, maxPrincipals int, replay func(fold *Fold, pass, passes int) error) (Whole, error) {
	initial := 0
	for initial < maxBits && about>>initial > maxPrincipals {
		initial++
	}
	together := map[uint64]uint64{}
	for range maxJoins {
		whole, err := hashInParts(initial, maxPrincipals, together, replay)
		var coupled *CoupledError
		if !errors.As(err, &coupled) {
			return whole, err
		}
		join(together, uint64(coupled.Kept), uint64(coupled.Other))
	}
	return Whole{}, fmt.Errorf("%w: more than %d requests share the id of another", ErrParts, maxJoins)
}

func hashInParts(bits, maxPrincipals int, together map[uint64]uint64, replay func(*Fold, int, int) error) (whole Whole, err error) {
	var sum Sum
	var todo []slice
	for prefix := range uint64(1) << bits {
		todo = append(todo, slice{bits, prefix})
	}
	for done := 0; len(todo) > 0; {
		s := todo[0]
		fold := New()
		if s.bits > 0 {
			fold = NewPart(func(id uint64) bool { return s.has(group(together, id)) })
		}
		if s.bits < maxBits {
			fold.maxPrincipals = maxPrincipals
		}
		err := replay(fold, done, done+len(todo))
		if errors.Is(err, errCrowded) {
			todo = append([]slice{{s.bits + 1, s.prefix << 1}, {s.bits + 1, s.prefix<<1 | 1}}, todo[1:]...)
			continue
		}
		if err == nil {
			err = sum.Add(fold)
		}
		if err != nil {
			return Whole{}, err
		}
		whole.Sequence, whole.Entries = fold.Sequence(), fold.Entries()
		todo = todo[1:]
		done++
	}
	whole.Hash, err = sum.Hash()
	return whole, err
}

// has mixes the id, so that ids differing in few bits fall into different parts too.
func (s slice) has(id uint64) bool { return (id*0x9E3779B97F4A7C15)>>(64-s.bits) == s.prefix }

// group returns the representative of all principals coupled with id.
func group(together map[uint64]uint64, id uint64) uint64 {
	if len(together) == 0 {
		return id
	}
	for {
		next, found := together[id]
		if !found {
			return id
		}
		id = next
	}
}

func join(together map[uint64]uint64, a, b uint64) {
	if a, b = group(together, a), group(together, b); a != b {
		together[a] = b
	}
}

// ErrParts means that parts are not of one journal, or were not folded up to the same message.
var ErrParts = errors.New("parts of different states")

// Sum combines parts into the hash of the whole state. It keeps 40 bytes of each principal. The zero value has no parts.
type Sum struct {
	accounts, networks []idLeaf
	global             *event.BillingState
}

type idLeaf struct {
	id   uint64
	leaf Hash
}

// Add adds a part. All parts must have been folded up to the same message, and each principal must be in one of them.
func (s *Sum) Add(f *Fold) error {
	image, err := f.Image()
	if err != nil {
		return err
	}
	part := Sum{global: f.globalState()}
	for _, a := range image.accounts {
		part.accounts = append(part.accounts, idLeaf{a.id, principalLeaf(AccountsField, a.data)})
	}
	for _, n := range image.networks {
		part.networks = append(part.networks, idLeaf{n.id, principalLeaf(NetworksField, n.data)})
	}
	return s.Join(&part)
}

// Join adds the parts of another Sum.
func (s *Sum) Join(other *Sum) error {
	if s.global == nil {
		s.global = other.global
	} else if err := merge(s.global, other.global); err != nil {
		return err
	}
	s.accounts, s.networks = append(s.accounts, other.accounts...), append(s.networks, other.networks...)
	return nil
}

// Hash equals the StateHash of a fold of all principals of the parts.
func (s *Sum) Hash() (Hash, error) {
	global, err := event.Encode(s.global)
	if err != nil {
		return Hash{}, err
	}
	var t tree
	for _, list := range [][]idLeaf{s.accounts, s.networks} {
		slices.SortFunc(list, func(a, b idLeaf) int { return cmp.Compare(a.id, b.id) })
		for _, p := range list {
			t.add(p.leaf)
		}
	}
	t.add(leafOf(tagGlobal, global))
	return t.root(), nil
}

// merge fills in the answers of another part. Everything else must be equal.
func merge(into, from *event.BillingState) error {
	if into.Sequence != from.Sequence || len(into.Sources) != len(from.Sources) || len(into.Commands) != len(from.Commands) {
		return ErrParts
	}
	for i, s := range into.Sources {
		other := from.Sources[i]
		if s.Source != other.Source {
			return ErrParts
		}
		var err1, err2 error
		s.LastAnswer, err1 = mergeVerdicts(s.LastAnswer, other.LastAnswer)
		s.LastCommandAnswer, err2 = mergeOutcomes(s.LastCommandAnswer, other.LastCommandAnswer)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
	}
	for i, c := range into.Commands {
		if c.Outcome.GetStatus() == event.CommandStatus_COMMAND_UNSPECIFIED {
			c.Outcome = from.Commands[i].Outcome
		}
	}
	return nil
}

func mergeVerdicts(into, from []byte) ([]byte, error) {
	var a, b event.VerdictBatch
	if err := errors.Join(a.UnmarshalVT(into), b.UnmarshalVT(from)); err != nil {
		return nil, err
	}
	if len(a.Verdicts) != len(b.Verdicts) {
		return nil, ErrParts
	}
	for i, v := range a.Verdicts {
		if v.Decision == event.Decision_DECISION_UNSPECIFIED {
			a.Verdicts[i] = b.Verdicts[i]
		}
	}
	return marshalOrNil(len(into), a.MarshalVT)
}

func mergeOutcomes(into, from []byte) ([]byte, error) {
	var a, b event.CommandOutcomeBatch
	if err := errors.Join(a.UnmarshalVT(into), b.UnmarshalVT(from)); err != nil {
		return nil, err
	}
	if len(a.Outcomes) != len(b.Outcomes) {
		return nil, ErrParts
	}
	for i, o := range a.Outcomes {
		if o.Status == event.CommandStatus_COMMAND_UNSPECIFIED {
			a.Outcomes[i] = b.Outcomes[i]
		}
	}
	return marshalOrNil(len(into), a.MarshalVT)
}

// marshalOrNil keeps nil for a missing answer.
func marshalOrNil(before int, marshal func() ([]byte, error)) ([]byte, error) {
	if before == 0 {
		return nil, nil
	}
	return marshal()
}

// RestorePart is Restore for a state that contains only the principals selected by keep.
func RestorePart(s *event.BillingState, keep func(id uint64) bool) (*Fold, error) {
	f, err := Restore(s)
	if err == nil {
		f.keep = keep
	}
	return f, err
}
