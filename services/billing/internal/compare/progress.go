package compare

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
)

// ResumeMillis is how long after its start an audit can be resumed. Rows that a sweep may delete until then are left out of every audit.
const ResumeMillis = sweptMillis - 60*60*1000

// ErrProgress means that an audit starts over.
var ErrProgress = errors.New("its saved progress can't be used")

var errSums = fmt.Errorf("%w: it has other sums", ErrProgress)

// Save adds what the pass has expected so far. The whole journal is folded at once.
func (s *Sums) Save(to *event.AuditProgress) {
	to.Key, to.Buckets, to.Sums = s.key[:], nil, nil
	for _, at := range slices.Sorted(maps.Keys(s.part)) {
		sum := s.part[at]
		to.Buckets = append(to.Buckets, num.Uint32(at))
		to.Sums = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(to.Sums, sum.high), sum.low)
	}
}

// Resume is New with what Save added. The rows have to be read again.
func Resume(cfg Config, from *event.AuditProgress) (*Comparison, *Sums, error) {
	c, s := New(cfg)
	if copy(s.key[:], from.Key) != len(s.key) || len(from.Sums) != 16*len(from.Buckets) {
		return nil, nil, errSums
	}
	s.saved = map[int]uint128{}
	for i, at := range from.Buckets {
		if int(at) >= len(s.buckets) {
			return nil, nil, errSums
		}
		sum := from.Sums[16*i:]
		s.saved[int(at)] = uint128{binary.BigEndian.Uint64(sum), binary.BigEndian.Uint64(sum[8:])}
	}
	return c, s, nil
}

// Known is a digest of what Read found that decides what rows are expected. Another one makes saved sums useless.
func (c *Comparison) Known() []byte {
	h := sha256.New()
	put := func(id uint64, text string) {
		h.Write(binary.BigEndian.AppendUint64(nil, id))
		h.Write(binary.AppendUvarint(nil, uint64(len(text))))
		h.Write([]byte(text))
	}
	for _, id := range slices.Sorted(maps.Keys(c.aged)) {
		put(id, c.aged[id])
	}
	h.Write([]byte{0})
	for _, id := range slices.Sorted(maps.Keys(c.erased)) {
		put(id, "")
	}
	return h.Sum(nil)
}
