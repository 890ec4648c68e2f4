// Package wrk runs the load generator wrk, with the scripts beside it, and reads what it counted.
package wrk

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
	"strconv"
	"time"
)

//go:embed *.lua
var scripts embed.FS

// Result is what one run of wrk counted. Latencies are microseconds.
type Result struct {
	Requests uint64 `json:"requests"`
	Micros   uint64 `json:"micros"`
	P50      uint64 `json:"p50"`
	P99      uint64 `json:"p99"`
	Connect  uint64 `json:"connect"`
	Read     uint64 `json:"read"`
	Write    uint64 `json:"write"`
	Status   uint64 `json:"status"` // answers that were no success
	Timeout  uint64 `json:"timeout"`

	CPU time.Duration `json:"-"` // of wrk itself
}

// Rate is requests a second.
func (r Result) Rate() float64 { return float64(r.Requests) / (float64(r.Micros) / 1e6) }

// Errors are requests without an answer, and answers that were no success.
func (r Result) Errors() uint64 { return r.Connect + r.Read + r.Write + r.Status + r.Timeout }

var resultLine = regexp.MustCompile(`(?m)^RESULT (\{.*\})$`)

// Generator runs wrk with two threads. The scripts are in Folder, see Unpack.
type Generator struct {
	Folder      string
	Connections int
	Duration    time.Duration // of one run, in whole seconds
}

// Load is what wrk sends: URL, to a script that reads its settings from the environment.
type Load struct {
	Script, URL string
	Environ     []string // "BENCH_…=…"
}

// Run drives a server for a while. It is an error when no request was completed.
func (g Generator) Run(ctx context.Context, load Load) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, g.Duration+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "wrk", "-t2", "-c"+strconv.Itoa(g.Connections), "-d"+strconv.Itoa(int(g.Duration.Seconds()))+"s",
		"--timeout", "30s", "-s", filepath.Join(g.Folder, load.Script), load.URL)
	cmd.Env = append(append(os.Environ(), "BENCH_LUA="+g.Folder), load.Environ...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return Result{}, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	r, err := parse(out)
	r.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return r, err
}

func parse(out []byte) (Result, error) {
	m := resultLine.FindSubmatch(out)
	if m == nil {
		return Result{}, fmt.Errorf("wrk printed no result:\n%s", out)
	}
	var r Result
	if err := json.Unmarshal(m[1], &r); err != nil {
		return Result{}, fmt.Errorf("read what wrk printed: %w", err)
	}
	if r.Requests == 0 {
		return Result{}, errors.New("wrk completed no request")
	}
	return r, nil
}

// Unpack writes the scripts into the folder.
func Unpack(folder string) error { return os.CopyFS(folder, scripts) }
