package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"quire.dev/bench/internal/wrk"
)

// document is the report for programs. Times are seconds where nothing else is said.
type document struct {
	Made             time.Time    `json:"made"`
	Cores            int          `json:"cores"`
	FullAccountBytes int          `json:"fullAccountBytes"`
	Systems          []systemJSON `json:"systems"`
}

type systemJSON struct {
	Name          string             `json:"name"`
	Partitions    int                `json:"partitions"`
	FsyncSeconds  float64            `json:"fsyncSeconds"`
	IdleCores     map[string]float64 `json:"idleCores"`
	Reads         workJSON           `json:"reads"`
	Few           workJSON           `json:"readsByFewConnections"`
	Creates       workJSON           `json:"creates"`
	ResidentBytes map[string]uint64  `json:"residentBytes"`
	Audit         auditJSON          `json:"audit"`
	Starts        *startsJSON        `json:"starts,omitempty"`
	Failures      []string           `json:"failures,omitempty"`
}

type workJSON struct {
	Turns            []wrk.Result       `json:"turns"`
	PerSecond        float64            `json:"perSecond"`
	CPUMicrosEach    map[string]float64 `json:"cpuMicrosEach"`
	Cores            float64            `json:"cores"`
	MachineCores     float64            `json:"machineCores"`
	DrainSeconds     float64            `json:"drainSeconds"`
	JournalBytesEach map[string]float64 `json:"journalBytesEach"`
	JournalMessages  map[string]uint64  `json:"journalMessages"`
	ItemsInEachBatch map[string]float64 `json:"itemsInEachBatch"`
}

type auditJSON struct {
	Match      bool    `json:"match"`
	Messages   uint64  `json:"messages"`
	Entries    uint64  `json:"entries"`
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpuSeconds"`
}

type startsJSON struct {
	FromJournalSeconds  float64        `json:"fromJournalSeconds"`
	FromSnapshotSeconds float64        `json:"fromSnapshotSeconds"`
	Snapshots           []snapshotJSON `json:"snapshots"`
}

type snapshotJSON struct {
	Accounts int   `json:"accounts"`
	Bytes    int64 `json:"bytes"`
}

func (w *work) json() workJSON {
	j := workJSON{
		Turns: w.turns, PerSecond: w.rate(), Cores: w.cores(), MachineCores: w.machine.Seconds() / w.elapsed.Seconds(),
		DrainSeconds: w.drained.Seconds(), CPUMicrosEach: map[string]float64{}, JournalBytesEach: map[string]float64{},
		JournalMessages: map[string]uint64{}, ItemsInEachBatch: w.batches,
	}
	for service := range w.cpu {
		j.CPUMicrosEach[service] = w.micros(service)
	}
	for domain, s := range w.stored {
		j.JournalBytesEach[domain], j.JournalMessages[domain] = w.bytes(domain), s.messages
	}
	return j
}

func (m *measurement) json() systemJSON {
	j := systemJSON{
		Name: m.name, Partitions: m.partitions, FsyncSeconds: m.sync.Seconds(), IdleCores: map[string]float64{},
		Reads: m.reads.json(), Few: m.few.json(), Creates: m.creates.json(), ResidentBytes: m.resident, Failures: m.failures,
		Audit: auditJSON{
			Match: m.audit.match, Messages: m.audit.messages, Entries: m.audit.entries,
			Seconds: m.audit.took.Seconds(), CPUSeconds: m.audit.cpu.Seconds(),
		},
	}
	for service, used := range m.idle {
		j.IdleCores[service] = used.Seconds()
	}
	if m.starts != nil {
		j.Starts = &startsJSON{FromJournalSeconds: m.starts.fromJournal.Seconds(), FromSnapshotSeconds: m.starts.fromSnapshot.Seconds()}
		for _, s := range m.starts.snapshots {
			j.Starts.Snapshots = append(j.Starts.Snapshots, snapshotJSON{s.accounts, s.bytes})
		}
	}
	return j
}

// writeJSON stores the report.
func writeJSON(path string, all []*measurement, cores int) error {
	d := document{Made: time.Now().UTC().Truncate(time.Second), Cores: cores, FullAccountBytes: fullAccountBytes()}
	for _, m := range all {
		d.Systems = append(d.Systems, m.json())
	}
	data, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
