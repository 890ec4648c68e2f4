// Package payers pays an installation under test by a stand-in for Stripe, whose webhooks are dropped, doubled, delayed and reordered
// while processes are killed, and compares each account with what was paid.
package payers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/payments/stripe"
	"quire.dev/pkg/payments/stripe/stripetest"
	"quire.dev/pkg/plan"
)

const (
	accounts     = 8
	compareLimit = 15 * time.Minute
)

// Config is what is paid, and how often something is killed.
type Config struct {
	Seed       uint64 // of payments, faults and kills
	Count      int    // of payments, more than 8
	Kills      int
	AdminToken func() string // of the installation, once it runs
	Base       func() string // URL of one of its edges
}

// Payers are accounts that pay. Its methods end the test at an error of the installation's.
type Payers struct {
	Stripe *stripetest.Server

	t        testing.TB
	config   Config
	accounts []account
}

// account pays.
type account struct {
	id, key  string
	metadata map[string]string // of a payment of 10 credits
}

// New starts the stand-in, which ends with the test.
func New(t testing.TB, config Config) *Payers {
	t.Helper()
	server, err := stripetest.Start(stripetest.Config{
		EventTypes: stripe.EventTypes(), Seed: config.Seed,
		Faults: stripetest.Faults{Never: 0.1, Twice: 0.1, Late: 0.2, Shuffle: 0.5, AtOnce: 8},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return &Payers{Stripe: server, t: t, config: config}
}

// Settings returns the settings of an installation that takes payments through the stand-in.
func (p *Payers) Settings() map[string]string {
	return map[string]string{"QUIRE_STRIPE_KEY": stripetest.DefaultKey, "QUIRE_STRIPE_WEBHOOK_SECRET": stripetest.DefaultSecret, "QUIRE_STRIPE_URL": p.Stripe.URL}
}

// Receive has webhooks delivered to an edge; "": none come.
func (p *Payers) Receive(base string) {
	if base != "" {
		base += "/payments/webhook"
	}
	p.Stripe.SetEndpoint(base)
}

// Run has all accounts pay, and calls kill in between, each time after more webhooks were accepted. At the end some webhooks are still
// to be delivered; no more are after Run.
func (p *Payers) Run(kill func(n int, random *rand.Rand)) {
	p.t.Helper()
	p.open()
	work, stop := context.WithCancel(p.t.Context())
	defer stop()
	var running sync.WaitGroup
	var paid atomic.Int64
	running.Go(func() { // deliveries fail while an edge is down, and are tried again
		pace := time.NewTicker(time.Millisecond)
		defer pace.Stop()
		for work.Err() == nil {
			_ = p.Stripe.Deliver(work)
			<-pace.C
		}
	})
	running.Go(func() {
		random := rand.New(rand.NewPCG(p.config.Seed, 1))
		for range p.config.Count - accounts {
			if err := p.pay(random); err != nil {
				p.t.Errorf("pay: %v", err)
				return
			}
			paid.Add(1)
		}
	})
	random := rand.New(rand.NewPCG(p.config.Seed, 2))
	accepted := func(share int) { // of what can be, at least half
		some := share*p.config.Count/(2*(p.config.Kills+1)) + random.IntN(5)
		eventually.True(p.t, "more webhooks are accepted", func() bool { return p.Stripe.Delivered() >= some || p.t.Failed() })
	}
	for n := range p.config.Kills {
		accepted(n + 1)
		kill(n, random)
	}
	accepted(p.config.Kills + 1)
	eventually.True(p.t, "all is paid", func() bool { return paid.Load() == int64(p.config.Count-accounts) || p.t.Failed() })
	stop()
	running.Wait()
	p.t.Logf("%d webhooks were accepted, %d never sent, %d are left", p.Stripe.Delivered(), p.Stripe.Dropped(), p.Stripe.Queued())
	p.Receive("") // the others never come
}

// open makes the accounts, each of which pays once on the page of a checkout.
func (p *Payers) open() {
	p.t.Helper()
	for n := range accounts {
		var made struct {
			APIKey  string
			Account struct{ ID string }
		}
		p.call("POST", "/api/admin/accounts", p.config.AdminToken(), map[string]string{"email": fmt.Sprintf("payer%d@example.org", n), "tier": "pro"}, &made)
		var page struct{ URL string }
		p.call("POST", "/api/users/user/checkout", made.APIKey, map[string]string{"credits": "10"}, &page)
		id, err := p.Stripe.Pay(page.URL, stripetest.Good)
		if err != nil {
			p.t.Fatal(err)
		}
		for _, paid := range p.Stripe.Payments() {
			if paid.ID == id {
				p.accounts = append(p.accounts, account{made.Account.ID, made.APIKey, paid.Metadata})
			}
		}
	}
}

// pay makes a payment, of which some are refunded or disputed.
func (p *Payers) pay(random *rand.Rand) error {
	of, cents := p.accounts[random.IntN(accounts)], 100+random.Int64N(5000)
	metadata := maps.Clone(of.metadata)
	metadata["quire_amount"], metadata["quire_credits_micros"] = strconv.FormatInt(cents, 10), strconv.FormatInt(cents*10_000, 10)
	id := p.Stripe.CreateIntent(cents, "usd", metadata)
	if err := p.Stripe.PayIntent(id); err != nil {
		return err
	}
	switch random.IntN(20) {
	case 0:
		_, err := p.Stripe.Refund(id, 1+random.Int64N(cents))
		return err
	case 1:
		dispute, err := p.Stripe.Dispute(id)
		if err == nil && random.IntN(2) == 0 {
			err = p.Stripe.WinDispute(dispute)
		}
		return err
	}
	return nil
}

// kept is the credits that each account's payments are good for, in micros, and how many payments it has made: counted without the
// product's own arithmetic.
func (p *Payers) kept() (credits map[string]int64, count map[string]int) {
	p.t.Helper()
	credits, count = map[string]int64{}, map[string]int{}
	for _, paid := range p.Stripe.Payments() {
		if paid.Status != "succeeded" {
			p.t.Errorf("payment %s is %s", paid.ID, paid.Status)
		}
		bought, err := strconv.ParseInt(paid.Metadata["quire_credits_micros"], 10, 64)
		if err != nil {
			p.t.Fatal(err)
		}
		id := paid.Metadata["quire_account"]
		credits[id] += bought * max(0, paid.ReceivedMinor-paid.RefundedMinor-paid.DisputedMinor) / paid.ReceivedMinor // far from overflowing
		count[id]++
	}
	return credits, count
}

// AwaitComparison waits until an edge has compared all payments since its start. ops are the addresses of the edges' metrics.
func (p *Payers) AwaitComparison(ops ...string) {
	p.t.Helper()
	ask := time.NewTicker(100 * time.Millisecond)
	defer ask.Stop()
	for until := time.Now().Add(compareLimit); ; <-ask.C {
		for _, base := range ops {
			if text := p.metrics(base); strings.Contains(text, "quire_edge_payments_compared_seconds ") && !strings.Contains(text, "quire_edge_payments_compared_seconds 0\n") {
				return
			}
		}
		if time.Now().After(until) {
			p.t.Fatal("the payments are not compared")
		}
	}
}

func (p *Payers) metrics(base string) string {
	p.t.Helper()
	response, err := http.Get(base + "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(response.Body); err != nil {
		p.t.Fatal(err)
	}
	return text.String()
}

// Check compares each account's balance and payments with what the stand-in has taken.
func (p *Payers) Check() {
	p.t.Helper()
	credits, count := p.kept()
	for _, of := range p.accounts {
		var now struct{ Balance string }
		p.call("GET", "/api/users/user/plan", of.key, nil, &now)
		if want := plan.Micros(credits[of.id]).String(); now.Balance != want {
			p.t.Errorf("account %s has %s credits, its payments are good for %s", of.id, now.Balance, want)
		}
		ids := map[string]bool{}
		listed := 0
		for cursor := ""; ; {
			var page struct {
				Payments   []struct{ ID string }
				NextCursor *string
			}
			p.call("GET", "/api/users/user/payments?limit=100"+cursor, of.key, nil, &page)
			for _, paid := range page.Payments {
				ids[paid.ID] = true
				listed++
			}
			if page.NextCursor == nil {
				break
			}
			cursor = "&cursor=" + *page.NextCursor
		}
		if len(ids) != count[of.id] || listed != count[of.id] {
			p.t.Errorf("account %s lists %d payments, %d different ones, and has made %d", of.id, listed, len(ids), count[of.id])
		}
	}
}

// Audit has the journals audited by the admin API. They must match.
func (p *Payers) Audit() {
	p.t.Helper()
	var result struct {
		ID    string
		Match *bool
	}
	p.call("POST", "/api/admin/audit", p.config.AdminToken(), struct{}{}, &result)
	ask := time.NewTicker(100 * time.Millisecond)
	defer ask.Stop()
	for ; result.Match == nil; <-ask.C {
		p.call("GET", "/api/admin/audits/"+result.ID, p.config.AdminToken(), nil, &result)
	}
	if !*result.Match {
		p.t.Error("the audit does not match")
	}
}

func (p *Payers) call(method, path, token string, body, into any) {
	p.t.Helper()
	sent, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(p.t.Context(), method, p.config.Base()+path, bytes.NewReader(sent))
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil || response.StatusCode >= 300 {
		p.t.Fatalf("%s %s: %s, %v", method, path, response.Status, err)
	}
}
