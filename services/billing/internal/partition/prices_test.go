package partition

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
	"quire.dev/pkg/rpc"
	"quire.dev/services/billing/internal/account"
)

// TestPricesThatStayAreLoggedOncePerCause, however often the instances are asked.
func TestPricesThatStayAreLoggedOncePerCause(t *testing.T) {
	server := journaltest.Start(t)
	now := time.Now()
	inForce, wanted := plan.Published(10), plan.Published(20)
	fold := account.New()
	prices := pricebook.Configured(inForce)
	prices.StampMs, prices.Rules, prices.Agreed = now.UnixMilli(), account.NewestRules, true
	if _, err := fold.Apply(account.Message{
		Sequence: 1, TimeNanos: now.UnixNano(), Kind: account.Prices, Data: encoded(t, prices),
	}); err != nil {
		t.Fatal(err)
	}
	nc := server.Conn(t) // one for all, so that the server knows the instances before one of them asks
	var log strings.Builder
	p := New(Config{Instance: "this", Book: wanted, Rules: account.NewestRules, Started: now.Add(time.Hour)}, Deps{
		NC: nc, Clock: time.Now, Metrics: NewMetrics(nil), Logger: slog.New(slog.NewTextHandler(io.Writer(&log), nil)),
	})
	p.fold = fold
	// The answers of two instances: this one, and another with the prices in force.
	ask := func(live []string, want int, cause string) {
		t.Helper()
		var servers []*rpc.Server
		for name, book := range map[string]*plan.Book{"this": wanted, "other": inForce} {
			data, err := json.Marshal(event.Instance{Name: name, Rules: account.NewestRules, Book: pricebook.Hash(book), Live: live})
			if err != nil {
				t.Fatal(err)
			}
			answer := func(context.Context, []byte) ([]byte, error) { return data, nil }
			s, err := rpc.Serve(nc, event.InstancesSubject, name, 1, answer)
			if err != nil {
				t.Fatal(err)
			}
			servers = append(servers, s)
		}
		defer rpc.Stop(time.Second, servers...)
		renew := func() int {
			if done, err := p.renewBook(t.Context()); err != nil || done {
				t.Fatalf("done %v, %v", done, err)
			}
			return strings.Count(log.String(), cause)
		}
		eventually.True(t, cause, func() bool { return renew() == want }) // an instance may be late under load
		if got := renew(); got != want {
			t.Fatalf("%d lines with %q, want %d:\n%s", got, cause, want, log.String())
		}
	}
	ask(nil, 1, "configured with different prices")
	ask([]string{"this", "silent", "quiet"}, 1, "instance quiet is alive but did not answer")
	ask(nil, 2, "configured with different prices")
}

func encoded(t *testing.T, m event.Message) []byte {
	t.Helper()
	data, err := event.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
