package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

//go:embed *.lua
var scripts embed.FS

// result is what one run of wrk counted. Latencies are microseconds.
type result struct {
	Requests uint64 `json:"requests"`
	Micros   uint64 `json:"micros"`
	P50      uint64 `json:"p50"`
	P99      uint64 `json:"p99"`
	Connect  uint64 `json:"connect"`
	Read     uint64 `json:"read"`
	Write    uint64 `json:"write"`
	Status   uint64 `json:"status"` // answers that were no success
	Timeout  uint64 `json:"timeout"`
}

func (r result) rate() float64 { return float64(r.Requests) / (float64(r.Micros) / 1e6) }

func (r result) errors() uint64 { return r.Connect + r.Read + r.Write + r.Status + r.Timeout }

var resultLine = regexp.MustCompile(`(?m)^RESULT (\{.*\})$`)

// load is what wrk sends.
type load struct {
	script, path string
	key, body    string
}

// wrk drives one server for a while.
func (b *bench) wrk(ctx context.Context, base string, l load) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, b.duration+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "wrk", "-t2", "-c"+strconv.Itoa(b.connections), "-d"+strconv.Itoa(int(b.duration.Seconds()))+"s",
		"--timeout", "30s", "-s", filepath.Join(b.folder, l.script), base+l.path)
	cmd.Env = append(os.Environ(), "BENCH_KEY="+l.key, "BENCH_BODY="+l.body, "BENCH_LUA="+b.folder)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return result{}, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	m := resultLine.FindSubmatch(out)
	if m == nil {
		return result{}, fmt.Errorf("wrk printed no result:\n%s", out)
	}
	var r result
	if err := json.Unmarshal(m[1], &r); err != nil {
		return result{}, fmt.Errorf("read what wrk printed: %w", err)
	}
	if r.Requests == 0 {
		return result{}, errors.New("wrk completed no request")
	}
	return r, nil
}

// unpack writes the scripts into the folder.
func unpack(folder string) error {
	return os.CopyFS(folder, scripts)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}
