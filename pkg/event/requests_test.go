package event_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"quire.dev/pkg/event"
)

// requestBatch has creates with contents of so many bytes.
func requestBatch(creates, bytesEach int) *event.RequestBatch {
	batch := &event.RequestBatch{Source: "edge-1234567890", Number: 7, StampMs: 1_800_000_000_000, Lease: &event.ReadLease{Instance: "i", Run: 3}}
	for range creates {
		id, item := event.NewRequestID(), event.NewItemID()
		batch.Requests = append(batch.Requests, &event.Request{
			RequestId: id[:], Item: item, Account: 5, DeadlineMs: 6, BodyHash: 7, Charge: &event.Charge{Account: 5, QuotaKey: 2, Remaining: -1},
			Action: &event.Request_Create{Create: &event.Create{Document: &event.Document{
				Id: item, Owner: 5, Language: "plaintext", Visibility: uint32(event.Unlisted),
				Content: &event.Content{Inline: bytes.Repeat([]byte("x"), bytesEach), SizeBytes: uint64(bytesEach), Sha256: bytes.Repeat([]byte("h"), 32)},
			}}},
		})
	}
	return batch
}

func otherRequests() []*event.Request {
	return []*event.Request{
		{},
		{RequestId: []byte("short"), Item: "a", IdempotencyId: []byte("0123456789abcdef"), Action: &event.Request_Create{Create: &event.Create{ExpiresInMs: 5}}},
		{RequestId: []byte("0123456789abcdef"), Item: "a", Charge: &event.Charge{}, Action: &event.Request_Create{Create: &event.Create{Document: &event.Document{
			Id: "b", Title: "t", Language: "go", Tags: []string{"x", "y"}, PasswordHash: []byte("p"), Content: &event.Content{Blob: "k", SizeBytes: 9, Sha256: []byte("h")},
		}}}},
		{Item: "c", Action: &event.Request_Create{Create: &event.Create{Document: &event.Document{Content: &event.Content{}}}}},
		{Item: "d", Action: &event.Request_Update{Update: &event.Update{Title: new("t"), Content: &event.Content{Inline: []byte("c")}, IfMatch: []uint64{1, 2}}}},
		{Item: "e", Action: &event.Request_Delete{Delete: &event.Delete{ManageTokenHash: []byte("m")}}},
		{Item: "f", Action: &event.Request_Burn{Burn: &event.Burn{Version: 2}}},
		{Item: "g", Action: &event.Request_Expire{Expire: &event.Expire{}}},
	}
}

// TestDecodeRequestsAgreesWithDecode gives them batches of all kinds, whole and damaged. A field may come twice: the second one
// replaces the first, or is merged into it.
func TestDecodeRequestsAgreesWithDecode(t *testing.T) {
	kinds := slices.Concat(requestBatch(2, 20).Requests, requestBatch(1, 5000).Requests, otherRequests())
	rapid.Check(t, func(t *rapid.T) {
		data, err := event.Encode(requestBatch(rapid.IntRange(0, 2).Draw(t, "creates"), 20))
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 3).Draw(t, "others") {
			var request []byte
			for range rapid.IntRange(1, 3).Draw(t, "merged") {
				one, err := event.Encode(rapid.SampledFrom(kinds).Draw(t, "kind"))
				if err != nil {
					t.Fatal(err)
				}
				request = append(request, one...)
			}
			tag := rapid.SampledFrom([]uint64{5<<3 | 2, (1<<32|5)<<3 | 2}).Draw(t, "tag") // the second is read as the first
			data = binary.AppendUvarint(binary.AppendUvarint(data, tag), uint64(len(request)))
			data = append(data, request...)
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
		decodesAs(t, data, &event.RequestBatch{}, &event.RequestBatch{}, event.DecodeRequests)
	})
}

// TestDecodeRequestsTakesFewAllocations: for each create the item, and the bytes of the content.
func TestDecodeRequestsTakesFewAllocations(t *testing.T) {
	const creates = 100
	data, err := event.Encode(requestBatch(creates, 1024))
	if err != nil {
		t.Fatal(err)
	}
	each := testing.AllocsPerRun(10, func() {
		if err := event.DecodeRequests(data, &event.RequestBatch{}); err != nil {
			t.Fatal(err)
		}
	})
	if most := 2*creates + 10.0; each > most {
		t.Errorf("%v allocations for %d creates, want %v", each, creates, most)
	}
}
