// Command cluster runs a whole Quire as many processes on this machine until Ctrl-C or SIGTERM. `make cluster` calls it
// from the root of the project.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"quire.dev/pkg/admin"
	"quire.dev/pkg/wait"
	"quire.dev/tools/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// startLimit bounds the start, in which billing folds the journal.
const startLimit = 5 * time.Minute

func run(ctx context.Context) error {
	root := flag.String("root", ".", "folder of the project")
	dir := flag.String("dir", "data/cluster", "folder of data, configuration and logs")
	listen := flag.String("listen", "127.0.0.1:8080,127.0.0.1:8081", "addresses of the edges; an empty one is chosen")
	partitions := flag.Int("partitions", 4, "partitions of each journal, fixed by the first start")
	instances := flag.Int("instances", 2, "instances of each service but the edge")
	store := flag.String("store", cluster.PostgreSQL, "server of the read models: postgres or mongo")
	welcome := flag.Bool("welcome", true, "make an account on the first start, and print its API key")
	restart := flag.Bool("restart", true, "start a process again that has ended")
	settings := map[string]string{}
	flag.Func("set", "a setting of all services, such as QUIRE_ANON_LIMIT=100; it may come several times", func(text string) error {
		name, value, found := strings.Cut(text, "=")
		if !found || !strings.HasPrefix(name, "QUIRE_") {
			return errors.New("must be QUIRE_<NAME>=<value>")
		}
		settings[name] = value
		return nil
	})
	flag.Parse()
	edges := strings.Split(*listen, ",")
	if settings["QUIRE_PUBLIC_URL"] == "" && edges[0] != "" {
		settings["QUIRE_PUBLIC_URL"] = "http://" + edges[0]
	}
	mongo := os.Getenv("QUIRE_MONGO_URL")
	if *store == cluster.MongoDB && mongo == "" {
		fmt.Println("QUIRE_MONGO_URL is not set: using a patched FerretDB over SQLite instead of MongoDB (tools/ferretdb).\n" +
			"It is slow and gives fewer guarantees: docs/mongodb.md")
	}
	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	c, err := cluster.Start(starting, cluster.Options{
		Root: *root, Dir: *dir, Partitions: *partitions, Instances: *instances, Edges: len(edges), Listen: edges,
		Store: *store, PostgresURL: os.Getenv("QUIRE_POSTGRES_URL"), MongoURL: mongo, Settings: settings,
	})
	if err != nil {
		return err
	}
	if err = greet(ctx, c, *dir, *welcome); err == nil {
		if *restart {
			fmt.Print("A process that ends, by kill -9 for example, is started again.\n\n")
		}
		watch(ctx, c, *restart)
	}
	fmt.Println("stopping")
	return errors.Join(err, c.Close())
}

// greet prints the addresses of all processes. With welcome it also creates an account on the first start.
func greet(ctx context.Context, c *cluster.Cluster, dir string, welcome bool) error {
	fmt.Printf("quire listens on %s\n", strings.Join(c.Edges(), " and "))
	for _, p := range c.Processes() {
		where := p.URL()
		if p.Ops() != "" {
			where = strings.TrimSpace(where + "  operators: " + p.Ops())
		}
		fmt.Printf("  %-10s pid %-7d %s\n", p.Name(), p.PID(), where)
	}
	state := filepath.Join(dir, "cluster.json")
	fmt.Printf("data folder: %s\n\n", dir)
	fmt.Printf("Look at it:\n\n  %s/console\n  tail -f %s\n", c.Edges()[0], filepath.Join(dir, "log", "*.log"))
	fmt.Printf("  curl -s %s/readyz\n  curl -s %[1]s/metrics\n", c.Processes("billing")[0].Ops())
	fmt.Printf("  export QUIRE_PUBLIC_URL=%s QUIRE_ADMIN_TOKEN=$(jq -r .secrets.admin %s)\n", c.Edges()[0], state)
	fmt.Printf("  quire account show owner@quire.localhost\n  quire audit\n\n")
	welcomed := filepath.Join(dir, "welcomed")
	if _, err := os.Stat(welcomed); err == nil || !welcome {
		fmt.Printf("admin token: in %s\n", state)
		return nil
	}
	api := admin.Client{Base: c.Edges()[0], Token: c.AdminToken()}
	if err := api.Welcome(ctx, os.Stdout, state); err != nil {
		return err
	}
	return os.WriteFile(welcomed, nil, 0o600)
}

// watch prints when a process ends by itself, until ctx ends, and starts it again with restart.
func watch(ctx context.Context, c *cluster.Cluster, restart bool) {
	var restarts sync.WaitGroup
	defer restarts.Wait()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	watched := map[string]*instance{}
	for {
		for _, p := range c.Processes() {
			if watched[p.Name()] == nil {
				watched[p.Name()] = &instance{Process: p, pause: wait.Backoff{Initial: time.Second, Max: readyLimit}}
			}
			if i := watched[p.Name()]; !p.Running() && i.busy.CompareAndSwap(false, true) {
				restarts.Go(func() { i.ended(ctx, restart) })
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// instance is a process that is watched.
type instance struct {
	*cluster.Process
	busy  atomic.Bool  // it has ended, and is started again
	pause wait.Backoff // before its next start, while it fails
}

// readyLimit bounds the start of one process.
const readyLimit = 2 * time.Minute

// ended prints that the process has ended, and starts it again with restart.
func (i *instance) ended(ctx context.Context, restart bool) {
	fmt.Printf("%s has ended; the others go on. Its log: %s\n", i.Name(), i.Log())
	if !restart {
		return // and stays busy, so that it is said once
	}
	defer i.busy.Store(false)
	starting, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	if err := i.Start(starting); err != nil {
		if ctx.Err() == nil {
			fmt.Printf("%s does not start: %v\n", i.Name(), err)
			i.pause.Wait(ctx)
		}
		return
	}
	i.pause.Reset()
	fmt.Printf("%s runs again, pid %d\n", i.Name(), i.PID())
}
