package event

import (
	"strings"

	"google.golang.org/protobuf/proto"
)

// The fields that DecodeVerdicts and DecodeOutcomes look into, by the messages that they are in.
const (
	batchVerdicts = 5
	batchOutcomes = 4

	outcomeItem      = 4
	outcomeRequestID = 12
)

// DecodeVerdicts is Decode for a VerdictBatch. The verdicts share one allocation: whoever keeps one of them keeps them all. See
// Verdict.Clone.
func DecodeVerdicts(data []byte, batch *VerdictBatch) error {
	space, err := spaceFor[Verdict](data, batchVerdicts)
	if err == nil {
		batch.Verdicts = make([]*Verdict, 0, len(space))
		err = eachField(data, func(number int32, value, whole []byte) error {
			if number != batchVerdicts {
				return batch.UnmarshalVT(whole)
			}
			v := &space[0]
			space = space[1:]
			batch.Verdicts = append(batch.Verdicts, v)
			return v.UnmarshalVT(value)
		})
	}
	if err == nil {
		return nil
	}
	batch.Reset()
	return Decode(data, batch) // it is this that decides what is wrong
}

// Clone is a verdict that may be kept.
func (v *Verdict) Clone() *Verdict { return proto.Clone(v).(*Verdict) }

// DecodeOutcomes is Decode for an OutcomeBatch. The outcomes share their memory: whoever keeps one of them keeps them all.
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

// decode adds the item to items, of which the outcome's is a part.
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

// spaceFor makes a message for each element of a batch's list, which is the field of that number.
func spaceFor[M any](data []byte, list int32) ([]M, error) {
	count, err := countOf(data, list)
	if err != nil || count == 0 {
		return nil, err
	}
	return make([]M, count), nil
}
