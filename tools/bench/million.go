package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"quire.dev/pkg/wait"
	"quire.dev/tools/bench/internal/account"
	"quire.dev/tools/bench/internal/machine"
)

// randomReads is the number of pastes that a turn of random reads cycles through. A turn with fewer requests repeats none.
const randomReads = 100_000

// explainedOfAnAge is how many requests of an age are explained.
const explainedOfAnAge = 3

// large has the large data set, which the rows of this group share.
type large struct {
	*bench
	server *server
	owner  *account.Account
	ids    []string
}

// measureMillion creates a large data set, reads random pastes of it, creates more, and restarts on it.
func (b *bench) measureMillion(ctx context.Context) error {
	s, err := b.startServer(ctx, million)
	if err != nil {
		return err
	}
	m := &large{bench: b, server: s}
	if m.owner, err = s.account(ctx, "admin"); err != nil {
		return err
	}
	started := time.Now()
	var explained []string // requests of three ages
	for _, pastes := range []int{1, b.pastes / 2, b.pastes - b.pastes/2 - 1} {
		ids, err := s.fill(ctx, m.owner, pastes)
		if err != nil {
			return err
		}
		m.ids = append(m.ids, ids...)
		for range explainedOfAnAge {
			request, err := s.readOne(ctx, m.owner, m.ids[0])
			if err != nil {
				return err
			}
			explained = append(explained, request)
		}
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	b.printf("%d pastes made in %.0f s\n", b.pastes, time.Since(started).Seconds())
	most := s.watchMemory(ctx)
	err = m.reads(ctx)
	if err == nil && b.wants("age-million", "rss-million") {
		err = m.creations(ctx)
	}
	megabytes := most()
	if err != nil {
		return err
	}
	b.note("rss-million", []float64{megabytes}, fmt.Sprintf("the most of %d pastes and more", b.pastes))
	if b.wants("explain") {
		if err := m.explain(ctx, explained); err != nil {
			return err
		}
	}
	if b.wants("start-clean") {
		if err := m.starts(ctx, "start-clean", m.stopClean); err != nil {
			return err
		}
	}
	if b.wants("start-kill") {
		if err := m.starts(ctx, "start-kill", m.kill); err != nil {
			return err
		}
	}
	return s.check(ctx)
}

const memoryTick = 200 * time.Millisecond

// watchMemory samples the server's memory until the returned function is called, which returns the maximum in MB.
func (s *server) watchMemory(ctx context.Context) func() float64 {
	ctx, cancel := context.WithCancel(ctx)
	var (
		all  sync.WaitGroup
		most float64
	)
	all.Go(func() {
		for wait.For(ctx, memoryTick) {
			if megabytes, err := s.resident(); err == nil {
				most = max(most, megabytes)
			}
		}
	})
	return func() float64 {
		cancel()
		all.Wait()
		return most
	}
}

// reads compares reads of random pastes with reads of a few, by the same script of wrk.
func (m *large) reads(ctx context.Context) error {
	for _, connections := range m.connections {
		id := fmt.Sprintf("random-%d", connections)
		loads := connections == m.connections[0] && m.wants("rss-million") // memory is measured under load
		if !loads && !m.wants(id) {
			continue
		}
		var ratios []float64
		for round := range m.rounds {
			few, err := m.readTurn(ctx, m.ids[:min(16, len(m.ids))], connections)
			if err != nil {
				return err
			}
			random, err := m.readTurn(ctx, m.sample(uint64(round)), connections)
			if err != nil {
				return err
			}
			ratios = append(ratios, random/few)
		}
		m.note(id, ratios, "")
	}
	return nil
}

func (m *large) sample(seed uint64) []string {
	random := rand.New(rand.NewPCG(1, seed))
	ids := make([]string, min(randomReads, len(m.ids)))
	for i := range ids {
		ids[i] = m.ids[random.IntN(len(m.ids))]
	}
	return ids
}

// readTurn reads the pastes in turn and returns the rate.
func (m *large) readTurn(ctx context.Context, ids []string, connections int) (float64, error) {
	var list bytes.Buffer
	for _, id := range ids {
		fmt.Fprintf(&list, "%s %s%s\n", m.owner.Key, bareGet, id)
	}
	file := filepath.Join(m.folder, "list")
	if err := os.WriteFile(file, list.Bytes(), 0o600); err != nil {
		return 0, err
	}
	r, err := m.server.turn(ctx, m.owner, account.Get, requests{script: "mixed.lua", environ: []string{
		"BENCH_METHOD=" + http.MethodGet, "BENCH_LIST=" + file, "BENCH_ADDRESSES=" + m.server.process.URL()[len("http://"):],
	}}, connections, m.duration)
	return r.Rate(), err
}

// creations compares the rate of creations with that on fresh data. Each round has a fresh server.
func (m *large) creations(ctx context.Context) error {
	var ratios []float64
	for range m.rounds {
		fresh, err := m.startServer(ctx, "fresh data beside the large data set")
		if err != nil {
			return err
		}
		a, err := fresh.account(ctx, "admin")
		if err != nil {
			return err
		}
		var rates [2]float64
		for i, on := range []struct {
			*server
			*account.Account
		}{{fresh, a}, {m.server, m.owner}} {
			for _, duration := range []time.Duration{warmUp, m.duration} {
				r, err := on.turn(ctx, on.Account, account.Create, createLoad(), m.connections[0], duration)
				if err != nil {
					return err
				}
				rates[i] = r.Rate()
			}
			if err := on.settle(ctx); err != nil {
				return err
			}
		}
		ratios = append(ratios, rates[1]/rates[0])
		if err := fresh.check(ctx); err != nil {
			return err
		}
	}
	m.note("age-million", ratios, "")
	return nil
}

func (m *large) stopClean(ctx context.Context) error { return m.server.stop(ctx) }

// kill kills the server in the middle of creations. Those that were not answered may have been counted or not.
func (m *large) kill(ctx context.Context) error {
	const working = 2 * time.Second
	killed := make(chan error, 1)
	go func() {
		wait.For(ctx, working)
		killed <- m.server.process.Kill()
	}()
	r, err := m.wrk(ctx, m.server.process.URL(), m.owner.Key, createLoad(), m.connections[0], working+time.Second)
	if failed := <-killed; failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	m.owner.Counted[account.Create] = m.owner.Counted[account.Create].With(r, m.connections[0])
	return nil
}

// starts measures starts, each after an end.
func (m *large) starts(ctx context.Context, row string, end func(context.Context) error) error {
	var seconds []float64
	for range m.bench.starts {
		if err := end(ctx); err != nil {
			return err
		}
		took, err := m.server.startCold(ctx, m.owner, m.ids[len(m.ids)/2])
		if err != nil {
			return err
		}
		seconds = append(seconds, took.Seconds())
		if err := m.server.settle(ctx); err != nil {
			return err
		}
	}
	m.note(row, seconds, fmt.Sprintf("%d starts, until a read is answered", len(seconds)))
	return nil
}

// explain measures how long explanations take. None of these requests was explained before, since results are cached for a minute.
func (m *large) explain(ctx context.Context, requests []string) error {
	var slowest float64
	for _, request := range requests {
		started := time.Now()
		if _, err := m.server.admin().Explain(ctx, request, func(_, _ uint64) {}); err != nil {
			return fmt.Errorf("explain %s: %w", request, err)
		}
		slowest = max(slowest, time.Since(started).Seconds())
	}
	m.note("explain", []float64{slowest}, "from before the first paste, from the middle, and after the last")
	return nil
}

// readOne reads a paste once, and returns the id of the request.
func (s *server) readOne(ctx context.Context, a *account.Account, id string) (string, error) {
	request, err := s.request(ctx, http.MethodGet, bareGet+id, a.Key, "")
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	if err := response.Body.Close(); err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("read a paste: %s", response.Status)
	}
	a.Succeeded(account.Get)
	return response.Header.Get("X-Request-Id"), nil
}

// startCold returns the time from the start of the process, with nothing of its data in memory, until it has answered a metered read.
func (s *server) startCold(ctx context.Context, a *account.Account, paste string) (time.Duration, error) {
	if err := machine.Forget(s.data()); err != nil {
		return 0, err
	}
	started := time.Now()
	if err := s.start(ctx); err != nil {
		return 0, err
	}
	_, err := s.readOne(ctx, a, paste)
	return time.Since(started), err
}
