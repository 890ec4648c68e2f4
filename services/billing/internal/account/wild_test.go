package account

import (
	"errors"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"quire.dev/pkg/alert"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
)

// TestNothingInAJournalStopsTheFold: no content of a journal makes the fold fail or hang, and replay and snapshot agree.
func TestNothingInAJournalStopsTheFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t, smallBook())
		h.account(alice, plan.Pro)
		for range rapid.IntRange(1, 25).Draw(t, "messages") {
			kind := Kind(rapid.IntRange(0, int(SettledFile)).Draw(t, "kind"))
			// The journal's own time comes from a server, whose clock may come back.
			h.now += rapid.OneOf(rapid.Int64Range(0, 3_600_000), rapid.SampledFrom([]int64{-1_000, -3_600_000, -40 * 86_400_000, 40 * 86_400_000})).Draw(t, "journal")
			m := Message{Sequence: uint64(len(h.messages)) + 1, TimeNanos: h.now * nanosPerMilli, Kind: kind, Data: wildData(t, kind)}
			h.messages = append(h.messages, m)
			_, err := h.fold.Apply(m)
			if errors.Is(err, ErrRules) {
				return // rubbish may be a price book with rules to come
			}
			if err != nil && !errors.Is(err, ErrUndecodable) {
				t.Fatal(err)
			}
			if a := h.fold.principals.accounts[alice]; a.available < 0 || a.settled < a.available {
				t.Fatalf("overspent: available %d of %d", a.available, a.settled)
			}
			noneIsLate(t, h.fold)
		}
		live := stateHash(t, h.fold)
		again := New()
		for _, m := range h.messages {
			_, _ = again.Apply(m) // rubbish is skipped again
		}
		if stateHash(t, again) != live || stateHash(t, restored(t, h.fold)) != live {
			t.Fatal("replay or snapshot come to another state")
		}
		h.wholeInParts()
	})
}

// noneIsLate checks that no top-up could become due without a message.
func noneIsLate(t *rapid.T, f *Fold) {
	for id, a := range f.principals.accounts {
		before := copyTopUp(a.topUp)
		if f.topUps.decideFor(a); !proto.Equal(before, a.topUp) {
			t.Fatalf("%x: %v is not due, at %d", id, before, f.time)
		}
	}
}

func wild(t *rapid.T) int64 {
	near := at("2026-10-15T12:00:00Z")
	return rapid.OneOf(
		rapid.Int64Range(near-1_000_000, near+1_000_000),
		rapid.Int64(),
		rapid.SampledFrom([]int64{0, -1, math.MaxInt64, math.MinInt64}),
	).Draw(t, "number")
}

func wildData(t *rapid.T, kind Kind) []byte {
	if rapid.IntRange(0, 9).Draw(t, "rubbish") == 0 {
		return rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes")
	}
	id := func() []byte {
		return rapid.SampledFrom([][]byte{nil, make([]byte, 16), []byte("0123456789abcdef"), []byte("short")}).Draw(t, "id")
	}
	who := func() uint64 { return rapid.SampledFrom([]uint64{alice, bob, 0}).Draw(t, "who") }
	number := func(most int) uint32 { return uint32(rapid.IntRange(0, most).Draw(t, "n")) }
	var m event.Message
	switch kind {
	case Prices:
		book := pricebook.Configured(smallBook())
		book.StampMs, book.OffsetMs, book.AnonymousWindowMs = wild(t), wild(t), wild(t)
		book.AnonymousLimit, book.FreeStorageBytes, book.StorageCentsPerGbMonth = number(3), uint64(wild(t)), uint64(wild(t))
		for _, term := range book.Tiers[1].Terms {
			term.PriceMicros, term.Limit, term.Overage = uint64(wild(t)), int64(number(3)), true
		}
		m = book
	case Commands:
		c := &event.Command{Account: who(), IdempotencyId: id(), BodyHash: uint64(number(1))}
		switch number(18) {
		case 0:
			c.Action = &event.Command_Create{Create: &event.CreateAccount{Tier: number(6), Key: &event.RotateKey{Fingerprint: 1}}}
		case 1:
			c.Action = &event.Command_SetTier{SetTier: &event.SetTier{Tier: number(6)}}
		case 2:
			c.Action = &event.Command_Grant{Grant: &event.Grant{AmountMicros: wild(t), ExpiresMs: wild(t)}}
		case 3:
			c.Action = &event.Command_RotateKey{}
		case 4, 5:
			c.Action = &event.Command_CreateKey{CreateKey: &event.CreateKey{Fingerprint: 1, Rules: wildRules(t, number)}}
		case 6:
			c.Action = &event.Command_UpdateKey{UpdateKey: &event.UpdateKey{Key: number(3), Rules: wildRules(t, number)}}
		case 7, 8:
			c.Action = &event.Command_ReplaceKey{ReplaceKey: &event.ReplaceKey{
				Key: number(3), Fingerprint: 1, OverlapMs: rapid.SampledFrom([]int64{0, 3_600_000, wild(t)}).Draw(t, "overlap"),
			}}
		case 9:
			c.Action = &event.Command_RevokeKey{RevokeKey: &event.RevokeKey{Key: number(3)}}
		case 10:
			c.Action = &event.Command_SetSpendingCap{SetSpendingCap: &event.SetSpendingCap{Cap: wildCap(t, number)}}
		case 11:
			events := uint32(rapid.IntRange(0, int(alert.Bits())).Draw(t, "events"))
			c.Action = &event.Command_SetWebhook{SetWebhook: &event.SetWebhook{
				Webhook: uint64(number(2)), Create: true, Events: &events, BalanceBelowMicros: new(uint64(wild(t))),
			}}
		case 12:
			c.Action = &event.Command_TestWebhook{TestWebhook: &event.TestWebhook{Webhook: uint64(number(2))}}
		case 13:
			c.Action = []event.Command{
				{Action: &event.Command_DeleteAccount{DeleteAccount: &event.DeleteAccount{}}},
				{Action: &event.Command_KeepAccount{KeepAccount: &event.KeepAccount{}}},
				{Action: &event.Command_EraseAccount{EraseAccount: &event.EraseAccount{}}},
			}[number(2)].Action
		case 14, 15:
			c.Action = wildPaid(t, number).Action
		case 16:
			c.Action = &event.Command_SetTopUp{SetTopUp: &event.SetTopUp{
				BelowMicros: rapid.SampledFrom([]uint64{0, credit, uint64(wild(t))}).Draw(t, "below"), CreditsMicros: credit,
				MonthMicros: rapid.SampledFrom([]uint64{credit, 5 * credit, uint64(wild(t))}).Draw(t, "month"),
			}}
		case 17:
			c.Action = &event.Command_TopUpFailed{TopUpFailed: &event.TopUpFailed{TopUp: uint64(number(3))}}
		}
		m = &event.CommandBatch{Source: "x", Number: uint64(wild(t)), StampMs: wild(t), OffsetMs: wild(t), Commands: []*event.Command{c}}
	default:
		b := &event.UsageBatch{
			Source: rapid.SampledFrom([]string{"x", "LITE_0", "FILE_0", "PASTE_1"}).Draw(t, "source"),
			Number: uint64(number(50)) * uint64(number(1)), StampMs: wild(t), OffsetMs: wild(t),
		}
		for range number(3) {
			b.Admissions = append(b.Admissions, &event.Admission{
				RequestId: id(), Account: who(), QuotaKey: number(20), Anonymous: number(3) == 0, KeyVersion: number(2),
				KeyFingerprint: 1, Write: number(1) == 0, IdempotencyId: id(), Key: number(3), ReadId: id(), ReadHash: uint64(number(2)),
			})
		}
		for range number(3) {
			b.Settlements = append(b.Settlements, &event.Settlement{
				RequestId: id(), Result: event.Result(number(4)), Account: who(), QuotaKey: number(20), Anonymous: number(3) == 0,
				Failed: number(1) == 0, Sequence: uint64(number(40)), StoredMs: wild(t), StorageDelta: wild(t), StorageAtMs: wild(t),
			})
		}
		m = b
	}
	data, err := event.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// wildPaid is a command about what a provider was paid.
func wildPaid(t *rapid.T, number func(int) uint32) *event.Command {
	if number(1) == 0 {
		return &event.Command{Action: &event.Command_SetSubscription{SetSubscription: &event.SetSubscription{
			Provider: "bank", Id: string(rune('a' + number(2))), Tier: number(6), Active: number(1) == 0, CreatedMs: wild(t), AsOfMs: wild(t), PeriodEndMs: wild(t),
		}}}
	}
	return &event.Command{Action: &event.Command_Payment{Payment: &event.Payment{
		Provider: "bank", Id: string(rune('a' + number(5))), CreditsMicros: rapid.SampledFrom([]uint64{0, 1, credit, uint64(wild(t))}).Draw(t, "credits"),
		Plan: []string{"", "pro"}[number(1)], AmountCents: uint64(wild(t)), TaxCents: uint64(number(2)), TopUp: uint64(number(3)),
	}}}
}

func wildCap(t *rapid.T, number func(int) uint32) *event.SpendingCap {
	return &event.SpendingCap{Period: event.CapPeriod(number(4)), AmountMicros: rapid.SampledFrom([]uint64{0, 1, 5_000, uint64(wild(t))}).Draw(t, "cap")}
}

func wildRules(t *rapid.T, number func(int) uint32) *event.KeyRules {
	r := &event.KeyRules{Cap: wildCap(t, number)}
	if n := number(3); n != 0 {
		r.Name = new([]string{"key", "default", "default 2"}[n-1])
	}
	if number(3) == 0 {
		r.Scopes = &event.KeyScopes{QuotaKeys: []uint32{number(14), number(14)}}
	}
	if number(2) == 0 {
		r.Quotas = &event.KeyQuotas{Limits: []*event.KeyQuota{{QuotaKey: number(14), Limit: number(3)}}}
	}
	switch number(3) {
	case 0:
		r.ExpiresMs = new(wild(t))
	case 1:
		r.ExpiresInMs = new(wild(t))
	}
	return r
}
