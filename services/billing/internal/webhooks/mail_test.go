package webhooks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/views"
)

// mailbox is a Mail that keeps the ids of what it is to send.
type mailbox struct {
	mu      sync.Mutex
	ids     []string
	missing bool  // the account has no address
	fault   error // of the server
}

func (m *mailbox) send(_ context.Context, a *event.Alert) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ids = append(m.ids, a.Id)
	return !m.missing && m.fault == nil, m.fault
}

func (m *mailbox) got() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.ids)
}

func (m *mailbox) repair() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = nil
}

// paid projects the alert of a payment, to webhooks and by e-mail.
func (b *bench) paid(age time.Duration, webhooks ...uint64) {
	b.t.Helper()
	b.sequence++
	b.project(b.sequence, &event.Alert{
		Id: fmt.Sprintf("evt_%d", b.sequence), Position: fmt.Sprintf("%08d", b.sequence), Account: uint64(alice), TimeMs: b.now() - age.Milliseconds(),
		Type: event.AlertType_ALERT_PAYMENT, Payment: &event.PaymentState{Number: 1}, Webhooks: webhooks, Mail: true,
	})
}

// mailed is the state of the newest e-mail.
func (b *bench) mailed() *event.Delivery {
	b.t.Helper()
	docs, err := b.views.Load(b.t.Context(), deliveries, []string{deliveryID(alice, byMail, fmt.Sprintf("evt_%d", b.sequence))}, views.Heads)
	if err != nil || len(docs) != 1 {
		b.t.Fatalf("%d documents, %v", len(docs), err)
	}
	d, err := decodeDelivery(docs[0])
	if err != nil {
		b.t.Fatal(err)
	}
	return d
}

func (b *bench) mailEnds(as event.DeliveryStatus) {
	b.t.Helper()
	eventually.True(b.t, "the e-mail is "+as.String(), func() bool { return b.mailed().Status == as })
}

// TestAnEmailIsSentOnceAndTriedAgain until the server accepts it, also after another start.
func TestAnEmailIsSentOnceAndTriedAgain(t *testing.T) {
	b, m := newBench(t), &mailbox{fault: errors.New("greylisted")}
	b.mail = m.send
	stop := b.send("a")
	b.paid(0)
	eventually.True(t, "the first attempt has failed", func() bool { return len(b.mailed().Attempts) == 1 })
	stop()
	m.repair()
	b.send("b")
	b.pass(time.Minute)
	b.mailEnds(event.DeliveryStatus_DELIVERY_DELIVERED)
	if got := m.got(); got != 2 {
		t.Errorf("%d attempts", got)
	}
}

// TestNoEmailIsSent without an address, and long after the payment, as after the read model was built again.
func TestNoEmailIsSent(t *testing.T) {
	for name, one := range map[string]struct {
		missing bool // the address
		age     time.Duration
		want    int // attempts
		ends    event.DeliveryStatus
	}{
		"no address":     {missing: true, want: 1, ends: event.DeliveryStatus_DELIVERY_FAILED},
		"too old":        {age: maxAge + time.Minute, ends: event.DeliveryStatus_DELIVERY_FAILED},
		"not yet so old": {age: maxAge - time.Minute, want: 1, ends: event.DeliveryStatus_DELIVERY_DELIVERED},
	} {
		b, m := newBench(t), &mailbox{missing: one.missing}
		b.mail = m.send
		stop := b.send("a")
		b.paid(one.age)
		b.mailEnds(one.ends)
		b.pass(pauses()[0] * 2)
		stop()
		if m.got() != one.want {
			t.Errorf("%s: %d attempts", name, m.got())
		}
	}
}

// TestAnEmailWaitsForAnInstanceThatSendsSome, and is given up where there is none for days.
func TestAnEmailWaitsForAnInstanceThatSendsSome(t *testing.T) {
	b, m := newBench(t), &mailbox{}
	b.paid(0)
	created := b.mailed().NextMs
	stop := b.send("without mail")
	eventually.True(t, "the e-mail is put off", func() bool { return b.mailed().NextMs > created })
	stop()
	b.mail = m.send
	stop = b.send("with mail")
	b.pass(mailPause + time.Second)
	b.mailEnds(event.DeliveryStatus_DELIVERY_DELIVERED)
	stop()
	b.mail = nil
	b.paid(0)
	b.send("without mail")
	b.pass(maxAge + time.Minute)
	b.mailEnds(event.DeliveryStatus_DELIVERY_FAILED)
	if m.got() != 1 {
		t.Errorf("%d e-mails", m.got())
	}
}

// TestAnErasedAccountHasNoEmails that wait.
func TestAnErasedAccountHasNoEmails(t *testing.T) {
	b := newBench(t)
	b.paid(0)
	b.mailed()
	if err := Erase(t.Context(), b.views, alice); err != nil {
		t.Fatal(err)
	}
	left, err := b.views.List(t.Context(), deliveries, views.Query{Index: byDue, Limit: 10})
	if err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}
