package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"time"

	"quire.dev/bench/internal/wrk"
)

// sample is what a system has used up to a moment.
type sample struct {
	at      time.Time
	cpu     map[string]time.Duration // by service
	machine time.Duration            // all CPUs together, whoever used them
	stored  map[string]stored        // by domain, one replica
	batches map[string]batches       // by kind of journal, all edges
}

func (s *system) sample(ctx context.Context) (sample, error) {
	now := sample{at: time.Now(), cpu: map[string]time.Duration{}, batches: map[string]batches{}}
	for _, p := range s.processes() {
		used, err := cpuOf(p.pid)
		if err != nil {
			return now, fmt.Errorf("CPU time of %s: %w", p.service, err)
		}
		now.cpu[p.service] += used
	}
	var err error
	if now.machine, err = machineCPU(); err != nil {
		return now, err
	}
	for _, url := range s.metrics {
		data, err := get(ctx, url)
		if err != nil {
			return now, err
		}
		found, err := parseBatches(bytes.NewReader(data))
		if err != nil {
			return now, err
		}
		for kind, b := range found {
			sum := now.batches[kind]
			now.batches[kind] = batches{sum.count + b.count, sum.items + b.items}
		}
	}
	var servers []map[string]stored
	for _, base := range s.journals {
		data, err := get(ctx, base+"/jsz?accounts=true&streams=true")
		if err != nil {
			return now, err
		}
		streams, err := parseStreams(data)
		if err != nil {
			return now, err
		}
		servers = append(servers, streams)
	}
	now.stored = byDomain(furthest(servers...))
	return now, nil
}

// resident is the memory of each service's processes together, in bytes.
func (s *system) resident() (map[string]uint64, error) {
	sums := map[string]uint64{}
	for _, p := range s.processes() {
		n, err := residentOf(p.pid)
		if err != nil {
			return nil, fmt.Errorf("memory of %s: %w", p.service, err)
		}
		sums[p.service] += n
	}
	return sums, nil
}

// idle is the CPU time that each service uses in a second without requests.
type idle map[string]time.Duration

func idleOf(before, after sample) idle {
	seconds := after.at.Sub(before.at).Seconds()
	of := idle{}
	for service, used := range after.cpu {
		of[service] = time.Duration(float64(used-before.cpu[service]) / seconds)
	}
	return of
}

// work adds up the turns of one kind of request.
type work struct {
	turns    []wrk.Result
	requests uint64
	cpu      map[string]time.Duration // all that the requests have cost, by service, wrk too
	elapsed  time.Duration            // while wrk ran
	measured time.Duration            // CPU time of the system and wrk meanwhile
	machine  time.Duration            // and of everything on the machine
	drained  time.Duration            // until nothing was left to do, after wrk had ended
	stored   map[string]stored
	batches  map[string]float64 // items in a batch of the last turn
}

// add counts a turn: wrk ran from before to after, and what it had left was done at the end, in which idle ran on.
func (w *work) add(r wrk.Result, before, after, end sample, rest idle) {
	if w.cpu == nil {
		w.cpu, w.stored = map[string]time.Duration{}, map[string]stored{}
	}
	w.turns = append(w.turns, r)
	w.requests += r.Requests
	w.elapsed += after.at.Sub(before.at)
	w.machine += after.machine - before.machine
	left := end.at.Sub(after.at)
	w.drained += left
	w.measured += r.CPU
	w.cpu["wrk"] += r.CPU
	for service, used := range after.cpu {
		during := used - before.cpu[service]
		later := end.cpu[service] - used - time.Duration(float64(rest[service])*left.Seconds())
		w.measured += during
		w.cpu[service] += during + max(later, 0)
	}
	for domain, s := range end.stored {
		grown, sum := s.minus(before.stored[domain]), w.stored[domain]
		w.stored[domain] = stored{sum.messages + grown.messages, sum.bytes + grown.bytes}
	}
	w.batches = map[string]float64{}
	for kind := range maps.Keys(end.batches) {
		w.batches[kind] = perBatch(before.batches[kind], end.batches[kind])
	}
}
