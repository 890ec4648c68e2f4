package main

import (
	"fmt"

	"quire.dev/tools/bench/internal/report"
)

// services are in the order in which a request passes through them.
func services() []string {
	return []string{"quire", "edge", "billing", "lite", bystanders, "nats", "mongo", "postgres", "minio", "wrk"}
}

// displayName is the name of a service in the report.
func displayName(service string) string {
	switch service {
	case "quire":
		return "the one process"
	case "nats":
		return "NATS, three servers"
	case "mongo":
		return "FerretDB in MongoDB's place"
	case "postgres":
		return "PostgreSQL"
	case "minio":
		return "MinIO"
	}
	return service
}

// lines adds lines to a table of measurements, which are its columns. The first column is one process.
type lines struct {
	report.Table
	all []*measurement
}

// add adds a line. figure returns 0 for a measurement without one.
func (l *lines) add(title string, figure func(m *measurement) float64) { l.addFor("", title, figure) }

// addFor is add with an id, by which programs find the line.
func (l *lines) addFor(id, title string, figure func(m *measurement) float64) {
	line := report.Line{ID: id, Title: title}
	for _, m := range l.all {
		line.Figures = append(line.Figures, figure(m))
	}
	l.Add(line)
}

// table compares the systems.
func table(all []*measurement) report.Table {
	l := &lines{all: all}
	for _, m := range all {
		l.Columns = append(l.Columns, m.Name)
	}
	reads := func(m *measurement) *figures { return &m.Reads }
	few := func(m *measurement) *figures { return &m.Few }
	creates := func(m *measurement) *figures { return &m.Creates }
	l.add("4 KiB and fdatasync on that disk, ms", func(m *measurement) float64 { return m.FsyncSeconds * 1000 })
	l.addWork("reads", reads)
	l.addCosts("get", "read", reads)
	l.add(fmt.Sprintf("reads a second by %d connections", fewConnections), func(m *measurement) float64 { return m.Few.PerSecond })
	l.addCosts("few", fmt.Sprintf("read by %d connections", fewConnections), few)
	l.addWork("creations", creates)
	l.addCosts("create", "creation", creates)
	l.add("creations: read model done after, s", func(m *measurement) float64 { return m.Creates.DrainSeconds / float64(len(m.Creates.Turns)) })
	for _, service := range services() {
		l.add("memory, MB: "+displayName(service), func(m *measurement) float64 { return float64(m.ResidentBytes[service]) / (1 << 20) })
	}
	l.add("CPU without requests, ms a second", func(m *measurement) (sum float64) {
		for _, cores := range m.IdleCores {
			sum += cores * 1000
		}
		return sum
	})
	l.add("billing journals at the end: messages", func(m *measurement) float64 { return float64(m.Audit.Messages) })
	l.add("billing journals at the end: entries", func(m *measurement) float64 { return float64(m.Audit.Entries) })
	l.add("audit, s", func(m *measurement) float64 { return m.Audit.Seconds })
	l.add("entries folded in a second of CPU", func(m *measurement) float64 { return m.Audit.foldSpeed() })
	l.addStarts()
	for n, c := range journalCases() {
		title := fmt.Sprintf("one stream alone, %d × %d: ", c.Sources, c.Waiting)
		stream := func(figure func(journalSpeed) float64) func(m *measurement) float64 {
			return func(m *measurement) float64 {
				if n >= len(m.Journal) {
					return 0
				}
				return figure(m.Journal[n])
			}
		}
		l.add(title+"messages a second", stream(func(j journalSpeed) float64 { return j.Messages }))
		l.add(title+"items a second", stream(func(j journalSpeed) float64 { return j.Items }))
	}
	return l.Table
}

// addWork adds the lines for one kind of request.
func (l *lines) addWork(title string, of func(*measurement) *figures) {
	l.add(title+" a second", func(m *measurement) float64 { return of(m).PerSecond })
	l.add(title+": share of one process's", func(m *measurement) float64 {
		if m == l.all[0] {
			return 0
		}
		return of(m).PerSecond / of(l.all[0]).PerSecond
	})
	l.add(title+": p50, ms", func(m *measurement) float64 { return of(m).P50Millis })
	l.add(title+": p99, ms", func(m *measurement) float64 { return of(m).P99Millis })
	l.add(title+": cores in use, Quire, stores and wrk", func(m *measurement) float64 { return of(m).Cores })
	l.add(title+": cores in use, whole machine", func(m *measurement) float64 { return of(m).MachineCores })
}

// addCosts adds the lines for the cost of one request. `make bench` reads one of them: a database would cost something else
// than the one in its place here.
func (l *lines) addCosts(id, one string, of func(*measurement) *figures) {
	for _, service := range services() {
		l.add("CPU µs a "+one+": "+displayName(service), func(m *measurement) float64 { return of(m).CPUMicrosEach[service] })
	}
	l.add("CPU µs a "+one+": all but wrk", func(m *measurement) float64 { return of(m).CPUMicrosTotal })
	l.addFor("cpu-"+id, "CPU µs a "+one+": all but wrk and the database", func(m *measurement) float64 {
		return of(m).CPUMicrosTotal - of(m).CPUMicrosEach["mongo"] - of(m).CPUMicrosEach["postgres"]
	})
	l.add("items in a batch to billing, at a "+one, func(m *measurement) float64 { return of(m).ItemsInEachBatch["usage"] })
	l.add("items in a batch to lite, at a "+one, func(m *measurement) float64 { return of(m).ItemsInEachBatch["lite"] })
	l.add("billing journal, bytes a "+one, func(m *measurement) float64 { return of(m).JournalBytesEach["billing"] })
	l.add("documents' journal, bytes a "+one, func(m *measurement) float64 { return of(m).JournalBytesEach["lite"] })
}

// addStarts adds the lines for the starts of billing.
func (l *lines) addStarts() {
	add := func(title string, figure func(s *starts) float64) {
		l.add(title, func(m *measurement) float64 {
			if m.Starts == nil {
				return 0
			}
			return figure(m.Starts)
		})
	}
	add("billing ready after kill -9, from the journal, s", func(s *starts) float64 { return s.FromJournalSeconds })
	add("billing ready after kill -9, from a snapshot, s", func(s *starts) float64 { return s.FromSnapshotSeconds })
	for n, which := range []string{"", ", with more accounts"} {
		snapshot := func(title string, figure func(snapshotSize) float64) {
			add(title, func(s *starts) float64 {
				if n >= len(s.Snapshots) {
					return 0
				}
				return figure(s.Snapshots[n])
			})
		}
		snapshot("snapshots of all partitions"+which+", bytes", func(s snapshotSize) float64 { return float64(s.Bytes) })
		snapshot("accounts in them"+which, func(s snapshotSize) float64 { return float64(s.Accounts) })
	}
	add("bytes for each account more (two quota keys used)", (*starts).bytesPerAccount)
}

// saturated is the share of busy cores above which more partitions can't be faster.
const saturated = 0.9

// busy says how busy the machine was, which limits the meaning of the table.
func busy(all []*measurement, cores int) (notes []string) {
	for _, m := range all {
		for _, w := range []struct {
			title string
			of    *figures
		}{{"reads", &m.Reads}, {"creations", &m.Creates}} {
			share := w.of.MachineCores / float64(cores)
			note := fmt.Sprintf("%s, %s: %.0f %% of %d cores busy", m.Name, w.title, 100*share, cores)
			if share >= saturated {
				note += ", so that more partitions can't be faster here"
			}
			notes = append(notes, note+fmt.Sprintf("; %.2f cores by others than Quire, its stores and wrk (the kernel's own work among them)",
				max(w.of.MachineCores-w.of.Cores, 0)))
		}
	}
	return notes
}
