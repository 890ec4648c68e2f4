package load

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"sync"
)

// burning creates quick pastes that burn after the first read by anyone but their owner. Two clients read each of them at
// the same time, through two bases. Exactly one gets the content, and nobody gets it after that.
type burning struct {
	l      *Load
	owner  *account
	reader *account
	*domain

	mu   sync.Mutex
	kept []*ember // read by Verify only
}

// ember is a quick paste that nobody has read but its owner.
type ember struct {
	id     string
	number int64
}

const (
	// One in keptEvery is kept until the next Verify, at most keptMost.
	keptEvery = 4
	keptMost  = 8
	// burnedTwice is the kind of finding for content returned to two calls.
	burnedTwice = "read again after it burned"
)

func (l *Load) newBurning(ctx context.Context) (*burning, error) {
	b := &burning{l: l}
	b.domain, _, _ = domains()
	var err error
	if b.owner, err = l.newAccount(ctx, "the burning", "admin"); err != nil {
		return nil, err
	}
	b.reader, err = l.newAccount(ctx, "the readers' of the burning", "admin")
	return b, err
}

// step creates a burn-after-read paste, and has it read.
func (b *burning) step(ctx context.Context, w *client, n int) {
	e := &ember{number: b.l.next()}
	body, err := json.Marshal(map[string]any{"content": string(b.content(e.number)), "burnAfterRead": true})
	if err != nil {
		panic(err) // strings can always be encoded
	}
	c := b.createCall(b.owner.key, e.number, w.home)
	c.body = body
	a := b.l.send(ctx, c)
	b.owner.meter("pasteLite.create", a)
	if a.outcome() == refusedOutcome {
		b.l.strange.note(strangeAnswer, "%s", a)
	}
	if !a.acked() {
		return
	}
	e.id = a.id()
	b.readAsOwner(ctx, e, w.home+1)
	if n%keptEvery == 0 && b.keep(e) {
		return
	}
	b.burn(ctx, e, w.home, &b.l.strange)
}

func (b *burning) keep(e *ember) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.kept) >= keptMost {
		return false
	}
	b.kept = append(b.kept, e)
	return true
}

// readAsOwner reads it with its owner's key, which burns nothing.
func (b *burning) readAsOwner(ctx context.Context, e *ember, home int) {
	a := b.l.send(ctx, b.readCall(b.owner.key, e.id, home))
	b.owner.meter("pasteLite.get", a)
	if o := a.outcome(); o == refusedOutcome || o == ackedOutcome && string(b.read(a)) != string(b.content(e.number)) {
		b.l.strange.note("lost", "%s, which its owner alone has read: %s", e.id, a)
	}
}

// burn reads it twice at the same time and once more after that.
func (b *burning) burn(ctx context.Context, e *ember, home int, f *findings) {
	var answers [3]*answer
	var group sync.WaitGroup
	for n := range 2 {
		group.Go(func() { answers[n] = b.l.send(ctx, b.readCall(b.reader.key, e.id, home+n)) })
	}
	group.Wait()
	answers[2] = b.l.send(ctx, b.readCall(b.reader.key, e.id, home+1))
	acked, unsure := 0, false
	for n, a := range answers {
		b.reader.meter("pasteLite.get", a)
		switch o := a.outcome(); {
		case o == ackedOutcome && string(b.read(a)) != string(b.content(e.number)):
			f.note("wrong content", "%s must be %.60q: %s", e.id, b.content(e.number), a)
			acked++
		case o == ackedOutcome:
			if acked++; acked > 1 {
				f.note(burnedTwice, "%s: %s", e.id, a)
			}
		case a.effect() == unknownOutcome, a.overFailed():
			unsure = true
		case o == refusedOutcome && !a.is(http.StatusNotFound, "not_found"):
			f.note(strangeAnswer, "want 404 not_found: %s", a)
		case o == refusedOutcome && n == 2 && acked == 0 && !unsure:
			f.note("lost", "%s burned, and nobody got it: %s", e.id, a)
		}
	}
}

// check burns the kept ones.
func (b *burning) check(ctx context.Context, random *rand.Rand, f *findings) {
	b.mu.Lock()
	kept := b.kept
	b.kept = nil
	b.mu.Unlock()
	for _, e := range kept {
		b.burn(ctx, e, random.IntN(2), f)
	}
}
