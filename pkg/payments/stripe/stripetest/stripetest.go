// Package stripetest is a stand-in for Stripe over HTTP: the part of its API that Quire uses, its Checkout page and customer
// portal as plain HTML forms, and webhooks that are signed as Stripe signs them and delivered with faults.
//
// It keeps state, which Stripe's own stripe-mock doesn't, and behaves as the documentation that its comments cite says. Nothing
// happens by itself: a test pays, refunds, disputes and renews with methods or on the pages, and delivers webhooks when it wants
// to. So tests need no sleeps. Several tests can run servers in one process.
package stripetest

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// Config describes a server. The zero value is a server without a webhook endpoint.
type Config struct {
	Address    string           // to listen on, on the loopback interface; "" is 127.0.0.1 and a free port
	Key        string           // the secret API key; "" is DefaultKey
	Secret     string           // the signing secret of the webhook endpoint; "" is DefaultSecret
	Endpoint   string           // URL that webhooks are posted to; "" posts none. SetEndpoint changes it
	EventTypes []string         // types of events that the endpoint is subscribed to; nil is all. Others are not even recorded
	Faults     Faults           // of deliveries
	Seed       uint64           // of the faults; print it
	Auto       bool             // deliver webhooks by itself as soon as there are any, for use in a browser
	TaxPercent int64            // tax that Checkout adds to sessions with automatic tax
	SearchLag  bool             // new customers are found only after Reindex
	Now        func() time.Time // the clock; nil is time.Now. Advance moves it
}

// Values of a Config without them.
const (
	DefaultKey    = "sk_test_standin"
	DefaultSecret = "whsec_stand_in"
)

// Server is a Stripe account with its API. Its methods are safe for concurrent use. Close stops it.
type Server struct {
	URL string // base URL of the API and the pages

	config  Config
	http    *http.Server
	client  *http.Client
	pages   *template.Template
	ended   chan struct{} // closed by Close
	wake    chan struct{} // has a value if Auto has something to deliver
	running sync.WaitGroup

	mu        sync.Mutex
	random    *rand.Rand
	ids       int
	advanced  time.Duration
	endpoint  string
	keys      map[string]*kept // by idempotency key
	breaks    []*planned
	customers table[*customer]
	methods   table[*method]
	sessions  table[*session]
	portals   table[*portal]
	intents   table[*intent]
	refunds   table[*refund]
	disputes  table[*dispute]
	subs      table[*subscription]
	products  table[*product]
	invoices  table[*invoice]
	payments  table[*invoicePayment]
	events    table[*event]
	queue     []delivery
	dropped   int
	delivered int
}

// Start starts a server.
func Start(config Config) (*Server, error) {
	if config.Address == "" {
		config.Address = "127.0.0.1:0"
	}
	if config.Key == "" {
		config.Key = DefaultKey
	}
	if config.Secret == "" {
		config.Secret = DefaultSecret
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	listener, err := net.Listen("tcp", config.Address)
	if err != nil {
		return nil, fmt.Errorf("stripetest: %w", err)
	}
	s := &Server{
		URL: "http://" + listener.Addr().String(), config: config, endpoint: config.Endpoint,
		pages:  parsePages(),
		client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
		ended:  make(chan struct{}), wake: make(chan struct{}, 1),
		random: rand.New(rand.NewPCG(config.Seed, 0)), keys: make(map[string]*kept),
	}
	s.http = &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	s.running.Go(func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			panic(err)
		}
	})
	if config.Auto {
		s.running.Go(s.deliverAll)
	}
	return s, nil
}

// Close stops the server, ends held requests, and waits for its goroutines. What is queued is not delivered.
func (s *Server) Close() {
	close(s.ended)
	_ = s.http.Close()
	s.client.CloseIdleConnections()
	s.running.Wait()
}

// SetEndpoint changes the URL that webhooks are posted to. "" posts no further ones.
func (s *Server) SetEndpoint(url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoint = url
}

// Advance moves the server's clock forward: the times of objects, and how long events and idempotency keys are kept. Webhooks
// are signed with the real time, which their receiver compares.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advanced += d
}

// now is the server's time. Stripe's times are whole seconds.
func (s *Server) now() time.Time { return s.config.Now().Add(s.advanced).Truncate(time.Second) }

// id returns a new ID with a prefix, such as cus.
func (s *Server) id(prefix string) string {
	s.ids++
	return fmt.Sprintf("%s_standin%08d", prefix, s.ids)
}

// deliverAll delivers webhooks as they come up, for Config.Auto.
func (s *Server) deliverAll() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.running.Go(func() { <-s.ended; cancel() })
	for {
		select {
		case <-s.ended:
			return
		case <-s.wake:
			_ = s.Deliver(ctx) // what fails stays queued until the next event
		}
	}
}
