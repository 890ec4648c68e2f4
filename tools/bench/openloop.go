package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"quire.dev/tools/bench/internal/account"
	"quire.dev/tools/bench/internal/load"
	"quire.dev/tools/bench/internal/report"
	"quire.dev/tools/bench/internal/wrk"
)

const openConnections = 256

// measureOpenLoop sends requests at half the rate that the server reaches in a closed loop, whatever it answers. The client
// runs in a separate process with a third of the cores, at least one. The server may use all of them.
func (b *bench) measureOpenLoop(ctx context.Context) error {
	s, err := b.startServer(ctx, openLoop)
	if err != nil {
		return err
	}
	a, err := s.account(ctx, "admin")
	if err != nil {
		return err
	}
	id, err := s.paste(ctx, a)
	if err != nil {
		return err
	}
	bare, err := s.startYardstick(ctx, a, id)
	if err != nil {
		return err
	}
	for _, kind := range kinds() {
		name := "open-" + kind
		if !b.wants(name+"-p99", name+"-p999", name+"-silent") {
			continue
		}
		key, l, path, plan := account.Get, getLoad(id), bareGet+id, load.Request{Method: http.MethodGet, Key: a.Key}
		if kind == "create" {
			key, l, path = account.Create, createLoad(), bareCreate
			plan.Method, plan.Body = http.MethodPost, load.CreateBody()
		}
		plan.URL = s.process.URL() + path
		closed, err := s.turn(ctx, a, key, l, b.connections[0], b.duration)
		if err != nil {
			return err
		}
		if err := s.settle(ctx); err != nil {
			return err
		}
		half := load.Plan{Request: plan, PerSecond: closed.Rate() / 2, Duration: b.open, Connections: openConnections}
		outcome, err := b.openLoop(ctx, half)
		if err != nil {
			return err
		}
		a.Counted[key] = a.Counted[key].Plus(wrk.Tally{Succeeded: outcome.Succeeded, Uncertain: outcome.Failed})
		if outcome.Failed > 0 {
			b.void("%s: %d requests of the open loop failed: %s", s.name, outcome.Failed, outcome.Failure)
		}
		half.URL, half.Duration = bare.URL()+path, max(time.Second, b.open/4)
		yardstick, err := b.openLoop(ctx, half)
		if err != nil {
			return err
		}
		// The client's lateness is part of the latencies, which are therefore upper bounds.
		note := fmt.Sprintf("%.0f/s; client late by %.1f ms at p99; bare handler %.1f and %.1f ms", half.PerSecond, outcome.SentLateP99,
			yardstick.P99, yardstick.P999)
		b.note(name+"-p99", []float64{outcome.P99}, note)
		b.note(name+"-p999", []float64{outcome.P999}, note)
		b.note(name+"-silent", []float64{float64(outcome.Silent)}, "")
		b.report.Curves = append(b.report.Curves, latencyCurve(kind, outcome))
	}
	return s.check(ctx)
}

// openLoop runs the client in a separate process.
func (b *bench) openLoop(ctx context.Context, plan load.Plan) (load.Outcome, error) {
	text, err := json.Marshal(plan)
	if err != nil {
		return load.Outcome{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return load.Outcome{}, err
	}
	cores := clientCores(runtime.NumCPU())
	// The highest cores: the kernel's own work is often on the lowest.
	list := fmt.Sprintf("%d-%d", runtime.NumCPU()-cores, runtime.NumCPU()-1)
	cmd := exec.CommandContext(ctx, "taskset", "-c", list, self, "-open-loop", string(text))
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(cores))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return load.Outcome{}, fmt.Errorf("run the client of the open loop: %w", err)
	}
	var outcome load.Outcome
	if err := json.Unmarshal(out, &outcome); err != nil {
		return outcome, fmt.Errorf("read what the client of the open loop printed: %w", err)
	}
	if outcome.Succeeded == 0 {
		return outcome, errors.New("no request of the open loop was answered: " + outcome.Failure)
	}
	return outcome, nil
}

// clientCores is a third of the cores, at least one.
func clientCores(cores int) int { return max(1, cores/3) }

// latencyCurve has the nines of the share of requests on its axis, 2 for 99 %.
func latencyCurve(kind string, o load.Outcome) report.Curve {
	c := report.Curve{Name: "open-" + kind, Title: kind + " at half the most, open loop", X: "nines of the requests", Y: "ms"}
	for _, p := range o.Distribution {
		c.Points = append(c.Points, report.Point{X: -math.Log10(1 - p.Share), Y: p.Millis})
	}
	return c
}
