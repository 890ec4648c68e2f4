package event_test

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"quire.dev/pkg/event"
)

func verdictBatch(verdicts int) *event.VerdictBatch {
	batch := &event.VerdictBatch{Source: "edge-1234567890", Number: 7, Sequence: 9, TimeMs: 1_800_000_000_000, Rules: 1}
	for i := range verdicts {
		batch.Verdicts = append(batch.Verdicts, &event.Verdict{
			Decision: event.Decision_ADMITTED, Charge: event.ChargeSource_CHARGE_QUOTA, Remaining: int64(i), Limit: 100, ResetSeconds: 5,
			ReceiptNumber: uint64(i + 1), Receipt: bytes.Repeat([]byte{byte(i)}, 32),
		})
	}
	return batch
}

func outcomeBatch(outcomes int) *event.OutcomeBatch {
	batch := &event.OutcomeBatch{Source: "edge-1234567890", Number: 7, Sequence: 9}
	for i := range outcomes {
		id := event.NewRequestID()
		batch.Outcomes = append(batch.Outcomes, &event.Outcome{
			Index: uint32(i), Status: event.OutcomeStatus_OK, Item: event.NewItemID(), Version: 1, CreatedMs: 1_800_000_000_000, RequestId: id[:],
		})
	}
	return batch
}

// damaged is an encoded message, or almost one.
func damaged(t *rapid.T, m event.Message) []byte {
	data, err := event.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	for range rapid.IntRange(0, 3).Draw(t, "damages") {
		if len(data) == 0 {
			break
		}
		at := rapid.IntRange(0, len(data)-1).Draw(t, "at")
		switch rapid.IntRange(0, 2).Draw(t, "damage") {
		case 0:
			data[at] = rapid.Byte().Draw(t, "byte")
		case 1:
			data = data[:at]
		case 2:
			data = slices.Insert(data, at, rapid.SliceOfN(rapid.Byte(), 1, 4).Draw(t, "bytes")...)
		}
	}
	return data
}

// decodesAs fails the test unless decode comes to the same message or the same error as Decode, and keeps nothing of data.
func decodesAs[M interface {
	proto.Message
	event.Message
}](t *rapid.T, data []byte, want, got M, decode func([]byte, M) error) {
	wantErr, err := event.Decode(data, want), decode(data, got)
	if wantErr != nil || err != nil {
		if wantErr == nil || err == nil || wantErr.Error() != err.Error() {
			t.Fatalf("fails with %v, want %v", err, wantErr)
		}
		return
	}
	clear(data)
	if !proto.Equal(got, want) {
		t.Fatalf("reads %v\nwant %v", got, want)
	}
}

func TestDecodeVerdictsAgreesWithDecode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batch := verdictBatch(rapid.IntRange(0, 3).Draw(t, "verdicts"))
		batch.Verdicts = append(batch.Verdicts, &event.Verdict{Decision: event.Decision_SPENDING_CAP_REACHED, Cap: &event.SpendingCap{AmountMicros: 7}},
			&event.Verdict{Receipt: bytes.Repeat([]byte("long"), 9)}, &event.Verdict{Receipt: []byte("short")})
		decodesAs(t, damaged(t, batch), &event.VerdictBatch{}, &event.VerdictBatch{}, event.DecodeVerdicts)
	})
}

func TestDecodeOutcomesAgreesWithDecode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batch := outcomeBatch(rapid.IntRange(0, 3).Draw(t, "outcomes"))
		for range rapid.IntRange(0, 2).Draw(t, "others") {
			batch.Outcomes = append(batch.Outcomes, rapid.SampledFrom([]*event.Outcome{
				{},
				{Status: event.OutcomeStatus_NOT_FOUND, Item: "an item of another length", RequestId: bytes.Repeat([]byte("i"), 20)},
				{RequestId: []byte("short"), Item: "a", Document: &event.Document{Id: "a", Content: &event.Content{Inline: []byte("burned")}}},
			}).Draw(t, "other"))
		}
		decodesAs(t, damaged(t, batch), &event.OutcomeBatch{}, &event.OutcomeBatch{}, event.DecodeOutcomes)
	})
}

func TestAnswersAreDecodedWithoutAnAllocationForEach(t *testing.T) {
	const answers = 100
	for name, decode := range map[string]func() error{
		"verdicts": decoding(t, verdictBatch(answers), func(data []byte) error { return event.DecodeVerdicts(data, &event.VerdictBatch{}) }),
		"outcomes": decoding(t, outcomeBatch(answers), func(data []byte) error { return event.DecodeOutcomes(data, &event.OutcomeBatch{}) }),
	} {
		n := testing.AllocsPerRun(10, func() {
			if err := decode(); err != nil {
				t.Fatal(err)
			}
		})
		if n > 12 {
			t.Errorf("%v allocations for %d %s", n, answers, name)
		}
	}
}

func decoding(t *testing.T, m event.Message, decode func(data []byte) error) func() error {
	t.Helper()
	data, err := event.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	return func() error { return decode(data) }
}
