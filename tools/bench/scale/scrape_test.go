package main

import (
	"maps"
	"strings"
	"testing"
)

const jsz = `{
  "server_id": "N", "streams": 3, "messages": 12,
  "account_details": [
    {"name": "QUIRE", "stream_detail": [
      {"name": "BILLING_0", "state": {"messages": 5, "bytes": 500, "first_seq": 1, "last_seq": 5}},
      {"name": "BILLING_1", "state": {"messages": 7, "bytes": 700}},
      {"name": "KV_QUIRE_MEMBERS", "state": {"messages": 1, "bytes": 10}}]},
    {"name": "SYS"}]
}`

func TestStreamsOfAllAccountsAreRead(t *testing.T) {
	got, err := parseStreams([]byte(jsz))
	want := map[string]stored{"BILLING_0": {5, 500}, "BILLING_1": {7, 700}, "KV_QUIRE_MEMBERS": {1, 10}}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if got, err := parseStreams([]byte("<html>")); err == nil {
		t.Errorf("%v", got)
	}
}

func TestAReplicaThatIsBehindDoesNotCount(t *testing.T) {
	got := byDomain(furthest(
		map[string]stored{"BILLING_0": {5, 500}, "BILLING_1": {6, 600}, "LITE_0": {1, 1000}},
		map[string]stored{"BILLING_0": {4, 400}, "BILLING_1": {7, 700}},
		map[string]stored{},
	))
	if want := (map[string]stored{"billing": {12, 1200}, "lite": {1, 1000}}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

const edgeMetrics = `# HELP quire_bus_batch_items Items of a batch.
# TYPE quire_bus_batch_items histogram
quire_bus_batch_items_bucket{kind="usage",le="1"} 3
quire_bus_batch_items_bucket{kind="usage",le="+Inf"} 10
quire_bus_batch_items_sum{kind="usage"} 640
quire_bus_batch_items_count{kind="usage"} 10
quire_bus_batch_items_bucket{kind="lite",le="+Inf"} 0
quire_bus_batch_items_sum{kind="lite"} 0
quire_bus_batch_items_count{kind="lite"} 0
# TYPE quire_bus_batches_total counter
quire_bus_batches_total{kind="usage"} 10
`

func TestBatchesAreReadByKind(t *testing.T) {
	got, err := parseBatches(strings.NewReader(edgeMetrics))
	want := map[string]batches{"usage": {10, 640}, "lite": {}}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if n := perBatch(batches{4, 40}, got["usage"]); n != 100 {
		t.Errorf("600 more items in 6 more batches: %v in each", n)
	}
	if n := perBatch(got["lite"], got["lite"]); n != 0 {
		t.Errorf("no batches: %v", n)
	}
	if got, err := parseBatches(strings.NewReader("quire_bus_batch_items_sum{kind=")); err == nil {
		t.Errorf("%v", got)
	}
}
