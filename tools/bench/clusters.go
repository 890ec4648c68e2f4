package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// measureClusters has bench/scale measure clusters of 1 and 4 partitions. That command checks the counters and audits the
// journals itself.
func (b *bench) measureClusters(ctx context.Context) error {
	out := filepath.Join(b.folder, "scale.json")
	cmd := exec.CommandContext(ctx, "go", "run", "./tools/bench/scale", "-quire", b.quire, "-dir", b.folder, "-json", out,
		"-partitions", "1,4", "-more", "0", "-turns", fmt.Sprint(b.rounds))
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.root, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("measure clusters (`make scale` shows more): %w", err)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	costs, err := clusterCosts(data)
	if err != nil {
		return err
	}
	for id, micros := range costs {
		b.note(id, []float64{micros}, fmt.Sprintf("all %d turns together", b.rounds))
	}
	return nil
}

// clusterCosts finds the CPU time of a request in the report of bench/scale. That of wrk, and that of the server in MongoDB's
// place, is not part of it.
func clusterCosts(report []byte) (map[string]float64, error) {
	type work struct {
		CPUMicrosEach map[string]float64 `json:"cpuMicrosEach"`
	}
	var found struct {
		Systems []struct {
			Partitions int             `json:"partitions"`
			Starts     json.RawMessage `json:"starts"` // clusters only
			Reads      work            `json:"reads"`
			Creates    work            `json:"creates"`
		} `json:"systems"`
	}
	if err := json.Unmarshal(report, &found); err != nil {
		return nil, fmt.Errorf("report of bench/scale: %w", err)
	}
	costs := map[string]float64{}
	for _, s := range found.Systems {
		if s.Starts == nil {
			continue
		}
		for kind, w := range map[string]work{"get": s.Reads, "create": s.Creates} {
			id := fmt.Sprintf("cluster-%s-%d", kind, s.Partitions)
			for service, micros := range w.CPUMicrosEach {
				if service != "wrk" && service != "mongo" {
					costs[id] += micros
				}
			}
		}
	}
	for _, kind := range kinds() {
		one, four := costs["cluster-"+kind+"-1"], costs["cluster-"+kind+"-4"]
		if one == 0 || four == 0 {
			return nil, fmt.Errorf("report of bench/scale: no CPU time of a %s at 1 and 4 partitions", kind)
		}
		costs["cluster-"+kind+"-4"] = four / one
	}
	return costs, nil
}
