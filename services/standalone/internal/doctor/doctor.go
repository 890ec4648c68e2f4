// Package doctor examines what an installation runs on, before its first start and at any time. It changes nothing.
package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"quire.dev/pkg/host"
)

// Result is what a check has found.
type Result string

// Results. Warn is a risk, Fail stops Quire or loses data.
const (
	OK   Result = "ok"
	Warn Result = "warn"
	Fail Result = "fail"
)

// Finding is the result of one check.
type Finding struct {
	Check  string `json:"check"`
	Result Result `json:"result"`
	Detail string `json:"detail"`
	Advice string `json:"advice,omitempty"` // what to do about it
}

// Config says what to examine.
type Config struct {
	Settings host.Settings
	// NATSMonitors are the base URLs of the NATS servers' monitoring, such as http://nats-0.nats:8222. Clients can't ask for what
	// only these know.
	NATSMonitors []string
	Now          func() time.Time // nil: time.Now
}

// wait bounds each examination.
const wait = 15 * time.Second

// Examine runs all checks that the settings have a use for.
func Examine(ctx context.Context, cfg Config) []Finding {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	examinations := []func(context.Context, Config) []Finding{folder, journals, monitors, readModels, bucket, website}
	found := make([][]Finding, len(examinations))
	var all sync.WaitGroup
	for n, examine := range examinations {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, wait)
			defer cancel()
			found[n] = examine(ctx, cfg)
		})
	}
	all.Wait()
	var findings []Finding
	for _, part := range found {
		findings = append(findings, part...)
	}
	return findings
}

// Failed reports whether a finding is Fail.
func Failed(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Result == Fail })
}

// Print writes the findings for people.
func Print(w io.Writer, findings []Finding) error {
	for _, f := range findings {
		if _, err := fmt.Fprintf(w, "%-5s %s: %s\n", f.Result, f.Check, f.Detail); err != nil {
			return err
		}
		if f.Advice != "" {
			if _, err := fmt.Fprintf(w, "      %s\n", f.Advice); err != nil {
				return err
			}
		}
	}
	return nil
}

// PrintJSON writes the findings as {"findings": [...]}.
func PrintJSON(w io.Writer, findings []Finding) error {
	return json.NewEncoder(w).Encode(struct {
		Findings []Finding `json:"findings"`
	}{findings})
}

func ok(check, format string, args ...any) Finding {
	return Finding{Check: check, Result: OK, Detail: fmt.Sprintf(format, args...)}
}

// Clocks may differ by maxSkew before it shows, and by cutSkew before billing corrects the time of an edge.
const (
	maxSkew = time.Second
	cutSkew = 5 * time.Second
)

// clock compares a server's time, asked since begun and just answered, with the one here.
func clock(cfg Config, check string, server, begun time.Time) Finding {
	offset := time.Until(cfg.Now()) // of the clock here, which only tests move
	begun, ended := begun.Add(offset), time.Now().Add(offset)
	skew := max(begun.Sub(server), server.Sub(ended), 0)
	f := ok(check, "differs from the clock here by less than %s", max(maxSkew, ended.Sub(begun)))
	if skew <= maxSkew {
		return f
	}
	f = Finding{Check: check, Result: Warn, Detail: fmt.Sprintf("differs from the clock here by %s", skew.Round(time.Millisecond)), Advice: "Synchronise the clocks of all hosts, by chrony for example."}
	if skew > cutSkew {
		f.Result = Fail
	}
	return f
}

// Certificates are replaced before warnDays, and don't last the week after failDays.
const (
	warnDays = 30
	failDays = 7
)

func certificate(check string, end, now time.Time) Finding {
	days := int(end.Sub(now).Hours() / 24)
	f := ok(check, "ends on %s, in %d days", end.UTC().Format(time.DateOnly), days)
	if days >= warnDays {
		return f
	}
	f.Result, f.Advice = Warn, "Renew the certificate, and find out why it was not renewed."
	if days < failDays {
		f.Result = Fail
	}
	return f
}

// Volumes have the thresholds of the alerts QuireVolumeFilling and QuireVolumeFills.
const (
	warnFull = 0.60
	failFull = 0.75
)

func room(check string, used, size uint64, advice string) Finding {
	share := float64(used) / float64(max(size, 1))
	f := ok(check, "%.0f %% full", 100*share)
	switch {
	case share >= failFull:
		f.Result, f.Advice = Fail, advice
	case share >= warnFull:
		f.Result, f.Advice = Warn, advice
	}
	return f
}

// failed is the finding of an examination that could not be made.
func failed(check string, err error, advice string) Finding {
	return Finding{Check: check, Result: Fail, Detail: err.Error(), Advice: cmp.Or(advice, "See docs/operations.md.")}
}
