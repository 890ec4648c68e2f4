package snapshots

import (
	"bufio"
	"bytes"
	"errors"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
	"quire.dev/services/billing/internal/account"
)

// imageOf is the image of a state with these accounts.
func imageOf(t *testing.T, ids ...uint64) *account.Image {
	t.Helper()
	fold := account.New()
	const now = 1_800_000_000_000
	prices := pricebook.Configured(plan.Published(10))
	prices.StampMs = now
	batch := &event.CommandBatch{Source: "edge", Number: 1, StampMs: now}
	for _, id := range ids {
		batch.Commands = append(batch.Commands, &event.Command{
			Account: id, Action: &event.Command_Create{Create: &event.CreateAccount{Tier: uint32(plan.Pro)}},
		})
	}
	for i, m := range []struct {
		kind account.Kind
		data event.Message
	}{{account.Prices, prices}, {account.Commands, batch}} {
		data, err := event.Encode(m.data)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fold.Apply(account.Message{Sequence: uint64(i + 1), TimeNanos: now * 1_000_000, Kind: m.kind, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	image, err := fold.Image()
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// TestAPartOfASnapshotIsReadAlone: it holds the kept accounts only.
func TestAPartOfASnapshotIsReadAlone(t *testing.T) {
	image := imageOf(t, 5, 6, 7)
	fold, err := readPart(bufio.NewReader(bytes.NewReader(image.Encode())), image.Hash(), func(id uint64) bool { return id == 6 })
	if err != nil || fold.Sequence() != image.Sequence {
		t.Fatalf("at %d: %v", image.Sequence, err)
	}
	if fold.Principals() != 1 || !fold.Exists(6) {
		t.Errorf("%d principals", fold.Principals())
	}
}

// TestADamagedSnapshotIsNoticedInParts: incompletely read content does not match the hash of the whole.
func TestADamagedSnapshotIsNoticedInParts(t *testing.T) {
	image := imageOf(t, 5, 6, 7)
	whole := image.Encode()
	read := func(data []byte) bool {
		_, err := readPart(bufio.NewReader(bytes.NewReader(data)), image.Hash(), func(id uint64) bool { return id == 6 })
		if err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
		return err == nil
	}
	for i := range whole {
		if read(whole[:i]) {
			t.Errorf("cut at %d of %d bytes", i, len(whole))
		}
		changed := bytes.Clone(whole)
		changed[i] ^= 0x40
		if read(changed) {
			t.Errorf("byte %d changed", i)
		}
	}
}
