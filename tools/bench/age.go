package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"quire.dev/pkg/num"
	"quire.dev/tools/bench/internal/account"
	"quire.dev/tools/bench/internal/load"
	"quire.dev/tools/bench/internal/machine"
	"quire.dev/tools/bench/internal/report"
	"quire.dev/tools/bench/internal/wrk"
)

// window is the number of seconds over which a rate is taken.
const window = 3

// measureAge follows the rate of creations on fresh data: in the seconds after the first, after 10 and after 60.
func (b *bench) measureAge(ctx context.Context) error {
	after := map[string][]float64{}
	for round := range b.rounds {
		rate, err := b.ageOnce(ctx, round)
		if err != nil {
			return err
		}
		for id, second := range map[string]int{"age-10": 10, "age-60": 60} {
			if share, ok := later(rate, second); ok {
				after[id] = append(after[id], share)
			}
		}
	}
	for _, id := range []string{"age-10", "age-60"} {
		b.note(id, after[id], fmt.Sprintf("%d rounds, each rate over %d s", len(after[id]), window))
	}
	return nil
}

func (b *bench) ageOnce(ctx context.Context, round int) (perSecond []float64, err error) {
	s, err := b.startServer(ctx, fmt.Sprintf("%s, round %d", age, round+1))
	if err != nil {
		return nil, err
	}
	a, err := s.account(ctx, "admin")
	if err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(ctx)
	var (
		rate  = make(chan []float64, 1)
		watch error
	)
	go func() {
		var list []float64
		list, watch = s.createdPerSecond(watching)
		rate <- list
	}()
	_, err = s.turn(ctx, a, account.Create, createLoad(), b.connections[0], b.aging)
	stop()
	perSecond = <-rate
	if err != nil {
		return nil, err
	}
	if watch != nil {
		return nil, watch
	}
	c := report.Curve{Name: fmt.Sprintf("age-%d", round+1), Title: "creations a second, from the start on fresh data", X: "s", Y: "1/s"}
	for second, n := range perSecond {
		c.Points = append(c.Points, report.Point{X: float64(second), Y: n})
	}
	b.report.Curves = append(b.report.Curves, c)
	return perSecond, s.check(ctx)
}

// createdPerSecond reads the number of answers once a second until ctx ends.
func (s *server) createdPerSecond(ctx context.Context) (rates []float64, err error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	const successes = `quire_edge_answers_total{class="2xx"}`
	last, err := s.metric(ctx, successes)
	at := time.Now()
	for err == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return rates, nil
		}
		var n float64
		if n, err = s.metric(ctx, successes); err == nil {
			now := time.Now()
			rates = append(rates, (n-last)/now.Sub(at).Seconds())
			last, at = n, now
		}
	}
	if ctx.Err() != nil {
		return rates, nil
	}
	return rates, err
}

// later is the rate after the given seconds, as a share of the rate after the first second.
func later(perSecond []float64, second int) (share float64, ok bool) {
	mean := func(from int) float64 {
		sum := 0.0
		for _, n := range perSecond[from : from+window] {
			sum += n
		}
		return sum / window
	}
	if len(perSecond) < second+window || len(perSecond) < 1+window || mean(1) == 0 {
		return 0, false
	}
	return mean(second) / mean(1), true
}

// fillConnections is the number of connections of the client that creates many pastes.
const fillConnections = 128

// fill creates pastes of 1 KiB and returns their ids.
func (s *server) fill(ctx context.Context, a *account.Account, count int) ([]string, error) {
	ids, err := load.Create(ctx, load.Request{Method: "POST", URL: s.process.URL() + bareCreate, Key: a.Key, Body: load.CreateBody()}, count, fillConnections)
	if err != nil {
		return nil, fmt.Errorf("make %d pastes: %w", count, err)
	}
	a.Counted[account.Create] = a.Counted[account.Create].Plus(wrk.Tally{Succeeded: num.Uint64(count)})
	return ids, nil
}

// measureDisk measures a paste's space on disk once the journal of the quick pastes is purged: in all stores but that
// journal. The server is stopped for each measurement, so that the read model has no write-ahead log.
func (b *bench) measureDisk(ctx context.Context) error {
	s, err := b.startServer(ctx, disk)
	if err != nil {
		return err
	}
	a, err := s.account(ctx, "admin")
	if err != nil {
		return err
	}
	var each []float64
	for range b.rounds {
		before, err := s.keptBytes(ctx)
		if err != nil {
			return err
		}
		if _, err := s.fill(ctx, a, b.diskPastes); err != nil {
			return err
		}
		after, err := s.keptBytes(ctx)
		if err != nil {
			return err
		}
		each = append(each, float64(after-before)/float64(b.diskPastes))
	}
	b.note("disk", each, fmt.Sprintf("%d pastes a round", b.diskPastes))
	return s.check(ctx)
}

// keptBytes is the size of the stores, without what retention removes. It stops and starts the server.
func (s *server) keptBytes(ctx context.Context) (int64, error) {
	if err := s.settle(ctx); err != nil {
		return 0, err
	}
	if err := s.stop(ctx); err != nil {
		return 0, err
	}
	bytes, err := machine.Size(s.data(), func(path string) bool { return !strings.Contains(path, "/streams/LITE_") })
	if err != nil {
		return 0, err
	}
	return bytes, s.start(ctx)
}
