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
	"syscall"
	"time"

	"quire.dev/pkg/admin"
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
		watch(ctx, c)
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
	fmt.Printf("data folder: %s (logs in %s)\n", dir, filepath.Join(dir, "log"))
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

// watch prints when a process ends by itself, until ctx ends.
func watch(ctx context.Context, c *cluster.Cluster) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	ended := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, p := range c.Processes() {
			if !p.Running() && !ended[p.Name()] {
				ended[p.Name()] = true
				fmt.Printf("%s has ended; the others go on. Its log: %s\n", p.Name(), p.Log())
			}
		}
	}
}
