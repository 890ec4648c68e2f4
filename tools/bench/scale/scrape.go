package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// stored is the content of a stream, or of all streams of a domain, in one replica.
type stored struct{ messages, bytes uint64 }

func (s stored) minus(o stored) stored { return stored{s.messages - o.messages, s.bytes - o.bytes} }

// parseStreams finds the streams in the answer of a NATS server to /jsz?accounts=true&streams=true.
func parseStreams(data []byte) (map[string]stored, error) {
	var answer struct {
		Accounts []struct {
			Streams []struct {
				Name  string `json:"name"`
				State struct {
					Messages uint64 `json:"messages"`
					Bytes    uint64 `json:"bytes"`
				} `json:"state"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("streams of a NATS server: %w", err)
	}
	streams := map[string]stored{}
	for _, account := range answer.Accounts {
		for _, s := range account.Streams {
			streams[s.Name] = stored{s.State.Messages, s.State.Bytes}
		}
	}
	return streams, nil
}

// furthest takes each stream from the replica that has most of its messages.
func furthest(replicas ...map[string]stored) map[string]stored {
	all := map[string]stored{}
	for _, streams := range replicas {
		for name, s := range streams {
			if s.messages >= all[name].messages {
				all[name] = s
			}
		}
	}
	return all
}

// byDomain adds up the partitions: "BILLING_0" and "BILLING_1" are "billing".
func byDomain(streams map[string]stored) map[string]stored {
	domains := map[string]stored{}
	for name, s := range streams {
		domain, _, _ := strings.Cut(strings.ToLower(name), "_")
		sum := domains[domain]
		domains[domain] = stored{sum.messages + s.messages, sum.bytes + s.bytes}
	}
	return domains
}

// batches counts batches that edges have sent, and the items in them.
type batches struct {
	count uint64
	items float64
}

// parseBatches finds the batches by kind of journal ("usage", "lite") in the metrics of an edge.
func parseBatches(metrics io.Reader) (map[string]batches, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(metrics)
	if err != nil {
		return nil, fmt.Errorf("metrics of an edge: %w", err)
	}
	found := map[string]batches{}
	for _, m := range families["quire_bus_batch_items"].GetMetric() {
		for _, label := range m.GetLabel() {
			if label.GetName() == "kind" {
				found[label.GetValue()] = batches{m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum()}
			}
		}
	}
	return found, nil
}

// perBatch is the mean number of items in the batches that were sent between two samples.
func perBatch(before, after batches) float64 {
	if after.count == before.count {
		return 0
	}
	return (after.items - before.items) / float64(after.count-before.count)
}
