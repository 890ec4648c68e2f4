package account

import (
	"math"
	"math/bits"

	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
)

// uint128 is a number of byte-milliseconds. A million files of 50 MB over a month exceed 64 bits.
type uint128 struct{ high, low uint64 }

func product(a, b uint64) uint128 {
	high, low := bits.Mul64(a, b)
	return uint128{high, low}
}

// negative reports whether a difference is below zero, in two's complement. Sums stay far below 2^127.
func (a uint128) negative() bool { return a.high>>63 != 0 }

// plus saturates.
func (a uint128) plus(b uint128) uint128 {
	low, carry := bits.Add64(a.low, b.low, 0)
	high, carry := bits.Add64(a.high, b.high, carry)
	if carry != 0 && !a.negative() {
		return uint128{math.MaxUint64, math.MaxUint64}
	}
	return uint128{high, low}
}

// minus stops at zero.
func (a uint128) minus(b uint128) uint128 {
	low, borrow := bits.Sub64(a.low, b.low, 0)
	high, borrow := bits.Sub64(a.high, b.high, borrow)
	if borrow != 0 {
		return uint128{}
	}
	return uint128{high, low}
}

// less subtracts and may become negative.
func (a uint128) less(b uint128) uint128 {
	low, borrow := bits.Sub64(a.low, b.low, 0)
	high, _ := bits.Sub64(a.high, b.high, borrow)
	return uint128{high, low}
}

// times saturates.
func (a uint128) times(n uint64) uint128 {
	low := product(a.low, n)
	over, high := bits.Mul64(a.high, n)
	high, carry := bits.Add64(high, low.high, 0)
	if over != 0 || carry != 0 {
		return uint128{math.MaxUint64, math.MaxUint64}
	}
	return uint128{high, low.low}
}

// over divides by n, which is not 0. It rounds down and saturates.
func (a uint128) over(n uint64) uint64 {
	if a.high >= n {
		return math.MaxUint64
	}
	quotient, _ := bits.Div64(a.high, a.low, n)
	return quotient
}

// storageBill is the bill of a month's storage: the average over the whole month, the part of it above the free bytes, and the
// cents for that part, rounded down once (docs/api.md, Storage). It is exact, because the free bytes are subtracted from the
// integral and there is one division.
func storageBill(byteMillis uint128, m month, of *plan.Plan) (averageBytes, billedBytes, cents uint64) {
	if byteMillis.negative() {
		byteMillis = uint128{}
	}
	averageBytes = byteMillis.over(m.millis())
	above := byteMillis.minus(product(of.FreeStorageBytes, m.millis()))
	billedBytes = above.over(m.millis())
	cents = above.times(of.StorageCentsPerGBMonth).over(plan.GB * m.millis())
	return averageBytes, billedBytes, cents
}

// integrate adds the storage up to a time to the current month's integral.
func (a *account) integrate(to int64) {
	if to > a.storageSince {
		a.current.byteMillis = a.current.byteMillis.plus(product(a.storageBytes, num.Uint64(to-a.storageSince)))
		a.storageSince = to
	}
}

// store changes the account's stored bytes as of a time that may be past. It corrects the integrals of the current and the
// previous month. If the previous month is closed, its part goes into the current one. Older months stay unchanged.
func (a *account) store(b *base, delta, from int64) {
	a.integrate(b.time)
	size := num.Abs(delta)
	if delta < 0 {
		size = min(size, a.storageBytes)
		a.storageBytes -= size
	} else {
		a.storageBytes += min(size, math.MaxInt64-a.storageBytes)
	}
	if from <= 0 {
		from = b.time
	}
	to := max(b.time, a.storageSince) // later than the time if that was turned back
	if size == 0 {
		return
	}
	signed := num.Int64(size)
	if delta < 0 {
		signed = -signed
	}
	if from >= to {
		a.current.storeDay(monthNumber(a.month), signed, to)
		return
	}
	correct := func(c *counters, millis int64) {
		if millis <= 0 {
			return
		}
		if part := product(size, uint64(millis)); delta >= 0 {
			c.byteMillis = c.byteMillis.plus(part)
		} else {
			c.byteMillis = c.byteMillis.less(part)
		}
	}
	from = max(from, a.created)
	this := monthNumber(a.month)
	correct(&a.current, to-max(from, this.start))
	a.current.storeDay(this, signed, max(from, this.start))
	if before := monthNumber(a.month - 1); from < before.end {
		late := max(from, before.start)
		if b.isClosed(before) {
			correct(&a.current, before.end-late)
			a.current.makeUpDay(this, signed, before.end-late, to)
			return
		}
		correct(a.before(), before.end-late)
		a.before().storeDay(before, signed, late)
	}
}

// before returns the previous month's counters, for changes.
func (a *account) before() *counters {
	if a.previous == nil {
		a.previous = &counters{}
	}
	return a.previous
}
