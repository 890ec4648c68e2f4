package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"quire.dev/tools/bench/internal/report"
)

// measureClusters has the command scale measure clusters of 1 and 4 partitions. It checks the counters and audits the
// journals itself.
func (b *bench) measureClusters(ctx context.Context) error {
	results := filepath.Join(b.folder, "scale")
	cmd := exec.CommandContext(ctx, "go", "run", "./tools/bench/scale", "-quire", b.quire, "-dir", b.folder, "-results", results,
		"-partitions", "1,4", "-more", "0", "-turns", fmt.Sprint(b.rounds))
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.root, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("measure clusters (`make scale` shows more): %w", err)
	}
	found, err := report.Read(results)
	if err != nil {
		return err
	}
	costs, err := clusterCosts(found.Systems)
	if err != nil {
		return err
	}
	for id, figure := range costs {
		b.note(id, []float64{figure}, fmt.Sprintf("all %d turns together", b.rounds))
	}
	return nil
}

// clusterCosts finds the CPU time of a request at 1 partition, and the factor by which it grows at 4.
func clusterCosts(systems report.Table) (map[string]float64, error) {
	costs := map[string]float64{}
	for _, kind := range kinds() {
		one, four := systems.Figure("cpu-"+kind, "1 partition"), systems.Figure("cpu-"+kind, "4 partitions")
		if one == 0 || four == 0 {
			return nil, fmt.Errorf("report of clusters: no CPU time of a %s at 1 and 4 partitions", kind)
		}
		costs["cluster-"+kind+"-1"], costs["cluster-"+kind+"-4"] = one, four/one
	}
	return costs, nil
}
