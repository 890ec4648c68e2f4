package cluster_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
	"quire.dev/tools/cluster"
	"quire.dev/tools/cluster/scrape"
)

var many = flag.Bool("processes", false, "start clusters of the programs that `make test-cluster` builds")

const limit = 2 * time.Minute

// start starts a cluster, with settings of every service besides its own; nil for none.
func start(t *testing.T, settings map[string]string) *cluster.Cluster {
	t.Helper()
	if !*many {
		t.Skip("starts many processes: make test-cluster")
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(ctx, cluster.Options{Root: root, Dir: t.TempDir(), Partitions: 4, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("stop the cluster: %v", err)
		}
	})
	return c
}

// TestInstancesComeAndGo follows which instances serve which partitions, as the NATS servers see it.
func TestInstancesComeAndGo(t *testing.T) {
	c := start(t, nil)
	for service, replicas := range map[string]int{"billing": 2, "lite": 1, "paste": 1, "file": 1} {
		awaitReplicas(t, c, service, replicas, len(c.Processes(service)))
		p, err := c.Add(t.Context(), service)
		if err != nil {
			t.Fatal(err)
		}
		awaitReplicas(t, c, service, replicas, len(c.Processes(service)))
		if err := p.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaitReplicas(t, c, service, replicas, len(c.Processes(service))-1)
		if err := c.Processes(service)[0].Kill(); err != nil {
			t.Fatal(err)
		}
		awaitReplicas(t, c, service, min(replicas, 1), len(c.Processes(service))-2)
		for _, p := range c.Processes(service) {
			if !p.Running() {
				if err := p.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		awaitReplicas(t, c, service, replicas, len(c.Processes(service)))
	}
}

// awaitReplicas returns once each partition of a service has that many replicas, on no more instances than there are.
func awaitReplicas(t *testing.T, c *cluster.Cluster, service string, replicas, instances int) {
	t.Helper()
	eventually.NoError(t, "the partitions are shared", func() error {
		byPartition, byInstance, err := serving(t.Context(), c, service)
		if err != nil {
			return err
		}
		for p := range c.Partitions() {
			if n := byPartition[p]; n != replicas {
				return fmt.Errorf("%s: partition %d has %d replicas, want %d on %d instances: %v", service, p, n, replicas, instances, byInstance)
			}
		}
		if len(byInstance) > instances {
			return fmt.Errorf("%s: %d instances serve, there are %d", service, len(byInstance), instances)
		}
		return nil
	})
}

// serving counts the subscriptions to the queries or reads of a service. An instance is known by its address.
func serving(ctx context.Context, c *cluster.Cluster, service string) (byPartition map[int]int, byInstance map[string][]int, err error) {
	subject := service + ".%d.read"
	if service == "billing" {
		subject = "billing.%d.query"
	}
	byPartition, byInstance = map[int]int{}, map[string][]int{}
	for _, server := range c.Processes("nats") {
		var page struct {
			Connections []struct {
				IP            string   `json:"ip"`
				Port          int      `json:"port"`
				Subscriptions []string `json:"subscriptions_list"`
			} `json:"connections"`
		}
		body, err := scrape.Get(ctx, server.Ops()+"/connz?subs=1&limit=1000")
		if err == nil {
			err = json.Unmarshal(body, &page)
		}
		if err != nil {
			return nil, nil, err
		}
		for _, conn := range page.Connections {
			for p := range c.Partitions() {
				if slices.Contains(conn.Subscriptions, fmt.Sprintf(subject, p)) {
					byPartition[p]++
					name := fmt.Sprintf("%s:%d", conn.IP, conn.Port)
					byInstance[name] = append(byInstance[name], p)
				}
			}
		}
	}
	return byPartition, byInstance, nil
}

// TestAWrongNumberOfPartitionsIsRefused: a process with another number would look for keys in the wrong journals.
func TestAWrongNumberOfPartitionsIsRefused(t *testing.T) {
	c := start(t, nil)
	c.Set(map[string]string{"QUIRE_PARTITIONS": "5"})
	for _, service := range cluster.Services() {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		p, err := c.Add(ctx, service)
		cancel()
		if err == nil || p.Running() {
			t.Errorf("%s runs with another number of partitions: %v", service, err)
			continue
		}
		log, readErr := os.ReadFile(p.Log())
		if readErr != nil {
			t.Fatal(readErr)
		}
		if !strings.Contains(string(log), "partition count") && !strings.Contains(string(log), "number of partitions") {
			t.Errorf("%s does not say why it has ended: %v", service, err)
		}
	}
}
