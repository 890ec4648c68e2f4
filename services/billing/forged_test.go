package billing_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/views/sqlite"
	"quire.dev/services/billing"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/snapshots"
)

// TestASnapshotThatBillingDidNotWriteIsNotBelieved: another service can write to the blob store, and changes a balance.
func TestASnapshotThatBillingDidNotWriteIsNotBelieved(t *testing.T) {
	s := newStack(t)
	r := s.start(billing.Config{}, 0)
	s.account(alice, plan.Free)
	s.serve(alice, plan.LiteGet, 5)
	r.stop()
	written := s.snapshots()
	if len(written) != 1 {
		t.Fatalf("snapshots %v", written)
	}
	data := s.read(written[0].Key)
	forgery := func(change func(*event.BillingState)) *account.Image {
		state := &event.BillingState{}
		if err := event.Decode(data, state); err != nil {
			t.Fatal(err)
		}
		change(state)
		fold, err := account.Restore(state)
		if err != nil {
			t.Fatal(err)
		}
		image, err := fold.Image()
		if err != nil {
			t.Fatal(err)
		}
		return image
	}
	toMax := func(state *event.BillingState) { state.Accounts[0].Tier = uint32(plan.Max) }
	keyOf := func(image *account.Image) string {
		return fmt.Sprintf("billing/BILLING_0/%020d-%d-%x-%d", image.Sequence, account.CodeVersion, image.Hash(), image.Entries)
	}
	put := func(key string, data []byte) {
		if _, err := s.blobs.Put(t.Context(), key, bytes.NewReader(data), int64(len(data))); err != nil {
			t.Fatal(err)
		}
	}
	believed := func(what string) {
		t.Helper()
		r := s.start(billing.Config{}, 0)
		defer r.stop()
		if u := s.usageOf(alice); u.Tier != uint32(plan.Free) || u.Usage[plan.LiteGet-1].Used != 5 {
			t.Errorf("%s is believed: %v", what, u)
		}
		if a := s.audit(); !bytes.Equal(a.LiveHash, a.ReplayHash) || a.Match || differing(a, "snapshots") != 1 {
			t.Errorf("%s: audit %v", what, a)
		}
	}
	remove := func(key string) {
		if err := s.blobs.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	// Each comes alone, since the newest that is right would be used.
	remove(written[0].Key)
	image := forgery(toMax)
	put(keyOf(image), image.Encode())
	believed("a snapshot without a MAC")
	for _, i := range s.snapshots() {
		remove(i.Key)
	}
	signed := s.anotherBilling()
	if _, _, err := signed.Write(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	believed("a snapshot with another billing's MAC")
	for _, i := range s.snapshots() {
		remove(i.Key)
	}
	put(keyOf(image), data)
	believed("another state's bytes")
	for _, i := range s.snapshots() {
		remove(i.Key)
	}
	// One that claims to be from later than the journal must not keep billing from starting either.
	later := forgery(func(state *event.BillingState) { state.Sequence += 1000 })
	put(keyOf(later), later.Encode())
	believed("a snapshot of the future")
}

func (s *stack) read(key string) []byte {
	s.t.Helper()
	r, _, err := s.blobs.Get(s.t.Context(), key, 0, -1)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return data
}

// anotherBilling writes snapshots into the same blob store with a different key.
func (s *stack) anotherBilling() *snapshots.Store { return s.billingAt(time.Now) }

// billingAt is anotherBilling by another clock, which dates the key.
func (s *stack) billingAt(clock func() time.Time) *snapshots.Store {
	s.t.Helper()
	model, err := sqlite.Open(s.t.Context(), sqlite.Config{Path: filepath.Join(s.t.TempDir(), "billing.db"), Collections: billing.Collections()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := model.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return snapshots.New(s.blobs, model, "BILLING_0", slog.New(slog.DiscardHandler))
}

// TestASnapshotDoesNotFitAnotherJournal, though it has a right MAC.
func TestASnapshotDoesNotFitAnotherJournal(t *testing.T) {
	s := newStack(t)
	r := s.start(billing.Config{}, 0)
	s.account(alice, plan.Free)
	r.stop()
	written := s.snapshots()[0]
	data := s.read(written.Key)
	moved := strings.Replace(written.Key, "BILLING_0", "BILLING_7", 1)
	if _, err := s.blobs.Put(t.Context(), moved, bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
	for stream, used := range map[string]bool{"BILLING_0": true, "BILLING_7": false} {
		_, key, err := snapshots.New(s.blobs, s.views, stream, slog.New(slog.DiscardHandler)).Newest(t.Context(), 1<<60)
		if err != nil || (key != "") != used {
			t.Errorf("%s: %q, %v", stream, key, err)
		}
	}
}
