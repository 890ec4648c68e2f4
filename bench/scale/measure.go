package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"quire.dev/bench/internal/wrk"
)

// measurement is all that was seen of one system.
type measurement struct {
	name       string
	partitions int
	sync       time.Duration // of 4 KiB on the same disk, just before
	idle       idle
	reads      work
	few        work // reads by a few connections, so that batches are small
	creates    work
	resident   map[string]uint64
	audit      auditResult
	starts     *starts        // nil in one process
	journal    []journalSpeed // of the last system only
	failures   []string
}

// effort is what is done to each system.
type effort struct {
	turns          int
	reads, creates time.Duration // of one turn; reads by few connections have one, as long as one of creations
	customers      int
	documents      int // for each of them
}

const (
	warmUp   = time.Second
	idleTime = 2 * time.Second
	// fewConnections are 2 at each of two edges.
	fewConnections = 4

	getKey    = "pasteLite.get"
	createKey = "pasteLite.create"
)

// runner measures one system.
type runner struct {
	*loads
	effort
	say      func(format string, args ...any)
	accounts []customer
	paths    []string // of the documents
	counted  map[string]tally
}

// tally is what wrk has seen under a quota key. What it left unanswered at the end of a run, one request a connection at
// most, or was answered with an error, may have been counted.
type tally struct{ succeeded, uncertain uint64 }

func (t tally) with(r wrk.Result, connections int) tally {
	return tally{t.succeeded + r.Requests - min(r.Status, r.Requests), t.uncertain + uint64(connections) + r.Errors()}
}

func (r *runner) measure(ctx context.Context) (*measurement, error) {
	s := r.system
	m := &measurement{name: s.name, partitions: s.partitions}
	var err error
	if m.sync, err = syncTime(s.dir); err != nil {
		return nil, err
	}
	if r.accounts, err = s.makeAccounts(ctx, "customer", r.effort.customers, true); err != nil {
		return nil, err
	}
	if r.paths, err = s.makeDocuments(ctx, r.accounts, r.documents); err != nil {
		return nil, err
	}
	r.counted = map[string]tally{createKey: {succeeded: uint64(len(r.paths))}}
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	if m.idle, err = r.rest(ctx); err != nil {
		return nil, err
	}
	reads, creations := requestList(r.accounts, r.paths), requestList(r.accounts, []string{createPath})
	many := r.generator.Connections
	for _, of := range []job{
		{getKey, http.MethodGet, reads, new(work), 1, warmUp, many},
		{getKey, http.MethodGet, reads, &m.reads, r.effort.turns, r.reads, many},
		{getKey, http.MethodGet, reads, &m.few, 1, r.creates, fewConnections},
		{createKey, http.MethodPost, creations, &m.creates, r.effort.turns, r.creates, many},
	} {
		if err := r.work(ctx, m, of); err != nil {
			return nil, err
		}
	}
	if m.resident, err = s.resident(); err != nil {
		return nil, err
	}
	return m, r.check(ctx, m)
}

// rest measures the system while nobody asks for anything.
func (r *runner) rest(ctx context.Context) (idle, error) {
	before, err := r.system.sample(ctx)
	if err != nil {
		return nil, err
	}
	pause(ctx, idleTime)
	after, err := r.system.sample(ctx)
	return idleOf(before, after), err
}

// job is turns of one kind of request.
type job struct {
	key, method, list string
	to                *work
	turns             int
	length            time.Duration // of each
	connections       int
}

func (r *runner) work(ctx context.Context, m *measurement, of job) error {
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
				m.failures = append(m.failures, err.Error())
			}
			if end, err = r.system.sample(ctx); err != nil {
				return err
			}
		}
		of.to.add(result, before, after, end, m.idle)
		r.counted[of.key] = r.counted[of.key].with(result, of.connections)
		r.say("%-12s %-16s %3d connections, turn %d  %7.0f/s  p50 %.2f ms  p99 %.2f ms", r.system.name, of.key, of.connections, n+1,
			result.Rate(), float64(result.P50)/1000, float64(result.P99)/1000)
		if result.Errors() > 0 {
			m.failures = append(m.failures, fmt.Sprintf("%s turn %d: %d of %d requests without a success: %+v",
				of.key, n+1, result.Errors(), result.Requests, result))
		}
	}
	return nil
}

// check holds the counters to what wrk saw, and audits the journals.
func (r *runner) check(ctx context.Context, m *measurement) error {
	used, err := r.system.counters(ctx, r.accounts)
	if err != nil {
		return err
	}
	for key, t := range r.counted {
		r.say("%-12s %-16s %d answered with success, %d counted (at most %d)", m.name, key, t.succeeded, used[key], t.succeeded+t.uncertain)
		if used[key] < t.succeeded || used[key] > t.succeeded+t.uncertain {
			m.failures = append(m.failures, fmt.Sprintf("%s: %d counted, want %d to %d", key, used[key], t.succeeded, t.succeeded+t.uncertain))
		}
	}
	if m.audit, err = r.system.audit(ctx); err != nil {
		return err
	}
	if !m.audit.match {
		m.failures = append(m.failures, "the audit found journals that fold to another state than the live one")
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

// auditResult is what an audit found, and what it cost.
type auditResult struct {
	match    bool
	replicas int // of each partition, each of which audits
	messages uint64
	entries  uint64        // admissions, settlements and commands, of all partitions
	took     time.Duration // all replicas of all partitions together
	cpu      time.Duration // of billing
}

// audit folds all billing journals again.
func (s *system) audit(ctx context.Context) (auditResult, error) {
	var answer struct {
		Match      bool
		Partitions []struct{ LastSequence, Entries uint64 }
	}
	before, err := s.sample(ctx)
	if err != nil {
		return auditResult{}, err
	}
	if err := s.api().Call(ctx, http.MethodPost, "/api/admin/audit", nil, &answer); err != nil {
		return auditResult{}, fmt.Errorf("audit: %w", err)
	}
	after, err := s.sample(ctx)
	if err != nil {
		return auditResult{}, err
	}
	result := auditResult{
		match: answer.Match && len(answer.Partitions) == s.partitions, replicas: s.replicas, took: after.at.Sub(before.at),
		cpu: after.cpu["billing"] - before.cpu["billing"] + after.cpu["quire"] - before.cpu["quire"],
	}
	for _, p := range answer.Partitions {
		result.messages += p.LastSequence
		result.entries += p.Entries
	}
	if result.entries == 0 {
		return result, errors.New("the audit folded nothing")
	}
	return result, nil
}
