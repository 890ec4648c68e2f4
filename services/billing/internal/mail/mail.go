// Package mail sends account holders e-mails about their payments, through an SMTP server.
package mail

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"quire.dev/pkg/event"
)

// Config configures e-mails. All of it must be set.
type Config struct {
	URL    string // smtps://user:password@host:465, or smtp://user:password@host:587 for STARTTLS; without a user there is no log-in
	From   string // sender, such as Example <billing@example.com>
	Public string // beginning of links
}

// attemptTime bounds each step of a delivery: the connection, and each command of the SMTP session.
const attemptTime = 10 * time.Second

// Address returns an account's email address, "" if it has none.
type Address func(ctx context.Context, account event.AccountID) (string, error)

// Mailer sends e-mails. Safe for concurrent use.
type Mailer struct {
	cfg     Config
	from    *mail.Address
	host    string
	options []gomail.Option
	address Address
}

// New returns a Mailer. It contacts nothing.
func New(cfg Config, address Address) (*Mailer, error) {
	if cfg.URL == "" || cfg.From == "" || cfg.Public == "" {
		return nil, errors.New("QUIRE_SMTP_URL needs QUIRE_MAIL_FROM, and QUIRE_PUBLIC_URL, which the links in e-mails begin with")
	}
	m := &Mailer{cfg: cfg, address: address}
	m.cfg.Public = strings.TrimSuffix(cfg.Public, "/")
	var err error
	if m.from, err = mail.ParseAddress(cfg.From); err != nil {
		return nil, errors.New("QUIRE_MAIL_FROM must be an address like Example <billing@example.com>")
	}
	if err := m.server(); err != nil {
		return nil, err
	}
	_, err = m.client()
	return m, err
}

// server reads the server's URL. Its errors don't show it, since it has a password.
func (m *Mailer) server() error {
	u, err := url.Parse(m.cfg.URL)
	if err != nil || u.Hostname() == "" || u.Scheme != "smtp" && u.Scheme != "smtps" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return errors.New("QUIRE_SMTP_URL must be like smtps://user:password@host:465 or smtp://user:password@host:587")
	}
	if m.host = u.Hostname(); strings.Contains(m.host, ":") {
		return errors.New("QUIRE_SMTP_URL must have the server's name, or its IPv4 address")
	}
	m.options = []gomail.Option{gomail.WithTimeout(attemptTime)}
	port := 587
	switch {
	case u.Scheme == "smtps":
		port = 465
		m.options = append(m.options, gomail.WithSSL())
	case isLoopback(m.host) && u.User == nil: // such a server has a certificate that nobody trusts, as a rule
		m.options = append(m.options, gomail.WithTLSPolicy(gomail.NoTLS))
	default:
		m.options = append(m.options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	}
	if given := u.Port(); given != "" {
		if port, err = strconv.Atoi(given); err != nil {
			return errors.New("the port in QUIRE_SMTP_URL must be a number")
		}
	}
	m.options = append(m.options, gomail.WithPort(port))
	if u.User != nil {
		password, _ := u.User.Password()
		m.options = append(m.options, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover), gomail.WithUsername(u.User.Username()), gomail.WithPassword(password))
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// client is used for one e-mail: it is not safe for concurrent use.
func (m *Mailer) client() (*gomail.Client, error) {
	c, err := gomail.NewClient(m.host, m.options...)
	if err != nil {
		return nil, fmt.Errorf("configure e-mails: %w", err)
	}
	return c, nil
}

// Send sends the account holder an e-mail about an alert, unless the account has no address. Every attempt has the same Message-ID,
// so that mail programs can drop a repetition. Its errors don't name the address.
func (m *Mailer) Send(ctx context.Context, a *event.Alert) (sent bool, err error) {
	to, err := m.address(ctx, event.AccountID(a.Account))
	if err != nil || to == "" {
		return false, err
	}
	if err = m.deliver(ctx, to, a); err != nil {
		return false, withoutAddress(err)
	}
	return true, nil
}

// withoutAddress leaves out what the server says, in which it may name the address.
func withoutAddress(err error) error {
	if said, is := errors.AsType[*gomail.SendError](err); is {
		return fmt.Errorf("the SMTP server refuses the e-mail: %s, reply %d %s", said.Reason, said.ErrorCode(), said.EnhancedStatusCode())
	}
	return err
}

func (m *Mailer) deliver(ctx context.Context, to string, a *event.Alert) error {
	message, err := m.message(to, a)
	if err != nil {
		return errors.New("the account's email address is not valid")
	}
	client, err := m.client()
	if err != nil {
		return err
	}
	if err := client.DialWithContext(ctx); err != nil {
		return err
	}
	defer client.Close() // the server has accepted the e-mail, or not, before that
	if err := client.Send(message); !message.IsDelivered() {
		return err
	}
	return nil
}

func (m *Mailer) message(to string, a *event.Alert) (*gomail.Msg, error) {
	subject, body := m.text(a)
	message := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	message.FromMailAddress(m.from)
	if err := message.To(to); err != nil {
		return nil, err
	}
	domain := m.from.Address[strings.LastIndex(m.from.Address, "@")+1:]
	message.SetMessageIDWithValue(a.Id + "@" + domain)
	message.SetDateWithValue(time.UnixMilli(a.TimeMs).UTC())
	message.SetGenHeader("Auto-Submitted", "auto-generated")
	message.Subject(subject)
	message.SetBodyString(gomail.TypeTextPlain, body)
	return message, nil
}
