// Package cluster starts a whole Quire as many processes on this machine: three NATS servers, a server of the MongoDB
// protocol, MinIO, and several instances of each service. `make cluster`, the scenario tests of many processes and the
// failure runs stand on it. Each NATS user has the permissions of deploy/nats/users.conf.
//
// The programs are those of bin/, which `make cluster-programs` builds.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Options of a cluster. The zero value of each field but Root and Dir has a default.
type Options struct {
	Root       string            // of the project: its bin/ and deploy/ are used
	Dir        string            // data, configuration and logs; made where it is missing, taken up where it is not
	Partitions int               // of each journal; 4
	Replicas   int               // of each journal; 3
	Edges      int               // 2
	Instances  int               // of each other service; 2
	Settings   map[string]string // QUIRE_… of every service process, over the cluster's own
	Listen     []string          // addresses of the edges, "127.0.0.1:8080"; free ports where there are too few
	MongoURL   string            // a server that is there already; FerretDB is started where it is empty
	Isolated   bool              // each process in a network namespace of its own, see Namespaces
}

// maxPartitions is what deploy/nats/users.conf allows.
const maxPartitions = 16

func (o Options) withDefaults() (Options, error) {
	o.Partitions, o.Replicas = cmp.Or(o.Partitions, 4), cmp.Or(o.Replicas, 3)
	o.Edges, o.Instances = cmp.Or(o.Edges, 2), cmp.Or(o.Instances, 2)
	if o.Partitions > maxPartitions {
		return o, fmt.Errorf("%d partitions: deploy/nats/users.conf has permissions for %d", o.Partitions, maxPartitions)
	}
	var err error
	if o.Root, err = filepath.Abs(o.Root); err != nil {
		return o, err
	}
	o.Dir, err = filepath.Abs(o.Dir)
	return o, err
}

// Root is the folder of the project that the working folder is in: the one with go.work.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.work above the working folder")
		}
		dir = parent
	}
}

// Services are those of the product, in the order in which they start.
func Services() []string { return []string{"billing", "paste", "lite", "file", "edge"} }

const natsServers = 3

// Cluster is a running one. Its methods may be called by several goroutines; two calls for one process may not.
type Cluster struct {
	opts  Options
	state *state
	net   network

	mu        sync.Mutex
	settings  map[string]string
	processes []*Process
}

// Start starts the processes and returns once each is ready. What it started is stopped again when it fails or ctx ends
// before that; afterwards ctx has no say. On a Dir of an earlier cluster it takes up the data, ports and secrets of that.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	return start(ctx, options, (*Cluster).startAll)
}

// StartStores is Start for the server of the MongoDB protocol and MinIO alone.
func StartStores(ctx context.Context, options Options) (*Cluster, error) {
	return start(ctx, options, (*Cluster).startStores)
}

func start(ctx context.Context, options Options, processes func(*Cluster, context.Context) error) (*Cluster, error) {
	opts, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Cluster{opts: opts, settings: maps.Clone(opts.Settings)}
	if err := os.MkdirAll(filepath.Join(opts.Dir, "log"), 0o700); err != nil {
		return nil, err
	}
	if c.state, err = openState(filepath.Join(opts.Dir, "cluster.json")); err != nil {
		return nil, err
	}
	if c.net, err = newNetwork(ctx, opts.Isolated, c.state); err != nil {
		return nil, err
	}
	if err := processes(c, ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start the cluster: %w", err), c.Close())
	}
	return c, nil
}

func (c *Cluster) startStores(ctx context.Context) error {
	if err := c.addStores(ctx); err != nil {
		return err
	}
	return c.startTogether(ctx, c.Processes(""))
}

func (c *Cluster) startAll(ctx context.Context) error {
	if err := c.addJournals(ctx); err != nil {
		return err
	}
	if err := c.startStores(ctx); err != nil {
		return err
	}
	for _, service := range Services() {
		for n := range c.count(service) {
			if err := c.addInstance(ctx, service, n); err != nil {
				return err
			}
		}
	}
	if err := c.state.save(); err != nil {
		return err
	}
	// Services make their streams at the first start, and wait for each other's where they need them.
	return c.startTogether(ctx, c.quire())
}

func (c *Cluster) count(service string) int {
	if service == "edge" {
		return c.opts.Edges
	}
	return c.opts.Instances
}

func (c *Cluster) startTogether(ctx context.Context, processes []*Process) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range processes {
		if !p.Running() {
			group.Go(func() error { return p.Start(ctx) })
		}
	}
	return group.Wait()
}

// Edges are the base URLs of the edges, in the order of their names.
func (c *Cluster) Edges() []string {
	var urls []string
	for _, p := range c.Processes("edge") {
		urls = append(urls, p.URL())
	}
	return urls
}

// AdminToken is the one of the admin API.
func (c *Cluster) AdminToken() string { return c.state.Secrets["admin"] }

// Password is that of a NATS user, such as "operator".
func (c *Cluster) Password(user string) string { return c.state.Secrets["nats-"+user] }

// Partitions of each journal.
func (c *Cluster) Partitions() int { return c.opts.Partitions }

// NATSURL is for a NATS user: a client's way to any of the servers.
func (c *Cluster) NATSURL(user string) string {
	var urls []string
	for n := range natsServers {
		h := c.net.host(natsName(n))
		urls = append(urls, fmt.Sprintf("nats://%s:%s@%s", user, c.Password(user), h.address("client")))
	}
	return strings.Join(urls, ",")
}

// Process gives the one of that name, "edge-0", "billing-1", "nats-2", "mongo" or "minio"; nil where there is none.
func (c *Cluster) Process(name string) *Process {
	for _, p := range c.Processes("") {
		if p.name == name {
			return p
		}
	}
	return nil
}

// Processes are those of a service, or of "nats", in the order of their names; all where service is empty.
func (c *Cluster) Processes(service string) []*Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	var of []*Process
	for _, p := range c.processes {
		if service == "" || p.service == service {
			of = append(of, p)
		}
	}
	return of
}

// quire are the processes of the product itself.
func (c *Cluster) quire() []*Process {
	var of []*Process
	for _, service := range Services() {
		of = append(of, c.Processes(service)...)
	}
	return of
}

// Set gives settings to the service processes that are started from now on.
func (c *Cluster) Set(settings map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settings == nil {
		c.settings = map[string]string{}
	}
	maps.Copy(c.settings, settings)
}

// Add starts another instance of a service and returns once it is ready.
func (c *Cluster) Add(ctx context.Context, service string) (*Process, error) {
	n := len(c.Processes(service))
	if err := c.addInstance(ctx, service, n); err != nil {
		return nil, err
	}
	p := c.Process(service + "-" + strconv.Itoa(n))
	return p, errors.Join(c.state.save(), p.Start(ctx))
}

// StartServices starts the instances of the product that do not run, StopServices ends all of them, the edges first.
// The stores run on.
func (c *Cluster) StartServices(ctx context.Context) error { return c.startTogether(ctx, c.quire()) }

// StopServices ends them in order. What still runs when ctx ends is killed.
func (c *Cluster) StopServices(ctx context.Context) error {
	return errors.Join(stopTogether(ctx, c.Processes("edge")),
		stopTogether(ctx, slices.DeleteFunc(c.quire(), func(p *Process) bool { return p.service == "edge" })))
}

// closeLimit is how long an orderly stop may take; billing has the longest.
const closeLimit = 4 * time.Minute

// Close stops everything: the edges first, the stores last. It returns an error for each process that did not end by
// itself with status 0.
func (c *Cluster) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	return errors.Join(c.StopServices(ctx), stopTogether(ctx, c.Processes("")), c.net.close(), c.state.release())
}

func stopTogether(ctx context.Context, processes []*Process) error {
	errs := make([]error, len(processes))
	var group sync.WaitGroup
	for n, p := range processes {
		if p.Running() {
			group.Go(func() { errs[n] = p.Stop(ctx) })
		}
	}
	group.Wait()
	return errors.Join(errs...)
}

func (c *Cluster) add(p *Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes = append(c.processes, p)
}
