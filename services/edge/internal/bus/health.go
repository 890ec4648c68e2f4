package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
)

// healthWait bounds the wait for instances that do not answer. It is longer than an instance waits for its journals.
const healthWait = 2 * time.Second

// ServiceHealth is the health of the instances of one service.
type ServiceHealth struct {
	Service    event.Domain
	Partitions [][]Member // by number, sorted by name; empty if no instance has the partition
	Silent     []string   // instances that did not answer although others see them as alive, sorted
}

// Member is an instance that has a partition.
type Member struct {
	Name string
	event.Fold
}

// Served tells whether a member of the partition answers requests.
func (h *ServiceHealth) Served(partition int) bool {
	return slices.ContainsFunc(h.Partitions[partition], func(m Member) bool { return m.Serves })
}

// Health asks all instances of all services about their partitions. It returns as soon as all live instances have answered
// and each partition is served. Otherwise, and if billing's instances have fixed partitions and so don't know each other, it
// waits for two seconds. The error is fault.Unavailable if the edge has no connection.
func (b *Bus) Health(ctx context.Context) ([]ServiceHealth, error) {
	domains := event.Domains()
	out := make([]ServiceHealth, len(domains))
	group, ctx := errgroup.WithContext(ctx)
	for n, domain := range domains {
		group.Go(func() (err error) {
			out[n], err = b.healthOf(ctx, domain)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, unavailable(err)
	}
	return out, nil
}

func (b *Bus) healthOf(ctx context.Context, domain event.Domain) (ServiceHealth, error) {
	ctx, cancel := context.WithTimeout(ctx, healthWait)
	defer cancel()
	found := ServiceHealth{Service: domain, Partitions: make([][]Member, b.cfg.Partitions)}
	if !b.nc.IsConnected() {
		return found, fmt.Errorf("ask for the health of %s: %w", domain, rpc.ErrUnavailable)
	}
	found.Silent = b.askAll(ctx, domain, []byte(event.AskHealth), found.add, found.allServed)
	for _, members := range found.Partitions {
		slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	}
	return found, nil
}

// askAll asks the instances of a service, and calls take with each answer. It returns once all live ones have answered and enough
// says so, or when ctx ends, with the names of those that did not answer.
func (b *Bus) askAll(ctx context.Context, domain event.Domain, question []byte, take func(event.Instance), enough func() bool) (silent []string) {
	heard, named, unsure := map[string]bool{}, map[string]bool{}, false
	// The only other error is that nobody answers, which shows as partitions without members.
	_, _ = rpc.GatherUntil(ctx, b.nc, domain.InstancesSubject(), question, func(data []byte) bool {
		var i event.Instance
		if err := json.Unmarshal(data, &i); err != nil || i.Partitions != b.cfg.Partitions || heard[i.Name] {
			return false
		}
		heard[i.Name] = true
		for _, name := range i.Live {
			named[name] = true
		}
		unsure = unsure || len(i.Live) == 0 // there may be instances that no other knows
		take(i)
		return !unsure && enough() && len(missing(named, heard)) == 0
	})
	return missing(named, heard)
}

// add records the answer of an instance. Older versions only report the partitions they serve.
func (h *ServiceHealth) add(i event.Instance) {
	folds := i.Folds
	for _, p := range i.Serves {
		if !slices.ContainsFunc(folds, func(f event.Fold) bool { return f.Partition == p }) {
			folds = append(folds, event.Fold{Partition: p, Serves: true})
		}
	}
	for _, f := range folds {
		if f.Partition >= 0 && f.Partition < len(h.Partitions) {
			h.Partitions[f.Partition] = append(h.Partitions[f.Partition], Member{Name: i.Name, Fold: f})
		}
	}
}

func (h *ServiceHealth) allServed() bool {
	for p := range h.Partitions {
		if !h.Served(p) {
			return false
		}
	}
	return true
}

// missing are the names that did not answer, sorted.
func missing(named, heard map[string]bool) (out []string) {
	for name := range named {
		if !heard[name] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
