package main

import (
	"maps"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quire.dev/bench/internal/wrk"
	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
)

var begin = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// at is a sample of so many seconds after the beginning, with the CPU time in seconds.
func at(after, edge, mongo, machine float64, billing stored, usage batches) sample {
	return sample{
		at: begin.Add(seconds(after)), cpu: map[string]time.Duration{"edge": seconds(edge), "mongo": seconds(mongo)},
		machine: seconds(machine), stored: map[string]stored{"billing": billing}, batches: map[string]batches{"usage": usage},
	}
}

func turned(t *testing.T) *work {
	t.Helper()
	rest := idleOf(at(0, 10, 20, 0, stored{}, batches{}), at(2, 10, 20.2, 0, stored{}, batches{}))
	if rest["edge"] != 0 || rest["mongo"] != seconds(0.1) {
		t.Fatalf("idle %v, want mongo at a tenth of a core", rest)
	}
	w := &work{}
	w.add(wrk.Result{Requests: 1000, Micros: 2e6, P50: 3000, P99: 9000, CPU: seconds(0.5)},
		at(10, 11, 21, 100, stored{1, 100}, batches{1, 10}),
		at(12, 12, 21.5, 104, stored{8, 900}, batches{5, 70}),
		at(22, 12, 24.5, 120, stored{9, 1100}, batches{11, 90}), rest)
	w.add(wrk.Result{Requests: 3000, Micros: 2e6, P50: 5000, P99: 8000, CPU: seconds(0.5)},
		at(30, 20, 30, 200, stored{10, 2000}, batches{20, 100}),
		at(32, 21, 30.5, 203.6, stored{20, 4000}, batches{30, 200}),
		at(32, 21, 30.5, 203.6, stored{20, 4000}, batches{30, 200}), rest)
	return w
}

func TestWorkIsWhatRequestsCostWithoutWhatIdlingCosts(t *testing.T) {
	w := turned(t)
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"requests a second, the mean of two turns", w.rate(), 1000},
		{"p50, ms", w.latency(p50), 4},
		{"p99, ms", w.latency(p99), 8.5},
		{"edge: 1 s + 1 s over 4000 requests, µs", w.micros("edge"), 500},
		{"mongo: 0.5 s + 3 s after wrk less 10 s of idling at 0.1 + 0.5 s", w.micros("mongo"), 750},
		{"wrk", w.micros("wrk"), 250},
		{"all but wrk", w.microsOfAll(), 1250},
		{"cores: (1+0.5+0.5) + (1+0.5+0.5) s in 4 s", w.cores(), 1},
		{"cores of the machine: 7.6 s in 4 s", w.machine.Seconds() / w.elapsed.Seconds(), 1.9},
		{"journal: 1000 + 2000 bytes over 4000 requests", w.bytes("billing"), 0.75},
		{"items of a batch in the last turn", w.batches["usage"], 10},
		{"waited for the read model, s", w.drained.Seconds(), 10},
	} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
}

func TestARequestWithoutASuccessMayHaveBeenCountedOrNot(t *testing.T) {
	got := tally{100, 10}.with(wrk.Result{Requests: 50, Status: 4, Timeout: 2}, 256)
	if want := (tally{146, 10 + 256 + 6}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestATableHasAColumnForEachSystemAndNoEmptyRows(t *testing.T) {
	one, four := &measurement{name: "one process"}, &measurement{name: "4 partitions", sync: seconds(0.0012)}
	for _, m := range []*measurement{one, four} {
		m.reads, m.few, m.creates = *turned(t), *turned(t), *turned(t)
		m.audit = auditResult{replicas: 1, entries: 1000, cpu: seconds(0.5)}
	}
	four.audit = auditResult{replicas: 2, entries: 1000, cpu: seconds(0.5)}
	four.starts = &starts{fromJournal: seconds(1.5), snapshots: []snapshotSize{{64, 10_000}, {1064, 260_000}}}
	got := table([]*measurement{one, four})
	lines := strings.Split(strings.TrimSpace(got), "\n")
	for _, want := range []string{
		"||one process|4 partitions|",
		"|reads a second|1000|1000|",
		"|reads: share of one process's||1.00|",
		"|CPU µs a read: edge|500|500|",
		"|entries folded in a second of CPU|2000|4000|",
		"|billing ready after kill -9, from the journal, s||1.50|",
		"|bytes for each account more (two quota keys used)||250|",
	} {
		found := false
		for _, line := range lines {
			cells := strings.Split(line, "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			found = found || strings.Join(cells, "|") == want
		}
		if !found {
			t.Errorf("no row %q", want)
		}
	}
	for _, line := range lines {
		if len([]rune(line)) != len([]rune(lines[0])) || strings.Count(line, "|") != 4 {
			t.Errorf("row %q is not laid out like the first", line)
		}
		if strings.Contains(line, "lite") && strings.Contains(line, "CPU") {
			t.Errorf("row %q is empty", line)
		}
	}
	if said := verdict([]*measurement{one}, 2); strings.Count(said, "95 % of 2 cores busy, so that") != 2 {
		t.Errorf("1.9 of 2 cores: %s", said)
	}
	if said := verdict([]*measurement{one}, 8); strings.Contains(said, "so that") {
		t.Errorf("1.9 of 8 cores: %s", said)
	}
}

func TestTheReportForProgramsIsWritten(t *testing.T) {
	m := &measurement{name: "1 partition", partitions: 1, reads: *turned(t), few: *turned(t), creates: *turned(t), starts: &starts{}}
	path := filepath.Join(t.TempDir(), "bin", "scale.json")
	if err := writeJSON(path, []*measurement{m}, 2); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"name": "1 partition"`, `"perSecond": 1000`, `"edge": 500`, `"cores": 2`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("no %s in %s", want, data)
		}
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

func TestAnAccountHasTheSizeInASnapshotThatScalingReckonsWith(t *testing.T) {
	if full := fullAccountBytes(); full < 600 || full > 2000 {
		t.Errorf("%d bytes: has the state of an account changed? docs/scaling.md reckons with it", full)
	}
	small, err := event.Encode(&event.BillingState{Accounts: []*event.AccountState{{Account: 1}}})
	if err != nil || len(small) >= fullAccountBytes() {
		t.Errorf("an empty account takes %d bytes, %v", len(small), err)
	}
}

func TestAClusterIsReachedByItsEdgesAndBucket(t *testing.T) {
	s := &system{edges: []string{"http://127.0.0.1:81", "http://127.0.0.1:82"}}
	if got, err := s.addresses(); err != nil || got != "127.0.0.1:81 127.0.0.1:82" {
		t.Errorf("%q, %v", got, err)
	}
	for partitions, want := range map[int]string{1: "0", 4: "0-3"} {
		if got := partitionRange(partitions); got != want {
			t.Errorf("%d partitions: %q, want %q", partitions, got, want)
		}
	}
	got, err := bucketURL([]byte(`{"ports": {}, "secrets": {"minio": "s3cret"}}`), "http://127.0.0.1:9000")
	if err != nil || got != "http://quire:s3cret@127.0.0.1:9000/quire" {
		t.Errorf("%q, %v", got, err)
	}
	if u, err := url.Parse(got); err != nil || u.Path != "/quire" {
		t.Errorf("%v, %v", u, err)
	}
}
