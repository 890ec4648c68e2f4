package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/admin"
	"quire.dev/tools/bench/internal/load"
	"quire.dev/tools/bench/internal/machine"
	"quire.dev/tools/bench/internal/wrk"
)

// customer is an account with its key.
type customer struct{ id, key string }

const (
	createPath = "/api/dev/paste-lite/create"
	getPath    = "/api/dev/paste-lite/get/"
	together   = 32 // concurrent calls that create accounts and documents
	credits    = "1000000"
)

// makeAccounts creates accounts on the Max plan, with credits if paid is true.
func (s *system) makeAccounts(ctx context.Context, prefix string, count int, paid bool) ([]customer, error) {
	list := make([]customer, count)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(together)
	for n := range list {
		group.Go(func() error {
			api := s.api()
			api.Base = s.edges[n%len(s.edges)]
			made, err := api.CreateAccount(ctx, admin.NewAccount{Email: fmt.Sprintf("%s-%d@example.org", prefix, n), Tier: "max"}, "")
			if err != nil {
				return err
			}
			list[n] = customer{made.Account.ID, made.APIKey}
			if !paid {
				return nil
			}
			grant := map[string]string{"amount": credits, "reason": "scale"}
			return api.Call(ctx, http.MethodPost, "/api/admin/accounts/"+made.Account.ID+"/credits", grant, new(json.RawMessage))
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("make accounts: %w", err)
	}
	return list, nil
}

// makeDocuments creates documents for each customer, and returns their paths. Their ids are random, so they are in all
// partitions.
func (s *system) makeDocuments(ctx context.Context, customers []customer, each int) ([]string, error) {
	paths := make([]string, each*len(customers))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(together)
	body := json.RawMessage(load.CreateBody())
	for n := range paths {
		group.Go(func() error {
			// The edge takes an API key in the same header as the administrator's token.
			api := admin.Client{Base: s.edges[n%len(s.edges)], Token: customers[n%len(customers)].key}
			var made struct{ ID string }
			err := api.Call(ctx, http.MethodPost, createPath, body, &made)
			paths[n] = getPath + made.ID
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("make documents: %w", err)
	}
	return paths, nil
}

// requestList combines customers and paths, so that a turn uses all of both.
func requestList(customers []customer, paths []string) string {
	var list strings.Builder
	for n := range max(len(customers), len(paths)) {
		fmt.Fprintf(&list, "%s %s\n", customers[n%len(customers)].key, paths[n*7%len(paths)])
	}
	return list.String()
}

// loads sends requests to a system with wrk.
type loads struct {
	system    *system
	generator wrk.Generator
}

// run sends the requests of a job for one turn.
func (l *loads) run(ctx context.Context, of job) (wrk.Result, error) {
	file := filepath.Join(l.generator.Folder, "list")
	if err := os.WriteFile(file, []byte(of.list), 0o600); err != nil {
		return wrk.Result{}, err
	}
	environ := []string{"BENCH_METHOD=" + of.method, "BENCH_LIST=" + file, "BENCH_ADDRESSES=" + l.system.addresses()}
	if of.method == http.MethodPost {
		environ = append(environ, "BENCH_BODY="+load.CreateBody())
	}
	g := l.generator
	g.Duration, g.Connections = of.length, of.connections
	return g.Run(ctx, wrk.Load{Script: "mixed.lua", URL: l.system.edges[0], Environ: environ})
}

// settle waits until the read model's writers are idle, so that it holds everything created. A list would wait for the same,
// but FerretDB reads all documents for each list.
func (s *system) settle(ctx context.Context) error {
	return machine.Settle(ctx, func() (float64, error) {
		now, err := s.sample(ctx)
		return now.cpu["lite"] + now.cpu["mongo"] + now.cpu["quire"], err
	})
}
