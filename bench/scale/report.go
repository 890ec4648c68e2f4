package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// row is a line of the report: a value for each system, empty where there is none.
type row struct {
	title string
	cells []string
}

// markdown lays rows out as a table.
func markdown(head []string, rows []row) string {
	widths := []int{0}
	for _, r := range rows {
		widths[0] = max(widths[0], len(r.title))
	}
	for i, h := range head {
		w := len(h)
		for _, r := range rows {
			w = max(w, len(r.cells[i]))
		}
		widths = append(widths, w)
	}
	var out strings.Builder
	line := func(title string, cells []string) {
		fmt.Fprintf(&out, "| %-*s |", widths[0], title)
		for i, c := range cells {
			fmt.Fprintf(&out, " %*s |", widths[i+1], c)
		}
		out.WriteByte('\n')
	}
	line("", head)
	out.WriteString("|" + strings.Repeat("-", widths[0]+2) + "|")
	for _, w := range widths[1:] {
		out.WriteString(strings.Repeat("-", w+1) + ":|")
	}
	out.WriteByte('\n')
	for _, r := range rows {
		line(r.title, r.cells)
	}
	return out.String()
}

// services in the order in which a request meets them.
func services() []string {
	return []string{"quire", "edge", "billing", "lite", bystanders, "nats", "mongo", "minio", "wrk"}
}

// called are their names for readers.
func called(service string) string {
	switch service {
	case "quire":
		return "the one process"
	case "nats":
		return "NATS, three servers"
	case "mongo":
		return "FerretDB in MongoDB's place"
	case "minio":
		return "MinIO"
	}
	return service
}

// table is the report of all systems.
func table(all []*measurement) string {
	var head []string
	for _, m := range all {
		head = append(head, m.name)
	}
	var rows []row
	add := func(title string, cell func(m *measurement) string) {
		r := row{title: title}
		for _, m := range all {
			r.cells = append(r.cells, cell(m))
		}
		if slices.ContainsFunc(r.cells, func(c string) bool { return c != "" }) {
			rows = append(rows, r)
		}
	}
	add("4 KiB and fsync on that disk, ms", func(m *measurement) string { return fmt.Sprintf("%.2f", millis(m.sync)) })
	addWork(add, all[0], "reads", "read", func(m *measurement) *work { return &m.reads })
	add(fmt.Sprintf("reads a second by %d connections", fewConnections), func(m *measurement) string { return count(m.few.rate()) })
	addCost(add, fmt.Sprintf("read by %d connections", fewConnections), func(m *measurement) *work { return &m.few })
	addWork(add, all[0], "creations", "creation", func(m *measurement) *work { return &m.creates })
	for _, service := range services() {
		add("memory, MB: "+called(service), func(m *measurement) string { return count(float64(m.resident[service]) / (1 << 20)) })
	}
	add("CPU without requests, ms a second", func(m *measurement) string {
		var sum time.Duration
		for _, used := range m.idle {
			sum += used
		}
		return count(millis(sum))
	})
	add("billing journals at the end: messages", func(m *measurement) string { return count(float64(m.audit.messages)) })
	add("billing journals at the end: entries", func(m *measurement) string { return count(float64(m.audit.entries)) })
	add("audit, s", func(m *measurement) string { return fmt.Sprintf("%.2f", m.audit.took.Seconds()) })
	add("entries folded in a second of CPU", func(m *measurement) string { return count(m.foldSpeed()) })
	addStarts(add)
	for n, c := range journalCases() {
		add(fmt.Sprintf("one stream alone, %d × %d: messages a second", c.sources, c.waiting), func(m *measurement) string {
			if n >= len(m.journal) {
				return ""
			}
			return count(m.journal[n].messages)
		})
	}
	return markdown(head, rows)
}

// addWork adds the rows of one kind of request.
func addWork(add func(string, func(*measurement) string), base *measurement, title, one string, of func(*measurement) *work) {
	add(title+" a second", func(m *measurement) string { return count(of(m).rate()) })
	add(title+": share of one process's", func(m *measurement) string {
		if m == base {
			return ""
		}
		return fmt.Sprintf("%.2f", of(m).rate()/of(base).rate())
	})
	add(title+": p50, ms", func(m *measurement) string { return fmt.Sprintf("%.1f", of(m).latency(p50)) })
	add(title+": p99, ms", func(m *measurement) string { return fmt.Sprintf("%.1f", of(m).latency(p99)) })
	add(title+": cores in use, Quire, stores and wrk", func(m *measurement) string { return fmt.Sprintf("%.2f", of(m).cores()) })
	add(title+": cores in use, whole machine", func(m *measurement) string {
		return fmt.Sprintf("%.2f", of(m).machine.Seconds()/of(m).elapsed.Seconds())
	})
	addCost(add, one, of)
	add(title+": read model done after, s", func(m *measurement) string {
		return decimal(of(m).drained.Seconds() / float64(len(of(m).turns)))
	})
}

// addCost adds the rows of what one request costs.
func addCost(add func(string, func(*measurement) string), one string, of func(*measurement) *work) {
	for _, service := range services() {
		add("CPU µs a "+one+": "+called(service), func(m *measurement) string { return count(of(m).micros(service)) })
	}
	add("CPU µs a "+one+": all but wrk", func(m *measurement) string { return count(of(m).microsOfAll()) })
	add("items in a batch to billing, at a "+one, func(m *measurement) string { return decimal(of(m).batches["usage"]) })
	add("items in a batch to lite, at a "+one, func(m *measurement) string { return decimal(of(m).batches["lite"]) })
	add("billing journal, bytes a "+one, func(m *measurement) string { return count(of(m).bytes("billing")) })
	add("documents' journal, bytes a "+one, func(m *measurement) string { return count(of(m).bytes("lite")) })
}

func addStarts(add func(string, func(*measurement) string)) {
	seconds := func(d func(*starts) time.Duration) func(*measurement) string {
		return func(m *measurement) string {
			if m.starts == nil {
				return ""
			}
			return fmt.Sprintf("%.2f", d(m.starts).Seconds())
		}
	}
	add("billing ready after kill -9, from the journal, s", seconds(func(s *starts) time.Duration { return s.fromJournal }))
	add("billing ready after kill -9, from a snapshot, s", seconds(func(s *starts) time.Duration { return s.fromSnapshot }))
	for n, what := range []string{"", ", with more accounts"} {
		add("snapshots of all partitions"+what+", bytes", func(m *measurement) string {
			if m.starts == nil || n >= len(m.starts.snapshots) {
				return ""
			}
			return count(float64(m.starts.snapshots[n].bytes))
		})
		add("accounts in them"+what, func(m *measurement) string {
			if m.starts == nil || n >= len(m.starts.snapshots) {
				return ""
			}
			return count(float64(m.starts.snapshots[n].accounts))
		})
	}
	add("bytes for each account more (two quota keys used)", func(m *measurement) string { return count(m.starts.bytesPerAccount()) })
}

// foldSpeed is how many entries one core folds a second, the reading of the journal included.
func (m *measurement) foldSpeed() float64 {
	return float64(m.audit.entries) * float64(m.audit.replicas) / m.audit.cpu.Seconds()
}

type percentile int

const (
	p50 percentile = 50
	p99 percentile = 99
)

// rate is the median of the turns'.
func (w *work) rate() float64 {
	var rates []float64
	for _, t := range w.turns {
		rates = append(rates, t.Rate())
	}
	return median(rates)
}

// latency is the median of the turns' percentiles, in milliseconds.
func (w *work) latency(p percentile) float64 {
	var all []float64
	for _, t := range w.turns {
		micros := t.P50
		if p == p99 {
			micros = t.P99
		}
		all = append(all, float64(micros)/1000)
	}
	return median(all)
}

// micros of CPU that a service has spent on each request.
func (w *work) micros(service string) float64 {
	return float64(w.cpu[service].Microseconds()) / float64(w.requests)
}

func (w *work) microsOfAll() float64 {
	var sum float64
	for service := range w.cpu {
		if service != "wrk" {
			sum += w.micros(service)
		}
	}
	return sum
}

// cores that the system and wrk kept busy while wrk ran.
func (w *work) cores() float64 { return w.measured.Seconds() / w.elapsed.Seconds() }

// bytes that a request adds to a domain's journals, in one replica.
func (w *work) bytes(domain string) float64 {
	return float64(w.stored[domain].bytes) / float64(w.requests)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// count is a number without a fraction, empty for 0.
func count(n float64) string {
	if n < 0.05 {
		return ""
	}
	if n < 10 {
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

func decimal(n float64) string {
	if n < 0.05 {
		return ""
	}
	return fmt.Sprintf("%.1f", n)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// saturated is the share of the machine's cores from which on more partitions can't show.
const saturated = 0.9

// verdict says what the machine lets the table show.
func verdict(all []*measurement, cores int) string {
	var out strings.Builder
	for _, m := range all {
		for _, w := range []struct {
			title string
			of    *work
		}{{"reads", &m.reads}, {"creations", &m.creates}} {
			busy := w.of.machine.Seconds() / w.of.elapsed.Seconds() / float64(cores)
			others := max(w.of.machine-w.of.measured, 0).Seconds() / w.of.elapsed.Seconds()
			fmt.Fprintf(&out, "%s, %s: %.0f %% of %d cores busy", m.name, w.title, 100*busy, cores)
			if busy >= saturated {
				out.WriteString(", so that more partitions can't be faster here")
			}
			fmt.Fprintf(&out, "; %.2f cores by others than Quire, its stores and wrk (the kernel's own work among them)\n", others)
		}
	}
	return out.String()
}
