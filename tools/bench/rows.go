package main

import (
	"fmt"
	"regexp"
)

// row is a line of the report: a figure and its target. The rows of a group are measured on one server after the other.
type row struct {
	id, group, title, unit string
	target                 float64
	most                   bool // the target is a maximum; otherwise it is a minimum
}

// Groups of rows, in the order in which they are measured.
const (
	rates       = "rates"
	refusals    = "refusals"
	transfers   = "transfers"
	openLoop    = "open loop"
	age         = "age"
	disk        = "disk"
	million     = "million"
	generations = "generations"
	clusters    = "cluster"
)

const (
	ofBare  = "of bare"
	ofQuota = "of in quota"
)

// catalogue lists all rows. The targets of the rows whose id begins with "one-" follow from other figures, and are set with
// them.
func catalogue() []row {
	rows := []row{
		{"get-256", rates, "metered get, 256 connections", ofBare, 0.45, false},
		{"get-32", rates, "metered get, 32 connections", ofBare, 0.32, false},
		{"get-1", rates, "metered get, 1 connection", ofBare, 0.18, false},
		{"create-256", rates, "create, 256 connections", ofBare, 0.22, false},
		{"create-32", rates, "create, 32 connections", ofBare, 0.13, false},
		{"create-1", rates, "create, 1 connection", ofBare, 0.07, false},
	}
	for _, kind := range []string{"get", "create"} {
		for _, c := range connectionCounts() {
			rows = append(rows, row{
				fmt.Sprintf("paid-%s-%d", kind, c), rates, fmt.Sprintf("%s paid by credits, %s", kind, inWords(c)), ofQuota, 0.90, false,
			})
		}
	}
	return append(rows, []row{
		{"one-get-p50", rates, "get at 1 connection: p50 (3 × fdatasync + 0.2 ms)", "ms", 0, true},
		{"one-create-p50", rates, "create at 1 connection: p50 (3 × fdatasync + 0.5 ms)", "ms", 0, true},
		{"one-create-p99", rates, "create at 1 connection: p99 (5 × p50)", "ms", 0, true},
		{"journal-256", rates, "billing journal a get, 256 connections", "bytes", 64, true},
		{"journal-1", rates, "billing journal a get, 1 connection", "bytes", 110, true},
		{"allocs-get", rates, "heap allocations a get, 256 connections, whole process", "", 20, true},
		{"allocs-create", rates, "heap allocations a create, 256 connections, whole process", "", 50, true},
		{"rss-idle", rates, "memory, idle", "MB", 60, true},
		{"bad-key", refusals, "a bad key, 256 connections", ofBare, 0.85, false},
		{"exhausted", refusals, "an exhausted quota, 256 connections", ofBare, 0.75, false},
		{"upload", transfers, "upload of 50 MB: share of write and fsync", "of the disk", 0.75, false},
		{"download", transfers, "download of 50 MB: share of a bare streaming handler", ofBare, 0.75, false},
		{"open-get-p99", openLoop, "get at half the most, open loop: p99", "ms", 10, true},
		{"open-get-p999", openLoop, "get at half the most, open loop: p99.9", "ms", 25, true},
		{"open-get-silent", openLoop, "get at half the most, open loop: seconds without answers", "s", 0, true},
		{"open-create-p99", openLoop, "create at half the most, open loop: p99", "ms", 10, true},
		{"open-create-p999", openLoop, "create at half the most, open loop: p99.9", "ms", 25, true},
		{"open-create-silent", openLoop, "create at half the most, open loop: seconds without answers", "s", 0, true},
		{"age-10", age, "create after 10 s", "of after 1 s", 0.95, false},
		{"age-60", age, "create after 60 s", "of after 1 s", 0.95, false},
		{"disk", disk, "disk, all stores, for a paste of 1 KiB, after retention", "bytes", 1700, true},
		{"age-million", million, "create after a million pastes", "of after 1 s", 0.95, false},
		{"random-256", million, "get of random ones of 1.2 million, 256 connections", "of few", 0.90, false},
		{"random-32", million, "get of random ones of 1.2 million, 32 connections", "of few", 0.90, false},
		{"rss-million", million, "memory, 1.1 million pastes and more, under load", "MB", 350, true},
		{"explain", million, "explain a request of 1.2 million: the slowest of nine, old and new", "s", 2, true},
		{"start-clean", million, "start with 1.2 million pastes, cold cache, after a stop", "s", 1.5, true},
		{"start-kill", million, "start with 1.2 million pastes, cold cache, after kill -9", "s", 3, true},
		{"start-generations", generations, "start in the tenth generation of the billing journal, cold cache", "× in one generation", 1.1, true},
		{"cluster-get-1", clusters, "CPU a get of a cluster, 1 partition, without FerretDB", "µs", 45, true},
		{"cluster-create-1", clusters, "CPU a create of a cluster, 1 partition, without FerretDB", "µs", 110, true},
		{"cluster-get-4", clusters, "CPU a get of a cluster, 4 partitions", "× 1 partition", 1.4, true},
		{"cluster-create-4", clusters, "CPU a create of a cluster, 4 partitions", "× 1 partition", 1.4, true},
	}...)
}

func connectionCounts() []int { return []int{256, 32, 1} }

func inWords(connections int) string {
	if connections == 1 {
		return "1 connection"
	}
	return fmt.Sprintf("%d connections", connections)
}

// choose returns the rows whose id matches pattern somewhere. It is an error if none does.
func choose(rows []row, pattern string) (map[string]row, error) {
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("rows: %w", err)
	}
	chosen := map[string]row{}
	for _, r := range rows {
		if wanted.MatchString(r.id) {
			chosen[r.id] = r
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no row matches %q; -list shows them", pattern)
	}
	return chosen, nil
}
