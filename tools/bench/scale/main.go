// Command scale measures Quire in one process and in clusters of 1, 2 and 4 partitions, one after the other on this
// machine: requests a second, the CPU time of each service for a request, bytes in the journals, and how long billing takes
// to start again.
//
// Each system starts on fresh data, with accounts and documents in all partitions. wrk sends reads and creations in turns,
// from all accounts, through all edges. Afterwards the counters are compared with the number of requests that wrk
// completed, and all billing journals are audited. docs/scaling.md explains the figures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"quire.dev/tools/bench/internal/load"
	"quire.dev/tools/bench/internal/report"
	"quire.dev/tools/bench/internal/wrk"
	"quire.dev/tools/cluster"
)

type settings struct {
	effort
	root, dir, quire, results string
	store                     string // of the clusters' read models
	connections               int
	partitions                []int
	more                      int // accounts that the last system gets at the end
}

func main() {
	s := settings{partitions: []int{1, 2, 4}}
	flag.StringVar(&s.root, "root", ".", "folder of the project")
	flag.StringVar(&s.dir, "dir", "data", "folder for the data; the speed of its disk is part of the figures")
	flag.StringVar(&s.quire, "quire", "bin/quire", "program of one process")
	flag.StringVar(&s.results, "results", "tools/bench/results/scale", "folder for the report")
	flag.StringVar(&s.store, "store", cluster.MongoDB, "read models of the clusters: "+cluster.MongoDB+" (FerretDB in its place) or "+cluster.PostgreSQL)
	flag.IntVar(&s.connections, "connections", 256, "connections of wrk")
	flag.IntVar(&s.turns, "turns", 3, "turns of reads, and of creations")
	flag.DurationVar(&s.reads, "reads", 5*time.Second, "length of a turn of reads")
	flag.DurationVar(&s.creates, "creates", 2*time.Second, "length of a turn of creations")
	flag.IntVar(&s.customers, "accounts", 64, "accounts that send requests")
	flag.IntVar(&s.documents, "documents", 4, "documents of each account")
	flag.IntVar(&s.more, "more", 2000, "accounts made at the end, to measure how snapshots grow")
	flag.Func("partitions", "partitions of the clusters to measure (1,2,4)", func(list string) (err error) {
		s.partitions, err = parsePartitions(list)
		return err
	})
	smoke := flag.Bool("smoke", false, "one short turn with one partition, to try this command")
	flag.Parse()
	if *smoke {
		s.effort = effort{turns: 1, reads: time.Second, creates: time.Second, customers: 16, documents: 2}
		s.partitions, s.more = []int{1}, 50
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := s.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		stop()
		os.Exit(1)
	}
}

func parsePartitions(list string) (partitions []int, err error) {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is no number of partitions", text)
		}
		partitions = append(partitions, n)
	}
	return partitions, nil
}

func (s *settings) run(ctx context.Context) (err error) {
	dir, err := wrk.Folder(s.dir, "scale-")
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err != nil {
		return err
	}
	found, err := report.Begin(ctx, s.root, dir)
	if err != nil {
		return err
	}
	fmt.Printf("wrk -t2 -c%d, %d turns: reads of %s, creations of %s; %d accounts, documents of %d bytes\n",
		s.connections, s.turns, s.reads, s.creates, s.customers, load.ContentBytes)
	all, err := s.all(ctx, dir)
	if err != nil {
		return err
	}
	for _, m := range all {
		for _, f := range m.Failures {
			found.Void = append(found.Void, m.Name+": "+f)
		}
	}
	found.Systems = table(all)
	found.Notes = append(busy(all, found.Machine.Cores), fmt.Sprintf("An account that has used everything takes %d bytes in a snapshot", fullAccountBytes()))
	return found.Publish(s.results)
}

// all measures one system after the other.
func (s *settings) all(ctx context.Context, dir string) ([]*measurement, error) {
	base, err := s.one(ctx, dir, 0, func() (*system, error) {
		return startSingle(ctx, s.quire, filepath.Join(dir, "one"))
	})
	if err != nil {
		return nil, fmt.Errorf("one process: %w", err)
	}
	all := []*measurement{base}
	for n, partitions := range s.partitions {
		more := 0
		if n == len(s.partitions)-1 {
			more = s.more
		}
		m, err := s.one(ctx, dir, more, func() (*system, error) {
			return startCluster(ctx, s.root, filepath.Join(dir, fmt.Sprint(partitions)), s.store, partitions)
		})
		if err != nil {
			return nil, fmt.Errorf("a cluster of %d partitions: %w", partitions, err)
		}
		all = append(all, m)
	}
	return all, nil
}

func (s *settings) one(ctx context.Context, dir string, more int, start func() (*system, error)) (m *measurement, err error) {
	sys, err := start()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sys.close()) }()
	r := &runner{
		loads:  &loads{system: sys, generator: wrk.Generator{Folder: dir, Connections: s.connections}},
		effort: s.effort,
	}
	if m, err = r.measure(ctx); err != nil {
		return nil, err
	}
	if sys.cluster == nil {
		return m, nil
	}
	if m.Starts, err = r.restarts(ctx, more); err != nil || more == 0 {
		return m, err
	}
	m.Journal, err = sys.journalAlone(ctx)
	return m, err
}
