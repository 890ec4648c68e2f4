package account

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// wholeInParts checks that parts of one principal each add up to the live state.
func (h *history) wholeInParts() {
	h.t.Helper()
	passes, largest := 0, 0
	whole, err := HashInParts(1, 1, func(fold *Fold, _, _ int) error {
		passes++
		_ = fold.Know(h.newest) // no rules reached yet
		err := foldAll(fold, h.messages)
		if err == nil {
			largest = max(largest, fold.Principals())
		}
		return err
	})
	if err != nil {
		h.t.Fatalf("fold in parts: %v", err)
	}
	if live := stateHash(h.t, h.fold); whole.Hash != live || whole.Sequence != h.fold.Sequence() || whole.Entries != h.fold.Entries() {
		h.t.Fatalf("%d parts come to %v, live to %x", passes, whole, live)
	}
	h.decidesAlike()
}

// decidesAlike checks that folds of one account that only decide come to the same effects and states as those that do everything. The ids of
// alerts come from the messages' digests.
func (h *history) decidesAlike() {
	h.t.Helper()
	ids := slices.Sorted(maps.Keys(h.fold.principals.accounts))
	for _, id := range ids[:min(3, len(ids))] {
		keep := func(other uint64) bool { return other == id }
		whole, decides := NewPart(keep), NewPart(keep)
		_, _ = whole.Know(h.newest), decides.Know(h.newest) // no rules reached yet
		decides.DecideOnly()
		for _, m := range h.messages {
			want, err1 := whole.Apply(m)
			got, err2 := decides.Apply(m)
			if fmt.Sprint(err1) != fmt.Sprint(err2) {
				h.t.Fatalf("message %d: %v instead of %v", m.Sequence, err2, err1)
			}
			got.Head, got.Answers, got.Alerts, want.Head, want.Answers, want.Alerts = Head{}, nil, nil, Head{}, nil, nil
			if !reflect.DeepEqual(got, want) {
				h.t.Fatalf("message %d has other effects on account %d: %v instead of %v", m.Sequence, id, got, want)
			}
		}
		if whole.broken != nil { // its requests are coupled
			continue
		}
		got, err1 := decides.Image()
		want, err2 := whole.Image()
		if err := errors.Join(err1, err2); err != nil || !reflect.DeepEqual(got.accounts, want.accounts) {
			h.t.Fatalf("account %d has another state: %v", id, err)
		}
	}
}

// foldAll folds messages, of which rubbish is skipped.
func foldAll(f *Fold, messages []Message) error {
	for _, m := range messages {
		if _, err := f.Apply(m); err != nil && !errors.Is(err, ErrUndecodable) {
			return err
		}
	}
	return nil
}

// TestAPartHoldsNoMoreThanItMay: the memory of an audit is bounded, however many principals appear on the way.
func TestAPartHoldsNoMoreThanItMay(t *testing.T) {
	const accounts, most = 500, 40
	h := newHistory(t, plan.Published(10))
	for id := range uint64(accounts) {
		h.account(id+1, plan.Pro)
		h.use(id+1, plan.LiteCreate, 1)
	}
	for _, about := range []int{0, accounts, 10 * accounts} {
		largest, passes := 0, 0
		whole, err := HashInParts(about, most, func(fold *Fold, pass, of int) error {
			if pass >= of {
				t.Errorf("pass %d of %d", pass, of)
			}
			passes++
			err := foldAll(fold, h.messages)
			largest = max(largest, fold.Principals())
			return err
		})
		if err != nil || whole.Hash != stateHash(t, h.fold) {
			t.Errorf("about %d: %v, %v", about, whole, err)
		}
		if largest > most+1 || passes < accounts/most { // the one too many ends a part
			t.Errorf("about %d: %d passes, the largest part has %d", about, passes, largest)
		}
	}
}

// TestPrincipalsThatUseOneIDAreFoldedTogether: decisions about one depend on the other.
func TestPrincipalsThatUseOneIDAreFoldedTogether(t *testing.T) {
	for name, second := range map[string]func(h *history, first *event.Admission){
		"an admission": func(h *history, first *event.Admission) {
			a := h.admission(bob, plan.PastesGet)
			a.RequestId = first.RequestId
			h.want(a, event.Decision_IDEMPOTENCY_IN_FLIGHT)
		},
		"an admission with an Idempotency-Key": func(h *history, first *event.Admission) {
			a := h.admission(bob, plan.PastesGet)
			a.IdempotencyId = first.IdempotencyId
			h.want(a, event.Decision_IDEMPOTENCY_IN_FLIGHT)
		},
		"a settlement": func(h *history, first *event.Admission) {
			s := settlementOf(first, event.Result_VOID)
			s.Account = bob
			h.usage(nil, []*event.Settlement{s})
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := historyOf(t)
			h.account(alice, plan.Pro)
			h.account(bob, plan.Pro)
			first := h.admission(alice, plan.PastesGet)
			first.IdempotencyId = h.requestID()
			h.want(first, admitted)
			second(h, first)
			coupled := 0
			_, err := HashInParts(2, 1, func(fold *Fold, _, _ int) error {
				err := foldAll(fold, h.messages)
				var e *CoupledError
				if errors.As(err, &e) {
					coupled++
				}
				return err
			})
			if err != nil || coupled == 0 {
				t.Errorf("%d times coupled, %v", coupled, err)
			}
		})
	}
}

// TestAPartGivesAnAlertTheIDThatTheWholeGives: the outcome of a webhook test contains it, and is part of the state.
func TestAPartGivesAnAlertTheIDThatTheWholeGives(t *testing.T) {
	h := historyOf(t)
	for _, id := range []uint64{alice, bob} {
		h.account(id, plan.Free)
		h.webhook(webhookOf(id, 7, toldQuota, 0))
	}
	h.commands(tryHook(alice, 7), tryHook(bob, 7), tryHook(bob, 7))
	ids := map[string]bool{}
	for _, a := range h.alerts {
		ids[a.Id] = true
	}
	if len(ids) != 3 {
		t.Errorf("%d ids of 3 alerts", len(ids))
	}
	h.wholeInParts()
}

// TestAPartExplainsAsTheWholeDoes: the decision about a request depends only on its own account.
func TestAPartExplainsAsTheWholeDoes(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	h.account(bob, plan.Pro)
	h.grant(alice, 20_000, 0)
	h.use(alice, plan.FilesUpload, 100)
	var asked []*event.Admission
	for range 3 {
		h.use(bob, plan.LiteGet, 7)
		a := h.admission(alice, plan.FilesUpload)
		asked = append(asked, a)
		h.usage([]*event.Admission{h.admission(bob, plan.LiteGet), a}, nil)
	}
	h.voided(asked[1])
	h.served(asked[0])
	h.served(asked[2])
	for i, a := range asked {
		whole, part := New(), NewPart(func(id uint64) bool { return id == alice })
		of, by := whole.Watch(event.RequestID(a.RequestId)), part.Watch(event.RequestID(a.RequestId))
		if err := errors.Join(foldAll(whole, h.messages), foldAll(part, h.messages)); err != nil {
			t.Fatal(err)
		}
		want, err1 := event.Encode(of.Answer())
		got, err2 := event.Encode(by.Answer())
		if err1 != nil || err2 != nil || string(want) != string(got) || of.Answer() == nil {
			t.Errorf("request %d: %v, the whole says %v", i, by.Answer(), of.Answer())
		}
		if part.Principals() != 1 {
			t.Errorf("%d principals", part.Principals())
		}
	}
}
