package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"quire.dev/pkg/wait"
	"quire.dev/tools/bench/internal/account"
	"quire.dev/tools/bench/internal/machine"
	"quire.dev/tools/bench/internal/wrk"
	"quire.dev/tools/cluster"
)

const (
	idleTime = 5 * time.Second
	// warmUp lets connections, caches and the heap reach their size before the first turn.
	warmUp = time.Second
)

// rated has the servers and accounts of the rates.
type rated struct {
	*bench
	server      *server
	bare        *cluster.Process
	quota, paid *account.Account
	id          string // of the paste that is read
}

// kinds of requests whose rate is measured.
func kinds() []string { return []string{"get", "create"} }

func (r *rated) load(kind string) (quotaKey string, l requests) {
	if kind == "get" {
		return account.Get, getLoad(r.id)
	}
	return account.Create, createLoad()
}

// measureRates measures gets and creations within quota, paid from credits, and bare, in turns. Requests within quota use an
// account of the tier "admin", which is counted like any tier but has unlimited quota. Requests paid from credits use an account
// on the Pro plan with its quota used up.
func (b *bench) measureRates(ctx context.Context) error {
	s, err := b.startServer(ctx, rates)
	if err != nil {
		return err
	}
	if b.wants("rss-idle") {
		wait.For(ctx, idleTime)
		megabytes, err := s.resident()
		if err != nil {
			return err
		}
		b.note("rss-idle", []float64{megabytes}, "")
	}
	r := &rated{bench: b, server: s}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	for _, connections := range b.connections {
		for _, kind := range kinds() {
			if !r.needsTurns(kind, connections) {
				continue
			}
			if err := r.compare(ctx, kind, connections); err != nil {
				return err
			}
		}
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	if most := fmt.Sprint(b.connections[0]); b.wants("get-"+most, "create-"+most) {
		return b.measureProfiles(ctx)
	}
	return nil
}

// needsTurns reports whether a chosen row needs turns of this kind.
func (r *rated) needsTurns(kind string, connections int) bool {
	ids := []string{fmt.Sprintf("%s-%d", kind, connections), fmt.Sprintf("paid-%s-%d", kind, connections)}
	if kind == "get" {
		ids = append(ids, fmt.Sprintf("journal-%d", connections))
	}
	switch connections {
	case 256:
		ids = append(ids, "allocs-"+kind)
	case 1:
		ids = append(ids, "one-"+kind+"-p50", "one-"+kind+"-p99")
	}
	return r.wants(ids...)
}

func (r *rated) prepare(ctx context.Context) error {
	var err error
	if r.quota, err = r.server.account(ctx, "admin"); err != nil {
		return err
	}
	if r.id, err = r.server.paste(ctx, r.quota); err != nil {
		return err
	}
	if r.wantsPaid() {
		if err := r.exhaust(ctx); err != nil {
			return err
		}
	}
	r.bare, err = r.server.startYardstick(ctx, r.quota, r.id)
	return err
}

func (r *rated) wantsPaid() bool {
	for _, kind := range kinds() {
		for _, c := range r.connections {
			if r.wants(fmt.Sprintf("paid-%s-%d", kind, c)) {
				return true
			}
		}
	}
	return false
}

// exhaust creates an account with credits that has used up its quota.
func (r *rated) exhaust(ctx context.Context) error {
	var err error
	if r.paid, err = r.server.account(ctx, "pro"); err != nil {
		return err
	}
	grant := map[string]string{"amount": "1000000", "reason": "bench"}
	path := "/api/admin/accounts/" + r.paid.ID + "/credits"
	if err := r.server.admin().Call(ctx, http.MethodPost, path, grant, new(json.RawMessage)); err != nil {
		return err
	}
	for _, kind := range kinds() {
		key, l := r.load(kind)
		for {
			used, err := r.paid.Used(ctx, r.server.admin())
			if err != nil {
				return err
			}
			if used[key].Remaining == 0 {
				break
			}
			if _, err := r.server.turn(ctx, r.paid, key, l, 64, time.Second); err != nil {
				return err
			}
		}
	}
	return nil
}

// compared are the figures of one kind of request, by round.
type compared struct {
	ofBare, ofQuota, bare []float64
	p50, p99              []float64 // ms, within quota
	journal, allocs       []float64 // for one request within quota
	sync                  []float64 // fdatasync, ms
}

func (r *rated) compare(ctx context.Context, kind string, connections int) error {
	key, l := r.load(kind)
	s := r.server
	if _, err := s.turn(ctx, r.quota, key, l, connections, warmUp); err != nil {
		return err
	}
	paid := r.wants(fmt.Sprintf("paid-%s-%d", kind, connections))
	var c compared
	for range r.rounds {
		sync, err := machine.SyncSeconds(r.folder)
		if err != nil {
			return err
		}
		c.sync = append(c.sync, sync*1000)
		bare, err := r.wrk(ctx, r.bare.URL(), r.quota.Key, l, connections, r.duration)
		if err != nil {
			return err
		}
		if bare.Errors() > 0 {
			return fmt.Errorf("the bare handler failed: %+v", bare)
		}
		c.bare = append(c.bare, bare.Rate())
		quota, err := r.quotaTurn(ctx, &c, kind, connections)
		if err != nil {
			return err
		}
		c.ofBare = append(c.ofBare, quota.Rate()/bare.Rate())
		if paid {
			credits, err := s.turn(ctx, r.paid, key, l, connections, r.duration)
			if err != nil {
				return err
			}
			c.ofQuota = append(c.ofQuota, credits.Rate()/quota.Rate())
		}
	}
	r.noteAll(kind, connections, &c)
	return nil
}

// spent is what the server has used so far.
type spent struct{ journal, mallocs float64 }

func (s *server) spent(ctx context.Context) (spent, error) {
	if err := s.settle(ctx); err != nil {
		return spent{}, err
	}
	bytes, err := s.journalBytes()
	if err != nil {
		return spent{}, err
	}
	mallocs, err := s.mallocs(ctx)
	return spent{float64(bytes), mallocs}, err
}

// quotaTurn is a turn of requests within quota, with what they cost.
func (r *rated) quotaTurn(ctx context.Context, c *compared, kind string, connections int) (wrk.Result, error) {
	key, l := r.load(kind)
	s := r.server
	costs := kind == "get" && r.wants(fmt.Sprintf("journal-%d", connections)) || connections == 256 && r.wants("allocs-"+kind)
	var before spent
	var err error
	if costs {
		if before, err = s.spent(ctx); err != nil {
			return wrk.Result{}, err
		}
	}
	result, err := s.turn(ctx, r.quota, key, l, connections, r.duration)
	if err != nil {
		return result, err
	}
	if costs {
		after, err := s.spent(ctx)
		if err != nil {
			return result, err
		}
		requests := float64(result.Requests)
		c.journal = append(c.journal, (after.journal-before.journal)/requests)
		c.allocs = append(c.allocs, (after.mallocs-before.mallocs)/requests)
	} else if kind == "create" { // finish the read model's work before the next turn
		if err := s.settle(ctx); err != nil {
			return result, err
		}
	}
	c.p50, c.p99 = append(c.p50, float64(result.P50)/1000), append(c.p99, float64(result.P99)/1000)
	r.printf("%-6s %15s: %8.0f/s  p50 %6.2f ms  p99 %6.2f ms  (bare %8.0f/s)\n", kind, inWords(connections), result.Rate(),
		c.p50[len(c.p50)-1], c.p99[len(c.p99)-1], c.bare[len(c.bare)-1])
	return result, nil
}

func (r *rated) noteAll(kind string, connections int, c *compared) {
	id := fmt.Sprintf("%s-%d", kind, connections)
	r.report.BarePerSecond[id] = median(c.bare)
	r.note(id, c.ofBare, fmt.Sprintf("bare %.0f/s", median(c.bare)))
	r.note("paid-"+id, c.ofQuota, "")
	if kind == "get" {
		r.note(fmt.Sprintf("journal-%d", connections), c.journal, "")
	}
	switch connections {
	case 256:
		r.note("allocs-"+kind, c.allocs, "NATS, folds and read models included")
	case 1:
		sync := median(c.sync)
		of := fmt.Sprintf("fdatasync %.2f ms", sync)
		above := map[string]float64{"get": 0.2, "create": 0.5}[kind]
		r.noteFor("one-"+kind+"-p50", 3*sync+above, c.p50, of)
		if kind == "create" {
			r.noteFor("one-create-p99", 5*median(c.p50), c.p99, "")
		}
	}
}
