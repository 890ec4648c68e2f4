package cluster_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	"quire.dev/pkg/payments/stripe/stripetest/payers"
	"quire.dev/tools/cluster"
)

var (
	paymentsCount = flag.Int("payments.count", 300, "payments of TestPaymentsWhileInstancesAreKilled")
	paymentsKills = flag.Int("payments.kills", 3, "how often it kills an edge and an instance of billing")
	paymentsSeed  = flag.Uint64("payments.seed", 0, "of its payments, faults and kills; 0 draws one")
)

// TestPaymentsWhileInstancesAreKilled: as TestPaymentsUnderKills of one process, with two edges and two instances of billing, of which
// one each is killed at a time.
func TestPaymentsWhileInstancesAreKilled(t *testing.T) {
	seed := *paymentsSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d: again with -payments.seed=%d", seed, seed)
	var c *cluster.Cluster
	p := payers.New(t, payers.Config{
		Seed: seed, Count: *paymentsCount, Kills: *paymentsKills,
		AdminToken: func() string { return c.AdminToken() }, Base: func() string { return c.Edges()[0] },
	})
	c = start(t, p.Settings())
	p.Receive(c.Edges()[0])
	ends := func(which *cluster.Process) {
		t.Helper()
		if err := which.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	begins := func(which *cluster.Process) {
		t.Helper()
		if err := which.Start(t.Context()); err != nil {
			t.Fatalf("%v\n%s", err, which.Tail())
		}
	}
	p.Run(func(_ int, random *rand.Rand) {
		edges, billing := c.Processes("edge"), c.Processes("billing")
		edge, instance := edges[random.IntN(len(edges))], billing[random.IntN(len(billing))]
		p.Receive(c.Edges()[random.IntN(len(edges))]) // perhaps the one that ends
		ends(edge)
		ends(instance)
		begins(instance)
		begins(edge)
	})
	var ops []string
	for _, edge := range c.Processes("edge") { // each compares at its start, if it has the lease
		ends(edge)
		ops = append(ops, edge.Ops())
	}
	for _, edge := range c.Processes("edge") {
		begins(edge)
	}
	p.AwaitComparison(ops...)
	p.Check()
	p.Audit()
}
