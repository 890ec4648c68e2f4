package main

import (
	"context"
	"fmt"
	"net/http"

	"quire.dev/tools/bench/internal/account"
	"quire.dev/tools/cluster"
)

// measureRefusals measures calls that are refused. They are metered nowhere, so the counters must not move.
func (b *bench) measureRefusals(ctx context.Context) error {
	s, err := b.startServer(ctx, refusals)
	if err != nil {
		return err
	}
	owner, err := s.account(ctx, "admin")
	if err != nil {
		return err
	}
	id, err := s.paste(ctx, owner)
	if err != nil {
		return err
	}
	free, err := s.account(ctx, "free")
	if err != nil {
		return err
	}
	if err := s.untilExhausted(ctx, free, id); err != nil {
		return err
	}
	keys := map[string]string{bareBadKey: account.WrongKey(owner.Key), bareExhausted: free.Key}
	var answers []recorded
	paths := map[string]string{"bad-key": bareBadKey, "exhausted": bareExhausted}
	for row, path := range paths {
		if !b.wants(row) {
			continue
		}
		// After its first hundred bad keys a source gets another answer, which is the one that matters in a flood.
		if _, err := b.wrk(ctx, s.process.URL(), keys[path], getLoad(id), 32, warmUp); err != nil {
			return err
		}
		request, err := s.request(ctx, http.MethodGet, bareGet+id, keys[path], "")
		if err != nil {
			return err
		}
		a, err := record(request, path)
		if err != nil {
			return err
		}
		if a.Status/100 != 4 {
			return fmt.Errorf("a request that must be refused: %d %s", a.Status, a.Body)
		}
		answers = append(answers, a)
	}
	bare, err := b.startBare(ctx, answers)
	if err != nil {
		return err
	}
	for row, path := range paths {
		if !b.wants(row) {
			continue
		}
		if err := b.compareRefusals(ctx, s, bare, row, path, keys[path], id); err != nil {
			return err
		}
	}
	return s.check(ctx)
}

// untilExhausted reads until the account's quota is used up.
func (s *server) untilExhausted(ctx context.Context, a *account.Account, id string) error {
	for {
		request, err := s.request(ctx, http.MethodGet, bareGet+id, a.Key, "")
		if err != nil {
			return err
		}
		answer, err := record(request, "")
		switch {
		case err != nil:
			return err
		case answer.Status == http.StatusTooManyRequests:
			return nil
		case answer.Status != http.StatusOK:
			return fmt.Errorf("use up a quota: %d %s", answer.Status, answer.Body)
		}
		a.Succeeded(account.Get)
	}
}

func (b *bench) compareRefusals(ctx context.Context, s *server, bare *cluster.Process, row, path, key, id string) error {
	most := b.connections[0]
	var ratios, rates []float64
	for range b.rounds {
		without, err := b.wrk(ctx, bare.URL(), key, requests{script: "get.lua", path: path}, most, b.duration)
		if err != nil {
			return err
		}
		with, err := b.wrk(ctx, s.process.URL(), key, getLoad(id), most, b.duration)
		if err != nil {
			return err
		}
		if with.Status != with.Requests {
			b.void("%s: %d of %d requests of the row %s were not refused", s.name, with.Requests-with.Status, with.Requests, row)
		}
		ratios, rates = append(ratios, with.Rate()/without.Rate()), append(rates, without.Rate())
	}
	b.report.BarePerSecond[row] = median(rates)
	b.note(row, ratios, fmt.Sprintf("bare %.0f/s", median(rates)))
	return nil
}
