// Package mailtest is an SMTP server for tests, which keeps what it gets.
package mailtest

import (
	"crypto/tls"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// Server is an SMTP server. Set its fields before Listen.
type Server struct {
	Refuse      string           // recipient
	Hangup      bool             // closes the connection once it has taken an e-mail
	Certificate *tls.Certificate // for STARTTLS, without which there is no log-in; nil: neither

	mu     sync.Mutex
	got    []Received
	logins []string
}

// Received is an e-mail.
type Received struct {
	From, To string
	Data     []byte // header and body
}

// Listen starts the server until the test ends, and returns its address.
func (s *Server) Listen(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := smtp.NewServer(backend{s})
	srv.Domain = "mail.test"
	if s.Certificate != nil {
		srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*s.Certificate}, MinVersion: tls.VersionTLS12}
	}
	go srv.Serve(ln) //nolint:errcheck // it ends with the test
	t.Cleanup(func() { _ = srv.Close() })
	return ln.Addr().String()
}

// Got are the e-mails so far.
func (s *Server) Got() []Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// Logins are user and password of each log-in, with a space in between.
func (s *Server) Logins() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.logins)
}

type backend struct{ *Server }

func (b backend) NewSession(c *smtp.Conn) (smtp.Session, error) {
	return &session{server: b.Server, conn: c}, nil
}

type session struct {
	server *Server
	conn   *smtp.Conn
	mail   Received
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		s.server.mu.Lock()
		defer s.server.mu.Unlock()
		s.server.logins = append(s.server.logins, user+" "+password)
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.mail.From = from
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if to == s.server.Refuse {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no mailbox " + strings.ToLower(to)}
	}
	s.mail.To = to
	return nil
}

func (s *session) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.got = append(s.server.got, Received{s.mail.From, s.mail.To, data})
	return err
}

// Reset is called after each e-mail, and for RSET.
func (s *session) Reset() {
	if s.server.Hangup && len(s.server.Got()) > 0 {
		_ = s.conn.Conn().Close()
	}
}

func (s *session) Logout() error { return nil }
