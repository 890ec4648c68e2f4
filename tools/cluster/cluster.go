// Package cluster starts a whole Quire as many processes on this machine: three NATS servers, PostgreSQL or a server of the
// MongoDB protocol, MinIO, and several instances of each service. `make cluster`, the scenario tests of many processes, the
// failure runs and the measurements of bench/scale are built on it. Each service's users have the rights of a deployment,
// from deploy/nats/users.conf, deploy/postgres and deploy/minio.
//
// It runs the programs in bin/, which `make cluster-programs` builds, and PostgreSQL as it is installed.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Options of a cluster. Root and Dir must be set; each other field has a default.
type Options struct {
	Root       string            // folder of the project, with bin/ and deploy/
	Bin        string            // folder of the services' programs; Root/bin
	Dir        string            // folder of data, configuration and logs; created if missing, reused otherwise
	Partitions int               // of each journal; 4
	Replicas   int               // of each journal; 3
	Edges      int               // 2
	Instances  int               // of each other service but the archive, which has one; 2
	Settings   map[string]string // QUIRE_… of every service, instead of the cluster's own values
	Listen     []string          // addresses of the first edges, such as "127.0.0.1:8080"; the others, and empty ones, are assigned
	Store      string            // PostgreSQL or MongoDB; PostgreSQL
	// URLs of running servers; a server of the Store is started if its URL is empty.
	PostgresURL string
	MongoURL    string
	Standby     bool // a second server of PostgreSQL is a synchronous standby of the first
	Isolated    bool // each process runs in its own network namespace, so that Process.Cut and Slow work
}

// maxPartitions is the number that deploy/nats/users.conf has permissions for.
const maxPartitions = 16

func (o Options) withDefaults() (Options, error) {
	o.Partitions, o.Replicas = cmp.Or(o.Partitions, 4), cmp.Or(o.Replicas, 3)
	o.Edges, o.Instances = cmp.Or(o.Edges, 2), cmp.Or(o.Instances, 2)
	o.Store = cmp.Or(o.Store, PostgreSQL)
	if o.Store != PostgreSQL && o.Store != MongoDB {
		return o, fmt.Errorf("store %q: must be %q or %q", o.Store, PostgreSQL, MongoDB)
	}
	if o.Partitions > maxPartitions {
		return o, fmt.Errorf("%d partitions: deploy/nats/users.conf has permissions for %d", o.Partitions, maxPartitions)
	}
	o.Bin = cmp.Or(o.Bin, filepath.Join(o.Root, "bin"))
	for _, path := range []*string{&o.Root, &o.Bin, &o.Dir} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return o, err
		}
		*path = absolute
	}
	return o, nil
}

// Root returns the folder of the project: the nearest one with go.work, from the working folder upwards.
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

// Services returns the names of the product's services, in the order in which they start.
func Services() []string { return []string{"billing", "paste", "lite", "file", "archive", "edge"} }

// Cluster is a running cluster. Goroutines may call its methods at the same time, but not two for one process.
type Cluster struct {
	opts  Options
	state *state
	net   *network

	mu        sync.Mutex
	settings  map[string]string
	processes []*Process
}

// Start starts the processes and returns once each is ready. If it fails or ctx ends before that, it stops what it has
// started. After Start has returned, ctx has no effect. If options.Dir was used before, its data and secrets are used
// again.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	return start(ctx, options, (*Cluster).startAll)
}

// StartStores is Start for the server of read models and MinIO alone.
func StartStores(ctx context.Context, options Options) (*Cluster, error) {
	return start(ctx, options, (*Cluster).startStores)
}

func start(ctx context.Context, options Options, processes func(*Cluster, context.Context) error) (*Cluster, error) {
	opts, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Cluster{opts: opts, settings: map[string]string{}}
	c.Set(opts.Settings)
	if err := os.MkdirAll(filepath.Join(opts.Dir, "log"), 0o700); err != nil {
		return nil, err
	}
	if c.state, err = openState(filepath.Join(opts.Dir, "cluster.json")); err != nil {
		return nil, err
	}
	if c.net, err = newNetwork(ctx, opts.Isolated, c.state); err != nil {
		return nil, err
	}
	if err = c.state.save(); err == nil {
		err = processes(c, ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the cluster: %w", err), c.Close())
	}
	return c, nil
}

func (c *Cluster) startStores(ctx context.Context) error {
	if err := c.addStores(ctx); err != nil {
		return err
	}
	if len(c.Processes(PostgreSQL)) > 0 {
		if err := c.createPostgres(ctx); err != nil {
			return err
		}
	}
	if err := startTogether(ctx, c.Processes()); err != nil {
		return err
	}
	return c.divideBucket(ctx)
}

func (c *Cluster) startAll(ctx context.Context) error {
	if err := c.addNATS(ctx); err != nil {
		return err
	}
	if err := c.startStores(ctx); err != nil {
		return err
	}
	if err := c.Provision(ctx, c.opts.Bin); err != nil {
		return err
	}
	for _, service := range Services() {
		for n := range c.instances(service) {
			if _, err := c.addInstance(ctx, service, n); err != nil {
				return err
			}
		}
	}
	return c.StartServices(ctx)
}

// instances is how many of a service are started.
func (c *Cluster) instances(service string) int {
	switch service {
	case "edge":
		return c.opts.Edges
	case "archive":
		return 1
	}
	return c.opts.Instances
}

func startTogether(ctx context.Context, processes []*Process) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range processes {
		if !p.Running() {
			group.Go(func() error { return p.Start(ctx) })
		}
	}
	return group.Wait()
}

// goSettings are the environment of Go programs: GOGC as in k8s/base, and GOMAXPROCS since sixteen processes share the processors.
// A program that may use all of them wakes threads that look for work and find none.
func goSettings() []string {
	return []string{"GOGC=300", "GOMAXPROCS=" + strconv.Itoa(max(1, runtime.NumCPU()/2))}
}

// add registers a process without starting it. Its program is in bin/, and its log is named after it.
func (c *Cluster) add(p *Process) *Process {
	if !filepath.IsAbs(p.program) {
		p.program = filepath.Join(c.opts.Root, "bin", p.program)
	}
	p.log = filepath.Join(c.opts.Dir, "log", p.name+".log")
	if p.environ == nil {
		p.environ = func() []string { return Environment(goSettings()...) }
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes = append(c.processes, p)
	return p
}

// Edges returns the base URLs of the edges, in the order of their names.
func (c *Cluster) Edges() []string {
	var urls []string
	for _, p := range c.Processes("edge") {
		urls = append(urls, p.URL())
	}
	return urls
}

// AdminToken is the token of the admin API.
func (c *Cluster) AdminToken() string { return c.state.Secrets["admin"] }

// Partitions is the number of partitions of each journal.
func (c *Cluster) Partitions() int { return c.opts.Partitions }

// NATSURL lists the addresses of all NATS servers, with the password of a user such as "edge".
func (c *Cluster) NATSURL(user string) string {
	var urls []string
	for n := range natsServers {
		address := c.net.host(natsName(n)).address(clientPort)
		urls = append(urls, fmt.Sprintf("nats://%s:%s@%s", user, c.state.Secrets["nats-"+user], address))
	}
	return strings.Join(urls, ",")
}

// ReadModels returns the server of the read models that was started first.
func (c *Cluster) ReadModels() *Process { return c.Processes(c.opts.Store)[0] }

// Process returns the process of that name, such as "edge-0", "nats-2" or "postgres-0". It is nil without such a process.
func (c *Cluster) Process(name string) *Process {
	for _, p := range c.Processes() {
		if p.name == name {
			return p
		}
	}
	return nil
}

// Processes returns the processes of some services, "nats" included, in the order of the services and then of their
// names. Without a service it returns all processes.
func (c *Cluster) Processes(services ...string) []*Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(services) == 0 {
		return slices.Clone(c.processes)
	}
	var found []*Process
	for _, service := range services {
		for _, p := range c.processes {
			if p.service == service {
				found = append(found, p)
			}
		}
	}
	return found
}

// Set changes settings of the services that are started after it.
func (c *Cluster) Set(settings map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(c.settings, settings)
}

// Add starts another instance of a service and returns once it is ready. If it fails to start, the process is returned
// with the error.
func (c *Cluster) Add(ctx context.Context, service string) (*Process, error) {
	p, err := c.addInstance(ctx, service, len(c.Processes(service)))
	if err != nil {
		return nil, err
	}
	return p, p.Start(ctx)
}

// StartServices starts the instances of services that are not running.
func (c *Cluster) StartServices(ctx context.Context) error {
	return startTogether(ctx, c.Processes(Services()...))
}

// StopServices stops the services in order, the edges first. The stores run on. It kills the processes that still run
// when ctx ends.
func (c *Cluster) StopServices(ctx context.Context) error {
	return errors.Join(stopTogether(ctx, c.Processes("edge")), stopTogether(ctx, c.Processes(Services()...)))
}

// closeLimit bounds a graceful stop. Billing takes longest.
const closeLimit = 4 * time.Minute

// Close stops all processes: the edges first, the stores last. Each process that was killed or that ended with another
// status than 0 is an error.
func (c *Cluster) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	return errors.Join(c.StopServices(ctx), stopTogether(ctx, c.Processes()), c.net.close())
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
