package account

import (
	"slices"
	"strconv"
	"strings"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// Each domain settles on its own subject, to which no other service may publish. The fold accepts on it only what that domain
// can know: how a write with one of its quota keys ended, by the id of the hold. So a repeated settlement counts once, whatever
// its sequence. Only changes of storage and content have no id: the watermarks prevent counting them twice.

// Refused counts settlements of one batch that the fold refused for the same reason.
type Refused struct {
	Source string
	Reason RefusalReason
	Count  int
}

// RefusalReason is why settlements were refused.
type RefusalReason string

// Refusal reasons.
const (
	RefusedSource    RefusalReason = "source"    // not a stream of the domain that owns the subject; the edges' subject has none
	RefusedQuotaKey  RefusalReason = "quota_key" // of another domain
	RefusedHold      RefusalReason = "hold"      // of no write open or voided in the last day, or of another account or quota key
	RefusedStorage   RefusalReason = "storage"   // only files have storage
	RefusedMalformed RefusalReason = "malformed"
)

// RefusalReasons lists all reasons.
func RefusalReasons() []RefusalReason {
	return []RefusalReason{RefusedSource, RefusedQuotaKey, RefusedHold, RefusedStorage, RefusedMalformed}
}

func (b *base) refuse(source string, reason RefusalReason, count int) {
	if count == 0 {
		return
	}
	for i := range b.effects.Refused {
		if r := &b.effects.Refused[i]; r.Reason == reason {
			r.Count += count
			return
		}
	}
	b.effects.Refused = append(b.effects.Refused, Refused{Source: source, Reason: reason, Count: count})
}

// applyDomain folds a batch on the subject of a domain.
func (f *Fold) applyDomain(m Message) error {
	b, err := f.scratch.decode(m.Data)
	if err != nil {
		return err
	}
	f.advance(f.timeOf(m, b.StampMs, f.offset))
	if b.Number != 0 || len(b.Admissions) > 0 {
		f.refuse(b.Source, RefusedMalformed, len(b.Admissions)+len(b.Settlements))
		return nil
	}
	if b.Loss != nil {
		f.losses.lose(m.Kind.domain(), b.Source, b.Loss)
	}
	f.settleDomain(m.Kind.domain(), b, m.millis())
	return nil
}

// settleDomain folds the settlements of a domain. The journal stored them at messageMillis.
func (f *Fold) settleDomain(domain event.Domain, b *event.UsageBatch, messageMillis int64) {
	if len(b.Settlements) == 0 {
		return
	}
	if !isStream(b.Source, domain) {
		f.refuse(b.Source, RefusedSource, len(b.Settlements))
		return
	}
	s := f.sources.get(b.Source, f.time)
	maxStored := messageMillis + skewMillis
	var last uint64
	var latest int64
	recreated := false
	for _, item := range b.Settlements {
		if item.Sequence == 0 || item.StoredMs == 0 {
			f.refuse(b.Source, RefusedMalformed, 1)
			continue
		}
		// A time far ahead is invalid. It must not move the watermark beyond future requests.
		seen := item.Sequence <= s.watermark && item.StoredMs > maxStored || s.settled(item)
		if !seen {
			recreated = recreated || item.Sequence <= s.watermark
			last, latest = max(last, item.Sequence), max(latest, min(item.StoredMs, maxStored))
			f.entries++
		}
		if reason := f.settleItem(domain, item, seen); reason != "" {
			f.refuse(b.Source, reason, 1)
		}
	}
	if recreated {
		f.effects.Recreated = append(f.effects.Recreated, Recreated{Stream: s.name, Watermark: s.watermark, Sequence: last})
		s.watermark, s.floorMillis = 0, s.watermarkMillis
	}
	s.watermark, s.watermarkMillis = max(s.watermark, last), max(s.watermarkMillis, latest)
}

// isStream reports whether a source is the name of a stream of the domain.
func isStream(source string, domain event.Domain) bool {
	if !slices.Contains(event.Documents(), domain) {
		return false
	}
	_, number, _ := strings.Cut(source, "_")
	partition, err := strconv.Atoi(number)
	return err == nil && partition >= 0 && partition < maxStreams && domain.Stream(partition) == source
}

// domainOf returns the domain that executes the writes of a quota key.
func domainOf(key plan.QuotaKey) event.Domain {
	switch key {
	case plan.PastesCreate, plan.PastesUpdate, plan.PastesDelete:
		return event.Paste
	case plan.LiteCreate, plan.LiteUpdate, plan.LiteDelete:
		return event.Lite
	case plan.FilesUpload, plan.FilesDelete:
		return event.File
	}
	return ""
}

// settleItem handles one settlement of a domain. seen reports whether its sequence was settled before. It returns why the settlement
// was refused. With RefusedHold, what it says of storage and content counts nevertheless.
func (f *Fold) settleItem(domain event.Domain, item *event.Settlement, seen bool) RefusalReason {
	key := plan.QuotaKey(item.QuotaKey)
	storageOnly := len(item.RequestId) == 0 // or content only
	switch {
	case item.StorageDelta != 0 && (domain != event.File || item.Anonymous):
		return RefusedStorage
	case storageOnly:
	case len(item.RequestId) != 16 || item.Result != event.Result_SERVED && item.Result != event.Result_VOID:
		return RefusedMalformed
	case domainOf(key) != domain:
		return RefusedQuotaKey
	}
	if !f.keep.has(item.Account) {
		return "" // of another part, and of no hold in this one
	}
	if item.StorageDelta != 0 && !seen {
		if a := f.account(item.Account); a != nil {
			a.store(&f.base, item.StorageDelta, item.StorageAtMs)
		}
	}
	if item.Content != nil && !seen && !item.Anonymous {
		f.alerts.contentChanged(f.account(item.Account), domain, item.Content)
	}
	if storageOnly || f.settleWrite(key, item) || seen {
		return ""
	}
	return RefusedHold
}

// settleWrite closes the hold of a write, or corrects how it was closed. It returns false for an unknown write.
func (f *Fold) settleWrite(key plan.QuotaKey, item *event.Settlement) bool {
	request := event.RequestID(item.RequestId)
	p := f.principals.principalOf(item.Account, item.Anonymous)
	if p == nil {
		return false
	}
	if p.account != nil && p.account.quarantined != 0 {
		return true // its holds are gone, and nothing more is charged
	}
	late, wasLate := f.principals.takeLate(p, request, key)
	h := f.holds.byRequest[request]
	switch {
	case h == nil || h.principal != p || h.key != key || !h.write:
		if wasLate && item.Result == event.Result_SERVED {
			f.chargeLate(item, late.keyNumber, late.lineage)
		}
		f.principals.reap(p)
		return wasLate
	case h.result != event.Result_RESULT_UNSPECIFIED:
		f.settleLate(item, h)
	case item.Result == event.Result_SERVED:
		f.serve(h, f.time, false)
	default:
		f.void(h, f.time, false)
		f.records.traceVoidedBy(item)
		if item.Failed {
			f.principals.fail(p)
		}
		f.principals.reap(p)
	}
	return true
}

// principalOf returns the account or network, or nil.
func (s *principals) principalOf(id uint64, anonymous bool) *principal {
	if anonymous {
		if n := s.networks[id]; n != nil {
			return &n.principal
		}
		return nil
	}
	if a := s.accounts[id]; a != nil {
		return &a.principal
	}
	return nil
}

// lateWrite is a write voided without confirmation from its service: by a time-out, or by an edge that had to give up. The
// service may still report that it was served.
type lateWrite struct {
	request event.RequestID
	key     plan.QuotaKey
	time    int64 // of the void
	// Of the hold.
	keyNumber, lineage uint32
}

// remain remembers a write about to be voided without confirmation from its service. It forgets the oldest beyond maxLate,
// which its service can't charge any more.
func (f *Fold) remain(h *hold, at int64) {
	if !h.write {
		return
	}
	p := h.principal
	f.touch(p)
	if len(p.late) >= maxLate {
		p.late = slices.Delete(p.late, 0, 1)
	}
	p.late = append(p.late, lateWrite{request: h.request, key: h.key, time: at, keyNumber: h.keyNumber, lineage: h.lineage})
	f.principals.late.push(principalTime{at, p})
	if f.records.watches(h.request) {
		f.records.trace.until = at + LateMillis
	}
}

// takeLate forgets a voided write and returns it, if it was remembered.
func (s *principals) takeLate(p *principal, request event.RequestID, key plan.QuotaKey) (late lateWrite, ok bool) {
	i := slices.IndexFunc(p.late, func(l lateWrite) bool { return l.request == request && l.key == key })
	if i < 0 {
		return late, false
	}
	s.touch(p)
	late = p.late[i]
	p.late = slices.Delete(p.late, i, i+1)
	if len(p.late) == 0 {
		p.late = nil
	}
	return late, true
}

// trimLate forgets the voided writes up to a time.
func (s *principals) trimLate(at principalTime) {
	p := at.principal
	if p.gone || len(p.late) == 0 || p.late[0].time > at.time {
		return
	}
	s.touch(p)
	n := 0
	for n < len(p.late) && p.late[n].time <= at.time {
		n++
	}
	if p.late = slices.Delete(p.late, 0, n); len(p.late) == 0 {
		p.late = nil
	}
	s.reap(p)
}
