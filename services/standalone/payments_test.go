package standalone

import (
	"flag"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"quire.dev/pkg/payments/stripe/stripetest/payers"
)

var (
	paymentsCount = flag.Int("payments.count", 200, "payments of TestPaymentsUnderKills")
	paymentsKills = flag.Int("payments.kills", 3, "how often it kills quire")
	paymentsSeed  = flag.Uint64("payments.seed", 0, "of its payments, faults and kills; 0 draws one")
)

// TestPaymentsUnderKills: webhooks are dropped, doubled, delayed and reordered while quire is killed. In the end each payment is
// credited once, less what was refunded or disputed, and the audit matches.
func TestPaymentsUnderKills(t *testing.T) {
	t.Parallel()
	seed := *paymentsSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d: again with -args -payments.seed=%d", seed, seed)
	var running *child
	p := payers.New(t, payers.Config{Seed: seed, Count: *paymentsCount, Kills: *paymentsKills, AdminToken: func() string { return testAdminToken }, Base: func() string { return running.base }})
	var settings []string
	for name, value := range p.Settings() {
		settings = append(settings, name+"="+value)
	}
	folder := filepath.Join(t.TempDir(), "data")
	start := func() {
		t.Helper()
		running = launch(t, folder, settings...)
		p.Receive(running.base)
	}
	stop := func() {
		t.Helper()
		if err := running.end(t, syscall.SIGTERM); err != nil {
			t.Errorf("orderly stop: %v\n%s", err, running.stderr)
		}
	}
	start()
	p.Run(func(int, *rand.Rand) {
		_ = running.end(t, syscall.SIGKILL) // "signal: killed"
		start()
	})
	stop()
	start()
	p.Receive("")
	p.AwaitComparison(running.base)
	if p.Check(); t.Failed() {
		t.Logf("quire: %s", running.stderr)
	}
	stop()
	if out, errs, code := quire(t, folder, []string{"QUIRE_ADMIN_TOKEN=" + testAdminToken}, "audit", "--deep"); code != 0 || !strings.Contains(out, "everything matches") {
		t.Errorf("audit: %d %s %s", code, out, errs)
	}
	agrees(t, folder)
}
