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
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"quire.dev/pkg/event"
	"quire.dev/services/billing/internal/mail"
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

// server is an SMTP server that keeps what it gets.
type server struct {
	refuse string // recipient

	mu   sync.Mutex
	got  []received
	auth []string // user and password of each log-in
}

type received struct {
	from, to string
	data     []byte
}

func (s *server) NewSession(*smtp.Conn) (smtp.Session, error) { return &session{server: s}, nil }

type session struct {
	*server
	received
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.auth = append(s.auth, user+" "+password)
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.from = from
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if to == s.refuse {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no mailbox " + to}
	}
	s.to = to
	return nil
}

func (s *session) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, received{s.from, s.to, data})
	return err
}

func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }

// listen starts the server, and returns its address. secure has it offer STARTTLS, and log-ins only after that.
func (s *server) listen(t *testing.T, secure bool) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := smtp.NewServer(s)
	srv.Domain = "mail.test"
	if secure {
		srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	}
	go srv.Serve(ln) //nolint:errcheck // it ends with the test
	t.Cleanup(func() { _ = srv.Close() })
	return ln.Addr().String()
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
	s := &server{}
	m := mailer(t, "smtp://grace:s3cret@"+s.listen(t, true), addressOf("holder@example.org"))
	for range 2 {
		if sent, err := m.Send(t.Context(), payment()); err != nil || !sent {
			t.Fatal(sent, err)
		}
	}
	if len(s.got) != 2 || s.got[0].from != "billing@example.com" || s.got[0].to != "holder@example.org" || s.auth[0] != "grace s3cret" {
		t.Fatalf("%+v, logged in as %q", s.got, s.auth)
	}
	first, second := parse(t, s.got[0].data), parse(t, s.got[1].data)
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
	s := &server{}
	m := mailer(t, "smtp://"+s.listen(t, false), addressOf("holder@example.org"))
	fee := payment()
	fee.Payment = &event.PaymentState{Number: 4, TimeMs: fee.TimeMs, Plan: "pro"}
	for _, one := range []struct {
		alert         *event.Alert
		subject, body string
	}{
		{fee, "Receipt 4 from Example Pastes: the plan Pro", "For      the plan Pro\r\n\r\nReceipt"},
		{
			&event.Alert{Id: "evt_2", Type: event.AlertType_ALERT_TOP_UP_OFF, Reason: "card_declined"},
			"Automatic top-ups are off at Example Pastes", "The last attempt ended with: card_declined.",
		},
	} {
		if _, err := m.Send(t.Context(), one.alert); err != nil {
			t.Fatal(err)
		}
		got := parse(t, s.got[len(s.got)-1].data)
		body, err := io.ReadAll(got.Body)
		if err != nil || got.Header.Get("Subject") != one.subject || !strings.Contains(string(body), one.body) {
			t.Errorf("%q, %v:\n%s", got.Header.Get("Subject"), err, body)
		}
	}
}

// TestWithoutAnAddressNothingIsSent, and an error to read it is one.
func TestWithoutAnAddressNothingIsSent(t *testing.T) {
	s := &server{}
	url := "smtp://" + s.listen(t, false)
	if sent, err := mailer(t, url, addressOf("")).Send(t.Context(), payment()); sent || err != nil {
		t.Error(sent, err)
	}
	broken := errors.New("no read model")
	unread := func(context.Context, event.AccountID) (string, error) { return "", broken }
	if sent, err := mailer(t, url, unread).Send(t.Context(), payment()); sent || !errors.Is(err, broken) {
		t.Error(sent, err)
	}
	if len(s.got) != 0 {
		t.Errorf("%+v", s.got)
	}
}

// TestErrorsDontNameTheAddress, which is personal data, and log lines have them.
func TestErrorsDontNameTheAddress(t *testing.T) {
	s := &server{refuse: "holder@example.org"}
	sent, err := mailer(t, "smtp://"+s.listen(t, false), addressOf("holder@example.org")).Send(t.Context(), payment())
	if sent || err == nil || strings.Contains(err.Error(), "holder@") || !strings.Contains(err.Error(), "no mailbox") {
		t.Error(sent, err)
	}
}

// TestPasswordsAreSentEncryptedOnly: not in the clear, and not to a server whose certificate is for another host.
func TestPasswordsAreSentEncryptedOnly(t *testing.T) {
	for name, secure := range map[string]bool{"127.0.0.1": false, "localhost": true} {
		s := &server{}
		_, port, err := net.SplitHostPort(s.listen(t, secure))
		if err != nil {
			t.Fatal(err)
		}
		sent, err := mailer(t, "smtp://grace:s3cret@"+name+":"+port, addressOf("holder@example.org")).Send(t.Context(), payment())
		if sent || err == nil || strings.Contains(err.Error(), "s3cret") || len(s.auth) != 0 || len(s.got) != 0 {
			t.Errorf("%s: sent %v, %v, logged in as %q", name, sent, err, s.auth)
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
		"not a port":      func(c *mail.Config) { c.URL += ":smtp" },
	} {
		c := good
		change(&c)
		if _, err := mail.New(c, addressOf("")); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
