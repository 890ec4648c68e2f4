package account

import "quire.dev/pkg/event"

// applySettled folds a batch without a number: a domain's settlements, of which it skips those that it has seen, or a tick,
// which is empty. The journal stored the batch at messageMillis.
func (f *Fold) applySettled(b *event.UsageBatch, messageMillis int64) {
	if len(b.Settlements) == 0 {
		return
	}
	s := f.source(b.Source)
	var last uint64
	var latest int64
	anew := false
	for _, item := range b.Settlements {
		if item.Sequence != 0 {
			if f.seen(s, item) {
				continue
			}
			anew = anew || item.Sequence <= s.mark
		}
		if !f.passes(item.Account, item.RequestId, nil) {
			f.settle(item)
		}
		f.entries++
		stored := item.StoredMs
		if stored == 0 { // of an earlier version: its request was stored before it was settled
			stored = messageMillis + aheadMillis
		}
		last, latest = max(last, item.Sequence), max(latest, stored)
	}
	if anew {
		f.effects.Anew = append(f.effects.Anew, Anew{Stream: s.name, Mark: s.mark, Sequence: last})
		s.mark, s.floorMillis = 0, s.settledUntil(f)
	}
	s.mark = max(s.mark, last)
	if f.rules >= RulesHeld {
		s.markMillis = max(s.markMillis, latest)
	}
}

// seen tells whether a domain's settlement was folded before. Its sequence alone does not tell: a stream that was restored
// from a backup, cut or made anew gives the same sequences to other requests. Those are stored later than all that was
// settled before.
func (f *Fold) seen(s *source, item *event.Settlement) bool {
	if f.rules < RulesHeld || item.StoredMs == 0 {
		return item.Sequence <= s.mark
	}
	return item.StoredMs <= s.floorMillis || item.Sequence <= s.mark && item.StoredMs <= s.settledUntil(f)
}

// settledUntil is the latest time of a request that a mark stands for. Requests that were settled under the first rules were
// stored before the second came.
func (s *source) settledUntil(f *Fold) int64 { return max(s.markMillis, f.rulesMillis+aheadMillis) }

// Anew is a domain's stream that gives the sequences of settled requests to others.
type Anew struct {
	Stream         string
	Mark, Sequence uint64 // last one settled before, and the last one now
}

// Marks are the sequences up to which the streams of domains are settled, by stream.
func (f *Fold) Marks() map[string]uint64 {
	marks := map[string]uint64{}
	for name, s := range f.sources {
		if !s.numbered && s.mark > 0 {
			marks[name] = s.mark
		}
	}
	return marks
}
