package account

import (
	"cmp"
	"math/bits"
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
)

// Usage and storage by day. Days are in UTC, by the fold's time. The days of a month always sum to its counters and to its
// storage integral: whatever changes one of them changes a day of that month by the same amount.

const dayMillis = 24 * 60 * 60 * 1000

// UsageDelta is a change of an account's usage on a day. A correction names the day of the corrected request.
type UsageDelta struct {
	Account     event.AccountID
	Day         uint32 // since 1970
	QuotaKey    plan.QuotaKey
	Key         uint32 // number of the API key within the account
	Used        int32
	Overage     int32
	SpentMicros int64
}

// DaysSinceMillis is when the fold began to count usage: when the first price book came into force; 0 before.
func (l *prices) DaysSinceMillis() int64 {
	if len(l.list) == 0 {
		return 0
	}
	return l.list[0].fromMillis
}

// dayOf is the day in which a request of the account counts now. It lies in the month that counts the request, even if that is
// later than the time.
func (a *account) dayOf(b *base) uint32 {
	m := a.monthOf(b)
	return num.Uint32(max(m.start, min(b.time, m.end-1)) / dayMillis)
}

// counted is the hold as a change of its day.
func (h *hold) counted(requests int32) UsageDelta {
	d := UsageDelta{Key: h.keyNumber, Used: requests}
	if h.charge == event.ChargeSource_CHARGE_CREDITS {
		d.Overage, d.SpentMicros = requests, int64(requests)*num.Int64(h.cost)
	}
	return d
}

// countDay adds a change of a day to the effects.
func (b *base) countDay(a *account, day uint32, key plan.QuotaKey, d UsageDelta) {
	d.Account, d.Day, d.QuotaKey = event.AccountID(a.id), day, key
	b.effects.Usage = append(b.effects.Usage, d)
}

// storageDays splits the storage integral of a month by day. It has an entry for each day with a change, and none for the days
// in between, so idle accounts need none.
type storageDays struct {
	startBytes uint64 // stored when the month began
	changes    []storageChanges
}

// storageChanges are the changes of a day.
type storageChanges struct {
	day    uint32  // of the month, from 0
	net    int64   // bytes added to all later days
	millis uint128 // byte-milliseconds added to this day; in two's complement
}

// storeDay records a change of the stored bytes on the day of at, a time within the month.
func (c *counters) storeDay(m month, bytes, at int64) {
	day, rest := (at-m.start)/dayMillis, dayMillis-(at-m.start)%dayMillis
	c.changeDay(num.Uint32(day), bytes, bytes, rest)
}

// makeUpDay records a late correction of a closed month on the day of at, when it becomes known.
func (c *counters) makeUpDay(m month, bytes, millis, at int64) {
	c.changeDay(num.Uint32((at-m.start)/dayMillis), 0, bytes, millis)
}

// changeDay adds net bytes to all later days, and bytes times millis to the day itself.
func (c *counters) changeDay(day uint32, net, bytes, millis int64) {
	if c.days == nil {
		c.days = &storageDays{}
	}
	d := c.days
	i, found := slices.BinarySearchFunc(d.changes, day, func(e storageChanges, day uint32) int { return cmp.Compare(e.day, day) })
	if !found {
		d.changes = slices.Insert(d.changes, i, storageChanges{day: day})
	}
	e := &d.changes[i]
	e.net += net
	e.millis = e.millis.add(signedProduct(bytes, millis))
}

// add adds in two's complement.
func (a uint128) add(b uint128) uint128 {
	low, carry := bits.Add64(a.low, b.low, 0)
	high, _ := bits.Add64(a.high, b.high, carry)
	return uint128{high, low}
}

// list returns the integral of each day of the month up to a time, without days of zero.
func (d *storageDays) list(m month, until int64) (days []*event.StorageDay) {
	if d == nil {
		return nil
	}
	bytes, rest := num.Int64(d.startBytes), d.changes
	for start := m.start; start < until; start += dayMillis {
		sum := signedProduct(bytes, dayMillis)
		if day := num.Uint32((start - m.start) / dayMillis); len(rest) > 0 && rest[0].day == day {
			sum = sum.add(rest[0].millis)
			bytes += rest[0].net
			rest = rest[1:]
		}
		if missing := start + dayMillis - until; missing > 0 {
			sum = sum.less(signedProduct(bytes, missing))
		}
		if sum != (uint128{}) {
			days = append(days, &event.StorageDay{Day: num.Uint32(start / dayMillis), ByteMsHigh: sum.high, ByteMsLow: sum.low})
		}
	}
	return days
}

// signedProduct is the product in two's complement. millis must not be negative.
func signedProduct(bytes, millis int64) uint128 {
	p := product(num.Abs(bytes), num.Uint64(millis))
	if bytes < 0 {
		return uint128{}.less(p)
	}
	return p
}

// state adds the days to the state of their month.
func (d *storageDays) state(s *event.MonthState) {
	if d == nil {
		return
	}
	s.StorageStartBytes = d.startBytes
	for _, e := range d.changes {
		s.StorageChanges = append(s.StorageChanges, &event.StorageChanges{
			Day: e.day, NetBytes: e.net, ByteMsHigh: e.millis.high, ByteMsLow: e.millis.low,
		})
	}
}

func restoreDays(s *event.MonthState) *storageDays {
	if s.StorageStartBytes == 0 && len(s.StorageChanges) == 0 {
		return nil
	}
	d := &storageDays{startBytes: s.StorageStartBytes}
	for _, e := range s.StorageChanges {
		d.changes = append(d.changes, storageChanges{e.Day, e.NetBytes, uint128{e.ByteMsHigh, e.ByteMsLow}})
	}
	return d
}
