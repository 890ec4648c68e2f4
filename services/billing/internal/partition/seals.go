package partition

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/num"
	"quire.dev/pkg/proof"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/seal"
)

const (
	sealCheck = 200 * time.Millisecond
	// sealedAccounts is how many changed accounts bring the next seal early, so that its tree is quick to compute.
	sealedAccounts = 10_000
	earlySeal      = time.Second
	// sealRetry is the pause after a month's trees could not be written or read.
	sealRetry = 10 * time.Second
	// keptSeals is how many seals can be shown to accounts: the log must have one of them.
	keptSeals = 8
	// sealMargin is how long before the end of the month that follows one its statements are last sealed: a seal may arrive late.
	sealMargin = time.Hour
)

// sealing is what a partition knows of its seals.
type sealing struct {
	mu         sync.Mutex
	on         bool // while keepSeals runs
	arrived    []sealed
	last       time.Time // when a seal arrived or was sent
	unanswered int       // seals sent since one arrived
	kept       []sealed  // newest last
	points     seal.Points

	// Owned by keepSeals.
	committed *proof.Root // by the newest seal; nil: none is known
	month     string      // sealed; the ones before are too, or never will be
	ready     string      // month of statements, to be sealed
	statement proof.Tree
	retry     time.Time
}

// sealed is a message with a seal.
type sealed struct {
	message  journal.Message
	seal     *event.Seal
	changed  []account.Receipt // since the seal before, until they are in points
	accounts proof.Tree        // that the seal commits to
}

// take takes what a seal commits to from the fold, right after its message.
func (s *sealing) take(m journal.Message, of *event.Seal, f *account.Fold, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.on {
		return
	}
	m.Data = bytes.Clone(m.Data)
	s.arrived = append(s.arrived, sealed{message: m, seal: of, changed: f.TakeReceipts()})
	s.last, s.unanswered = now, 0
}

// keepSeals publishes seals until ctx ends, one per SealInterval while receipts change, and seals each month after its close. The
// other replicas of this partition do so too. With random graces one seal serves them all.
func (p *Partition) keepSeals(ctx context.Context) error {
	s := &p.sealing
	s.mu.Lock()
	s.on, s.last = true, p.deps.Clock()
	s.mu.Unlock()
	interval := p.cfg.SealInterval + rand.N(p.cfg.SealInterval/8)
	ticker := time.NewTicker(sealCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		p.addSeals(ctx)
		if err := p.sealMonth(ctx); err != nil && ctx.Err() == nil {
			s.retry = p.deps.Clock().Add(sealRetry)
			p.log.Warn("statements are not sealed yet", "retry_in", sealRetry, "error", err)
		}
		if !p.sealIsDue(interval) {
			continue
		}
		if err := p.publishSeal(ctx); err != nil && ctx.Err() == nil {
			p.log.Warn("seal not sent", "error", err)
		}
	}
}

// addSeals computes the trees of the seals that have arrived.
func (p *Partition) addSeals(ctx context.Context) {
	s := &p.sealing
	s.mu.Lock()
	arrived := s.arrived
	s.arrived = nil
	s.mu.Unlock()
	for _, one := range arrived {
		point, known := s.points.At(one.seal.Sequence)
		root, ok := seal.Root(one.seal.Accounts)
		right := known && ok && root == point.Root
		if known && !right || !p.rightMonths(one.seal) {
			p.deps.Metrics.wrongSeals.Inc()
			p.log.Error("seal with a wrong root: run an audit", "sequence", one.message.Sequence)
			right = false
		}
		s.mu.Lock()
		s.points.Add(one.message.Sequence, one.changed)
		if one.changed = nil; right {
			s.committed, one.accounts = &root, point.Accounts
			if point.Accounts.Root() == root { // else it came late, and is too old to be shown
				s.keep(one, p.cfg.SealInterval/2)
			}
		}
		s.mu.Unlock()
		for _, tree := range one.seal.Statements {
			if !right {
				break // it is not known whether the seal is right: the month is sealed again
			}
			if err := p.noteMonth(ctx, seal.Period(tree.Month), one); err != nil {
				p.log.Warn("a sealed month is not noted: it will be sealed again", "month", tree.Month, "error", err)
			}
		}
	}
}

// keep keeps a seal for proofs. Of seals that follow each other sooner than apart only every so many are kept, so that the log has one of them.
func (s *sealing) keep(one sealed, apart time.Duration) {
	if n := len(s.kept); n > 1 && s.kept[n-1].message.Time.Sub(s.kept[n-2].message.Time) < apart {
		s.kept = s.kept[:n-1]
	}
	s.kept = append(s.kept[max(0, len(s.kept)+1-keptSeals):], one)
}

// rightMonths reports whether a seal has the root of the month that is ready here.
func (p *Partition) rightMonths(of *event.Seal) bool {
	for _, tree := range of.Statements {
		if root, ok := seal.Root(tree); seal.Period(tree.Month) == p.sealing.ready && (!ok || root != p.sealing.statement.Root()) {
			return false
		}
	}
	return true
}

// sealIsDue reports whether there is something to commit to, and it is time.
func (p *Partition) sealIsDue(interval time.Duration) bool {
	p.mu.Lock()
	changed, rules, accounts := p.fold.ChangedReceipts(), p.fold.Rules(), p.fold.Accounts()
	p.mu.Unlock()
	s := &p.sealing
	point, known := s.points.Newest()
	now := p.deps.Clock()
	open := !known && accounts > 0 || known && (s.committed == nil || point.Root != *s.committed) || s.ready != "" && !now.Before(s.retry)
	if rules < account.Rules5 || changed == 0 && !open {
		return false
	}
	if changed >= sealedAccounts {
		interval = min(interval, earlySeal)
	}
	return s.isTime(now, interval)
}

// isTime reports whether the pause after the last seal is over: interval, and twice as long after each seal that has not arrived.
// While a journal answers late, or the fold is behind it, all of those may still arrive, and each may refer to a seal before all.
func (s *sealing) isTime(now time.Time, interval time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Sub(s.last) >= interval<<min(s.unanswered, 16)
}

// publishSeal commits to the newest point that is known, and to the month that is ready. A seal that gets lost is sent again.
func (p *Partition) publishSeal(ctx context.Context) error {
	s := &p.sealing
	of := &event.Seal{Partitions: num.Uint32(p.cfg.Partitions)}
	if point, known := s.points.Newest(); known {
		of.Sequence, of.Accounts = point.Sequence, seal.Of(point.Root, "")
		if now := p.deps.Clock(); s.ready != "" && !now.Before(s.retry) {
			s.retry = now.Add(sealRetry) // unless the month is noted by then
			if err := p.storeMonth(ctx, s.ready, point); err != nil {
				p.log.Warn("statements are not sealed yet", "retry_in", sealRetry, "error", err)
			} else {
				of.Statements = []*event.SealedTree{seal.Of(s.statement.Root(), s.ready)}
			}
		}
	}
	batch := p.tickBatch()
	batch.Seal = of
	data, err := event.Encode(batch)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.last, s.unanswered = p.deps.Clock(), s.unanswered+1
	s.mu.Unlock()
	p.publish(event.UsageSubject(p.cfg.Partition), data)
	return nil
}

// sealMonth computes the statements' tree of the newest closed month, unless it is sealed.
func (p *Partition) sealMonth(ctx context.Context) error {
	s := &p.sealing
	p.mu.Lock()
	period, rules := p.fold.LastClosed(), p.fold.Rules()
	p.mu.Unlock()
	if begin, err := time.Parse("2006-01", period); err == nil && !p.deps.Clock().Before(begin.AddDate(0, 2, 0).Add(-sealMargin)) {
		s.month, s.ready, s.statement = period, "", proof.Tree{} // too late
	}
	if period == s.month || period == s.ready || rules < account.Rules5 || p.deps.Clock().Before(s.retry) {
		return nil
	}
	s.ready, s.statement = "", proof.Tree{}
	if period == "" {
		return nil
	}
	if _, found, err := p.sealOf(ctx, period); found || err != nil {
		if found {
			s.month = period
		}
		return err
	}
	tree, all, err := seal.Statements(ctx, p.fold, period, func(read func()) {
		p.mu.Lock()
		defer p.mu.Unlock()
		read()
	})
	switch {
	case err != nil:
		return err
	case !all || tree.Root() == proof.Root{}:
		s.month = period // too late, or nobody has a statement
	default:
		s.ready, s.statement = period, tree
	}
	return nil
}

// monthNote is what the blob store has about a sealed month: the message with the seal, and its accounts tree.
type monthNote struct {
	Sequence uint64 `json:"sequence"`
	Accounts []byte `json:"accounts"` // hash of the root
}

// monthPrefix is the prefix of everything about a month's seal in the blob store. Billing's user may write there.
func (p *Partition) monthPrefix(period string) string {
	return "billing/seals/" + p.stream + "-" + period
}

func (p *Partition) noteKey(period string) string { return p.monthPrefix(period) + "/note" }

// treeKey is the key of one of a month's trees, by the hash of its root.
func (p *Partition) treeKey(period, tree string, root proof.Root) string {
	return fmt.Sprintf("%s/%s-%x", p.monthPrefix(period), tree, root.Hash)
}

// Trees of a month in the blob store.
const (
	accountsTree   = "accounts"
	statementsTree = "statements"
)

// storeMonth stores the trees that the next seal commits to.
func (p *Partition) storeMonth(ctx context.Context, period string, point seal.Point) error {
	return errors.Join(
		seal.Write(ctx, p.deps.Blobs, p.treeKey(period, accountsTree, point.Accounts.Root()), point.Accounts),
		seal.Write(ctx, p.deps.Blobs, p.treeKey(period, statementsTree, p.sealing.statement.Root()), p.sealing.statement),
	)
}

// noteMonth notes the seal of a month, the first one of several.
func (p *Partition) noteMonth(ctx context.Context, period string, one sealed) error {
	_, found, err := p.sealOf(ctx, period)
	if err == nil && !found {
		data, _ := json.Marshal(monthNote{one.message.Sequence, one.seal.Accounts.GetHash()})
		_, err = p.deps.Blobs.Put(ctx, p.noteKey(period), bytes.NewReader(data), int64(len(data)))
	}
	if err != nil {
		return err
	}
	s := &p.sealing
	if s.month = max(s.month, period); s.ready == period {
		s.ready, s.statement = "", proof.Tree{}
	}
	return nil
}

// sealOf returns the message with a month's seal, or false. A note about a message that the journal has lost with a restore does
// not count.
func (p *Partition) sealOf(ctx context.Context, period string) (one sealed, found bool, err error) {
	const maxNote = 1 << 10
	data, err := blob.Read(ctx, p.deps.Blobs, p.noteKey(period), maxNote)
	if errors.Is(err, blob.ErrNotFound) {
		return one, false, nil
	}
	if err != nil {
		return one, false, err
	}
	var note monthNote
	if err := json.Unmarshal(data, &note); err != nil {
		return one, false, nil //nolint:nilerr // it is written again
	}
	m, err := p.journal.Get(ctx, note.Sequence)
	if errors.Is(err, journal.ErrNoMessage) {
		return one, false, nil
	}
	if err != nil {
		return one, false, err
	}
	batch := &event.UsageBatch{}
	if p.kinds[m.Subject] != account.Usage || batch.UnmarshalVT(m.Data) != nil || batch.Seal == nil {
		return one, false, nil
	}
	for _, tree := range batch.Seal.Statements {
		found = found || bytes.Equal(batch.Seal.Accounts.GetHash(), note.Accounts) && seal.Period(tree.Month) == period
	}
	return sealed{message: m, seal: batch.Seal}, found, nil
}
