package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"quire.dev/pkg/admin"
	"quire.dev/pkg/wait"
	"quire.dev/tools/bench/internal/machine"
	"quire.dev/tools/bench/internal/wrk"
)

// measurement is the result for one system.
type measurement struct {
	Name          string
	FsyncSeconds  float64            // fdatasync of 4 KiB on the same disk, just before
	IdleCores     map[string]float64 // kept busy by each service without requests
	Reads         figures
	Few           figures // with small batches
	Creates       figures
	ResidentBytes map[string]uint64 // by service
	Audit         auditResult
	Starts        *starts        // nil in one process
	Journal       []journalSpeed // of the last system only
	Failures      []string
}

// effort is the load on each system.
type effort struct {
	turns          int
	reads, creates time.Duration // of one turn. Reads by few connections have one turn, as long as one of creations
	customers      int
	documents      int // of each customer
}

const (
	warmUp   = time.Second
	idleTime = 2 * time.Second
	// fewConnections is two for each of two edges.
	fewConnections = 4

	getKey    = "pasteLite.get"
	createKey = "pasteLite.create"
)

// runner measures one system.
type runner struct {
	*loads
	effort
	accounts []customer
	paths    []string // of the documents
	counted  map[string]wrk.Tally
}

func (r *runner) measure(ctx context.Context) (*measurement, error) {
	s := r.system
	m := &measurement{Name: s.name}
	var err error
	if m.FsyncSeconds, err = machine.SyncSeconds(s.dir); err != nil {
		return nil, err
	}
	if r.accounts, err = s.makeAccounts(ctx, "customer", r.effort.customers, true); err != nil {
		return nil, err
	}
	if r.paths, err = s.makeDocuments(ctx, r.accounts, r.documents); err != nil {
		return nil, err
	}
	r.counted = map[string]wrk.Tally{createKey: {Succeeded: uint64(len(r.paths))}}
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	if m.IdleCores, err = r.idle(ctx); err != nil {
		return nil, err
	}
	reads, creations := requestList(r.accounts, r.paths), requestList(r.accounts, []string{createPath})
	many := r.generator.Connections
	for _, of := range []job{
		{getKey, http.MethodGet, reads, new(figures), 1, warmUp, many},
		{getKey, http.MethodGet, reads, &m.Reads, r.effort.turns, r.reads, many},
		{getKey, http.MethodGet, reads, &m.Few, 1, r.creates, fewConnections},
		{createKey, http.MethodPost, creations, &m.Creates, r.effort.turns, r.creates, many},
	} {
		if err := r.work(ctx, m, of); err != nil {
			return nil, err
		}
	}
	if m.ResidentBytes, err = s.resident(); err != nil {
		return nil, err
	}
	return m, r.check(ctx, m)
}

// idle measures the system without requests.
func (r *runner) idle(ctx context.Context) (map[string]float64, error) {
	before, err := r.system.sample(ctx)
	if err != nil {
		return nil, err
	}
	wait.For(ctx, idleTime)
	after, err := r.system.sample(ctx)
	return idleOf(before, after), err
}

// job is several turns of one kind of request.
type job struct {
	key, method, list string
	to                *figures
	turns             int
	length            time.Duration // of each turn
	connections       int
}

func (r *runner) work(ctx context.Context, m *measurement, of job) error {
	var w work
	for n := range of.turns {
		before, err := r.system.sample(ctx)
		if err != nil {
			return err
		}
		result, err := r.run(ctx, of)
		if err != nil {
			return err
		}
		after, err := r.system.sample(ctx)
		if err != nil {
			return err
		}
		end := after
		if of.method == http.MethodPost {
			if err := r.system.settle(ctx); err != nil {
				m.Failures = append(m.Failures, err.Error())
			}
			if end, err = r.system.sample(ctx); err != nil {
				return err
			}
		}
		w.add(result, before, after, end, m.IdleCores)
		r.counted[of.key] = r.counted[of.key].With(result, of.connections)
		fmt.Printf("%-12s %-16s %3d connections, turn %d  %7.0f/s  p50 %.2f ms  p99 %.2f ms\n", r.system.name, of.key, of.connections, n+1,
			result.Rate(), float64(result.P50)/1000, float64(result.P99)/1000)
		if result.Errors() > 0 {
			m.Failures = append(m.Failures, fmt.Sprintf("%s turn %d: %d of %d requests without a success: %+v",
				of.key, n+1, result.Errors(), result.Requests, result))
		}
	}
	*of.to = w.figures()
	return nil
}

// check compares the counters with the requests that wrk completed, and audits the journals.
func (r *runner) check(ctx context.Context, m *measurement) error {
	used, err := r.system.counters(ctx, r.accounts)
	if err != nil {
		return err
	}
	for key, t := range r.counted {
		fmt.Printf("%-12s %-16s %d answered with success, %d counted (at most %d)\n", m.Name, key, t.Succeeded, used[key], t.Most())
		if err := t.Check(key, used[key]); err != nil {
			m.Failures = append(m.Failures, err.Error())
		}
	}
	if m.Audit, err = r.system.audit(ctx); err != nil {
		return err
	}
	if !m.Audit.Match {
		m.Failures = append(m.Failures, "the audit found journals whose state differs from the live one")
	}
	return nil
}

// counters adds up what all customers have used, by quota key.
func (s *system) counters(ctx context.Context, customers []customer) (map[string]uint64, error) {
	sums := map[string]uint64{}
	for _, c := range customers {
		var account struct {
			Usage map[string]struct{ Used uint64 }
		}
		if err := s.api().Call(ctx, http.MethodGet, "/api/admin/accounts/"+c.id, nil, &account); err != nil {
			return nil, fmt.Errorf("counters of an account: %w", err)
		}
		for key, u := range account.Usage {
			sums[key] += u.Used
		}
	}
	return sums, nil
}

// auditResult is the result of an audit, and its cost.
type auditResult struct {
	Match      bool
	Replicas   int // of each partition, each of which folds the journal
	Messages   uint64
	Entries    uint64 // admissions, settlements and commands of all partitions
	Seconds    float64
	CPUSeconds float64 // of billing
}

// audit audits all billing journals.
func (s *system) audit(ctx context.Context) (auditResult, error) {
	before, err := s.sample(ctx)
	if err != nil {
		return auditResult{}, err
	}
	answer, err := s.api().Audit(ctx, admin.AuditOptions{}, func(_, _ uint64) {})
	if err != nil {
		return auditResult{}, fmt.Errorf("audit: %w", err)
	}
	after, err := s.sample(ctx)
	if err != nil {
		return auditResult{}, err
	}
	result := auditResult{
		Match: *answer.Match && len(answer.Partitions) == s.partitions, Replicas: s.replicas, Seconds: after.at.Sub(before.at).Seconds(),
		CPUSeconds: after.cpu["billing"] - before.cpu["billing"] + after.cpu["quire"] - before.cpu["quire"],
	}
	for _, p := range answer.Partitions {
		result.Messages += p.LastSequence
		result.Entries += p.Entries
	}
	if result.Entries == 0 {
		return result, errors.New("the audit folded nothing")
	}
	return result, nil
}

// foldSpeed is the number of entries that one core folds in a second, the reading of the journal included. It is 0 after an
// audit too short to be measured.
func (a auditResult) foldSpeed() float64 {
	if a.CPUSeconds <= 0 {
		return 0
	}
	return float64(a.Entries) * float64(a.Replicas) / a.CPUSeconds
}
