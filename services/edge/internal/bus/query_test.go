package bus

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/rpc"
	"quire.dev/services/edge/internal/fault"
)

const queried = 4 // partitions

// answering serves billing's queries in all partitions but one. Each partition knows its own accounts, and
// partition 2 knows one request.
func answering(t *testing.T, known event.RequestID, without int) (*world, *running) {
	t.Helper()
	w := newBareWorld(t, queried)
	for p := range queried {
		if p == without {
			continue
		}
		w.serve(t, event.QuerySubject(p), func(payload []byte) (event.Message, error) {
			var q event.Query
			if err := event.Decode(payload, &q); err != nil {
				return nil, err
			}
			switch {
			case q.GetExplain() != nil:
				if p != 2 || event.RequestID(q.GetExplain().RequestId) != known || !q.GetExplain().AnyAccount {
					return &event.QueryAnswer{Status: event.QueryStatus_QUERY_NOT_FOUND}, nil
				}
				return &event.QueryAnswer{Status: event.QueryStatus_QUERY_OK, Answer: &event.QueryAnswer_Explain{
					Explain: &event.ExplainAnswer{RequestId: known[:], Sequence: 77},
				}}, nil
			case q.GetPrices() != nil:
				return &event.QueryAnswer{Status: event.QueryStatus_QUERY_OK, Answer: &event.QueryAnswer_Prices{
					Prices: &event.PriceBook{AnonymousLimit: 12},
				}}, nil
			case event.AccountPartition(event.AccountID(q.Account), queried) != p || q.NowMs == 0:
				return &event.QueryAnswer{Status: event.QueryStatus_QUERY_NOT_FOUND}, nil
			}
			return &event.QueryAnswer{Status: event.QueryStatus_QUERY_OK, Answer: &event.QueryAnswer_Usage{
				Usage: &event.UsageAnswer{Account: q.Account},
			}}, nil
		})
	}
	return w, w.bus(t, func(c *Config) { c.QueryTimeout = 300 * time.Millisecond })
}

func TestPricesAreThoseOfBilling(t *testing.T) {
	_, b := answering(t, event.NewRequestID(), -1)
	if list, err := b.Books(t.Context()); err != nil || list.Books[0].Book.AnonymousLimit != 12 { // of an earlier version
		t.Errorf("%v, %v", list, err)
	}
	_, b = answering(t, event.NewRequestID(), 0)
	if book, err := b.Books(t.Context()); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("without billing: %v, %v", book, err)
	}
}

func TestQueryAsksThePartitionOfTheAccount(t *testing.T) {
	_, b := answering(t, event.NewRequestID(), -1)
	for range 20 {
		account := event.NewAccountID()
		a, err := b.Query(t.Context(), account, &event.Query{Query: &event.Query_Usage{Usage: &event.UsageQuery{}}})
		if err != nil || a.GetUsage().GetAccount() != uint64(account) {
			t.Fatalf("answer %v, %v", a, err)
		}
	}
}

// TestAQuestionToALostInstanceGoesToAnother: a killed instance answers nothing. The bus asks another replica long before
// the client gives up.
func TestAQuestionToALostInstanceGoesToAnother(t *testing.T) {
	w := newBareWorld(t, 1)
	var asked atomic.Int32
	for _, subject := range []string{event.QuerySubject(0), event.UserSubject, event.WebhookSubject} {
		sub, err := w.nc.Subscribe(subject, func(m *nats.Msg) {
			if asked.Add(1)%2 == 1 {
				return // it is killed before it answers
			}
			answer := event.Message(&event.QueryAnswer{Status: event.QueryStatus_QUERY_OK})
			switch m.Subject {
			case event.UserSubject:
				answer = &event.UserAnswer{}
			case event.WebhookSubject:
				answer = &event.WebhookAnswer{}
			}
			data, err := event.Encode(answer)
			if err == nil {
				err = m.Respond(data)
			}
			if err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sub.Unsubscribe() })
	}
	b := w.bus(t, func(c *Config) { c.QueryTimeout = time.Hour })
	if _, err := b.Query(t.Context(), event.NewAccountID(), &event.Query{Query: &event.Query_Usage{Usage: &event.UsageQuery{}}}); err != nil {
		t.Errorf("query: %v", err)
	}
	if _, err := b.User(t.Context(), &event.UserRequest{Action: &event.UserRequest_Find{Find: &event.FindUser{}}}); err != nil {
		t.Errorf("user: %v", err)
	}
	if _, err := b.Webhooks(t.Context(), &event.WebhookRequest{Action: &event.WebhookRequest_Find{Find: &event.FindAddresses{}}}); err != nil {
		t.Errorf("webhooks: %v", err)
	}
	if n := asked.Load(); n != 6 {
		t.Errorf("asked %d times", n)
	}
}

// TestALookIsRepeatedUntilItsCallsAreSettled, and at most for lookWait: then it takes what there is.
func TestALookIsRepeatedUntilItsCallsAreSettled(t *testing.T) {
	w := newBareWorld(t, 1)
	var pending, asked atomic.Int32
	w.serve(t, event.QuerySubject(0), func(payload []byte) (event.Message, error) {
		var q event.Query
		if err := event.Decode(payload, &q); err != nil {
			return nil, err
		}
		asked.Add(1)
		if q.Settled && pending.Add(-1) >= 0 {
			return &event.QueryAnswer{Status: event.QueryStatus_QUERY_PENDING}, nil
		}
		return &event.QueryAnswer{Status: event.QueryStatus_QUERY_OK, Answer: &event.QueryAnswer_Recent{
			Recent: &event.RecentAnswer{NextCursor: fmt.Append(nil, q.Settled)},
		}}, nil
	})
	b := w.bus(t, nil)
	for _, look := range []struct {
		pending int32
		settled string
	}{{0, "true"}, {3, "true"}, {1 << 30, "false"}} {
		pending.Store(look.pending)
		asked.Store(0)
		a, err := b.Look(t.Context(), event.NewAccountID(), &event.Query{Query: &event.Query_Recent{Recent: &event.RecentQuery{}}})
		if err != nil || string(a.GetRecent().GetNextCursor()) != look.settled {
			t.Errorf("%d times pending: %v, %v", look.pending, a, err)
		}
		if n := asked.Load(); look.settled == "true" && n != look.pending+1 {
			t.Errorf("%d times pending: asked %d times", look.pending, n)
		}
	}
	pending.Store(1 << 30)
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := b.Look(ended, event.NewAccountID(), &event.Query{Query: &event.Query_Recent{Recent: &event.RecentQuery{}}}); err == nil {
		t.Error("a look of a caller that has gone was answered")
	}
}

func TestFailedRequestOfAStoreIsUnknownOnlyIfItMayHaveChangedSomething(t *testing.T) {
	user := func(r *event.UserRequest) func(*running) error {
		return func(b *running) error {
			a, err := b.User(t.Context(), r)
			if err == nil && a.Status != event.UserStatus_USER_OK {
				t.Errorf("answer %v", a)
			}
			return err
		}
	}
	webhook := func(r *event.WebhookRequest) func(*running) error {
		return func(b *running) error {
			a, err := b.Webhooks(t.Context(), r)
			if err == nil && a.Status != event.WebhookStatus_WEBHOOK_OK {
				t.Errorf("answer %v", a)
			}
			return err
		}
	}
	for _, c := range []struct {
		subject      string
		answer       event.Message
		find, change func(*running) error
	}{
		{
			event.UserSubject, &event.UserAnswer{Status: event.UserStatus_USER_OK},
			user(&event.UserRequest{Action: &event.UserRequest_Find{Find: &event.FindUser{Email: "a@b"}}}),
			user(&event.UserRequest{Action: &event.UserRequest_Register{Register: &event.RegisterUser{Email: "a@b"}}}),
		},
		{
			event.WebhookSubject, &event.WebhookAnswer{Status: event.WebhookStatus_WEBHOOK_OK},
			webhook(&event.WebhookRequest{Action: &event.WebhookRequest_Deliveries{Deliveries: &event.ListDeliveries{}}}),
			webhook(&event.WebhookRequest{Action: &event.WebhookRequest_Rotate{Rotate: &event.RotateSecret{}}}),
		},
	} {
		t.Run(c.subject, func(t *testing.T) {
			w := newBareWorld(t, 1)
			b := w.bus(t, func(c *Config) { c.QueryTimeout = 200 * time.Millisecond })
			// On a busy machine the time may end while NATS has not said yet that nobody is there.
			eventually.NoError(t, "nobody there is unavailable", func() error {
				if err := c.change(b); fault.KindOf(err) != fault.Unavailable {
					return fmt.Errorf("%w: want unavailable", err)
				}
				return nil
			})
			fail := true
			w.serve(t, c.subject, func([]byte) (event.Message, error) {
				if fail {
					return nil, &rpc.Error{Code: "broken", Message: "the store failed"}
				}
				return c.answer, nil
			})
			if err := c.change(b); fault.KindOf(err) != fault.OutcomeUnknown {
				t.Errorf("failed change: %v, want outcome_unknown", err)
			}
			if err := c.find(b); fault.KindOf(err) != fault.Unavailable {
				t.Errorf("failed look-up: %v, want unavailable", err)
			}
			fail = false
			if err := c.find(b); err != nil {
				t.Errorf("answered: %v", err)
			}
		})
	}
}

// TestAQueryIsRepeatedWhileItsAnswerIsPrepared, and at most for QueryTimeout.
func TestAQueryIsRepeatedWhileItsAnswerIsPrepared(t *testing.T) {
	w := newBareWorld(t, 1)
	var pending atomic.Int32
	w.serve(t, event.QuerySubject(0), func([]byte) (event.Message, error) {
		if pending.Add(-1) >= 0 {
			return &event.QueryAnswer{Status: event.QueryStatus_QUERY_PENDING}, nil
		}
		return &event.QueryAnswer{Status: event.QueryStatus_QUERY_OK, Answer: &event.QueryAnswer_Ledger{Ledger: &event.LedgerAnswer{}}}, nil
	})
	b := w.bus(t, func(c *Config) { c.QueryTimeout = time.Second })
	for _, times := range []int32{0, 1, 1 << 30} {
		pending.Store(times)
		a, err := b.Query(t.Context(), event.NewAccountID(), &event.Query{Query: &event.Query_Ledger{Ledger: &event.LedgerQuery{}}})
		var refused *fault.Error
		if ends := times < 1<<30; ends && (err != nil || a.GetLedger() == nil) ||
			!ends && (!errors.As(err, &refused) || refused.Kind != fault.Unavailable || refused.RetryAfter == 0) {
			t.Errorf("%d times pending: %v, %v", times, a, err)
		}
	}
}
