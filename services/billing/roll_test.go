package billing_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/plan"
	"quire.dev/services/billing"
	"quire.dev/services/billing/internal/account"
)

func bookWith(limit int64) *plan.Book {
	book := plan.Published(10)
	book.Plans[plan.Pro].Terms[plan.PastesGet].Limit = limit
	return book
}

// limitNow is the limit that an admission meets.
func (s *stack) limitNow() int64 {
	s.t.Helper()
	a := admission(alice, plan.PastesGet)
	v := s.usage([]*event.Admission{a}, nil).Verdicts[0]
	s.usage(nil, []*event.Settlement{{RequestId: a.RequestId, Result: event.Result_VOID, Account: alice, QuotaKey: a.QuotaKey}})
	return v.Limit
}

// rules2 are made-up successors of today's rules.
const rules2 = account.NewestRules + 1

// rulesNow folds the journal like the next version.
func (s *stack) rulesNow() uint32 {
	s.t.Helper()
	fold := account.New()
	_ = fold.Know(rules2) // no rules reached yet
	s.replay(fold)
	return fold.Rules()
}

// TestPricesAndRulesWaitForTheLastInstanceOfTheVersionBefore runs two versions side by side, on the journal of the older one.
func TestPricesAndRulesWaitForTheLastInstanceOfTheVersionBefore(t *testing.T) {
	s := newStack(t)
	old := s.shareAs("old", 2, billing.Config{Book: bookWith(100)})
	s.waitShared(old)
	s.account(alice, plan.Pro)
	if limit := s.limitNow(); limit != 100 || s.rulesNow() != account.NewestRules {
		t.Fatalf("at first: limit %d, rules %d", limit, s.rulesNow())
	}

	renewed := s.shareAs("new", 2, billing.Config{Rules: rules2, Book: bookWith(200)})
	s.waitShared(old, renewed)
	second := s.shareAs("newer", 2, billing.Config{Rules: rules2, Book: bookWith(200)})
	eventually.True(t, "it serves", func() bool { return len(second.serves())+len(renewed.serves()) > 0 })
	if limit := s.limitNow(); limit != 100 || s.rulesNow() != account.NewestRules {
		t.Fatalf("during the roll-out: limit %d, rules %d", limit, s.rulesNow())
	}

	old.leave()
	<-old.ended
	eventually.True(t, "the new prices and rules are in force", func() bool {
		return s.limitNow() == 200 && s.rulesNow() == rules2
	})
	s.waitShared(renewed, second)

	// An instance of the previous version comes back and is left alone. It can't fold the new rules, and says so.
	again := s.shareAs("again", 3, billing.Config{Book: bookWith(100)})
	eventually.True(t, "it ends", func() bool {
		select {
		case <-again.ended:
			return true
		default:
			return false
		}
	})
	if !errors.Is(again.err, account.ErrRules) {
		t.Fatalf("ended with %v", again.err)
	}
	if limit := s.limitNow(); limit != 200 {
		t.Fatalf("it brought its prices back: limit %d", limit)
	}
	if a := s.audit(); !a.Match {
		t.Fatalf("audit: %v", a)
	}
}

// TestAnInstanceThatIsOlderThanThePricesKeepsItsOwn: it takes the partition over alone, as after a network failure.
func TestAnInstanceThatIsOlderThanThePricesKeepsItsOwn(t *testing.T) {
	s := newStack(t)
	clock := time.Now().Add(-time.Minute)
	r := s.start(billing.Config{Book: bookWith(200)}, 0)
	s.account(alice, plan.Pro)
	r.stop()
	s.clock = func() time.Time { return clock }
	r = s.start(billing.Config{Book: bookWith(100)}, 0)
	if limit := s.limitNow(); limit != 200 {
		t.Fatalf("old prices are back: limit %d", limit)
	}
	r.stop()
	s.clock = nil
	s.start(billing.Config{Book: bookWith(300)}, 0)
	if limit := s.limitNow(); limit != 300 {
		t.Fatalf("prices of a new start: limit %d", limit)
	}
}

// TestAnAnnouncementGoesBeforeTheOutcome: an edge that passes the outcome on has then forgotten the account's refusals.
func TestAnAnnouncementGoesBeforeTheOutcome(t *testing.T) {
	s := newStack(t)
	s.start(billing.Config{}, 0)
	s.account(alice, plan.Free)
	arrived := make(chan *nats.Msg, 16)
	for _, subject := range []string{event.AnnounceSubject, event.AnswerSubjects("test")} {
		sub, err := s.nc.ChanSubscribe(subject, arrived)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sub.Unsubscribe() })
	}
	s.command(&event.Command{Account: alice, Action: &event.Command_SetTier{SetTier: &event.SetTier{Tier: uint32(plan.Pro)}}})
	if first := <-arrived; first.Subject != event.AnnounceSubject {
		t.Fatalf("%s comes first", first.Subject)
	}
	if second := <-arrived; second.Subject != event.CommandOutcomeSubject("test") {
		t.Fatalf("%s comes second", second.Subject)
	}
}
