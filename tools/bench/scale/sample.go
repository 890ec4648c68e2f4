package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/procfs"

	"quire.dev/pkg/num"
	"quire.dev/tools/bench/internal/machine"
	"quire.dev/tools/bench/internal/stats"
	"quire.dev/tools/bench/internal/wrk"
	"quire.dev/tools/cluster"
	"quire.dev/tools/cluster/scrape"
)

// sample is what a system has used and stored since its start. CPU times are seconds.
type sample struct {
	at      time.Time
	cpu     map[string]float64 // by service
	machine float64            // of all CPUs, whatever used them
	stored  map[string]stored  // by domain, in one replica
	batches map[string]batches // by kind of journal, of all edges
}

func (s *system) sample(ctx context.Context) (sample, error) {
	now := sample{at: time.Now(), cpu: map[string]float64{}, batches: map[string]batches{}}
	stats, err := s.stats()
	if err != nil {
		return now, err
	}
	for service, list := range stats {
		for _, stat := range list {
			now.cpu[service] += stat.CPUTime()
		}
	}
	if now.machine, err = machine.BusySeconds(); err != nil {
		return now, err
	}
	for _, url := range s.metrics {
		page, err := scrape.Get(ctx, url)
		if err != nil {
			return now, err
		}
		found, err := parseBatches(bytes.NewReader(page))
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
		page, err := scrape.Get(ctx, base+"/jsz?accounts=true&streams=true")
		if err != nil {
			return now, err
		}
		streams, err := parseStreams(page)
		if err != nil {
			return now, err
		}
		servers = append(servers, streams)
	}
	now.stored = byDomain(furthest(servers...))
	return now, nil
}

// stats are the statistics of the running processes, by service. PostgreSQL has a process for each connection.
func (s *system) stats() (map[string][]procfs.ProcStat, error) {
	all := map[string][]procfs.ProcStat{}
	for _, p := range s.processes {
		pid := p.PID()
		if pid == 0 {
			continue
		}
		service := serviceOf(p)
		proc, err := procfs.NewProc(pid)
		if err != nil {
			return nil, fmt.Errorf("statistics of %s: %w", service, err)
		}
		stat, err := proc.Stat()
		if err != nil {
			return nil, fmt.Errorf("statistics of %s: %w", service, err)
		}
		all[service] = append(all[service], stat)
	}
	servers := all[cluster.PostgreSQL]
	if len(servers) == 0 {
		return all, nil
	}
	others, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("statistics of all processes: %w", err)
	}
	for _, proc := range others {
		stat, err := proc.Stat()
		if err != nil {
			continue // it has ended
		}
		if slices.ContainsFunc(servers, func(server procfs.ProcStat) bool { return server.PID == stat.PPID }) {
			all[cluster.PostgreSQL] = append(all[cluster.PostgreSQL], stat)
		}
	}
	return all, nil
}

// resident is the memory of the processes of each service, in bytes.
func (s *system) resident() (map[string]uint64, error) {
	stats, err := s.stats()
	sums := map[string]uint64{}
	for service, list := range stats {
		for _, stat := range list {
			sums[service] += num.Uint64(stat.ResidentMemory())
		}
	}
	return sums, err
}

// idleOf is the number of cores that each service keeps busy without requests.
func idleOf(before, after sample) map[string]float64 {
	cores := map[string]float64{}
	for service, used := range after.cpu {
		cores[service] = (used - before.cpu[service]) / after.at.Sub(before.at).Seconds()
	}
	return cores
}

// work adds up the turns of one kind of request. Times are seconds.
type work struct {
	turns    []wrk.Result
	requests float64
	cpu      map[string]float64 // that the requests took, by service and of wrk
	elapsed  float64            // while wrk ran
	measured float64            // CPU time of the system and wrk in that time
	machine  float64            // CPU time of the whole machine in that time
	drained  float64            // from the end of wrk until the read model was done
	stored   map[string]stored
	batches  map[string]float64 // items in a batch, in the last turn
}

// add adds a turn. wrk ran from before to after. Until end, the system finished what was left, and also used idle cores as
// it does without requests.
func (w *work) add(r wrk.Result, before, after, end sample, idle map[string]float64) {
	if w.cpu == nil {
		w.cpu, w.stored = map[string]float64{}, map[string]stored{}
	}
	w.turns = append(w.turns, r)
	w.requests += float64(r.Requests)
	w.elapsed += after.at.Sub(before.at).Seconds()
	w.machine += after.machine - before.machine
	left := end.at.Sub(after.at).Seconds()
	w.drained += left
	w.measured += r.CPU.Seconds()
	w.cpu["wrk"] += r.CPU.Seconds()
	for service, used := range after.cpu {
		during := used - before.cpu[service]
		later := end.cpu[service] - used - idle[service]*left
		w.measured += during
		w.cpu[service] += during + max(later, 0)
	}
	for domain, s := range end.stored {
		grown, sum := s.minus(before.stored[domain]), w.stored[domain]
		w.stored[domain] = stored{sum.messages + grown.messages, sum.bytes + grown.bytes}
	}
	w.batches = map[string]float64{}
	for kind := range end.batches {
		w.batches[kind] = perBatch(before.batches[kind], end.batches[kind])
	}
}

// figures are the results for one kind of request. "Each" is for one request.
type figures struct {
	Turns            []wrk.Result
	PerSecond        float64 // median of the turns, as the latencies
	P50Millis        float64
	P99Millis        float64
	CPUMicrosEach    map[string]float64 // by service, and of wrk
	CPUMicrosTotal   float64            // of one request, without wrk
	Cores            float64            // kept busy by the system and wrk while wrk ran
	MachineCores     float64            // kept busy by the whole machine
	DrainSeconds     float64            // of all turns
	JournalBytesEach map[string]float64
	ItemsInEachBatch map[string]float64
}

func (w *work) figures() figures {
	f := figures{
		Turns: w.turns, PerSecond: w.median(wrk.Result.Rate),
		P50Millis: w.median(func(r wrk.Result) float64 { return float64(r.P50) / 1000 }),
		P99Millis: w.median(func(r wrk.Result) float64 { return float64(r.P99) / 1000 }),
		Cores:     w.measured / w.elapsed, MachineCores: w.machine / w.elapsed, DrainSeconds: w.drained,
		CPUMicrosEach: map[string]float64{}, JournalBytesEach: map[string]float64{},
		ItemsInEachBatch: w.batches,
	}
	for service, used := range w.cpu {
		f.CPUMicrosEach[service] = used * 1e6 / w.requests
		if service != "wrk" {
			f.CPUMicrosTotal += f.CPUMicrosEach[service]
		}
	}
	for domain, s := range w.stored {
		f.JournalBytesEach[domain] = float64(s.bytes) / w.requests
	}
	return f
}

func (w *work) median(of func(wrk.Result) float64) float64 {
	var values []float64
	for _, r := range w.turns {
		values = append(values, of(r))
	}
	return stats.Median(values)
}
