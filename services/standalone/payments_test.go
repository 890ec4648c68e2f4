package standalone

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/payments/stripe"
	"quire.dev/pkg/payments/stripe/stripetest"
	"quire.dev/pkg/plan"
)

var (
	paymentsCount = flag.Int("payments.count", 200, "payments of TestPaymentsUnderKills")
	paymentsKills = flag.Int("payments.kills", 3, "how often it kills quire")
	paymentsSeed  = flag.Uint64("payments.seed", 0, "of its payments, faults and kills; 0 draws one")
)

const payers = 8

// shopUnderKills is a quire that sells credits by a stand-in for Stripe, and is killed meanwhile.
type shopUnderKills struct {
	*child
	stripe   *stripetest.Server
	folder   string
	accounts []buyer
}

// buyer is an account that pays.
type buyer struct {
	id, key  string
	metadata map[string]string // of a payment of 10 credits
}

func (s *shopUnderKills) launch(t *testing.T) {
	t.Helper()
	s.child = launch(t, s.folder, "QUIRE_STRIPE_KEY="+stripetest.DefaultKey, "QUIRE_STRIPE_WEBHOOK_SECRET="+stripetest.DefaultSecret, "QUIRE_STRIPE_URL="+s.stripe.URL)
	s.stripe.SetEndpoint(s.base + "/payments/webhook")
}

func (s *shopUnderKills) call(t *testing.T, method, path, token string, body, into any) {
	t.Helper()
	sent, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, s.base+path, bytes.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil || response.StatusCode >= 300 {
		t.Fatalf("%s %s: %s, %v", method, path, response.Status, err)
	}
}

// opens makes the accounts, each of which pays once on the page of a checkout.
func (s *shopUnderKills) opens(t *testing.T) {
	t.Helper()
	for n := range payers {
		var made struct {
			APIKey  string
			Account struct{ ID string }
		}
		s.call(t, "POST", "/api/admin/accounts", testAdminToken, map[string]string{"email": fmt.Sprintf("payer%d@example.org", n), "tier": "pro"}, &made)
		var page struct{ URL string }
		s.call(t, "POST", "/api/users/user/checkout", made.APIKey, map[string]string{"credits": "10"}, &page)
		id, err := s.stripe.Pay(page.URL, stripetest.Good)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range s.stripe.Payments() {
			if p.ID == id {
				s.accounts = append(s.accounts, buyer{made.Account.ID, made.APIKey, p.Metadata})
			}
		}
	}
}

// pays makes a payment, of which some are refunded or disputed.
func (s *shopUnderKills) pays(random *rand.Rand) error {
	of, cents := s.accounts[random.IntN(payers)], 100+random.Int64N(5000)
	metadata := maps.Clone(of.metadata)
	metadata["quire_amount"], metadata["quire_credits_micros"] = strconv.FormatInt(cents, 10), strconv.FormatInt(cents*10_000, 10)
	id := s.stripe.CreateIntent(cents, "usd", metadata)
	if err := s.stripe.PayIntent(id); err != nil {
		return err
	}
	switch random.IntN(20) {
	case 0:
		_, err := s.stripe.Refund(id, 1+random.Int64N(cents))
		return err
	case 1:
		dispute, err := s.stripe.Dispute(id)
		if err == nil && random.IntN(2) == 0 {
			err = s.stripe.WinDispute(dispute)
		}
		return err
	}
	return nil
}

// kept is the credits that each account's payments are good for, in micros, and how many payments it has made: counted without the
// product's own arithmetic.
func (s *shopUnderKills) kept(t *testing.T) (credits map[string]int64, count map[string]int) {
	t.Helper()
	credits, count = map[string]int64{}, map[string]int{}
	for _, p := range s.stripe.Payments() {
		if p.Status != "succeeded" {
			t.Errorf("payment %s is %s", p.ID, p.Status)
		}
		bought, err := strconv.ParseInt(p.Metadata["quire_credits_micros"], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		account := p.Metadata["quire_account"]
		credits[account] += bought * max(0, p.ReceivedMinor-p.RefundedMinor-p.DisputedMinor) / p.ReceivedMinor // far from overflowing
		count[account]++
	}
	return credits, count
}

// TestPaymentsUnderKills: webhooks are dropped, doubled, delayed and reordered while quire is killed. In the end each payment is
// credited once, less what was refunded or disputed, and the audit matches.
func TestPaymentsUnderKills(t *testing.T) {
	t.Parallel()
	seed := *paymentsSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d: again with -args -payments.seed=%d", seed, seed)
	server, err := stripetest.Start(stripetest.Config{
		EventTypes: stripe.EventTypes(), Faults: stripetest.Faults{Never: 0.1, Twice: 0.1, Late: 0.2, Shuffle: 0.5, AtOnce: 8}, Seed: seed,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	s := &shopUnderKills{stripe: server, folder: filepath.Join(t.TempDir(), "data")}
	s.launch(t)
	s.opens(t)

	work, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var paid atomic.Int64
	running.Go(func() { // deliveries fail while quire is down, and are tried again
		pace := time.NewTicker(time.Millisecond)
		defer pace.Stop()
		for work.Err() == nil {
			_ = server.Deliver(work)
			<-pace.C
		}
	})
	running.Go(func() {
		random := rand.New(rand.NewPCG(seed, 1))
		for range *paymentsCount - payers {
			if err := s.pays(random); err != nil {
				t.Errorf("pay: %v", err)
				return
			}
			paid.Add(1)
		}
	})
	random := rand.New(rand.NewPCG(seed, 2))
	accepted := func(share int) { // of what can be, at least half
		t.Helper()
		some := share * *paymentsCount / (2 * (*paymentsKills + 1))
		eventually.True(t, "more webhooks are accepted", func() bool { return server.Delivered() >= some+random.IntN(5) || t.Failed() })
	}
	for kill := range *paymentsKills {
		accepted(kill + 1)
		_ = s.end(t, syscall.SIGKILL) // "signal: killed"
		s.launch(t)
	}
	accepted(*paymentsKills + 1)
	eventually.True(t, "all is paid", func() bool { return paid.Load() == int64(*paymentsCount-payers) || t.Failed() })
	stop()
	running.Wait()
	t.Logf("%d webhooks were accepted, %d never sent, %d are left", server.Delivered(), server.Dropped(), server.Queued())
	server.SetEndpoint("") // the others never come

	if err := s.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("orderly stop: %v\n%s", err, s.stderr)
	}
	s.launch(t)
	server.SetEndpoint("")
	s.compares(t)
	if s.checks(t); t.Failed() {
		t.Logf("quire: %s", s.stderr)
	}
	if err := s.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("orderly stop: %v\n%s", err, s.stderr)
	}
	if out, errs, code := quire(t, s.folder, []string{"QUIRE_ADMIN_TOKEN=" + testAdminToken}, "audit", "--deep"); code != 0 || !strings.Contains(out, "everything matches") {
		t.Errorf("audit: %d %s %s", code, out, errs)
	}
}

// compares waits until quire has compared all payments since its start.
func (s *shopUnderKills) compares(t *testing.T) {
	t.Helper()
	ask := time.NewTicker(100 * time.Millisecond)
	defer ask.Stop()
	for until := time.Now().Add(15 * time.Minute); ; <-ask.C {
		response, err := http.Get(s.base + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		_, err = text.ReadFrom(response.Body)
		_ = response.Body.Close()
		if err == nil && strings.Contains(text.String(), "quire_edge_payments_compared_seconds ") && !strings.Contains(text.String(), "quire_edge_payments_compared_seconds 0\n") {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("the payments are not compared: %v\n%s", err, s.stderr)
		}
	}
}

// checks compares each account's balance and payments with what the stand-in has taken.
func (s *shopUnderKills) checks(t *testing.T) {
	t.Helper()
	credits, count := s.kept(t)
	for _, of := range s.accounts {
		var now struct{ Balance string }
		s.call(t, "GET", "/api/users/user/plan", of.key, nil, &now)
		if want := plan.Micros(credits[of.id]).String(); now.Balance != want {
			t.Errorf("account %s has %s credits, its payments are good for %s", of.id, now.Balance, want)
		}
		ids := map[string]bool{}
		listed := 0
		for cursor := ""; ; {
			var page struct {
				Payments   []struct{ ID string }
				NextCursor *string
			}
			s.call(t, "GET", "/api/users/user/payments?limit=100"+cursor, of.key, nil, &page)
			for _, p := range page.Payments {
				ids[p.ID] = true
				listed++
			}
			if page.NextCursor == nil {
				break
			}
			cursor = "&cursor=" + *page.NextCursor
		}
		if len(ids) != count[of.id] || listed != count[of.id] {
			t.Errorf("account %s lists %d payments, %d different ones, and has made %d", of.id, listed, len(ids), count[of.id])
		}
	}
}
