package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"quire.dev/pkg/admin"
	"quire.dev/tools/cluster"
)

// system is a Quire that is measured, on fresh data.
type system struct {
	name       string
	partitions int
	dir        string
	processes  []*cluster.Process
	edges      []string // base URLs
	metrics    []string // URLs of the edges' metrics
	journals   []string // base URLs of the monitoring of the NATS servers; none in one process
	replicas   int      // of each billing partition
	token      string
	cluster    *cluster.Cluster // nil: one process
}

const (
	startLimit = 3 * time.Minute
	replicas   = 3
	edges      = 2
	instances  = 2
)

// startSingle starts all of Quire in one process.
func startSingle(ctx context.Context, program, dir string) (*system, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	token := rand.Text()
	one, err := cluster.StartServer(ctx, dir+".log", []string{
		"QUIRE_DATA=" + dir, "QUIRE_LISTEN=127.0.0.1:0", "QUIRE_ADMIN_TOKEN=" + token, "QUIRE_LOG_LEVEL=warn",
	}, program)
	if err != nil {
		return nil, err
	}
	return &system{
		name: "one process", partitions: 1, dir: dir, processes: []*cluster.Process{one},
		edges: []string{one.URL()}, metrics: []string{one.URL() + "/metrics"}, replicas: 1, token: token,
	}, nil
}

// startCluster starts a cluster.
func startCluster(ctx context.Context, root, dir, store string, partitions int) (*system, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Options{
		Root: root, Dir: dir, Partitions: partitions, Replicas: replicas, Edges: edges, Instances: instances, Store: store,
		Settings: map[string]string{"QUIRE_LOG_LEVEL": "warn"},
	})
	if err != nil {
		return nil, err
	}
	s := &system{
		name: fmt.Sprintf("%d partitions", partitions), partitions: partitions, dir: dir, processes: c.Processes(),
		edges: c.Edges(), replicas: instances, token: c.AdminToken(), cluster: c,
	}
	if partitions == 1 {
		s.name = "1 partition"
	}
	for _, p := range c.Processes("edge") {
		s.metrics = append(s.metrics, p.Ops()+"/metrics")
	}
	for _, p := range c.Processes("nats") {
		s.journals = append(s.journals, p.Ops())
	}
	return s, nil
}

// bystanders are the services that get no requests.
const bystanders = "paste, file"

// serviceOf is the name in the report for the service of a process.
func serviceOf(p *cluster.Process) string {
	if s := p.Service(); s != "paste" && s != "file" {
		return cmp.Or(s, "quire")
	}
	return bystanders
}

// close kills the processes and removes their data.
func (s *system) close() error {
	var errs []error
	for _, p := range slices.Backward(s.processes) { // edges first
		if p.Running() {
			errs = append(errs, p.Kill())
		}
	}
	if s.cluster != nil {
		errs = append(errs, s.cluster.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

func (s *system) api() admin.Client { return admin.Client{Base: s.edges[0], Token: s.token} }

// addresses lists the addresses of the edges in the form that mixed.lua takes.
func (s *system) addresses() string {
	return strings.ReplaceAll(strings.Join(s.edges, " "), "http://", "")
}
