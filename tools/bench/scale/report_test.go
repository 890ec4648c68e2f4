package main

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/tools/bench/internal/wrk"
)

var begin = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// at is a sample so many seconds after the beginning.
func at(after, edge, mongo, machine float64, billing stored, usage batches) sample {
	return sample{
		at: begin.Add(seconds(after)), cpu: map[string]float64{"edge": edge, "mongo": mongo},
		machine: machine, stored: map[string]stored{"billing": billing}, batches: map[string]batches{"usage": usage},
	}
}

func turned(t *testing.T) figures {
	t.Helper()
	idle := idleOf(at(0, 10, 20, 0, stored{}, batches{}), at(2, 10, 20.2, 0, stored{}, batches{}))
	if idle["edge"] != 0 || math.Abs(idle["mongo"]-0.1) > 1e-9 {
		t.Fatalf("idle %v, want mongo at a tenth of a core", idle)
	}
	w := &work{}
	w.add(wrk.Result{Requests: 1000, Micros: 2e6, P50: 3000, P99: 9000, CPU: seconds(0.5)},
		at(10, 11, 21, 100, stored{1, 100}, batches{1, 10}),
		at(12, 12, 21.5, 104, stored{8, 900}, batches{5, 70}),
		at(22, 12, 24.5, 120, stored{9, 1100}, batches{11, 90}), idle)
	w.add(wrk.Result{Requests: 3000, Micros: 2e6, P50: 5000, P99: 8000, CPU: seconds(0.5)},
		at(30, 20, 30, 200, stored{10, 2000}, batches{20, 100}),
		at(32, 21, 30.5, 203.6, stored{20, 4000}, batches{30, 200}),
		at(32, 21, 30.5, 203.6, stored{20, 4000}, batches{30, 200}), idle)
	return w.figures()
}

func TestWorkIsWhatRequestsCostWithoutWhatIdlingCosts(t *testing.T) {
	f := turned(t)
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"requests a second, the mean of two turns", f.PerSecond, 1000},
		{"p50, ms", f.P50Millis, 4},
		{"p99, ms", f.P99Millis, 8.5},
		{"edge: 1 s + 1 s over 4000 requests, µs", f.CPUMicrosEach["edge"], 500},
		{"mongo: 0.5 s + 3 s after wrk less 10 s of idling at 0.1 + 0.5 s", f.CPUMicrosEach["mongo"], 750},
		{"wrk", f.CPUMicrosEach["wrk"], 250},
		{"all but wrk", f.CPUMicrosTotal, 1250},
		{"cores: (1+0.5+0.5) + (1+0.5+0.5) s in 4 s", f.Cores, 1},
		{"cores of the machine: 7.6 s in 4 s", f.MachineCores, 1.9},
		{"journal: 1000 + 2000 bytes over 4000 requests", f.JournalBytesEach["billing"], 0.75},
		{"items of a batch in the last turn", f.ItemsInEachBatch["usage"], 10},
		{"waited for the read model, s", f.DrainSeconds, 10},
	} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
}

func TestTheTableHasAFigureOfEachSystem(t *testing.T) {
	one, four := &measurement{Name: "one process"}, &measurement{Name: "4 partitions", FsyncSeconds: 0.0012}
	for _, m := range []*measurement{one, four} {
		m.Reads, m.Few, m.Creates = turned(t), turned(t), turned(t)
		m.Audit = auditResult{Replicas: 1, Entries: 1000, CPUSeconds: 0.5}
	}
	four.Audit = auditResult{Replicas: 2, Entries: 1000, CPUSeconds: 0.5}
	four.Starts = &starts{FromJournalSeconds: 1.5, Snapshots: []snapshotSize{{64, 10_000}, {1064, 260_000}}}
	got := table([]*measurement{one, four})
	if !slices.Equal(got.Columns, []string{"one process", "4 partitions"}) {
		t.Errorf("columns %q", got.Columns)
	}
	found := map[string][]float64{}
	for _, line := range got.Lines {
		found[line.Title] = line.Figures
	}
	for title, want := range map[string][]float64{
		"reads a second":                                    {1000, 1000},
		"reads: share of one process's":                     {0, 1},
		"CPU µs a read: edge":                               {500, 500},
		"CPU µs a read: lite":                               nil,
		"entries folded in a second of CPU":                 {2000, 4000},
		"billing ready after kill -9, from the journal, s":  {0, 1.5},
		"bytes for each account more (two quota keys used)": {0, 250},
	} {
		if !slices.Equal(found[title], want) {
			t.Errorf("%s: %v, want %v", title, found[title], want)
		}
	}
	if cost := got.Figure("cpu-get", "4 partitions"); math.Abs(cost-500) > 1e-9 {
		t.Errorf("a get costs %v µs without wrk and FerretDB, want those of the edge", cost)
	}
	if said := strings.Join(busy([]*measurement{one}, 2), ""); strings.Count(said, "95 % of 2 cores busy, so that") != 2 {
		t.Errorf("1.9 of 2 cores: %s", said)
	}
	if said := strings.Join(busy([]*measurement{one}, 8), ""); strings.Contains(said, "so that") {
		t.Errorf("1.9 of 8 cores: %s", said)
	}
}

func TestTheNewestSnapshotOfEachPartitionCounts(t *testing.T) {
	got := newestByStream([]blob.Info{
		{Key: "billing/BILLING_0/00000000000000000009-1-aa", Size: 9},
		{Key: "billing/BILLING_0/00000000000000000120-1-bb", Size: 120},
		{Key: "billing/BILLING_0/00000000000000000030-1-cc", Size: 30},
		{Key: "billing/BILLING_10/00000000000000000007-1-dd", Size: 7},
		{Key: "billing/else", Size: 1},
	})
	sizes := map[string]int64{}
	for stream, info := range got {
		sizes[stream] = info.Size
	}
	if want := (map[string]int64{"BILLING_0": 120, "BILLING_10": 7}); !maps.Equal(sizes, want) {
		t.Errorf("%v, want %v", sizes, want)
	}
}

func TestRequestsMeetAllAccountsAndAllDocuments(t *testing.T) {
	var customers []customer
	for _, key := range []string{"a", "b", "c"} {
		customers = append(customers, customer{key: key})
	}
	paths := []string{"/1", "/2", "/3", "/4", "/5", "/6"}
	seen := map[string]int{}
	lines := strings.Split(strings.TrimSpace(requestList(customers, paths)), "\n")
	for _, line := range lines {
		key, path, _ := strings.Cut(line, " ")
		seen[key]++
		seen[path]++
	}
	if len(lines) != 6 || len(seen) != 9 {
		t.Errorf("%d requests: %v", len(lines), seen)
	}
	if list := requestList(customers, []string{createPath}); strings.Count(list, createPath) != 3 {
		t.Errorf("%q", list)
	}
}

func TestAnAccountHasTheSizeInASnapshotThatScalingAssumes(t *testing.T) {
	if full := fullAccountBytes(); full < 600 || full > 2000 {
		t.Errorf("%d bytes: has the state of an account changed? docs/scaling.md assumes it", full)
	}
	small, err := event.Encode(&event.BillingState{Accounts: []*event.AccountState{{Account: 1}}})
	if err != nil || len(small) >= fullAccountBytes() {
		t.Errorf("an empty account takes %d bytes, %v", len(small), err)
	}
}

func TestAClusterIsReachedThroughItsEdges(t *testing.T) {
	s := &system{edges: []string{"http://127.0.0.1:81", "http://127.0.0.1:82"}}
	if got := s.addresses(); got != "127.0.0.1:81 127.0.0.1:82" {
		t.Errorf("%q", got)
	}
	for partitions, want := range map[int]string{1: "0", 4: "0-3"} {
		if got := partitionRange(partitions); got != want {
			t.Errorf("%d partitions: %q, want %q", partitions, got, want)
		}
	}
}
