package main

import (
	"fmt"
	"slices"
	"strings"
)

// row is a line of the report, with a value for each system. It is empty where a system has none.
type row struct {
	title string
	cells []string
}

// markdown formats rows as a table.
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

// services are in the order in which a request passes through them.
func services() []string {
	return []string{"quire", "edge", "billing", "lite", bystanders, "nats", "mongo", "minio", "wrk"}
}

// called is the name of a service in the report.
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

// table is the report for people.
func table(all []*measurement) string {
	var head []string
	for _, m := range all {
		head = append(head, m.Name)
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
	add("4 KiB and fdatasync on that disk, ms", func(m *measurement) string { return fmt.Sprintf("%.2f", m.FsyncSeconds*1000) })
	addWork(add, all[0], "reads", "read", func(m *measurement) *figures { return &m.Reads })
	add(fmt.Sprintf("reads a second by %d connections", fewConnections), func(m *measurement) string { return count(m.Few.PerSecond) })
	addCost(add, fmt.Sprintf("read by %d connections", fewConnections), func(m *measurement) *figures { return &m.Few })
	addWork(add, all[0], "creations", "creation", func(m *measurement) *figures { return &m.Creates })
	for _, service := range services() {
		add("memory, MB: "+called(service), func(m *measurement) string { return count(float64(m.ResidentBytes[service]) / (1 << 20)) })
	}
	add("CPU without requests, ms a second", func(m *measurement) string {
		sum := 0.0
		for _, cores := range m.IdleCores {
			sum += cores
		}
		return count(sum * 1000)
	})
	add("billing journals at the end: messages", func(m *measurement) string { return count(float64(m.Audit.Messages)) })
	add("billing journals at the end: entries", func(m *measurement) string { return count(float64(m.Audit.Entries)) })
	add("audit, s", func(m *measurement) string { return fmt.Sprintf("%.2f", m.Audit.Seconds) })
	add("entries folded in a second of CPU", func(m *measurement) string { return count(m.Audit.foldSpeed()) })
	addStarts(add)
	for n, c := range journalCases() {
		add(fmt.Sprintf("one stream alone, %d × %d: messages a second", c.Sources, c.Waiting), func(m *measurement) string {
			if n >= len(m.Journal) {
				return ""
			}
			return count(m.Journal[n].Messages)
		})
	}
	return markdown(head, rows)
}

// addWork adds the rows for one kind of request.
func addWork(add func(string, func(*measurement) string), base *measurement, title, one string, of func(*measurement) *figures) {
	add(title+" a second", func(m *measurement) string { return count(of(m).PerSecond) })
	add(title+": share of one process's", func(m *measurement) string {
		if m == base {
			return ""
		}
		return fmt.Sprintf("%.2f", of(m).PerSecond/of(base).PerSecond)
	})
	add(title+": p50, ms", func(m *measurement) string { return fmt.Sprintf("%.1f", of(m).P50Millis) })
	add(title+": p99, ms", func(m *measurement) string { return fmt.Sprintf("%.1f", of(m).P99Millis) })
	add(title+": cores in use, Quire, stores and wrk", func(m *measurement) string { return fmt.Sprintf("%.2f", of(m).Cores) })
	add(title+": cores in use, whole machine", func(m *measurement) string { return fmt.Sprintf("%.2f", of(m).MachineCores) })
	addCost(add, one, of)
	add(title+": read model done after, s", func(m *measurement) string {
		return decimal(of(m).DrainSeconds / float64(len(of(m).Turns)))
	})
}

// addCost adds the rows for the cost of one request.
func addCost(add func(string, func(*measurement) string), one string, of func(*measurement) *figures) {
	for _, service := range services() {
		add("CPU µs a "+one+": "+called(service), func(m *measurement) string { return count(of(m).CPUMicrosEach[service]) })
	}
	add("CPU µs a "+one+": all but wrk", func(m *measurement) string { return count(of(m).CPUMicrosTotal) })
	add("items in a batch to billing, at a "+one, func(m *measurement) string { return decimal(of(m).ItemsInEachBatch["usage"]) })
	add("items in a batch to lite, at a "+one, func(m *measurement) string { return decimal(of(m).ItemsInEachBatch["lite"]) })
	add("billing journal, bytes a "+one, func(m *measurement) string { return count(of(m).JournalBytesEach["billing"]) })
	add("documents' journal, bytes a "+one, func(m *measurement) string { return count(of(m).JournalBytesEach["lite"]) })
}

// addStarts adds the rows for the starts of billing.
func addStarts(add func(string, func(*measurement) string)) {
	row := func(title string, cell func(s *starts) string) {
		add(title, func(m *measurement) string {
			if m.Starts == nil {
				return ""
			}
			return cell(m.Starts)
		})
	}
	row("billing ready after kill -9, from the journal, s", func(s *starts) string { return fmt.Sprintf("%.2f", s.FromJournalSeconds) })
	row("billing ready after kill -9, from a snapshot, s", func(s *starts) string { return fmt.Sprintf("%.2f", s.FromSnapshotSeconds) })
	for n, which := range []string{"", ", with more accounts"} {
		snapshot := func(title string, value func(snapshotSize) float64) {
			row(title, func(s *starts) string {
				if n >= len(s.Snapshots) {
					return ""
				}
				return count(value(s.Snapshots[n]))
			})
		}
		snapshot("snapshots of all partitions"+which+", bytes", func(s snapshotSize) float64 { return float64(s.Bytes) })
		snapshot("accounts in them"+which, func(s snapshotSize) float64 { return float64(s.Accounts) })
	}
	row("bytes for each account more (two quota keys used)", func(s *starts) string { return count(s.bytesPerAccount()) })
}

// count formats a number without a fraction, unless it is below 10. It is empty for 0.
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

// saturated is the share of busy cores above which more partitions can't be faster.
const saturated = 0.9

// verdict says how busy the machine was, which limits the meaning of the table.
func verdict(all []*measurement, cores int) string {
	var out strings.Builder
	for _, m := range all {
		for _, w := range []struct {
			title string
			of    *figures
		}{{"reads", &m.Reads}, {"creations", &m.Creates}} {
			busy := w.of.MachineCores / float64(cores)
			fmt.Fprintf(&out, "%s, %s: %.0f %% of %d cores busy", m.Name, w.title, 100*busy, cores)
			if busy >= saturated {
				out.WriteString(", so that more partitions can't be faster here")
			}
			fmt.Fprintf(&out, "; %.2f cores by others than Quire, its stores and wrk (the kernel's own work among them)\n",
				max(w.of.MachineCores-w.of.Cores, 0))
		}
	}
	return out.String()
}
