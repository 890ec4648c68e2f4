// Package wrk runs the load generator wrk with the scripts in this folder, and evaluates its counts.
package wrk

import (
	"cmp"
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

	"quire.dev/pkg/num"
)

//go:embed *.lua
var scripts embed.FS

// Result has the counts of one run of wrk. Latencies are microseconds.
type Result struct {
	Requests uint64 `json:"requests"`
	Micros   uint64 `json:"micros"`
	P50      uint64 `json:"p50"`
	P99      uint64 `json:"p99"`
	Connect  uint64 `json:"connect"`
	Read     uint64 `json:"read"`
	Write    uint64 `json:"write"`
	Status   uint64 `json:"status"` // answers other than 2xx
	Timeout  uint64 `json:"timeout"`

	CPU time.Duration `json:"-"` // that wrk used
}

// Rate is requests a second.
func (r Result) Rate() float64 { return float64(r.Requests) / (float64(r.Micros) / 1e6) }

// Errors counts the requests without an answer, and the answers other than 2xx.
func (r Result) Errors() uint64 { return r.Connect + r.Read + r.Write + r.Status + r.Timeout }

var resultLine = regexp.MustCompile(`(?m)^RESULT (\{.*\})$`)

// Generator runs wrk. The scripts are in Folder, see [Folder].
type Generator struct {
	Folder      string
	Connections int
	Threads     int           // 0: two, which keeps wrk itself from being the limit
	Duration    time.Duration // of one run, in whole seconds
}

// Load is the script that wrk runs, with its URL and its settings.
type Load struct {
	Script, URL string
	Environ     []string // "BENCH_…=…"
}

// Run sends requests to a server for g.Duration. It is an error if no request was completed.
func (g Generator) Run(ctx context.Context, load Load) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, g.Duration+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "wrk", "-t"+strconv.Itoa(cmp.Or(g.Threads, 2)), "-c"+strconv.Itoa(g.Connections), "-d"+strconv.Itoa(int(g.Duration.Seconds()))+"s",
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
		return Result{}, fmt.Errorf("read the result that wrk printed: %w", err)
	}
	if r.Requests == 0 {
		return Result{}, errors.New("wrk completed no request")
	}
	return r, nil
}

// Folder creates a folder in dir for the data of a run, and unpacks the scripts there. It returns the folder's absolute path,
// also with an error if the folder is there.
func Folder(dir, prefix string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp(dir, prefix)
	if err != nil {
		return "", err
	}
	return folder, os.CopyFS(folder, scripts)
}

// Tally bounds the requests that a server may have counted in several runs.
type Tally struct{ Succeeded, Uncertain uint64 }

// With adds a run. An uncertain request is one that was answered with an error, or that was still open when the run ended:
// at most one for each connection.
func (t Tally) With(r Result, connections int) Tally {
	return Tally{t.Succeeded + r.Requests - min(r.Status, r.Requests), t.Uncertain + num.Uint64(connections) + r.Errors()}
}

// Plus adds another tally.
func (t Tally) Plus(o Tally) Tally {
	return Tally{t.Succeeded + o.Succeeded, t.Uncertain + o.Uncertain}
}

// Most is the largest count that is right.
func (t Tally) Most() uint64 { return t.Succeeded + t.Uncertain }

// Check is an error unless counted, the server's count of the quota key, is one that is right.
func (t Tally) Check(quotaKey string, counted uint64) error {
	if counted < t.Succeeded || counted > t.Most() {
		return fmt.Errorf("%s: %d counted, want %d to %d", quotaKey, counted, t.Succeeded, t.Most())
	}
	return nil
}
