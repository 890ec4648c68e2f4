package chaos

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"quire.dev/tools/cluster"
)

// fault is a failure of a part, or a change by an operator. It is over when inject returns.
type fault struct {
	name      string
	inject    func(t *testing.T, b *bench) error
	unnoticed bool // every call must get an answer
}

// victims are one instance of each service. The other instances are like them.
func victims() []string {
	return []string{"billing-0", "paste-0", "lite-0", "file-0", "edge-1"}
}

// readModels are the servers of read models, the primary first.
func readModels() []string {
	if *store == cluster.PostgreSQL {
		return []string{"postgres-0", "postgres-1"}
	}
	return []string{"mongo"}
}

func faults() []fault {
	var all []fault
	add := func(name string, inject func(t *testing.T, b *bench) error) {
		all = append(all, fault{name: name, inject: inject})
	}
	addUnnoticed := func(name string, inject func(t *testing.T, b *bench) error) {
		all = append(all, fault{name: name, inject: inject, unnoticed: true})
	}
	add("nothing", func(t *testing.T, _ *bench) error { return last(t) })
	for _, name := range append(victims(), slices.Concat([]string{"nats-0", "nats-1", "nats-2"}, readModels(), []string{"minio"})...) {
		add("kill "+name, killed(name))
	}
	for _, name := range victims() {
		addUnnoticed("stop "+name+" in order", stopped(name))
	}
	for _, service := range []string{"billing", "lite"} {
		addUnnoticed("another "+service, func(t *testing.T, b *bench) error {
			_, err := b.c.Add(t.Context(), service)
			return errors.Join(err, last(t))
		})
	}
	for _, name := range []string{"billing-1", "lite-1", "nats-1", readModels()[0], "edge-0"} {
		add("pause "+name, paused(name))
	}
	add("cut off nats-2", cut("nats-2"))
	add("cut off edge-1", cut("edge-1"))
	add("edge-0 can't reach NATS", func(t *testing.T, b *bench) error {
		edge := b.c.Process("edge-0")
		return between(t, func(ctx context.Context) error { return edge.CutFrom(ctx, b.c.Processes("nats")...) }, edge.Heal)
	})
	add("nats-0 can't reach its peers", func(t *testing.T, b *bench) error {
		server := b.c.Process("nats-0")
		return between(t, func(ctx context.Context) error {
			return server.CutFrom(ctx, b.c.Process("nats-1"), b.c.Process("nats-2"))
		}, server.Heal)
	})
	add("cut off billing-0", cut("billing-0"))
	add("cut off lite-0", cut("lite-0"))
	for _, name := range []string{"nats-1", "edge-1", "billing-0"} {
		add("slow link to "+name, func(t *testing.T, b *bench) error {
			p := b.c.Process(name)
			return between(t, func(ctx context.Context) error {
				how, err := p.Slow(ctx)
				t.Logf("%s: %s", name, how)
				return err
			}, p.Heal)
		})
	}
	addUnnoticed("rolling restart of the services", func(t *testing.T, b *bench) error {
		return rolling(t, b.c.Processes(cluster.Services()...))
	})
	add("slow disk under NATS", slowDisk)
	add("rolling restart of NATS", func(t *testing.T, b *bench) error { return rolling(t, b.c.Processes("nats")) })
	all = append(all, outages()...)
	for _, two := range twoAtOnce() {
		add(two.name, two.inject)
	}
	if *store == cluster.PostgreSQL {
		all = append(all, postgresFaults()...)
	}
	add("no lite for 3 minutes", away(3*time.Minute, "lite"))
	add("no billing for 15 minutes", away(15*time.Minute, "billing"))
	return all
}

// twoAtOnce are faults of two parts at the same time.
func twoAtOnce() []fault {
	return []fault{
		{name: "kill nats-1 and billing-0", inject: together(killed("nats-1"), killed("billing-0"))},
		{name: "kill nats-2 and lite-0", inject: together(killed("nats-2"), killed("lite-0"))},
		{name: "regenerate a key while edge-1 can't reach NATS", inject: func(t *testing.T, b *bench) error {
			edge := b.c.Process("edge-1")
			return between(t, func(ctx context.Context) error {
				// Clients still reach edge-1, which can't be told that the key is not current any more.
				return errors.Join(edge.CutFrom(ctx, b.c.Processes("nats")...), b.load.Regenerate(ctx, 0))
			}, edge.Heal)
		}},
		{name: "start billing-0 while NATS elects leaders", inject: func(t *testing.T, b *bench) error {
			billing := b.c.Process("billing-0")
			start := func(t *testing.T, _ *bench) error { return billing.Start(t.Context()) }
			return errors.Join(billing.Stop(t.Context()), together(killed("nats-0"), start)(t, b))
		}},
	}
}

// together injects faults at the same time.
func together(injects ...func(*testing.T, *bench) error) func(*testing.T, *bench) error {
	return func(t *testing.T, b *bench) error {
		errs := make([]error, len(injects))
		var group sync.WaitGroup
		for n, inject := range injects {
			group.Go(func() { errs[n] = inject(t, b) })
		}
		group.Wait()
		return errors.Join(errs...)
	}
}

// away stops all instances of a service for a while. The others work on for as long as a fault lasts. Then all services
// start anew with their clocks moved ahead by the while, so that nobody has to wait for it.
func away(while time.Duration, service string) func(*testing.T, *bench) error {
	return func(t *testing.T, b *bench) error {
		ctx, cancel := context.WithTimeout(t.Context(), startLimit)
		defer cancel()
		for _, p := range b.c.Processes(service) {
			if err := p.Stop(ctx); err != nil {
				return err
			}
		}
		if err := errors.Join(last(t), b.c.StopServices(ctx)); err != nil {
			return err
		}
		b.shifted += while
		b.c.Set(map[string]string{"QUIRE_CLOCK_OFFSET": b.shifted.String()})
		// A price book moves billing's time. A call that is admitted before would be as old as the while at once.
		for _, p := range b.c.Processes("billing") {
			if err := p.Start(ctx); err != nil {
				return err
			}
		}
		return errors.Join(b.c.StartServices(ctx), last(t))
	}
}

// last waits for as long as a fault lasts.
func last(t *testing.T) error {
	timer := time.NewTimer(*quiet)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.Context().Done():
		return t.Context().Err()
	}
}

// between begins a fault, waits for as long as it lasts, and ends it.
func between(t *testing.T, begin, end func(ctx context.Context) error) error {
	return errors.Join(begin(t.Context()), last(t), end(t.Context()))
}

func killed(name string) func(*testing.T, *bench) error {
	return func(t *testing.T, b *bench) error {
		p := b.c.Process(name)
		return between(t, func(context.Context) error { return p.Kill() }, p.Start)
	}
}

func stopped(name string) func(*testing.T, *bench) error {
	return func(t *testing.T, b *bench) error {
		p := b.c.Process(name)
		return between(t, p.Stop, p.Start)
	}
}

func paused(name string) func(*testing.T, *bench) error {
	return func(t *testing.T, b *bench) error {
		p := b.c.Process(name)
		return between(t, func(context.Context) error { return p.Pause() }, func(context.Context) error { return p.Resume() })
	}
}

func cut(name string) func(*testing.T, *bench) error {
	return func(t *testing.T, b *bench) error {
		p := b.c.Process(name)
		return between(t, p.Cut, p.Heal)
	}
}

// rolling restarts the processes one after the other. It waits until each is ready.
func rolling(t *testing.T, processes []*cluster.Process) error {
	for _, p := range processes {
		ctx, cancel := context.WithTimeout(t.Context(), startLimit)
		err := p.Restart(ctx)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}
