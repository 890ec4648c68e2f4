package billing_test

import (
	"strings"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/plan"
	"quire.dev/services/billing"
	"quire.dev/services/billing/internal/mail"
	"quire.dev/services/billing/internal/mail/mailtest"
)

// TestAHolderGetsOneReceiptByEmail for a payment that is recorded again and again, also after a kill.
func TestAHolderGetsOneReceiptByEmail(t *testing.T) {
	s, box := newStack(t), &mailtest.Server{}
	cfg := billing.Config{Mail: mail.Config{
		URL: "smtp://" + box.Listen(t), From: "Example <billing@example.com>", Public: "https://paste.example.com",
	}}
	r := s.start(cfg, 0)
	s.account(alice, plan.Pro)
	s.account(bob, plan.Pro) // without a user
	a := s.user(&event.UserRequest{Action: &event.UserRequest_Register{Register: &event.RegisterUser{Email: "alice@example.org", Account: alice, PasswordHash: "hash"}}})
	if a.Status != event.UserStatus_USER_OK {
		t.Fatal(a)
	}
	pay := func(account uint64, id string) {
		t.Helper()
		c := &event.Command{Account: account, Action: &event.Command_Payment{Payment: &event.Payment{Provider: "bank", Id: id, CreditsMicros: 1_000_000, AmountCents: 100}}}
		if o := s.command(c); o.Status != event.CommandStatus_COMMAND_OK {
			t.Fatal(o)
		}
	}
	pay(bob, "in_1")
	for range 2 {
		pay(alice, "in_1")
		s.kill(r)
		r = s.start(cfg, 0)
	}
	pay(alice, "in_2")
	eventually.True(t, "both receipts are there", func() bool {
		subjects := map[string]bool{}
		for _, m := range box.Got() {
			header, _, _ := strings.Cut(string(m.Data), "\r\n\r\n")
			for _, line := range strings.Split(header, "\r\n") {
				if subject, is := strings.CutPrefix(line, "Subject: "); is && m.To == "alice@example.org" {
					subjects[subject] = true
				}
			}
		}
		return subjects["Receipt 1 from Example: 1 credit"] && subjects["Receipt 2 from Example: 1 credit"]
	})
	ids := map[string]int{}
	for _, m := range box.Got() {
		_, after, _ := strings.Cut(string(m.Data), "Message-ID: ")
		id, _, _ := strings.Cut(after, "\r\n")
		ids[id]++
	}
	if len(ids) != 2 { // a kill between an attempt and its record sends the same message again
		t.Errorf("messages %v", ids)
	}
}

// TestEmailsNeedAllTheirSettings before a service starts.
func TestEmailsNeedAllTheirSettings(t *testing.T) {
	s := newStack(t)
	_, err := billing.New(billing.Config{Mail: mail.Config{URL: "smtp://mail.example.com", From: "billing@example.com"}}, billing.Deps{NC: s.nc, Views: s.views, Blobs: s.blobs})
	if err == nil || !strings.Contains(err.Error(), "QUIRE_PUBLIC_URL") {
		t.Error(err)
	}
}
