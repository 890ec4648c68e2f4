package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"quire.dev/bench/internal/server"
	"quire.dev/cluster"
	"quire.dev/pkg/admin"
)

// system is a Quire under test, on fresh data.
type system struct {
	name       string
	partitions int
	dir        string
	edges      []string // base URLs
	metrics    []string // URLs of the edges' metrics
	journals   []string // bases of the NATS servers' monitoring; none in one process
	replicas   int      // instances that fold each billing partition
	token      string
	cluster    *cluster.Cluster // nil: one process
	single     *server.Server   // nil: a cluster
}

// process is a program of a system.
type process struct {
	service string
	pid     int
}

const (
	startLimit = 3 * time.Minute
	replicas   = 3
	edges      = 2
	instances  = 2
)

// startSingle starts all of Quire in one process.
func startSingle(ctx context.Context, program, dir string) (*system, error) {
	token := rand.Text()
	one, err := server.Start(ctx, "quire", program, nil, []string{
		"QUIRE_DATA=" + dir, "QUIRE_LISTEN=127.0.0.1:0", "QUIRE_ADMIN_TOKEN=" + token, "QUIRE_LOG_LEVEL=warn",
	})
	if err != nil {
		return nil, err
	}
	return &system{
		name: "one process", partitions: 1, dir: dir, edges: []string{one.URL}, metrics: []string{one.URL + "/metrics"},
		replicas: 1, token: token, single: one,
	}, nil
}

// startCluster starts one of many processes.
func startCluster(ctx context.Context, root, dir string, partitions int) (*system, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Options{
		Root: root, Dir: dir, Partitions: partitions, Replicas: replicas, Edges: edges, Instances: instances,
		Settings: map[string]string{"QUIRE_LOG_LEVEL": "warn"},
	})
	if err != nil {
		return nil, err
	}
	s := &system{
		name: fmt.Sprintf("%d partitions", partitions), partitions: partitions, dir: dir, edges: c.Edges(),
		replicas: instances, token: c.AdminToken(), cluster: c,
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

// processes are those that run now.
func (s *system) processes() []process {
	if s.single != nil {
		return []process{{service: "quire", pid: s.single.PID()}}
	}
	var list []process
	for _, p := range s.cluster.Processes() {
		if pid := p.PID(); pid != 0 {
			list = append(list, process{service: serviceOf(p.Name()), pid: pid})
		}
	}
	return list
}

// bystanders are the services that no request is for.
const bystanders = "paste, file"

// serviceOf gives "edge" for "edge-1", and "mongo" for "mongo".
func serviceOf(name string) string {
	service, _, _ := strings.Cut(name, "-")
	if service == "paste" || service == "file" {
		return bystanders
	}
	return service
}

// close ends the system at once: its data is thrown away.
func (s *system) close() error {
	var err error
	if s.single != nil {
		s.single.Kill()
	} else {
		for _, p := range slices.Backward(s.cluster.Processes()) { // edges first
			if p.Running() {
				err = errors.Join(err, p.Kill())
			}
		}
		err = errors.Join(err, s.cluster.Close())
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

func (s *system) api() admin.Client { return admin.Client{Base: s.edges[0], Token: s.token} }

// addresses of the edges, as mixed.lua wants them.
func (s *system) addresses() (string, error) {
	var list []string
	for _, edge := range s.edges {
		u, err := url.Parse(edge)
		if err != nil {
			return "", err
		}
		list = append(list, u.Host)
	}
	return strings.Join(list, " "), nil
}

// bucketURL is that of the cluster's MinIO at base. Its secret is in the cluster's state.
func bucketURL(state []byte, base string) (string, error) {
	var kept struct{ Secrets map[string]string }
	if err := json.Unmarshal(state, &kept); err != nil {
		return "", fmt.Errorf("state of the cluster: %w", err)
	}
	u, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	u.User, u.Path = url.UserPassword("quire", kept.Secrets["minio"]), "/quire"
	return u.String(), nil
}
