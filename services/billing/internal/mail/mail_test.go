package mail_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	netmail "net/mail"
	"os"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/services/billing/internal/mail"
	"quire.dev/services/billing/internal/mail/mailtest"
)

// certificate is valid for 127.0.0.1, and not for localhost. The process trusts it.
var certificate tls.Certificate

func TestMain(m *testing.M) {
	s := httptest.NewTLSServer(nil)
	certificate = s.TLS.Certificates[0]
	s.Close()
	file, err := os.CreateTemp("", "certificate")
	if err == nil {
		err = pem.Encode(file, &pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	}
	if err == nil {
		err = errors.Join(file.Close(), os.Setenv("SSL_CERT_FILE", file.Name()))
	}
	if err != nil {
		panic(err)
	}
	defer os.Remove(file.Name())
	m.Run()
}

func addressOf(text string) mail.Address {
	return func(context.Context, event.AccountID) (string, error) { return text, nil }
}

func mailer(t *testing.T, url string, address mail.Address) *mail.Mailer {
	t.Helper()
	m, err := mail.New(mail.Config{URL: url, From: "Example Pastes <billing@example.com>", Public: "https://paste.example.com/"}, address)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var paid = time.Date(2026, 11, 27, 9, 5, 0, 0, time.UTC)

func payment() *event.Alert {
	return &event.Alert{
		Id: "evt_1", Account: 7, TimeMs: paid.UnixMilli(), Type: event.AlertType_ALERT_PAYMENT, Mail: true,
		Payment: &event.PaymentState{Number: 3, TimeMs: paid.UnixMilli(), CreditsMicros: 500_500_000, AmountCents: 1190, TaxCents: 190},
	}
}

// TestAReceiptIsSentByMail, with what it was for, its amounts, and links.
func TestAReceiptIsSentByMail(t *testing.T) {
	s := &mailtest.Server{Certificate: &certificate}
	m := mailer(t, "smtp://grace:s3cret@"+s.Listen(t), addressOf("holder@example.org"))
	for range 2 {
		if sent, err := m.Send(t.Context(), payment()); err != nil || !sent {
			t.Fatal(sent, err)
		}
	}
	got := s.Got()
	if len(got) != 2 || got[0].From != "billing@example.com" || got[0].To != "holder@example.org" || s.Logins()[0] != "grace s3cret" {
		t.Fatalf("%+v, logged in as %q", got, s.Logins())
	}
	first, second := parse(t, got[0].Data), parse(t, got[1].Data)
	for name, want := range map[string]string{
		"From": `"Example Pastes" <billing@example.com>`, "To": "<holder@example.org>", "Subject": "Receipt 3 from Example Pastes: 500.5 credits",
		"Message-Id": "<evt_1@example.com>", "Date": "Fri, 27 Nov 2026 09:05:00 +0000", "Auto-Submitted": "auto-generated",
	} {
		if got := first.Header.Get(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if first.Header.Get("Message-Id") != second.Header.Get("Message-Id") {
		t.Error("a repetition is another message")
	}
	body, err := io.ReadAll(first.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"For      500.5 credits\r\n", "Tax      $1.90\r\n", "Total    $11.90\r\n", "27 November 2026, 09:05 UTC\r\n",
		"\r\nhttps://paste.example.com/console/payments/3\r\n", "\r\nhttps://paste.example.com/console/plan\r\n",
	} {
		if !bytes.Contains(body, []byte(want)) {
			t.Errorf("no %q in:\n%s", want, body)
		}
	}
}

func parse(t *testing.T, data []byte) *netmail.Message {
	t.Helper()
	m, err := netmail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestTextsOfEmails that TestAReceiptIsSentByMail does not have.
func TestTextsOfEmails(t *testing.T) {
	s := &mailtest.Server{}
	m := mailer(t, "smtp://"+s.Listen(t), addressOf("holder@example.org"))
	fee := payment()
	fee.Payment = &event.PaymentState{Number: 4, TimeMs: fee.TimeMs, Plan: "pro"}
	for _, one := range []struct {
		alert         *event.Alert
		subject, body string
	}{
		{fee, "Receipt 4 from Example Pastes: the plan Pro", "For      the plan Pro\r\n\r\nReceipt"},
		{
			&event.Alert{Id: "evt_2", Type: event.AlertType_ALERT_TOP_UP_OFF, Reason: "card_declined"},
			"Automatic top-ups are off at Example Pastes", "made. The card was declined.",
		},
	} {
		if _, err := m.Send(t.Context(), one.alert); err != nil {
			t.Fatal(err)
		}
		all := s.Got()
		got := parse(t, all[len(all)-1].Data)
		body, err := io.ReadAll(got.Body)
		if err != nil || got.Header.Get("Subject") != one.subject || !strings.Contains(string(body), one.body) {
			t.Errorf("%q, %v:\n%s", got.Header.Get("Subject"), err, body)
		}
	}
}

// TestWithoutAnAddressNothingIsSent, and an error to read it is one.
func TestWithoutAnAddressNothingIsSent(t *testing.T) {
	s := &mailtest.Server{}
	url := "smtp://" + s.Listen(t)
	if sent, err := mailer(t, url, addressOf("")).Send(t.Context(), payment()); sent || err != nil {
		t.Error(sent, err)
	}
	broken := errors.New("no read model")
	unread := func(context.Context, event.AccountID) (string, error) { return "", broken }
	if sent, err := mailer(t, url, unread).Send(t.Context(), payment()); sent || !errors.Is(err, broken) {
		t.Error(sent, err)
	}
	if got := s.Got(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestErrorsDontNameTheAddress, however the server spells it: it is personal data, and log lines have the errors.
func TestErrorsDontNameTheAddress(t *testing.T) {
	s := &mailtest.Server{Refuse: "Holder@example.org"}
	sent, err := mailer(t, "smtp://"+s.Listen(t), addressOf("Holder@example.org")).Send(t.Context(), payment())
	if sent || err == nil || strings.Contains(strings.ToLower(err.Error()), "holder@") || !strings.Contains(err.Error(), "550") {
		t.Error(sent, err)
	}
	sent, err = mailer(t, "smtp://"+s.Listen(t), addressOf("not an address")).Send(t.Context(), payment())
	if sent || err == nil || strings.Contains(err.Error(), "an address") {
		t.Error(sent, err)
	}
}

// TestAnEmailThatTheServerHasTakenIsSent, whatever becomes of the connection.
func TestAnEmailThatTheServerHasTakenIsSent(t *testing.T) {
	s := &mailtest.Server{Hangup: true}
	sent, err := mailer(t, "smtp://"+s.Listen(t), addressOf("holder@example.org")).Send(t.Context(), payment())
	if !sent || err != nil || len(s.Got()) != 1 {
		t.Error(sent, err)
	}
}

// TestPasswordsAreSentEncryptedOnly: not in the clear, and not to a server whose certificate is for another host.
func TestPasswordsAreSentEncryptedOnly(t *testing.T) {
	for name, secure := range map[string]bool{"127.0.0.1": false, "localhost": true} { // the first offers no TLS
		s := &mailtest.Server{}
		if secure {
			s.Certificate = &certificate
		}
		_, port, err := net.SplitHostPort(s.Listen(t))
		if err != nil {
			t.Fatal(err)
		}
		sent, err := mailer(t, "smtp://grace:s3cret@"+name+":"+port, addressOf("holder@example.org")).Send(t.Context(), payment())
		if sent || err == nil || strings.Contains(err.Error(), "s3cret") || len(s.Logins()) != 0 || len(s.Got()) != 0 {
			t.Errorf("%s: sent %v, %v, logged in as %q", name, sent, err, s.Logins())
		}
	}
}

// TestSettingsOfEmailsAreChecked, without showing the password.
func TestSettingsOfEmailsAreChecked(t *testing.T) {
	good := mail.Config{URL: "smtps://grace:s3cret@mail.example.com", From: "billing@example.com", Public: "https://paste.example.com"}
	if _, err := mail.New(good, addressOf("")); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*mail.Config){
		"no sender":       func(c *mail.Config) { c.From = "" },
		"no public URL":   func(c *mail.Config) { c.Public = "" },
		"not an address":  func(c *mail.Config) { c.From = "Example Pastes" },
		"another scheme":  func(c *mail.Config) { c.URL = "http://grace:s3cret@mail.example.com" },
		"no host":         func(c *mail.Config) { c.URL = "smtp://grace:s3cret@" },
		"a path":          func(c *mail.Config) { c.URL += "/path" },
		"a query":         func(c *mail.Config) { c.URL += "?tls=none" },
		"a port too high": func(c *mail.Config) { c.URL += ":65536" },
		"an IPv6 address": func(c *mail.Config) { c.URL = "smtp://[::1]:587" },
		"not a port":      func(c *mail.Config) { c.URL += ":smtp" },
	} {
		c := good
		change(&c)
		if _, err := mail.New(c, addressOf("")); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
