package event

import (
	"crypto/sha256"
	"strings"

	"google.golang.org/protobuf/proto"
)

// Fields that DecodeVerdicts and DecodeOutcomes decode themselves, by message.
const (
	batchVerdicts = 5
	batchOutcomes = 4

	outcomeItem      = 4
	outcomeRequestID = 12
)

// receiptBytes is the length of Verdict.Receipt.
const receiptBytes = sha256.Size

// DecodeVerdicts is Decode for a VerdictBatch. The verdicts and their receipts share memory, so keeping one keeps them all; see
// Verdict.Clone.
func DecodeVerdicts(data []byte, batch *VerdictBatch) error {
	space, err := spaceFor[Verdict](data, batchVerdicts)
	if err == nil {
		batch.Verdicts = make([]*Verdict, 0, len(space))
		receipts := make([]byte, len(space)*receiptBytes)
		err = eachField(data, func(number int32, value, whole []byte) error {
			if number != batchVerdicts {
				return batch.UnmarshalVT(whole)
			}
			v := &space[0]
			space = space[1:]
			batch.Verdicts = append(batch.Verdicts, v)
			v.Receipt, receipts = receipts[:0:receiptBytes], receipts[receiptBytes:]
			return v.UnmarshalVT(value)
		})
	}
	if err == nil {
		return nil
	}
	batch.Reset()
	return Decode(data, batch) // reports what is wrong
}

// Clone returns a copy that may be kept.
func (v *Verdict) Clone() *Verdict { return proto.Clone(v).(*Verdict) }

// DecodeOutcomes is Decode for an OutcomeBatch. The outcomes share memory, so keeping one keeps them all.
func DecodeOutcomes(data []byte, batch *OutcomeBatch) error {
	space, err := spaceFor[Outcome](data, batchOutcomes)
	if err == nil {
		batch.Outcomes = make([]*Outcome, 0, len(space))
		ids := make([]byte, len(space)*len(RequestID{}))
		var items strings.Builder
		items.Grow(len(space) * ItemIDLength)
		err = eachField(data, func(number int32, value, whole []byte) error {
			if number != batchOutcomes {
				return batch.UnmarshalVT(whole)
			}
			o := &space[0]
			space = space[1:]
			batch.Outcomes = append(batch.Outcomes, o)
			o.RequestId, ids = ids[:0:len(RequestID{})], ids[len(RequestID{}):]
			return o.decode(value, &items)
		})
	}
	if err == nil {
		return nil
	}
	batch.Reset()
	return Decode(data, batch)
}

// decode decodes the outcome and appends its item to items, which the outcome's item will share.
func (o *Outcome) decode(data []byte, items *strings.Builder) error {
	seen := false
	err := eachField(data, func(number int32, value, whole []byte) error {
		switch number {
		case outcomeItem:
			at := items.Len()
			items.Write(value)
			o.Item = items.String()[at:]
			return nil
		case outcomeRequestID:
			seen = true
		}
		return o.UnmarshalVT(whole)
	})
	if !seen {
		o.RequestId = nil
	}
	return err
}

// spaceFor allocates a message for each element of a batch's list, by the list's field number.
func spaceFor[M any](data []byte, list int32) ([]M, error) {
	count, err := countOf(data, list)
	if err != nil || count == 0 {
		return nil, err
	}
	return make([]M, count), nil
}
