package compare

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"hash"
	"maps"
	"math/bits"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/views"
	"quire.dev/services/billing/internal/account"
)

const (
	perTable = 1 << 14 // buckets
	maxCells = 4096    // of days, whose multipliers are remembered
)

// uint128 is a number mod 2^128.
type uint128 struct{ high, low uint64 }

func (a uint128) plus(b uint128) uint128 {
	low, carry := bits.Add64(a.low, b.low, 0)
	high, _ := bits.Add64(a.high, b.high, carry)
	return uint128{high, low}
}

func (a uint128) minus(b uint128) uint128 {
	low, borrow := bits.Sub64(a.low, b.low, 0)
	high, _ := bits.Sub64(a.high, b.high, borrow)
	return uint128{high, low}
}

func (a uint128) times(n int64) uint128 {
	magnitude := num.Abs(n)
	high, low := bits.Mul64(a.low, magnitude)
	out := uint128{high + a.high*magnitude, low}
	if n < 0 {
		return uint128{}.minus(out)
	}
	return out
}

// bucket holds sums of the rows' hashes.
type bucket struct {
	expected, found uint128
	rows            uint32 // found
}

// cell is a number of requests in a day's row.
type cell struct {
	dayKey
	quotaKey, key uint32
}

// Sums is the result of the first pass.
type Sums struct {
	key     [32]byte
	buckets []bucket
	part    map[int]uint128 // of the part being folded, by bucket
	saved   map[int]uint128 // with which the first part begins, from Resume
	rows    [tables]uint64  // found
	cells   map[cell][4]uint128
	mac     hash.Hash
	digest  [sha256.Size]byte
}

// bucketOf returns the bucket of a row.
func (s *Sums) bucketOf(t table, key string) int {
	h := uint64(14695981039346656037) // FNV-1a, from the audit's own key on
	h ^= binary.LittleEndian.Uint64(s.key[:])
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	h ^= h >> 29
	return int(t)*perTable + int(h%perTable)
}

// hashRow hashes everything that a reader of the row may see.
func (s *Sums) hashRow(t table, key string, doc views.Doc) uint128 {
	if s.mac == nil {
		s.mac = sha256.New()
	}
	h := s.mac
	h.Reset()
	buffer := append(make([]byte, 0, 512), s.key[:]...)
	buffer = append(buffer, byte(t))
	text := func(part string) {
		buffer = append(binary.AppendUvarint(buffer, uint64(len(part))), part...)
	}
	text(key)
	text(doc.ID)
	buffer = binary.AppendUvarint(buffer, doc.Seq)
	for _, k := range sorted(doc.Keys) {
		text(k.Name)
		text(k.Value.String())
	}
	buffer = binary.AppendUvarint(buffer, uint64(len(doc.Head)))
	h.Write(buffer)
	h.Write(doc.Head)
	h.Write(doc.Body)
	sum := h.Sum(s.digest[:0])
	return uint128{binary.BigEndian.Uint64(sum), binary.BigEndian.Uint64(sum[8:])}
}

func (s *Sums) find(t table, key string, doc views.Doc) {
	b := &s.buckets[s.bucketOf(t, key)]
	b.found = b.found.plus(s.hashRow(t, key, doc))
	b.rows++
	s.rows[t]++
}

func (s *Sums) expect(t table, key string, doc views.Doc) {
	s.add(s.bucketOf(t, key), s.hashRow(t, key, doc))
}

func (s *Sums) add(at int, hash uint128) {
	if s.part == nil {
		s.part = map[int]uint128{}
	}
	s.part[at] = s.part[at].plus(hash)
}

// factors are the multipliers of a cell: of used, overage and spent, and one for an impossible row.
func (s *Sums) factors(c cell) [4]uint128 {
	if f, found := s.cells[c]; found {
		return f
	}
	if len(s.cells) >= maxCells {
		clear(s.cells)
	}
	buffer := append(make([]byte, 0, 64), s.key[:]...)
	buffer = append(buffer, byte(days))
	buffer = binary.LittleEndian.AppendUint64(buffer, c.account)
	for _, n := range []uint32{c.day, c.quotaKey, c.key} {
		buffer = binary.LittleEndian.AppendUint32(buffer, n)
	}
	sum := sha512.Sum512(buffer)
	var f [4]uint128
	for i := range f {
		f[i] = uint128{binary.BigEndian.Uint64(sum[16*i:]), binary.BigEndian.Uint64(sum[16*i+8:])}
	}
	s.cells[c] = f
	return f
}

func (s *Sums) expectDay(d account.UsageDelta) {
	c := cell{dayKey{uint64(d.Account), d.Day}, uint32(d.QuotaKey), d.Key}
	f := s.factors(c)
	s.add(s.dayBucket(c.dayKey), f[0].times(int64(d.Used)).plus(f[1].times(int64(d.Overage))).plus(f[2].times(d.SpentMicros)))
}

func (s *Sums) findDay(k dayKey, day *event.UsageDay, doc views.Doc, ahead bool) {
	b := &s.buckets[s.dayBucket(k)]
	b.rows++
	s.rows[days]++
	if ahead || day == nil || day.Day != k.day || doc.Keys.Get("day").Int64() != int64(k.day) {
		b.found = b.found.plus(s.factors(cell{dayKey: k})[3])
		return
	}
	for _, u := range day.Usage {
		f := s.factors(cell{k, u.QuotaKey, u.Key})
		b.found = b.found.plus(f[0].times(u.Used)).plus(f[1].times(u.Overage)).plus(f[2].times(u.SpentMicros))
	}
}

func (s *Sums) dayBucket(k dayKey) int {
	var id [12]byte
	binary.LittleEndian.PutUint64(id[:], k.account)
	binary.LittleEndian.PutUint32(id[8:], k.day)
	return s.bucketOf(days, string(id[:]))
}

// Begin begins a part of the accounts. first starts over, with what Resume was given: what was expected so far is forgotten.
func (s *Sums) Begin(first bool) {
	s.part = nil
	if first {
		s.part = maps.Clone(s.saved)
		for i := range s.buckets {
			s.buckets[i].expected = uint128{}
		}
	}
}

// Keep adds the part. Without it the part is forgotten.
func (s *Sums) Keep() {
	for at, hash := range s.part { // the order has no effect
		s.buckets[at].expected = s.buckets[at].expected.plus(hash)
	}
	s.part = nil
}

// Match reports whether all rows are as expected.
func (s *Sums) Match() bool {
	for i := range s.buckets {
		if s.buckets[i].expected != s.buckets[i].found {
			return false
		}
	}
	return true
}

// Tables returns the number of rows found in each table.
func (s *Sums) Tables() (list []*event.AuditTable) {
	for t := range tables {
		list = append(list, &event.AuditTable{Table: t.name(), Rows: s.rows[t]})
	}
	return list
}
