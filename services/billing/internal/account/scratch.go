package account

import (
	"fmt"

	"quire.dev/pkg/event"
)

// scratch is memory reused by the next batch.
type scratch struct {
	batch    event.UsageBatch
	answered []event.Verdict
	pointers []*event.Verdict
	receipts []byte // of the verdicts
}

// decode decodes a batch into the previous one's memory. Ids are slices of that memory: whatever outlives the message copies
// them to arrays.
func (m *scratch) decode(data []byte) (*event.UsageBatch, error) {
	m.reset()
	b := &m.batch
	if err := b.UnmarshalVT(data); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
	return b, nil
}

// reset empties the batch. ResetVT does the same in three times the time, since it prepares each admission and settlement for reflection.
func (m *scratch) reset() {
	b := &m.batch
	if cap(b.Admissions) > maxReused || cap(b.Settlements) > maxReused {
		m.batch = event.UsageBatch{}
		return
	}
	for _, a := range b.Admissions {
		*a = event.Admission{RequestId: a.RequestId[:0], IdempotencyId: a.IdempotencyId[:0], ReadId: a.ReadId[:0]}
	}
	for _, s := range b.Settlements {
		*s = event.Settlement{RequestId: s.RequestId[:0]}
	}
	for _, s := range b.Served {
		*s = event.Served{Places: s.Places[:0]}
	}
	m.batch = event.UsageBatch{Admissions: b.Admissions[:0], Settlements: b.Settlements[:0], Served: b.Served[:0]}
}

// verdicts returns n empty verdicts in memory shared by all batches.
func (m *scratch) verdicts(n int) []*event.Verdict {
	if cap(m.answered) < n {
		m.answered = make([]event.Verdict, n)
		m.pointers = make([]*event.Verdict, n)
		for i := range m.answered {
			m.pointers[i] = &m.answered[i]
		}
	}
	m.answered = m.answered[:cap(m.answered)]
	m.pointers = m.pointers[:cap(m.answered)]
	for i := range n {
		m.answered[i] = event.Verdict{}
	}
	m.receipts = m.receipts[:0]
	return m.pointers[:n]
}

// keep returns a copy of the hash that lives as long as the batch's verdicts.
func (m *scratch) keep(hash Hash) []byte {
	m.receipts = append(m.receipts, hash[:]...)
	return m.receipts[len(m.receipts)-len(hash):]
}
