package account

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// TestAGrantThatExpiredStaysSoInASnapshot, even if its clock was ahead and has come back: refunds of its hold expire at once,
// live and restored alike.
func TestAGrantThatExpiredStaysSoInASnapshot(t *testing.T) {
	for name, after := range map[string]time.Duration{
		"before its expiry": 10 * time.Second,
		"after its expiry":  80 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(t, plan.Published(10))
			h.account(alice, plan.Pro)
			h.use(alice, plan.FilesUpload, 100)
			h.grant(alice, 8_000, h.now+60_000)
			paid := h.admission(alice, plan.FilesUpload)
			h.want(paid, admitted)
			h.wait(90 * time.Second).tick()
			if h.balance(alice) != 0 {
				t.Fatalf("the rest of the grant is there: %d", h.balance(alice))
			}
			stateHash(t, h.fold) // encodes the account: the clock's return must encode it again
			h.wait(-80 * time.Second).tick()
			snapshot := restored(t, h.fold)
			taken := len(h.messages)
			h.sound()
			h.wait(after).tick()
			h.sound()
			h.voided(paid)
			if h.balance(alice) != 0 || h.ledgerSum(alice) != 0 {
				t.Errorf("balance %d, ledger %d: an expired grant came back", h.balance(alice), h.ledgerSum(alice))
			}
			follow(t, snapshot, h.messages[taken:])
			h.same(snapshot)
		})
	}
}

// follow folds the messages after a snapshot.
func follow(t tester, f *Fold, messages []Message) {
	t.Helper()
	for _, m := range messages {
		if _, err := f.Apply(m); err != nil {
			t.Fatalf("%v", err)
		}
	}
}

// same compares another replica with the live one.
func (h *history) same(f *Fold) {
	h.t.Helper()
	if live, other := stateHash(h.t, h.fold), stateHash(h.t, f); live != other {
		h.t.Fatalf("the other replica comes to %x, live to %x", other, live)
	}
	if live, other := len(h.fold.grantHeap()), len(f.grantHeap()); live != other {
		h.t.Fatalf("%d grants wait for their expiry, %d in the other replica", live, other)
	}
}

// TestSnapshotsUnderAClockThatComesAndGoes: replicas that started from snapshots of any moment stay like the live one.
func TestSnapshotsUnderAClockThatComesAndGoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t, smallBook())
		h.account(alice, plan.Pro)
		h.use(alice, plan.FilesUpload, 2) // credits pay all later ones
		snapshot, taken := restored(t, h.fold), len(h.messages)
		var made []*event.Admission
		for range rapid.IntRange(20, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0, 1:
				a := h.admission(alice, plan.FilesUpload)
				a.Write = rapid.Bool().Draw(t, "write")
				h.admit(a)
				made = append(made, a)
			case 2:
				if len(made) > 0 {
					a := rapid.SampledFrom(made[max(0, len(made)-4):]).Draw(t, "settled")
					h.usage(nil, []*event.Settlement{
						settlementOf(a, rapid.SampledFrom([]event.Result{event.Result_SERVED, event.Result_VOID}).Draw(t, "result")),
					})
				}
			case 3:
				h.command(grantOf(alice, 8_000, h.now+rapid.SampledFrom([]int64{30_000, 60_000, 90_000}).Draw(t, "lasts")))
			case 4, 5:
				h.wait(rapid.SampledFrom([]time.Duration{
					-60 * time.Second, -30 * time.Second, 20 * time.Second, 50 * time.Second, HoldMillis * time.Millisecond,
				}).Draw(t, "wait")).tick()
			default:
				h.same(snapshot)
				snapshot, taken = restored(t, h.fold), len(h.messages)
			}
			follow(t, snapshot, h.messages[taken:])
			taken = len(h.messages)
		}
		h.same(snapshot)
		h.sound()
	})
}
