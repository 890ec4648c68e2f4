package webhooks

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/views"
)

// changed projects an event of an object's content to a webhook, and returns its id.
func (b *bench) changed(webhook uint64, item string) string {
	b.t.Helper()
	b.sequence++
	a := &event.Alert{
		Id: fmt.Sprintf("evt_%03d", 999-b.sequence), Position: fmt.Sprintf("%08d", b.sequence), Account: uint64(alice), TimeMs: b.now(),
		Type: event.AlertType_ALERT_PASTE_UPDATED, Webhooks: []uint64{webhook}, Content: &event.ContentChange{Item: item, Version: b.sequence},
	}
	b.project(b.sequence, a)
	return a.Id
}

// TestDeliveriesOfAnObjectKeepTheirOrder: a later event of an object waits for the retries of an earlier one, and other objects don't.
func TestDeliveriesOfAnObjectKeepTheirOrder(t *testing.T) {
	b := newBench(t)
	var failing atomic.Bool
	failing.Store(true)
	var first string
	r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		if failing.Load() && req.Header.Get("Webhook-Id") == first {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	hook, _ := b.hook(r.URL)
	first = b.changed(hook, "one")
	want := []string{first, first}
	for range 20 {
		want = append(want, b.changed(hook, "one"))
	}
	for range 3 {
		b.changed(hook, "other")
	}
	order := func(of ...string) (ids []string) {
		for _, p := range r.got() {
			if slices.Contains(of, p.id) {
				ids = append(ids, p.id)
			}
		}
		return ids
	}
	b.send("a")
	eventually.True(t, "the other object's are delivered", func() bool { return len(r.got()) == 4 })
	if got := order(want...); !slices.Equal(got, []string{first}) {
		t.Fatalf("%q before the first is delivered", got)
	}
	failing.Store(false)
	b.pass(time.Minute)
	eventually.True(t, "all are delivered", func() bool { return len(order(want...)) == len(want) })
	if got := order(want...); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestTooManyPendingDeliveriesFail at once, those of content and of their account alone, until there is room again.
func TestTooManyPendingDeliveriesFail(t *testing.T) {
	b := newBench(t)
	r := newReceiver(t, func(http.ResponseWriter, *http.Request) {})
	hook, _ := b.hook(r.URL)
	backlog := NewBacklog(b.views)
	add := func(account event.AccountID, content *event.ContentChange) event.DeliveryStatus {
		t.Helper()
		b.sequence++
		id := fmt.Sprintf("evt_%d", b.sequence)
		puts, err := Puts(b.sequence, []*event.Alert{{
			Id: id, Position: fmt.Sprintf("%08d", b.sequence), Account: uint64(account), TimeMs: b.now(), Webhooks: []uint64{hook}, Content: content,
		}})
		if err == nil {
			err = backlog.Limit(t.Context(), puts)
		}
		if err == nil {
			err = b.views.Store.Commit(t.Context(), views.Batch{Puts: puts})
		}
		if err != nil {
			t.Fatal(err)
		}
		d, err := decodeDelivery(puts[1].Doc)
		if err != nil {
			t.Fatal(err)
		}
		return d.Status
	}
	paste := &event.ContentChange{Item: "paste"}
	const pending, failed = event.DeliveryStatus_DELIVERY_PENDING, event.DeliveryStatus_DELIVERY_FAILED
	for n := range MaxBacklog {
		if add(alice, paste) != pending {
			t.Fatalf("number %d fails", n)
		}
	}
	if add(alice, paste) != failed {
		t.Error("one too many is pending")
	}
	if d := b.delivery(hook); d.Status != failed || len(d.Attempts) != 1 || d.Attempts[0].Error != errBacklog {
		t.Errorf("shown as %v", d)
	}
	if add(alice, nil) != pending || add(alice+1, paste) != pending {
		t.Error("an alert of usage, or of another account, fails")
	}
	backlog.Forget() // as another instance begins
	if add(alice, paste) != failed {
		t.Error("one too many is pending after a new start")
	}
	b.send("a")
	eventually.True(t, "there is room again", func() bool { return add(alice, paste) == pending })
}
