package web

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/rpc"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/endpoint/endpointtest"
)

// holder fakes the services for an account with so many items of each kind. It counts queries, and the items in its answers.
type holder struct {
	items int

	mu    sync.Mutex
	asked map[string]int
	given int
}

// take is the number of items in an answer.
func (h *holder) take(limit uint32) int {
	n := min(int(limit), h.items)
	h.given += n
	return n
}

// since returns the queries since the last call, and the number of items returned.
func (h *holder) since() (asked map[string]int, given int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	asked, given = h.asked, h.given
	h.asked, h.given = map[string]int{}, 0
	return asked, given
}

func (h *holder) query(_ context.Context, payload []byte) ([]byte, error) {
	var q event.Query
	if err := event.Decode(payload, &q); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if q.GetPrices() == nil { // cached by edges for some seconds
		h.asked[fmt.Sprintf("%T", q.Query)]++
	}
	a := &event.QueryAnswer{Status: event.QueryStatus_QUERY_OK}
	switch asked := q.Query.(type) {
	case *event.Query_Usage:
		u := &event.UsageAnswer{Account: q.Account, Tier: uint32(plan.Pro), KeyVersion: 1, CreatedMs: 1}
		for n := range min(h.items, 40) { // active ones, and ended ones
			u.Keys = append(u.Keys, &event.ApiKey{Number: uint32(n), Name: fmt.Sprint("key ", n), CreatedMs: 1})
		}
		a.Answer = &event.QueryAnswer_Usage{Usage: u}
	case *event.Query_Ledger:
		page := &event.LedgerAnswer{NextCursor: []byte("next")}
		for n := range h.take(asked.Ledger.Limit) {
			id := event.NewRequestID()
			page.Entries = append(page.Entries, &event.LedgerEntry{Id: fmt.Sprint(n), Type: event.LedgerType_LEDGER_CHARGE, AmountMicros: -1, RequestId: id[:]})
		}
		a.Answer = &event.QueryAnswer_Ledger{Ledger: page}
	case *event.Query_Recent:
		page := &event.RecentAnswer{NextCursor: []byte("next")}
		for range h.take(asked.Recent.Limit) {
			id := event.NewRequestID()
			page.Requests = append(page.Requests, &event.RecentRequest{RequestId: id[:], QuotaKey: uint32(plan.LiteGet), Decision: event.Decision_ADMITTED, Status: "served"})
		}
		a.Answer = &event.QueryAnswer_Recent{Recent: page}
	case *event.Query_Statement:
		a.Answer = &event.QueryAnswer_Statement{Statement: &event.StatementAnswer{Period: asked.Statement.Period, Tier: uint32(plan.Pro)}}
	case *event.Query_Prices:
		a.Answer = &event.QueryAnswer_Prices{Prices: &event.PriceBook{}}
	case *event.Query_UsageDays:
		a.Answer = &event.QueryAnswer_UsageDays{UsageDays: &event.UsageDaysAnswer{SinceMs: 1}}
	case *event.Query_Webhooks:
		hooks := &event.WebhooksAnswer{}
		for n := range min(h.items, accounts.MaxWebhooks) {
			hooks.Webhooks = append(hooks.Webhooks, &event.WebhookRules{Webhook: uint64(n + 1), Events: 1, CreatedMs: 1})
		}
		a.Answer = &event.QueryAnswer_Webhooks{Webhooks: hooks}
	}
	return event.Encode(a)
}

func (h *holder) user(_ context.Context, payload []byte) ([]byte, error) {
	var r event.UserRequest
	if err := event.Decode(payload, &r); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked[fmt.Sprintf("%T", r.Action)]++
	a := &event.UserAnswer{Status: event.UserStatus_USER_OK, User: &event.User{Account: 1, Email: "ann@example.com"}}
	switch r.Action.(type) {
	case *event.UserRequest_ListSessions:
		for n := range min(h.items, 100) {
			a.Sessions = append(a.Sessions, &event.OpenSession{SessionHash: fmt.Appendf(nil, "%032d", n), CreatedMs: 1, SeenMs: 1})
		}
	case *event.UserRequest_FindExport:
		a.Status = event.UserStatus_USER_NOT_FOUND
	}
	return event.Encode(a)
}

func (h *holder) webhooks(_ context.Context, payload []byte) ([]byte, error) {
	var r event.WebhookRequest
	if err := event.Decode(payload, &r); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked[fmt.Sprintf("%T", r.Action)]++
	a := &event.WebhookAnswer{Status: event.WebhookStatus_WEBHOOK_OK}
	for n := range min(h.items, accounts.MaxWebhooks) {
		a.Addresses = append(a.Addresses, &event.WebhookAddress{Webhook: uint64(n + 1), Url: "https://example.com/"})
	}
	return event.Encode(a)
}

func (h *holder) list(_ context.Context, payload []byte) ([]byte, error) {
	var q event.ListRequest
	if err := event.Decode(payload, &q); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked["list"]++
	page := &event.ListAnswer{More: true, ScannedPosition: 1, ScannedId: "000000000000"}
	for n := range h.take(q.Limit) {
		page.Documents = append(page.Documents, &event.Document{
			Id: fmt.Sprintf("%012d", n), Title: "A title", Language: "go", Version: 1, CreatedMs: 1, UpdatedMs: 1, Visibility: uint32(event.Unlisted),
			Content: &event.Content{SizeBytes: 1, Sha256: make([]byte, 32)},
		})
	}
	return event.Encode(page)
}

// TestAPageAsksAsMuchForAThousandItemsAsForTen: the same few queries, and no more items than it shows.
func TestAPageAsksAsMuchForAThousandItemsAsForTen(t *testing.T) {
	const mostQuestions, mostItems, mostBytes = 8, 50, 100_000
	h := &holder{asked: map[string]int{}}
	nc := journaltest.Start(t).Conn(t)
	serve := func(subject string, handle func(context.Context, []byte) ([]byte, error)) {
		server, err := rpc.Serve(nc, subject, "holder", 1, handle)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Drain(context.Background()) })
	}
	serve(event.QuerySubject(0), h.query)
	serve(event.UserSubject, h.user)
	serve(event.WebhookSubject, h.webhooks)
	for _, domain := range event.Documents() {
		serve(domain.ListSubject(0), h.list)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	b, err := bus.New(nc, bus.Config{Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, addr := startServerOn(t, b, Config{}, func(*Server) {})
	cookie := "quire_session=" + theSecret(t).SignSession(make([]byte, 32))
	for _, path := range []string{
		console.Path, console.UsagePath, console.KeysPath, console.KeysPath + "/k1", console.RequestsPath, console.RequestListPath, console.BillingPath,
		console.LedgerPath, console.LedgerPath + "?q=x", console.WebhooksPath, console.PastesPath, console.QuickPath, console.FilesPath,
		console.PastesPath + "?tag=x", console.PastesPath + "/new", console.AccountPath, console.ExportPath, console.StatementPath + "/" + time.Now().UTC().Format("2006-01"),
	} {
		ask := func(items int) (asked map[string]int, given int) {
			h.items = items
			got := endpointtest.Exchange(t, addr, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\nCookie: %s\r\n\r\n", path, cookie), 1)[0]
			if got.Status != http.StatusOK || len(got.Body) > mostBytes {
				t.Fatalf("%s: %d, %d bytes, %.300s", path, got.Status, len(got.Body), got.Body)
			}
			return h.since()
		}
		eventually.NoError(t, path, func() error { // on a busy machine a query may be sent twice
			few, _ := ask(10)
			many, given := ask(1000)
			total := 0
			for _, n := range many {
				total += n
			}
			if !maps.Equal(few, many) || total > mostQuestions || given > mostItems {
				return fmt.Errorf("it asks %v for ten items and %v for a thousand, and was given %d", few, many, given)
			}
			return nil
		})
	}
}
