package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// stored is what a stream, or all of a domain, holds in one replica.
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

// furthest puts replicas together: of each stream the one that is furthest.
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

// batches are how many left an edge, and what was in them.
type batches struct {
	count uint64
	items float64
}

// parseBatches finds the group commits by kind of journal ("usage", "lite") in an edge's metrics.
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

// perBatch is the mean size of the batches between two looks at all edges.
func perBatch(before, after batches) float64 {
	if after.count == before.count {
		return 0
	}
	return (after.items - before.items) / float64(after.count-before.count)
}

const scrapeTimeout = 10 * time.Second

func get(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	return data, err
}
